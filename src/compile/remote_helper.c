/* SPDX-License-Identifier: MIT */
/*
 * quern-remote: the one program of quern that reaches a network. libquern starts it where a remote
 * cache is configured (QUERN_REMOTE), at the first look-up that no nearer place answers, and says
 * what to fetch, or to put there, by frames (protocol.h) on descriptor 0; it ends when the host
 * hangs up. It is confined like the compiler's process, but may connect (worker_sandbox.c). What a
 * server sends is bounded here in size and time, and passed on as it is: the host judges it.
 *
 * libcurl does the work (remote_curl.h), on as few connections as the server lets it, and signs
 * requests to an S3 object store. Nothing of the library is linked in.
 *
 * This file is long because a transfer with its options, bounds, turn and answer is one story.
 */
#include "compile/remote_curl.h"
#include "compile/remote_helper.h"
#include "compile/worker.h"

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define CONNECT_MS 3000
/* A transfer that stays below this rate for three tenths of the time that it may take is given up,
 * for 3 s if that is 10 s. At this rate an entry of 16 KB takes 8 s. */
#define SLOW_BYTES_PER_S 2048
#define SLOW_PART(ms)    ((ms) * 3 / 10)
#define REDIRECTS        3
#define HEADER_BYTES_MAX ((size_t)64 << 10) /* of all responses to one fetch */
#define CERTIFICATES_MAX ((size_t)8 << 20)  /* bytes of their file */
#define CONNECTIONS      8                  /* where the server does not multiplex */
#define STREAMS          100                /* where it does, on one; RFC 9113 asks for no fewer */
/* The SHA-256 of no bytes, which are what a request without a body sends (FIPS 180-4). */
#define SHA256_OF_NOTHING "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
/* Memory that one answer leaves to the next. Kernels are far smaller. */
#define FRAME_KEPT_BYTES ((size_t)1 << 20)
/* The most bytes of bodies that are held at once, over all fetches. */
#define HELD_BYTES_MAX ((size_t)64 << 20)

enum { STATUS_USAGE = 2, STATUS_PROTOCOL = 4 };

struct curl {
    CURL_FUNCTIONS(WORKER_POINTER)
};

struct fetch {
    struct fetch *next;
    uint64_t id, begun;
    CURL *easy;
    bool under_way; /* libcurl has it; else it waits for its turn */
    uint8_t *body;
    size_t size, header_bytes;
    uint8_t *upload; /* what is put; null: it is a fetch */
    size_t upload_size, uploaded;
    char *sha256;   /* of what is put, in hexadecimal digits; null: it is a fetch */
    bool if_absent; /* it is put only where the server has nothing of that name */
    struct curl_slist *headers;
    const char *broken; /* why this side ended the transfer; null: it did not */
    char error[CURL_ERROR_SIZE];
};

/* The one service of this process. */
static struct {
    struct curl curl;
    char *url; /* without a slash at its end */
    long follow;
    long patience_ms; /* for one fetch, from its beginning to its end, redirects included */
    struct curl_blob certificates; /* empty: those of the machine */
    char *provider; /* how requests are signed, in libcurl's words; null: they are not */
    char *key_id, *secret, *token; /* and with what; token may be "" */
    CURLM *multi;
    struct fetch *first;    /* of all, in the order of their frames */
    size_t under_way, room; /* how many libcurl has, and may have */
    size_t held;
} s = {.room = CONNECTIONS};

static uint64_t microseconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

/* ---- One fetch ------------------------------------------------------------------------------- */

/* libcurl's CURLOPT_WRITEFUNCTION: anything but the whole size ends the transfer. */
static size_t take_body(char *bytes, size_t one, size_t size, void *user)
{
    struct fetch *const f = user;

    (void)one;
    if (size > FETCH_BYTES_MAX - f->size)
        f->broken = "the body is larger than any entry";
    else if (size > HELD_BYTES_MAX - s.held)
        f->broken = "too many large bodies at once";
    if (f->broken)
        return 0;
    uint8_t *const grown = realloc(f->body, f->size + size + 1);
    if (!grown) {
        f->broken = "out of memory";
        return 0;
    }
    memcpy(grown + f->size, bytes, size);
    f->body = grown;
    f->size += size;
    s.held += size;
    return size;
}

/* And CURLOPT_HEADERFUNCTION. */
static size_t take_header(char *bytes, size_t one, size_t size, void *user)
{
    struct fetch *const f = user;

    (void)bytes;
    (void)one;
    f->header_bytes += size;
    if (f->header_bytes > HEADER_BYTES_MAX)
        f->broken = "the header is too large";
    return f->broken ? 0 : size;
}

/* CURLOPT_READFUNCTION: gives what is put. */
static size_t give_upload(char *to, size_t one, size_t room, void *user)
{
    struct fetch *const f = user;
    const size_t left = f->upload_size - f->uploaded, n = left < one * room ? left : one * room;

    memcpy(to, f->upload + f->uploaded, n);
    f->uploaded += n;
    return n;
}

/* CURLOPT_SEEKFUNCTION: to put it again, on another connection. */
static int rewind_upload(void *user, int64_t offset, int origin)
{
    struct fetch *const f = user;

    if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > f->upload_size)
        return CURL_SEEKFUNC_FAIL;
    f->uploaded = (size_t)offset;
    return CURL_SEEKFUNC_OK;
}

static void fetch_free(struct fetch *f)
{
    struct fetch **link = &s.first;

    while (*link && *link != f)
        link = &(*link)->next;
    if (*link)
        *link = f->next;
    if (f->under_way) {
        s.curl.multi_remove_handle(s.multi, f->easy);
        s.under_way--;
    }
    if (f->easy)
        s.curl.easy_cleanup(f->easy);
    s.curl.slist_free_all(f->headers);
    s.held -= f->size;
    free(f->body);
    free(f->upload);
    free(f->sha256);
    free(f);
}

static void answer(uint64_t id, uint64_t begun, enum reply_outcome outcome, const char *message,
                   const struct fetch *f)
{
    static struct fields frame = {.grow = realloc}; /* its memory serves all answers */

    frame.size = 0;
    fields_add_u32(&frame, outcome);
    fields_add_u64(&frame, microseconds() - begun);
    fields_add_text(&frame, message);
    fields_add_bytes(&frame, f ? f->body : NULL, f ? f->size : 0);
    if (!write_frame(0, FRAME_REPLY, id, &frame))
        _exit(STATUS_PROTOCOL);
    if (frame.capacity > FRAME_KEPT_BYTES) {
        free(frame.bytes);
        frame = (struct fields){.grow = realloc};
    }
}

static void refuse(struct fetch *f, const char *why)
{
    answer(f->id, f->begun, REPLY_UNABLE, why, NULL);
    fetch_free(f);
}

/* Whether a transfer that the server did not answer failed for a reason that all others would meet:
 * its name, the connection, its certificate, or silence. */
static bool is_unreachable(int result)
{
    return result == CURLE_COULDNT_RESOLVE_HOST || result == CURLE_COULDNT_CONNECT ||
           result == CURLE_OPERATION_TIMEDOUT || result == CURLE_SSL_CONNECT_ERROR ||
           result == CURLE_PEER_FAILED_VERIFICATION;
}

/* Refuses all fetches that wait for their turn, when one that had it has found the server to be
 * unreachable: each would take as long to find that out. */
static void refuse_waiting(const char *why)
{
    for (struct fetch *f = s.first, *next; f; f = next) {
        next = f->next;
        if (!f->under_way)
            refuse(f, why);
    }
}

/* Answers a fetch that has ended. */
static void finish(struct fetch *f, int result)
{
    char text[CURL_ERROR_SIZE + 64], code[S3_CODE_BYTES] = "";
    long status = 0, version = 0;

    s.curl.easy_getinfo(f->easy, CURLINFO_RESPONSE_CODE, &status);
    s.curl.easy_getinfo(f->easy, CURLINFO_HTTP_VERSION, &version);
    s.room = version >= CURL_HTTP_VERSION_2_0 ? STREAMS : CONNECTIONS;
    if (s.provider && status != 200) /* else the body is an entry */
        s3_read_code(f->body, f->size, code);
    const bool kept = f->upload && (status == 200 || status == 201 || status == 204);
    if (result == CURLE_OK && kept)
        answer(f->id, f->begun, REPLY_DONE, "", NULL);
    else if (result == CURLE_OK && !f->upload && status == 200)
        answer(f->id, f->begun, REPLY_DONE, "", f);
    else if (result == CURLE_OK && !f->upload && (status == 404 || status == 410) &&
             strcmp(code, "NoSuchBucket"))
        answer(f->id, f->begun, REPLY_ABSENT, "", NULL);
    else if (result == CURLE_OK && f->if_absent && (status == 412 || status == 409))
        answer(f->id, f->begun, REPLY_TAKEN, "", NULL); /* 409: by one who puts it right now */
    else {
        if (result == CURLE_OK)
            snprintf(text, sizeof text, "the server's answer has status %ld%s%s%s", status,
                     *code ? ", " : "", code, s3_hint(code));
        else
            snprintf(text, sizeof text, "%s",
                     f->broken   ? f->broken
                     : *f->error ? f->error
                                 : s.curl.easy_strerror(result));
        answer(f->id, f->begun, REPLY_UNABLE, text, NULL);
        if (!status && is_unreachable(result))
            refuse_waiting(text);
    }
    fetch_free(f);
}

static bool add_header(struct fetch *f, const char *name, const char *value)
{
    char *line = NULL;

    if (asprintf(&line, "%s: %s", name, value) < 0)
        return false;
    struct curl_slist *const longer = s.curl.slist_append(f->headers, line);
    free(line);
    if (longer)
        f->headers = longer;
    return longer;
}

/* Has libcurl sign the request, with all headers that are given here. */
static bool set_signature(struct fetch *f)
{
    const struct curl *const c = &s.curl;
    int bad = 0;

    bad |= !add_header(f, "x-amz-content-sha256", f->sha256 ? f->sha256 : SHA256_OF_NOTHING);
    bad |= *s.token && !add_header(f, "x-amz-security-token", s.token);
    bad |= c->easy_setopt(f->easy, CURLOPT_AWS_SIGV4, s.provider);
    bad |= c->easy_setopt(f->easy, CURLOPT_USERNAME, s.key_id);
    bad |= c->easy_setopt(f->easy, CURLOPT_PASSWORD, s.secret);
    return !bad;
}

/* The transfer's options. An option that this libcurl lacks would be left out, and with it a bound:
 * the fetch is then not begun. */
static bool set_up(struct fetch *f, const char *url)
{
    const struct curl *const c = &s.curl;
    const long http = CURLPROTO_HTTP | CURLPROTO_HTTPS;
    /* a redirection never leads from a line that is proven to one that is not */
    const long after = strncmp(s.url, "https:", 6) ? http : CURLPROTO_HTTPS;
    int bad = 0;

    bad |= c->easy_setopt(f->easy, CURLOPT_URL, url);
    bad |= c->easy_setopt(f->easy, CURLOPT_PRIVATE, f);
    bad |= c->easy_setopt(f->easy, CURLOPT_ERRORBUFFER, f->error);
    bad |= c->easy_setopt(f->easy, CURLOPT_PROXY, "");
    bad |= c->easy_setopt(f->easy, CURLOPT_USERAGENT, "quern/" PROTOCOL_RELEASE);
    bad |= c->easy_setopt(f->easy, CURLOPT_NOSIGNAL, 1L);
    bad |= c->easy_setopt(f->easy, CURLOPT_PROTOCOLS, http);
    bad |= c->easy_setopt(f->easy, CURLOPT_REDIR_PROTOCOLS, after);
    bad |= c->easy_setopt(f->easy, CURLOPT_FOLLOWLOCATION, f->upload ? 0 : s.follow);
    bad |= c->easy_setopt(f->easy, CURLOPT_MAXREDIRS, (long)REDIRECTS);
    bad |= c->easy_setopt(f->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)CONNECT_MS);
    bad |= c->easy_setopt(f->easy, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_PER_S);
    bad |= c->easy_setopt(f->easy, CURLOPT_LOW_SPEED_TIME, SLOW_PART(s.patience_ms) / 1000);
    bad |= c->easy_setopt(f->easy, CURLOPT_MAXFILESIZE_LARGE, (int64_t)FETCH_BYTES_MAX);
    bad |= c->easy_setopt(f->easy, CURLOPT_WRITEFUNCTION, take_body);
    bad |= c->easy_setopt(f->easy, CURLOPT_WRITEDATA, f);
    bad |= c->easy_setopt(f->easy, CURLOPT_HEADERFUNCTION, take_header);
    bad |= c->easy_setopt(f->easy, CURLOPT_HEADERDATA, f);
    if (f->upload) {
        bad |= c->easy_setopt(f->easy, CURLOPT_UPLOAD, 1L);
        bad |= c->easy_setopt(f->easy, CURLOPT_INFILESIZE_LARGE, (int64_t)f->upload_size);
        bad |= c->easy_setopt(f->easy, CURLOPT_READFUNCTION, give_upload);
        bad |= c->easy_setopt(f->easy, CURLOPT_READDATA, f);
        bad |= c->easy_setopt(f->easy, CURLOPT_SEEKFUNCTION, rewind_upload);
        bad |= c->easy_setopt(f->easy, CURLOPT_SEEKDATA, f);
    }
    if (s.provider)
        bad |= !set_signature(f);
    if (f->if_absent)
        bad |= !add_header(f, "If-None-Match", "*");
    if (f->headers)
        bad |= c->easy_setopt(f->easy, CURLOPT_HTTPHEADER, f->headers);
    if (s.certificates.len)
        bad |= c->easy_setopt(f->easy, CURLOPT_CAINFO_BLOB, &s.certificates);
    /* a libcurl without HTTP/2 refuses these two, and does without */
    c->easy_setopt(f->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    c->easy_setopt(f->easy, CURLOPT_PIPEWAIT, 1L);
    return !bad;
}

/* Begins to fetch a name, or to put there what `what` says, whose pointers it owns. */
static void begin(uint64_t id, const char *name, const struct fetch *what)
{
    struct fetch *const f = calloc(1, sizeof *f), **last = &s.first;
    const uint64_t now = microseconds();
    char *url = NULL;

    if (!f || asprintf(&url, "%s/%s", s.url, name) < 0) {
        free(f);
        free(what->upload);
        free(what->sha256);
        answer(id, now, REPLY_UNABLE, "out of memory", NULL);
        return;
    }
    *f = *what;
    f->id = id;
    f->begun = now;
    f->easy = s.curl.easy_init();
    while (*last)
        last = &(*last)->next;
    *last = f;
    if (!f->easy || !set_up(f, url))
        refuse(f, "libcurl does not take the transfer's options");
    free(url);
}

/* Gives libcurl the fetches that have waited longest, as many as it can work at: what it had beyond
 * that would wait there for a connection, and libcurl 7.88 forgets some of those until a second has
 * passed, with all connections idle. A fetch has its time from when the host asked for it, so that
 * the time that it waited is taken off. */
static void start(void)
{
    for (struct fetch *f = s.first, *next; f; f = next) {
        const long left = s.patience_ms - (long)((microseconds() - f->begun) / 1000);
        next = f->next;
        if (f->under_way)
            continue;
        if (left <= 0) {
            refuse(f, "earlier transfers took all of its time");
        } else if (s.under_way < s.room) {
            f->under_way = s.curl.easy_setopt(f->easy, CURLOPT_TIMEOUT_MS, left) == CURLE_OK &&
                           s.curl.multi_add_handle(s.multi, f->easy) == CURLM_OK;
            s.under_way += f->under_way;
            if (!f->under_way)
                refuse(f, "libcurl does not take the transfer");
        }
    }
}

/* ---- The service ----------------------------------------------------------------------------- */

/* Does what the next frame says; ends the process when the host has hung up. */
static void obey(void)
{
    struct frame_header header;
    uint8_t *payload = NULL;

    if (!read_frame(0, &header, &payload))
        _exit(0);
    struct field_reader request = {payload, payload + header.bytes, false};
    if (header.kind == FRAME_FETCH) {
        char *const name = field_text(&request);
        if (!fields_done(&request))
            _exit(STATUS_PROTOCOL);
        begin(header.id, name, &(struct fetch){0});
        free(name);
    } else if (header.kind == FRAME_STORE) {
        char *const name = field_text(&request);
        struct fetch what = {.sha256 = field_text(&request), .if_absent = field_u32(&request)};
        const uint8_t *const bytes = field_bytes(&request, &what.upload_size);
        what.upload = malloc(what.upload_size + 1);
        if (!fields_done(&request) || !what.upload || what.upload_size > FETCH_BYTES_MAX)
            _exit(STATUS_PROTOCOL);
        memcpy(what.upload, bytes, what.upload_size);
        begin(header.id, name, &what);
        free(name);
    } else if (header.kind == FRAME_CANCEL) {
        struct fetch *f = s.first;
        while (f && f->id != header.id)
            f = f->next;
        if (f)
            fetch_free(f);
    } else {
        _exit(STATUS_PROTOCOL);
    }
    free(payload);
}

static _Noreturn void serve_fetches(void)
{
    for (;;) {
        struct pollfd host = {0, POLLIN, 0};
        struct curl_waitfd wait = {0, CURL_WAIT_POLLIN, 0};
        const struct CURLMsg *message;
        int running = 0, left = 0;

        /* all that the host has said, before the next wait: fetches that are begun together share
         * connections */
        while (poll(&host, 1, 0) > 0)
            obey();
        start();
        s.curl.multi_perform(s.multi, &running);
        while ((message = s.curl.multi_info_read(s.multi, &left))) {
            struct fetch *f = NULL;
            if (message->msg != CURLMSG_DONE)
                continue;
            const int result = message->data.result;
            s.curl.easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &f);
            finish(f, result);
        }
        start(); /* in the places of those */
        s.curl.multi_wait(s.multi, &wait, 1, s.first ? 1000 : 60000, NULL);
    }
}

/* Reads the file of certificates, as none can be read later. Null, or why it cannot be. */
static const char *read_certificates(const char *path)
{
    struct curl_blob *const c = &s.certificates;
    FILE *const f = *path ? fopen(path, "rbe") : NULL;

    if (!*path)
        return NULL;
    c->data = f ? malloc(CERTIFICATES_MAX) : NULL;
    c->len = c->data ? fread(c->data, 1, CERTIFICATES_MAX, f) : 0;
    if (f)
        fclose(f);
    return c->len && c->len < CERTIFICATES_MAX ? NULL
                                               : "the certificates of SSL_CERT_FILE cannot be read";
}

/* Loads libcurl; null, or why there is none. */
static const char *load_curl(void)
{
    static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};
#define NEEDED(member, result, symbol, parameters) {(void **)&s.curl.member, symbol},
    const struct worker_function needed[] = {CURL_FUNCTIONS(NEEDED)};
    struct reply reply = {.message.grow = realloc};
    void *library = NULL;

    for (size_t i = 0; i < sizeof names / sizeof *names && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return "there is no libcurl.so.4 here: install libcurl";
    if (!find_functions(library, "libcurl", "curl_", needed, sizeof needed / sizeof *needed,
                        &reply))
        return "libcurl.so.4 lacks a function that is called";
    if (s.curl.global_init(CURL_GLOBAL_ALL) || !(s.multi = s.curl.multi_init()))
        return "libcurl cannot be initialised";
    s.curl.multi_setopt(s.multi, CURLMOPT_PIPELINING, CURLPIPE_MULTIPLEX);
    s.curl.multi_setopt(s.multi, CURLMOPT_MAX_HOST_CONNECTIONS, (long)CONNECTIONS);
    return NULL;
}

/* Reads what is to be signed with, if anything is. */
static bool read_credentials(struct field_reader *config)
{
    char *const region = field_text(config);

    s.key_id = field_text(config);
    s.secret = field_text(config);
    s.token = field_text(config);
    return !*region || asprintf(&s.provider, "aws:amz:%s:s3", region) >= 0;
}

int main(int argc, char **argv)
{
    struct frame_header header;
    uint8_t *payload = NULL;
    struct fields ready = {.grow = realloc};
    char level[128];

    if (argc != 2 || strcmp(argv[1], "serve")) {
        fprintf(stderr,
                "quern-remote is started by libquern to fetch from a remote cache; it has no "
                "use of its own (%s)\n",
                PROTOCOL_BUILD);
        return STATUS_USAGE;
    }
    sandbox_limits();
    prctl(PR_SET_NAME, "quern-remote");
    umask(077);
    if (!read_frame(0, &header, &payload) || header.kind != FRAME_CONFIGURE)
        return STATUS_PROTOCOL;
    struct field_reader config = {payload, payload + header.bytes, false};
    char *const build = field_text(&config);
    s.url = field_text(&config);
    s.follow = (long)field_u32(&config);
    s.patience_ms = (long)field_u32(&config);
    char *const certificates = field_text(&config);
    if (!read_credentials(&config) || !fields_done(&config))
        return STATUS_PROTOCOL;
    const char *trouble = strcmp(build, PROTOCOL_BUILD) ? "it is of another release" : load_curl();
    if (!trouble)
        trouble = read_certificates(certificates);
    if (!trouble)
        trouble = s.provider ? s3_check_curl(s.curl.version()) : NULL;
    sandbox_enter(NULL, -1, level, sizeof level);
    fields_add_text(&ready, PROTOCOL_BUILD);
    fields_add_text(&ready, level);
    fields_add_text(&ready, trouble ? trouble : "");
    fields_add_text(&ready, trouble ? "" : s.curl.version());
    if (!write_frame(0, FRAME_READY, header.id, &ready) || trouble)
        return STATUS_PROTOCOL;
    free(ready.bytes);
    serve_fetches();
}

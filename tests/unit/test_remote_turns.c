/* SPDX-License-Identifier: MIT */
/*
 * How many transfers quern-remote gives libcurl at once, and in which order: as many as there are
 * connections, or streams where the server multiplexes. What libcurl 7.88 had beyond that stood
 * still, now and then, for a second. The helper runs in a child with functions in libcurl's place,
 * which answer the transfer that they have had longest; the body that a fetch gets says how many
 * they had then.
 */
int helper_main(int argc, char **argv);
#define main helper_main
#include "compile/remote_helper.c"
#undef main

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#define FETCHES 120

/* One transfer: its options, as far as an answer needs them. */
struct transfer {
    void *owner;
    size_t (*write)(char *, size_t, size_t, void *);
    void *to;
};

static long version_answered;         /* a value of CURLINFO_HTTP_VERSION */
static struct transfer *has[FETCHES]; /* what libcurl has, in the order in which it got them */
static size_t has_count;
static struct transfer *done;

static CURL *make(void)
{
    return calloc(1, sizeof(struct transfer));
}

static int set(CURL *easy, int option, ...)
{
    struct transfer *const t = easy;
    va_list ap;

    va_start(ap, option);
    if (option == CURLOPT_PRIVATE)
        t->owner = va_arg(ap, void *);
    else if (option == CURLOPT_WRITEFUNCTION)
        t->write = va_arg(ap, size_t (*)(char *, size_t, size_t, void *));
    else if (option == CURLOPT_WRITEDATA)
        t->to = va_arg(ap, void *);
    va_end(ap);
    return CURLE_OK;
}

static int get_info(CURL *easy, int which, ...)
{
    va_list ap;

    va_start(ap, which);
    if (which == CURLINFO_PRIVATE)
        *va_arg(ap, void **) = ((struct transfer *)easy)->owner;
    else
        *va_arg(ap, long *) = which == CURLINFO_RESPONSE_CODE ? 200 : version_answered;
    va_end(ap);
    return CURLE_OK;
}

static void clean_up(CURL *easy)
{
    free(easy);
}

static void free_list(struct curl_slist *list)
{
    (void)list;
}

static int add(CURLM *multi, CURL *easy)
{
    (void)multi;
    has[has_count++] = easy;
    return CURLM_OK;
}

static int take_away(CURLM *multi, CURL *easy)
{
    size_t kept = 0;

    (void)multi;
    for (size_t i = 0; i < has_count; i++)
        if (has[i] != easy)
            has[kept++] = has[i];
    has_count = kept;
    return CURLM_OK;
}

static int perform(CURLM *multi, int *running)
{
    char body[8];

    (void)multi;
    *running = (int)has_count;
    done = has_count ? has[0] : NULL;
    if (done)
        done->write(body, 1, (size_t)snprintf(body, sizeof body, "%zu", has_count), done->to);
    return CURLM_OK;
}

static struct CURLMsg *next_message(CURLM *multi, int *left)
{
    static struct CURLMsg message;

    (void)multi;
    *left = 0;
    message = (struct CURLMsg){.msg = CURLMSG_DONE, .easy_handle = done};
    done = NULL;
    return message.easy_handle ? &message : NULL;
}

/* Waits for the host alone: servers have always answered. */
static int await_host(CURLM *multi, struct curl_waitfd *fds, unsigned count, int ms, int *ready)
{
    struct pollfd host = {fds->fd, POLLIN, 0};

    (void)multi;
    (void)count;
    (void)ready;
    poll(&host, 1, has_count ? 0 : ms);
    return CURLM_OK;
}

static _Noreturn void serve_in_child(int sock)
{
    dup2(sock, 0);
    s.curl = (struct curl){.easy_init = make,
                           .easy_setopt = set,
                           .easy_getinfo = get_info,
                           .easy_cleanup = clean_up,
                           .slist_free_all = free_list,
                           .multi_add_handle = add,
                           .multi_remove_handle = take_away,
                           .multi_perform = perform,
                           .multi_wait = await_host,
                           .multi_info_read = next_message};
    s.url = strdup("https://cache.example");
    serve_fetches();
}

/* Asks for FETCHES names before the helper begins, and returns how many transfers libcurl had when
 * it answered each. The answers come in the order of the questions. */
static void fetch_all(long version, long had[FETCHES])
{
    const int room = 1 << 20; /* bytes, for all questions, which nobody reads at first */
    int ends[2];

    version_answered = version;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    for (uint64_t i = 0; i < FETCHES; i++) {
        struct fields frame = {.grow = realloc};
        fields_add_text(&frame, "v1/objects/00/11");
        assert_true(write_frame(ends[1], FRAME_FETCH, i + 1, &frame));
        free(frame.bytes);
    }
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        serve_in_child(ends[0]);
    }
    close(ends[0]);
    for (uint64_t i = 0; i < FETCHES; i++) {
        struct frame_header header;
        uint8_t *payload = NULL;
        size_t size;
        char text[8] = "";
        assert_true(read_frame(ends[1], &header, &payload));
        struct field_reader r = {payload, payload + header.bytes, false};
        assert_int_equal(field_u32(&r), REPLY_DONE);
        field_u64(&r);
        free(field_text(&r));
        const uint8_t *const body = field_bytes(&r, &size);
        assert_true(fields_done(&r) && size < sizeof text);
        memcpy(text, body, size);
        had[i] = strtol(text, NULL, 10);
        assert_int_equal(header.id, i + 1);
        free(payload);
    }
    close(ends[1]); /* which ends the helper */
    waitpid(child, NULL, 0);
}

static void connections_limit_what_libcurl_has(void **state)
{
    long had[FETCHES];

    (void)state;
    fetch_all(CURL_HTTP_VERSION_2_0 - 1, had); /* HTTP/1.1 */
    for (size_t i = 0; i < FETCHES; i++)
        assert_int_equal(had[i], FETCHES - i < CONNECTIONS ? FETCHES - i : CONNECTIONS);
}

static void streams_do_where_the_server_multiplexes(void **state)
{
    long had[FETCHES];

    (void)state;
    fetch_all(CURL_HTTP_VERSION_2_0, had);
    assert_int_equal(had[0], CONNECTIONS); /* nothing is known of the server yet */
    for (size_t i = 1; i < FETCHES; i++)
        assert_int_equal(had[i], FETCHES - i < STREAMS ? FETCHES - i : STREAMS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connections_limit_what_libcurl_has),
        cmocka_unit_test(streams_do_where_the_server_multiplexes),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

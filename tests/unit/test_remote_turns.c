/* SPDX-License-Identifier: MIT */
/*
 * How many transfers quern-remote gives libcurl at once, and in which order: as many as there are
 * connections, or streams where the server multiplexes. What libcurl 7.88 had beyond that stood
 * still, now and then, for a second. And what becomes of those that wait for their turn. The helper
 * runs in a child with functions in libcurl's place, which end the transfer that they have had
 * longest; the body that a fetch gets says how many they had then. Its clock is one of the test's.
 */
#include <time.h>

static int test_clock(clockid_t clock, struct timespec *t);
int helper_main(int argc, char **argv);
#define main          helper_main
#define clock_gettime test_clock
#include "compile/remote_helper.c"
#undef main
#undef clock_gettime

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

#define FETCHES    120
#define PATIENCE_S 10 /* for one fetch, as hosts have it that do not say otherwise */

/* One transfer: its options, as far as an answer needs them. */
struct transfer {
    void *owner;
    size_t (*write)(char *, size_t, size_t, void *);
    void *to;
};

/* What the server of a test does. */
static struct {
    long version;        /* a value of CURLINFO_HTTP_VERSION */
    int result;          /* of each transfer */
    long answer_seconds; /* how long it takes for each */
} server;
static long now;                      /* in seconds */
static struct transfer *has[FETCHES]; /* what libcurl has, in the order in which it got them */
static size_t has_count;
static struct transfer *done;

static int test_clock(clockid_t clock, struct timespec *t)
{
    (void)clock;
    *t = (struct timespec){.tv_sec = 1000 + now};
    return 0;
}

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
        *va_arg(ap, long *) = server.result                     ? 0
                              : which == CURLINFO_RESPONSE_CODE ? 200
                                                                : server.version;
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
    now += done ? server.answer_seconds : 0;
    if (done && !server.result)
        done->write(body, 1, (size_t)snprintf(body, sizeof body, "%zu", has_count), done->to);
    return CURLM_OK;
}

static struct CURLMsg *next_message(CURLM *multi, int *left)
{
    static struct CURLMsg message;

    (void)multi;
    *left = 0;
    message =
        (struct CURLMsg){.msg = CURLMSG_DONE, .easy_handle = done, .data.result = server.result};
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

static const char *error_text(int result)
{
    (void)result;
    return "no route to it";
}

static _Noreturn void serve_in_child(int sock)
{
    dup2(sock, 0);
    s.curl = (struct curl){.easy_init = make,
                           .easy_setopt = set,
                           .easy_getinfo = get_info,
                           .easy_cleanup = clean_up,
                           .easy_strerror = error_text,
                           .slist_free_all = free_list,
                           .multi_add_handle = add,
                           .multi_remove_handle = take_away,
                           .multi_perform = perform,
                           .multi_wait = await_host,
                           .multi_info_read = next_message};
    s.url = strdup("https://cache.example");
    s.patience_ms = PATIENCE_S * 1000;
    serve_fetches();
}

/* What a fetch was answered. */
struct got {
    enum reply_outcome outcome;
    long had;         /* how many transfers libcurl had then */
    uint64_t turn;    /* of the answers, from 0 on */
    char message[80]; /* why there is no body */
};

static void ask(int sock, enum frame_kind kind, uint64_t id)
{
    struct fields frame = {.grow = realloc};

    if (kind == FRAME_FETCH)
        fields_add_text(&frame, "v1/objects/00/11");
    assert_true(write_frame(sock, kind, id, &frame));
    free(frame.bytes);
}

static uint64_t read_answer(int sock, uint64_t turn, struct got *got)
{
    struct frame_header header;
    uint8_t *payload = NULL;
    char number[8] = "";
    size_t size;

    assert_true(read_frame(sock, &header, &payload));
    assert_in_range(header.id, 1, FETCHES);
    struct got *const g = &got[header.id - 1];
    struct field_reader r = {payload, payload + header.bytes, false};
    g->outcome = (enum reply_outcome)field_u32(&r);
    field_u64(&r);
    char *const message = field_text(&r);
    snprintf(g->message, sizeof g->message, "%s", message);
    free(message);
    const uint8_t *const body = field_bytes(&r, &size);
    assert_true(fields_done(&r) && size < sizeof number);
    memcpy(number, body, size);
    g->had = strtol(number, NULL, 10);
    g->turn = turn;
    free(payload);
    return header.id;
}

/* Asks for FETCHES names, and takes the question back of `cancelled` if that is not 0, before the
 * helper begins; what it answered to each. */
static void fetch_all(uint64_t cancelled, struct got got[FETCHES])
{
    const int room = 1 << 20; /* bytes, for all questions, which nobody reads at first */
    int ends[2], status;

    memset(got, 0, FETCHES * sizeof *got);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    for (uint64_t i = 0; i < FETCHES; i++)
        ask(ends[1], FRAME_FETCH, i + 1);
    if (cancelled)
        ask(ends[1], FRAME_CANCEL, cancelled);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        close(ends[1]);
        serve_in_child(ends[0]);
    }
    close(ends[0]);
    for (uint64_t i = 0; i < FETCHES - (cancelled != 0); i++)
        assert_int_not_equal(read_answer(ends[1], i, got), cancelled);
    close(ends[1]); /* which ends the helper */
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

static void connections_limit_what_libcurl_has(void **state)
{
    struct got got[FETCHES];

    (void)state;
    server.version = CURL_HTTP_VERSION_2_0 - 1; /* HTTP/1.1 */
    fetch_all(0, got);
    for (size_t i = 0; i < FETCHES; i++) {
        assert_int_equal(got[i].had, FETCHES - i < CONNECTIONS ? FETCHES - i : CONNECTIONS);
        assert_int_equal(got[i].turn, i);
    }
}

static void streams_do_where_the_server_multiplexes(void **state)
{
    struct got got[FETCHES];

    (void)state;
    server.version = CURL_HTTP_VERSION_2_0;
    fetch_all(0, got);
    assert_int_equal(got[0].had, CONNECTIONS); /* nothing is known of the server yet */
    for (size_t i = 1; i < FETCHES; i++)
        assert_int_equal(got[i].had, FETCHES - i < STREAMS ? FETCHES - i : STREAMS);
}

/* Of a server that takes a second for each, one after another. The last fetch that is given to it
 * is so before its own ten seconds are over. */
static void waiting_takes_of_the_time_of_a_fetch(void **state)
{
    struct got got[FETCHES];

    (void)state;
    server.version = CURL_HTTP_VERSION_2_0 - 1;
    server.answer_seconds = 1;
    fetch_all(0, got);
    for (size_t i = 0; i < FETCHES; i++) {
        const bool begun = i < CONNECTIONS + PATIENCE_S - 1;
        assert_int_equal(got[i].outcome, begun ? REPLY_DONE : REPLY_UNABLE);
        if (!begun)
            assert_string_equal(got[i].message, "earlier transfers took all of its time");
    }
}

/* Where one cannot connect, those that wait are not made to try, one after another. */
static void an_unreachable_server_is_met_once(void **state)
{
    struct got got[FETCHES];

    (void)state;
    server.result = CURLE_COULDNT_CONNECT;
    server.answer_seconds = 3;
    fetch_all(0, got);
    for (size_t i = 0; i < FETCHES; i++) {
        assert_int_equal(got[i].outcome, REPLY_UNABLE);
        assert_string_equal(got[i].message, "no route to it");
        /* the first, then all that wait, then the others that were under way */
        assert_int_equal(got[i].turn, i == 0             ? 0
                                      : i >= CONNECTIONS ? i - CONNECTIONS + 1
                                                         : FETCHES - CONNECTIONS + i);
    }
}

static void a_fetch_that_waits_may_be_cancelled(void **state)
{
    struct got got[FETCHES];

    (void)state;
    server.version = CURL_HTTP_VERSION_2_0 - 1;
    fetch_all(50, got);
    for (size_t i = 0; i < FETCHES; i++)
        assert_int_equal(got[i].outcome, i == 49 ? 0 : REPLY_DONE);
}

static int set_up_server(void **state)
{
    (void)state;
    memset(&server, 0, sizeof server);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(connections_limit_what_libcurl_has, set_up_server),
        cmocka_unit_test_setup(streams_do_where_the_server_multiplexes, set_up_server),
        cmocka_unit_test_setup(waiting_takes_of_the_time_of_a_fetch, set_up_server),
        cmocka_unit_test_setup(an_unreachable_server_is_met_once, set_up_server),
        cmocka_unit_test_setup(a_fetch_that_waits_may_be_cancelled, set_up_server),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

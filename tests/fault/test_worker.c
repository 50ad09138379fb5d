/* SPDX-License-Identifier: MIT */
/*
 * Workers that misbehave in every way a process can, and a host whose system calls fail. The fake
 * workers are this very program, started through links named fake-<what it does>.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "compile/compile.h"
#include "compile/protocol.h"
#include "t_context.h"
#include "t_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define FAKE_TARGETS "gfx1100 gfx1151"
#define DEADLINE_MS  400

/* ---- The fake worker ------------------------------------------------------------------------- */

static void must_read(void *to, size_t n)
{
    for (size_t got = 0; got < n;) {
        const ssize_t r = read(0, (char *)to + got, n - got);
        if (r <= 0)
            _exit(0); /* the host hung up */
        got += (size_t)r;
    }
}

static void must_write(int fd, const void *from, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t r = write(fd, (const char *)from + done, n - done);
        if (r <= 0)
            _exit(0);
        done += (size_t)r;
    }
}

static struct frame_header next_request(void)
{
    struct frame_header h;

    must_read(&h, sizeof h);
    uint8_t *const payload = malloc(h.bytes + 1);
    must_read(payload, h.bytes);
    free(payload);
    return h;
}

static struct fields answer_of(uint32_t outcome, const void *data, size_t size)
{
    struct fields f = {.grow = realloc};

    fields_add_u32(&f, outcome);
    fields_add_u64(&f, 1500);
    fields_add_text(&f, "");
    fields_add_bytes(&f, data, size);
    return f;
}

static void send_frame(enum frame_kind kind, uint64_t id, const struct fields *f)
{
    const struct frame_header h = frame_make(kind, id, f->bytes, f->size);

    must_write(0, &h, sizeof h);
    must_write(0, f->bytes, f->size);
}

static void send_good(uint64_t id)
{
    struct fields f = answer_of(REPLY_DONE, FAKE_TARGETS, strlen(FAKE_TARGETS));

    send_frame(FRAME_REPLY, id, &f);
    free(f.bytes);
}

/* A good reply with something wrong about its header. */
static void send_bent(uint64_t id, const char *what)
{
    const struct fields f = answer_of(REPLY_DONE, FAKE_TARGETS, strlen(FAKE_TARGETS));
    struct frame_header h = frame_make(FRAME_REPLY, id, f.bytes, f.size);

    if (!strcmp(what, "kind"))
        h = frame_make(FRAME_READY, id, f.bytes, f.size);
    else if (!strcmp(what, "id"))
        h = frame_make(FRAME_REPLY, id - 1, f.bytes, f.size);
    else if (!strcmp(what, "digest"))
        h.digest ^= 1;
    else if (!strcmp(what, "version"))
        h.version++;
    else if (!strcmp(what, "magic"))
        h.magic ^= 0x20;
    else if (!strcmp(what, "length"))
        h.bytes = (uint64_t)1 << 40;
    else if (!strcmp(what, "payload"))
        f.bytes[f.size - 1] ^= 1;
    must_write(0, &h, sizeof h);
    must_write(0, f.bytes, f.size);
}

static void send_report(const char *text)
{
    must_write(2, "last words\n", 11);
    must_write(2, REPORT_MARK, REPORT_MARK_BYTES);
    must_write(2, text, strlen(text));
}

/* Instructions as a reply to FRAME_DISASSEMBLE of eight bytes. */
static void send_instructions(uint64_t id, const char *what)
{
    struct packed_instruction p[2] = {{0, 4, 0}, {4, 4, 0}};

    if (!strcmp(what, "gap"))
        p[1].offset = 5;
    else if (!strcmp(what, "overlap"))
        p[1].offset = 0;
    else if (!strcmp(what, "beyond"))
        p[1].size = 8;
    else if (!strcmp(what, "text"))
        p[1].text = 100;
    else if (!strcmp(what, "still"))
        p[1].size = 0;
    struct fields f = answer_of(REPLY_DONE, p, !strcmp(what, "few") ? sizeof *p : sizeof p);
    send_frame(FRAME_REPLY, id, &f);
    free(f.bytes);
}

static void flood(size_t megabytes)
{
    static char block[1 << 20];

    memset(block, '#', sizeof block);
    for (size_t i = 0; i < megabytes; i++)
        must_write(2, block, sizeof block);
}

/* Leaves the process's number beside the link it was started by. */
static void leave_number(const char *path)
{
    char name[PATH_MAX];

    snprintf(name, sizeof name, "%s.pid", path);
    FILE *const f = fopen(name, "w");
    if (!f)
        _exit(9);
    fprintf(f, "%d", (int)getpid());
    fclose(f);
}

static void do_request(const char *mode, uint64_t id)
{
    static const char noise[] = "This is no frame of the protocol, long as it may be.";
    const char *what;

    if (!strncmp(mode, "bent-", 5)) {
        send_bent(id, mode + 5);
    } else if (!strncmp(mode, "code-", 5)) {
        send_instructions(id, mode + 5);
    } else if (!strcmp(mode, "good") || !strcmp(mode, "dies-idle")) {
        send_good(id);
        if (*mode == 'd')
            _exit(0);
    } else if (!strcmp(mode, "twice")) {
        send_good(id);
        send_good(id);
    } else if (!strcmp(mode, "slowly")) {
        const struct fields f = answer_of(REPLY_DONE, FAKE_TARGETS, strlen(FAKE_TARGETS));
        const struct frame_header h = frame_make(FRAME_REPLY, id, f.bytes, f.size);
        for (size_t i = 0; i < sizeof h + f.size; i++)
            must_write(
                0, i < sizeof h ? (const char *)&h + i : (const char *)f.bytes + i - sizeof h, 1);
    } else if (!strcmp(mode, "crash")) {
        signal(SIGSEGV, SIG_DFL); /* sanitizers catch it otherwise */
        raise(SIGSEGV);
    } else if (!strcmp(mode, "killed")) {
        raise(SIGKILL);
    } else if (!strncmp(mode, "report-", 7)) {
        what = !strcmp(mode, "report-signal") ? "signal 11\n"
               : !strcmp(mode, "report-exit") ? "exit 3\n"
                                              : "whatever\n";
        send_report(what);
        _exit(0);
    } else if (!strcmp(mode, "garbage")) {
        must_write(0, noise, sizeof noise);
        pause();
    } else if (!strcmp(mode, "half-header")) {
        const struct frame_header h = frame_make(FRAME_REPLY, id, "", 0);
        must_write(0, &h, 11);
        _exit(0);
    } else if (!strcmp(mode, "half-payload")) {
        const struct fields f = answer_of(REPLY_DONE, FAKE_TARGETS, strlen(FAKE_TARGETS));
        const struct frame_header h = frame_make(FRAME_REPLY, id, f.bytes, f.size);
        must_write(0, &h, sizeof h);
        must_write(0, f.bytes, 5);
        _exit(0);
    } else if (!strcmp(mode, "no-answer")) {
        struct fields f = {.grow = realloc};
        fields_add_u64(&f, 12345);
        send_frame(FRAME_REPLY, id, &f);
    } else if (!strcmp(mode, "outcome")) {
        const struct fields f = answer_of(9, "", 0);
        send_frame(FRAME_REPLY, id, &f);
    } else if (!strcmp(mode, "flood")) {
        flood(4);
        send_good(id);
    } else if (!strcmp(mode, "flood-forever")) {
        flood(SIZE_MAX);
    } else if (!strcmp(mode, "hang")) {
        for (;;)
            pause();
    } else if (!strcmp(mode, "stopped")) {
        raise(SIGSTOP);
    }
}

static int fake_worker(const char *path, const char *mode)
{
    struct fields ready = {.grow = realloc};

    leave_number(path);
    if (!strcmp(mode, "start-exit"))
        return 7;
    if (!strcmp(mode, "start-stopped"))
        raise(SIGSTOP);
    if (!strcmp(mode, "start-hang"))
        for (;;)
            pause();
    const uint64_t id = next_request().id;
    fields_add_text(&ready, !strcmp(mode, "start-build") ? "quern 7 protocol 9" : PROTOCOL_BUILD);
    if (strcmp(mode, "start-short"))
        fields_add_text(&ready, "nothing at all");
    send_frame(FRAME_READY, id, &ready);
    if (!strcmp(mode, "deaf"))
        for (;;)
            pause();
    for (;;)
        do_request(mode, next_request().id);
}

/* ---- What the tests share -------------------------------------------------------------------- */

struct world {
    char *directory;
    char root[PATH_MAX]; /* a toolchain in the eyes of the library, of real files */
    int descriptors;
};

static int make_world(void **state)
{
    static struct world w;
    struct toolchain t;
    char path[PATH_MAX + 40];

    w.directory = t_temp_dir();
    snprintf(w.root, sizeof w.root, "%s/root", w.directory);
    snprintf(path, sizeof path, "%s/lib", w.root);
    if (mkdir(w.root, 0700) || mkdir(path, 0700) || toolchain_find(NULL, &t) != QUERN_OK)
        return -1;
    snprintf(path, sizeof path, "%s/lib/libhiprtc.so.6", w.root);
    if (symlink(t.hiprtc, path))
        return -1;
    snprintf(path, sizeof path, "%s/lib/libamd_comgr.so.3", w.root);
    if (symlink(t.comgr, path))
        return -1;
    w.descriptors = t_count_entries("/proc/self/fd");
    *state = &w;
    return 0;
}

/* Also proves that the test before left no descriptor open. */
static int end_world(void **state)
{
    struct world *const w = *state;
    const int leaked = t_count_entries("/proc/self/fd") - w->descriptors;

    t_remove(w->directory);
    if (leaked)
        print_message("%d descriptors leaked\n", leaked);
    return leaked;
}

static struct compiler *open_path(const struct world *w, const char *worker)
{
    const struct compiler_config config = {
        .rocm_path = w->root, .worker_path = worker, .jobs = 1, .deadline_ms = DEADLINE_MS};
    struct compiler *c = NULL;

    assert_int_equal(compiler_open(&config, &c), QUERN_OK);
    return c;
}

static struct compiler *open_fake(const struct world *w, const char *mode)
{
    char self[PATH_MAX], link[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    assert_true(n > 0);
    self[n] = 0;
    snprintf(link, sizeof link, "%s/fake-%s", w->directory, mode);
    assert_true(symlink(self, link) == 0 || errno == EEXIST);
    return open_path(w, link);
}

static quern_status ask(struct compiler *c)
{
    char *text = NULL;
    const quern_status status = compiler_targets(c, &text);

    if (status == QUERN_OK)
        assert_string_equal(text, FAKE_TARGETS);
    else
        assert_null(text);
    free(text);
    return status;
}

static struct compiler_stats stats_of(struct compiler *c)
{
    struct compiler_stats stats;

    compiler_stats(c, &stats);
    return stats;
}

static void message_has(const char *part)
{
    if (!strstr(quern_last_error()->message, part))
        print_message("message: %s\n", quern_last_error()->message);
    assert_non_null(strstr(quern_last_error()->message, part));
}

/* Whether the fake of that mode is gone, or soon will be: a dead process may wait for its reaper.
 */
static bool fake_is_gone(const struct world *w, const char *mode)
{
    char path[PATH_MAX], text[32] = "", state = '?';

    snprintf(path, sizeof path, "%s/fake-%s.pid", w->directory, mode);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(text, sizeof text, f));
    fclose(f);
    snprintf(path, sizeof path, "/proc/%d/stat", atoi(text));
    for (int i = 0; i < 200; i++) {
        if (!(f = fopen(path, "r")))
            return true;
        const int got = fscanf(f, "%*d (%*[^)]) %c", &state);
        fclose(f);
        if (got != 1 || state == 'Z' || state == 'X')
            return true;
        usleep(10000);
    }
    return false;
}

/* ---- Starting -------------------------------------------------------------------------------- */

static void executables_that_are_none(void **state)
{
    const struct world *const w = *state;
    char path[PATH_MAX];
    struct compiler *c;

    snprintf(path, sizeof path, "%s/absent", w->directory);
    c = open_path(w, path);
    assert_int_equal(ask(c), QUERN_E_TOOLCHAIN);
    message_has(path);
    message_has("No such file");
    /* it may be installed later */
    FILE *const f = fopen(path, "w");
    fputs("no program\n", f);
    fclose(f);
    assert_int_equal(ask(c), QUERN_E_TOOLCHAIN);
    message_has("cannot run");
    assert_int_equal(chmod(path, 0700), 0);
    assert_int_equal(ask(c), QUERN_E_TOOLCHAIN);
    message_has("Exec format error");
    assert_int_equal(stats_of(c).started, 0);
    compiler_close(c);

    c = open_path(w, "relative/path");
    assert_int_equal(ask(c), QUERN_E_TOOLCHAIN);
    message_has("absolute");
    compiler_close(c);
}

static void workers_that_do_not_start(void **state)
{
    static const struct {
        const char *mode;
        quern_status status;
        const char *message;
    } cases[] = {{"start-exit", QUERN_E_WORKER, "while starting"},
                 {"start-hang", QUERN_E_TIMEOUT, "400 ms while starting"},
                 {"start-stopped", QUERN_E_TIMEOUT, "400 ms while starting"},
                 {"start-build", QUERN_E_TOOLCHAIN, "is \"quern 7 protocol 9\""},
                 {"start-short", QUERN_E_WORKER, "malformed"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct compiler *const c = open_fake(*state, cases[i].mode);
        assert_int_equal(ask(c), cases[i].status);
        message_has(cases[i].message);
        assert_int_equal(stats_of(c).started, 0);
        assert_true(fake_is_gone(*state, cases[i].mode));
        compiler_close(c);
    }
}

static void after_many_deaths_comes_a_pause(void **state)
{
    struct compiler *const c = open_fake(*state, "start-exit");

    for (int i = 0; i < 8; i++) {
        assert_int_equal(ask(c), QUERN_E_WORKER);
        message_has("while starting");
    }
    assert_int_equal(ask(c), QUERN_E_WORKER);
    message_has("the last 8 compiler workers died");
    compiler_close(c);
}

/* ---- Answering ------------------------------------------------------------------------------- */

static void a_good_worker_is_kept(void **state)
{
    static const char *const modes[] = {"good", "slowly", "flood"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct compiler *const c = open_fake(*state, modes[i]);
        for (int n = 0; n < 3; n++)
            assert_int_equal(ask(c), QUERN_OK);
        assert_int_equal(stats_of(c).started, 1);
        assert_int_equal(stats_of(c).died, 0);
        compiler_close(c);
        assert_true(fake_is_gone(*state, modes[i]));
    }
}

/* Each fails clearly, and the same request is then refused without a worker. */
static void workers_that_fail(void **state)
{
    static const struct {
        const char *mode;
        quern_status status;
        const char *message;
    } cases[] = {{"report-signal", QUERN_E_WORKER, "signal 11 (SIGSEGV"},
                 {"report-exit", QUERN_E_WORKER, "exited with status 3"},
                 {"report-odd", QUERN_E_WORKER, "unreadable report"},
                 {"garbage", QUERN_E_WORKER, "no reply"},
                 {"no-answer", QUERN_E_WORKER, "cannot be read"},
                 {"outcome", QUERN_E_WORKER, "cannot be read"},
                 {"bent-kind", QUERN_E_WORKER, "no reply"},
                 {"bent-id", QUERN_E_WORKER, "no reply"},
                 {"bent-digest", QUERN_E_WORKER, "no reply"},
                 {"bent-version", QUERN_E_WORKER, "no reply"},
                 {"bent-magic", QUERN_E_WORKER, "no reply"},
                 {"bent-length", QUERN_E_WORKER, "no reply"},
                 {"bent-payload", QUERN_E_WORKER, "no reply"},
                 {"hang", QUERN_E_TIMEOUT, "400 ms"},
                 {"stopped", QUERN_E_TIMEOUT, "400 ms"}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct compiler *const c = open_fake(*state, cases[i].mode);
        assert_int_equal(ask(c), cases[i].status);
        message_has(cases[i].message);
        message_has("listing the compiler's targets");
        if (!strncmp(cases[i].mode, "report", 6))
            assert_string_equal(quern_last_error()->log, "last words");
        assert_true(fake_is_gone(*state, cases[i].mode));
        assert_int_equal(ask(c), QUERN_E_WORKER);
        message_has("not tried again");
        assert_int_equal(stats_of(c).started, 1);
        assert_int_equal(stats_of(c).died, 1);
        assert_int_equal(stats_of(c).timeouts, cases[i].status == QUERN_E_TIMEOUT);
        compiler_close(c);
    }
}

/* A death that nobody explains may have another cause than the request: it gets a second chance. */
static void workers_that_vanish(void **state)
{
    static const char *const modes[] = {"crash", "killed", "half-header", "half-payload"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct compiler *const c = open_fake(*state, modes[i]);
        for (int n = 0; n < 2; n++) {
            assert_int_equal(ask(c), QUERN_E_WORKER);
            message_has("vanished");
        }
        assert_int_equal(ask(c), QUERN_E_WORKER);
        message_has("not tried again");
        assert_int_equal(stats_of(c).started, 2);
        compiler_close(c);
    }
}

/* What happens between requests is not held against the next one. */
static void idle_workers_that_misbehave(void **state)
{
    static const char *const modes[] = {"twice", "dies-idle"};

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        struct compiler *const c = open_fake(*state, modes[i]);
        assert_int_equal(ask(c), QUERN_OK);
        usleep(100000); /* so that what it does is seen before the next request */
        assert_int_equal(ask(c), QUERN_OK);
        assert_int_equal(stats_of(c).started, 2);
        assert_int_equal(stats_of(c).died, 1);
        compiler_close(c);
    }
}

static void a_flood_of_output_is_bounded(void **state)
{
    struct compiler *const c = open_fake(*state, "flood-forever");

    assert_int_equal(ask(c), QUERN_E_TIMEOUT);
    assert_true(strlen(quern_last_error()->log) > 1000);
    assert_int_equal(strspn(quern_last_error()->log, "#"), strlen(quern_last_error()->log));
    assert_true(fake_is_gone(*state, "flood-forever"));
    compiler_close(c);
}

static void a_worker_that_does_not_read(void **state)
{
    struct compiler *const c = open_fake(*state, "deaf");
    const size_t size = 4 << 20;
    char *const source = malloc(size + 1);
    const struct compile_job job = {source, "gfx1100", ""};
    struct compile_result r;

    memset(source, ' ', size);
    source[size] = 0;
    assert_int_equal(compiler_compile(c, &job, &r), QUERN_E_TIMEOUT);
    assert_null(r.object);
    free(source);
    compiler_close(c);
}

static void emitted(void *user, uint64_t offset, unsigned size, const char *text)
{
    (void)offset, (void)size, (void)text;
    ++*(int *)user;
}

/* Nothing is emitted of a disassembly that is wrong anywhere. */
static void disassemblies_that_do_not_fit(void **state)
{
    static const char *const modes[] = {"code-gap",  "code-overlap", "code-beyond",
                                        "code-text", "code-still",   "code-few"};
    int count = 0;
    struct compiler *c;

    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        c = open_fake(*state, modes[i]);
        assert_int_equal(compiler_disassemble(c, "gfx1100", "12345678", 8, emitted, &count),
                         QUERN_E_WORKER);
        assert_int_equal(count, 0);
        compiler_close(c);
    }
    c = open_fake(*state, "code-right");
    assert_int_equal(compiler_disassemble(c, "gfx1100", "12345678", 8, emitted, &count), QUERN_OK);
    assert_int_equal(count, 2);
    compiler_close(c);
}

/* ---- A host in trouble ----------------------------------------------------------------------- */

static struct os real;
static int countdown; /* the call that fails: 1 is the next */
static int failing_errno;

static bool fails_now(void)
{
    if (--countdown)
        return false;
    errno = failing_errno;
    return true;
}

static void *fail_malloc(size_t n)
{
    return fails_now() ? NULL : real.malloc(n);
}
static void *fail_calloc(size_t n, size_t m)
{
    return fails_now() ? NULL : real.calloc(n, m);
}
static void *fail_realloc(void *p, size_t n)
{
    return fails_now() ? NULL : real.realloc(p, n);
}
static void *fail_aligned(size_t a, size_t n)
{
    return fails_now() ? NULL : real.aligned_alloc(a, n);
}
static int fail_open(const char *p, int f, mode_t m)
{
    return fails_now() ? -1 : real.open(p, f, m);
}
static int fail_socketpair(int d, int t, int p, int s[2])
{
    return fails_now() ? -1 : real.socketpair(d, t, p, s);
}
static int fail_pipe2(int p[2], int f)
{
    return fails_now() ? -1 : real.pipe2(p, f);
}
static int fail_fcntl(int fd, int c, long a)
{
    return fails_now() ? -1 : real.fcntl(fd, c, a);
}
static int fail_clone(int (*f)(void *), void *s, int flags, void *a)
{
    return fails_now() ? -1 : real.clone(f, s, flags, a);
}
static ssize_t fail_recvmsg(int fd, struct msghdr *m, int f)
{
    return fails_now() ? -1 : real.recvmsg(fd, m, f);
}
static int fail_poll(struct pollfd *p, nfds_t n, int t)
{
    return fails_now() ? -1 : real.poll(p, n, t);
}

static void install(const char *member)
{
    failing_errno = EMFILE;
    if (!strcmp(member, "memory")) {
        failing_errno = ENOMEM;
        os.malloc = fail_malloc;
        os.calloc = fail_calloc;
        os.realloc = fail_realloc;
        os.aligned_alloc = fail_aligned;
    } else if (!strcmp(member, "open")) {
        os.open = fail_open;
    } else if (!strcmp(member, "socketpair")) {
        os.socketpair = fail_socketpair;
    } else if (!strcmp(member, "pipe2")) {
        os.pipe2 = fail_pipe2;
    } else if (!strcmp(member, "fcntl")) {
        os.fcntl = fail_fcntl;
    } else if (!strcmp(member, "clone")) {
        failing_errno = EAGAIN;
        os.clone = fail_clone;
    } else if (!strcmp(member, "recvmsg")) {
        os.recvmsg = fail_recvmsg;
    } else if (!strcmp(member, "poll")) {
        failing_errno = ENOMEM;
        os.poll = fail_poll;
    }
}

/* One request of a new pool; whatever fails, the answer is right or the failure has a message. */
static quern_status try_once(const struct world *w)
{
    char worker[PATH_MAX];
    struct compiler *c = NULL;
    char *text = NULL;

    snprintf(worker, sizeof worker, "%s/fake-good", w->directory);
    const struct compiler_config config = {
        .rocm_path = w->root, .worker_path = worker, .jobs = 1, .deadline_ms = 5000};
    quern_status status = compiler_open(&config, &c);
    if (status == QUERN_OK) {
        status = compiler_targets(c, &text);
        compiler_close(c);
    }
    if (status == QUERN_OK)
        assert_string_equal(text, FAKE_TARGETS);
    else
        assert_true(quern_last_error()->status == status && *quern_last_error()->message);
    free(text);
    return status;
}

static void every_call_may_fail(void **state)
{
    static const char *const members[] = {"memory", "open",  "socketpair", "pipe2",
                                          "fcntl",  "clone", "recvmsg",    "poll"};
    const struct world *const w = *state;

    compiler_close(open_fake(w, "good")); /* makes the link */
    real = os;
    for (size_t i = 0; i < sizeof members / sizeof *members; i++) {
        int failures = 0, n = 1;
        for (;; n++) {
            assert_true(n < 1000);
            countdown = n;
            install(members[i]);
            const quern_status status = try_once(w);
            os = real;
            failures += status != QUERN_OK;
            assert_int_equal(t_count_entries("/proc/self/fd"), w->descriptors);
            if (countdown > 0)
                break; /* there was no Nth call */
        }
        if (!failures)
            print_message("no failing call to %s mattered\n", members[i]);
        assert_true(failures > 0);
    }
}

/* Calls that transfer one byte at a time, and are interrupted every other time. */
static int turn;
static ssize_t small_send(int fd, const void *b, size_t n, int f)
{
    errno = EINTR;
    return turn++ & 1 ? -1 : real.send(fd, b, n < 1 ? n : 1, f);
}
static ssize_t small_recv(int fd, void *b, size_t n, int f)
{
    errno = EINTR;
    return f & MSG_PEEK ? real.recv(fd, b, n, f)
           : turn++ & 1 ? -1
                        : real.recv(fd, b, n < 1 ? n : 1, f);
}
static int interrupted_poll(struct pollfd *p, nfds_t n, int t)
{
    errno = EINTR;
    return t && turn++ % 3 ? -1 : real.poll(p, n, t);
}

static void interruptions_and_small_transfers_do_no_harm(void **state)
{
    const struct world *const w = *state;

    compiler_close(open_fake(w, "good"));
    real = os;
    os.send = small_send;
    os.recv = small_recv;
    os.poll = interrupted_poll;
    const quern_status status = try_once(w);
    os = real;
    assert_int_equal(status, QUERN_OK);
}

/* A kernel without pidfd: hanging up is all that can be done, and is enough. */
static ssize_t recvmsg_without_pidfd(int fd, struct msghdr *m, int f)
{
    m->msg_controllen = 0;
    return real.recvmsg(fd, m, f);
}

static void workers_end_without_pidfd(void **state)
{
    real = os;
    os.recvmsg = recvmsg_without_pidfd;
    struct compiler *const c = open_fake(*state, "good");
    assert_int_equal(ask(c), QUERN_OK);
    compiler_close(c);
    os = real;
    assert_true(fake_is_gone(*state, "good"));
}

static void the_toolchain_may_not_change(void **state)
{
    const struct world *const w = *state;
    struct compiler *const c = open_fake(w, "dies-idle");
    char path[PATH_MAX + 40];

    assert_int_equal(ask(c), QUERN_OK);
    usleep(100000);
    snprintf(path, sizeof path, "%s/lib/libhiprtc-builtins.so.6", w->root);
    assert_int_equal(symlink("/proc/self/exe", path), 0);
    assert_int_equal(ask(c), QUERN_E_TOOLCHAIN);
    message_has("changed while in use");
    compiler_close(c);
}

int main(int argc, char **argv)
{
    const char *const slash = argc ? strrchr(argv[0], '/') : NULL;
    if (slash && !strncmp(slash, "/fake-", 6))
        return fake_worker(argv[0], slash + 6);

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_world, end_world)
    const struct CMUnitTest tests[] = {
        TEST(executables_that_are_none),
        TEST(workers_that_do_not_start),
        TEST(after_many_deaths_comes_a_pause),
        TEST(a_good_worker_is_kept),
        TEST(workers_that_fail),
        TEST(workers_that_vanish),
        TEST(idle_workers_that_misbehave),
        TEST(a_flood_of_output_is_bounded),
        TEST(a_worker_that_does_not_read),
        TEST(disassemblies_that_do_not_fit),
        TEST(every_call_may_fail),
        TEST(interruptions_and_small_transfers_do_no_harm),
        TEST(workers_end_without_pidfd),
        TEST(the_toolchain_may_not_change),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

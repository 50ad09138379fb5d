/* SPDX-License-Identifier: MIT */
#include "t_fake_worker.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compile/protocol.h"
#include "t_clock.h"
#include "t_context.h"
#include "t_paths.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Files beside a fake's link. */
#define TRACE ".stat"
#define IDLE  ".idle"
/* A fake that lives on for so long after it was ended was not ended. */
#define GONE_MS 600000

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

/* Two replies in one write: the second is there when the first is. */
static void send_twice(uint64_t id)
{
    const struct fields f = answer_of(REPLY_DONE, FAKE_TARGETS, strlen(FAKE_TARGETS));
    const struct frame_header h = frame_make(FRAME_REPLY, id, f.bytes, f.size);
    const size_t one = sizeof h + f.size;
    char *const both = malloc(2 * one);

    for (size_t i = 0; i < 2; i++) {
        memcpy(both + i * one, &h, sizeof h);
        memcpy(both + i * one + sizeof h, f.bytes, f.size);
    }
    must_write(0, both, 2 * one);
    free(both);
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

static void flood(size_t kilobytes)
{
    static char block[1 << 10];

    memset(block, '#', sizeof block);
    for (size_t i = 0; i < kilobytes; i++)
        must_write(2, block, sizeof block);
}

/* What the kernel says of this process, beside the link that it was started by. */
static void leave_trace(const char *path)
{
    char text[1024], name[PATH_MAX];

    snprintf(name, sizeof name, "%s" TRACE, path);
    const int from = open("/proc/self/stat", O_RDONLY);
    const int to = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    const ssize_t n = from < 0 ? -1 : read(from, text, sizeof text);
    if (to < 0 || n <= 0 || write(to, text, (size_t)n) != n)
        _exit(9);
    close(from);
    close(to);
}

/* Tells the test that deadlines may pass: nothing more will come. */
static void say_idle(const char *path)
{
    char name[PATH_MAX];

    snprintf(name, sizeof name, "%s" IDLE, path);
    const int fd = open(name, O_WRONLY | O_CREAT, 0600);
    if (fd < 0)
        _exit(9);
    close(fd);
}

static _Noreturn void idle(const char *path)
{
    say_idle(path);
    for (;;)
        pause();
}

static void do_request(const char *path, const char *mode, uint64_t id)
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
        send_twice(id);
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
    } else if (!strcmp(mode, "report-late")) {
        say_idle(path);
        flood(56); /* what a pipe takes without a reader, and more than the host reads at once */
        send_report("signal 11\n");
        _exit(0);
    } else if (!strncmp(mode, "report-", 7)) {
        what = !strcmp(mode, "report-signal") ? "signal 11\n"
               : !strcmp(mode, "report-exit") ? "exit 3\n"
                                              : "whatever\n";
        send_report(what);
        _exit(0);
    } else if (!strcmp(mode, "garbage")) {
        must_write(0, noise, sizeof noise);
        idle(path);
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
        flood(4096);
        send_good(id);
    } else if (!strcmp(mode, "flood-forever")) {
        flood(64);
        say_idle(path); /* no answer will come */
        flood(SIZE_MAX);
    } else if (!strcmp(mode, "hang")) {
        idle(path);
    } else if (!strcmp(mode, "stopped")) {
        say_idle(path);
        raise(SIGSTOP);
    }
}

static int be_fake(const char *path, const char *mode)
{
    struct fields ready = {.grow = realloc};

    leave_trace(path);
    if (!strcmp(mode, "start-exit"))
        return 7;
    if (!strcmp(mode, "start-stopped")) {
        say_idle(path);
        raise(SIGSTOP);
    }
    if (!strcmp(mode, "start-hang"))
        idle(path);
    const uint64_t id = next_request().id;
    fields_add_text(&ready, !strcmp(mode, "start-build") ? "quern 7 protocol 9" : PROTOCOL_BUILD);
    if (strcmp(mode, "start-short"))
        fields_add_text(&ready, "nothing at all");
    send_frame(FRAME_READY, id, &ready);
    if (!strcmp(mode, "deaf"))
        idle(path);
    for (;;)
        do_request(path, mode, next_request().id);
}

void t_fake_worker(int argc, char **argv)
{
    const char *const slash = argc ? strrchr(argv[0], '/') : NULL;

    if (slash && !strncmp(slash, "/fake-", 6))
        exit(be_fake(argv[0], slash + 6));
}

/* ---- What the tests share -------------------------------------------------------------------- */

/* The sign of the fake that was opened last. */
static char idle_sign[PATH_MAX];

bool t_fake_is_idle(void)
{
    return *idle_sign && access(idle_sign, F_OK) == 0;
}

int t_world_make(void **state)
{
    static struct t_world w;
    struct toolchain t;
    char path[PATH_MAX + 40];

    w.directory = t_temp_dir();
    snprintf(w.root, sizeof w.root, "%s/root", w.directory);
    snprintf(path, sizeof path, "%s/lib", w.root);
    if (mkdir(w.root, 0700) || mkdir(path, 0700) ||
        toolchain_find(VENDOR_AMD, NULL, &t) != QUERN_OK)
        return -1;
    snprintf(path, sizeof path, "%s/lib/libhiprtc.so.6", w.root);
    if (symlink(t.library[LIBRARY_COMPILER], path))
        return -1;
    snprintf(path, sizeof path, "%s/lib/libamd_comgr.so.3", w.root);
    if (symlink(t.library[LIBRARY_DISASSEMBLER], path))
        return -1;
    w.descriptors = t_count_entries("/proc/self/fd");
    *idle_sign = 0;
    t_clock_hold(t_fake_is_idle);
    *state = &w;
    return 0;
}

int t_world_end(void **state)
{
    struct t_world *const w = *state;
    const int leaked = t_count_entries("/proc/self/fd") - w->descriptors;

    t_clock_release();
    t_remove(w->directory);
    if (leaked)
        print_message("%d descriptors leaked\n", leaked);
    return leaked;
}

struct compiler *t_fake_open_path(const struct t_world *w, const char *worker)
{
    const struct compiler_config config = {
        .path = w->root, .worker_path = worker, .jobs = 1, .deadline_ms = FAKE_DEADLINE_MS};
    struct compiler *c = NULL;

    assert_int_equal(compiler_open(&config, &c), QUERN_OK);
    return c;
}

struct compiler *t_fake_open(const struct t_world *w, const char *mode)
{
    char self[PATH_MAX], link[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

    assert_true(n > 0);
    self[n] = 0;
    snprintf(link, sizeof link, "%s/fake-%s", w->directory, mode);
    assert_true(symlink(self, link) == 0 || errno == EEXIST);
    snprintf(idle_sign, sizeof idle_sign, "%.4000s" IDLE, link);
    unlink(idle_sign);
    return t_fake_open_path(w, link);
}

quern_status t_fake_ask(struct compiler *c)
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

/* A process as its stat file tells: the number and the start time together are nobody else's. */
struct trace {
    int pid;
    char state;
    unsigned long long started;
};

static bool read_trace(const char *path, struct trace *t)
{
    char text[1024];
    const int fd = open(path, O_RDONLY);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false; /* it may end between opening and reading too */
    text[n] = 0;
    const char *const name_end = strrchr(text, ')');
    return name_end && sscanf(text, "%d", &t->pid) == 1 &&
           sscanf(name_end,
                  ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
                  "%*d %*d %llu",
                  &t->state, &t->started) == 2;
}

bool t_fake_is_gone(const struct t_world *w, const char *mode)
{
    char path[PATH_MAX];
    struct trace fake, now;

    snprintf(path, sizeof path, "%s/fake-%s" TRACE, w->directory, mode);
    assert_true(read_trace(path, &fake));
    snprintf(path, sizeof path, "/proc/%d/stat", fake.pid);
    for (int i = 0; i < GONE_MS; i++) {
        /* a dead process may wait for its reaper; its files are closed by then */
        if (!read_trace(path, &now) || now.started != fake.started || now.state == 'Z' ||
            now.state == 'X')
            return true;
        usleep(1000);
    }
    return false;
}

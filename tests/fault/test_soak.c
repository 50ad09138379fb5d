/* SPDX-License-Identifier: MIT */
/*
 * Eight hosts of four threads each do random things to one cache of 64 MB that is far too small for
 * what they put there, so that it evicts all the time. Once a second one of their processes is
 * killed (a host, a compiler's worker or its supervisor) and one bit of one file of the cache is
 * flipped. No answer is wrong: what a look-up gives is compared byte by byte, and what a kernel
 * computes with the reference. At the end nothing is left: no process, no temporary directory, no
 * descriptor; memory is what it was; and the counters of the hosts that lived add up.
 *
 * This file is long because the hosts, those who harm them and what is left are one story.
 *
 * For 8 seconds here, half of it under sanitizers, for ten minutes in test_soak_long.c, or for
 * T_SOAK_SECONDS; and where the machine is so slow that not everything has happened by then, until
 * it has.
 */
#include "base/os.h"
#include "t_build.h"
#include "t_context.h"
#include "t_paths.h"
#include "t_store.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SOAK_SECONDS
#define SOAK_SECONDS (T_SANITIZED ? 2 : 5)
#endif

#define CACHE_BYTES ((uint64_t)64 << 20)
/* Records: the names that threads choose from, many more than fit; each is of so many bytes. */
#define NAMES       3000
#define HOT         60 /* of them, which half of all look-ups are of */
#define BYTES_LEAST ((size_t)20 << 10)
#define BYTES_STEP  ((size_t)8 << 10)
#define BYTES_STEPS 16

/* A host's round: it opens the library, does so much, and closes it. */
#define ROUND_STEPS (T_SANITIZED ? 60 : 400)
/* How much a host may have grown from its third round to its last: what it has allocated, which a
 * leak of a kilobyte a round would exceed in ten minutes, and what is resident, which is more as
 * threads come and go. */
#define GROWTH_LIVE_KB 96
#define GROWTH_KB      32768

enum { HOSTS = 8, THREADS = 4, HOST_ENDS_LIMIT_S = 1200, ALL_HAPPENS_LIMIT_S = 1200 };

static const char *const problems[] = {
    "wq=nf4 n=64 k=128 a=f16",           "wq=fp4 n=48 k=64 a=bf16",
    "wq=mxfp4 n=32 k=64 a=bf16",         "wq=int4 n=64 k=128 a=f16 group=64 zero=u8",
    "wq=none n=32 k=64 a=bf16",          "wq=nf4 n=96 k=64 a=f32 bias=1",
    "wq=nf4 n=37 k=128 a=bf16 group=64", "wq=int4 n=32 k=64 a=bf16 group=32",
};
#define PROBLEMS (sizeof problems / sizeof *problems)
#define SEEDS    8 /* of operands */

/* What all processes of the test share. */
static struct shared {
    atomic_bool stop;
    atomic_ullong gets, hits, puts, evicted, quarantined, launches, compiled, failed_ops, rounds;
    /* of host 0, which is never killed, in kilobytes */
    atomic_long first_kb, last_kb, first_live, last_live;
} *all;

static const char *cache;

/* ---- Random numbers -------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* The record of a name, whose source is of many bytes that follow from the name. */
static void make_record(struct t_record *r, unsigned name, char *source)
{
    const size_t bytes = BYTES_LEAST + name * 2654435761u % BYTES_STEPS * BYTES_STEP;
    char text[16];

    snprintf(text, sizeof text, "soak%u", name);
    t_record(r, text);
    for (size_t i = 0; i < bytes; i++)
        source[i] = (char)('a' + (name + i * 7 + i / 251) % 26);
    source[bytes] = 0;
    r->record.source = source;
}

/* What one thread has done to a store. */
struct tally {
    uint64_t gets, hits, puts, outcomes[3];
};

static void get_record(struct store *s, struct t_record *r, struct tally *t)
{
    struct store_entry e;

    t->gets++;
    if (!store_get(s, &r->key, r->key_text, strlen(r->key_text), target_named("gfx1151"), &e))
        return;
    t->hits++;
    T_MUST(e.record.key_text_bytes == r->record.key_text_bytes &&
           !memcmp(e.record.key_text, r->key_text, e.record.key_text_bytes));
    T_MUST(!strcmp(e.record.source, r->record.source) && !strcmp(e.record.log, r->record.log));
    T_MUST(e.record.object_bytes == r->record.object_bytes &&
           !memcmp(e.record.object, r->record.object, e.record.object_bytes));
    store_entry_free(&e);
}

static void put_record(struct store *s, const struct t_record *r, struct tally *t)
{
    const enum quern_stat outcome = store_put(s, &r->key, &r->record);

    T_MUST(outcome == QUERN_STAT_PUT_OK || outcome == QUERN_STAT_PUT_LOST ||
           outcome == QUERN_STAT_PUT_FAILED);
    t->puts++;
    t->outcomes[outcome - QUERN_STAT_PUT_OK]++;
}

/* As a kernel is made: looked for, locked, looked for again, stored. */
static void want_record(struct store *s, struct t_record *r, struct tally *t)
{
    const uint64_t hits = t->hits;

    get_record(s, r, t);
    if (t->hits != hits)
        return;
    const int lock = store_lock(s, &r->key, 200);
    get_record(s, r, t);
    if (t->hits == hits)
        put_record(s, r, t);
    if (lock >= 0)
        store_unlock(s, lock);
}

/* ---- Kernels --------------------------------------------------------------------------------- */

/* Makes an op, launches it and compares the result. A worker that was killed may fail the op, with
 * a status that says so. Counts the kernels that were looked for if it did not. */
static void run_op(quern_ctx *ctx, uint64_t r)
{
    const struct quern_problem p = t_problem(problems[r % PROBLEMS]);
    const int64_t m = 1 + (int64_t)(r / PROBLEMS % 4);
    struct t_layer layer;
    quern_op *op;

    const quern_status status = quern_op_create(ctx, &p, m, &op);
    if (status != QUERN_OK) {
        T_MUST(status == QUERN_E_WORKER || status == QUERN_E_TIMEOUT);
        all->failed_ops++;
        return;
    }
    /* of few seeds, as rounding takes one result in many thousands beyond what is checked here */
    t_layer_make(&layer, ctx, &p, m, 0, 0, r / PROBLEMS / 4 % SEEDS);
    T_MUST(quern_op_launch(op, &layer.args, m, NULL) == QUERN_OK);
    T_MUST(t_layer_error(&layer) <= 5e-3);
    t_layer_free(&layer);
    quern_op_release(op);
    all->launches++;
}

/* ---- A host ---------------------------------------------------------------------------------- */

struct thread {
    pthread_t thread;
    struct store *store;
    quern_ctx *ctx;
    uint64_t seed;
    struct tally tally;
};

static int count_item(void *user, const struct store_item *item)
{
    (void)user;
    (void)item;
    return atomic_load(&all->stop); /* a walk of everything takes its time */
}

static void *work(void *user)
{
    struct thread *const t = user;
    char *const source = malloc(BYTES_LEAST + BYTES_STEPS * BYTES_STEP);
    struct store_usage usage;
    uint64_t removed;

    T_MUST(source);
    for (unsigned i = 0; i < ROUND_STEPS && !atomic_load(&all->stop); i++) {
        const uint64_t r = next_random(&t->seed), what = r % 4000;
        struct t_record record;
        /* what is stored is seldom there yet, what is looked for often */
        const bool storing = what >= 1500 && what < 2500, hot = !storing && r >> 60 & 1;
        make_record(&record, (unsigned)(r / 4000 % (hot ? HOT : NAMES)), source);
        if (what == 0 && r / 4000 % 100 == 0)
            T_MUST(store_clear(t->store, &removed) == QUERN_OK);
        else if (what < 6)
            T_MUST(store_walk(t->store, what & 1, count_item, NULL) != QUERN_E_ARGUMENT);
        else if (what < 30)
            T_MUST(store_usage(t->store, &usage) == QUERN_OK);
        else if (what < 60)
            store_evict(t->store);
        else if (what < 120)
            run_op(t->ctx, r / 4000);
        else if (what < 1500)
            get_record(t->store, &record, &t->tally);
        else if (what < 2500)
            put_record(t->store, &record, &t->tally);
        else
            want_record(t->store, &record, &t->tally);
    }
    free(source);
    return NULL;
}

/* A hit of a store is a hit_disk, a put exactly one of three, and an evicted file is counted. */
static void check_counters(const struct counters *counters, const struct thread threads[THREADS])
{
    uint64_t v[QUERN_STAT_COUNT];
    struct tally sum = {0};

    for (int i = 0; i < QUERN_STAT_COUNT; i++)
        v[i] = counter_value(counters, (enum quern_stat)i);
    for (int i = 0; i < THREADS; i++) {
        const struct tally *const t = &threads[i].tally;
        sum.gets += t->gets;
        sum.hits += t->hits;
        sum.puts += t->puts;
        for (int k = 0; k < 3; k++)
            sum.outcomes[k] += t->outcomes[k];
    }
    T_MUST(v[QUERN_STAT_HIT_DISK] == sum.hits);
    T_MUST(v[QUERN_STAT_PUT_OK] == sum.outcomes[0]);
    T_MUST(v[QUERN_STAT_PUT_LOST] == sum.outcomes[1]);
    T_MUST(v[QUERN_STAT_PUT_FAILED] == sum.outcomes[2]);
    T_MUST(sum.outcomes[0] + sum.outcomes[1] + sum.outcomes[2] == sum.puts);
    T_MUST(v[QUERN_STAT_MISS_DAMAGED] + v[QUERN_STAT_MISS_FOREIGN] + v[QUERN_STAT_MISS_IO] <=
           sum.gets - sum.hits);
    all->gets += sum.gets;
    all->hits += sum.hits;
    all->puts += sum.puts;
    all->evicted += v[QUERN_STAT_EVICTED];
    all->quarantined += v[QUERN_STAT_QUARANTINED];
}

static void check_context(quern_ctx *ctx)
{
    uint64_t v[QUERN_STAT_COUNT];

    T_MUST(quern_stats(ctx, v, QUERN_STAT_COUNT) == QUERN_OK);
    /* What was compiled was stored, or another was faster, or it could not be. What was found may
     * be stored once more: where the worker that disassembles was killed, a kernel is stored
     * without a scan, and whoever finds it scans it and notes that. */
    const uint64_t puts = v[QUERN_STAT_PUT_OK] + v[QUERN_STAT_PUT_LOST] + v[QUERN_STAT_PUT_FAILED];
    T_MUST(puts >= v[QUERN_STAT_COMPILE_OK]);
    T_MUST(puts <= v[QUERN_STAT_COMPILE_OK] + v[QUERN_STAT_HIT_DISK]);
    /* and nothing was compiled that was not missed */
    T_MUST(v[QUERN_STAT_COMPILE_OK] <= v[QUERN_STAT_MISS_ABSENT] + v[QUERN_STAT_MISS_DAMAGED] +
                                           v[QUERN_STAT_MISS_FOREIGN] + v[QUERN_STAT_MISS_IO]);
    all->compiled += v[QUERN_STAT_COMPILE_OK];
    all->evicted += v[QUERN_STAT_EVICTED];
    all->quarantined += v[QUERN_STAT_QUARANTINED];
}

static void do_round(uint64_t *seed)
{
    const struct store_config config = {
        .directory = cache, .max_bytes = CACHE_BYTES, .mode = QUERN_CACHE_RW};
    struct quern_options options = QUERN_INIT(struct quern_options);
    struct thread threads[THREADS];
    struct store *store;
    quern_ctx *ctx;

    options.device = QUERN_DEVICE_SIM;
    options.target = "gfx1151";
    options.cache_dir = cache;
    options.cache_max_bytes = CACHE_BYTES;
    options.worker_path = t_worker_path();
    options.jobs = 1;
    T_MUST(quern_open(&options, &ctx) == QUERN_OK);
    T_MUST(store_open(&config, &store) == QUERN_OK);
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (struct thread){.store = store, .ctx = ctx, .seed = next_random(seed)};
        T_MUST(!pthread_create(&threads[i].thread, NULL, work, &threads[i]));
    }
    for (int i = 0; i < THREADS; i++)
        T_MUST(!pthread_join(threads[i].thread, NULL));
    check_counters(store_counters(store), threads);
    check_context(ctx);
    store_close(store);
    quern_close(ctx);
    all->rounds++;
}

static long resident_kb(void)
{
    long pages = 0;
    FILE *const f = fopen("/proc/self/statm", "r");

    T_MUST(f && fscanf(f, "%*d %ld", &pages) == 1);
    fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Rounds until the end. Between two of them nothing is left of the one before. */
static _Noreturn void host(int which, uint64_t seed)
{
    const int descriptors = t_open_descriptors();

    for (int round = 1; !atomic_load(&all->stop); round++) {
        do_round(&seed);
        T_MUST(t_open_descriptors() == descriptors);
        T_MUST(waitpid(-1, NULL, WNOHANG) < 0 && errno == ECHILD);
        if (which)
            continue;
        all->last_kb = resident_kb();
        all->last_live = (long)(mallinfo2().uordblks / 1024);
        if (round == 3) {
            all->first_kb = all->last_kb;
            all->first_live = all->last_live;
        }
    }
    _exit(0);
}

/* The cache is full before the hosts begin. */
static void fill(void)
{
    const struct store_config config = {
        .directory = cache, .max_bytes = CACHE_BYTES, .mode = QUERN_CACHE_RW};
    char *const source = malloc(BYTES_LEAST + BYTES_STEPS * BYTES_STEP);
    uint64_t bytes = 0;
    struct store *s;

    assert_non_null(source);
    assert_int_equal(store_open(&config, &s), QUERN_OK);
    for (unsigned name = 0; bytes < CACHE_BYTES; name++) {
        struct tally t = {0};
        struct t_record record;
        make_record(&record, name, source);
        put_record(s, &record, &t);
        bytes += strlen(source);
    }
    store_close(s);
    free(source);
}

/* ---- Who does the harm ----------------------------------------------------------------------- */

static pid_t hosts[HOSTS];

static void start_host(int which, uint64_t seed)
{
    fflush(NULL);
    hosts[which] = fork();
    assert_true(hosts[which] >= 0);
    if (hosts[which] == 0) {
        prctl(PR_SET_CHILD_SUBREAPER, 0);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        host(which, seed);
    }
}

/* Any process below this one but host 0. Workers are below their hosts, or, when these are dead,
 * below this process, which is their subreaper. */
static pid_t choose_victim(uint64_t seed)
{
    static struct {
        pid_t pid, parent;
    } seen[1 << 15];
    pid_t below[256];
    size_t count = 0, n = 0;
    DIR *const d = opendir("/proc");

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) && count < sizeof seen / sizeof *seen;) {
        char path[300], text[512];
        snprintf(path, sizeof path, "/proc/%.250s/stat", e->d_name);
        FILE *const f = e->d_name[0] >= '0' && e->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        if (!f)
            continue;
        const char *const end = fgets(text, sizeof text, f) ? strrchr(text, ')') : NULL;
        seen[count].pid = (pid_t)atoi(e->d_name);
        if (end && sscanf(end, ") %*c %d", &seen[count].parent) == 1)
            count++;
        fclose(f);
    }
    closedir(d);
    below[n++] = getpid();
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < count && n < sizeof below / sizeof *below; k++)
            if (seen[k].parent == below[i])
                below[n++] = seen[k].pid;
    size_t left = 0;
    for (size_t i = 1; i < n; i++)
        if (below[i] != hosts[0])
            below[left++] = below[i];
    return left ? below[seed % left] : 0;
}

static struct {
    uint64_t seed;
    unsigned files;
    char path[PATH_MAX];
    off_t size;
} chosen;

static int consider_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    if (type == FTW_F && st->st_size && next_random(&chosen.seed) % ++chosen.files == 0) {
        snprintf(chosen.path, sizeof chosen.path, "%s", path);
        chosen.size = st->st_size;
    }
    return 0;
}

/* Of any file of the cache, each as likely as the other. True if a bit was flipped. */
static bool flip_a_bit(uint64_t *seed)
{
    uint8_t byte;

    chosen.seed = next_random(seed);
    chosen.files = 0;
    nftw(cache, consider_file, 16, FTW_PHYS);
    const int fd = chosen.files ? open(chosen.path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return false; /* it was evicted meanwhile */
    const off_t at = (off_t)(next_random(seed) % (uint64_t)chosen.size);
    bool done = pread(fd, &byte, 1, at) == 1;
    byte ^= (uint8_t)(1 << next_random(seed) % 8);
    done = done && pwrite(fd, &byte, 1, at) == 1;
    close(fd);
    return done;
}

/* Collects who has ended. A host that was killed is started again; one that ended in another way
 * has found something wrong, and has said what. */
static unsigned collect(uint64_t *seed)
{
    unsigned killed = 0;
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        for (int i = 0; i < HOSTS; i++) {
            if (hosts[i] != pid)
                continue;
            if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
                fail_msg("host %d ended with status %x", i, (unsigned)status);
            killed++;
            start_host(i, next_random(seed) | 1);
        }
    return killed;
}

/* Everybody ends: the hosts when they are told, what is left of the killed ones by itself. */
static void wait_for_all(void)
{
    const time_t start = time(NULL);
    int status;
    pid_t pid;

    while ((pid = waitpid(-1, &status, WNOHANG)) >= 0) {
        for (int i = 0; i < HOSTS && pid; i++)
            if (hosts[i] == pid && status) /* one may have been killed just now */
                assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL && i);
        if (!pid) {
            assert_true(time(NULL) - start < HOST_ENDS_LIMIT_S);
            usleep(10000);
        }
    }
    assert_int_equal(errno, ECHILD);
}

static unsigned count_left(const char *directory, bool make_old)
{
    static const struct timespec old[2] = {{1, 0}, {1, 0}};
    unsigned count = 0;
    DIR *const d = opendir(directory);

    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d));) {
        if (e->d_name[0] == '.')
            continue;
        count++;
        if (make_old) /* a directory without a lock is taken for one that is being made */
            utimensat(dirfd(d), e->d_name, old, AT_SYMLINK_NOFOLLOW);
        else
            print_message("left: %s\n", e->d_name);
    }
    closedir(d);
    return count;
}

/* The next host that starts a worker removes what killed ones left. */
static void sweep(void)
{
    fflush(NULL);
    const pid_t child = fork();

    if (child == 0) {
        struct quern_options options = QUERN_INIT(struct quern_options);
        struct quern_problem p = t_problem("wq=nf4 n=80 k=64 a=f16");
        quern_ctx *ctx;
        quern_op *op;
        options.device = QUERN_DEVICE_SIM;
        options.target = "gfx1151";
        options.cache_mode = QUERN_CACHE_OFF;
        options.worker_path = t_worker_path();
        T_MUST(quern_open(&options, &ctx) == QUERN_OK);
        T_MUST(quern_op_create(ctx, &p, 1, &op) == QUERN_OK);
        quern_op_release(op);
        quern_close(ctx);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    wait_for_all(); /* its worker's supervisor, which removes its own directory last */
}

/* Whether hosts whose rounds have ended have met all that is to happen to them. */
static bool all_happened(void)
{
    return all->hits && all->puts && all->launches && all->evicted && all->quarantined;
}

static void nothing_is_wrong_and_nothing_is_left(void **state)
{
    struct t_store *const t = *state;
    const char *const asked = getenv("T_SOAK_SECONDS");
    const unsigned seconds = asked ? (unsigned)atoi(asked) : SOAK_SECONDS;
    char temporary[] = "/dev/shm/quern-soak-XXXXXX";
    unsigned kills = 0, flips = 0, hosts_killed = 0;
    struct store_usage usage;
    uint64_t seed = 0x9e3779b97f4a7c15u ^ (uint64_t)seconds;

    all = mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
    /* workers' directories, apart from everybody else's */
    assert_non_null(mkdtemp(temporary));
    assert_int_equal(setenv("TMPDIR", temporary, 1), 0);
    cache = t->cache;
    fill();
    const int descriptors = t_open_descriptors();
    for (int i = 0; i < HOSTS; i++)
        start_host(i, next_random(&seed) | 1);
    for (unsigned i = 0; i < seconds || (!all_happened() && i < ALL_HAPPENS_LIMIT_S); i++) {
        struct timespec second = {1, 0};
        while (nanosleep(&second, &second) && errno == EINTR)
            ;
        flips += flip_a_bit(&seed);
        const pid_t victim = choose_victim(next_random(&seed));
        kills += victim && !kill(victim, SIGKILL);
        hosts_killed += collect(&seed);
        if ((i + 1) % 60 == 0)
            print_message("%u s: %llu look-ups, %llu hits, %llu stores, %llu launches\n", i + 1,
                          all->gets, all->hits, all->puts, all->launches);
    }
    hosts_killed += collect(&seed);
    atomic_store(&all->stop, true);
    wait_for_all();
    const unsigned left = count_left(temporary, true);
    sweep();
    print_message("%u s: %u processes killed (%u hosts), %u bits flipped; in %llu rounds that "
                  "ended %llu look-ups, %llu hits, %llu stores, %llu evicted, %llu quarantined, "
                  "%llu launches, %llu kernels compiled, %llu ops without their worker; %u "
                  "directories of killed workers; host 0 %ld KB, then %ld KB, of them %ld and %ld "
                  "allocated\n",
                  seconds, kills, hosts_killed, flips, all->rounds, all->gets, all->hits, all->puts,
                  all->evicted, all->quarantined, all->launches, all->compiled, all->failed_ops,
                  left, all->first_kb, all->last_kb, all->first_live, all->last_live);
    assert_int_equal(count_left(temporary, false), 0);
    assert_int_equal(rmdir(temporary), 0);
    assert_int_equal(t_open_descriptors(), descriptors);
    struct store *const s = t_store_open(t, QUERN_CACHE_RW, CACHE_BYTES);
    assert_int_equal(store_usage(s, &usage), QUERN_OK);
    print_message("the cache has %llu entries of %llu bytes, and %llu in quarantine\n",
                  (unsigned long long)usage.entries, (unsigned long long)usage.bytes,
                  (unsigned long long)usage.quarantined);
    /* each writer may be over the limit by what it has just put */
    assert_true(usage.bytes < CACHE_BYTES + CACHE_BYTES / 4);
    store_close(s);
    assert_true(all_happened());
    assert_true(kills > 0 && flips > 0);
    if (!T_SANITIZED && all->first_kb) { /* sanitizers keep what was freed */
        assert_true(all->last_kb < all->first_kb + GROWTH_KB);
        assert_true(all->last_live < all->first_live + GROWTH_LIVE_KB);
    }
    munmap(all, sizeof *all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        T_STORE_TEST(nothing_is_wrong_and_nothing_is_left),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

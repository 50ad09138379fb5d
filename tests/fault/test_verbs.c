/* SPDX-License-Identifier: MIT */
/*
 * The command when system calls fail: the released program under ptrace, each call of each verb in
 * turn. It ends by itself, with a status that it has, in bounded work; nothing that it wrote is
 * half a file; and the same command works afterwards. Here at a few of the calls; in
 * test_verbs_long.c at more of them, with one error after another, and others of both in each run;
 * under a sanitizer at fewer.
 *
 * This file is long because each verb has its own files, and its own scenario of failing calls.
 */
#include "t_build.h"
#include "t_context.h"
#include "t_explore.h"
#include "t_paths.h"
#include "t_store.h"
#include "t_trace.h"

#include "base/os.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))
/* Calls of one verb that fail in turn, spread over its run: fewer where each takes longer. */
#ifdef EVERYWHERE
enum {
    POINTS = T_SANITIZED ? 40 : 100,
    POINTS_WORKER = T_SANITIZED ? 6 : 20,
    POINTS_GPU = T_SANITIZED ? 2 : 10
};
enum { KILL_STEP = T_SANITIZED ? 5 : 1, KILL_STEP_WORKER = T_SANITIZED ? 30 : 15 };
#else
enum { POINTS = 2, POINTS_WORKER = 1, POINTS_GPU = 1 };
enum { KILL_STEP = 41, KILL_STEP_WORKER = 211 };
#endif
enum { WORDS = 14, LANES = 2 };

static const int errors[] = {ENOSPC, EIO, EINTR, EMFILE, ENOMEM, EACCES, ESTALE};
static char *directory, command[PATH_MAX];

#define LAYER "wq=nf4 n=64 k=64 a=f16"
#define INT4  "wq=int4 zero=u8 n=64 k=128 a=f16"
#define GFX   "--target", "gfx1151"
#define FILES "a=@/a", "b=@/q/b", "scales=@/q/scales"
#define PEER  "build/peers/bitsandbytes-0.50.2"

enum cost {
    ALONE,  /* starts no worker */
    WORKER, /* starts one, and as long as that takes */
    GPU,    /* runs on fakehip; thousands of calls */
};

/* Every verb; "@" is the scratch directory. */
static const struct verb {
    enum cost cost;
    const char *words[WORDS];
} verbs[] = {
    {ALONE, {"targets"}},
    {ALONE, {"explain", GFX, "--m", "1", LAYER}},
    {ALONE, {"explain", GFX, "--m", "1", "--why-miss", LAYER}},
    {ALONE, {"explain", GFX, "--m-sweep", LAYER}},
    {ALONE, {"source", GFX, "--m", "1", LAYER}},
    {ALONE, {"prewarm", GFX, "--m", "1", "--jit", "off", LAYER}},
    {ALONE, {"prewarm", GFX, "--jit", "off", "--manifest", "@/manifest"}},
    {ALONE, {"prewarm", GFX, "--m", "1", "--wq", "nf4", "--a", "f16", "--model", "@/model.json"}},
    {ALONE, {"build", GFX, "--m", "1", "--out", "@/again", LAYER}},
    {ALONE, {"cache", "stat"}},
    {ALONE, {"cache", "list", "--json"}},
    {ALONE, {"cache", "verify"}},
    {ALONE, {"cache", "push", "@/pushed", "--sign-key", "@/secret"}},
    {ALONE, {"bundle", "create", "@/new.qkb"}},
    {ALONE, {"bundle", "list", "@/a.qkb"}},
    {ALONE, {"bundle", "verify", "@/a.qkb", "--key", "@/public"}},
    {ALONE, {"bundle", "import", "@/a.qkb", "--key", "@/public", "--cache-dir", "@/other"}},
    {ALONE, {"bundle", "sign", "@/b.qkb", "--key", "@/secret"}},
    {ALONE, {"bundle", "keygen", "@/secret2", "@/public2"}},
    {ALONE, {"inspect", "@/object"}},
    {ALONE, {"inspect", "@/plan/plan.json"}},
    {ALONE, {"inspect", "@/tensors.safetensors"}},
    {ALONE, {"cache", "clear", "--cache-dir", "@/other"}},
    {ALONE, {"quantize", LAYER, "w=@/w", "--out", "@/q2"}},
    {ALONE, {"repack", "--to", "exl", INT4, "b=@/zeros", "out=@/repacked"}},
    {ALONE,
     {"repack", "--checkpoint", "gptq", INT4, "qweight=@/zeros", "scales=@/a", "qzeros=@/qzeros",
      "--out", "@/q3"}},
    {WORKER, {"prewarm", GFX, "--m", "1", "--jobs", "1", "--cache-dir", "@/cold", LAYER}},
    {WORKER, {"prewarm", GFX, "--m", "1", "--jobs", "1", "--verify", LAYER}},
    {WORKER, {"build", GFX, "--m", "1", "--out", "@/again", "--cache-dir", "@/cold", LAYER}},
    {WORKER, {"run", GFX, "--m", "1", LAYER, FILES, "c=@/c"}},
    {WORKER, {"sim", "@/plan/plan.json", FILES, "c=@/c", "--counts", "@/counts.json"}},
    {WORKER, {"profile", GFX, "--m", "1", LAYER, "--html", "@/page.html"}},
    {WORKER, {"profile", "@/plan/plan.json", "a=@/a"}},
    {WORKER, {"inspect", "--disassemble", "@/object"}},
    {WORKER, {"bench", GFX, "--peer", "bitsandbytes", "--library", PEER, LAYER}},
    {WORKER, {"doctor"}},
    {GPU, {"time", "--device", "hip", "--m", "1", "--rotate", "64K", LAYER}},
    {GPU,
     {"tune", "--device", "hip", "--m", "1", "--shapes", "2", "--rotate", "64K", "--out", "@/tune",
      LAYER}},
};

/* Words of a verb for execv; @ expanded. */
static void expand(const char *const words[WORDS], char *argv[WORDS + 2])
{
    size_t n = 0;

    argv[n++] = command;
    for (size_t i = 0; i < WORDS && words[i]; i++) {
        char text[PATH_MAX];
        const char *const at = strstr(words[i], "@/");
        if (at)
            snprintf(text, sizeof text, "%.*s%s%s", (int)(at - words[i]), words[i], directory,
                     at + 1);
        argv[n++] = strdup(at ? text : words[i]);
    }
    argv[n] = NULL;
}

static void release(char *argv[WORDS + 2])
{
    for (size_t i = 1; argv[i]; i++)
        free(argv[i]);
}

/* Of the files that a verb writes, its output among them. */
static rlim_t size_limit = RLIM_INFINITY;

static int run(const char *const words[WORDS])
{
    char *argv[WORDS + 2];
    int status = -1;

    expand(words, argv);
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        const int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd < 3; fd++)
            dup2(null, fd);
        if (size_limit != RLIM_INFINITY) {
            char path[PATH_MAX];
            snprintf(path, sizeof path, "%s/printed", directory);
            dup2(open(path, O_CREAT | O_TRUNC | O_RDWR, 0600), 1);
            setrlimit(RLIMIT_FSIZE, &(struct rlimit){size_limit, RLIM_INFINITY});
        }
        execv(argv[0], argv);
        _exit(127);
    }
    waitpid(child, &status, 0);
    release(argv);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void must_run(const char *const words[WORDS])
{
    const int status = run(words);

    if (status)
        fail_msg("quern %s %s: status %d", words[0], words[1] ? words[1] : "", status);
}

static void put_file(const char *name, const void *bytes, size_t size)
{
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", directory, name);
    t_write_file(path, bytes, size);
}

static int setup(void **state)
{
    static const char *const words[][WORDS] = {
        {"prewarm", GFX, "--m", "1", LAYER},
        {"bundle", "create", "@/a.qkb"},
        {"bundle", "create", "@/b.qkb"},
        {"bundle", "keygen", "@/secret", "@/public"},
        {"bundle", "sign", "@/a.qkb", "--key", "@/secret"},
        {"build", GFX, "--m", "1", "--out", "@/plan", LAYER},
        {"quantize", LAYER, "w=@/w", "--out", "@/q"},
        {"prewarm", GFX, "--m", "1", "--wq", "nf4", "--a", "f16", "--model", "@/model.json"},
        {"bundle", "create", "@/many.qkb"},
    };
    static const char manifest[] = "target=gfx1151 m=1 " LAYER "\n";
    static const char model[] =
        "{\"architectures\": [\"Qwen3ForCausalLM\"], \"model_type\": \"qwen3\", "
        "\"hidden_size\": 64, \"intermediate_size\": 64, \"num_attention_heads\": 1, "
        "\"num_key_value_heads\": 1, \"head_dim\": 64, \"num_hidden_layers\": 1, "
        "\"vocab_size\": 64}";
    static const char header[] = "{\"x.weight\":{\"dtype\":\"F16\",\"shape\":[64,64],"
                                 "\"data_offsets\":[0,8192]}}";
    static char zeros[64 * 64 * 4 + 256];
    char path[PATH_MAX], cache[PATH_MAX];

    (void)state;
    directory = t_temp_dir();
    snprintf(command, sizeof command, "%s/bin/quern", t_build());
    snprintf(cache, sizeof cache, "%s/cache", directory);
    setenv("QUERN_CACHE_DIR", cache, 1);
    put_file("w", zeros, 64 * 64 * sizeof(float));
    put_file("a", zeros, 64 * 2);
    put_file("zeros", zeros, 64 * 128 / 2);
    put_file("qzeros", zeros, 64 / 2);
    put_file("manifest", manifest, sizeof manifest - 1);
    put_file("model.json", model, sizeof model - 1);
    const uint64_t header_bytes = sizeof header - 1;
    memcpy(zeros, &header_bytes, sizeof header_bytes);
    memcpy(zeros + sizeof header_bytes, header, sizeof header - 1);
    put_file("tensors.safetensors", zeros, sizeof header_bytes + sizeof header - 1 + 64 * 64 * 2);
    memset(zeros, 0, sizeof zeros);
    for (size_t i = 0; i < COUNT(words); i++)
        must_run(words[i]);
    snprintf(path, sizeof path, "cp %s/plan/*.co %s/object", directory, directory);
    return system(path);
}

static int teardown(void **state)
{
    (void)state;
    t_remove(directory);
    unsetenv("QUERN_CACHE_DIR");
    return 0;
}

static unsigned failures;
/* Says what is wrong, and goes on: one run takes long. */
#define WRONG(...) (failures++, print_error(__VA_ARGS__))

/* Every bundle here is whole at any time, and there are no temporaries. */
static void check_files(const char *what)
{
    static const char *const whole[][WORDS] = {
        {"bundle", "verify", "@/a.qkb", "--key", "@/public"},
        {"bundle", "verify", "@/b.qkb"},
        {"bundle", "verify", "@/new.qkb"},
    };
    char path[PATH_MAX];

    snprintf(path, sizeof path, "%s/new.qkb", directory);
    for (size_t i = 0; i < COUNT(whole); i++)
        if ((i < 2 || access(path, F_OK) == 0) && run(whole[i]))
            WRONG("%s: %s is damaged\n", what, whole[i][2]);
    unlink(path);
}

/* What a verb is to make is not there yet. */
static void make_room(const struct verb *v)
{
    static const char *const made[] = {"cold", "again", "q2", "q3", "pushed"};
    static const char *const files[] = {"secret2", "public2"};
    char path[PATH_MAX];

    (void)v;
    for (size_t i = 0; i < COUNT(made); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, made[i]);
        t_remove_tree(path);
    }
    for (size_t i = 0; i < COUNT(files); i++) {
        snprintf(path, sizeof path, "%s/%s", directory, files[i]);
        unlink(path);
    }
}

static struct t_traced trace(const struct verb *v, struct t_trace how)
{
    char *argv[WORDS + 2];

    make_room(v);
    expand(v->words, argv);
    how.command = argv;
    const struct t_traced result = t_trace(&how);
    release(argv);
    return result;
}

static void fail_at(const struct verb *v, unsigned at, int error, bool for_ever)
{
    char what[200];

    snprintf(what, sizeof what, "quern %s %s %s: call %u, %s%s", v->words[0],
             v->words[1] ? v->words[1] : "", v->words[2] ? v->words[2] : "", at, strerror(error),
             for_ever ? ", for ever" : "");
    const struct t_traced r =
        trace(v, (struct t_trace){.at = at, .error = error, .for_ever = for_ever});
    if (r.endless)
        WRONG("%s: no end\n", what);
    else if (!WIFEXITED(r.status))
        WRONG("%s: ended by signal %d\n", what, WTERMSIG(r.status));
    else if (WEXITSTATUS(r.status) > 2)
        WRONG("%s: status %d\n", what, WEXITSTATUS(r.status));
    if (!strcmp(v->words[0], "bundle"))
        check_files(what);
}

/* All or some of the calls of one verb. Returns how many faults there were. */
static unsigned fail_verb(const struct verb *v)
{
    static const char *const verify[WORDS] = {"cache", "verify"};
    static bool failing[T_TRACE_CALLS_MAX];
    const unsigned points = v->cost == ALONE    ? POINTS
                            : v->cost == WORKER ? POINTS_WORKER
                                                : POINTS_GPU;
    unsigned runs = 0, turn = (unsigned)(v - verbs) + t_explore(COUNT(errors));

    memset(failing, 0, sizeof failing);
    const struct t_traced whole = trace(v, (struct t_trace){.failing = failing});
    if (!WIFEXITED(whole.status) || WEXITSTATUS(whole.status))
        fail_msg("quern %s %s: status %d when nothing fails", v->words[0], v->words[1],
                 whole.status);
    assert_true(whole.calls > 5);
    const unsigned calls = whole.calls < T_TRACE_CALLS_MAX ? whole.calls : T_TRACE_CALLS_MAX;
    const unsigned step = calls > points ? calls / points : 1;
    for (unsigned at = 1 + t_explore(step); at <= calls; at += step, turn++) {
        while (at < calls && !failing[at - 1])
            at++;
        fail_at(v, at, errors[turn % COUNT(errors)], false);
        fail_at(v, at, errors[(turn + 1) % COUNT(errors)], true);
        runs += 2;
    }
    make_room(v);
    must_run(v->words);
    must_run(verify);
    return runs;
}

/* Verbs that no other lane has taken, in a scratch directory of this one's own. */
static unsigned lane(atomic_uint *taken)
{
    char path[PATH_MAX];
    unsigned faults = 0;

    setup(NULL);
    snprintf(path, sizeof path, "%s/lib/fakehip/libamdhip64.so.6", t_build());
    const bool hip = access(path, R_OK) == 0, peer = access(PEER, R_OK) == 0;
    for (unsigned v; (v = atomic_fetch_add(taken, 1)) < COUNT(verbs);) {
        /* what takes longest first */
        const struct verb *const verb = &verbs[COUNT(verbs) - 1 - v];
        if ((verb->cost == GPU && !hip) || (!strcmp(verb->words[0], "bench") && !peer))
            continue;
        const uint64_t start = os_now();
        const unsigned n = fail_verb(verb);
        faults += n;
        if (n > 1000)
            print_message("quern %s %s: %u faults, %.0f s\n", verb->words[0],
                          verb->words[1] ? verb->words[1] : "", n,
                          (double)(os_now() - start) * 1e-9);
    }
    teardown(NULL);
    return faults;
}

static void verbs_end_well_whatever_fails(void **state)
{
    struct shared {
        atomic_uint taken, faults;
    } *const shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char path[PATH_MAX];
    pid_t lanes[LANES];
    int status;

    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* the released program is meant, and the leak checker wants ptrace for itself */
#endif
    assert_true(shared != MAP_FAILED);
    snprintf(path, sizeof path, "%s/lib/fakehip", t_build());
    setenv("LD_LIBRARY_PATH", path, 1);
    setenv("FAKEHIP_DEVICES", "gfx1151", 1);
    fflush(NULL);
    for (int i = 0; i < LANES; i++) {
        lanes[i] = fork();
        assert_true(lanes[i] >= 0);
        if (lanes[i] == 0) {
            atomic_fetch_add(&shared->faults, lane(&shared->taken));
            fflush(NULL);
            _exit(failures != 0);
        }
    }
    for (int i = 0; i < LANES; i++) {
        assert_int_equal(waitpid(lanes[i], &status, 0), lanes[i]);
        assert_int_equal(status, 0); /* what failed was printed by the lane */
    }
    unsetenv("LD_LIBRARY_PATH");
    unsetenv("FAKEHIP_DEVICES");
    print_message("%u faults\n", atomic_load(&shared->faults));
    munmap(shared, sizeof *shared);
}

/* A limit on the size of files is an error like any other; its signal ends nothing. */
static void a_limit_of_file_size_is_an_error(void **state)
{
    static const rlim_t limits[] = {0, 1, 100 << 10};
    int failed = 0;

    (void)state;
#if defined __SANITIZE_THREAD__
    skip(); /* the sanitizer writes a file of its own, and is ended by the signal, before main */
#endif
    for (size_t i = 0; i < COUNT(verbs) * COUNT(limits); i++) {
        const struct verb *const v = &verbs[i / COUNT(limits)];
        make_room(v);
        size_limit = limits[i % COUNT(limits)];
        const int status = run(v->words);
        size_limit = RLIM_INFINITY;
        failed += status != 0;
        if (status < 0 || status > 3)
            fail_msg("quern %s, files of %d bytes: status %d", v->words[0],
                     (int)limits[i % COUNT(limits)], status);
    }
    assert_true(failed >= (int)COUNT(verbs)); /* there is no room for what they print */
}

/* SIGTERM at every system call of a verb that makes a directory and files in it: what is left is
 * whole, and there is nothing beside it. */
static void a_termination_leaves_no_scraps(void **state)
{
    static const char *const words[WORDS] = {"quantize", "wq=nf4 n=64 k=64 a=f16", "w=@/w", "--out",
                                             "@/q"};
    static const float weights[64 * 64];
    char path[PATH_MAX], *argv[WORDS + 2];
    unsigned ended = 0;

    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* the released program is meant */
#endif
    snprintf(path, sizeof path, "%s/w", directory);
    t_write_file(path, weights, sizeof weights);
    snprintf(path, sizeof path, "%s/q", directory);
    expand(words, argv);
    for (unsigned at = 1;; at++) {
        const struct t_traced r =
            t_trace(&(struct t_trace){.command = argv, .at = at, .signal = SIGTERM});
        int whole = 0, all;
        for (int i = 0; i < 2; i++) {
            char file[PATH_MAX + 16];
            snprintf(file, sizeof file, "%s/%s", path, (const char *[]){"b", "scales"}[i]);
            whole += access(file, F_OK) == 0;
        }
        all = t_count_entries(path);
        if (all != (whole ? whole : -1))
            fail_msg("SIGTERM at call %u: %d entries, %d of them outputs", at, all, whole);
        t_remove_tree(path);
        if (!r.reached) {
            assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0 && whole == 2);
            break;
        }
        ended += WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGTERM;
    }
    release(argv);
    assert_true(ended > 10);
}

/* SIGTERM while a cache is written where a web server gives it to others: it never has a file there
 * that is no entry. */
static void a_termination_of_a_push_leaves_no_scraps(void **state)
{
    static const char *const words[WORDS] = {"cache", "push", "@/pushed"};
    char look[PATH_MAX + 64], path[PATH_MAX], *argv[WORDS + 2];
    unsigned ended = 0;

    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* the released program is meant */
#endif
    snprintf(path, sizeof path, "%s/pushed", directory);
    snprintf(look, sizeof look, "! find %s -type f ! -name '*.qk' 2>/dev/null | grep -q .", path);
    expand(words, argv);
    for (unsigned at = 1;; at += t_explores() ? 1 + t_explore(2) : 3) {
        const struct t_traced r =
            t_trace(&(struct t_trace){.command = argv, .at = at, .signal = SIGTERM});
        if (system(look))
            fail_msg("SIGTERM at call %u: something else than entries is in %s", at, path);
        t_remove_tree(path);
        if (!r.reached) {
            assert_true(WIFEXITED(r.status) && WEXITSTATUS(r.status) == 0);
            break;
        }
        ended += WIFSIGNALED(r.status) && WTERMSIG(r.status) == SIGTERM;
    }
    release(argv);
    assert_true(ended > 10);
}

/* SIGKILL at every system call of what changes a cache or makes a bundle of it: whatever the
 * moment, every entry is whole, so is a bundle if there is one, and the same command does its work.
 */
static void a_kill_leaves_the_cache_whole(void **state)
{
    static const char *const many[WORDS] = {"bundle",     "import",      "@/many.qkb",
                                            "--unsigned", "--cache-dir", "@/other"};
    static const char *const verify[WORDS] = {"cache", "verify", "--cache-dir", "@/other"};
    static const struct {
        enum cost cost;
        bool full; /* the cache holds what many.qkb does, else it is empty */
        const char *words[WORDS];
    } killed[] = {
        {ALONE, false, {"bundle", "import", "@/many.qkb", "--unsigned", "--cache-dir", "@/other"}},
        {ALONE,
         true, /* one more, and an eviction that leaves room for about two */
         {"bundle", "import", "@/more.qkb", "--unsigned", "--cache-dir", "@/other",
          "--cache-max-size", "150K"}},
        {ALONE, true, {"bundle", "create", "@/new.qkb", "--cache-dir", "@/other"}},
        {ALONE, true, {"cache", "clear", "--cache-dir", "@/other"}},
        {WORKER,
         false,
         {"prewarm", GFX, "--m", "1", "--jobs", "1", "--cache-dir", "@/other", LAYER}},
    };
    char path[PATH_MAX];
    unsigned kills = 0;

    (void)state;
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
    skip(); /* the released program is meant */
#endif
    must_run((const char *const[WORDS]){"prewarm", GFX, "--m", "1", "--cache-dir", "@/more",
                                        "wq=nf4 n=32 k=64 a=f16"});
    must_run((const char *const[WORDS]){"bundle", "create", "@/more.qkb", "--cache-dir", "@/more"});
    snprintf(path, sizeof path, "%s/other", directory);
    for (size_t i = 0; i < COUNT(killed); i++) {
        const unsigned step = killed[i].cost == ALONE ? KILL_STEP : KILL_STEP_WORKER;
        bool more = true;
        for (unsigned at = 1 + ((unsigned)i + t_explore(step)) % step; more; at += step) {
            char *argv[WORDS + 2];
            t_remove_tree(path);
            if (killed[i].full)
                must_run(many);
            expand(killed[i].words, argv);
            const struct t_traced r =
                t_trace(&(struct t_trace){.command = argv, .at = at, .kill = true});
            release(argv);
            more = r.reached;
            kills += more;
            /* there may be no cache yet, which verify calls an error */
            if (!access(path, F_OK) && run(verify))
                fail_msg("quern %s %s, killed at call %u: the cache is not whole",
                         killed[i].words[0], killed[i].words[1], at);
            check_files(killed[i].words[1]);
            must_run(killed[i].words);
        }
        check_files(killed[i].words[1]);
    }
    print_message("%u kills\n", kills);
    assert_true(kills > 20);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_limit_of_file_size_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(a_termination_leaves_no_scraps, setup, teardown),
        cmocka_unit_test_setup_teardown(a_termination_of_a_push_leaves_no_scraps, setup, teardown),
        cmocka_unit_test_setup_teardown(a_kill_leaves_the_cache_whole, setup, teardown),
        cmocka_unit_test(verbs_end_well_whatever_fails),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

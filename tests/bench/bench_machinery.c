/* SPDX-License-Identifier: MIT */
/*
 * What the library costs around its kernels: opening it, creating ops from a warm cache, finding a
 * known op among many, by one thread and by several, and a launch up to the device call. Prints the
 * least time of many rounds, as the machine may be busy with other things, and beside it the
 * instructions, which do not depend on that: they are counted by valgrind's callgrind where there
 * is one, as the difference of two runs of this program with more and less of the same.
 *
 *   bench_machinery DIRECTORY              keeps its cache there; the first run fills it
 *   bench_machinery DIRECTORY NAME TIMES [LAYER]
 *                                          does one thing so many times, for callgrind
 */
#include "dispatch/dispatch.h"
#include "base/os.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MANY    1024
#define THREADS 4
#define ROUNDS  50
#define M_MAX   8

/* The first is what all but op creation is measured with. */
static const char *const layers[] = {
    "wq=nf4 n=4096 k=4096 a=bf16",          "wq=fp4 n=4096 k=4096 a=bf16",
    "wq=mxfp4 n=4096 k=4096 a=bf16",        "wq=int4 n=4096 k=4096 a=bf16",
    "wq=int4 zero=u8 n=4096 k=4096 a=bf16", "wq=int4 zero=scaled n=4096 k=4096 a=bf16",
    "wq=none n=4096 k=4096 a=bf16",         "wq=none n=4096 k=4096 a=f16",
    "wq=none n=4096 k=4096 a=f32",          "wq=fp8 n=4096 k=4096 a=fp8",
};
enum { LAYERS = sizeof layers / sizeof *layers };
static const char *directory;

static void must(quern_status status)
{
    if (status == QUERN_OK)
        return;
    fprintf(stderr, "%s\n", quern_last_error()->message);
    exit(1);
}

static quern_ctx *open_here(enum quern_device_kind device)
{
    struct quern_options o = QUERN_INIT(struct quern_options);
    quern_ctx *ctx;

    o.device = device;
    o.target = "gfx1151";
    o.cache_dir = directory;
    must(quern_open(&o, &ctx));
    return ctx;
}

/* ---- What is measured: make_ready once, then `once` again and again ---------------------------
 */

static struct {
    quern_ctx *ctx;
    struct quern_problem layers[LAYERS], problems[MANY]; /* of those the first layer is one */
    quern_op *ops[MANY];
    struct quern_args args;
    int layer; /* that is created */
} world;

static void open_and_close(int i)
{
    (void)i;
    quern_close(open_here(QUERN_DEVICE_NONE));
}

/* Of the layer that the thing is about. */
static void create(int i)
{
    quern_ctx *const ctx = open_here(QUERN_DEVICE_NONE);
    quern_op *op;

    (void)i;
    must(quern_op_create(ctx, &world.layers[world.layer], M_MAX, &op));
    quern_op_release(op);
    quern_close(ctx);
}

static void make_one_ready(void)
{
    world.ctx = open_here(QUERN_DEVICE_NONE);
    must(quern_op_create(world.ctx, &world.problems[0], M_MAX, &world.ops[0]));
}

/* Finding needs the ops alone, so all have the kernels of one, rather than a thousand compiles. */
static void make_many_ready(void)
{
    char text[64];

    make_one_ready();
    quern_op *const one = world.ops[0];
    for (int i = 1; i < MANY; i++) {
        snprintf(text, sizeof text, "wq=nf4 n=%d k=%d a=bf16", 64 * (1 + i % 32),
                 64 * (1 + i / 32));
        world.problems[i].size = sizeof world.problems[i];
        must(quern_problem_parse(text, &world.problems[i]));
        must(quern_op_create_flags(world.ctx, &world.problems[i], 1,
                                   QUERN_OP_NO_COMPILE | QUERN_OP_NO_WAIT, &world.ops[i]));
        while (quern_op_ready(world.ops[i]) == QUERN_E_NOT_READY)
            os.nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
        atomic_store(&world.ops[i]->kernels, atomic_load(&one->kernels));
        atomic_store(&world.ops[i]->covers, atomic_load(&one->covers));
    }
}

static void one_over(void)
{
    quern_op_release(world.ops[0]);
    quern_close(world.ctx);
}

static void many_over(void)
{
    for (int i = 1; i < MANY; i++) {
        atomic_store(&world.ops[i]->kernels, NULL);
        quern_op_release(world.ops[i]);
    }
    one_over();
}

static void find(int i)
{
    quern_op *op;

    if (quern_op_create(world.ctx, &world.problems[i], 1, &op) != QUERN_OK)
        abort();
    quern_op_release(op);
}

static void find_one(int i)
{
    (void)i;
    find(0);
}

static void find_any(int i)
{
    find(i * 389 % MANY); /* in no order that a processor could learn */
}

static quern_status launch_nothing(struct device *d, struct device_kernel *k,
                                   const struct device_launch *l)
{
    (void)d, (void)k, (void)l;
    return QUERN_OK;
}

static const struct device_functions *real_device;

static void make_launch_ready(void)
{
    static struct device_functions nothing;
    static _Alignas(16) char memory[16];

    world.ctx = open_here(QUERN_DEVICE_SIM);
    must(quern_op_create(world.ctx, &world.problems[0], M_MAX, &world.ops[0]));
    real_device = world.ctx->device->functions;
    nothing = *real_device;
    nothing.launch = launch_nothing;
    world.ctx->device->functions = &nothing;
    world.args = (struct quern_args){
        .size = sizeof world.args, .a = memory, .b = memory, .scales = memory, .c = memory};
}

static void launch(int i)
{
    if (quern_op_launch(world.ops[0], &world.args, 1 + i % M_MAX, NULL) != QUERN_OK)
        abort();
}

static void launch_over(void)
{
    world.ctx->device->functions = real_device;
    one_over();
}

static void nothing_to_do(void) {}

enum { OPEN, CREATE, LAUNCH, ONE, ANY, THINGS };

static const struct thing {
    const char *name;
    int times;   /* of a round */
    int counted; /* the greater number that callgrind sees */
    void (*make_ready)(void);
    void (*once)(int i);
    void (*over)(void);
} things[THINGS] = {
    [OPEN] = {"open", 1, 11, nothing_to_do, open_and_close, nothing_to_do},
    [CREATE] = {"create", 1, 11, nothing_to_do, create, nothing_to_do},
    [LAUNCH] = {"launch", 50000, 50000, make_launch_ready, launch, launch_over},
    [ONE] = {"known", 50000, 50000, make_one_ready, find_one, one_over},
    /* Making a thousand ops ready polls them, nobody knows how often: with fewer look-ups than two
     * million, what that takes would show in the instructions of each. */
    [ANY] = {"any", 64 * MANY, 2048 * MANY, make_many_ready, find_any, many_over},
};

/* ---- Time ------------------------------------------------------------------------------------ */

struct worker {
    const struct thing *thing;
    double ns;
};

static void *work(void *user)
{
    struct worker *const w = user;
    const uint64_t start = os_now();

    for (int i = 0; i < w->thing->times; i++)
        w->thing->once(i);
    w->ns = (double)(os_now() - start) / w->thing->times;
    return NULL;
}

/* Nanoseconds of one, on each of several threads at once: the slowest of them. */
static double nanoseconds(const struct thing *thing, int threads)
{
    double least = 1e300;

    for (int round = 0; round < ROUNDS; round++) {
        struct worker w[THREADS];
        pthread_t id[THREADS];
        double slowest = 0;
        for (int i = 0; i < threads; i++) {
            w[i].thing = thing;
            if (pthread_create(&id[i], NULL, work, &w[i]))
                abort();
        }
        for (int i = 0; i < threads; i++) {
            pthread_join(id[i], NULL);
            slowest = w[i].ns > slowest ? w[i].ns : slowest;
        }
        least = slowest < least ? slowest : least;
    }
    return least;
}

/* ---- Instructions ---------------------------------------------------------------------------- */

/* Of a whole run of this program, as callgrind says: "Collected : N". 0 if there is no valgrind. */
static double instructions_of_run(const struct thing *thing, int times)
{
    char line[512], number[16], layer[16];
    double count = 0;
    int out[2];

    snprintf(number, sizeof number, "%d", times);
    snprintf(layer, sizeof layer, "%d", world.layer);
    if (pipe(out))
        return 0;
    fflush(NULL);
    const pid_t child = fork();
    if (child == 0) {
        dup2(out[1], STDERR_FILENO);
        close(out[0]);
        close(out[1]);
        char self[4096];
        const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
        self[n > 0 ? n : 0] = 0;
        execlp("valgrind", "valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", self,
               directory, thing->name, number, layer, (char *)NULL);
        _exit(127);
    }
    close(out[1]);
    FILE *const said = fdopen(out[0], "r");
    while (said && fgets(line, sizeof line, said)) {
        const char *const at = strstr(line, "Collected : ");
        if (at)
            count = strtod(at + strlen("Collected : "), NULL);
    }
    if (said)
        fclose(said);
    if (child > 0)
        waitpid(child, NULL, 0);
    return count;
}

static double instructions(const struct thing *thing)
{
    const double few = instructions_of_run(thing, 1);
    const double many = few > 0 ? instructions_of_run(thing, thing->counted) : 0;

    return many > 0 ? (many - few) / (thing->counted - 1) : 0;
}

/* ---- All of it ------------------------------------------------------------------------------- */

static void print(const char *what, double time, const char *unit, double count)
{
    printf("%-58s %7.1f %s", what, time, unit);
    if (count > 0)
        printf("  %9.0f instructions", count);
    printf("\n");
    fflush(stdout);
}

static void measure_create(int layer, double open_ns, double open_count)
{
    char text[96];
    quern_op *op;

    world.layer = layer;
    quern_ctx *const ctx = open_here(QUERN_DEVICE_NONE);
    must(quern_op_create(ctx, &world.layers[layer], M_MAX, &op)); /* and fill the cache */
    const double kernels = (double)quern_op_kernel_count(op);
    quern_op_release(op);
    quern_close(ctx);
    snprintf(text, sizeof text, "an op from a warm cache, for each of %.0f kernels", kernels);
    printf("%s\n", layers[layer]);
    print(text, (nanoseconds(&things[CREATE], 1) - open_ns) * 1e-3 / kernels, "us",
          (instructions(&things[CREATE]) - open_count) / kernels);
}

static void measure_all(void)
{
    double ns[THINGS], count[THINGS], crowd = 0;
    char text[96];

    for (int i = 0; i < THINGS; i++) {
        if (i == CREATE)
            continue;
        things[i].make_ready();
        ns[i] = nanoseconds(&things[i], 1);
        if (i == ANY)
            crowd = nanoseconds(&things[i], THREADS);
        things[i].over();
        count[i] = instructions(&things[i]);
    }
    print("opening the library, and closing it", ns[OPEN] * 1e-3, "us", count[OPEN]);
    print("a launch, up to the device call", ns[LAUNCH], "ns", count[LAUNCH]);
    print("quern_op_create of a known problem, and its release", ns[ONE], "ns", count[ONE]);
    snprintf(text, sizeof text, "the same, one of %d", MANY);
    print(text, ns[ANY], "ns", count[ANY]);
    snprintf(text, sizeof text, "the same, on %d threads at once", THREADS);
    print(text, crowd, "ns", 0);
    for (int i = 0; i < LAYERS; i++)
        measure_create(i, ns[OPEN], count[OPEN]);
}

int main(int argc, char **argv)
{
    if (argc != 2 && argc != 4 && argc != 5) {
        fprintf(stderr, "usage: bench_machinery DIRECTORY [NAME TIMES [LAYER]]\n");
        return 2;
    }
    directory = argv[1];
    for (int i = 0; i < LAYERS; i++) {
        world.layers[i].size = sizeof world.layers[i];
        must(quern_problem_parse(layers[i], &world.layers[i]));
    }
    world.problems[0] = world.layers[0];
    if (argc == 2) {
        measure_all();
        return 0;
    }
    world.layer = argc == 5 ? atoi(argv[4]) % LAYERS : 0;
    for (int i = 0; i < THINGS; i++)
        if (!strcmp(things[i].name, argv[2])) {
            const int times = atoi(argv[3]);
            things[i].make_ready();
            for (int n = 0; n < times; n++)
                things[i].once(n);
            things[i].over();
            return 0;
        }
    fprintf(stderr, "%s is none of the things that are measured\n", argv[2]);
    return 2;
}

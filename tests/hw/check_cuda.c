/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's GPU of this machine by way of the library's own rooms, for whoever brings quern up on
 * one: finds the driver and NVRTC, compiles a kernel of a few lines in a worker, loads it, launches
 * it in every way that hosts do, and compares what it computes and what the driver says of it.
 * Prints a line for each thing; exit status 0: all is as it should be, 1: something is not, 77: no
 * such GPU. Run it from anywhere with libexec/quern beside its build's lib:
 *
 *     build/release/tests/hw/check_cuda [INDEX]
 */
#include "compile/compile.h"
#include "device/device.h"
#include "gen/gen.h"
#include "object/object.h"
#include "plan/family.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* `tile` has its operands in dynamic shared memory, of 200 KiB where the GPU has so much. */
static const char source[] = "extern \"C\" __global__ void __launch_bounds__(256)\n"
                             "axpy(float *y, const float *x, float a, unsigned n)\n"
                             "{\n"
                             "    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                             "    if (i < n)\n"
                             "        y[i] += a * x[i];\n"
                             "}\n"
                             "extern \"C\" __global__ void __launch_bounds__(256)\n"
                             "tile(float *y, const float *x, unsigned words)\n"
                             "{\n"
                             "    extern __shared__ float s[];\n"
                             "    for (unsigned i = threadIdx.x; i < words; i += 256)\n"
                             "        s[i] = x[i];\n"
                             "    __syncthreads();\n"
                             "    for (unsigned i = threadIdx.x; i < words; i += 256)\n"
                             "        y[i] = s[words - 1 - i];\n"
                             "}\n"
                             "extern \"C\" __global__ void fault(float *p) { p[0] = 1; }\n";

/* ---- The report ------------------------------------------------------------------------------ */

static int problems;

static bool say(bool ok, const char *what, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool say(bool ok, const char *what, const char *format, ...)
{
    va_list ap;

    printf("%-8s %s: ", ok ? "ok" : "problem", what);
    va_start(ap, format);
    vprintf(format, ap);
    va_end(ap);
    printf("\n");
    fflush(stdout);
    problems += !ok;
    return ok;
}

static bool did(quern_status status, const char *what)
{
    return say(status == QUERN_OK, what, "%s",
               status == QUERN_OK ? "done" : quern_last_error()->message);
}

/* ---- The driver's functions that hosts call and the library does not ------------------------- */

#define DRIVER_FUNCTIONS(X)                                                                        \
    X(cuStreamCreate, (void **stream, unsigned flags))                                             \
    X(cuStreamSynchronize, (void *stream))                                                         \
    X(cuStreamBeginCapture_v2, (void *stream, int mode))                                           \
    X(cuStreamEndCapture, (void *stream, void **graph))                                            \
    X(cuGraphInstantiateWithFlags, (void **exec, void *graph, unsigned long long flags))           \
    X(cuGraphLaunch, (void *exec, void *stream))                                                   \
    X(cuGraphExecDestroy, (void *exec))                                                            \
    X(cuGraphDestroy, (void *graph))                                                               \
    X(cuStreamDestroy_v2, (void *stream))                                                          \
    X(cuFuncGetAttribute, (int *value, int attribute, void *function))                             \
    X(cuModuleLoadData, (void **module, const void *image))                                        \
    X(cuModuleGetFunction, (void **function, void *module, const char *name))                      \
    X(cuModuleUnload, (void *module))                                                              \
    X(cuCtxGetCurrent, (void **context))                                                           \
    X(cuCtxSetCurrent, (void *context))                                                            \
    X(cuDevicePrimaryCtxRetain, (void **context, int device))                                      \
    X(cuDeviceGet, (int *device, int index))

static struct {
#define MEMBER(name, parameters) int(*name) parameters;
    DRIVER_FUNCTIONS(MEMBER)
#undef MEMBER
} cu;

static bool find_driver(const char *path)
{
    void *const handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD), *address;

#define FIND(name, parameters)                                                                     \
    if (!handle || !(address = dlsym(handle, #name)))                                              \
        return say(false, "driver", "%s has no %s", path, #name);                                  \
    memcpy(&cu.name, &address, sizeof address);
    DRIVER_FUNCTIONS(FIND)
#undef FIND
    return true;
}

/* ---- What is run ----------------------------------------------------------------------------- */

#define N 100000

struct world {
    struct device *device;
    int index;
    void *context; /* the primary one, as a host has it */
    struct compile_result compiled;
    struct object object;
    struct device_kernel *axpy;
    struct device_memory x, y;
    float host_x[N], host_y[N];
    float expected; /* how often a · x has been added */
};

static quern_status launch_axpy(struct world *w, void *stream)
{
    struct {
        uint64_t y, x;
        float a;
        uint32_t n;
    } args = {w->y.address, w->x.address, 0.5f, N};
    const struct device_launch launch = {.grid = {(N + 255) / 256, 1, 1},
                                         .block = {256, 1, 1},
                                         .kernarg = &args,
                                         .kernarg_bytes = sizeof args,
                                         .stream = stream};

    TRY(w->device->functions->launch(w->device, w->axpy, &launch));
    w->expected += 0.5f;
    return QUERN_OK;
}

/* Sums of small multiples of 0.5 are exact. */
static bool check_y(struct world *w, const char *what)
{
    static float got[N];
    size_t wrong = 0, first = 0;

    if (!did(w->device->functions->memory_read(w->device, &w->y, got), what))
        return false;
    for (size_t i = N; i-- > 0;)
        if (got[i] != w->host_y[i] + w->expected * w->host_x[i]) {
            wrong++;
            first = i;
        }
    return say(!wrong, what, "%zu of %d elements are wrong (the first is %zu: %g, not %g)", wrong,
               N, first, got[first], w->host_y[first] + w->expected * w->host_x[first]);
}

static quern_status make_memory(struct world *w)
{
    const struct device_functions *const f = w->device->functions;

    for (size_t i = 0; i < N; i++) {
        w->host_x[i] = (float)(i % 1000);
        w->host_y[i] = (float)(i % 77);
    }
    TRY(f->memory_make(w->device, sizeof w->host_x, QUERN_SIM_READ_WRITE, "x", &w->x));
    TRY(f->memory_make(w->device, sizeof w->host_y, QUERN_SIM_READ_WRITE, "y", &w->y));
    TRY(f->memory_write(w->device, &w->x, w->host_x));
    return f->memory_write(w->device, &w->y, w->host_y);
}

static quern_status compile(struct world *w)
{
    const struct compiler_config config = {.vendor = VENDOR_NVIDIA, .jobs = 1};
    const struct plan plan = {.family = &family_lane_w4, .target = w->device->id.target};
    struct str options = {0};
    struct compiler *c;

    gen_options(&plan, &options);
    TRY(compiler_open(&config, &c));
    const struct compile_job job = {
        .source = source, .processor = w->device->id.target->name, .options = str_text(&options)};
    quern_status status = compiler_compile(c, &job, &w->compiled);
    if (status == QUERN_OK) {
        const struct toolchain *const t = compiler_toolchain(c);
        say(true, "NVRTC", "%s, %zu bytes in %.0f ms", t->library[LIBRARY_COMPILER],
            w->compiled.object_bytes, w->compiled.milliseconds);
        status = object_parse(w->compiled.object, w->compiled.object_bytes, &w->object);
    }
    compiler_close(c);
    str_free(&options);
    return status;
}

/* The driver's word on each kernel, against what the reader of cubins says. */
static void compare_resources(const struct world *w)
{
    enum { MAX_THREADS = 0, SHARED = 1, LOCAL = 3, REGISTERS = 4, BINARY_VERSION = 6 };
    void *module, *function;

    if (!say(!cu.cuModuleLoadData(&module, w->object.bytes), "resources", "loaded"))
        return;
    for (size_t i = 0; i < w->object.kernel_count; i++) {
        const struct object_kernel *const k = &w->object.kernels[i];
        int threads = -1, shared = -1, local = -1, registers = -1, version = -1;
        cu.cuModuleGetFunction(&function, module, k->name);
        cu.cuFuncGetAttribute(&threads, MAX_THREADS, function);
        cu.cuFuncGetAttribute(&shared, SHARED, function);
        cu.cuFuncGetAttribute(&local, LOCAL, function);
        cu.cuFuncGetAttribute(&registers, REGISTERS, function);
        cu.cuFuncGetAttribute(&version, BINARY_VERSION, function);
        say((unsigned)registers == k->vgprs && (unsigned)version == w->object.target->elf_machine &&
                (unsigned)local == k->scratch_bytes && (unsigned)threads == k->max_flat_workgroup,
            k->name,
            "registers %d (%u in the cubin), local %d (%u), shared %d (%u), threads %d (%u), "
            "binary version %d",
            registers, k->vgprs, local, k->scratch_bytes, shared, k->lds_bytes, threads,
            k->max_flat_workgroup, version);
    }
    cu.cuModuleUnload(module);
}

/* ---- Ways to launch -------------------------------------------------------------------------- */

static void check_graph(struct world *w)
{
    enum { NON_BLOCKING = 1, GLOBAL = 0 };
    struct device_kernel *more = NULL;
    void *stream, *graph = NULL, *exec = NULL;
    bool capturing = false;

    if (!say(!cu.cuStreamCreate(&stream, NON_BLOCKING) &&
                 !cu.cuStreamBeginCapture_v2(stream, GLOBAL),
             "capture", "begun"))
        return;
    did(w->device->functions->capturing(w->device, stream, &capturing), "capture is asked for");
    say(capturing, "capture", "the stream is%s said to be captured", capturing ? "" : " not");
    /* what the library does in the relaxed mode while a capture is under way */
    did(w->device->functions->load(w->device, &w->object, "axpy", 0, &more),
        "a module is loaded during a capture");
    const float before = w->expected;
    did(launch_axpy(w, stream), "launch into the capture");
    did(launch_axpy(w, stream), "launch into the capture");
    w->expected = before;
    const int ended = cu.cuStreamEndCapture(stream, &graph),
              made = ended ? ended : cu.cuGraphInstantiateWithFlags(&exec, graph, 0);
    if (say(!made, "graph", "made, error %d", made)) {
        for (int i = 0; i < 3; i++) {
            cu.cuGraphLaunch(exec, stream);
            w->expected += 1;
        }
        say(!cu.cuStreamSynchronize(stream), "graph", "launched three times");
        check_y(w, "after the graph");
        cu.cuGraphExecDestroy(exec);
        cu.cuGraphDestroy(graph);
    }
    if (more)
        w->device->functions->unload(w->device, more);
    cu.cuStreamDestroy_v2(stream);
}

/* The thread's context must be the one that the library found it with: none. */
static void check_no_context(const char *what)
{
    void *context = &context;
    const int error = cu.cuCtxGetCurrent(&context);

    say(!error && !context, what, "error %d, %s", error, context ? "a context" : "no context");
}

static void *launch_on_a_thread(void *user)
{
    check_no_context("a new thread");
    did(launch_axpy(user, NULL), "a launch on a thread without a context");
    check_no_context("a new thread afterwards");
    return NULL;
}

static quern_status launch_some(void *user)
{
    for (int i = 0; i < 100; i++)
        TRY(launch_axpy(user, NULL));
    return QUERN_OK;
}

static void check_launches(struct world *w)
{
    pthread_t thread;
    double microseconds = 0;

    check_no_context("the caller's context");
    did(launch_axpy(w, NULL), "launch on the null stream");
    check_y(w, "after a launch");
    if (!pthread_create(&thread, NULL, launch_on_a_thread, w))
        pthread_join(thread, NULL);
    check_y(w, "after a launch on another thread");
    did(w->device->functions->measure(w->device, launch_some, w, &microseconds), "events");
    say(microseconds > 0, "events", "%.2f microseconds a launch of 100", microseconds / 100);
    check_y(w, "after these");
    cu.cuCtxSetCurrent(w->context);
    check_graph(w);
    compare_resources(w);
    cu.cuCtxSetCurrent(NULL);
}

/* All the dynamic shared memory that a workgroup of the target may have. */
static void check_dynamic(struct world *w)
{
    const struct device_functions *const f = w->device->functions;
    const uint32_t bytes = w->device->id.target->lds_bytes;
    struct {
        uint64_t y, x;
        uint32_t words;
    } args = {w->y.address, w->x.address, bytes / 4};
    const struct device_launch launch = {.grid = {1, 1, 1},
                                         .block = {256, 1, 1},
                                         .lds_bytes = bytes,
                                         .kernarg = &args,
                                         .kernarg_bytes = 20};
    static float got[N];
    struct device_kernel *k;
    size_t wrong = 0;

    if (!did(f->load(w->device, &w->object, "tile", bytes, &k), "a kernel with dynamic LDS"))
        return;
    did(f->launch(w->device, k, &launch), "its launch");
    did(f->memory_read(w->device, &w->y, got), "its result");
    for (size_t i = 0; i < bytes / 4; i++)
        wrong += got[i] != w->host_x[bytes / 4 - 1 - i];
    say(!wrong, "dynamic LDS", "%u bytes, %zu elements are wrong", bytes, wrong);
    f->unload(w->device, k);
}

/* In a process of its own, whose context it kills: the first call that meets the fault says it, and
 * all that follow say that the device is of no more use, at once. */
static int check_fault(struct world *w)
{
    const struct device_functions *const f = w->device->functions;
    struct {
        uint64_t p;
    } args = {64};
    const struct device_launch launch = {
        .grid = {1, 1, 1}, .block = {1, 1, 1}, .kernarg = &args, .kernarg_bytes = 8};
    struct device_kernel *k;

    if (!did(f->load(w->device, &w->object, "fault", 0, &k), "a kernel that faults") ||
        !did(f->launch(w->device, k, &launch), "its launch"))
        return 1;
    quern_status status = f->memory_write(w->device, &w->y, w->host_y);
    say(status == QUERN_E_DEVICE && strstr(quern_last_error()->message, "new process"), "the fault",
        "%s", quern_last_error()->message);
    status = f->launch(w->device, k, &launch);
    say(status == QUERN_E_DEVICE && strstr(quern_last_error()->message, "no more use"),
        "a launch after it", "%s", quern_last_error()->message);
    f->unload(w->device, k);
    f->close(w->device);
    return problems != 0;
}

static void check_fork(struct world *w)
{
    int status = -1;

    fflush(stdout);
    const pid_t child = fork();
    if (!child) {
        problems = 0;
        const quern_status launched = launch_axpy(w, NULL);
        say(launched == QUERN_E_DEVICE && strstr(quern_last_error()->message, "forked"),
            "a launch in a forked child", "%s", quern_last_error()->message);
        fflush(stdout);
        _exit(problems != 0);
    }
    const bool ended = child > 0 && waitpid(child, &status, 0) == child;
    say(ended && !status, "the child", "status %d", status);
    did(launch_axpy(w, NULL), "a launch in its parent");
    check_y(w, "after the fork");
}

static int run(struct world *w, bool fault)
{
    const struct device_facts *const f = &w->device->facts;

    say(true, "device", "%s, %s, %u SMs, %.2f GHz, %.1f GiB, %.0f MiB of L2; driver %s, CUDA %d",
        f->name, w->device->id.target->name, f->compute_units, f->clock_ghz,
        (double)f->memory_bytes / (1 << 30), (double)f->cache_bytes / (1 << 20), f->runtime,
        f->runtime_version);
    int handle = 0;
    if (!find_driver(f->runtime) ||
        !say(!cu.cuDeviceGet(&handle, w->index) &&
                 !cu.cuDevicePrimaryCtxRetain(&w->context, handle),
             "the host's context", "the primary one") ||
        !did(compile(w), "compile") || !did(make_memory(w), "memory") ||
        !did(w->device->functions->load(w->device, &w->object, "axpy", 0, &w->axpy), "load"))
        return 1;
    if (fault)
        return check_fault(w);
    check_launches(w);
    check_fork(w);
    check_dynamic(w);
    w->device->functions->memory_free(w->device, &w->x);
    w->device->functions->memory_free(w->device, &w->y);
    w->device->functions->unload(w->device, w->axpy);
    w->device->functions->close(w->device);
    return problems != 0;
}

int main(int argc, char **argv)
{
    static struct world w;
    const bool fault = argc > 2 && !strcmp(argv[2], "fault");
    const struct device_search search = {0};
    char command[4096];

    w.index = argc > 1 ? atoi(argv[1]) : 0;
    if (driver_nvidia.open(&driver_nvidia, &search, w.index, &w.device) != QUERN_OK) {
        printf("no GPU: %s\n", quern_last_error()->message);
        return 77;
    }
    if (run(&w, fault) || fault)
        return problems != 0;
    snprintf(command, sizeof command, "'%s' %d fault", argv[0], w.index);
    fflush(stdout);
    say(!system(command), "the process of the fault", "ended");
    return problems != 0;
}

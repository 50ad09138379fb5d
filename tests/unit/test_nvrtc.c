/* SPDX-License-Identifier: MIT */
/*
 * NVRTC in the workers: each NVRTC that this machine has, the one of `make setup-cuda` among them,
 * compiles for every target of NVIDIA's, confined as hipRTC is; what is wrong with a source is an
 * error; and what the reader of cubins says of the objects is what cuobjdump says. Where there is
 * no NVRTC the tests are skipped; with CI=true they fail.
 */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "gen/dialects.h"
#include "gen/gen.h"
#include "object/object.h"
#include "plan/family.h"
#include "plan/ring.h"
#include "problem/problem.h"
#include "t_compile.h"
#include "t_paths.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char source[] =
    "extern \"C\" __global__ void __launch_bounds__(128) sum(float *y, const float *x, int n)\n"
    "{\n"
    "    __shared__ float s[128];\n"
    "    s[threadIdx.x] = (int)threadIdx.x < n ? x[threadIdx.x] : 0;\n"
    "    __syncthreads();\n"
    "    if (!threadIdx.x)\n"
    "        for (int i = 0; i < 128; i++)\n"
    "            *y += s[i];\n"
    "}\n";

static char options[256];

/* Whether a tool or compiler of NVIDIA's that a test needs is there; skips the test, or fails. */
static void need(bool there, const char *what)
{
    const char *const ci = getenv("CI");

    if (there)
        return;
    if (ci && !strcmp(ci, "true"))
        fail_msg("no %s; `make setup-cuda` fetches it", what);
    print_message("skipped: no %s; `make setup-cuda` fetches it\n", what);
    skip();
}

/* Where the compilers are: what is found by itself, and what setup-cuda unpacked. */
static const char *const places[] = {NULL, "build/cuda"};
#define PLACES (sizeof places / sizeof *places)

static struct compiler *open_nvrtc(const char *path)
{
    const struct compiler_config config = {.vendor = VENDOR_NVIDIA, .path = path, .jobs = 1};
    struct toolchain toolchain;
    struct compiler *c;

    if (toolchain_find(VENDOR_NVIDIA, path, &toolchain) != QUERN_OK)
        return NULL;
    assert_int_equal(compiler_open(&config, &c), QUERN_OK);
    return c;
}

static void compile_well(struct compiler *c, const char *processor, struct compile_result *r)
{
    if (t_compile(c, source, processor, options, r) != QUERN_OK)
        fail_msg("%s: %s\n%s", processor, quern_last_error()->message, quern_last_error()->log);
}

static void test_every_target_compiles(void **state)
{
    unsigned compilers = 0;

    (void)state;
    for (size_t p = 0; p < PLACES; p++) {
        struct compiler *const c = open_nvrtc(places[p]);
        if (!c)
            continue;
        compilers++;
        for (size_t i = 0; i < target_count(); i++) {
            const struct target *const t = target_at(i);
            struct compile_result r, again;
            struct object o;
            if (t->vendor != VENDOR_NVIDIA)
                continue;
            compile_well(c, t->name, &r);
            assert_string_equal(r.log, "");
            assert_int_equal(object_parse(r.object, r.object_bytes, &o), QUERN_OK);
            assert_ptr_equal(o.target, t);
            const struct object_kernel *const k = object_kernel(&o, "sum");
            assert_non_null(k);
            assert_int_equal(k->arg_count, 3);
            assert_int_equal(k->kernarg_bytes, 20);
            assert_int_equal(k->max_flat_workgroup, 128);
            assert_in_range(k->lds_bytes, 512, 512 + 1024); /* sm_90 and later reserve 1 KiB */
            object_free(&o);
            compile_well(c, t->name, &again);
            assert_int_equal(again.object_bytes, r.object_bytes);
            assert_memory_equal(again.object, r.object, r.object_bytes);
            compile_result_free(&again);
            compile_result_free(&r);
        }
        assert_int_equal(t_compiler_stats(c).started, 1);
        assert_int_equal(t_compiler_stats(c).died, 0);
        compiler_close(c);
    }
    need(compilers, "NVRTC");
}

/* Compiles a plan's kernel, as the library does, into an object of one kernel. */
static void compile_plan(struct compiler *c, const struct plan *p, struct compile_result *r,
                         struct object *o)
{
    struct str text = {0}, flags = {0};

    assert_int_equal(gen_source(p, &text), QUERN_OK);
    gen_options(p, &flags);
    if (t_compile(c, str_text(&text), p->target->name, str_text(&flags), r) != QUERN_OK)
        fail_msg("%s on %s: %s", p->symbol, p->target->name, quern_last_error()->log);
    assert_int_equal(object_parse(r->object, r->object_bytes, o), QUERN_OK);
    assert_int_equal(o->kernel_count, 1);
    str_free(&flags);
    str_free(&text);
}

/* Kernels of the library itself. They end with a trap where shared memory is not where the plan
 * says; a compiler that knows the place makes them nothing but a trap, or none. */
static void test_kernels_are_more_than_a_trap(void **state)
{
    static const char *const words[] = {"wq=none n=256 k=512 a=f16",
                                        "wq=fp8 n=256 k=512 a=bf16",
                                        "wq=nf4 n=256 k=512 a=f32",
                                        "wq=nf4 n=256 k=512 a=bf16",
                                        "op=dequant wq=fp4 n=256 k=512 c=bf16",
                                        "wq=nf4 n=28672 k=512 a=bf16 bias=1",
                                        "wq=int4 n=28672 k=576 group=64 a=bf16 zero=u8"};
    struct compiler *const c = open_nvrtc(NULL);
    struct compiler *const compiler = c ? c : open_nvrtc("build/cuda");

    (void)state;
    need(compiler, "NVRTC");
    for (size_t i = 0; i < target_count(); i++) {
        const struct target *const t = target_at(i);
        for (size_t w = 0; w < sizeof words / sizeof *words && t->vendor == VENDOR_NVIDIA; w++) {
            struct quern_problem problem = QUERN_INIT(struct quern_problem);
            struct compile_result r;
            struct plan_set set;
            struct object o;
            assert_int_equal(quern_problem_parse(words[w], &problem), QUERN_OK);
            const bool declined = w < 2 && !(t->capabilities & CAP_BULK); /* the ring's alone */
            assert_int_equal(plan_make(&problem, t, &set), declined ? QUERN_E_DECLINED : QUERN_OK);
            if (declined)
                continue;
            const struct plan *const p = &set.plans[w < 5 ? 0 : set.count - 1];
            assert_int_equal(p->family == &family_slab_w4, w >= 5 && t == target_named("sm_90"));
            compile_plan(compiler, p, &r, &o);
            if (o.kernels[0].code_bytes < 2000)
                fail_msg("%s on %s has %d bytes of code", words[w], t->name,
                         (int)o.kernels[0].code_bytes);
            object_free(&o);
            compile_result_free(&r);
        }
    }
    compiler_close(compiler);
}

/* A warp that asks for more registers than others leave waits for ever; what there is to be shared
 * out is what the compiler's kernel is launched with. So a kernel must have as many for each lane
 * as the plan counts on, and nothing may be spilled. */
static void test_registers_are_there(void **state)
{
    static const struct {
        const char *problem;
        int m;
        const char *shape;
    } layers[] = {{"wq=nf4 n=28672 k=4096 a=bf16", 16,
                   "waves=12 products=12 k_warps=8 row_warps=1 units=8 stages=3 portions=1"},
                  {"wq=int4 n=28672 k=4096 a=f16", 16,
                   "waves=12 products=12 k_warps=8 row_warps=1 units=8 stages=3 portions=1"},
                  {"wq=int4 n=4096 k=4096 a=bf16 zero=u8", 32,
                   "waves=12 products=12 k_warps=8 row_warps=1 units=4 stages=3 portions=1"},
                  {"wq=fp8 n=4096 k=4096 a=bf16", 32,
                   "waves=12 products=12 k_warps=8 row_warps=1 units=4 stages=3 portions=1"},
                  {"wq=nf4 n=5760 k=3072 a=bf16 act=silu_mul glu=halves", 16,
                   "waves=16 products=12 k_warps=12 row_warps=1 units=4 stages=3 portions=1"},
                  {"wq=mxfp4 n=19456 k=2560 a=bf16", 8,
                   "waves=20 products=12 k_warps=8 row_warps=2 units=10 stages=2 portions=1"}};
    const struct target *const t = target_named("sm_90");
    struct compiler *const c = open_nvrtc(NULL);
    struct compiler *const compiler = c ? c : open_nvrtc("build/cuda");

    (void)state;
    need(compiler, "NVRTC");
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        struct quern_problem problem = QUERN_INIT(struct quern_problem);
        struct compile_result r;
        struct plan_set set;
        struct object o;

        assert_int_equal(quern_problem_parse(layers[i].problem, &problem), QUERN_OK);
        assert_int_equal(plan_make(&problem, t, &set), QUERN_OK);
        struct plan one = *plan_for(&set, layers[i].m), *const p = &one;
        p->family = &family_ring;
        if (plan_reshape(p, layers[i].shape) != QUERN_OK || !ring_hands_over(p))
            fail_msg("%s: %s", layers[i].problem, quern_last_error()->message);
        compile_plan(compiler, p, &r, &o);
        const int64_t shared = plan_registers(p);
        if (p->waves * (int64_t)o.kernels[0].vgprs < shared || o.kernels[0].scratch_bytes)
            fail_msg("%s: %d registers for each of %d warps, of %d in all; %d bytes spilled",
                     layers[i].problem, (int)o.kernels[0].vgprs, p->waves, (int)shared,
                     (int)o.kernels[0].scratch_bytes);
        object_free(&o);
        compile_result_free(&r);
    }
    compiler_close(compiler);
}

/* Vector types of clang's would be ignored, and the kernel would compute something else. */
static void test_wrong_sources_are_errors(void **state)
{
    static const struct {
        const char *source, *words;
    } wrong[] = {
        {"typedef float v4 __attribute__((ext_vector_type(4)));\n"
         "extern \"C\" __global__ void k(v4 *p) { p[1] = p[0]; }\n",
         "ext_vector_type"},
        {"extern \"C\" __global__ void k(float *p) { p[0] = nothing; }\n", "nothing"},
        {"extern \"C\" __global__ void k() { asm volatile(\"no such instruction;\"); }\n", "ptxas"},
        {"#include <cuda_fp16.h>\n", "cuda_fp16.h"},
        {"template <int N> struct s { s<N + 1> t; }; s<0> x;\n", "error"},
    };
    struct compiler *const c = open_nvrtc(NULL);
    struct compile_result r;

    (void)state;
    need(c, "NVRTC");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(t_compile(c, wrong[i].source, "sm_90", options, &r), QUERN_E_COMPILE);
        if (!strstr(quern_last_error()->log, wrong[i].words))
            fail_msg("\"%s\" lacks \"%s\"", quern_last_error()->log, wrong[i].words);
    }
    assert_int_equal(t_compile(c, source, "sm_90", "--no-such-option", &r), QUERN_E_COMPILE);
    assert_int_equal(t_compile(c, source, "gfx1100", options, &r), QUERN_E_TARGET);
    compile_well(c, "sm_90", &r);
    compile_result_free(&r);
    assert_int_equal(t_compiler_stats(c).started, 1);
    assert_int_equal(t_compiler_stats(c).died, 0);
    compiler_close(c);
}

/* NVRTC quotes lines of what it includes: the sandbox must keep it from the host's files. And what
 * it does itself is allowed: no call is refused. */
static void test_the_sandbox_holds(void **state)
{
    struct compiler *const c = open_nvrtc(NULL);
    struct compile_result r;
    char *version;

    (void)state;
    need(c, "NVRTC");
    compile_well(c, "sm_90", &r);
    compile_result_free(&r);
    assert_int_equal(t_compile(c, "#include \"/etc/passwd\"\n", "sm_90", options, &r),
                     QUERN_E_COMPILE);
    assert_int_equal(compiler_version(c, &version), QUERN_OK);
    assert_non_null(strstr(version, "nvrtc interface 1"));
    assert_null(strstr(version, "refused"));
    if (strstr(version, "landlock"))
        assert_null(strstr(quern_last_error()->log, "root:"));
    free(version);
    compiler_close(c);
}

/* ---- cuobjdump ------------------------------------------------------------------------------- */

static const char *find_cuobjdump(void)
{
    static const char *const paths[] = {"build/cuda/bin/cuobjdump",
                                        "/usr/local/cuda/bin/cuobjdump"};

    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (!access(paths[i], X_OK))
            return paths[i];
    return NULL;
}

/* Reads "REG:40 STACK:160 SHARED:2224 …" of the one kernel of an object. */
static void ask_cuobjdump(const char *tool, const struct compile_result *r, unsigned figures[3])
{
    char path[] = "/tmp/quern-cubin-XXXXXX", command[256], line[512];
    const int fd = mkstemp(path);
    bool found = false;

    assert_true(fd >= 0);
    assert_int_equal(write(fd, r->object, r->object_bytes), r->object_bytes);
    close(fd);
    snprintf(command, sizeof command, "%s -res-usage %s", tool, path);
    FILE *const out = popen(command, "r");
    assert_non_null(out);
    while (fgets(line, sizeof line, out))
        found |=
            sscanf(line, " REG:%u STACK:%u SHARED:%u", &figures[0], &figures[1], &figures[2]) == 3;
    assert_int_equal(pclose(out), 0);
    assert_true(found);
    unlink(path);
}

static void test_cuobjdump_agrees(void **state)
{
    const char *const tool = find_cuobjdump();

    (void)state;
    need(tool, "cuobjdump");
    for (size_t p = 0; p < PLACES; p++) {
        struct compiler *const c = open_nvrtc(places[p]);
        for (size_t i = 0; c && i < target_count(); i++) {
            struct compile_result r;
            struct object o;
            unsigned figures[3];
            if (target_at(i)->vendor != VENDOR_NVIDIA)
                continue;
            compile_well(c, target_at(i)->name, &r);
            ask_cuobjdump(tool, &r, figures);
            assert_int_equal(object_parse(r.object, r.object_bytes, &o), QUERN_OK);
            assert_int_equal(o.kernels[0].vgprs, figures[0]);
            assert_int_equal(o.kernels[0].scratch_bytes, figures[1]);
            assert_int_equal(o.kernels[0].lds_bytes, figures[2]);
            object_free(&o);
            compile_result_free(&r);
        }
        compiler_close(c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_target_compiles),
        cmocka_unit_test(test_kernels_are_more_than_a_trap),
        cmocka_unit_test(test_registers_are_there),
        cmocka_unit_test(test_wrong_sources_are_errors),
        cmocka_unit_test(test_the_sandbox_holds),
        cmocka_unit_test(test_cuobjdump_agrees),
    };
    const struct plan plan = {.family = &family_lane_w4}; /* code for the target as it is named */
    struct str text = {0};

    dialect_nvidia.options(&plan, &text);
    snprintf(options, sizeof options, "%s", str_text(&text));
    str_free(&text);
    return cmocka_run_group_tests_name("nvrtc", tests, NULL, NULL);
}

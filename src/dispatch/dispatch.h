/* SPDX-License-Identifier: MIT */
/* What the files of dispatch/ share: the context, a made kernel, an op. */
#ifndef QUERN_DISPATCH_DISPATCH_H
#define QUERN_DISPATCH_DISPATCH_H

#include "base/counters.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/lock.h"
#include "base/log.h"
#include "compile/compile.h"
#include "device/device.h"
#include "object/object.h"
#include "plan/args.h"
#include "plan/plan.h"
#include "plan/tuning.h"
#include "store/bundle.h"
#include "store/tier.h"

#include <quern/tool.h>

#include <pthread.h>
#include <stdatomic.h>

/* ---- Options --------------------------------------------------------------------------------- */

/* Options that are strings: X(name, variable of the environment that stands in for it, or ""). What
 * is not given is null, which means: */
#define STRING_SETTINGS(X)                                                                         \
    X(target, "QUERN_TARGET")           /* the device says */                                      \
    X(cache_dir, "QUERN_CACHE_DIR")     /* the default place */                                    \
    X(rocm_path, "QUERN_ROCM_PATH")     /* the usual places */                                     \
    X(worker_path, "")                  /* beside the library */                                   \
    X(bundle_path, "QUERN_BUNDLE_PATH") /* none; else paths with ':' between */                    \
    X(bundle_keys, "QUERN_BUNDLE_KEYS") /* bundles need no signature */                            \
    X(record, "QUERN_RECORD")           /* none; else the file problems are noted in */            \
    X(tuning, "QUERN_TUNING")           /* the default place */                                    \
    X(cuda_path, "QUERN_CUDA_PATH")     /* the usual places */

/* Options with the environment and the defaults filled in; strings are owned. */
struct settings {
    enum quern_device_kind device;
    int device_index;
    uint64_t cache_max_bytes;
    enum quern_cache_mode cache_mode;
    bool cache_shared; /* with its directory's group */
    enum quern_jit jit;
    enum quern_toolchain toolchain;
    enum quern_blas blas;
    struct plan_force force;
    int jobs;
    int allow_unverified;
    enum quern_log_level log_level;
#define STRING_SETTING(name, variable) char *name;
    STRING_SETTINGS(STRING_SETTING)
#undef STRING_SETTING
};

/* Copies a caller's options, of any accepted size, or none (null), to *own. */
quern_status options_read(const struct quern_options *given, struct quern_options *own);
/* Reads the environment once; `log` is warned of an unknown QUERN_ variable. */
quern_status settings_make(const struct quern_options *options, struct log *log,
                           struct settings *settings);
void settings_free(struct settings *settings);
/* The setting that a vendor's compiler or runtime calls its own, such as "rocm_path"; null: it is
 * not set, or `option` is null. */
const char *settings_path(const struct settings *settings, const char *option);

/* ---- Tiers ----------------------------------------------------------------------------------- */

#define TIERS_MAX 4

/* Opens the tiers that the settings ask for (tiers.c), in the order in which they are asked. After
 * a failure, too, tiers_close must follow. */
quern_status tiers_open(quern_ctx *ctx);
void tiers_close(quern_ctx *ctx);

/* ---- A kernel -------------------------------------------------------------------------------- */

/* A kernel that was found or made. Immutable once ready. */
struct kernel {
    struct plan plan;
    char *options; /* of the compiler, one a line */
    struct hash128 source_key, entry_key;
    void *buffer;      /* the entry that the code object was found in, or the object alone */
    const void *bytes; /* the code object in it; null while there is none */
    size_t size;
    struct object object; /* points into bytes */
    const struct object_kernel *in_object;
    enum plan_arg args[PLAN_ARG_COUNT]; /* that it takes, in kernarg order */
    size_t arg_count;
    struct device_kernel *loaded; /* null until kernel_load */
    bool cached;
    bool refused;   /* by the scan of its object; `bytes` is null */
    unsigned rules; /* that its object has passed; 0: it is not scanned */
    bool by_source; /* made by another toolchain than is here */
    enum quern_tier tier;
    enum quern_reason reason; /* why it was compiled, or would have to be */
    double compile_ms;
};

/*
 * The way through the house for one plan: keys, stored entry or else source and compile, checked
 * object. On success *kernel holds everything but the device's part. Blocks while it compiles.
 */
quern_status kernel_make(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                         struct kernel *kernel);

/* The search for a kernel, between the two steps of that. */
struct kernel_search {
    struct str outline;  /* of the kernel's source: see gen_outline */
    struct str key_text; /* `want` points into it */
    struct store_want want;
    uint64_t begun_ns;       /* by os_now; 0 where nobody asks how long it took */
    const struct plan *plan; /* the caller's, that this is the search for */
    unsigned refused;        /* kernels that came before it */
    struct tier_get gets[TIERS_MAX]
                        [2]; /* questions to each tier, by the exact key and the source */
};
/* The first: keys and what the tiers have; kernel->bytes is null when that is nothing. After
 * QUERN_OK the other must follow, on whatever thread: it takes what a tier was not sure of, or
 * compiles, checks the object, and leaves nothing behind when it fails. Or else kernel_abandon,
 * which leaves nothing behind. Only the second tells the host. Where the scan refuses a kernel, or
 * an entry says that it did, both go on with the next candidate (plan_next), so that kernel->plan
 * may be another than the caller's, which must stay until the second. */
quern_status kernel_search(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                           struct kernel *kernel, struct kernel_search *search);
quern_status kernel_complete(quern_ctx *ctx, enum quern_jit jit, struct kernel *kernel,
                             struct kernel_search *search);
void kernel_abandon(quern_ctx *ctx, struct kernel *kernel, struct kernel_search *search);
/* Only the plan and keys of a kernel, and in search->want what to look for; nothing is looked up.
 * After QUERN_OK kernel_abandon must follow. */
quern_status kernel_keys(quern_ctx *ctx, const struct plan *plan, struct kernel *kernel,
                         struct kernel_search *search);
/* Scans a kernel's object (kernel_scan.c): the version of the rules if it passed or *findings says
 * that it did not, 0 if nothing here can scan it. */
unsigned kernel_scan(quern_ctx *ctx, const struct kernel *kernel, struct str *findings);
/* Scans what was found in a tier and has not passed these rules, where a compiler's libraries are
 * at hand, and notes in the cache that it did or (kernel->refused) did not. */
void kernel_scan_found(quern_ctx *ctx, struct kernel *kernel, const struct kernel_search *search);
/* Loads a made kernel on the context's device, if it has one. A stored object that the device
 * refuses is quarantined and, if `jit` lets it, compiled and loaded once more. */
quern_status kernel_load(quern_ctx *ctx, enum quern_jit jit, struct kernel *kernel);
void kernel_free(quern_ctx *ctx, struct kernel *kernel);
struct quern_resources kernel_resources(const struct object_kernel *k, const struct target *t);

/* ---- Op -------------------------------------------------------------------------------------- */

/* Kernels of an op as one immutable value, so that a launch reads one pointer. */
struct kernel_set {
    struct plan_set plans;
    struct kernel *kernels[PLAN_KERNELS_MAX]; /* of plans.plans[i] */
    struct kernel_set *older;                 /* replaced by this one; freed with the op */
};

/* QUERN_E_DECLINED when nothing here can verify kernels of the target and the caller wants that. */
quern_status check_verified(const quern_ctx *ctx);
/* An op that is in no table, with one reference, of `count` kernels of a set. Blocks while it
 * compiles. */
quern_status op_of_plans(quern_ctx *ctx, const struct plan_set *plans, size_t first, size_t count,
                         quern_op **out);

/* Kernels of an op being made by a thread of the library (background.c). */
struct background {
    struct lock lock; /* of all below */
    pthread_t thread;
    int process;                  /* whose thread it is; 0: there is none to join */
    bool running;                 /* it has not finished */
    int64_t wanted;               /* the largest m_max asked for */
    struct plan_set *plans;       /* those for it; null until there are any */
    enum quern_jit jit;           /* of the latest request */
    quern_status status;          /* of the last attempt */
    struct error_record *failure; /* when it failed */
};

/* A problem as somebody wrote it, and the op that it names: an op is known by its normalised
 * problem and by every way of leaving defaults out that was met. */
struct spelling {
    struct quern_problem problem;
    quern_op *op;
    bool own;                        /* part of its op: the normalised problem */
    _Atomic(struct spelling *) next; /* in its bucket */
};

struct op_blas;

struct quern_op {
    struct spelling spelling;
    quern_ctx *ctx;
    bool in_table;          /* then it lives as long as its context, and is not counted */
    _Atomic int64_t covers; /* rows up to which it has kernels */
    _Atomic(struct kernel_set *) kernels;
    atomic_int references;
    struct lock growing;            /* held while more kernels are made */
    _Atomic(struct op_blas *) blas; /* null: its own kernels serve every M */
    _Atomic int64_t blas_asked;     /* the most rows that it was considered for; at the end: max */
    struct background background;
    char text[QUERN_TEXT_MAX];
};

/* ---- Context --------------------------------------------------------------------------------- */

#define BUNDLES_MAX 16
#define OP_BUCKETS  4096 /* a power of two; models have tens of distinct layers */

/* A part of a count that many threads raise, in cache lines of its own. */
struct tally {
    atomic_uint_fast64_t count;
    char apart[128 - sizeof(atomic_uint_fast64_t)];
};
#define TALLIES 16 /* a power of two */

/* Those of bundle_path that can be used, in its order. */
struct bundles {
    struct bundle *files[BUNDLES_MAX];
    size_t count;
    bool signed_only; /* each is signed by a trusted key */
    struct log *log;
    struct counters *counters; /* null until they are a tier of a context */
};

struct quern_ctx {
    struct settings settings;
    struct log log;
    struct target_id id;
    struct device *device;        /* null: nothing here runs the target */
    struct tuning *tuning;        /* null: none */
    struct tier tiers[TIERS_MAX]; /* in the order in which they are asked */
    size_t tier_count;
    struct store *store; /* that of the tier of the same name, for whoever cleans up there */
    struct bundles bundles;
    struct compiler *compiler;
    struct quern_disassembler disassembler; /* the compiler's */
    struct lock table_lock;                 /* of writers; readers take none */
    _Atomic(struct spelling *) table[OP_BUCKETS];
    struct tally hit_memory[TALLIES];
    _Atomic bool record_failed; /* and was complained of */
    struct counters counters;
    quern_event_fn event; /* may be null */
    void *event_user;
    struct lock event_lock; /* the callback runs one call at a time */
};

/*
 * Reads the tuning table (context_tuning.c): the file that the settings name, else that of the
 * first bundle that has one for the target, else GFX.tune in `directory`, the cache's. What was
 * named must be sound; what merely lies there is left out with a warning. *out is null when there
 * is none.
 */
struct bundles;
quern_status tuning_load(const struct settings *settings, const struct bundles *bundles,
                         const char *directory, const struct target *target, struct log *log,
                         struct tuning **out);
/* Appends the tables that a bundle made of the cache in `directory` carries along: those in force
 * there for `processor`, or (null) for every target. All must be sound. */
quern_status tuning_collect(const struct settings *settings, const char *directory,
                            const char *processor, struct str *out);

/* The bundles in front of the cache (context_bundles.c). One that cannot be used is logged and
 * left out; a key file that cannot fails. */
quern_status bundles_open(const struct settings *settings, struct log *log,
                          struct bundles *bundles);
/* Leaves out signed ones when a newer one of the same signer was imported or used before; where the
 * store is writable it notes the serials of the others. */
void bundles_admit(struct bundles *bundles, struct store *store, bool writable);
void bundles_close(struct bundles *bundles);
/* They as a tier, which closes them. */
struct tier bundles_tier(struct bundles *bundles);

/* What a host is told (watch.c), on one thread for one kernel. `begun`: by os_now, when the search
 * for it began. */
void event_begin(quern_ctx *ctx, const struct kernel *kernel);
void event_compile(quern_ctx *ctx, const struct kernel *kernel, uint64_t begun);
void event_end(quern_ctx *ctx, const struct kernel *kernel, uint64_t begun, quern_status status);
enum quern_seal seal_state(void);

/* Notes in options.record that an op was asked for (record.c). Never fails the caller. */
void record_op(quern_ctx *ctx, const char *problem, int64_t m_lo, int64_t m_hi);

/* The table of ops (op_table.c). A new op of a normalised problem, without kernels. */
quern_status op_new(quern_ctx *ctx, const struct quern_problem *normal, quern_op **op);
quern_status op_find_or_add(quern_ctx *ctx, const struct quern_problem *normal, quern_op **op);
/* The op of a problem that problem_view gave, as it is spelt, if it has every kernel for 1…m_max
 * already; a counted hit. */
quern_op *op_known(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max);
/* The same, null in *op if it has not, of a problem that must be sound; *normal is it with its
 * defaults. */
quern_status op_known_normal(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                             struct quern_problem *normal, quern_op **op);

/* Whether the op has every kernel for 1…m_max. */
static inline bool op_covers(const quern_op *op, int64_t m_max)
{
    return atomic_load_explicit(&op->covers, memory_order_acquire) >= m_max;
}

/* The kernels of an op (op_kernels.c). op_plan chooses those of a normalised problem for 1…m_max,
 * and gives the table's op of it, which it notes as asked for. */
quern_status op_plan(quern_ctx *ctx, const struct quern_problem *normal, int64_t m_max,
                     struct plan_set *plans, quern_op **op);
/* Makes the kernels for 1…m_max of `plans` as far as the op lacks them. Blocks. */
quern_status op_grow(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit);
/* Makes `count` kernels from the first on, all or none, behind those that the op has. Blocks. */
quern_status op_add_kernels(quern_op *op, const struct plan_set *plans, size_t first, size_t count,
                            enum quern_jit jit);
void op_free_kernels(quern_op *op);

/*
 * Many rows by hipBLASLt (op_blas.c). op_blas_prepare makes what it takes, if the device has it and
 * m_max calls for it, and never fails an op; it may block. `plans` are the op's for m_max, or null:
 * they are made if need be. op_blas_choose gives what m rows are to be done with, null when that is
 * not for it, and the op, or null, that must make the weights in the workspace first;
 * op_blas_multiply puts the first *done rows of m on the stream.
 */
void op_blas_prepare(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit);
quern_status op_blas_choose(quern_op *op, const struct quern_args *args, int64_t m, void *stream,
                            struct op_blas **chosen, quern_op **weights);
quern_status op_blas_multiply(quern_op *op, struct op_blas *chosen, const struct quern_args *args,
                              int64_t m, void *stream, int64_t *done);
void op_blas_free(quern_op *op);

/* Makes what an op takes for 1…m_max, of `plans` for so many: kernels of its own, then what is
 * hipBLASLt's (background.c). Blocks. */
quern_status op_make(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit);
/* Sees to it that op_make runs on a thread of the library. */
quern_status background_start(quern_op *op, const struct plan_set *plans, int64_t m_max,
                              enum quern_jit jit);
quern_status background_state(quern_op *op);
/* Waits for the thread, if this process has one. */
void background_end(quern_op *op);

/* Frees every op of the table (op.c). */
void op_table_free(quern_ctx *ctx);

/* What a launch passes, by enum plan_arg: addresses, and numbers as they are or sign-extended. */
struct arg_values {
    uint64_t of[PLAN_ARG_COUNT];
};
/* Sets the numbers for a slice's launch with that grid, behind `before` rows that are none of the
 * slice's set. lda, ldc: 0 for packed rows. */
void arg_numbers(struct arg_values *values, const struct plan_slice *slice, int64_t before,
                 const uint32_t grid[3], int64_t lda, int64_t ldc);
#define KERNARG_MAX 256
/* Packs the explicit arguments in natural alignment; returns their size. `kernarg` is zeroed. */
size_t pack_args(const struct kernel *kernel, const struct arg_values *values,
                 uint8_t kernarg[KERNARG_MAX]);

#endif

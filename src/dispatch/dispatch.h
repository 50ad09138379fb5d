/* SPDX-License-Identifier: MIT */
/* What the files of dispatch/ share: the context, a made kernel, an op. This file is long because
 * the files share one context, whose members all of them need to know. */
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
#include "plan/facts.h"
#include "plan/plan.h"
#include "plan/tuning.h"
#include "store/bundle.h"
#include "store/tier.h"

#include <quern/tool.h>

#include <pthread.h>
#include <stdatomic.h>

/* ---- Options --------------------------------------------------------------------------------- */

/* Options that are strings: X(name, the environment variable that is read if it is not given, or
 * ""). The comments say what happens if neither is given; the setting is then null. */
#define STRING_SETTINGS(X)                                                                         \
    X(target, "QUERN_TARGET")                   /* the device says */                              \
    X(cache_dir, "QUERN_CACHE_DIR")             /* the default place */                            \
    X(rocm_path, "QUERN_ROCM_PATH")             /* the usual places */                             \
    X(worker_path, "")                          /* beside the library */                           \
    X(bundle_path, "QUERN_BUNDLE_PATH")         /* none; else paths with ':' between */            \
    X(bundle_keys, "QUERN_BUNDLE_KEYS")         /* bundles need no signature */                    \
    X(record, "QUERN_RECORD")                   /* none; else the file problems are noted in */    \
    X(tuning, "QUERN_TUNING")                   /* the default place */                            \
    X(cuda_path, "QUERN_CUDA_PATH")             /* the usual places */                             \
    X(facts, "QUERN_FACTS")                     /* the default place */                            \
    X(remote, "QUERN_REMOTE")                   /* none */                                         \
    X(remote_keys, "QUERN_REMOTE_KEYS")         /* none */                                         \
    X(remote_sign_key, "QUERN_REMOTE_SIGN_KEY") /* none */

/* Options with the environment and the defaults filled in; strings are owned. */
struct settings {
    enum quern_device_kind device;
    int device_index;
    uint64_t cache_max_bytes;
    enum quern_cache_mode cache_mode;
    bool cache_named;  /* the host chose that mode: a directory that is fit for less is an error */
    bool cache_shared; /* the cache is shared with the group of its directory */
    enum quern_jit jit;
    enum quern_toolchain toolchain;
    enum quern_blas blas;
    enum quern_base base;
    bool copies_code; /* base kernels of targets with the same code, as tools/base.py checks some */
    enum quern_weights weights;
    enum quern_remote_trust remote_trust;
    enum quern_remote_mode remote_mode;
    int remote_grace_ms; /* -1: unlimited */
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
/* Reads the target that was given; QUERN_E_TARGET, with the remedy, if none was. */
quern_status settings_target(const struct settings *settings, struct target_id *id);
/* That remedy. */
#define GIVE_A_TARGET "set options.target or QUERN_TARGET to a name such as gfx1151"

/* ---- Tiers ----------------------------------------------------------------------------------- */

#define TIERS_MAX 5

/* Opens the tiers that the settings ask for (tiers.c), in the order in which they are asked. After
 * a failure, too, tiers_close must follow. */
quern_status tiers_open(quern_ctx *ctx);
void tiers_close(quern_ctx *ctx);
/* Puts entries into all tiers that take them, or into those alone that are `near`. Blocks. */
void tiers_put(quern_ctx *ctx, struct store_put *puts, size_t count, bool near);

/* ---- A kernel -------------------------------------------------------------------------------- */

/* What a call may do beside what options.jit says of the context; further values of enum quern_jit
 * for the functions below. NO_COMPILE: as QUERN_JIT_OFF, by QUERN_OP_NO_COMPILE. LOOK: a kernel
 * that no tier has is neither counted nor reported, as its caller has another way. */
#define JIT_NO_COMPILE ((enum quern_jit)(QUERN_JIT_ERROR + 1))
#define JIT_LOOK       ((enum quern_jit)(QUERN_JIT_ERROR + 2))
/* Whether `jit` lets a kernel be compiled. */
static inline bool jit_compiles(enum quern_jit jit)
{
    return jit == QUERN_JIT_ON || jit == QUERN_JIT_WARN;
}

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
    enum plan_arg args[PLAN_ARG_COUNT]; /* its arguments, in kernarg order */
    size_t arg_count;
    struct device_kernel *loaded; /* null until kernel_load */
    bool cached;
    bool refused;   /* the scan refused its object; `bytes` is null */
    unsigned rules; /* version of the scan's rules that its object was held to; 0: of none */
    bool by_source; /* another toolchain than the context's made it */
    enum quern_tier tier;
    enum quern_reason reason; /* why it was compiled, or would have to be */
    double compile_ms;
};

/*
 * Makes the kernel of one plan: its keys; then the entry that a tier has, or else the source and
 * the compiler's object; then the checks of the object. On success *kernel holds everything but the
 * device's part (kernel_load). Blocks while it compiles.
 */
quern_status kernel_make(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                         struct kernel *kernel);

/* What is done about a kernel that the remote lacks, where that has claims: it is an object store
 * and QUERN_REMOTE_MODE is rw. OF_OPS: the kernel is claimed, and another machine that has claimed
 * it before is waited for, only if remote_grace_ms is unlimited. LEAVE: it is claimed, and
 * QUERN_E_NOT_READY says that another machine has. WAIT: it is claimed, and the other machine
 * waited for, some ten minutes at most. */
enum claims { CLAIMS_OF_OPS, CLAIMS_LEAVE, CLAIMS_WAIT };

/* kernel_make in two steps, so that a caller of many kernels can compile those that no tier has at
 * the same time, on several threads. This is what the first step leaves to the second. */
struct kernel_search {
    struct str outline;  /* of the kernel's source: see gen_outline */
    struct str key_text; /* `want` points into it */
    struct store_want want;
    uint64_t begun_ns;       /* when it began, by os_now; 0 if nobody asks */
    const struct plan *plan; /* the caller's plan; kernel->plan may be a later candidate */
    unsigned refused;        /* candidates before kernel->plan that the scan refused */
    int64_t m_lo, m_hi;      /* rows that the caller wants kernels for, for the message that tells
                              * how to make them; 0: unknown, the kernel's own are told */
    /* The far tiers that are asked by source key only after they have answered that they lack the
     * exact key. Asking for both at once would fetch most entries twice. */
    bool then_source[TIERS_MAX];
    enum claims claims; /* OF_OPS, unless the caller changes it */
    bool claimed;       /* this process said that it makes the kernel */
    /* Set by a caller that itself puts what a far tier gave into the near tiers, by tiers_put, for
     * many kernels at once. That entry is then `fetched`, which points into the kernel's bytes;
     * fetched.key_text is null where no far tier gave one. */
    bool keeps;
    struct store_record fetched;
    struct tier_get gets[TIERS_MAX]
                        [2]; /* the questions to each tier: by exact key, by source key */
};
/* The first step, kernel_search, makes the keys and asks the tiers; kernel->bytes stays null if
 * none has the kernel. After QUERN_OK either kernel_complete or kernel_abandon must follow, on any
 * thread; *plan must live until then. The second step, kernel_complete, waits for tiers whose
 * answer is pending, or compiles, and checks the object; it alone tells the host of the kernel
 * (events), and frees everything if it fails. kernel_abandon frees everything. When the scan
 * refuses a kernel, or a stored entry says that it did, both steps go on with the next candidate
 * (plan_next). */
quern_status kernel_search(quern_ctx *ctx, const struct plan *plan, enum quern_jit jit,
                           struct kernel *kernel, struct kernel_search *search);
quern_status kernel_complete(quern_ctx *ctx, enum quern_jit jit, struct kernel *kernel,
                             struct kernel_search *search);
void kernel_abandon(quern_ctx *ctx, struct kernel *kernel, struct kernel_search *search);
/* Sets only the plan and keys of a kernel, and in search->want what a tier would be asked; asks
 * none. After QUERN_OK kernel_abandon must follow. */
quern_status kernel_keys(quern_ctx *ctx, const struct plan *plan, struct kernel *kernel,
                         struct kernel_search *search);
/* Records QUERN_E_WOULD_COMPILE for a kernel that no tier has (absent.c), and counts it. `why` it
 * may not be compiled, in words. Blocks: bundles are read. */
quern_status kernel_absent(quern_ctx *ctx, const struct kernel *kernel,
                           const struct kernel_search *search, const char *why);
/* Gives what the compiler would make for the context's target, if the cache has what is wanted, of
 * another target with the same code (kernel_code.c). Blocks on the disk. */
bool kernel_code_copy(quern_ctx *ctx, const struct store_want *want, struct compile_result *result);
/* Scans a kernel's object (kernel_scan.c). Returns the version of the rules; *findings is empty if
 * the object passed, else says what was found. Returns 0 if the object cannot be scanned here. */
unsigned kernel_scan(quern_ctx *ctx, const struct kernel *kernel, struct str *findings);
/* Scans a kernel that a tier had and that was not held to this version's rules, if a compiler's
 * libraries are at hand, and notes the verdict in the cache; a bad one sets kernel->refused. */
void kernel_scan_found(quern_ctx *ctx, struct kernel *kernel, const struct kernel_search *search);
/* Loads a made kernel on the context's device, if it has one. A stored object that the device
 * refuses is quarantined and, if `jit` lets it, compiled and loaded once more. */
quern_status kernel_load(quern_ctx *ctx, enum quern_jit jit, struct kernel *kernel);
void kernel_free(quern_ctx *ctx, struct kernel *kernel);
struct quern_resources kernel_resources(const struct object_kernel *k, const struct target *t);
/* What a host is told of a kernel, the last of its op or not; it points into the kernel. */
void kernel_info(const quern_ctx *ctx, const struct kernel *kernel, bool is_last,
                 struct quern_kernel_info *info);

/* ---- Op -------------------------------------------------------------------------------------- */

/* Kernels of an op as one immutable value, so that a launch reads one pointer. */
struct kernel_set {
    struct plan_set plans;
    struct kernel *kernels[PLAN_KERNELS_MAX]; /* the kernel of plans.plans[i] is kernels[i] */
    struct kernel_set *older;                 /* the set before this one; freed with the op */
};

/* Kernels to make: `count` of the plans, from the first on, for a caller who asked for those of
 * m_lo to m_hi rows; 0: of no certain rows. */
struct op_wanted {
    size_t first, count;
    int64_t m_lo, m_hi;
};
/* Those that serve m_lo…m_hi rows. */
struct op_wanted op_range(const struct plan_set *plans, int64_t m_lo, int64_t m_hi);

/* QUERN_E_DECLINED when no software GPU runs kernels of the target, and the options do not allow
 * unverified ones. */
quern_status check_verified(const quern_ctx *ctx);
/* Makes an op of `count` kernels of a set. It is in no table, and has one reference. Blocks while
 * it compiles. */
quern_status op_of_plans(quern_ctx *ctx, const struct plan_set *plans,
                         const struct op_wanted *wanted, quern_op **out);

/* Kernels of an op being made by a thread of the library (background.c). */
struct background {
    struct lock lock; /* of all below */
    pthread_t thread;
    int process;                  /* the process that has the thread; 0: there is none to join */
    bool running;                 /* the thread has not finished */
    int64_t wanted;               /* the largest m_max asked for */
    struct plan_set *plans;       /* the plans for `wanted`; null until something is asked for */
    enum quern_jit jit;           /* what the latest request allows */
    quern_status status;          /* the result of the last attempt */
    struct error_record *failure; /* why it failed, if it did */
};

/* A problem as a caller wrote it, and the op that it stands for. An op is in the table under its
 * normalised problem, and under every spelling of it with defaults left out that was asked for. */
struct spelling {
    struct quern_problem problem;
    quern_op *op;
    bool own;                        /* the normalised problem, which is a member of its op */
    _Atomic(struct spelling *) next; /* the next in its bucket */
};

struct op_blas;

struct quern_op {
    struct spelling spelling;
    quern_ctx *ctx;
    uint32_t operands;      /* that its problem has (operands_of), for launches to check */
    bool in_table;          /* it lives as long as its context */
    _Atomic int64_t covers; /* it has the kernels for M up to this */
    _Atomic(struct kernel_set *) kernels;
    _Atomic(struct quern_op *) base; /* of base kernels, which serves until there are `kernels`;
                                        null: none. It is in the table */
    _Atomic int64_t based; /* for M up to this base kernels serve, and its own were asked for */
    _Atomic int64_t stuck; /* for M up to this base kernels serve, for want of a compiler */
    atomic_int references; /* the host's, and one of the table that it is in until its context is
                              closed; while there are any, it has one to its context */
    struct lock growing;   /* held while more kernels are made */
    _Atomic(struct op_blas *) blas; /* null: its own kernels serve every M */
    _Atomic int64_t blas_asked;     /* the most rows that hipBLASLt was considered for; INT64_MAX:
                                       that is decided for good */
    struct background background;
    char text[QUERN_TEXT_MAX];
};

/* ---- Context --------------------------------------------------------------------------------- */

/* A base bundle as `make base` made it: its target, and the BLAKE2b of its head. The table is
 * generated from the bundles that the library is built with, and ends with a null target. */
struct base_shipped {
    const char *target;
    uint8_t digest[BUNDLE_PROOF_BYTES];
};
extern const struct base_shipped base_shipped[];

/* The base kernels that come with the library, for the context's target (base_tier.c). */
struct base_bundle {
    const struct base_shipped *shipped; /* null: there are none, or they are not to be used */
    const char *none;                   /* "; …": why `shipped` is null */
    const char *worker_path;            /* the context's; may be null */
    struct log *log;
    struct counters *counters;
    atomic_bool looked; /* from then on the rest is constant */
    struct bundle *file;
    struct str why; /* "; …": why there is no file */
    struct lock lock;
};

#define BUNDLES_MAX 16
#define OP_BUCKETS  4096 /* a power of two; models have tens of distinct layers */

/* A part of a count that many threads raise. Each part has cache lines of its own, so that threads
 * do not wait for each other's. */
struct tally {
    atomic_uint_fast64_t count;
    char apart[128 - sizeof(atomic_uint_fast64_t)];
};
#define TALLIES 16 /* a power of two */

/* The bundles of bundle_path: those that can be used, in its order, and why the others cannot. */
struct bundles {
    struct bundle *files[BUNDLES_MAX];
    char *paths[BUNDLES_MAX]; /* of the files, as they were named */
    size_t count;
    struct str left_out; /* "; bundle PATH is not used: REASON" for each of the others */
    struct lock telling; /* of what follows */
    struct str holds;  /* "; bundle PATH has …" for each of the files; made when it is asked for */
    bool signed_only;  /* each is signed by a trusted key */
    bool unremembered; /* it was logged that their serials cannot be remembered */
    struct log *log;
    struct counters *counters; /* the context's; null until the bundles are one of its tiers */
};

struct quern_ctx {
    atomic_int references; /* the host's until quern_close, and one of each op and buffer; the last
                              to go frees the context */
    void (*free)(quern_ctx *ctx); /* a member, so that ops, which a context frees, can free it */
    atomic_bool closed;           /* quern_close was called */
    struct settings settings;
    struct log log;
    struct target_id id;
    const struct target *planned; /* id.target, as what is known of the GPU leaves it (facts.h) */
    struct device *device;        /* null: nothing here runs the target */
    struct facts facts;           /* what was probed */
    struct tuning *tuning;        /* null: none */
    struct tier tiers[TIERS_MAX]; /* in the order in which they are asked */
    size_t tier_count;
    struct store *store; /* the cache directory behind its tier, for what a tier cannot do */
    struct bundles bundles;
    struct base_bundle base;
    struct remote_tier *remote; /* behind its tier; null: none */
    atomic_uint base_said;      /* bits of statuses for which base kernels stay, that were logged */
    struct compiler *compiler;
    struct quern_disassembler disassembler; /* the compiler's */
    struct lock table_lock;                 /* of writers; readers take none */
    _Atomic(struct spelling *) table[OP_BUCKETS];
    struct tally hit_memory[TALLIES];
    _Atomic bool record_failed; /* the record could not be written, which was logged */
    struct counters counters;
    quern_event_fn event; /* may be null */
    void *event_user;
    struct lock event_lock; /* the callback runs one call at a time */
};

/*
 * Reads the tuning table (context_tuning.c): the file that the settings name, else that of the
 * first bundle that has one for the target, else GFX.tune of the cache (null: none). What was
 * named must be sound; what merely lies there is left out with a warning. *out is null when there
 * is none.
 */
struct bundles;
quern_status tuning_load(const struct settings *settings, const struct bundles *bundles,
                         const struct store *store, const struct target *target, struct log *log,
                         struct tuning **out);
/* Reads the facts table in the same way; *out is all zeros when there is none. */
quern_status facts_load(const struct settings *settings, const struct bundles *bundles,
                        const struct store *store, const struct target *target, struct log *log,
                        struct facts *out);
/* Appends the tables that a bundle made of the cache `store` carries along: those in force there
 * for `processor`, or (null) for every target; facts first, as older libraries look for tuning
 * tables alone, and read one to the next of its kind. All must be sound. */
quern_status tuning_collect(const struct settings *settings, const struct store *store,
                            const char *processor, struct str *out);

/* Opens the bundles in front of the cache (front_bundles.c). A bundle that cannot be used is
 * logged and left out; a key file that cannot be used is an error. */
quern_status bundles_open(const struct settings *settings, struct log *log,
                          struct bundles *bundles);
/* Refuses a signer's bundle when the store knows that one of a higher serial was used. *higher is
 * set to whether the store knows only of lower ones. */
quern_status bundle_admit(struct store *store, const char *signer, uint64_t serial, bool *higher);
/* Leaves out signed bundles when a newer one of the same signer was imported or used before. With
 * `writable` it notes the serials of the others in the store. */
void bundles_admit(struct bundles *bundles, struct store *store, bool writable);
void bundles_close(struct bundles *bundles);
/* Appends, for the message about a kernel that is missing, what became of each bundle: why it is
 * not used, or for which targets it has kernels. The first call reads every bundle whole. Returns
 * whether any is not used. Blocks. Thread-safe. */
bool bundles_tell(struct bundles *bundles, struct str *out);
/* The bundles as a tier, whose close function closes them. */
struct tier bundles_tier(struct bundles *bundles);

/* The base kernels that come with the library as a tier, whose close function closes them; its
 * `get` is null where none are to be used. The caller has set the members up to `counters`. */
struct tier base_tier(struct base_bundle *base);
/* Appends, for the message about a base kernel that is missing, why it is not there. Blocks. */
void base_tell(struct base_bundle *base, struct str *out);

/* A remote cache as a tier (remote_tier.c), through a helper process that is started at the first
 * question. remote_open reads the settings and the keys, and starts nothing; *tier's close function
 * closes what it made. QUERN_E_ARGUMENT, QUERN_E_CACHE or QUERN_E_IO: they cannot be used. */
quern_status remote_open(const struct settings *settings, struct store *store, struct log *log,
                         struct counters *counters, struct remote_tier **remote, struct tier *tier);
/* Appends, for the message about a kernel that is missing, what the remote said; `refused`: why
 * what it has of this kernel is not used (tier_get.refused), or "". Thread-safe. */
void remote_tell(struct remote_tier *remote, const char *refused, struct str *out);
/* Asks the remote for an entry that is not there, and appends what became of that, for `quern
 * doctor`; false: it does not answer. Blocks for seconds at most. */
bool remote_try(struct remote_tier *remote, struct str *out);

/* Tell the host of a kernel's making (watch.c), all from one thread. `begun`: when the search for
 * the kernel began, by os_now. */
void event_begin(quern_ctx *ctx, const struct kernel *kernel);
void event_compile(quern_ctx *ctx, const struct kernel *kernel, uint64_t begun);
void event_end(quern_ctx *ctx, const struct kernel *kernel, uint64_t begun, quern_status status);
enum quern_seal seal_state(void);

/* Notes in options.record that an op was asked for (record.c). Never fails the caller. */
void record_op(quern_ctx *ctx, const char *problem, int64_t m_lo, int64_t m_hi);

/* The table of ops (op_table.c). A new op of a normalised problem, without kernels. */
quern_status op_new(quern_ctx *ctx, const struct quern_problem *normal, quern_op **op);
quern_status op_find_or_add(quern_ctx *ctx, const struct quern_problem *normal, quern_op **op);
/* The op that is in the table under a problem as it is spelt (problem_view gave it), if it has
 * every kernel for 1…m_max; else null. Counts a hit. */
quern_op *op_known(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max);
/* The op that is in the table under this very spelling of its problem, or null. The problem need
 * not have been checked: an unsound one is in no table. */
quern_op *op_found(quern_ctx *ctx, const struct quern_problem *problem);
/* The same for a problem that must be sound: *op is null if there is no such op, and *normal is the
 * problem with its defaults filled in. */
quern_status op_known_normal(quern_ctx *ctx, const struct quern_problem *problem, int64_t m_max,
                             struct quern_problem *normal, quern_op **op);

/* Whether the op has every kernel for 1…m_max. */
static inline bool op_covers(const quern_op *op, int64_t m_max)
{
    return atomic_load_explicit(&op->covers, memory_order_acquire) >= m_max;
}

/* The kernels of an op (op_kernels.c). op_plan plans the kernels of a normalised problem for
 * 1…m_max, gives the table's op of the problem, and notes in the record that it was asked for. */
quern_status op_plan(quern_ctx *ctx, const struct quern_problem *normal, int64_t m_max,
                     struct plan_set *plans, quern_op **op);
/* Makes those kernels of `plans` for 1…m_max that the op lacks. Blocks. */
quern_status op_grow(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit);
/* Makes kernels, all or none, behind those that the op has. Blocks. */
quern_status op_add_kernels(quern_op *op, const struct plan_set *plans,
                            const struct op_wanted *wanted, enum quern_jit jit);
void op_free_kernels(quern_op *op);

/*
 * Many rows by hipBLASLt (op_blas.c). op_blas_prepare prepares its products, if the device has the
 * library and m_max is large enough; it may block, and a failure is only logged. `plans` are the
 * op's for m_max, or null: they are then made if needed. op_blas_choose decides about a launch of m
 * rows: *chosen is null if the op's own kernels serve them all, and *weights is the op that must
 * write the weights to the workspace first, or null; *any_rows, whether products may have fewer
 * rows than they were made for, holds for the launch. op_blas_multiply puts the products on the
 * stream; they are the first *done of the m rows.
 */
void op_blas_prepare(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit);
quern_status op_blas_choose(quern_op *op, const struct quern_args *args, int64_t m, void *stream,
                            struct op_blas **chosen, quern_op **weights, bool *any_rows);
quern_status op_blas_multiply(quern_op *op, struct op_blas *chosen, bool any_rows,
                              const struct quern_args *args, int64_t m, void *stream,
                              int64_t *done);
void op_blas_free(quern_op *op);

/*
 * Base kernels of an op (op_base.c). op_load_base has them serve 1…m_max rows as long as the op has
 * no kernels of its own, and waits for no compiler: it fails where there are none for the problem,
 * or no tier has them. op_on_base gives the op of a normalised problem if base kernels serve m_max
 * rows of it and asking for it once more would change nothing, as its own kernels were asked for
 * already (for a host that takes base kernels, `based`), or cannot be made here; else null.
 */
quern_status op_load_base(quern_op *op, int64_t m_max);
quern_op *op_on_base(quern_ctx *ctx, const struct quern_problem *normal, int64_t m_max, bool based,
                     enum quern_jit jit);
/* Raises op->based or op->stuck. */
void op_raise(_Atomic int64_t *rows, int64_t m_max);
/* Logs, once for each status, why an op keeps its base kernels: the recorded failure. */
void op_keeps_base(const quern_op *op, quern_status status);
/* After op_make had this status: has base kernels serve 1…m_max rows if it failed for want of a
 * compiler, and the context lets them. Returns QUERN_OK if they do, else the status. */
quern_status op_fall_back(quern_op *op, int64_t m_max, quern_status status);

/* Makes all that an op needs for 1…m_max, by `plans`, which are for as many: its own kernels, then
 * hipBLASLt's products (background.c). Blocks. */
quern_status op_make(quern_op *op, const struct plan_set *plans, int64_t m_max, enum quern_jit jit);
/* Has a thread of the library do op_make; where none can be started, does it itself. */
quern_status background_start(quern_op *op, const struct plan_set *plans, int64_t m_max,
                              enum quern_jit jit);
quern_status background_state(quern_op *op);
/* Waits for the thread, if this process has one. */
void background_end(quern_op *op);

/* Ends the threads that make kernels for ops of the table, and the table's references to the ops,
 * of which those that the host still holds live on (op.c). The context is being closed. */
void op_table_close(quern_ctx *ctx);
/* Frees every op of the table, with its context (op.c). */
void op_table_free(quern_ctx *ctx);
/* QUERN_E_ARGUMENT when the op's context was closed. */
static inline quern_status op_check_open(const quern_op *op)
{
    FAIL_IF(atomic_load_explicit(&op->ctx->closed, memory_order_relaxed), QUERN_E_ARGUMENT,
            "the context of this op of %s is closed", op->text);
    return QUERN_OK;
}

/* QUERN_E_DEVICE: the context has no device, and why. */
quern_status ctx_no_device(const quern_ctx *ctx);
/* One more reference to a context. */
static inline void ctx_hold(quern_ctx *ctx)
{
    atomic_fetch_add_explicit(&ctx->references, 1, memory_order_relaxed);
}
/* One less, which frees it if it was the last. */
static inline void ctx_drop(quern_ctx *ctx)
{
    if (atomic_fetch_sub(&ctx->references, 1) == 1)
        ctx->free(ctx);
}

/* The arguments of a launch, by enum plan_arg: addresses, and numbers extended to 64 bits. */
struct arg_values {
    uint64_t of[PLAN_ARG_COUNT];
};
/* Sets the numbers for the launch of a slice with that grid. The slice's rows are counted from row
 * `before` on: rows that hipBLASLt has multiplied. lda, ldc: 0 for packed rows. */
void arg_numbers(struct arg_values *values, const struct plan_slice *slice, int64_t before,
                 const uint32_t grid[3], int64_t lda, int64_t ldc);
/* quern_verify, but with the error that v->tolerance allows; v->max_error must be INFINITY. */
quern_status verify_within(quern_op *op, int64_t m, uint64_t seed, enum quern_sim_check check,
                           struct quern_verification *v);
/* Runs a kernel's text on the CPU (cpu/cpu.h), launched as for a device of so many compute units;
 * 0: as for the target's part. `host`: operands for m rows. */
union operand_pointers;
quern_status verify_text(const struct plan_slice *slice, const char *source,
                         const union operand_pointers *host, int64_t m, unsigned units,
                         uint64_t seed);
#define KERNARG_MAX 256
/* Packs the explicit arguments in natural alignment; returns their size. `kernarg` is zeroed. */
size_t pack_args(const struct kernel *kernel, const struct arg_values *values,
                 uint8_t kernarg[KERNARG_MAX]);

#endif

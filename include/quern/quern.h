/* SPDX-License-Identifier: MIT */
/*
 * quern: kernels for linear layers at inference on GPUs of AMD and NVIDIA, made to order.
 *
 *     C[M,N] = A[M,K] . W[N,K]^T (+ bias)
 *
 * A host describes a layer (struct quern_problem), creates an op from it (which plans, generates,
 * compiles, caches and loads every kernel the op needs) and launches it for any M.
 *
 * Conventions of this interface
 *  - Every struct that a host fills in, or hands in to be filled, starts with `size`; set it to
 *    sizeof the struct (QUERN_INIT does). A zero in any other field means "default", so
 *    enumerations start at 1. "Structs of other versions" in status.h says how hosts and libraries
 *    of different versions meet.
 *  - Every function that can fail returns a quern_status; the details of the last failure on the
 *    calling thread are in quern_last_error().
 *  - All functions are thread-safe unless their comment says otherwise. The library never prints,
 *    exits, aborts, changes signals, the environment, the working directory, the locale or the
 *    floating-point mode.
 *  - Which functions may block is said at each; quern_op_launch never does.
 *  - Pages that comments name, docs/…, are installed below share/doc/quern.
 */
#ifndef QUERN_QUERN_H
#define QUERN_QUERN_H

#include <quern/status.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define QUERN_VERSION_MAJOR 0
#define QUERN_VERSION_MINOR 1
#define QUERN_VERSION_PATCH 0

/* ---- Problem --------------------------------------------------------------------------------- */

/*
 * GEMM: the product. DEQUANT: W written out. MOE: products of a layer's experts, each row of A with
 * the experts that were chosen for its token, all in one launch (struct quern_args, `rows`).
 * MOE_ALIGN: writes the `rows` and `experts` that MOE reads, from the experts that a router chose.
 */
enum quern_op_kind { QUERN_OP_GEMM = 1, QUERN_OP_DEQUANT, QUERN_OP_MOE, QUERN_OP_MOE_ALIGN };

enum quern_weight {
    QUERN_W_NF4 = 1,
    QUERN_W_FP4,
    QUERN_W_MXFP4,
    QUERN_W_INT4,
    QUERN_W_FP8,
    QUERN_W_FP8FNUZ,
    QUERN_W_NONE
};

enum quern_scale {
    QUERN_SCALE_F32 = 1,
    QUERN_SCALE_F16,
    QUERN_SCALE_BF16,
    QUERN_SCALE_NESTED,
    QUERN_SCALE_E8M0,
    QUERN_SCALE_TENSOR,
    QUERN_SCALE_BLOCK128
};

enum quern_zero { QUERN_ZERO_NONE = 1, QUERN_ZERO_U8, QUERN_ZERO_SCALED };

enum quern_dtype { QUERN_F32 = 1, QUERN_F16, QUERN_BF16, QUERN_DT_FP8, QUERN_DT_FP8FNUZ };

enum quern_layout {
    QUERN_LAYOUT_BNB = 1,
    QUERN_LAYOUT_K8,
    QUERN_LAYOUT_EXL,
    QUERN_LAYOUT_CK,
    QUERN_LAYOUT_GPTQ,
    QUERN_LAYOUT_AWQ,
    QUERN_LAYOUT_TILEN,
    QUERN_LAYOUT_DENSE
};

enum quern_round { QUERN_ROUND_RNE = 1, QUERN_ROUND_TRUNC };

/*
 * What a gemm's results promise beside their tolerance; docs/embedding.md has what each costs.
 * BATCH_INVARIANT: the bits of a row of C depend on that row of A, the weights, the target and this
 * version alone: not on M, on the other rows, or on where in A the row stands. PRECISE: scales
 * multiply f32 sums, and are never multiplied into weights that are rounded to 16 bits after it.
 */
enum quern_exact { QUERN_EXACT_BATCH_INVARIANT = 1, QUERN_EXACT_PRECISE = 2, QUERN_EXACT_BOTH = 3 };

/*
 * Which kernels serve: those made to order (0), or BASE, the ones that are the same for
 * every n, k, group, bias and rounding, which are then arguments of a launch: slower, but there
 * before the layer is known. docs/kernels.md, "Base kernels", has what they cost.
 */
enum quern_kernels { QUERN_KERNELS_BASE = 1 };

/*
 * What becomes of gate and up, two rows of W, in a gemm of a gated feed-forward layer: one column
 * of C, which then has N/2. SILU_MUL: silu(gate)·up. SWIGLU_OAI, of gpt-oss: g·σ(1.702·g)·(u + 1)
 * of g = min(gate, 7) and u = up between -7 and 7. docs/formats.md says what infinities and NaN
 * give. quern_glu says which rows belong together: HALVES, the gates are the first N/2 rows of W;
 * INTERLEAVED, the even ones.
 */
enum quern_act { QUERN_ACT_SILU_MUL = 1, QUERN_ACT_SWIGLU_OAI };
enum quern_glu { QUERN_GLU_HALVES = 1, QUERN_GLU_INTERLEAVED };

#define QUERN_GROUP_CHANNEL (-1) /* one scale per output row */

/*
 * A linear layer. Required: wq, n, k, and a (gemm, moe) or c (dequant); every other field may be
 * left 0 for the default that docs/formats.md gives. M is not part of it: it is known at launch.
 * moe_align has experts, top_k and block_rows, all of them required, and nothing else.
 */
struct quern_problem {
    size_t size;
    enum quern_op_kind op;
    enum quern_weight wq;
    int32_t group; /* weights along K that share a scale, or QUERN_GROUP_CHANNEL */
    enum quern_scale scale;
    enum quern_zero zero;
    enum quern_dtype a; /* type of the activations */
    enum quern_dtype c; /* type of the result */
    int64_t n;          /* output features: rows of W, gate and up together */
    int64_t k;          /* input features */
    int32_t bias;       /* 1: a bias vector [N] in the type of c is added */
    enum quern_layout layout;
    enum quern_round round;
    int32_t unused;             /* never read: older hosts have padding here */
    enum quern_exact exact;     /* 0: no promise */
    int32_t unused2;            /* never read, likewise */
    enum quern_kernels kernels; /* 0: made to order */
    int32_t unused3;            /* never read, likewise */
    enum quern_act act;         /* 0: C is the product itself */
    enum quern_glu glu;         /* with act: which rows of W are gate and up */
    int32_t experts;            /* of moe and moe_align: matrices W, 1 to 1024 */
    int32_t top_k;              /* of both: rows of C for each row of A, 1 to 64 */
    int32_t block_rows;         /* of both: rows that blocks have; of moe 0: quern_op_block_rows
                                 * says */
    int32_t unused4;            /* never read, likewise */
};
#define QUERN_PROBLEM_SIZE_MIN QUERN_SIZE_TO(struct quern_problem, k)

/*
 * Reads `key=value` words in any order, e.g. "wq=nf4 n=4096 k=4096 a=bf16", fills in defaults and
 * checks the result. problem->size must be set before (QUERN_INIT). On failure returns
 * QUERN_E_PROBLEM with the offending word in the message and leaves *problem alone. Does not block.
 */
QUERN_API quern_status quern_problem_parse(const char *text, struct quern_problem *problem);

/*
 * Fills defaults into a copy of *problem and writes its canonical text, with a final NUL, into
 * text[size]. QUERN_TEXT_MAX bytes always suffice. QUERN_E_BUFFER if `size` is too small.
 */
#define QUERN_TEXT_MAX 256
QUERN_API quern_status quern_problem_text(const struct quern_problem *problem, char *text,
                                          size_t size);

/* ---- Weights --------------------------------------------------------------------------------- */

/*
 * Reorders packed int4 weights once, at load: from the problem's layout to another, both one of k8,
 * exl, ck, gptq and awq (docs/formats.md). Scales and zero points are never reordered. b and out
 * have N·K/2 bytes each, are 4-byte aligned and do not overlap. Works on all CPUs, and blocks.
 * Errors: QUERN_E_PROBLEM (the new layout needs another multiple of N or K), QUERN_E_DECLINED
 * (weights of another kind), QUERN_E_ARGUMENT, QUERN_E_ALIGN.
 */
QUERN_API quern_status quern_repack(const struct quern_problem *problem, enum quern_layout to,
                                    const void *b, void *out);

/* ---- Context --------------------------------------------------------------------------------- */

typedef struct quern_ctx quern_ctx;
typedef struct quern_op quern_op;

enum quern_device_kind {
    QUERN_DEVICE_AUTO = 1,
    QUERN_DEVICE_HIP,
    QUERN_DEVICE_SIM,
    QUERN_DEVICE_NONE,
    QUERN_DEVICE_CUDA
};
enum quern_cache_mode { QUERN_CACHE_RW = 1, QUERN_CACHE_RO, QUERN_CACHE_OFF };
enum quern_blas { QUERN_BLAS_AUTO = 1, QUERN_BLAS_OFF };
enum quern_base { QUERN_BASE_AUTO = 1, QUERN_BASE_ON, QUERN_BASE_OFF };
/*
 * What a host promises of weights, for all launches of a context (options.weights) or for one
 * (args.flags). CONSTANT: no work that the device has not finished when a launch is made writes its
 * b, scales, zeros, absmax8, code, offset, b_scale or bias, as is so once a model is loaded. On
 * GPUs that can (NVIDIA's from sm_90 on) the launch then begins while a kernel in front of it in
 * the stream ends, if that one lets it, as those of this library do. It loads weights meanwhile,
 * and waits for the work in front before it reads any other operand or writes c. On other GPUs it
 * changes nothing.
 */
enum quern_weights { QUERN_WEIGHTS_ANY = 1, QUERN_WEIGHTS_CONSTANT = 2 };
enum quern_cache_trust { QUERN_CACHE_TRUST_USER = 1, QUERN_CACHE_TRUST_GROUP };
/* Of an entry of a remote: a trusted key signed it, or the operator answers for server and line. */
enum quern_remote_trust { QUERN_REMOTE_TRUST_KEYS = 1, QUERN_REMOTE_TRUST_TRANSPORT };
/* Whether a remote is only asked, or also given what is compiled here. */
enum quern_remote_mode { QUERN_REMOTE_MODE_R = 1, QUERN_REMOTE_MODE_RW };
enum quern_jit { QUERN_JIT_ON = 1, QUERN_JIT_OFF, QUERN_JIT_WARN, QUERN_JIT_ERROR };
enum quern_toolchain { QUERN_TOOLCHAIN_ANY = 1, QUERN_TOOLCHAIN_EXACT };
enum quern_log_level { QUERN_LOG_ERROR = 1, QUERN_LOG_WARN, QUERN_LOG_INFO, QUERN_LOG_DEBUG };

/* Is called from any thread, but from one at a time for each context. `line` has no newline. Must
 * not call back into quern. */
typedef void (*quern_log_fn)(void *user, enum quern_log_level level, const char *line);

/*
 * Events tell how a kernel that the process does not have is obtained. BEGIN: it is looked for.
 * COMPILE: no bundle and no cache has it, and it is going to be compiled. END: it is there, or
 * could not be had. From quern_prewarm, and quern_make, an END with QUERN_E_NOT_READY says that
 * another machine makes the kernel (a remote cache in an object store): it is looked for once more,
 * with events of its own. Events come in this order, and for one kernel from one thread. Creating
 * an op whose kernels are all loaded causes no event.
 */
enum quern_event_kind { QUERN_EVENT_BEGIN = 1, QUERN_EVENT_COMPILE, QUERN_EVENT_END };

/* Where a kernel came from, X(number, NAME, name). A new place has the next number. */
#define QUERN_TIERS(X)                                                                             \
    X(1, BUNDLE, "bundle")                                                                         \
    X(2, CACHE, "cache")                                                                           \
    X(3, COMPILER, "compiler")                                                                     \
    X(4, BASE, "base")                                                                             \
    X(5, REMOTE, "remote")
#define QUERN_TIER_NUMBER(number, NAME, name) QUERN_TIER_##NAME = number,
enum quern_tier { QUERN_TIERS(QUERN_TIER_NUMBER) };

/* Why a kernel is compiled rather than taken from the cache. */
enum quern_reason {
    QUERN_REASON_ABSENT = 1, /* the cache has no entry for it, or is off */
    QUERN_REASON_DAMAGED,    /* its entry is truncated or altered */
    QUERN_REASON_FOREIGN,    /* its entry is for another key or target, or in a file that users who
                              * are not trusted could have written */
    QUERN_REASON_UNREADABLE, /* reading the cache failed */
    QUERN_REASON_REFUSED     /* the device's runtime would not load its entry */
};

/* The name of a row of QUERN_TIERS; null for a number that the library does not know, such as 0. */
QUERN_API const char *quern_tier_name(enum quern_tier tier);

/* Strings are valid during the call. */
struct quern_event {
    size_t size;
    enum quern_event_kind kind;
    const char *problem;      /* canonical text */
    const char *kernel;       /* kernel symbol */
    const char *target;       /* "gfx1151" or "sm_90" */
    const char *key;          /* of its cache entry: 32 hexadecimal digits */
    const char *source_key;   /* of its source: the same for every compiler, 32 digits */
    int64_t m_lo, m_hi;       /* the numbers of rows that it serves */
    enum quern_reason reason; /* in COMPILE, and in END if it was compiled; else 0 */
    enum quern_tier tier;     /* in END: where it came from; 0 if it could not be had */
    int other_toolchain;      /* in END: 1 if another compiler made it from the same source */
    uint64_t ns;              /* nanoseconds since BEGIN */
    quern_status status;      /* in END: of the kernel; if not OK, see quern_last_error */
};

/* Is called from any thread, but from one at a time for each context. The only function of quern
 * that it may call is quern_last_error. */
typedef void (*quern_event_fn)(void *user, const struct quern_event *event);

/*
 * A field left 0 takes its value from the environment variable named beside it, then from the
 * default. The environment is read once, here, and ignored in set-user-ID programs.
 */
struct quern_options {
    size_t size;
    enum quern_device_kind device;    /* QUERN_DEVICE=auto|hip|cuda|sim|none; auto: sim if a target
                                       * is given, else a GPU, AMD's (hip) before NVIDIA's (cuda);
                                       * none: kernels are made and stored, and nothing is loaded
                                       * or launched */
    int device_index;                 /* which GPU; fixed for the life of the context */
    const char *target;               /* QUERN_TARGET; the target of a software device, or of one
                                       * that is none; a GPU must be of it */
    const char *cache_dir;            /* QUERN_CACHE_DIR; default $XDG_CACHE_HOME/quern */
    uint64_t cache_max_bytes;         /* QUERN_CACHE_MAX_SIZE; default 1 GiB */
    enum quern_cache_mode cache_mode; /* QUERN_CACHE_MODE=rw|ro|off; default: rw, and where the
                                       * directory cannot be written to, ro, and where it is
                                       * refused, off, with one warning. A mode that is named is
                                       * had, or opening fails */
    enum quern_jit jit;               /* QUERN_JIT=on|off|warn|error; off and error are one: a
                                       * kernel that is missing is QUERN_E_WOULD_COMPILE */
    const char *rocm_path;            /* QUERN_ROCM_PATH; the one place to look in */
    const char *worker_path;          /* the worker executable, with the software GPU's libraries
                                       * beside it; default: where it was installed */
    int jobs;                         /* QUERN_JOBS; worker processes, and threads of a
                                       * software GPU; default: one per CPU */
    int allow_unverified;             /* 1: may choose targets that nothing here can verify */
    quern_log_fn log;
    void *log_user;
    enum quern_log_level log_level; /* QUERN_LOG=error|warn|info|debug; default warn */
    const char *bundle_path;        /* QUERN_BUNDLE_PATH; bundles in front of the cache, a:b:c */
    enum quern_toolchain toolchain; /* QUERN_TOOLCHAIN=any|exact; any: kernels that another
                                     * compiler made of the same source serve, from bundles, and
                                     * from the cache too where nothing may be compiled */
    const char *record;             /* QUERN_RECORD; a file to which each layer that is asked for is
                                     * appended, for `quern prewarm --manifest` */
    const char *tuning;             /* QUERN_TUNING; a table of shapes that `quern tune` measured;
                                     * default: tuning/GFX.tune in the cache directory, if it is
                                     * there and sound */
    quern_event_fn event;
    void *event_user;
    const char *bundle_keys; /* QUERN_BUNDLE_KEYS; a file of public keys, one of which must
                                     * have signed each bundle of bundle_path */
    enum quern_blas blas;    /* QUERN_BLAS=auto|off; auto: layers of many rows are made ready
                                     * for the vendor's matrix library too, where it is there:
                                     * quern_op_workspace */
    enum quern_cache_trust cache_trust; /* QUERN_CACHE_TRUST=user|group; group: the members of the
                                         * cache directory's group write to it too, and each of them
                                         * decides what runs on the GPU for all */
    const char *force; /* QUERN_FORCE; a property that kernels must have, though the model of their
                        * speed would choose otherwise. predequant=on|off: whether int4 weights are
                        * converted to A's type in LDS before they are multiplied */
    const char *cuda_path; /* QUERN_CUDA_PATH; the one place to look for NVRTC in */
    const char *facts;    /* QUERN_FACTS; what `quern probe` measured of a GPU, by which kernels are
                        * planned; default: tuning/GFX.facts in the cache directory, if it is there
                        * and sound */
    enum quern_base base; /* QUERN_BASE=auto|on|off; on: every op is created as with QUERN_OP_BASE;
                           * auto: base kernels serve ops whose own kernels cannot be compiled for
                           * want of a compiler; off: those that came with the library never serve,
                           * others only where they are asked for */
    const char *remote;   /* QUERN_REMOTE; the https://, http:// or s3://BUCKET/PREFIX address below
                           * which entries lie that others made, asked for what neither bundles nor
                           * the cache have; of s3:// the environment has region, endpoint and
                           * credentials, by AWS's names (docs/fleet.md); or the absolute path of
                           * a directory that has them, which is read as the cache is; default:
                           * none */
    const char *remote_keys; /* QUERN_REMOTE_KEYS; a file of public keys, one of which must have
                              * signed each entry of the remote */
    enum quern_remote_trust remote_trust; /* QUERN_REMOTE_TRUST=keys|transport; keys (the default):
                                           * as remote_keys says, which must be given; transport:
                                           * what comes by https, or from this machine, is used as
                                           * it is */
    int remote_grace_ms; /* QUERN_REMOTE_GRACE_MS; the most milliseconds that an answer of the
                          * remote may take before the compiler is asked too, in which less is
                          * taken when the remote is known to be quick; 0: 50; -1 ("unlimited"):
                          * the compiler is asked when the remote has answered. A transfer may take
                          * 10 s, as long as a grace that is longer, and ten minutes if that is
                          * unlimited */
    enum quern_remote_mode remote_mode; /* QUERN_REMOTE_MODE=r|rw; r (the default): the remote is
                                         * only asked; rw: it is also given what is compiled here,
                                         * by HTTP PUT in the background; quern_close waits for
                                         * that, five seconds at most */
    const char *remote_sign_key; /* QUERN_REMOTE_SIGN_KEY; the file of the secret key that signs
                                  * what is given to the remote, its owner's alone */
    enum quern_weights weights;  /* QUERN_WEIGHTS=any|constant; constant: every launch is made as
                                 * with QUERN_WEIGHTS_CONSTANT */
};
#define QUERN_OPTIONS_SIZE_MIN QUERN_SIZE_TO(struct quern_options, log_level)

/*
 * Opens a context: one device, the cache and the worker pool (both shared by the contexts of a
 * process). `options` may be null. Does not start a worker or compile. May block on the file
 * system. What is not needed degrades with one warning in the log: the cache's directory, bundles.
 * What is needed fails, with the remedy: QUERN_E_TARGET, QUERN_E_DEVICE (no such GPU, or the
 * software GPU of options.target is not installed; QUERN_DEVICE_NONE makes kernels without one),
 * QUERN_E_CACHE (the directory is refused, and options.cache_mode was set, or there is no other way
 * to a kernel), QUERN_E_IO (a file that an option names).
 */
QUERN_API quern_status quern_open(const struct quern_options *options, quern_ctx **ctx);

/*
 * Closes a context. Null is allowed. No other function may be at work with it on another thread but
 * the release of its ops and buffers. Ops that were not released keep what they refer to: the last
 * of them and of the context's buffers to go frees it, with the device and what was loaded there.
 * Until then quern_op_launch and quern_op_ready fail with QUERN_E_ARGUMENT, and the other functions
 * of an op or a buffer do as before; the log and event callbacks are not called any more. May block
 * until a kernel that is being made for an op is done.
 */
QUERN_API void quern_close(quern_ctx *ctx);

/* The device of a context: the GPU that quern_open has found, or the software GPU. */
struct quern_device_info {
    size_t size;
    enum quern_device_kind kind; /* hip, cuda or sim */
    char name[256];
    char target[64]; /* with its features, as the runtime says: "gfx942:sramecc+:xnack-" */
    unsigned compute_units;
    double clock_ghz;
    uint64_t memory_bytes; /* 0: a software device */
    uint64_t cache_bytes;  /* the last cache that the runtime reports; 0: not known */
    char runtime[512];     /* the file of the runtime; "" of a software device */
    int runtime_version;   /* hipRuntimeGetVersion's or cuDriverGetVersion's */
};
#define QUERN_DEVICE_INFO_SIZE_MIN QUERN_SIZE_TO(struct quern_device_info, target)
/* Says what the device of a context is. Does not block. QUERN_E_DEVICE: it has none. */
QUERN_API quern_status quern_ctx_device(quern_ctx *ctx, struct quern_device_info *info);

/* ---- Counting and ending compiles ------------------------------------------------------------ */

/*
 * Counters of a context since it was opened, X(number, NAME, name, what it counts) for each. Their
 * numbers never change. Unlike other enumerations they begin at 0, because they are indices of the
 * array that quern_stats fills. The rows are in the order of the fields of struct quern_stats in
 * tool.h, so a new counter is added behind the last.
 */
#define QUERN_STATS(X)                                                                             \
    X(0, HIT_MEMORY, hit_memory, "look-ups answered by a kernel that the process had already")     \
    X(2, HIT_DISK, hit_disk, "look-ups answered by an entry file, read and verified")              \
    X(4, MISS_ABSENT, miss_absent, "kernels that no bundle and no cache had, under any key")       \
    X(5, MISS_DAMAGED, miss_damaged,                                                               \
      "look-ups that found a file of wrong size, digest or layout, or with an unsound "            \
      "code object")                                                                               \
    X(6, MISS_FOREIGN, miss_foreign,                                                               \
      "look-ups that found a sound entry of another key or target, something that is no "          \
      "regular file, or a file that others may have written")                                      \
    X(7, MISS_IO, miss_io,                                                                         \
      "look-ups that failed for a reason that says nothing about the entry: an I/O "               \
      "error, no memory, no descriptors, a directory without access")                              \
    X(8, PUT_OK, put_ok, "entries published")                                                      \
    X(9, PUT_LOST, put_lost, "entries that another process or thread had published first")         \
    X(10, PUT_FAILED, put_failed,                                                                  \
      "entries not published: disk full, no permission, too large, or refused because "            \
      "they would not have been accepted back")                                                    \
    X(11, QUARANTINED, quarantined, "useless entries that were moved away or removed")             \
    X(12, EVICTED, evicted, "entries removed to keep to the size limit")                           \
    X(14, COMPILE_OK, compile_ok, "kernels that the compiler made")                                \
    X(15, COMPILE_FAILED, compile_failed, "compiles that failed")                                  \
    X(19, WORKER_DIED, worker_died, "compiles that ended with their worker's death or a deadline") \
    X(1, HIT_BUNDLE, hit_bundle, "look-ups answered by a bundle; the cache is then not asked")     \
    X(3, HIT_SOURCE, hit_source,                                                                   \
      "of those answered by a bundle or a file: kernels that another toolchain made of the "       \
      "same source")                                                                               \
    X(13, BUNDLE_DAMAGED, bundle_damaged, "entries of bundles that could not be used")             \
    X(16, COMPILE_NS, compile_ns,                                                                  \
      "nanoseconds of the compiles that did not fail, as the workers measured them")               \
    X(17, COMPILE_REFUSED, compile_refused, "compiles that QUERN_JIT, a flag or the seal forbade") \
    X(18, COMPILE_SEALED, compile_sealed,                                                          \
      "compiles done though the process was sealed (QUERN_SEAL_WARN)")                             \
    X(20, COMPILE_DROPPED, compile_dropped,                                                        \
      "compiles that were not begun, or broken off, because a tier's answer came "                 \
      "meanwhile")                                                                                 \
    X(21, LOAD_FAILED, load_failed, "kernels that were there, and that the device did not load")   \
    X(22, HIT_BASE, hit_base, "look-ups answered by the base kernels that came with the library")  \
    X(23, BASE_DAMAGED, base_damaged,                                                              \
      "base bundles, and entries of them, that could not be used: damaged, or not those that "     \
      "this library was built with")                                                               \
    X(24, HIT_REMOTE, hit_remote, "look-ups answered by the remote cache (QUERN_REMOTE)")          \
    X(25, REMOTE_REFUSED, remote_refused,                                                          \
      "answers of the remote that could not be used: no entry, another key's, or not signed by a " \
      "trusted key")                                                                               \
    X(26, REMOTE_FAILED, remote_failed,                                                            \
      "questions to which the remote had no answer: no connection, too slow, too large, a status " \
      "that says neither yes nor no")                                                              \
    X(27, REMOTE_LATE, remote_late,                                                                \
      "questions given up because the kernel came from elsewhere, though the remote had had the "  \
      "time that it is allowed")                                                                   \
    X(28, REMOTE_SKIPPED, remote_skipped,                                                          \
      "look-ups for which the remote was not asked, because it had failed or been late before")    \
    X(29, REMOTE_REVOKED, remote_revoked,                                                          \
      "entries of the remote that a trusted key signed, and that its list revokes")                \
    X(30, REMOTE_PUT_OK, remote_put_ok,                                                            \
      "kernels compiled here that the remote was given (QUERN_REMOTE_MODE=rw)")                    \
    X(31, REMOTE_PUT_FAILED, remote_put_failed,                                                    \
      "kernels compiled here that it did not take in time, or was not offered after that")         \
    X(32, REMOTE_CLAIMED, remote_claimed,                                                          \
      "kernels that this process claimed in the remote, to compile them")                          \
    X(33, REMOTE_AWAITED, remote_awaited,                                                          \
      "kernels that another machine had claimed, and that came from the remote when it had made "  \
      "them")

#define QUERN_STAT_NUMBER(number, NAME, name, counts) QUERN_STAT_##NAME = number,
enum quern_stat { QUERN_STATS(QUERN_STAT_NUMBER) };
#define QUERN_STAT_ONE(number, NAME, name, counts) +1
/* How many counters this header knows. */
#define QUERN_STAT_COUNT (0 QUERN_STATS(QUERN_STAT_ONE))

/* Fills values[0…count-1], each counter at its number. Counters that the library does not know
 * become 0. Does not block. */
QUERN_API quern_status quern_stats(quern_ctx *ctx, uint64_t *values, size_t count);
/*
 * 1 if all kernels that were looked for since the context was opened came from memory, a bundle, a
 * cache or the library's base kernels, and could be used; 0 if one was compiled, could not be, was
 * not allowed to be, or was not loaded by the device (compile_ok + compile_failed +
 * compile_refused + load_failed is not 0), or if ctx is null. Base kernels that QUERN_OP_BASE did
 * not find do not count. While a thread of the library still makes kernels (QUERN_OP_NO_WAIT,
 * QUERN_OP_BASE) they are not counted yet: ask quern_op_ready first. Does not block. Thread-safe.
 */
QUERN_API int quern_all_served(quern_ctx *ctx);
/* The name of a counter, such as "hit_memory"; null for a number that the library does not know. */
QUERN_API const char *quern_stat_name(enum quern_stat stat);
/* What it counts, in words; null likewise. */
QUERN_API const char *quern_stat_meaning(enum quern_stat stat);

/*
 * Decides, for all contexts of the process and from now on, whether kernels may still be compiled.
 * A server seals itself once it has every kernel it expects to need: a layer that was forgotten
 * then shows in a test, rather than as a request that waits for a compiler. WARN: each compile is
 * logged as a warning and counted. FAIL: it is refused with QUERN_E_WOULD_COMPILE. Compiles that
 * have begun are completed, and kernels from caches and bundles are still loaded. Does not block.
 */
enum quern_seal { QUERN_SEAL_OPEN = 1, QUERN_SEAL_WARN, QUERN_SEAL_FAIL };
QUERN_API quern_status quern_seal(enum quern_seal seal);

/* ---- Op -------------------------------------------------------------------------------------- */

/*
 * Plans `problem` for every M from 1 to m_max, and obtains and loads every kernel that these M
 * need: from memory, from a bundle, from the cache, or by compiling. A launch of more rows than
 * m_max is cut into slices of rows, each by a kernel that is loaded. The same problem gives the
 * same op, with one more reference. May block for as long as its compiles take. Errors:
 * QUERN_E_PROBLEM, QUERN_E_DECLINED, QUERN_E_COMPILE, QUERN_E_WORKER, QUERN_E_TIMEOUT,
 * QUERN_E_TOOLCHAIN, QUERN_E_WOULD_COMPILE (JIT is off), QUERN_E_OBJECT, QUERN_E_DEVICE.
 */
QUERN_API quern_status quern_op_create(quern_ctx *ctx, const struct quern_problem *problem,
                                       int64_t m_max, quern_op **op);

/* In what quern_op_create_flags differs from quern_op_create. */
enum quern_op_flags {
    QUERN_OP_NO_COMPILE = 1, /* fails with QUERN_E_WOULD_COMPILE rather than compile */
    QUERN_OP_NO_WAIT = 2,    /* returns at once; a thread of the library makes missing kernels */
    QUERN_OP_BASE = 4, /* base kernels, where there are any, are loaded and serve while a thread of
                        * the library makes those made to order; where there are none, as without
                        * the flag: blocks while it compiles, unless NO_WAIT is given too */
    QUERN_OP_BASE_ONLY = 8 /* the op of kernels=base: base kernels serve, and no others ever do */
};
QUERN_API quern_status quern_op_create_flags(quern_ctx *ctx, const struct quern_problem *problem,
                                             int64_t m_max, unsigned flags, quern_op **op);

/*
 * Tells of an op that was created with QUERN_OP_NO_WAIT how far its kernels are: QUERN_OK when all
 * are loaded, QUERN_E_NOT_READY while they are being made, or the status of the one that could not
 * be. Before that, a launch that needs a missing kernel fails with QUERN_E_NOT_READY. A forked
 * child does not go on with what its parent was making; call quern_op_create there. Does not block.
 *
 * With QUERN_OP_BASE launches do not fail meanwhile: base kernels (kernels=base), which come with
 * the library or are in a bundle or the cache, are loaded when the op is created and take them, and
 * all from the next one on is the made kernels' when those are loaded. If they cannot be made,
 * quern_op_ready says why, the log once, and base kernels go on serving; asking with the flag again
 * does not try again, and asking without it does. Where there are none for the problem the flag
 * changes nothing. Results of the two agree within the tolerance, not in their bits: a host that
 * needs the same bits all along takes QUERN_OP_BASE_ONLY, or none of the two. docs/embedding.md has
 * what each flag gives where nothing may or can be compiled.
 */
QUERN_API quern_status quern_op_ready(quern_op *op);

/*
 * How often the kernels that serve an op have changed; 0: base kernels serve it, or none yet. A
 * graph keeps the kernels that it captured, which live as long as the op: a host that wants the
 * newer ones captures again when the number has grown. Does not block. 0 for null.
 */
QUERN_API unsigned quern_op_generation(const quern_op *op);

/*
 * quern_op_create for a host that may be capturing `stream` into a graph. An op whose kernels are
 * all loaded is returned at once. Otherwise the stream is asked whether it is capturing. If it is,
 * nothing is compiled or loaded, since a capture would not survive it, and the call fails with
 * QUERN_E_WOULD_COMPILE. The capture goes on in either case.
 */
QUERN_API quern_status quern_op_create_on(quern_ctx *ctx, const struct quern_problem *problem,
                                          int64_t m_max, void *stream, quern_op **op);

/* Drops a reference; before or after quern_close. Null is allowed. No launch of the op may be in
 * flight on another thread. */
QUERN_API void quern_op_release(quern_op *op);

/* ---- Memory ---------------------------------------------------------------------------------- */

/*
 * Memory that the context's device sees, for programs that own no GPU memory themselves, and for
 * software GPUs, which see no other memory. Its contents are undefined at first. `access` is of
 * enum quern_access; `name` is what a software GPU's messages call it, or null.
 * Destroy it before or after quern_close, and not while a launch uses it; null is allowed. The
 * address goes into struct quern_args. Copies are of the buffer's first `bytes` bytes; they wait
 * for all work that the device was given, so they are for setting up and for results. All functions
 * but quern_buffer_address may block. Errors: QUERN_E_ARGUMENT, QUERN_E_DEVICE (the context has
 * none, or the runtime failed), QUERN_E_MEMORY, QUERN_E_BUFFER (more bytes than it has).
 */
typedef struct quern_buffer quern_buffer;
QUERN_API quern_status quern_buffer_create(quern_ctx *ctx, size_t bytes, int access,
                                           const char *name, quern_buffer **buffer);
QUERN_API void quern_buffer_destroy(quern_buffer *buffer);
QUERN_API void *quern_buffer_address(const quern_buffer *buffer);
QUERN_API quern_status quern_buffer_write(quern_buffer *buffer, const void *from, size_t bytes);
QUERN_API quern_status quern_buffer_read(const quern_buffer *buffer, void *to, size_t bytes);

/* ---- Launch ---------------------------------------------------------------------------------- */

/*
 * Operands of a launch: addresses on the context's device. A software GPU sees no memory of the
 * host's, but that of quern_buffer_create alone (and of quern_sim_map). Which of them a problem
 * has, with their types, shapes and alignment, is the table "Operands" of docs/formats.md; the
 * others are not looked at.
 */
struct quern_args {
    size_t size;
    const void *a;      /* [M,K], row m at a + m*lda elements */
    const void *b;      /* weights, in the op's b_layout; of op=moe all experts', one after another,
                         * and so are scales, zeros, absmax8, offset, b_scale and bias */
    const void *scales; /* see docs/formats.md */
    const void *zeros;
    const void *absmax8; /* nested absmax */
    const void *code;
    const void *offset;
    const void *bias;    /* [N] */
    void *c;             /* [M,N], row m at c + m*ldc elements */
    const void *a_scale; /* FP8 */
    const void *b_scale;
    void *workspace; /* quern_op_workspace() bytes, or null */
    int64_t lda;     /* elements from one row of A to the next; 0: K. If K elements are a multiple
                      * of 4 bytes, lda elements must be, too */
    int64_t ldc;     /* elements from one row of C to the next; 0: N */

    /* Of op=moe, whose M counts tokens, or, with top_k=1, whatever A has a row for; V = M·top_k is
     * the number of choices. quern_moe_slots says how long `rows` is; B are its block_rows.
     * op=moe_align writes rows, experts and rows_used, as quern_moe_align does on the CPU. */
    const void *rows;    /* i32 [slots]: the choice that a slot is for, token·top_k + which; V and
                            * anything above, unsigned: none. A's row is rows / top_k, C's rows */
    const void *experts; /* i32 [slots / B]: whose weights a block of B slots has; -1: zeros are
                            * written to its rows of C; any other that is not one: nothing is */
    const void *rows_used; /* i32 [1], read as unsigned: slots in use, a multiple of B; those
                            * behind may hold anything */
    const void *routing;   /* f32 [V]: what a row of C is multiplied by; null: by nothing */
    int64_t slots;         /* how many there are, a multiple of B, 2^30 - 128 at most, and no more
                            * than a grid takes of the kernel (65535 slices along y, 2^32 work-items
                            * along x: a launch of more is refused, and says how many it takes); 0:
                            * as quern_moe_slots says, which op=moe_align takes alone */
    const void *topk_ids;  /* of op=moe_align, i32 [M, top_k]: the experts of each token; a choice
                            * whose number is no expert's is in no row */
    uint64_t flags;        /* 0 or QUERN_WEIGHTS_CONSTANT */
};
#define QUERN_ARGS_SIZE_MIN QUERN_SIZE_TO(struct quern_args, c)

/*
 * Computes m rows on `stream` (a hipStream_t or CUstream; ignored by software devices). Looks up
 * the kernel for m, packs its arguments and launches it. It allocates nothing, takes no lock, makes
 * no system call of its own and does not wait for the device; only a software device runs the
 * kernel before the call returns. As for any launch, the context's device must be the thread's
 * current device, and `stream` must belong to it. A stream that is being captured records the
 * launch. Errors: QUERN_E_ARGUMENT (also when the op's context is closed), QUERN_E_ALIGN,
 * QUERN_E_DEVICE, QUERN_E_FAULT.
 */
QUERN_API quern_status quern_op_launch(quern_op *op, const struct quern_args *args, int64_t m,
                                       void *stream);

/*
 * Rows of the blocks of op=moe in a launch of m rows of A: *rows, a power of two; 0 of another op.
 * It depends on the target, the number of experts, the types of weights and of A, the number of
 * choices m·top_k, and on whether matrix units take the problem: the op that makes gate and up of
 * tokens, and the op that takes their products back, whose rows of A are choices (top_k=1), have
 * the same blocks unless matrix units take the N and K of only one. Compare the two, and where they
 * differ set the problems' block_rows. For an m of op=moe that needs a kernel which the op was not
 * created for (m_max) there is no answer, and no launch. Does not block. QUERN_E_ARGUMENT,
 * QUERN_E_NOT_READY.
 */
QUERN_API quern_status quern_op_block_rows(const quern_op *op, int64_t m, int *rows);

/*
 * Bytes of workspace that a launch of m rows can use; 0 if it uses none. The workspace must be
 * 256-byte aligned. An op that was created for an m_max of hundreds of rows, on a GPU with
 * hipBLASLt or cuBLASLt, can use it: it converts its weights to 16 bits there and multiplies by
 * that library, whose calls may allocate or lock but do not wait for the device. quern's own
 * kernels do the launch without workspace, if rows of A or C are not packed, and if the library
 * would meet a size for the first time while the stream is being captured.
 */
QUERN_API size_t quern_op_workspace(const quern_op *op, int64_t m);

/*
 * Writes which kernel serves m rows, why it was chosen and the time that it is modelled to take.
 * Returns the length of the whole text; at most size-1 bytes of it and a NUL are written. text may
 * be null when size is 0.
 */
QUERN_API size_t quern_op_explain(quern_op *op, int64_t m, char *text, size_t size);

/* ---- Prewarm --------------------------------------------------------------------------------- */

/* One kernel of a prewarm, reported as it is done. */
struct quern_progress {
    size_t size;
    size_t done, total;  /* kernels that are finished, and that there are */
    const char *problem; /* canonical text */
    const char *kernel;  /* kernel symbol */
    int64_t m_lo, m_hi;  /* the numbers of rows that it serves */
    int cached;          /* 1: it was in the cache */
    double compile_ms;   /* 0 if cached */
    quern_status status; /* of this kernel */
};

/* Is called from any thread, but from one at a time. A nonzero return value cancels the kernels
 * that nobody has started on. */
typedef int (*quern_progress_fn)(void *user, const struct quern_progress *progress);

/*
 * Makes every kernel of `count` problems for M = 1…m_max and stores it, compiling on all workers.
 * Goes on after a failed kernel and returns the first failure. Needs no GPU. Blocks.
 */
QUERN_API quern_status quern_prewarm(quern_ctx *ctx, const struct quern_problem *problems,
                                     size_t count, int64_t m_max, quern_progress_fn progress,
                                     void *user);

/*
 * Creates the op of every layer in a manifest, which is the text that `record` (QUERN_RECORD)
 * writes and `quern prewarm --manifest` reads (docs/formats.md). Lines for other targets are passed
 * over. The ops stay in the context, so that creating them again finds them. Goes on after a line
 * that fails and returns the first failure, whose message names the line. Blocks as
 * quern_op_create. QUERN_E_IO: the file cannot be read.
 */
QUERN_API quern_status quern_preload(quern_ctx *ctx, const char *path);

#ifdef __cplusplus
}
#endif
#endif

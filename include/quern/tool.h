/* SPDX-License-Identifier: MIT */
/*
 * What the quern command needs beyond quern.h: sources, code objects, launches, verification, cache
 * maintenance, reference arithmetic.
 *
 * No ABI promise before 1.0: functions, and structs without `size`, may change with every version.
 * What quern.h says of structs of other versions holds here all the same, so that a host of another
 * version is served or refused, and never misread: a struct with `size` that changes otherwise than
 * by new fields at its end, or has within it a struct that changes, gets a QUERN_…_SIZE_MIN above
 * its former size.
 */
#ifndef QUERN_TOOL_H
#define QUERN_TOOL_H

#include <quern/sim.h>
#include <quern/weights.h>

#ifdef __cplusplus
extern "C" {
/* a function that fills a struct has its name: in C++ that hides the struct's constructor, which
 * nothing here calls */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"
#endif

/* ---- Targets --------------------------------------------------------------------------------- */

/* A read-only view of one row of the target table. */
struct quern_target_info {
    size_t size;
    const char *name;   /* "gfx1151", "sm_90" */
    const char *family; /* "RDNA 3.5" */
    const char *part;   /* the retail part that cus, clock and bandwidth describe */
    unsigned wave_size; /* native */
    unsigned vgprs;     /* per SIMD and lane */
    unsigned vgpr_granule;
    unsigned lds_bytes; /* most that one workgroup may have */
    unsigned cus;
    double clock_ghz;
    double bandwidth_gbs;
    int verified;            /* 1: something here runs its kernels without a GPU: verified_by */
    const char *features;    /* space-separated capability words */
    const char *vendor;      /* "AMD", "NVIDIA" */
    const char *verified_by; /* "sim": the software GPU, which runs the code object; "cpu": the CPU,
                                which runs the kernel's text; "none" */
};
#define QUERN_TARGET_INFO_SIZE_MIN QUERN_SIZE_TO(struct quern_target_info, bandwidth_gbs)

QUERN_API size_t quern_target_count(void);
QUERN_API quern_status quern_target_at(size_t index, struct quern_target_info *info);
/* Parses "gfx942:sramecc+:xnack-" or a bare name. QUERN_E_TARGET names the nearest known one. */
QUERN_API quern_status quern_target_find(const char *text, struct quern_target_info *info);

/* ---- Kernels of a problem -------------------------------------------------------------------- */

/* Resources of a kernel, read from its code object. */
struct quern_resources {
    unsigned vgprs, sgprs, lds_bytes, scratch_bytes, waves_per_simd, kernarg_bytes, wave_size;
};

/* One kernel of an op. Pointers live as long as the op. */
struct quern_kernel_info {
    size_t size;
    const char *symbol;
    int64_t m_lo, m_hi; /* the numbers of rows that one slice of it may have */
    const void *object;
    size_t object_bytes;
    struct quern_resources resources;
    int cached;          /* came from memory or disk */
    double compile_ms;   /* 0 if cached */
    char source_key[33]; /* hexadecimal */
    char entry_key[33];
    int verified; /* the target is one that something here runs without a GPU */
    int and_more; /* 1: the op's last, which serves every M from m_lo on, in slices */
};
#define QUERN_KERNEL_INFO_SIZE_MIN QUERN_SIZE_TO(struct quern_kernel_info, object_bytes)

/*
 * Like quern_op_create, for exactly the kernels that M = m_lo…m_hi needs, with the result never
 * entered in the context's op table. Release with quern_op_release.
 */
QUERN_API quern_status quern_op_create_range(quern_ctx *ctx, const struct quern_problem *problem,
                                             int64_t m_lo, int64_t m_hi, quern_op **op);

/* A shape that the kernel for m rows may have: its words, and the modelled time of a launch. */
struct quern_shape {
    char words[128];
    double model_us;
};
/* Writes at most *count shapes, first the one that the model chooses, then the others by their
 * modelled time, and sets *count to the number of shapes that there are. */
QUERN_API quern_status quern_op_shapes(quern_ctx *ctx, const struct quern_problem *problem,
                                       int64_t m, struct quern_shape *shapes, size_t *count);
/* Like quern_op_create_range for the one kernel that serves m rows, which may be at most what one
 * slice of it has, but with the words of a shape from quern_op_shapes. QUERN_E_ARGUMENT when
 * `shape` is none of those. */
QUERN_API quern_status quern_op_create_shape(quern_ctx *ctx, const struct quern_problem *problem,
                                             int64_t m, const char *shape, quern_op **op);
/* The tables of a target that a cache directory may have, by what measured them: shapes of kernels
 * (`quern tune`), and what kernels assume of the GPU (`quern probe`). */
enum quern_table { QUERN_TABLE_TUNING = 1, QUERN_TABLE_FACTS };
/* Whether `size` bytes are a sound table for a target; QUERN_E_ARGUMENT with the line's number if
 * not. */
QUERN_API quern_status quern_table_check(enum quern_table kind, const char *target,
                                         const char *text, size_t size);
/* The table of a target in the cache directory: malloc'ed, not NUL-terminated, or *text null if
 * there is none; and written in its place, as private as an entry, if it is sound. QUERN_E_CACHE
 * when the directory or the file is not to be trusted (SECURITY.md), or nothing may be written. */
QUERN_API quern_status quern_table_read(quern_ctx *ctx, enum quern_table kind, const char *target,
                                        char **text, size_t *size);
QUERN_API quern_status quern_table_write(quern_ctx *ctx, enum quern_table kind, const char *target,
                                         const char *text, size_t size);

/* Something that kernels assume of a GPU and no manual says, or a rate by which they are modelled.
 * Strings live for ever; `measured` until the function that is told of it returns. */
struct quern_fact {
    const char *name;     /* "dot2_bf16_bf16", as in a facts table */
    const char *assumed;  /* the value that is assumed, "truncates"; of a rate its unit */
    const char *measured; /* by quern_probe; null: not measured */
    int holds;            /* 0: it was measured to be otherwise. Rates always hold */
    const char *meaning;  /* what is assumed, in a sentence */
    const char *relies;   /* which kernels rely on it */
    const char *source;   /* who says so */
    char sure;            /* A: measured on hardware; B: a vendor's words; C: one report */
    const char *fallback; /* what is planned where it does not hold */
};
typedef void (*quern_fact_fn)(void *user, const struct quern_fact *fact);
/* Calls `fn` for each fact that is assumed of a target, or (null) of any. */
QUERN_API quern_status quern_facts(const char *target, quern_fact_fn fn, void *user);
/* Runs a kernel for each fact on the context's device, compiled or from the cache as any other, and
 * calls `fn` with what it found. *table is the facts table of it, malloc'ed. Blocks.
 * QUERN_E_DEVICE: the context has no device. */
QUERN_API quern_status quern_probe(quern_ctx *ctx, quern_fact_fn fn, void *user, char **table);
/* Calls `fn` with a small layer of each kind that has base kernels on a target: its kernels are
 * those of every layer of the kind. Without `all`, of the kinds that `make base` ships: results,
 * scales and layout are of the types that are the default for the other words, and scales of nf4
 * and fp4 are nested too. `text` is valid during the call. */
typedef void (*quern_text_fn)(void *user, const char *text);
QUERN_API quern_status quern_base_problems(const char *target, int all, quern_text_fn fn,
                                           void *user);
/* QUERN_OK if the context may compile a kernel that no tier has, and there is a compiler; else
 * QUERN_E_WOULD_COMPILE or QUERN_E_TOOLCHAIN with the reason. May block on the file system. */
QUERN_API quern_status quern_can_compile(quern_ctx *ctx);
QUERN_API size_t quern_op_kernel_count(const quern_op *op);
QUERN_API quern_status quern_op_kernel(const quern_op *op, size_t index,
                                       struct quern_kernel_info *info);
QUERN_API quern_ctx *quern_op_ctx(const quern_op *op);

/* Estimates what the kernels for m_lo…m_hi rows of a problem take to compile: *cost in units of
 * about 30 ms of one core, of use to compare with each other. It follows from target and problem
 * alone, and from no tuning table or facts, so that it is the same on every machine with this
 * release. QUERN_E_TARGET, QUERN_E_PROBLEM, QUERN_E_DECLINED. */
QUERN_API quern_status quern_compile_estimate(const char *target,
                                              const struct quern_problem *problem, int64_t m_lo,
                                              int64_t m_hi, unsigned *cost);

/* Generates the source of the kernel that serves m rows, HIP or CUDA. No compiler is needed. The
 * tuning table that the options and the environment name is followed. `text` is malloc'ed. */
QUERN_API quern_status quern_source(const struct quern_options *options,
                                    const struct quern_problem *problem, int64_t m, char **text);
/* Explains why that kernel was chosen for m rows, with the same options; `text` is malloc'ed. */
QUERN_API quern_status quern_explain(const struct quern_options *options,
                                     const struct quern_problem *problem, int64_t m, char **text);
/* A table of modelled times by the number of rows: of kernels that multiply on the vector units, on
 * the matrix units, and on the matrix units by tiles in LDS; which kernels serve the rows; and from
 * which number of rows on one family takes over from another. `text` is malloc'ed. */
QUERN_API quern_status quern_explain_sweep(const struct quern_options *options,
                                           const struct quern_problem *problem, char **text);

/* ---- Launches -------------------------------------------------------------------------------- */

#define QUERN_LAUNCHES_MAX 4
#define QUERN_ARGS_MAX     24

enum quern_arg_kind {
    QUERN_ARG_POINTER = 1,
    QUERN_ARG_I32,
    QUERN_ARG_U32,
    QUERN_ARG_I64,
    QUERN_ARG_U64,
    QUERN_ARG_F32,
    QUERN_ARG_BYTES
};

struct quern_launch_arg {
    const char *name;
    enum quern_arg_kind kind;
    int64_t value; /* of an integer; 0 for a pointer, which `name` says what to set to */
    int is_null;   /* 1: a pointer that is null in this launch */
};

struct quern_launch {
    size_t kernel; /* index for quern_op_kernel */
    uint32_t grid[3], block[3];
    uint32_t lds_bytes; /* dynamic */
    size_t arg_count;
    struct quern_launch_arg args[QUERN_ARGS_MAX]; /* kernarg order, natural alignment */
};

/* The launches that m packed rows take, in order. `launches` has QUERN_LAUNCHES_MAX places. */
QUERN_API quern_status quern_op_launches(const quern_op *op, int64_t m,
                                         struct quern_launch *launches, size_t *count);

/* ---- The device of a context ----------------------------------------------------------------- */

/* Calls `work`, which launches on the null stream, and measures by events of the device until all
 * that it launched is done; on a software device, by the host's clock. Blocks until then. */
QUERN_API quern_status quern_ctx_measure(quern_ctx *ctx, quern_status (*work)(void *user),
                                         void *user, double *microseconds);

/* ---- Verification ---------------------------------------------------------------------------- */

struct quern_verification {
    size_t size;
    double max_error; /* the largest |result - reference|, over the largest |reference|; of
                       * op=moe_align, whose tolerance is 0: how many numbers of an operand differ
                       */
    double tolerance; /* the largest max_error that is allowed */
    struct quern_sim_counts counts;
    double seconds;   /* in the software GPU */
    uint64_t weights; /* that were multiplied by: N·K, of op=moe of each expert that had rows */
};
#define QUERN_VERIFICATION_SIZE_MIN QUERN_SIZE_TO(struct quern_verification, tolerance)

/*
 * Runs the op for m rows on the software GPU with random operands of `seed`, and compares with the
 * double-precision product of the exactly dequantised weights. Returns QUERN_E_VERIFY when the
 * error exceeds the tolerance, QUERN_E_FAULT when the kernel does something wrong. `out` is always
 * filled. Kernels with matrix instructions of which nobody has published how they add run once for
 * each candidate (docs/sim.md), and the largest error counts; the rest of `out` is of the first.
 */
QUERN_API quern_status quern_verify(quern_op *op, int64_t m, uint64_t seed,
                                    enum quern_sim_check check, struct quern_verification *out);

/* ---- Code objects and the compiler ----------------------------------------------------------- */

struct quern_object_kernel {
    const char *symbol;
    struct quern_resources resources;
};

/* Kernels of a code object; `kernels` may be null. Strings point into `object`. */
QUERN_API quern_status quern_object_inspect(const void *object, size_t size, const char **target,
                                            struct quern_object_kernel *kernels, size_t *count);

/* The machine code of one kernel: `code` points into `object`, `address` is its virtual one. */
QUERN_API quern_status quern_object_code(const void *object, size_t size, const char *symbol,
                                         const void **code, size_t *code_bytes, uint64_t *address);

/* Code objects of many targets in one file: the clang driver's offload bundles, plain or compressed
 * with zstd, also in the .hip_fatbin section of a host's ELF file. */
typedef struct quern_offload quern_offload;

struct quern_offload_entry {
    size_t size;
    const char *id; /* "hipv4-amdgcn-amd-amdhsa--gfx942:sramecc+:xnack-" */
    const char
        *target;     /* "gfx942:sramecc+:xnack-"; "" for the host's entry, which is mostly empty */
    unsigned bundle; /* which of the file's bundles it is in, from 0 */
    const void *object; /* neither aligned nor checked; object_bytes may be 0 */
    size_t object_bytes;
};
#define QUERN_OFFLOAD_ENTRY_SIZE_MIN QUERN_SIZE_TO(struct quern_offload_entry, object_bytes)

/* Reads all bundles; `bytes` must outlive the result, and entries live as long as it.
 * QUERN_E_OBJECT says what is wrong with the file. */
QUERN_API quern_status quern_offload_open(const void *bytes, size_t size, quern_offload **offload);
QUERN_API size_t quern_offload_count(const quern_offload *offload);
QUERN_API quern_status quern_offload_entry(const quern_offload *offload, size_t index,
                                           struct quern_offload_entry *entry);
QUERN_API void quern_offload_close(quern_offload *offload); /* null is allowed */

/* A disassembler made of the context's worker pool; valid as long as the context. */
QUERN_API struct quern_disassembler quern_ctx_disassembler(quern_ctx *ctx);

/* The byte offset that a branch at `offset` leads to, by the last word of its text (or that word
 * alone), which LLVM writes as words of 4 bytes behind the branch; -1 if that is no number. */
QUERN_API int64_t quern_branch_target(const char *text, uint64_t offset);

/* ---- Scanning code --------------------------------------------------------------------------- */

enum quern_lint_rule {
    QUERN_LINT_TOO_CLOSE = 1, /* fewer wait states between two instructions than silicon needs */
    QUERN_LINT_OWED,          /* a register, or LDS at a barrier, is not waited for */
    QUERN_LINT_UNREAD         /* an instruction that the scan cannot read */
};

/* One thing found. Strings live as long as the call of the function that gets them. */
struct quern_lint_finding {
    size_t size;
    enum quern_lint_rule rule;
    const char *kernel;
    const char *what;       /* the rule in words */
    const char *registers;  /* "v[4:7]", "vcc", "LDS" */
    uint64_t first, second; /* byte offsets of the two instructions in the kernel's code */
    const char *first_text, *second_text;
    unsigned needed, found; /* of TOO_CLOSE, wait states; of OWED, the most that a wait may leave
                             * under way on the counter, and 0 */
};
typedef void (*quern_lint_fn)(void *user, const struct quern_lint_finding *finding);

/*
 * Scans every kernel of a code object, of any origin, for pairs of instructions that are too close
 * together and for registers that are read or overwritten before a load has written them, on every
 * path; nothing is run. docs/lint.md says which rules are known for which target. `fn` is called
 * for each finding on the calling thread. QUERN_E_OBJECT: no code object; QUERN_E_TARGET: one for a
 * target that is not scanned; else what the disassembler returns. Blocks as the disassembler does;
 * thread-safe.
 */
QUERN_API quern_status quern_lint(const struct quern_disassembler *disassembler, const void *object,
                                  size_t bytes, quern_lint_fn fn, void *user);

/* ---- Cache ----------------------------------------------------------------------------------- */

/* The counters of quern_stats by name. */
#define QUERN_STAT_FIELD(number, NAME, name, counts) uint64_t name;
struct quern_stats {
    size_t size;
    QUERN_STATS(QUERN_STAT_FIELD)
};
#define QUERN_STATS_SIZE_MIN QUERN_SIZE_TO(struct quern_stats, worker_died)
QUERN_API quern_status quern_ctx_stats(quern_ctx *ctx, struct quern_stats *stats);

struct quern_cache_info {
    size_t size;
    char directory[4096];
    uint64_t entries, bytes, max_bytes, quarantined;
};
#define QUERN_CACHE_INFO_SIZE_MIN QUERN_SIZE_TO(struct quern_cache_info, max_bytes)
struct quern_cache_entry {
    const char *key; /* hexadecimal */
    uint64_t bytes;
    int64_t used; /* seconds since 1970 */
    const char *key_text;
    quern_status status; /* QUERN_OK or what verification found */
    int scanned;         /* its kernel passed this library's rules (docs/lint.md), or was refused */
};
typedef int (*quern_cache_fn)(void *user, const struct quern_cache_entry *entry);

QUERN_API quern_status quern_cache_info(quern_ctx *ctx, struct quern_cache_info *info);
/* Calls `fn` for each entry; with `verify`, each is read whole and damaged ones are quarantined. */
QUERN_API quern_status quern_cache_walk(quern_ctx *ctx, int verify, quern_cache_fn fn, void *user);
QUERN_API quern_status quern_cache_clear(quern_ctx *ctx, uint64_t *removed);

/* A file of a remote cache: what its server is to have at `name` below the address. Nonzero stops.
 */
typedef int (*quern_remote_file_fn)(void *user, const char *name, const void *bytes, size_t size);
/* Signs a message by Ed25519 (RFC 8032, not prehashed), and says by which key. The library only
 * checks signatures. */
typedef void (*quern_sign_fn)(void *user, const void *message, size_t size, uint8_t public_key[32],
                              uint8_t signature[64]);
/* Gives every sound entry of the cache that has a kernel as a remote cache holds it
 * (docs/fleet.md), twice: under its own key and under its source key; signed by `sign`, or (null)
 * unsigned. *given counts entries, *left_out those that are damaged or record a refusal; each may
 * be null. QUERN_E_CANCELLED when `fn` stopped it. Blocks on the disk. */
QUERN_API quern_status quern_cache_seal(quern_ctx *ctx, quern_sign_fn sign, quern_remote_file_fn fn,
                                        void *user, uint64_t *given, uint64_t *left_out);

/* Sends the same files to a server below the address `url` (as QUERN_REMOTE), by HTTP PUT, but for
 * those that it has as they are; *files and *bytes count those that were put. The first that
 * fails ends it, in bounded time: QUERN_E_IO with the reason, QUERN_E_ARGUMENT (the address),
 * QUERN_E_TOOLCHAIN (no helper). Blocks on disk and network. */
QUERN_API quern_status quern_cache_send(quern_ctx *ctx, const char *url, quern_sign_fn sign,
                                        void *user, uint64_t *given, uint64_t *left_out,
                                        uint64_t *files, uint64_t *bytes);

/* The kernels of one problem for m_lo…m_hi rows. */
struct quern_layer {
    struct quern_problem problem;
    int64_t m_lo, m_hi;
};
/* Is called once for each kernel of a layer (its index) that was found, made or could not be had,
 * from any thread, but from one at a time. `info` lives until it returns; it is null where
 * progress->status is not QUERN_OK, whose details are then in quern_last_error. A layer that cannot
 * be planned is told of once, with `kernel` "". A nonzero return value cancels the kernels that
 * nobody has started on. */
typedef int (*quern_made_fn)(void *user, size_t layer, const struct quern_progress *progress,
                             const struct quern_kernel_info *info);
/*
 * Finds or makes the kernels of layers, as quern_prewarm does for problems, and stores those that
 * were made or came from a remote. A remote is asked for up to 96 kernels ahead of the first that
 * is not there yet, and what comes from it reaches the disk together. Where the remote is an object
 * store and QUERN_REMOTE_MODE is rw, kernels that it lacks are claimed; those that another machine
 * has claimed come last, and are waited for, some ten minutes at most. What fails of a layer is
 * told to `made` alone: the result is QUERN_OK all the same, or QUERN_E_CANCELLED,
 * QUERN_E_ARGUMENT or QUERN_E_MEMORY for the call as a whole. Blocks.
 */
QUERN_API quern_status quern_make(quern_ctx *ctx, const struct quern_layer *layers, size_t count,
                                  quern_made_fn made, void *user);

/* Waits until all that was compiled so far has been given to the remote (QUERN_REMOTE_MODE=rw) or
 * given up, half a minute at most, or as long as a transfer may take where that is more. At once
 * where nothing is given, or ctx is null. */
QUERN_API void quern_remote_settle(quern_ctx *ctx);

/* One file of a remote cache below the address `url`, by its name there, such as
 * "v1/revoked.qr": fetched into malloc'ed memory, *bytes null if there is none; and put there.
 * QUERN_E_IO with the reason, QUERN_E_ARGUMENT (the address), QUERN_E_TOOLCHAIN (no helper). Blocks
 * on the network, for half a minute at most. */
QUERN_API quern_status quern_remote_get(quern_ctx *ctx, const char *url, const char *name,
                                        void **bytes, size_t *size);
QUERN_API quern_status quern_remote_put(quern_ctx *ctx, const char *url, const char *name,
                                        const void *bytes, size_t size);

struct quern_bytes {
    const void *bytes;
    size_t size;
};
/*
 * Makes the revocation list (docs/fleet.md) that follows `last` (null: the first), and has besides
 * the entries in `files`, `count` files of a remote cache; signs it by `sign`, whose public key
 * must be `public_key` and that which signed `last`. Takes what it revokes out of this cache.
 * *bytes is malloc'ed; *serial and *revoked (either may be null) are its serial and how many
 * entries it has.
 * QUERN_E_OBJECT: a file is no entry, or `last` is no list of this key. Blocks on the disk.
 */
QUERN_API quern_status quern_cache_revoke(quern_ctx *ctx, const struct quern_bytes *last,
                                          const struct quern_bytes *files, size_t count,
                                          const uint8_t public_key[32], quern_sign_fn sign,
                                          void *user, void **bytes, size_t *size, uint64_t *serial,
                                          uint64_t *revoked);

/* Whether the kernels that serve m rows are in a bundle or the cache, and if not, how the entry
 * that is nearest differs, field by field of the key text. `text` is malloc'ed. Blocks on the disk:
 * reads the key text of every entry. */
QUERN_API quern_status quern_explain_miss(quern_ctx *ctx, const struct quern_problem *problem,
                                          int64_t m, char **text);

/* ---- Bundles: docs/formats.md ---------------------------------------------------------------- */

struct quern_bundle_info {
    size_t size;
    uint64_t entries, bytes; /* bytes: from the start of the file, all that a signature covers */
    uint64_t serial;
    const char *manifest; /* NUL-terminated; points into memory of the bundle */
    int has_signature;    /* see quern_bundle_check_signature */
    uint8_t public_key[32], signature[64];
    const char *tuning; /* facts and tuning tables, one behind another, likewise; "": none */
};
#define QUERN_BUNDLE_INFO_SIZE_MIN QUERN_SIZE_TO(struct quern_bundle_info, signature)

typedef struct quern_bundle quern_bundle;

/* Reads a bundle in memory, which must outlive the handle. QUERN_E_OBJECT says what is wrong. */
QUERN_API quern_status quern_bundle_open(const void *bytes, size_t size, quern_bundle **bundle);
/* The same of a file, whoever owns it: its index is read, and an entry when it is asked for. Keeps
 * a descriptor. QUERN_E_IO when it cannot be read. Blocks on the disk, as functions do that are
 * given the handle. */
QUERN_API quern_status quern_bundle_open_file(const char *path, quern_bundle **bundle);
QUERN_API void quern_bundle_close(quern_bundle *bundle); /* null is allowed */
QUERN_API quern_status quern_bundle_info(const quern_bundle *bundle,
                                         struct quern_bundle_info *info);
/* Calls `fn` with the key and the bytes of each entry, in the order of their keys; with `verify`,
 * each is read whole, and its key text and what is wrong with it are told too. When `fn` returns
 * nonzero, no more follow, and the result is QUERN_E_CANCELLED. */
QUERN_API quern_status quern_bundle_walk(const quern_bundle *bundle, int verify, quern_cache_fn fn,
                                         void *user);

/*
 * Makes a bundle in memory: of every undamaged entry of the context's cache, for one processor or
 * (null) for all, and of the tuning tables that the context follows, so that a host that uses the
 * bundle follows them too. `manifest` is a text of at most 1 MiB to carry along, or null; one that
 * begins with "# quern base kernels, version" gets a line with a proof for each entry and one for
 * the dictionary, which count in the 1 MiB, and is refused (QUERN_E_ARGUMENT) if it has some. Fails
 * if one of these tables is damaged; damaged entries are left out, and *left_out counts them.
 * Equal content gives equal bytes. *bytes is malloc'ed. Blocks on the disk.
 */
QUERN_API quern_status quern_bundle_create(quern_ctx *ctx, const char *processor,
                                           const char *manifest, uint64_t serial, void **bytes,
                                           size_t *size, uint64_t *left_out);
/* Makes the block of QUERN_SIGNATURE_BYTES that follows the bytes of a signed bundle. */
#define QUERN_SIGNATURE_BYTES 128
QUERN_API void quern_bundle_signature(const uint8_t public_key[32], const uint8_t signature[64],
                                      uint8_t block[QUERN_SIGNATURE_BYTES]);

/* Checks that one of the public keys in `key_file` signed all bytes of the bundle. QUERN_E_CACHE:
 * the key file cannot be trusted, because a user other than this process's or root may write to it,
 * or cannot be read. QUERN_E_OBJECT: no key of it signed the bundle. */
QUERN_API quern_status quern_bundle_check_signature(const quern_bundle *bundle,
                                                    const char *key_file);

struct quern_bundle_import {
    size_t size;
    uint64_t imported; /* new in the cache */
    uint64_t present;  /* were there already */
    uint64_t damaged;  /* left out */
    uint64_t failed;   /* could not be stored */
};
#define QUERN_BUNDLE_IMPORT_SIZE_MIN QUERN_SIZE_TO(struct quern_bundle_import, imported)
/* Finds the table for a target in the `tuning` of a struct quern_bundle_info; null, and *bytes 0,
 * if there is none. */
QUERN_API const char *quern_bundle_table(const char *tuning, enum quern_table kind,
                                         const char *target, size_t *bytes);

/*
 * Puts every undamaged entry of a bundle into the context's cache. The caller must write the
 * bundle's tuning tables there too (quern_bundle_table, quern_table_write): without them, plans
 * differ, and ask for other kernels than the bundle had. `signer` is null, or 64 hexadecimal
 * digits: a public key with which the caller has checked the signature. Then the bundle's serial is
 * remembered, and a bundle of the same signer with a lower one is refused with QUERN_E_CACHE, so
 * that nobody can bring back an old bundle. QUERN_E_CACHE also when the bundle is larger than the
 * cache may be, or the cache is not open for writing. Blocks on the disk.
 */
QUERN_API quern_status quern_bundle_import(quern_ctx *ctx, const quern_bundle *bundle,
                                           const char *signer, struct quern_bundle_import *result);

/* ---- Text for people ------------------------------------------------------------------------- */

/*
 * Makes text that is safe to print from `size` bytes of anywhere: file names, names in others'
 * files, a compiler's log. What is no UTF-8 becomes \xNN for each byte; characters that a terminal
 * obeys (control characters, ends of lines, changes of direction) become \uNNNN, which in a string
 * of JSON is the character itself. At most room - 1 bytes and a NUL are written to `out`, no
 * character or escape in part; six bytes for each one that is read are always enough. Returns how
 * many without the NUL. Messages of struct quern_error and log lines have been through it. Any
 * thread; does not block.
 */
enum quern_shown {
    QUERN_SHOWN_LINE,  /* for one line */
    QUERN_SHOWN_LINES, /* for several: line feeds and tabs are left as they are */
    QUERN_SHOWN_DATA   /* for writers of JSON: valid UTF-8, of whatever characters */
};
QUERN_API size_t quern_text_shown(enum quern_shown how, const char *bytes, size_t size, char *out,
                                  size_t room);

/* ---- Doctor ---------------------------------------------------------------------------------- */

/* Examines whether the machine has what quern needs. Calls `line` with each finding, `ok` being 0
 * for a problem, and returns the number of problems. Blocks; may start a worker process. */
typedef void (*quern_doctor_fn)(void *user, int ok, const char *subject, const char *text);
QUERN_API int quern_doctor(const struct quern_options *options, quern_doctor_fn line, void *user);

#ifdef __cplusplus
#pragma GCC diagnostic pop
}
#endif
#endif

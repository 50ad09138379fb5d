/* SPDX-License-Identifier: MIT */
/* bitsandbytes' kernels (peer.h), found in the library of its wheel. */
#include "measure/peer.h"
#include "files/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TITLE             "bitsandbytes 0.50.2"
#define LIBRARY_BYTES_MAX ((size_t)256 << 20)

enum { ROWS_MAX = 8, COLUMNS = 4, BLOCK = 128, QUANT_FP4 = 1, QUANT_NF4 = 2 };

/* The kernels' explicit arguments. */
struct arguments {
    const void *a, *b, *absmax;
    const void *absmax8, *code, *offset; /* null unless nested */
    void *c;
    const void *bias; /* may be null */
    int32_t m, n, k, block, quant;
};
/* Kernels take the arguments without the padding that C puts behind the last. */
#define ARGUMENTS_BYTES (offsetof(struct arguments, quant) + 4)
_Static_assert(ARGUMENTS_BYTES <= sizeof((struct peer_launch *)0)->arguments,
               "arguments have room");

/*
 * The wheel has a library for each release of ROCm. Opens, in the directory of these libraries, the
 * one whose code for `target` the disassembler of ROCm 6.4 understands: code of newer compilers for
 * RDNA has forms that it does not know.
 */
static int open_library(const char *directory, const struct quern_target_info *target,
                        struct peer *peer)
{
    const bool cdna = target->wave_size == 64;
    char name[64];
    quern_status e;
    size_t size;

    peer->compiler = cdna ? "ROCm 7.15" : "ROCm 7.1";
    peer->target = target->name;
    snprintf(name, sizeof name, "libbitsandbytes_rocm%s.so", cdna ? "715" : "71");
    char *const path = path_join(directory, name);
    if (!path)
        return fail("out of memory");
    int status = EXIT_OK;
    if (access(path, R_OK))
        status = misuse("%s: %s; the wheel of " TITLE
                        " has it, and --library names the directory that it was unpacked to",
                        path, strerror(errno));
    else
        status = file_read(path, LIBRARY_BYTES_MAX, &peer->bytes, &size);
    if (!status && (e = quern_offload_open(peer->bytes, size, &peer->offload)))
        status = fail_status(e, path);
    free(path);
    return status;
}

void peer_close(struct peer *peer)
{
    quern_offload_close(peer->offload);
    free(peer->bytes);
    free(peer->directory);
}

static int accepts(const struct quern_problem *p, const char *text)
{
    if (p->op != QUERN_OP_GEMM || (p->wq != QUERN_W_NF4 && p->wq != QUERN_W_FP4))
        return misuse("%s: " TITLE " has kernels for wq=nf4 and wq=fp4 alone", text);
    if (p->act)
        return misuse("%s: " TITLE " stores the product itself: leave act and glu out", text);
    if (p->c != p->a)
        return misuse("%s: " TITLE " has no kernel with c of another type than a", text);
    if (p->n > INT32_MAX / COLUMNS || p->k > INT32_MAX)
        return misuse("%s: " TITLE " counts rows and columns in 32 bits", text);
    return EXIT_OK;
}

static void symbol_of(enum quern_dtype type, int rows, char *symbol, size_t size)
{
    if (type == QUERN_F32)
        snprintf(symbol, size, "_Z14gemm_4bit_simtIfLi%dEEvPKT_PKhPKfS4_S6_S6_PS0_S2_iiiii", rows);
    else
        snprintf(symbol, size, "_Z14gemm_4bit_simtI%sLi%dEEvPKT_PKhPKfS5_S7_S7_PS1_S3_iiiii",
                 type == QUERN_F16 ? "6__half" : "14__hip_bfloat16", rows);
}

#define KERNELS_MAX 512

static bool has_kernel(const struct quern_offload_entry *e, const char *symbol)
{
    static struct quern_object_kernel kernels[KERNELS_MAX];
    size_t count = KERNELS_MAX;
    const char *target;

    if (quern_object_inspect(e->object, e->object_bytes, &target, kernels, &count) != QUERN_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        if (!strcmp(kernels[i].symbol, symbol))
            return true;
    return false;
}

static int launch_of(struct peer *peer, const struct quern_problem *p, int64_t m,
                     const struct quern_args *o, struct peer_launch *out)
{
    const int rows = m < ROWS_MAX ? (int)m : ROWS_MAX;
    const struct arguments arguments = {.a = o->a,
                                        .b = o->b,
                                        .absmax = o->scales,
                                        .absmax8 = o->absmax8,
                                        .code = o->code,
                                        .offset = o->offset,
                                        .c = o->c,
                                        .bias = o->bias,
                                        .m = (int32_t)m,
                                        .n = (int32_t)p->n,
                                        .k = (int32_t)p->k,
                                        .block = p->group,
                                        .quant = p->wq == QUERN_W_NF4 ? QUANT_NF4 : QUANT_FP4};
    struct quern_offload_entry entry = QUERN_INIT(struct quern_offload_entry);
    uint32_t columns = (uint32_t)((p->n + COLUMNS - 1) / COLUMNS);

    *out = (struct peer_launch){.launch = QUERN_INIT(struct quern_sim_launch)};
    symbol_of(p->a, rows, out->symbol, sizeof out->symbol);
    for (size_t i = 0; !out->object && i < quern_offload_count(peer->offload); i++)
        if (quern_offload_entry(peer->offload, i, &entry) == QUERN_OK &&
            !strcmp(entry.target, peer->target) && has_kernel(&entry, out->symbol)) {
            out->object = entry.object;
            out->object_bytes = entry.object_bytes;
        }
    if (!out->object)
        return fail(TITLE " by %s has no kernel %s for %s", peer->compiler, out->symbol,
                    peer->target);
    /* bitsandbytes' host code does so, too: its authors found grids of a multiple of 256 workgroups
     * slow, and add an empty one */
    if (columns >= 512 && columns % 256 == 0)
        columns++;
    memcpy(out->arguments, &arguments, ARGUMENTS_BYTES);
    out->launch.kernel = out->symbol;
    out->launch.grid[0] = columns;
    out->launch.grid[1] = (uint32_t)((m + rows - 1) / rows);
    out->launch.grid[2] = 1;
    out->launch.block[0] = BLOCK;
    out->launch.block[1] = out->launch.block[2] = 1;
    out->launch.kernarg = out->arguments;
    out->launch.kernarg_bytes = ARGUMENTS_BYTES;
    return EXIT_OK;
}

const struct peer_kind peer_bitsandbytes = {
    .name = "bitsandbytes",
    .title = TITLE,
    .library = "build/peers/bitsandbytes-0.50.2",
    .open = open_library,
    .accepts = accepts,
    .launch_of = launch_of,
};

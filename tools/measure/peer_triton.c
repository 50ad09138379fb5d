/* SPDX-License-Identifier: MIT */
/* Plain kernels in Triton (peer.h), from code objects that Triton made ahead. */
#include "files/files.h"
#include "files/json_file.h"
#include "measure/peer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TITLE            "Triton 3.9.0"
#define LIBRARY          "build/peers/triton-3.9.0"
#define SCRIPT           "python3 tests/peers/fetch_triton.py"
#define OBJECT_BYTES_MAX ((size_t)16 << 20)
#define META_BYTES_MAX   ((size_t)1 << 16)

#define BLOCK_ROWS 16

/* The kernels' arguments; the last two are Triton's own. */
struct arguments {
    const void *a, *b, *scales, *zeros;
    void *c;
    int32_t m, n, k, unused;
    uint64_t global_scratch, profile_scratch;
};
struct moe_arguments {
    const void *a, *b, *scales, *zeros;
    void *c;
    const void *rows, *experts, *rows_used;
    int32_t choices, top_k, n, k;
    uint64_t global_scratch, profile_scratch;
};
_Static_assert(sizeof(struct arguments) <= sizeof((struct peer_launch *)0)->arguments &&
                   sizeof(struct moe_arguments) <= sizeof((struct peer_launch *)0)->arguments,
               "arguments have room");

static bool is_mixture(const struct quern_problem *p)
{
    return p->op == QUERN_OP_MOE;
}

static int open_directory(const char *directory, const struct quern_target_info *target,
                          struct peer *peer)
{
    peer->compiler = TITLE;
    peer->target = target->name;
    peer->wave_size = target->wave_size;
    peer->directory = strdup(directory);
    return peer->directory ? EXIT_OK : fail("out of memory");
}

static int accepts(const struct quern_problem *p, const char *text)
{
    const bool typed = (p->scale == QUERN_SCALE_F16 && p->a == QUERN_F16) ||
                       (p->scale == QUERN_SCALE_BF16 && p->a == QUERN_BF16);

    if ((p->op != QUERN_OP_GEMM && !is_mixture(p)) || p->wq != QUERN_W_INT4 ||
        p->layout != QUERN_LAYOUT_K8)
        return misuse("%s: the kernel in Triton does wq=int4 in layout k8 alone", text);
    if (!typed || p->c != p->a || p->bias || p->act || p->zero == QUERN_ZERO_SCALED)
        return misuse("%s: the kernel in Triton has scales and c in the type of a, f16 or bf16, "
                      "zero=none or u8, and neither bias nor act",
                      text);
    if (p->group < 32 || p->group & (p->group - 1))
        return misuse("%s: the kernel in Triton has groups of 32, 64, 128, ...", text);
    if (p->n > INT32_MAX || p->k > INT32_MAX || p->n % 16 || p->k % 16)
        return misuse("%s: the kernel in Triton counts rows and columns in 32 bits, by 16", text);
    return EXIT_OK;
}

/* DIR/w4a16_gfx942_bf16_g128_u8, or moe_w4a16_…, with the ending; null when out of memory. */
static char *path_of(const struct peer *peer, const struct quern_problem *p, const char *ending)
{
    char name[128];

    snprintf(name, sizeof name, "%sw4a16_%s_%s_g%d_%s%s", is_mixture(p) ? "moe_" : "", peer->target,
             p->a == QUERN_F16 ? "f16" : "bf16", p->group, p->zero == QUERN_ZERO_U8 ? "u8" : "none",
             ending);
    return path_join(peer->directory, name);
}

/* How Triton wants the kernel to be launched. */
struct meta {
    int64_t warps, shared, rows, columns, depth;
};

static int read_meta(const char *path, struct meta *meta)
{
    json_t *root;

    int status = json_file_load(path, META_BYTES_MAX, &root);
    if (status)
        return status;
    const struct {
        const char *name;
        int64_t hi, *value;
    } fields[] = {{"warps", 16, &meta->warps},
                  {"shared", 65536, &meta->shared},
                  {"rows", 256, &meta->rows},
                  {"columns", 1024, &meta->columns},
                  {"depth", 1024, &meta->depth}};
    for (size_t i = 0; !status && i < sizeof fields / sizeof *fields; i++)
        status = json_field_int(root, path, fields[i].name, i == 1 ? 0 : 1, fields[i].hi,
                                fields[i].value);
    json_decref(root);
    return status;
}

static int read_object(struct peer *peer, const struct quern_problem *p, struct meta *meta,
                       size_t *size)
{
    char *const object = path_of(peer, p, ".hsaco"), *const json = path_of(peer, p, ".json");
    int status = EXIT_OK;

    free(peer->bytes);
    peer->bytes = NULL;
    if (!object || !json)
        status = fail("out of memory");
    else if (access(object, R_OK))
        status = misuse("%s is not there; " SCRIPT
                        " --target %s --type %s --group %d --zero %s%s makes it (in " LIBRARY ")",
                        object, peer->target, p->a == QUERN_F16 ? "f16" : "bf16", p->group,
                        p->zero == QUERN_ZERO_U8 ? "u8" : "none", is_mixture(p) ? " --moe" : "");
    else if (!(status = read_meta(json, meta)))
        status = file_read(object, OBJECT_BYTES_MAX, &peer->bytes, size);
    free(object);
    free(json);
    return status;
}

/* Writes the kernel's arguments; the number of their bytes. */
static size_t write_arguments(const struct quern_problem *p, int64_t m, const struct quern_args *o,
                              unsigned char *to)
{
    const void *const zeros = o->zeros ? o->zeros : o->scales; /* not read */
    const struct arguments plain = {.a = o->a,
                                    .b = o->b,
                                    .scales = o->scales,
                                    .zeros = zeros,
                                    .c = o->c,
                                    .m = (int32_t)m,
                                    .n = (int32_t)p->n,
                                    .k = (int32_t)p->k};
    const struct moe_arguments moe = {.a = o->a,
                                      .b = o->b,
                                      .scales = o->scales,
                                      .zeros = zeros,
                                      .c = o->c,
                                      .rows = o->rows,
                                      .experts = o->experts,
                                      .rows_used = o->rows_used,
                                      .choices = (int32_t)(m * p->top_k),
                                      .top_k = p->top_k,
                                      .n = (int32_t)p->n,
                                      .k = (int32_t)p->k};

    memcpy(to, is_mixture(p) ? (const void *)&moe : &plain,
           is_mixture(p) ? sizeof moe : sizeof plain);
    return is_mixture(p) ? sizeof moe : sizeof plain;
}

static int launch_of(struct peer *peer, const struct quern_problem *p, int64_t m,
                     const struct quern_args *o, struct peer_launch *out)
{
    struct quern_problem blocks = *p;
    struct meta meta = {0};
    int64_t slots = m;

    *out = (struct peer_launch){.launch = QUERN_INIT(struct quern_sim_launch)};
    const int status = read_object(peer, p, &meta, &out->object_bytes);
    if (status)
        return status;
    blocks.block_rows = BLOCK_ROWS;
    const quern_status e = is_mixture(p) ? quern_moe_slots(&blocks, m, &slots) : QUERN_OK;
    if (e)
        return fail_status(e, NULL);
    if (is_mixture(p) && meta.rows != BLOCK_ROWS)
        return fail("the kernel in Triton has blocks of %lld rows; expected %d",
                    (long long)meta.rows, BLOCK_ROWS);
    snprintf(out->symbol, sizeof out->symbol, is_mixture(p) ? "moe_w4a16" : "w4a16");
    out->object = peer->bytes;
    out->trips = (uint64_t)((p->k + meta.depth - 1) / meta.depth);
    out->launch.kernel = out->symbol;
    out->launch.grid[0] = (uint32_t)((p->n + meta.columns - 1) / meta.columns);
    out->launch.grid[1] = (uint32_t)((slots + meta.rows - 1) / meta.rows);
    out->launch.grid[2] = 1;
    out->launch.block[0] = (uint32_t)meta.warps * peer->wave_size;
    out->launch.block[1] = out->launch.block[2] = 1;
    out->launch.lds_bytes = (uint32_t)meta.shared;
    out->launch.kernarg = out->arguments;
    out->launch.kernarg_bytes = write_arguments(p, m, o, out->arguments);
    return EXIT_OK;
}

const struct peer_kind peer_triton = {
    .name = "triton",
    .title = TITLE,
    .library = LIBRARY,
    .block_rows = BLOCK_ROWS,
    .open = open_directory,
    .accepts = accepts,
    .launch_of = launch_of,
};

/* SPDX-License-Identifier: MIT */
/* Runs instructions of a gfx1201 on many operands, a lane each, for the tests of captures. */
#ifndef GOC_CORPUS_H
#define GOC_CORPUS_H
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_gpu.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS  16 /* of one kernel, at most */
#define ITEMS    256
#define COUNT(A) (sizeof(A) / sizeof *(A))
#define TEXT     288 /* of one column, at most, with its end */

/* Three operands of 64 bits for each lane: v[10:11], v[12:13], v[14:15]; a type of 32 bits has the
 * lower halves. Every instruction leaves its result in v[20:21]. */
struct corpus {
    uint32_t lanes, (*in)[6], (*out)[2]; /* out: by column, then lane */
};

static inline struct corpus corpus_of(uint32_t lanes)
{
    struct corpus c = {lanes, calloc(lanes, sizeof *c.in),
                       calloc((size_t)lanes * COLUMNS, sizeof *c.out)};

    assert_non_null(c.in);
    assert_non_null(c.out);
    return c;
}

static inline void corpus_free(struct corpus *c)
{
    free(c->in);
    free(c->out);
}

static inline void corpus_set(struct corpus *c, uint32_t lane, uint32_t operand, uint64_t value)
{
    c->in[lane][2 * operand] = (uint32_t)value;
    c->in[lane][2 * operand + 1] = (uint32_t)(value >> 32);
}

/* Runs `count` instructions on all lanes of the corpus. */
static inline void corpus_run(struct t_gpu *g, struct corpus *c, char (*texts)[TEXT], size_t count)
{
    static char source[COLUMNS * 1024];
    int n = snprintf(source, sizeof source,
                     "KERNEL k(const u32 *in, u32 *out)\n{\n"
                     "    const u32 l = __builtin_amdgcn_workitem_id_x() +\n"
                     "                  %d * __builtin_amdgcn_workgroup_id_x();\n"
                     "    u32 a, b;\n    in += 6 * l;\n",
                     ITEMS);

    for (size_t i = 0; i < count; i++)
        n += snprintf(source + n, sizeof source - (size_t)n,
                      "    asm volatile(\"v_mov_b32 v10, %%2\\n v_mov_b32 v11, %%3\\n \"\n"
                      "        \"v_mov_b32 v12, %%4\\n v_mov_b32 v13, %%5\\n \"\n"
                      "        \"v_mov_b32 v14, %%6\\n v_mov_b32 v15, %%7\\n \"\n"
                      "        \"v_mov_b32 v21, 0\\n %s\\n v_mov_b32 %%0, v20\\n \"\n"
                      "        \"v_mov_b32 %%1, v21\" : \"=v\"(a), \"=v\"(b)\n"
                      "        : \"v\"(in[0]), \"v\"(in[1]), \"v\"(in[2]), \"v\"(in[3]),\n"
                      "          \"v\"(in[4]), \"v\"(in[5])\n"
                      "        : \"v10\", \"v11\", \"v12\", \"v13\", \"v14\", \"v15\", \"v20\",\n"
                      "          \"v21\", \"s60\", \"s61\", \"vcc\");\n"
                      "    out[2 * (%uu + l)] = a;\n    out[2 * (%uu + l) + 1] = b;\n",
                      texts[i], (unsigned)i * c->lanes, (unsigned)i * c->lanes);
    snprintf(source + n, sizeof source - (size_t)n, "}\n");
    assert_true(count <= COLUMNS && (size_t)n + 3 < sizeof source);
    t_gpu_load(g, source);

    const struct t_buffer buffers[] = {
        {c->in, c->lanes * sizeof *c->in, QUERN_SIM_READ, "in"},
        {c->out, c->lanes * count * sizeof *c->out, QUERN_SIM_WRITE, "out"}};
    t_gpu_run(g, &(struct t_launch){.kernel = "k",
                                    .groups = {c->lanes / ITEMS},
                                    .items = {ITEMS},
                                    .buffers = buffers,
                                    .count = 2});
}

/* Of the first `bytes` bytes of every `step`th lane's result. */
static inline uint64_t digest(const struct corpus *c, size_t column, uint32_t step, uint32_t bytes,
                              uint64_t hash)
{
    for (uint32_t l = 0; l < c->lanes; l += step)
        for (uint32_t b = 0; b < bytes; b++) {
            const uint32_t word = c->out[column * c->lanes + l][b / 4];
            hash = (hash ^ (word >> 8 * (b % 4) & 0xff)) * 1099511628211u;
        }
    return hash;
}

#define DIGEST_OF_NOTHING 14695981039346656037u

static inline void expect(uint64_t got, uint64_t want, const char *text)
{
    if (got != want)
        fail_msg("%s: the digest is %016llx, not %016llx", text, (unsigned long long)got,
                 (unsigned long long)want);
}

static inline void expect_word(const char *text, uint32_t source, uint32_t got, uint32_t want)
{
    if (got != want)
        fail_msg("%s of %08x: %08x, not %08x", text, source, got, want);
}

static inline bool opened(struct t_gpu *g)
{
    if (!t_gpu_has("gfx1201"))
        return false;
    t_gpu_open(g, "gfx1201", "", QUERN_CHECK_FAST, 0, 0);
    return true;
}

#endif

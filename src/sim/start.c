/* SPDX-License-Identifier: MIT */
/* What waves start with: registers and LDS. */
#include "sim/launch.h"

#include <string.h>

/* What registers and LDS hold before they are written: NaN as f32, f16 and bf16, so that a kernel
 * that uses them is unlikely to give the right answer. */
#define POISON 0xfff1fff1u

/* Word by word it would take longer than some workgroups run. */
void poison(void *memory, size_t bytes)
{
    uint32_t words[64];

    for (unsigned n = 0; n < 64; n++)
        words[n] = POISON;
    for (size_t n = 0; n < bytes; n += sizeof words)
        memcpy((uint8_t *)memory + n, words, bytes - n < sizeof words ? bytes - n : sizeof words);
}

/* ---- The start of a wave --------------------------------------------------------------------- */

/* Bits of the descriptor's compute_pgm_rsrc2. */
enum {
    RSRC2_PRIVATE = 1 << 0,
    RSRC2_USER_SGPR_SHIFT = 1,
    RSRC2_GROUP_X = 1 << 7,
    RSRC2_GROUP_Y = 1 << 8,
    RSRC2_GROUP_Z = 1 << 9,
    RSRC2_GROUP_INFO = 1 << 10
};

static unsigned put64(struct wave *w, unsigned at, uint64_t value)
{
    w->s[at] = (uint32_t)value;
    w->s[at + 1] = (uint32_t)(value >> 32);
    return at + 2;
}

/* Scalar registers in the order that the descriptor asks for; gives their number. */
static unsigned start_scalars(struct wave *w)
{
    const struct run *const run = w->group->run;
    const struct object_kernel *const k = run->kernel;
    const struct target *const t = run->module->sim->target;
    unsigned n = 0;

    memset(w->s, 0, sizeof w->s);
    if (k->properties & OBJECT_SGPR_PRIVATE_SEGMENT_BUFFER) {
        n = put64(w, n, (uint64_t)APERTURE_PRIVATE << 32);
        n = put64(w, n, 0xffffffffu);
    }
    if (k->properties & OBJECT_SGPR_DISPATCH_PTR)
        n = put64(w, n, run->packet_at);
    if (k->properties & OBJECT_SGPR_QUEUE_PTR)
        n = put64(w, n, 0);
    if (k->properties & OBJECT_SGPR_KERNARG_SEGMENT_PTR)
        n = put64(w, n, run->kernarg_at);
    if (k->properties & OBJECT_SGPR_DISPATCH_ID)
        n = put64(w, n, 0);
    if (k->properties & OBJECT_SGPR_FLAT_SCRATCH_INIT)
        n = put64(w, n, 0);
    if (k->properties & OBJECT_SGPR_PRIVATE_SEGMENT_SIZE)
        w->s[n++] = k->scratch_bytes;
    const unsigned preload = k->kernarg_preload & 127, first = k->kernarg_preload >> 7;
    for (unsigned word = 0; word < preload && n < 16; word++, n++)
        if (4 * (first + word) + 4 <= k->kernarg_bytes)
            memcpy(&w->s[n], run->kernarg + 4 * (first + word), 4);
    if (t->trap_ids) {
        /* workgroup ids are in trap registers: x in ttmp9, y and z in the halves of ttmp7 */
        w->s[S_TTMP + 9] = w->group->id[0];
        w->s[S_TTMP + 7] = w->group->id[1] | w->group->id[2] << 16;
    } else {
        /* gfx1100 and gfx1102 are given 16 user registers, however few are used */
        n = k->rsrc2 >> RSRC2_USER_SGPR_SHIFT & 31;
        if (k->rsrc2 & RSRC2_GROUP_X)
            w->s[n++] = w->group->id[0];
        if (k->rsrc2 & RSRC2_GROUP_Y)
            w->s[n++] = w->group->id[1];
        if (k->rsrc2 & RSRC2_GROUP_Z)
            w->s[n++] = w->group->id[2];
        if (k->rsrc2 & RSRC2_GROUP_INFO)
            w->s[n++] = 0;
        if (k->rsrc2 & RSRC2_PRIVATE && !t->architected_scratch)
            w->s[n++] = 0;
    }
    return n;
}

/* Work-item ids: packed into v0, or on older parts in v0, v1, v2; gives the number of registers. */
static unsigned start_vectors(struct wave *w)
{
    const struct run *const run = w->group->run;
    const struct target *const t = run->module->sim->target;
    const uint32_t *const block = run->launch->block;
    const unsigned dims = run->kernel->rsrc2 >> 11 & 3;
    const uint32_t size = block[0] * block[1] * block[2];
    const uint32_t first = w->number * w->lanes;
    uint32_t x = first % block[0], y = first / block[0] % block[1];
    uint32_t z = first / block[0] / block[1];
    uint64_t exec = 0;

    poison(w->v, (size_t)w->lanes * (run->module->vgpr_limit + 1) * 4);
    for (uint32_t l = 0; l < w->lanes; l++) {
        if (t->packed_ids) {
            w->v[l] = x | (dims >= 1 ? y << 10 : 0) | (dims >= 2 ? z << 20 : 0);
        } else {
            w->v[l] = x;
            if (dims >= 1)
                w->v[l + w->lanes] = y;
            if (dims >= 2)
                w->v[l + 2 * w->lanes] = z;
        }
        if (first + l < size)
            exec |= (uint64_t)1 << l;
        if (++x == block[0]) {
            x = 0;
            z += ++y == block[1];
            y = y == block[1] ? 0 : y;
        }
    }
    w->s[S_EXEC] = (uint32_t)exec;
    w->s[S_EXEC + 1] = (uint32_t)(exec >> 32);
    return t->packed_ids ? 1 : dims + 1;
}

void start_wave(struct wave *w)
{
    const struct run *const run = w->group->run;

    w->state = WAVE_READY;
    w->signalled = false;
    w->executed = 0;
    w->mode = (uint8_t)(run->kernel->rsrc1 >> 12 & 0xff);
    w->pc = w->block = run->module->insns + run->note->entry;
    w->group->flow[run->note->entry]++;
    const unsigned scalars = start_scalars(w), vectors = start_vectors(w);
    if (w->shadow)
        shadow_start_wave(w, scalars, vectors);
    run->module->sim->bodies->read_exec(w);
}

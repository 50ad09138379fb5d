/* SPDX-License-Identifier: MIT */
/*
 * Disassemblies of any text: an instruction that stops the wave, or one whose operands are all
 * inside the register files. The first byte of an input chooses the wave size, and whether 16-bit
 * results keep the other half of their register; each line behind it is an instruction.
 */
#include "sim/bodies.h"
#include "sim/decode/parse.h"
#include "t_fuzz.h"

#include <string.h>

#ifndef FUZZ_WORKER
#define FUZZ_WORKER NULL /* the bodies are found from where the program is */
#endif

static void check_operand(const struct parser *p, const struct parsed *parsed, const struct insn *i,
                          const struct operand *o, const struct sim_row *row)
{
    if (o->kind == OPERAND_VGPR) {
        /* a register of the file, or the spare one behind it */
        const unsigned words = row->class == QUERN_CLASS_MATRIX ? 1 : o->words;
        FUZZ_CHECK(o->reg == p->vgpr_limit || o->reg + words <= parsed->vgprs);
        FUZZ_CHECK(o->offset == (uint64_t)o->reg * p->lanes * 4);
    }
    if (o->kind == OPERAND_SGPR)
        FUZZ_CHECK(o->reg + o->words <= S_COUNT);
    if (o->kind == OPERAND_NONE && o->mods & MOD_DST)
        FUZZ_CHECK(o->reg == S_SINK && o->reg + o->words <= S_SPARE);
    if (i->flags & INSN_DPP)
        for (unsigned l = 0; l < p->lanes; l++)
            FUZZ_CHECK(i->lanes[l] < 64 || i->lanes[l] == LANE_NONE);
}

static void check_text(struct parser *p, const char *text)
{
    struct parsed parsed;

    parse_insn(p, text, 64, &parsed);
    FUZZ_CHECK(!p->failed);
    FUZZ_CHECK(parsed.count >= 1 && parsed.count <= 3);
    for (unsigned n = 0; n < parsed.count; n++) {
        const struct insn *const i = &parsed.insns[n];
        FUZZ_CHECK(i->body);
        FUZZ_CHECK((i->body == p->bodies->unknown) == !parsed.rows[n]);
        for (unsigned k = 0; k < 5 && parsed.rows[n]; k++)
            check_operand(p, &parsed, i, &i->op[k], parsed.rows[n]);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct sim_bodies *bodies;
    static struct row_index index;
    static void *library;
    char line[1024];

    if (!index.slots && (bodies_open(QUERN_ISA_AUTO, FUZZ_WORKER, &bodies, &library) != QUERN_OK ||
                         row_index_make(bodies, &index) != QUERN_OK))
        abort();
    if (!size)
        return 0;
    struct parser p = {.bodies = bodies,
                       .index = &index,
                       .keeps_halves = data[0] & 3,
                       .lanes = data[0] & 4 ? 64 : 32,
                       .vgpr_limit = 1024,
                       .agpr_offset = 512,
                       .guest = (uint64_t)0x7000 << 32};
    for (size_t at = 1; at < size;) {
        const uint8_t *const end = memchr(data + at, '\n', size - at);
        const size_t length = end ? (size_t)(end - data - at) : size - at;
        if (length < sizeof line) {
            memcpy(line, data + at, length);
            line[length] = 0;
            check_text(&p, line);
        }
        at += length + 1;
    }
    pool_free(&p.pool);
    return 0;
}

FUZZ_MAIN("disassembly", 20000)

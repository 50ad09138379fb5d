/* SPDX-License-Identifier: MIT */
/* Loading a code object: its image in guest memory, its code decoded once for all launches. */
#include "sim/load.h"
#include "sim/launch.h"
#include "base/os.h"

#include <stdio.h>
#include <string.h>

/* ---- Registers that a kernel is granted ------------------------------------------------------ */

/* A unified file is split: below the offset are VGPRs, above it AGPRs. Else there are two files of
 * the same size. */
static void split_vgprs(const struct target *t, const struct object_kernel *k, unsigned *vgprs,
                        unsigned *agprs)
{
    *vgprs = k->vgprs_granted;
    *agprs = 0;
    if (t->unified_vgprs) {
        const unsigned offset = ((k->rsrc3 & 63) + 1) * 4;
        if (offset < *vgprs) {
            *agprs = *vgprs - offset;
            *vgprs = offset;
        }
    } else if (t->capabilities & CAP_AGPR) {
        *agprs = *vgprs;
    }
}

/* ---- Decoding -------------------------------------------------------------------------------- */

struct decoding {
    struct quern_sim_module *module;
    struct parser parser;
    quern_status status;
    bool indexed; /* after s_set_gpr_idx_on */
};

/* Registers are indexed from s_set_gpr_idx_on to the next s_set_gpr_idx_off, without a branch. */
static void note_index(struct decoding *d, struct insn *i, const struct sim_row *row)
{
    if (!row)
        return;
    if (!strncmp(row->name, "s_set_gpr_idx_", 14))
        d->indexed = strcmp(row->name + 14, "off");
    else if (row->class == QUERN_CLASS_BRANCH)
        d->indexed = false;
    else if (d->indexed && *row->name == 'v')
        i->body = d->parser.bodies->indexed;
}

static bool append(struct decoding *d, const struct insn *insn, const struct sim_row *row,
                   uint64_t offset, unsigned vgprs, const char *text)
{
    struct quern_sim_module *const m = d->module;

    if (m->insn_count == m->insn_capacity) {
        const size_t capacity = m->insn_capacity * 2 + 256;
        struct insn *const insns = os.aligned_alloc(128, capacity * sizeof *insns);
        struct insn_note *const notes = os.realloc(m->notes, capacity * sizeof *notes);
        if (notes)
            m->notes = notes;
        if (!insns || !notes) {
            os.free(insns);
            return false;
        }
        if (m->insn_count)
            memcpy(insns, m->insns, m->insn_count * sizeof *insns);
        os.free(m->insns);
        m->insns = insns;
        m->insn_capacity = capacity;
    }
    m->insns[m->insn_count] = *insn;
    m->notes[m->insn_count] =
        (struct insn_note){.offset = (uint32_t)offset, .vgprs = vgprs, .row = row, .text = text};
    m->insn_count++;
    return true;
}

static bool ends_at(const struct quern_sim_module *m, uint64_t offset)
{
    for (size_t n = 0; n < m->object.kernel_count; n++)
        if (m->kernels[n].end == offset)
            return true;
    return false;
}

/* The place of an instruction without an instruction: running into it is running past the end. */
static bool append_end(struct decoding *d, uint64_t offset)
{
    const struct insn end = {.body = d->parser.bodies->past_end};
    return append(d, &end, NULL, offset, 0, NULL);
}

enum { DIRECTIVE_BYTES = 20 };

/* How an assembler would be told of code that is no instruction. */
static const char *no_instruction(const uint8_t *code, char text[DIRECTIVE_BYTES])
{
    uint32_t word;

    memcpy(&word, code, 4);
    snprintf(text, DIRECTIVE_BYTES, ".long 0x%08x", word);
    return text;
}

static void decode(void *user, uint64_t offset, const char *text, const uint32_t shown[2])
{
    struct decoding *const d = user;
    struct quern_sim_module *const m = d->module;
    const uint8_t *const code = m->image + m->code_at;
    struct parsed parsed;
    uint32_t words[2];
    char bytes[DIRECTIVE_BYTES];

    if (d->status != QUERN_OK)
        return;
    if (!*text)
        text = no_instruction(code + offset, bytes);
    const size_t length = strlen(text);
    char *const copy = pool_take(&d->parser.pool, length + 1, 1);
    if (!copy) {
        d->status = QUERN_E_MEMORY;
        return;
    }
    memcpy(copy, text, length + 1);
    respell_words(code, (size_t)m->code_bytes, offset, words);
    d->parser.unsaid = unsaid_of(m->sim->target, words, shown, copy);
    parse_insn(&d->parser, copy, offset, &parsed);
    bool ok = !d->parser.failed && (!offset || !ends_at(m, offset) || append_end(d, offset));
    m->index_at[offset / 4] = (uint32_t)m->insn_count;
    for (unsigned n = 0; n < parsed.count && ok; n++) {
        note_index(d, &parsed.insns[n], parsed.rows[n]);
        ok = append(d, &parsed.insns[n], parsed.rows[n], offset, parsed.vgprs, copy);
    }
    if (!ok)
        d->status = QUERN_E_MEMORY;
    if (parsed.branch)
        m->insns[m->insn_count - 1].flags |= INSN_BRANCH;
}

static void resolve_branches(struct quern_sim_module *m)
{
    for (size_t n = 0; n < m->insn_count; n++) {
        struct insn *const i = &m->insns[n];
        if (!(i->flags & INSN_BRANCH))
            continue;
        const int64_t to = i->offset;
        i->target = NULL;
        if (to >= 0 && (uint64_t)to < m->code_bytes && to % 4 == 0 &&
            m->index_at[to / 4] != INSN_NONE)
            i->target = m->insns + m->index_at[to / 4];
    }
}

/* The recorded failure tells of a compiler, which whoever has every kernel compiled does not expect
 * to be asked for. So this says what it is needed for, and puts that failure behind it. */
static quern_status no_disassembler(void)
{
    struct error_record why;

    error_save(&why);
    FAIL(
        QUERN_E_TOOLCHAIN,
        "a software GPU reads the code of a kernel, a compiled one too, by the disassembler of the "
        "compiler's libraries, which is not at hand (a GPU needs none): %s",
        why.message);
}

/* Whether kernels run with the mode bit IEEE, which gfx12 has no more. */
static bool is_ieee(const struct quern_sim_module *m)
{
    bool ieee = !(m->sim->target->capabilities & CAP_WMMA_128B);

    for (size_t n = 0; n < m->object.kernel_count; n++)
        ieee = ieee && m->object.kernels[n].rsrc1 >> 23 & 1;
    return ieee;
}

static quern_status decode_all(struct quern_sim_module *m)
{
    struct quern_sim *const sim = m->sim;
    struct decoding d = {.module = m,
                         .parser = {.bodies = sim->bodies,
                                    .index = &sim->index,
                                    .keeps_halves = sim->target->keeps_halves,
                                    .lanes = m->lanes,
                                    .vgpr_limit = m->vgpr_limit,
                                    .agpr_offset = m->agpr_offset,
                                    .guest = m->guest + m->code_at,
                                    .ieee = is_ieee(m)}};
    const size_t slots = (size_t)(m->code_bytes / 4 + 1);

    m->index_at = os.malloc(slots * sizeof *m->index_at);
    FAIL_IF(!m->index_at, QUERN_E_MEMORY, "out of memory for %zu instructions", slots);
    memset(m->index_at, 0xff, slots * sizeof *m->index_at);
    const quern_status status =
        respell_all(&sim->disassembler, sim->target, m->lanes, m->image + m->code_at,
                    (size_t)m->code_bytes, decode, &d);
    m->pool = d.parser.pool;
    if (status == QUERN_E_TOOLCHAIN)
        return no_disassembler();
    FAIL_IF(status == QUERN_E_INTERNAL, status,
            "the disassembler gave an instruction outside the %llu bytes of code",
            (unsigned long long)m->code_bytes);
    TRY(status);
    FAIL_IF(d.status == QUERN_E_MEMORY || !append_end(&d, m->code_bytes), QUERN_E_MEMORY,
            "out of memory for %zu instructions", m->insn_count);
    resolve_branches(m);
    FAIL_IF(sim->check == QUERN_CHECK_FULL && !late_read(m), QUERN_E_MEMORY,
            "out of memory for the full check of %zu instructions", m->insn_count);
    return QUERN_OK;
}

/* Where a kernel starts that finds arguments in registers: behind 256 bytes of code, which load
 * them on systems that do not do it. */
#define PRELOADED_ENTRY 256

static quern_status note_kernels(struct quern_sim_module *m)
{
    for (size_t n = 0; n < m->object.kernel_count; n++) {
        const struct object_kernel *const k = &m->object.kernels[n];
        struct kernel_note *const note = &m->kernels[n];
        unsigned vgprs, agprs;
        split_vgprs(m->sim->target, k, &vgprs, &agprs);
        const uint32_t begin = note->begin + (k->kernarg_preload & 127 ? PRELOADED_ENTRY : 0);
        note->entry = begin < note->end ? m->index_at[begin / 4] : INSN_NONE;
        FAIL_IF(note->entry == INSN_NONE, QUERN_E_OBJECT,
                "kernel %s begins at 0x%x, where its code has no instruction", k->name, begin);
        for (size_t at = note->entry; at < m->insn_count && m->notes[at].offset < note->end; at++)
            if (m->notes[at].vgprs > note->vgprs)
                note->vgprs = m->notes[at].vgprs;
        const unsigned limit = agprs ? m->agpr_offset + agprs : vgprs;
        FAIL_IF(note->vgprs > limit, QUERN_E_OBJECT,
                "kernel %s uses vector register %u, but its descriptor grants %u", k->name,
                note->vgprs - 1, vgprs + agprs);
    }
    return QUERN_OK;
}

/* ---- The image ------------------------------------------------------------------------------- */

static quern_status make_image(struct quern_sim_module *m)
{
    const struct object *const o = &m->object;
    struct mapping parts[64];
    size_t count = 0;
    bool code = false;

    m->image = os.calloc(1, o->image_bytes ? (size_t)o->image_bytes : 1);
    FAIL_IF(!m->image, QUERN_E_MEMORY, "out of memory for an image of %llu bytes",
            (unsigned long long)o->image_bytes);
    for (size_t n = 0; n < o->segment_count; n++) {
        const struct object_segment *const s = &o->segments[n];
        memcpy(m->image + s->address, o->bytes + s->file_offset, (size_t)s->file_bytes);
        if (s->execute) {
            FAIL_IF(code, QUERN_E_OBJECT, "two executable segments; one was expected");
            code = true;
            m->code_at = s->address;
            m->code_bytes = s->file_bytes & ~(uint64_t)3;
        }
        if (!s->memory_bytes || count == sizeof parts / sizeof *parts)
            continue;
        struct mapping *const part = &parts[count++];
        *part = (struct mapping){.begin = s->address,
                                 .end = s->address + s->memory_bytes,
                                 .host = m->image + s->address,
                                 .access = s->write ? QUERN_SIM_READ_WRITE : QUERN_SIM_READ};
        snprintf(part->name, sizeof part->name, "%s",
                 s->execute ? "code of the code object"
                 : s->write ? "variables of the code object"
                            : SIM_NAME_CONSTANTS);
    }
    FAIL_IF(!code, QUERN_E_OBJECT, "no executable segment");
    pthread_mutex_lock(&m->sim->lock);
    const quern_status status =
        memory_add_parts(&m->sim->memory, (size_t)o->image_bytes, parts, count, &m->guest);
    pthread_mutex_unlock(&m->sim->lock);
    return status;
}

static quern_status plan_registers(struct quern_sim_module *m)
{
    const struct object *const o = &m->object;
    unsigned vgprs_most = 0, agprs_most = 0;

    m->kernels = os.calloc(o->kernel_count + 1, sizeof *m->kernels);
    FAIL_IF(!m->kernels, QUERN_E_MEMORY, "out of memory for %zu kernels", o->kernel_count);
    for (size_t n = 0; n < o->kernel_count; n++) {
        const struct object_kernel *const k = &o->kernels[n];
        unsigned vgprs, agprs;
        FAIL_IF(k->wave_size != o->kernels[0].wave_size, QUERN_E_OBJECT,
                "kernels %s and %s have different wave sizes", o->kernels[0].name, k->name);
        FAIL_IF(k->entry < m->code_at || k->entry - m->code_at >= m->code_bytes ||
                    k->code_bytes > m->code_bytes - (k->entry - m->code_at) || k->entry % 4,
                QUERN_E_OBJECT, "the code of kernel %s is outside the executable segment", k->name);
        m->kernels[n].begin = (uint32_t)(k->entry - m->code_at);
        m->kernels[n].end = m->kernels[n].begin + (uint32_t)(k->code_bytes & ~(uint64_t)3);
        split_vgprs(m->sim->target, k, &vgprs, &agprs);
        vgprs_most = vgprs > vgprs_most ? vgprs : vgprs_most;
        agprs_most = agprs > agprs_most ? agprs : agprs_most;
    }
    m->lanes = o->kernel_count ? o->kernels[0].wave_size : m->sim->target->wave_size;
    m->agpr_offset = vgprs_most;
    for (unsigned words = 1; words <= 4; words++)
        for (unsigned write = 0; write < 2; write++)
            m->lds[write][words - 1] = target_lds(m->sim->target, 4 * words, write);
    m->vgpr_limit = vgprs_most + agprs_most;
    return QUERN_OK;
}

quern_status sim_load(quern_sim *sim, const struct object *object, quern_sim_module **module)
{
    struct quern_sim_module *const m = os.calloc(1, sizeof *m);

    FAIL_IF(!m, QUERN_E_MEMORY, "out of memory for a module");
    m->sim = sim;
    m->object = *object;
    quern_status status = object_fits(&m->object, &sim->id);
    if (status == QUERN_OK)
        status = make_image(m);
    if (status == QUERN_OK)
        status = plan_registers(m);
    if (status == QUERN_OK)
        status = decode_all(m);
    if (status == QUERN_OK)
        status = note_kernels(m);
    if (status != QUERN_OK) {
        quern_sim_unload(m);
        return status;
    }
    *module = m;
    return QUERN_OK;
}

quern_status quern_sim_load(quern_sim *sim, const void *bytes, size_t size,
                            quern_sim_module **module)
{
    struct object object = {0};

    FAIL_IF(!sim, QUERN_E_ARGUMENT, "sim is null");
    FAIL_IF(!bytes || !module, QUERN_E_ARGUMENT, "%s is null", bytes ? "module" : "object");
    uint8_t *const own = os.malloc(size ? size : 1);
    FAIL_IF(!own, QUERN_E_MEMORY, "out of memory for %zu bytes", size);
    memcpy(own, bytes, size);
    quern_status status = object_parse(own, size, &object);
    if (status == QUERN_OK)
        status = sim_load(sim, &object, module);
    if (status != QUERN_OK) {
        object_free(&object);
        os.free(own);
        return status;
    }
    (*module)->bytes = own;
    return QUERN_OK;
}

void quern_sim_unload(quern_sim_module *m)
{
    if (!m)
        return;
    if (m->guest) {
        pthread_mutex_lock(&m->sim->lock);
        for (size_t n = 0; n < m->object.segment_count; n++)
            if (m->object.segments[n].memory_bytes)
                memory_remove(&m->sim->memory, m->guest + m->object.segments[n].address);
        pthread_mutex_unlock(&m->sim->lock);
    }
    if (m->bytes) { /* of quern_sim_load; sim_load's caller keeps the object */
        object_free(&m->object);
        os.free(m->bytes);
    }
    pool_free(&m->pool);
    os.free(m->image);
    os.free(m->kernels);
    os.free(m->insns);
    os.free(m->notes);
    os.free(m->late);
    os.free(m->index_at);
    os.free(m);
}

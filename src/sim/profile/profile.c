/* SPDX-License-Identifier: MIT */
/* Runs a launch and counts, for each instruction and each buffer (profile.h). */
#include "sim/profile/profile.h"
#include "base/os.h"
#include "sim/profile/touched.h"
#include "target/rates.h"

#include <stdlib.h>
#include <string.h>

/* A wave can have so many vector loads on their way (vmcnt, loadcnt). */
#define QUEUE 64

struct profile_wave {
    uint64_t cycles; /* issued so far */
    bool loaded;     /* a vector load from memory was issued */
    uint64_t prologue;
    uint32_t queue[QUEUE]; /* bytes of the loads on their way, a ring */
    unsigned first, count;
    uint64_t on_way, most;
    bool multiplied;    /* a matrix instruction was issued */
    bool behind;        /* a barrier, and no matrix instruction and no wait for LDS since */
    bool bare;          /* a wait for LDS, and no matrix instruction since */
    unsigned lds_asked; /* accesses to it since the barrier */
    uint64_t before, products_end; /* issue cycles up to the first matrix instruction, the last */
    uint64_t bare_barriers;
};

struct profile_log {
    const struct profile_note *notes;
    const struct insn *insns;
    const struct mapping *maps;
    size_t insn_count, map_count;
    struct profile_insn *sums;
    struct profile_map *map_sums;
    struct profile_totals totals;
    struct touched touched;
    uint64_t group;              /* that runs: one more than its number */
    struct profile_wave waves[]; /* of that workgroup */
};

/* ---- Notes ----------------------------------------------------------------------------------- */

/* The number behind `label`, or `otherwise`. */
static unsigned number_behind(const char *text, const char *label, unsigned otherwise)
{
    const char *const at = strstr(text, label);

    return at ? (unsigned)strtoul(at + strlen(label), NULL, 0) : otherwise;
}

/* Loads that may be on their way after a wait; QUEUE: it does not wait for loads. */
static unsigned wait_to(const char *text)
{
    if (!strncmp(text, "s_wait_loadcnt_dscnt ", 21))
        return strtoul(text + 21, NULL, 0) >> 8 & 63;
    if (!strncmp(text, "s_wait_loadcnt ", 15))
        return (unsigned)strtoul(text + 15, NULL, 0);
    if (!strncmp(text, "s_waitcnt_vmcnt ", 16))
        return number_behind(text, ", ", QUEUE);
    return strncmp(text, "s_waitcnt ", 10) ? QUEUE : number_behind(text, "vmcnt(", QUEUE);
}

/* The same for accesses to LDS; gfx9 to gfx11 count scalar loads with them. */
static unsigned lds_to(const char *text)
{
    if (!strncmp(text, "s_wait_loadcnt_dscnt ", 21) || !strncmp(text, "s_wait_dscnt ", 13))
        return strtoul(strchr(text, ' '), NULL, 0) & 63;
    return strncmp(text, "s_waitcnt ", 10) ? QUEUE : number_behind(text, "lgkmcnt(", QUEUE);
}

/* Cycles that a matrix instruction of gfx11 loses when the registers of its factors and of its sum
 * start in the same of the four banks: "v_wmma_f32_16x16x16_f16 v[0:7], v[8:15], v[16:23], v[0:7]".
 */
static unsigned bank_conflict(const struct target *t, const char *text)
{
    unsigned first[4];
    const char *at = text;

    if (!(t->capabilities & CAP_WMMA_256B))
        return 0;
    for (int i = 0; i < 4; i++) {
        at = strstr(at, "v[");
        if (!at)
            return 0;
        at += 2;
        first[i] = (unsigned)strtoul(at, NULL, 10) % 4;
    }
    return first[1] == first[2] && first[2] == first[3] ? 2 : 0;
}

/* Bits of an access stand at the end of the name, before "_d16" and "_tr": "ds_read2st64_b32",
 * "ds_store_b8_d16_hi", "ds_add_rtn_u32", "ds_read_b64_tr_b16". */
static unsigned lds_bytes(const char *name)
{
    const char *const part = strstr(name, "_d16"), *const turned = strstr(name, "_tr_");
    const char *at = part ? part : turned ? turned : name + strlen(name);

    while (at > name && at[-1] >= '0' && at[-1] <= '9')
        at--;
    const unsigned bits = (unsigned)strtoul(at, NULL, 10);
    return bits >= 8 ? bits / 8 : 4;
}

static enum profile_watch watch_of(const struct target *t, const struct insn *i,
                                   const struct sim_row *row, const char *text)
{
    switch (row->class) {
    case QUERN_CLASS_VMEM: {
        const bool silent = strstr(row->name, "atomic") && i->op[0].kind != OPERAND_VGPR;
        const bool store = silent || strstr(row->name, "store");
        /* gfx9 counts stores together with loads */
        return store && t->store_counter ? WATCH_STORE : WATCH_LOAD;
    }
    case QUERN_CLASS_SMEM:
        return WATCH_SCALAR;
    case QUERN_CLASS_LDS:
        return WATCH_LDS;
    case QUERN_CLASS_WAIT:
        return wait_to(text) < QUEUE || lds_to(text) < QUEUE ? WATCH_WAIT : WATCH_NOTHING;
    case QUERN_CLASS_MATRIX:
        return WATCH_MATRIX;
    default:
        return strcmp(row->name, "s_barrier") && strcmp(row->name, "s_barrier_wait")
                   ? WATCH_NOTHING
                   : WATCH_BARRIER;
    }
}

static unsigned issue_cycles(const struct target *t, unsigned lanes, unsigned class,
                             unsigned matrix)
{
    switch (class) {
    case QUERN_CLASS_WAIT:
        return 0;
    case QUERN_CLASS_VALU:
    case QUERN_CLASS_PACKED:
        return target_vector_cycles(t, lanes);
    case QUERN_CLASS_TRANS:
        return t->trans_unit ? target_vector_cycles(t, lanes) : target_trans_cycles(t, lanes);
    case QUERN_CLASS_MATRIX:
        return matrix && !target_matrix_pipe(t) ? matrix : target_issue_cycles(t);
    default:
        return target_issue_cycles(t);
    }
}

struct profile_note *profile_notes_make(const struct quern_sim_module *m)
{
    const struct target *const t = m->sim->target;
    struct profile_note *const notes = os.calloc(m->insn_count + 1, sizeof *notes);

    for (size_t n = 0; notes && n < m->insn_count; n++) {
        const struct sim_row *const row = m->notes[n].row;
        struct profile_note *const note = &notes[n];
        if (!row || m->insns[n].flags & INSN_SECOND)
            continue;
        const char *const text = m->notes[n].text;
        note->watch = (uint8_t)watch_of(t, &m->insns[n], row, text);
        if (row->class == QUERN_CLASS_MATRIX) {
            note->conflict = (uint8_t)bank_conflict(t, text);
            note->matrix = (uint16_t)(target_matrix_cycles(t, text) + note->conflict);
        }
        note->cycles = (uint16_t)issue_cycles(t, m->lanes, row->class, note->matrix);
        if (note->watch == WATCH_WAIT) {
            note->wait_to = (uint8_t)wait_to(text);
            note->lds_to = (uint8_t)lds_to(text);
        }
        if (note->watch == WATCH_LDS) {
            const bool reads = strstr(row->name, "load") || strstr(row->name, "read");
            note->lds = &m->lds[!reads][(lds_bytes(row->name) - 1) / 4];
            note->accesses = strstr(row->name, "2addr") || strstr(row->name, "read2") ||
                                     strstr(row->name, "write2")
                                 ? 2
                                 : 1;
        }
    }
    return notes;
}

/* ---- A thread's part ------------------------------------------------------------------------- */

struct profile_log *profile_log_make(const struct profile_sums *sums, const struct run *run)
{
    struct profile_log *const log =
        os.calloc(1, sizeof *log + run->wave_count * sizeof *log->waves);

    if (!log)
        return NULL;
    log->notes = sums->notes;
    log->insns = run->module->insns;
    log->insn_count = sums->insn_count;
    log->maps = run->memory.maps;
    log->map_count = sums->map_count;
    log->sums = os.calloc(sums->insn_count + 1, sizeof *log->sums);
    log->map_sums = os.calloc(sums->map_count + 1, sizeof *log->map_sums);
    if (!log->sums || !log->map_sums) {
        profile_log_free(log);
        return NULL;
    }
    return log;
}

void profile_log_free(struct profile_log *log)
{
    if (!log)
        return;
    os.free(log->sums);
    os.free(log->map_sums);
    touched_free(&log->touched);
    os.free(log);
}

/* ---- Loads on their way ---------------------------------------------------------------------- */

static void arrive(struct profile_wave *p, unsigned left)
{
    while (p->count > left) {
        p->on_way -= p->queue[p->first];
        p->first = (p->first + 1) % QUEUE;
        p->count--;
    }
}

static void depart(struct profile_wave *p, uint64_t bytes)
{
    arrive(p, QUEUE - 1);
    p->queue[(p->first + p->count++) % QUEUE] = (uint32_t)bytes;
    p->on_way += bytes;
    if (p->on_way > p->most)
        p->most = p->on_way;
    if (bytes && !p->loaded) {
        p->loaded = true;
        p->prologue = p->cycles;
    }
}

/* ---- Running --------------------------------------------------------------------------------- */

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Passes without conflicts: one for each group of lanes that LDS serves together. */
static unsigned lds_least(const struct profile_note *note, uint64_t active)
{
    unsigned passes = 0;

    for (unsigned n = 0; n < TARGET_LDS_GROUPS; n++)
        passes += (active & note->lds->groups[n]) != 0;
    return passes * note->accesses;
}

/* Gives the bytes of the lines that what was read takes if it is packed. */
static uint64_t add_memory(struct profile_log *log, struct profile_insn *sum, const struct wave *w,
                           const struct mapping *map, bool scalar, const struct group *before,
                           const struct touched *seen)
{
    const struct group *const g = w->group;
    const uint64_t read = g->bytes_read - before->bytes_read;
    const uint64_t written = g->bytes_written - before->bytes_written;
    const uint64_t lines = g->lines128 - before->lines128;
    const uint64_t fewest = least(lines, ((read > written ? read : written) + 127) / 128);
    const size_t index = map ? (size_t)(map - log->maps) : log->map_count;

    if (!read && !written)
        return 0;
    struct profile_map *const m = &log->map_sums[index];
    m->bytes_read += read;
    m->bytes_written += written;
    m->lines128 += lines;
    m->lines128_least += fewest;
    m->by_wave += log->touched.by_wave - seen->by_wave;
    m->by_workgroup += log->touched.by_workgroup - seen->by_workgroup;
    m->l2_read += scalar ? read : read ? 128 * lines : 0;
    m->l2_written += written ? 128 * lines : 0;
    sum->bytes_read += read;
    sum->bytes_written += written;
    sum->lines128 += lines;
    sum->lines128_least += fewest;
    const uint32_t touched = index == log->map_count ? MAP_SEVERAL : (uint32_t)index + 1;
    sum->map = sum->map && sum->map != touched ? MAP_SEVERAL : touched;
    if (scalar)
        log->totals.scalar_bytes += read;
    return read ? 128 * fewest : 0;
}

/* Runs an instruction that is worth more than its number of executions. */
static const struct insn *watch(struct profile_log *log, struct wave *w, const struct insn *i,
                                const struct profile_note *note)
{
    const size_t index = (size_t)(i - log->insns);
    const struct group before = *w->group;
    const struct touched touched = log->touched;
    const uint64_t active = w->s[S_EXEC] | (uint64_t)(w->lanes == 64 ? w->s[S_EXEC + 1] : 0) << 32;
    struct mapping **const hint = hint_of(w->group, i);
    struct profile_insn *const sum = &log->sums[index];
    struct profile_wave *const p = &log->waves[w->number];

    /* an access that lies in one mapping leaves that here */
    *hint = NULL;
    const struct insn *const next = i->body(w, i);
    if (w->state == WAVE_FAULT)
        return next;
    switch (note->watch) {
    case WATCH_WAIT:
        arrive(p, note->wait_to);
        if (p->behind && note->lds_to < p->lds_asked) {
            p->bare = true;
            p->behind = false;
        }
        break;
    case WATCH_BARRIER:
        p->behind = p->multiplied;
        p->bare = false;
        p->lds_asked = 0;
        break;
    case WATCH_MATRIX:
        if (!p->multiplied)
            p->before = p->cycles;
        p->products_end = p->cycles + note->cycles;
        p->bare_barriers += p->bare;
        p->multiplied = true;
        p->behind = p->bare = false;
        break;
    case WATCH_LDS:
        p->lds_asked++;
        if (w->group->lds_accesses == before.lds_accesses) {
            log->totals.lds_exchanges += active ? w->halves : 0;
            break;
        }
        sum->lds_passes += w->group->lds_passes - before.lds_passes;
        sum->lds_least += lds_least(note, active);
        break;
    default: {
        const uint64_t bytes =
            add_memory(log, sum, w, *hint, note->watch == WATCH_SCALAR, &before, &touched);
        if (note->watch == WATCH_LOAD)
            depart(p, bytes);
    }
    }
    return next;
}

static void wave_ends(struct profile_log *log, const struct profile_wave *p)
{
    if (p->multiplied) {
        log->totals.matrix_waves++;
        log->totals.edge_cycles += p->before + p->cycles - p->products_end;
        log->totals.bare_barriers += p->bare_barriers;
    }
    if (!p->loaded)
        return;
    log->totals.loading_waves++;
    log->totals.prologue_cycles += p->prologue;
    log->totals.bytes_in_flight += p->most;
}

void profile_wave(struct profile_log *log, struct wave *w)
{
    struct profile_wave *const p = &log->waves[w->number];
    const struct insn *i = w->pc;

    if (log->group != w->group->flat_id + 1) {
        log->group = w->group->flat_id + 1;
        touched_begin(&log->touched);
    }
    w->group->touched = &log->touched;
    /* nowhere but at its start has a wave not left a straight run yet and is at the first of it */
    if (!w->executed && w->pc == w->block)
        *p = (struct profile_wave){0};
    while (i) {
        const struct profile_note *const note = &log->notes[i - log->insns];
        const unsigned cycles = note->cycles;
        i = note->watch ? watch(log, w, i, note) : i->body(w, i);
        p->cycles += cycles;
    }
    if (w->state == WAVE_DONE)
        wave_ends(log, p);
}

/* ---- Sums ------------------------------------------------------------------------------------ */

quern_status profile_begin(struct profile_sums *sums, const struct run *run)
{
    sums->insn_count = run->module->insn_count;
    sums->map_count = run->memory.count;
    sums->insns = os.calloc(sums->insn_count + 1, sizeof *sums->insns);
    sums->maps = os.calloc(sums->map_count + 1, sizeof *sums->maps);
    sums->named = os.malloc((sums->map_count + 1) * sizeof *sums->named);
    FAIL_IF(!sums->insns || !sums->maps || !sums->named, QUERN_E_MEMORY,
            "out of memory for a profile of %zu instructions", sums->insn_count);
    if (sums->map_count)
        memcpy(sums->named, run->memory.maps, sums->map_count * sizeof *sums->named);
    return QUERN_OK;
}

void profile_sums_free(struct profile_sums *sums)
{
    os.free(sums->insns);
    os.free(sums->maps);
    os.free(sums->named);
    *sums = (struct profile_sums){0};
}

void profile_add(struct profile_sums *sums, const struct profile_part *part, uint64_t times)
{
    struct profile_totals *const to = &sums->totals;
    const struct profile_totals *const from = part->totals;

    for (size_t n = 0; n < sums->insn_count; n++) {
        struct profile_insn *const x = &sums->insns[n];
        const struct profile_insn *const y = &part->insns[n];
        x->executed += times * y->executed;
        x->lds_passes += times * y->lds_passes;
        x->lds_least += times * y->lds_least;
        x->lines128 += times * y->lines128;
        x->lines128_least += times * y->lines128_least;
        x->bytes_read += times * y->bytes_read;
        x->bytes_written += times * y->bytes_written;
        if (y->map)
            x->map = x->map && x->map != y->map ? MAP_SEVERAL : y->map;
    }
    for (size_t n = 0; n <= sums->map_count; n++) {
        struct profile_map *const x = &sums->maps[n];
        const struct profile_map *const y = &part->maps[n];
        x->bytes_read += times * y->bytes_read;
        x->bytes_written += times * y->bytes_written;
        x->l2_read += times * y->l2_read;
        x->l2_written += times * y->l2_written;
        x->lines128 += times * y->lines128;
        x->lines128_least += times * y->lines128_least;
    }
    to->scalar_bytes += times * from->scalar_bytes;
    to->lds_exchanges += times * from->lds_exchanges;
    to->loading_waves += times * from->loading_waves;
    to->prologue_cycles += times * from->prologue_cycles;
    to->bytes_in_flight += times * from->bytes_in_flight;
    to->matrix_waves += times * from->matrix_waves;
    to->edge_cycles += times * from->edge_cycles;
    to->bare_barriers += times * from->bare_barriers;
}

bool profile_collect(struct profile_sums *sums, const struct profile_log *log)
{
    profile_add(sums, &(struct profile_part){log->sums, log->map_sums, &log->totals}, 1);
    for (size_t n = 0; n <= sums->map_count; n++) {
        sums->maps[n].by_wave += log->map_sums[n].by_wave;
        sums->maps[n].by_workgroup += log->map_sums[n].by_workgroup;
    }
    return !log->touched.failed;
}

void profile_finish(struct profile_sums *sums, const struct run *run)
{
    int64_t executed = 0;

    for (size_t n = 0; n < sums->insn_count; n++) {
        executed += run->flow[n];
        sums->insns[n].executed = executed > 0 ? (uint64_t)executed : 0;
    }
}

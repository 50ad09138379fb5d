/* SPDX-License-Identifier: MIT */
/* From counts to time on the retail part of a target. docs/profile.md explains each formula. */
#include "sim/memory.h"
#include "sim/profile/profile.h"
#include "target/rates.h"

#include <quern/sim.h>

#include <string.h>

const char *quern_sim_port_name(enum quern_sim_port port)
{
    static const char *const names[QUERN_PORT_COUNT] = {
        [QUERN_PORT_ISSUE] = "issue",   [QUERN_PORT_VALU] = "valu", [QUERN_PORT_TRANS] = "trans",
        [QUERN_PORT_MATRIX] = "matrix", [QUERN_PORT_SALU] = "salu", [QUERN_PORT_LDS] = "lds",
        [QUERN_PORT_VMEM] = "vmem"};

    return (unsigned)port < QUERN_PORT_COUNT ? names[port] : "unknown";
}

const char *quern_sim_bound_name(enum quern_sim_bound bound)
{
    static const char *const names[] = {[QUERN_BOUND_ISSUE] = "issue",
                                        [QUERN_BOUND_LDS] = "LDS",
                                        [QUERN_BOUND_MATRIX] = "matrix",
                                        [QUERN_BOUND_MEMORY] = "memory",
                                        [QUERN_BOUND_VMEM] = "vmem"};

    return bound >= QUERN_BOUND_ISSUE && bound <= QUERN_BOUND_VMEM ? names[bound] : "unknown";
}

static double most(double a, double b)
{
    return a > b ? a : b;
}

static uint64_t ceil_div(uint64_t a, uint64_t b)
{
    return (a + b - 1) / b;
}

/* Cycles of matrix instructions in their unit, all waves together. */
static double matrix_cycles(const struct quern_sim_profile *p)
{
    double sum = 0;

    for (size_t n = 0; n < p->insn_count; n++)
        sum += (double)p->insns[n].executed * p->insns[n].cycles;
    return sum;
}

/* Cycles of the path to the nearest cache. Of a profile whose instructions are not listed, its sums
 * say as much as they can. */
static double vmem_cycles(const struct quern_sim_profile *p, const struct target *t)
{
    uint64_t sum = 0, listed = 0;

    for (size_t n = 0; n < p->insn_count; n++) {
        const struct quern_sim_insn *const i = &p->insns[n];
        if (!i->lines128)
            continue;
        sum += target_vmem_cycles(t, i->executed, i->lines128, i->bytes_read + i->bytes_written);
        listed += i->lines128;
    }
    return (double)(sum + (p->counts.lines128 - listed));
}

/* Busy cycles of each port for the whole launch, as if there were one of each. */
static void count_cycles(const struct quern_sim_profile *p, const struct target *t,
                         double cycles[QUERN_PORT_COUNT])
{
    const uint64_t *const classes = p->counts.classes;
    const unsigned lanes = p->counts.wave_size;
    const double vector = (double)(classes[QUERN_CLASS_VALU] + classes[QUERN_CLASS_PACKED]) *
                          target_vector_cycles(t, lanes);
    const double trans = (double)classes[QUERN_CLASS_TRANS] * target_trans_cycles(t, lanes);
    const double matrix = matrix_cycles(p);

    cycles[QUERN_PORT_ISSUE] = (double)p->issue_cycles;
    cycles[QUERN_PORT_VALU] =
        vector + (t->trans_unit ? 0 : trans) + (target_matrix_pipe(t) ? 0 : matrix);
    cycles[QUERN_PORT_TRANS] = t->trans_unit ? trans : 0;
    cycles[QUERN_PORT_MATRIX] = matrix;
    cycles[QUERN_PORT_SALU] = (double)classes[QUERN_CLASS_SALU];
    cycles[QUERN_PORT_LDS] = (double)(p->counts.lds_passes + p->lds_exchanges);
    cycles[QUERN_PORT_VMEM] = vmem_cycles(p, t);
}

/* Whether a compute unit has one of it, not one for each SIMD. */
static bool is_shared(const struct target *t, enum quern_sim_port port)
{
    return port == QUERN_PORT_LDS || port == QUERN_PORT_VMEM ||
           (port == QUERN_PORT_SALU && !t->simd_salu);
}

/* What must come from memory and go there, however much the caches keep. */
static double memory_bytes(const struct quern_sim_profile *p)
{
    double sum = 0;

    for (size_t n = 0; n < p->buffer_count; n++) {
        const struct quern_sim_traffic *const b = &p->buffers[n];
        const uint64_t size = b->size ? b->size : UINT64_MAX;
        sum += (double)(b->bytes_read < size ? b->bytes_read : size) +
               (double)(b->bytes_written < size ? b->bytes_written : size);
    }
    return sum;
}

static void place_grid(const struct quern_sim_profile *p, const struct target *t,
                       struct quern_sim_model *m)
{
    const struct target_fill fill = target_fill(t, p->counts.workgroups);
    const uint64_t fit = p->resources.workgroups_per_cu;
    const uint64_t together = fit < fill.fullest ? fit : fill.fullest;

    m->cus_busy = fill.cus_busy;
    m->fill_percent = fill.percent;
    m->fullest = fill.fullest;
    m->rounds = fill.fullest ? ceil_div(fill.fullest, fit) : 0;
    m->waves_per_simd = (unsigned)ceil_div(together * p->resources.waves_per_workgroup, t->simds);
}

/* From sums over the launch to the fullest compute unit: whole workgroups there, whole waves on
 * its SIMDs. */
static void place_ports(const struct quern_sim_profile *p, const struct target *t,
                        struct quern_sim_model *m)
{
    const double workgroups = (double)p->counts.workgroups, waves = (double)p->counts.waves;
    const double on_simd =
        (double)ceil_div(m->fullest * p->resources.waves_per_workgroup, t->simds);
    double cycles[QUERN_PORT_COUNT];

    count_cycles(p, t, cycles);
    for (int n = 0; n < QUERN_PORT_COUNT; n++)
        m->port_cycles[n] = is_shared(t, (enum quern_sim_port)n)
                                ? cycles[n] / workgroups * (double)m->fullest
                                : cycles[n] / waves * on_simd;
}

static void place_loads(const struct quern_sim_profile *p, const struct target *t,
                        struct quern_sim_model *m)
{
    const double loading = p->loading_waves ? (double)p->loading_waves : 1;
    const double share = (double)p->loading_waves / (double)p->counts.waves;
    const uint64_t fit = p->resources.workgroups_per_cu;
    const uint64_t together = fit < m->fullest ? fit : m->fullest;

    m->in_flight = (double)p->bytes_in_flight / loading * share *
                   (double)(together * p->resources.waves_per_workgroup);
    m->in_flight_needed = t->bandwidth_gbs * TARGET_LATENCY_NS / t->cus;
    /* waves of a SIMD take turns; a workgroup that is alone has nobody to load while it starts */
    m->prologue_cycles = (double)p->prologue_cycles / loading * m->waves_per_simd *
                         (fit == 1 ? (double)m->rounds : 1);
}

static void choose_bound(struct quern_sim_model *m, const struct target *t)
{
    const double times[] = {[QUERN_BOUND_ISSUE] = m->issue_us,
                            [QUERN_BOUND_LDS] = m->lds_us,
                            [QUERN_BOUND_MATRIX] = m->matrix_us,
                            [QUERN_BOUND_MEMORY] = m->sustained_us,
                            [QUERN_BOUND_VMEM] = m->vmem_us};
    double longest = 0;

    for (int n = QUERN_BOUND_ISSUE; n <= QUERN_BOUND_VMEM; n++)
        if (times[n] > longest) {
            longest = times[n];
            m->bound = (enum quern_sim_bound)n;
        }
    /* where matrix instructions hold the issue, they are what it waits for */
    if (m->bound == QUERN_BOUND_ISSUE && !target_matrix_pipe(t) && m->matrix_us > m->issue_us / 2)
        m->bound = QUERN_BOUND_MATRIX;
    m->total_us = longest + m->prologue_us;
}

/* What the matrix units stand still for. A compute unit that holds several workgroups has others to
 * run while one starts, ends or waits at a barrier. */
static void place_products(const struct quern_sim_profile *p, const struct target *t,
                           struct quern_sim_model *m)
{
    const uint64_t fit = p->resources.workgroups_per_cu;
    const uint64_t alone = fit == 1 ? m->fullest : m->fullest % fit == 1; /* rounds of one */
    const double starts = fit == 1 ? (double)m->rounds : 1;
    const double waves = (double)p->matrix_waves;
    const double ideal = (matrix_cycles(p) - (double)p->conflict_cycles) / (t->cus * t->simds);
    const double edges = (double)p->edge_cycles / waves * m->waves_per_simd * starts;
    const double longest = m->total_us - m->prologue_us;

    /* what WMMA issues at the ends is part of the time of their vector units already */
    m->edge_us = target_matrix_pipe(t) ? target_microseconds(t, edges) : 0;
    m->barrier_us = target_microseconds(t, (double)p->bare_barriers / waves * (double)alone *
                                               TARGET_LDS_CYCLES);
    m->start_us = starts * TARGET_LATENCY_NS * 1e-3;
    m->product_us = longest + m->start_us + m->barrier_us + m->edge_us;
    m->matrix_percent = 100 * target_microseconds(t, ideal) / m->product_us;
}

/* Loads that each wait for the one before, whoever else has work: the arguments, what a table in
 * LDS is made of, behind whose barrier the products start, and the first operands. */
static double chain_us(const struct quern_sim_profile *p, const struct target *t)
{
    bool arguments = false, table = false, operands = false;

    for (size_t n = 0; n < p->buffer_count; n++) {
        const struct quern_sim_traffic *const b = &p->buffers[n];
        if (!b->bytes_read)
            continue;
        if (!strcmp(b->name, SIM_NAME_ARGUMENTS))
            arguments = true;
        else if (!strcmp(b->name, SIM_NAME_CONSTANTS))
            table = true;
        else
            operands = true;
    }
    const bool staged = table && p->counts.lds_passes;
    return (arguments + staged + operands) * TARGET_LATENCY_NS * 1e-3 +
           (staged ? target_microseconds(t, TARGET_LDS_CYCLES) : 0);
}

static void make(const struct quern_sim_profile *p, const struct target *t,
                 struct quern_sim_model *m)
{
    *m = (struct quern_sim_model){.part = t->part,
                                  .cus = t->cus,
                                  .simds = t->simds,
                                  .clock_ghz = t->clock_ghz,
                                  .bandwidth_gbs = t->bandwidth_gbs,
                                  .memory_bytes = memory_bytes(p)};
    place_grid(p, t, m);
    place_ports(p, t, m);
    place_loads(p, t, m);
    m->issue_us = target_microseconds(t, m->port_cycles[QUERN_PORT_ISSUE]);
    m->lds_us = target_microseconds(t, m->port_cycles[QUERN_PORT_LDS]);
    m->matrix_us = target_microseconds(t, m->port_cycles[QUERN_PORT_MATRIX]);
    m->memory_us = target_microseconds(t, target_memory_cycles(t, m->memory_bytes));
    m->sustained_us = m->memory_us * 100 / target_sustained_percent(t);
    m->vmem_us = target_knows_vmem(t) ? target_microseconds(t, m->port_cycles[QUERN_PORT_VMEM]) : 0;
    m->chain_us = chain_us(p, t);
    m->prologue_us = target_microseconds(t, m->prologue_cycles);
    choose_bound(m, t);
    /* the ideal: every unit of the part busy all the time */
    const double matrix = target_microseconds(t, matrix_cycles(p) / ((double)t->cus * t->simds));
    m->roof = matrix > m->memory_us ? QUERN_BOUND_MATRIX : QUERN_BOUND_MEMORY;
    m->roof_percent = m->total_us > 0 ? 100 * most(matrix, m->memory_us) / m->total_us : 0;
    if (p->matrix_waves)
        place_products(p, t, m);
    m->operations = (double)p->issue_cycles * target_lanes_per_cycle(t) / t->simds;
    m->operations_per_us = 1e3 * t->clock_ghz * t->cus * target_lanes_per_cycle(t);
}

quern_status quern_sim_model_make(const struct quern_sim_profile *given,
                                  struct quern_sim_model *model)
{
    const struct extensible *const type = EXTENSIBLE(quern_sim_model, QUERN_SIM_MODEL_SIZE_MIN);
    struct quern_sim_profile profile;
    struct quern_sim_model own;

    TRY(extensible_read(PROFILE_TYPE, given, &profile));
    TRY(extensible_check(type, model));
    const struct target *const t = profile.target ? target_named(profile.target) : NULL;
    FAIL_IF(!t || !profile.counts.workgroups, QUERN_E_ARGUMENT, "an empty profile");
    make(&profile, t, &own);
    extensible_write(type, &own, model);
    return QUERN_OK;
}

/* SPDX-License-Identifier: MIT */
/* A launch: workgroups spread over threads, the waves of a workgroup one after the other. */
#include "sim/launch.h"
#include "base/extensible.h"
#include "base/os.h"
#include "base/thread.h"
#include "sim/profile/profile.h"
#include "sim/profile/touched.h"

#include <stdio.h>
#include <string.h>
#ifdef __SSE2__
#include <xmmintrin.h>
#endif

/* ---- A workgroup ----------------------------------------------------------------------------- */

/* Which wave stopped where, for a barrier that not all waves reach. */
static void fault_barrier(struct group *g)
{
    unsigned waiting = 0;
    struct wave *at = NULL;

    for (unsigned n = 0; n < g->wave_count; n++)
        if (g->waves[n].state == WAVE_BARRIER) {
            waiting++;
            at = at ? at : &g->waves[n];
        }
    fault(at, at->pc - 1, -1,
          "barrier that %u of the %u waves of the workgroup wait at, while the "
          "others have ended",
          waiting, g->wave_count);
}

/* Runs every wave to its next stop, again and again. False if a wave has a fault. */
static bool run_group(struct group *g, struct profile_log *log)
{
    const struct sim_bodies *const bodies = g->run->module->sim->bodies;

    if (g->shadow)
        shadow_start_group(g);
    for (unsigned n = 0; n < g->wave_count; n++)
        start_wave(&g->waves[n]);
    for (;;) {
        unsigned done = 0, arrived = 0;
        for (unsigned n = 0; n < g->wave_count; n++) {
            struct wave *const w = &g->waves[n];
            if (w->state == WAVE_READY) {
                set_host_mode(w);
                if (log)
                    profile_wave(log, w);
                else if (w->shadow)
                    bodies->run_full(w);
                else
                    bodies->run(w);
            }
            if (w->state == WAVE_FAULT)
                return false;
            done += w->state == WAVE_DONE;
            arrived += w->signalled && w->state == WAVE_BARRIER;
        }
        if (done == g->wave_count)
            return true;
        if (arrived < g->wave_count) {
            fault_barrier(g);
            return false;
        }
        if (g->shadow)
            shadow_barrier(g);
        for (unsigned n = 0; n < g->wave_count; n++) {
            g->waves[n].state = WAVE_READY;
            g->waves[n].signalled = false;
        }
    }
}

/* ---- Order ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* A Feistel network permutes the numbers of an even number of bits; those that are not below the
 * count are sent through it again, until one is. At most one in four is: few rounds are needed. */
uint64_t shuffled(uint64_t ticket, uint64_t count, uint64_t seed)
{
    unsigned half = 1;
    uint64_t x = ticket;

    while ((count - 1) >> 2 * half)
        half++;
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    do {
        uint64_t left = x >> half, right = x & mask;
        for (unsigned round = 0; round < 4; round++) {
            const uint64_t next = left ^ (mix(right ^ mix(seed + round)) & mask);
            left = right;
            right = next;
        }
        x = left << half | right;
    } while (x >= count);
    return x;
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* What a thread needs to run workgroups, allocated once. */
struct bench {
    struct group group;
    struct profile_log *log; /* null: counts only */
    char message[FAULT_BYTES];
};

static void bench_free(struct bench *b)
{
    shadow_free(&b->group);
    profile_log_free(b->log);
    if (b->group.waves)
        os.free(b->group.waves[0].v);
    os.free(b->group.waves);
    os.free(b->group.lds);
    os.free(b->group.scratch);
    os.free(b->group.flow);
}

static size_t round_up(size_t bytes)
{
    return (bytes + 127) & ~(size_t)127;
}

/* Which adders are published, docs/sim.md says. */
static enum sim_adder adder_of(const struct quern_sim *sim)
{
    const uint64_t has = sim->target->capabilities;

    return sim->nearest                               ? ADDER_NEAREST
           : sim->arithmetic == QUERN_ARITHMETIC_FAST ? ADDER_FUSED
           : has & CAP_WMMA_256B                      ? ADDER_RDNA3
           : has & CAP_WMMA_128B                      ? ADDER_RDNA4
           : has & CAP_MFMA_WIDE_K                    ? ADDER_FUSED
           : has & CAP_FP8_FNUZ                       ? ADDER_CDNA3
           : has & CAP_MFMA_BF16_1K                   ? ADDER_CDNA2
                                                      : ADDER_FUSED;
}

static bool bench_make(struct bench *b, struct run *run)
{
    const struct quern_sim_module *const m = run->module;
    struct group *const g = &b->group;
    b->log = NULL;
    const size_t file = round_up((size_t)(m->vgpr_limit + 1) * m->lanes * 4);

    *g = (struct group){.run = run,
                        .memory = &run->memory,
                        .lds_bytes = run->lds_bytes,
                        .scratch_bytes = run->kernel->scratch_bytes,
                        .insns = m->insns,
                        .wave_count = run->wave_count,
                        .message = b->message};
    g->waves = os.aligned_alloc(128, round_up(run->wave_count * sizeof *g->waves));
    if (!g->waves)
        return false;
    memset(g->waves, 0, run->wave_count * sizeof *g->waves);
    uint32_t *const v = os.aligned_alloc(128, file * run->wave_count);
    g->waves[0].v = v;
    g->lds = os.aligned_alloc(128, round_up(g->lds_bytes + 16));
    g->scratch =
        os.aligned_alloc(128, round_up((size_t)g->scratch_bytes * m->lanes * run->wave_count + 16));
    g->flow = os.calloc(m->insn_count + 1, sizeof *g->flow);
    if (!v || !g->lds || !g->scratch || !g->flow)
        return false;
    for (unsigned n = 0; n < run->wave_count; n++) {
        struct wave *const w = &g->waves[n];
        w->v = v + n * (file / 4);
        w->base[OPERAND_VGPR] = (uintptr_t)w->v;
        w->lanes = m->lanes;
        w->halves = m->lanes / 32;
        w->fnuz = m->sim->target->capabilities & CAP_FP8_FNUZ;
        w->adder = adder_of(m->sim);
        w->candidate = m->sim->arithmetic == QUERN_ARITHMETIC_SILICON && !m->sim->nearest
                           ? (int8_t)m->sim->candidate
                           : SIM_NO_CANDIDATE;
        w->open_wmma = !strcmp(m->sim->target->family, "RDNA 3.5");
        w->flush_halves = m->sim->target->capabilities & CAP_FLUSHES_HALVES;
        w->target = m->sim->target;
        w->number = n;
        w->group = g;
    }
    if (run->profile && !(b->log = profile_log_make(run->profile, run)))
        return false;
    return m->sim->check != QUERN_CHECK_FULL || shadow_make(g);
}

static void report(struct run *run, const struct group *g)
{
    pthread_mutex_lock(&run->lock);
    /* a wave that was halted because an earlier workgroup has a fault has nothing to report */
    if (g->flat_id < atomic_load(&run->stop_before)) {
        atomic_store(&run->stop_before, g->flat_id);
        run->status = g->no_room ? QUERN_E_MEMORY : QUERN_E_FAULT;
        memcpy(run->message, g->message, sizeof run->message);
    }
    pthread_mutex_unlock(&run->lock);
}

static void collect(struct run *run, const struct bench *b)
{
    struct quern_sim_counts *const c = &run->counts;
    const struct group *const g = &b->group;

    pthread_mutex_lock(&run->lock);
    if (b->log && !profile_collect(run->profile, b->log) && run->status == QUERN_OK)
        run->status = QUERN_E_MEMORY;
    for (size_t n = 0; n <= run->module->insn_count; n++)
        run->flow[n] += g->flow[n];
    c->lds_accesses += g->lds_accesses;
    c->lds_passes += g->lds_passes;
    c->lines128 += g->lines128;
    c->bytes_read += g->bytes_read;
    c->bytes_written += g->bytes_written;
    pthread_mutex_unlock(&run->lock);
}

static void work(void *user, size_t index)
{
    struct run *const run = user;
    struct bench bench;
    struct group *const g = &bench.group;
    const uint32_t *const grid = run->launch->grid;
    const uint64_t seed = run->module->sim->shuffle;

    (void)index;
    if (!bench_make(&bench, run)) {
        bench_free(&bench);
        pthread_mutex_lock(&run->lock);
        /* other threads may have room to do the work */
        if (run->status == QUERN_OK && atomic_load(&run->next) == 0)
            run->status = QUERN_E_MEMORY;
        pthread_mutex_unlock(&run->lock);
        return;
    }
#ifdef __SSE2__
    const unsigned csr = _mm_getcsr();
#endif
    for (;;) {
        const uint64_t ticket = atomic_fetch_add(&run->next, 1);
        if (ticket >= run->group_count)
            break;
        const uint64_t place = seed ? shuffled(ticket, run->group_count, seed) : ticket;
        const uint64_t id = run->only ? run->only[place] : place;
        if (id > atomic_load(&run->stop_before)) {
            if (!seed)
                break;
            continue;
        }
        g->no_room = false;
        g->flat_id = id;
        g->id[0] = (uint32_t)(id % grid[0]);
        g->id[1] = (uint32_t)(id / grid[0] % grid[1]);
        g->id[2] = (uint32_t)(id / grid[0] / grid[1]);
        poison(g->lds, g->lds_bytes);
        poison(g->scratch, (size_t)g->scratch_bytes * run->module->lanes * g->wave_count);
        if (!run_group(g, bench.log))
            report(run, g);
    }
#ifdef __SSE2__
    _mm_setcsr(csr);
#endif
    collect(run, &bench);
    bench_free(&bench);
}

/* ---- A launch -------------------------------------------------------------------------------- */

#define RSRC1_FP16_OVFL (1u << 26) /* of a kernel descriptor, on all targets here */

static quern_status check_launch(const quern_sim_module *m, const struct quern_sim_launch *l,
                                 struct run *run)
{
    const struct object_kernel *const k = run->kernel;
    const struct target *const t = m->sim->target;
    uint64_t groups = 1, items = 1;
    uint32_t explicit_end = 0;

    for (unsigned n = 0; n < 3; n++) {
        FAIL_IF(!l->grid[n] || !l->block[n], QUERN_E_ARGUMENT,
                "a grid of %u,%u,%u workgroups of %u,%u,%u work-items is empty", l->grid[0],
                l->grid[1], l->grid[2], l->block[0], l->block[1], l->block[2]);
        FAIL_IF(__builtin_mul_overflow(groups, l->grid[n], &groups) || groups >> 48,
                QUERN_E_ARGUMENT, "a grid of %u,%u,%u workgroups is too large", l->grid[0],
                l->grid[1], l->grid[2]);
        items = items > 1024 ? items : items * l->block[n];
    }
    FAIL_IF(items > 1024 || (k->max_flat_workgroup && items > k->max_flat_workgroup),
            QUERN_E_ARGUMENT, "workgroups of %u,%u,%u work-items: kernel %s allows %u", l->block[0],
            l->block[1], l->block[2], k->name,
            k->max_flat_workgroup ? k->max_flat_workgroup : 1024);
    FAIL_IF(l->lds_bytes > t->lds_bytes || k->lds_bytes > t->lds_bytes - l->lds_bytes,
            QUERN_E_ARGUMENT, "%u + %u bytes of LDS: a workgroup of %s may have %u", k->lds_bytes,
            l->lds_bytes, t->name, t->lds_bytes);
    for (size_t n = 0; n < k->arg_count; n++)
        if (k->args[n].kind <= OBJECT_ARG_DYNAMIC_LDS &&
            k->args[n].offset + k->args[n].size > explicit_end)
            explicit_end = k->args[n].offset + k->args[n].size;
    FAIL_IF(l->kernarg_bytes < explicit_end || l->kernarg_bytes > k->kernarg_bytes ||
                (l->kernarg_bytes && !l->kernarg),
            QUERN_E_ARGUMENT, "%zu bytes of arguments: kernel %s takes %u, %u with the hidden ones",
            l->kernarg_bytes, k->name, explicit_end, k->kernarg_bytes);
    FAIL_IF(!mode_supported(k->rsrc1 >> 12 & 0xff), QUERN_E_DEVICE,
            "kernel %s asks for float mode 0x%02x; modelled are rounding to nearest even, f16 and "
            "f64 with denormals (0xc0, 0xf0)",
            k->name, k->rsrc1 >> 12 & 0xff);
    FAIL_IF(k->rsrc1 & RSRC1_FP16_OVFL, QUERN_E_DEVICE,
            "kernel %s asks that what overflows f16 or eight bits is saturated (FP16_OVFL), which "
            "is not modelled",
            k->name);
    run->group_count = groups;
    run->wave_count = (unsigned)((items + m->lanes - 1) / m->lanes);
    run->lds_bytes = k->lds_bytes + l->lds_bytes;
    return QUERN_OK;
}

#define PACKET_BYTES 64

/* The dispatch packet, as much of it as kernels read: sizes and the arguments' address. */
static void fill_packet(uint8_t *packet, const struct quern_sim_launch *l, const struct run *run)
{
    for (unsigned n = 0; n < 3; n++) {
        const uint16_t block = (uint16_t)l->block[n];
        const uint32_t items = l->grid[n] * l->block[n];
        memcpy(packet + 4 + 2 * n, &block, 2);
        memcpy(packet + 12 + 4 * n, &items, 4);
    }
    memcpy(packet + 24, &run->kernel->scratch_bytes, 4);
    memcpy(packet + 28, &run->lds_bytes, 4);
    memcpy(packet + 40, &run->kernarg_at, 8);
}

/* The launch's own memory: arguments and dispatch packet. */
static quern_status map_arguments(struct run *run, const struct quern_sim_launch *l)
{
    const struct object_kernel *const k = run->kernel;
    const size_t packet = (k->kernarg_bytes + 63u) & ~(size_t)63;

    run->kernarg = os.calloc(1, packet + PACKET_BYTES);
    FAIL_IF(!run->kernarg, QUERN_E_MEMORY, "out of memory for %u bytes of arguments",
            k->kernarg_bytes);
    if (l->kernarg_bytes)
        memcpy(run->kernarg, l->kernarg, l->kernarg_bytes);
    object_fill_hidden(k, run->kernarg, l->grid, l->block, l->lds_bytes);
    const struct mapping parts[2] = {{.end = k->kernarg_bytes,
                                      .host = run->kernarg,
                                      .access = QUERN_SIM_READ,
                                      .name = SIM_NAME_ARGUMENTS},
                                     {.begin = packet + 64,
                                      .end = packet + 64 + PACKET_BYTES,
                                      .host = run->kernarg + packet,
                                      .access = QUERN_SIM_READ,
                                      .name = "dispatch packet"}};
    TRY(memory_add_parts(&run->memory, packet + 64 + PACKET_BYTES, parts, 2, &run->kernarg_at));
    run->packet_at = run->kernarg_at + packet + 64;
    fill_packet(run->kernarg + packet, l, run);
    return QUERN_OK;
}

static void run_free(struct run *run)
{
    race_free(&run->module->sim->race_heap, run->races, run->memory.count);
    memory_free(&run->memory);
    os.free(run->kernarg);
    os.free(run->flow);
    pthread_mutex_destroy(&run->lock);
}

static quern_status run_prepared(struct run *run, const struct quern_sim_launch *l,
                                 struct quern_sim_counts *counts)
{
    struct quern_sim_module *const m = run->module;
    int threads = m->sim->threads;

    pthread_mutex_lock(&m->sim->lock);
    const quern_status copied = memory_copy(&m->sim->memory, &run->memory);
    pthread_mutex_unlock(&m->sim->lock);
    TRY(copied);
    TRY(map_arguments(run, l));
    run->flow = os.calloc(m->insn_count + 1, sizeof *run->flow);
    FAIL_IF(!run->flow, QUERN_E_MEMORY, "out of memory for counts of %zu instructions",
            m->insn_count);
    if (m->sim->check == QUERN_CHECK_FULL) {
        run->race_touch = race_touch;
        run->race_define = race_define;
        run->races = os.calloc(run->memory.count, sizeof *run->races);
        FAIL_IF(!run->races, QUERN_E_MEMORY, "out of memory for races of %zu buffers",
                run->memory.count);
    }
    if (run->profile)
        TRY(profile_begin(run->profile, run));
    if ((uint64_t)threads > run->group_count)
        threads = (int)run->group_count;
    parallel_for((size_t)threads, threads, work, run);
    if (m->sim->observer.function)
        m->sim->observer.function(m->sim->observer.user, m, run->flow);
    FAIL_IF(run->status == QUERN_E_MEMORY && !*run->message, QUERN_E_MEMORY,
            "out of memory for the registers of %u waves", run->wave_count);
    FAIL_IF(run->status != QUERN_OK, run->status, "%s", run->message);
    if (run->profile)
        profile_finish(run->profile, run);
    if (counts) {
        counts->wave_size = m->lanes;
        counts_add(m, run->flow, counts);
        counts->lds_accesses += run->counts.lds_accesses;
        counts->lds_passes += run->counts.lds_passes;
        counts->lines128 += run->counts.lines128;
        counts->bytes_read += run->counts.bytes_read;
        counts->bytes_written += run->counts.bytes_written;
        counts->waves += run->group_count * run->wave_count;
        counts->workgroups += run->group_count;
    }
    return QUERN_OK;
}

quern_status launch_read(const struct quern_sim_launch *given, struct quern_sim_launch *own)
{
    TRY(extensible_read(EXTENSIBLE(quern_sim_launch, QUERN_SIM_LAUNCH_SIZE_MIN), given, own));
    FAIL_IF(!own->kernel, QUERN_E_ARGUMENT, "launch.kernel is null");
    return QUERN_OK;
}

quern_status launch_run(struct quern_sim_module *module, const struct quern_sim_launch *launch,
                        const uint64_t *only, uint64_t only_count, struct profile_sums *sums,
                        struct quern_sim_counts *counts)
{
    const struct object_kernel *const kernel = object_kernel(&module->object, launch->kernel);
    FAIL_IF(!kernel, QUERN_E_ARGUMENT, "the code object has no kernel \"%s\"", launch->kernel);
    struct run run = {.module = module,
                      .kernel = kernel,
                      .note = &module->kernels[kernel - module->object.kernels],
                      .launch = launch,
                      .only = only,
                      .profile = sums,
                      .touched_add = touched_add,
                      .max_instructions = module->sim->max_instructions};
    atomic_init(&run.next, 0);
    atomic_init(&run.stop_before, UINT64_MAX);
    TRY(check_launch(module, launch, &run));
    if (only)
        run.group_count = only_count;
    pthread_mutex_init(&run.lock, NULL);
    const quern_status status = run_prepared(&run, launch, counts);
    run_free(&run);
    return status;
}

quern_status quern_sim_run(quern_sim_module *module, const struct quern_sim_launch *launch,
                           struct quern_sim_counts *counts)
{
    const struct extensible *const type = EXTENSIBLE(quern_sim_counts, QUERN_SIM_COUNTS_SIZE_MIN);
    struct quern_sim_launch own;
    struct quern_sim_counts sum;

    FAIL_IF(!module, QUERN_E_ARGUMENT, "module is null");
    TRY(launch_read(launch, &own));
    if (!counts)
        return launch_run(module, &own, NULL, 0, NULL, NULL);
    TRY(extensible_read(type, counts, &sum));
    TRY(launch_run(module, &own, NULL, 0, NULL, &sum));
    extensible_write(type, &sum, counts);
    return QUERN_OK;
}

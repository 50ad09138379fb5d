/* SPDX-License-Identifier: MIT */
/* Opening a software GPU and mapping memory into it. */
#include "sim/launch.h"
#include "base/extensible.h"
#include "base/os.h"
#include "sim/bodies.h"
#include "sim/load.h"

#include <string.h>

/* ---- Opening --------------------------------------------------------------------------------- */

#define MAX_INSTRUCTIONS 1000000000u

quern_status quern_sim_open(const struct quern_sim_options *given, quern_sim **sim)
{
    struct quern_sim_options own;
    const struct quern_sim_options *const options = &own;
    struct target_id id;

    FAIL_IF(!sim, QUERN_E_ARGUMENT, "sim is null");
    TRY(extensible_read(EXTENSIBLE(quern_sim_options, QUERN_SIM_OPTIONS_SIZE_MIN), given, &own));
    FAIL_IF(!options->target, QUERN_E_ARGUMENT, "no target is given, for example gfx1151");
    FAIL_IF(!options->disassembler.function, QUERN_E_ARGUMENT, "no disassembler is given");
    FAIL_IF(options->check < 0 || options->check > QUERN_CHECK_FULL, QUERN_E_ARGUMENT,
            "check %d is none of enum quern_sim_check", (int)options->check);
    FAIL_IF(options->arithmetic < 0 || options->arithmetic > QUERN_ARITHMETIC_SILICON,
            QUERN_E_ARGUMENT, "arithmetic %d is none of enum quern_sim_arithmetic",
            (int)options->arithmetic);
    TRY(target_parse(options->target, &id));
    FAIL_IF(!target_simulated(id.target), QUERN_E_DEVICE, "the software GPU does not run %s",
            id.target->name);
    struct quern_sim *const s = os.calloc(1, sizeof *s);
    FAIL_IF(!s, QUERN_E_MEMORY, "out of memory for a software GPU");
    s->id = id;
    s->target = id.target;
    s->check = options->check ? options->check : QUERN_CHECK_FAST;
    s->arithmetic = options->arithmetic            ? options->arithmetic
                    : s->check == QUERN_CHECK_FULL ? QUERN_ARITHMETIC_SILICON
                                                   : QUERN_ARITHMETIC_FAST;
    s->threads = options->threads > 0 ? options->threads : os_cpu_count();
    s->max_instructions = options->max_instructions ? options->max_instructions : MAX_INSTRUCTIONS;
    s->shuffle = options->shuffle;
    s->disassembler = options->disassembler;
    quern_status status = bodies_open(options->isa, options->worker_path, &s->bodies, &s->library);
    if (status != QUERN_OK) {
        os.free(s);
        return status;
    }
    status = row_index_make(s->bodies, &s->index);
    if (status != QUERN_OK) {
        bodies_close(s->library);
        os.free(s);
        return status;
    }
    pthread_mutex_init(&s->lock, NULL);
    race_heap_init(&s->race_heap);
    *sim = s;
    return QUERN_OK;
}

static void forget(quern_sim *sim, struct plane *defined)
{
    if (defined)
        plane_free(defined, &sim->race_heap.planes);
    os.free(defined);
}

void quern_sim_close(quern_sim *sim)
{
    if (!sim)
        return;
    for (size_t n = 0; n < sim->memory.count; n++)
        forget(sim, sim->memory.maps[n].defined);
    race_heap_destroy(&sim->race_heap);
    memory_free(&sim->memory);
    row_index_free(&sim->index);
    pthread_mutex_destroy(&sim->lock);
    bodies_close(sim->library);
    os.free(sim);
}

/* ---- Memory ---------------------------------------------------------------------------------- */

quern_status quern_sim_map(quern_sim *sim, void *host, size_t bytes, enum quern_sim_access access,
                           const char *name, uint64_t *address)
{
    FAIL_IF(!sim, QUERN_E_ARGUMENT,
            "sim is null, which is what a context without a software GPU gives");
    FAIL_IF(!address || (!host && bytes), QUERN_E_ARGUMENT, "%s is null",
            address ? "host" : "address");
    FAIL_IF(access < QUERN_SIM_READ || access > QUERN_SIM_READ_WRITE, QUERN_E_ARGUMENT,
            "access %d is none of enum quern_sim_access", (int)access);
    struct plane *defined = NULL;
    if (sim->check == QUERN_CHECK_FULL && access == QUERN_SIM_WRITE && bytes) {
        defined = os.calloc(1, sizeof *defined);
        if (!defined || !plane_make(defined, &sim->race_heap.planes, bytes, PLANE_LARGE_PAGES)) {
            os.free(defined);
            FAIL(QUERN_E_MEMORY, "out of memory for what is known of %zu bytes", bytes);
        }
    }
    pthread_mutex_lock(&sim->lock);
    /* what only kernels write may be read by them too, once it is written */
    const quern_status status =
        memory_add(&sim->memory, host, bytes,
                   access == QUERN_SIM_READ ? QUERN_SIM_READ : QUERN_SIM_READ_WRITE, name, address);
    if (status == QUERN_OK && defined)
        memory_find(&sim->memory, *address)->defined = defined;
    else
        forget(sim, defined);
    pthread_mutex_unlock(&sim->lock);
    return status;
}

quern_status quern_sim_unmap(quern_sim *sim, uint64_t address)
{
    FAIL_IF(!sim, QUERN_E_ARGUMENT, "sim is null");
    pthread_mutex_lock(&sim->lock);
    const struct mapping *const map = memory_find(&sim->memory, address);
    if (map && map->begin == address)
        forget(sim, map->defined);
    const bool removed = memory_remove(&sim->memory, address);
    pthread_mutex_unlock(&sim->lock);
    FAIL_IF(!removed, QUERN_E_ARGUMENT, "no mapping begins at 0x%llx", (unsigned long long)address);
    return QUERN_OK;
}

/* ---- Models ---------------------------------------------------------------------------------- */

bool sim_next_candidate(quern_sim *sim)
{
    if (!atomic_load(&sim->met_open) || sim->candidate + 1 == SIM_CANDIDATES)
        return false;
    sim->candidate++;
    return true;
}

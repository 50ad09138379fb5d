/* SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_room.h"
#include "base/os.h"
#include "t_gpu.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Counting -------------------------------------------------------------------------------- */

static _Atomic(int64_t) live, peak; /* what was there before may be freed */

static void *count(void *p)
{
    const int64_t size = (int64_t)malloc_usable_size(p), now = atomic_fetch_add(&live, size) + size;
    int64_t most = atomic_load(&peak);

    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now))
        ;
    return p;
}

static void discount(void *p)
{
    atomic_fetch_sub(&live, (int64_t)malloc_usable_size(p));
}

static void *counted_malloc(size_t size)
{
    return count(malloc(size));
}

static void *counted_calloc(size_t n, size_t size)
{
    return count(calloc(n, size));
}

static void *counted_realloc(void *p, size_t size)
{
    discount(p);
    return count(realloc(p, size));
}

static void *counted_aligned_alloc(size_t alignment, size_t size)
{
    return count(aligned_alloc(alignment, size));
}

static void counted_free(void *p)
{
    discount(p);
    free(p);
}

/* ---- The launch ------------------------------------------------------------------------------ */

#define BLOCK ((size_t)4 << 20)

/* `bytes` bytes of address space with the same few pages behind them everywhere. */
static void *repeated_memory(uint64_t bytes)
{
    const int file = memfd_create("operand", 0);
    char *const all =
        mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    assert_true(file >= 0 && all != MAP_FAILED);
    assert_int_equal(ftruncate(file, (off_t)BLOCK), 0);
    for (uint64_t at = 0; at < bytes; at += BLOCK) {
        const size_t size = bytes - at < BLOCK ? bytes - at : BLOCK;
        assert_true(mmap(all + at, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) !=
                    MAP_FAILED);
    }
    close(file);
    return all;
}

size_t t_room_peak(const struct t_room_job *job, enum quern_sim_check check)
{
    const struct os real = os;
    void *const memory = repeated_memory(job->bytes);
    const uint64_t steps = job->bytes / job->groups / (32 * 16);
    char source[1024];
    struct t_gpu g;

    /* one lane's place of step n: in a run of its workgroup, or 16 bytes of each row */
    snprintf(source, sizeof source,
             "KERNEL k(u32x4 *c) { u32x4 sum = {};\n"
             "for (u64 n = 0; n < %lluull; n++) {\n"
             "  const u64 at = %d ? (n * 32 + LANE) / %u * 256\n"
             "                      + (n * 32 + LANE) %% %u * %u + GROUP\n"
             "                    : (GROUP * %lluull + n) * 32 + LANE;\n"
             "  if (%d) sum |= c[at]; else c[at] = (u32x4){LANE, GROUP, 1, 2}; }\n"
             "asm volatile(\"\" :: \"v\"(sum)); }",
             (unsigned long long)steps, job->columns, 256 / job->groups, 256 / job->groups,
             job->groups, (unsigned long long)steps, job->reads);
    t_gpu_open(&g, "gfx1100", "", check, QUERN_ISA_AUTO, 0);
    quern_sim_close(g.sim);
    struct quern_sim_options o = QUERN_INIT(struct quern_sim_options);
    o.target = "gfx1100";
    o.check = check;
    o.threads = 2;
    o.disassembler = (struct quern_disassembler){compiler_disassemble, g.compiler};
    assert_int_equal(quern_sim_open(&o, &g.sim), QUERN_OK);
    t_gpu_load(&g, source);
    const struct t_buffer buffer = {memory, job->bytes,
                                    job->reads ? QUERN_SIM_READ_WRITE : QUERN_SIM_WRITE, "c"};
    const struct t_launch launch = {
        .kernel = "k", .groups = {job->groups}, .items = {32}, .buffers = &buffer, .count = 1};
    atomic_store(&live, 0);
    atomic_store(&peak, 0);
    os.malloc = counted_malloc;
    os.calloc = counted_calloc;
    os.realloc = counted_realloc;
    os.aligned_alloc = counted_aligned_alloc;
    os.free = counted_free;
    t_gpu_run(&g, &launch);
    const size_t most = (size_t)atomic_load(&peak);
    os = real;
    t_gpu_close(&g);
    munmap(memory, job->bytes);
    return most;
}

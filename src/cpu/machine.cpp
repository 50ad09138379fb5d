/* SPDX-License-Identifier: MIT */
/*
 * A multiprocessor on the CPU, for the texts of kernels for NVIDIA: every mistake in how they use
 * memory and barriers is a fault. machine.hpp has what they see of it. cpu.c compiles this file
 * once, and links it to the program of each kernel.
 *
 * Blocks run one after another, or where they form clusters those of a cluster together. Each thread
 * is a fiber, which gives way at every barrier and collective; warps take turns in random order. The
 * threads of a cluster are numbered through, and the shared memories of its blocks lie one behind
 * another in one array. What is watched:
 *
 *  - Every word of shared memory has the thread that last wrote it and all that read it since, with
 *    vector clocks: an access that no barrier orders behind an earlier one is a race, however the
 *    threads happened to take turns. Reads of what nobody wrote are faults.
 *  - A copy is a thread of its own. It lands late, in random order among those under way, and until
 *    then its destination has a pattern that is NaN as any type.
 *  - Products of four warps are asynchronous: they are computed, and read shared memory, when their
 *    threads wait for them, which may not see sums before. They see only stores that were fenced.
 *  - A bulk copy overwrites what threads read only if these have fenced their loads since, besides
 *    the barrier that orders it behind them.
 *  - mbarriers count arrivals and bytes of each phase. A wait joins the clocks of those who arrived
 *    in the phase that it waited for. Initialisation has to be ordered in front of every use, and
 *    fenced in front of copies.
 *  - Accesses to global memory lie in an operand and are aligned to their size; operands are
 *    written only by stg, each element once, and read through ldg only if no kernel writes them.
 *  - What the launch in front may write is loaded by ldg_late alone, behind the wait for that launch
 *    that the very thread made and passed the operand through. Nor does a thread store before it.
 *  - A block of a cluster reads the shared memory of another only while that one has threads that
 *    have not ended; what orders it behind that one's writes is a barrier of the cluster.
 *  - When no thread and no copy can go on, the threads have met a deadlock.
 *
 * This file is long because all of it is one model, which kernels must not see into.
 */
#include "machine.hpp"

#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace machine
{

enum { WARP = 32, BARRIERS_MAX = 48, STACK_BYTES = 1 << 16, STATUS_FAULT = 3 };
/* Bytes on both sides of an operand that are nobody's. */
static const size_t APART = (size_t)4 << 20;
/* Named barriers, and behind them those that a warp's collectives meet at. */
enum { NAMED = 16, MEETINGS = 4 };
enum meeting { MEET_SYNC, MEET_MMA, MEET_SHUFFLE, MEET_MATCH };
/* Warps whose products are one. */
enum { WARPGROUP = 4 };

typedef uint32_t tick;
typedef std::vector<tick> vector_clock; /* of threads, then of the copies of each mbarrier */

static void join(vector_clock &to, const vector_clock &from)
{
    for (size_t i = 0; i < to.size(); i++)
        if (from[i] > to[i])
            to[i] = from[i];
}

/* ---- Fibers ---------------------------------------------------------------------------------- */

/* A product of four warps that is under way, of one thread: 16 numbers of its two rows of the left
 * matrix, where the right one is, how many sums it goes to, and how many commits come after it. */
struct late_product {
    float left[2][16];
    uint32_t at, commits;
};

struct fiber {
    void *stack_pointer;
    uint8_t *stack;
    uint32_t thread;
    bool done, knows_start;              /* of shared memory: check_shared_start was called */
    bool waited;                         /* for the launch in front, */
    std::vector<const uint8_t *> passed; /* and starts of operands that it may read since */
    vector_clock clock;
    std::vector<uint32_t> stored, loaded; /* words, since its last fence_async */
    std::vector<late_product> products;
    float *sums;              /* of those products; NaN until they are waited for, */
    std::vector<float> known; /* and what they were before */
};

static fiber *running;
static void *scheduler_stack;
static uint64_t progress;             /* grows whenever a thread or a copy got on */
static uint32_t block[3];             /* of a cluster its first */
static uint32_t threads, cluster = 1; /* of a block, and blocks of a cluster */

/* Saves what a function must keep, and goes on where another one stopped (System V ABI, x86-64). */
extern "C" void quern_switch(void **from, void *to);
asm(".text\n"
    ".globl quern_switch\n"
    "quern_switch:\n"
    "    push %rbp\n    push %rbx\n    push %r12\n    push %r13\n    push %r14\n    push %r15\n"
    "    mov %rsp, (%rdi)\n    mov %rsi, %rsp\n"
    "    pop %r15\n    pop %r14\n    pop %r13\n    pop %r12\n    pop %rbx\n    pop %rbp\n"
    "    ret\n");

static void give_way()
{
    quern_switch(&running->stack_pointer, scheduler_stack);
}

[[noreturn]] static void fault(const char *format, ...)
{
    va_list list;

    printf("fault: block %u,%u thread %u: ", block[0],
           block[1] + (running ? running->thread / threads : 0),
           running ? running->thread % threads : 0);
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    printf("\n");
    fflush(stdout);
    _exit(STATUS_FAULT);
}

static uint64_t random_state;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((random_state >> 33) % n);
}

/* ---- Global memory --------------------------------------------------------------------------- */

struct operand {
    uint8_t *at;
    size_t bytes;
    bool written; /* by the kernel */
    bool late;    /* read by it, and perhaps written by the launch in front */
    std::string name;
    std::vector<bool> stored; /* of each byte */
};
static std::vector<operand> operands;

static operand &find_operand(const void *at, size_t bytes, const char *what)
{
    for (operand &o : operands)
        if ((const uint8_t *)at >= o.at && (const uint8_t *)at + bytes <= o.at + o.bytes)
            return o;
    for (operand &o : operands)
        if ((const uint8_t *)at >= o.at - APART && (const uint8_t *)at < o.at + o.bytes + APART)
            fault("%s of %zu bytes at %td of operand %s, which has %zu", what, bytes,
                  (const uint8_t *)at - o.at, o.name.c_str(), o.bytes);
    fault("%s of %zu bytes at an address in no operand", what, bytes);
}

static operand &check_global(const void *at, size_t bytes, size_t alignment, const char *what)
{
    operand &o = find_operand(at, bytes, what);

    if ((uintptr_t)at % alignment)
        fault("%s of operand %s at %td, which is no multiple of %zu", what, o.name.c_str(),
              (const uint8_t *)at - o.at, alignment);
    return o;
}

static void check_read(const void *at, size_t bytes, size_t alignment, const char *what)
{
    const operand &o = check_global(at, bytes, alignment, what);

    if (o.written)
        fault("%s of operand %s, which the kernel writes", what, o.name.c_str());
    if (o.late)
        fault("%s of operand %s, which the launch in front may write: it wants ldg_late", what,
              o.name.c_str());
}

static void check_late_read(const void *at, size_t bytes, size_t alignment)
{
    const operand &o = check_global(at, bytes, alignment, "load");

    if (o.written)
        fault("load of operand %s, which the kernel writes", o.name.c_str());
    if (!running->waited)
        fault("load of operand %s before the launch in front is waited for", o.name.c_str());
    for (const uint8_t *start : running->passed)
        if (start == o.at)
            return;
    fault("load of operand %s, which the wait for the launch in front was not told of",
          o.name.c_str());
}

static void check_store(const void *at, size_t bytes)
{
    operand &o = check_global(at, bytes, bytes, "store");
    const size_t first = (size_t)((const uint8_t *)at - o.at);

    if (!o.written)
        fault("store to operand %s, which is only read", o.name.c_str());
    if (!running->waited)
        fault("store to operand %s before the launch in front is waited for", o.name.c_str());
    for (size_t i = first; i < first + bytes; i++) {
        if (o.stored[i])
            fault("second store to byte %zu of operand %s", i, o.name.c_str());
        o.stored[i] = true;
    }
}

/* ---- Shared memory --------------------------------------------------------------------------- */

enum : uint32_t { NOBODY = UINT32_MAX, BARRIER_WORD = UINT32_MAX - 1 };

struct reader {
    uint32_t thread;
    tick at;
};
struct word {
    uint32_t writer = NOBODY; /* a thread, or behind those the copies of an mbarrier */
    tick written;
    bool published = false; /* to the matrix units that read shared memory */
    std::vector<reader> readers;
    std::vector<uint32_t> loading; /* threads that read it and have not fenced that */
};
static std::vector<uint8_t> shared; /* of all blocks of a cluster */
static std::vector<word> words;
static uint32_t shared_bytes;      /* of a block */
static std::vector<uint32_t> live; /* threads of each block that have not ended */

static uint32_t rank_here()
{
    return running->thread / threads;
}

static uint32_t threads_together()
{
    return cluster * threads;
}

static bool is_behind(uint32_t thread, tick at)
{
    return running->clock[thread] >= at;
}

/* Where in `shared` a place of the running thread's block is, or of another one's of its cluster. */
static uint32_t place_of(uint32_t rank, uint32_t at, uint32_t bytes, uint32_t alignment,
                         const char *what)
{
    if (!running->knows_start)
        fault("%s at %u of shared memory before check_shared_start", what, at);
    if (at + bytes > shared_bytes || at + bytes < at)
        fault("%s of %u bytes at %u of shared memory, which has %u", what, bytes, at, shared_bytes);
    if (at % alignment)
        fault("%s of %u bytes at %u of shared memory, which is no multiple of %u", what, bytes, at,
              alignment);
    return rank * shared_bytes + at;
}

static uint32_t place_here(uint32_t at, uint32_t bytes, uint32_t alignment, const char *what)
{
    return place_of(rank_here(), at, bytes, alignment, what);
}

/* The address that a kernel has of such a place in its block's shared memory, for messages. */
static uint32_t shown(uint32_t place)
{
    return place % shared_bytes;
}

static bool is_thread(uint32_t writer)
{
    return writer < threads_together();
}

static uint32_t shown_writer(uint32_t writer)
{
    return is_thread(writer) ? writer % threads : writer - threads_together();
}

static void read_words(uint32_t at, uint32_t bytes)
{
    const uint32_t self = running->thread;

    /* To read a byte or a half is to read the word that it lies in. */
    for (uint32_t i = at / 4; i < (at + bytes + 3) / 4; i++) {
        word &w = words[i];
        if (w.writer == NOBODY)
            fault("read at %u of shared memory, which nobody wrote", shown(i * 4));
        if (w.writer == BARRIER_WORD)
            fault("read at %u of shared memory, which is an mbarrier's", shown(i * 4));
        if (!is_behind(w.writer, w.written))
            fault("race at %u of shared memory: read of what %s %u writes, with no barrier between",
                  shown(i * 4), is_thread(w.writer) ? "thread" : "a copy of mbarrier",
                  shown_writer(w.writer));
        bool known = false;
        for (reader &r : w.readers)
            if (r.thread == self) {
                r.at = running->clock[self];
                known = true;
            }
        if (!known)
            w.readers.push_back({self, running->clock[self]});
        if (std::find(w.loading.begin(), w.loading.end(), self) == w.loading.end()) {
            w.loading.push_back(self);
            running->loaded.push_back(i);
        }
    }
}

static void write_words(uint32_t at, uint32_t bytes, uint32_t writer, tick when)
{
    for (uint32_t i = at / 4; i < (at + bytes) / 4; i++) {
        word &w = words[i];
        if (w.writer == BARRIER_WORD)
            fault("write at %u of shared memory, which is an mbarrier's", shown(i * 4));
        if (w.writer != NOBODY && !is_behind(w.writer, w.written))
            fault("race at %u of shared memory: write to what %s %u writes, with no barrier "
                  "between",
                  shown(i * 4), is_thread(w.writer) ? "thread" : "a copy of mbarrier",
                  shown_writer(w.writer));
        for (const reader &r : w.readers)
            if (!is_behind(r.thread, r.at))
                fault("race at %u of shared memory: write to what thread %u reads, with no barrier "
                      "between",
                      shown(i * 4), r.thread % threads);
        w.readers.clear();
        w.loading.clear();
        w.writer = writer;
        w.written = when;
        w.published = false;
    }
}

/* ---- Barriers that threads meet at ----------------------------------------------------------- */

struct rendezvous {
    uint32_t arrived, expected;
    uint64_t generation;
    vector_clock clock[2]; /* of those who meet in this generation, and in the one before */
};
/* Named ones of each block, then those of warps, of groups of four warps, and of the cluster. */
static std::vector<rendezvous> rendezvous_of;

static uint32_t warps_together()
{
    return cluster * ((threads + WARP - 1) / WARP);
}

/* WAITS: until all have come. Who does not wait is not ordered behind the others. */
enum stay { WAITS, GOES_ON };

static void meet(uint32_t which, uint32_t count, bool orders, stay stays = WAITS)
{
    rendezvous &r = rendezvous_of[which];
    const uint64_t generation = r.generation;

    progress++;
    if (r.arrived && r.expected != count)
        fault("barrier %u is met by %u threads here and by %u elsewhere", which, count, r.expected);
    r.expected = count;
    vector_clock &clock = r.clock[generation & 1];
    if (orders && !r.arrived)
        clock.assign(running->clock.size(), 0);
    if (orders)
        join(clock, running->clock);
    if (++r.arrived == count) {
        r.arrived = 0;
        r.generation++;
    } else {
        while (stays == WAITS && r.generation == generation)
            give_way();
    }
    if (orders) {
        if (stays == WAITS)
            join(running->clock, clock);
        running->clock[running->thread]++;
    }
}

static void meet_warp(meeting kind)
{
    meet(cluster * NAMED + running->thread / WARP * MEETINGS + kind, WARP, kind == MEET_SYNC);
}

static void meet_named(uint32_t id, uint32_t count, stay stays = WAITS)
{
    meet(rank_here() * NAMED + id, count, true, stays);
}

/* All threads of the cluster that have not ended meet; who ends meanwhile is not waited for. */
static void meet_cluster()
{
    rendezvous &r = rendezvous_of.back();
    const uint64_t generation = r.generation;
    vector_clock &clock = r.clock[generation & 1];

    progress++;
    if (!r.arrived++)
        clock.assign(running->clock.size(), 0);
    join(clock, running->clock);
    while (r.generation == generation) {
        uint32_t left = 0;
        for (const uint32_t of_block : live)
            left += of_block;
        if (r.arrived == left) {
            r.arrived = 0;
            r.generation++;
            progress++;
        } else {
            give_way();
        }
    }
    join(running->clock, clock);
    running->clock[running->thread]++;
}

/* ---- mbarriers and copies -------------------------------------------------------------------- */

struct mbarrier {
    uint32_t at, count, pending;
    int64_t bytes;       /* that this phase still waits for; negative: that came unexpected */
    uint64_t phase;      /* phases that have ended */
    uint32_t maker;      /* who initialised it, */
    tick made;           /* and when */
    bool fenced;         /* for the copies' sake */
    vector_clock clock;  /* of those who arrived in this phase */
    vector_clock behind; /* and in the one that ended last */
};
struct copy {
    uint32_t thread; /* that arrives behind it, or NOBODY: the barrier counts its bytes */
    uint32_t to, bytes, barrier;
    const uint8_t *from;
    uint64_t phase;
    tick at;
};
static std::vector<mbarrier> mbarriers;
static std::vector<copy> copies;
static tick copy_ticks;
/* Arrivals that wait for copies of a thread, with what it had done before. */
struct late_arrival {
    uint32_t thread, barrier;
    vector_clock clock;
};
static std::vector<late_arrival> late_arrivals;

static uint32_t find_mbarrier(uint32_t place)
{
    const uint32_t at = place_here(place, 8, 8, "mbarrier");

    for (uint32_t i = 0; i < mbarriers.size(); i++)
        if (mbarriers[i].at == at) {
            if (!is_behind(mbarriers[i].maker, mbarriers[i].made))
                fault("mbarrier at %u is used with no barrier behind its initialisation",
                      shown(at));
            return i;
        }
    fault("there is no mbarrier at %u", shown(at));
}

static void end_phase(uint32_t which)
{
    mbarrier &b = mbarriers[which];

    if (b.pending || b.bytes)
        return;
    for (const copy &c : copies)
        if (c.barrier == which && c.phase == b.phase)
            fault("a phase of the mbarrier at %u ends before its copies do: it expected too few "
                  "bytes",
                  shown(b.at));
    b.phase++;
    b.pending = b.count;
    b.behind = b.clock;
    progress++;
}

static void arrive(uint32_t which, const vector_clock &clock)
{
    mbarrier &b = mbarriers[which];

    if (!b.pending)
        fault("mbarrier at %u has more arrivals than the %u it was made for", shown(b.at), b.count);
    join(b.clock, clock);
    b.pending--;
    progress++;
    end_phase(which);
}

static void arrive_here(uint32_t which)
{
    arrive(which, running->clock);
    running->clock[running->thread]++;
}

/* Lets those arrive whose copies have all landed. */
static void arrive_late(uint32_t thread, uint32_t barrier)
{
    for (const copy &c : copies)
        if (c.thread == thread && c.barrier == barrier)
            return;
    for (size_t i = 0; i < late_arrivals.size(); i++)
        if (late_arrivals[i].thread == thread && late_arrivals[i].barrier == barrier) {
            const late_arrival a = late_arrivals[i];
            late_arrivals.erase(late_arrivals.begin() + (std::ptrdiff_t)i);
            arrive(barrier, a.clock);
            return;
        }
}

/* One copy of those under way arrives. */
static void land()
{
    const size_t i = random_below((uint32_t)copies.size());
    const copy c = copies[i];
    mbarrier &b = mbarriers[c.barrier];

    copies.erase(copies.begin() + (std::ptrdiff_t)i);
    memcpy(&shared[c.to], c.from, c.bytes);
    tick &landed = b.clock[threads_together() + c.barrier];
    if (c.at > landed)
        landed = c.at;
    progress++;
    if (c.thread != NOBODY) {
        arrive_late(c.thread, c.barrier);
        return;
    }
    b.bytes -= c.bytes;
    end_phase(c.barrier);
}

static void check_no_loads(uint32_t at, uint32_t bytes)
{
    for (uint32_t i = at / 4; i < (at + bytes) / 4; i++)
        if (!words[i].loading.empty())
            fault("race at %u of shared memory: bulk copy over what thread %u reads, with no "
                  "fence_async between",
                  shown(i * 4), words[i].loading[0] % threads);
}

static void start_copy(uint32_t thread, uint32_t to, const void *from, uint32_t bytes,
                       uint32_t barrier, const char *what)
{
    const uint32_t which = find_mbarrier(barrier), place = place_here(to, bytes, 16, what);

    check_read(from, bytes, 16, what);
    if (thread == NOBODY)
        check_no_loads(place, bytes);
    write_words(place, bytes, threads_together() + which, ++copy_ticks);
    memset(&shared[place], 0xff, bytes);
    copies.push_back(
        {thread, place, bytes, which, (const uint8_t *)from, mbarriers[which].phase, copy_ticks});
    progress++;
}

/* ---- A launch -------------------------------------------------------------------------------- */

static void (*body)(const void *kernel, const uint64_t *arguments);
static const void *kernel;
static const uint64_t *arguments;

static void run_fiber()
{
    body(kernel, arguments);
    running->done = true;
    live[rank_here()]--;
    progress++;
    for (;;)
        give_way();
}

static void start_fiber(fiber &f, uint32_t thread)
{
    f.thread = thread;
    f.done = f.knows_start = f.waited = false;
    f.passed.clear();
    f.stored.clear();
    f.loaded.clear();
    f.products.clear();
    f.sums = nullptr;
    f.clock.assign(threads_together() + cluster * BARRIERS_MAX, 0);
    f.clock[thread] = 1;
    if (!f.stack)
        f.stack = (uint8_t *)malloc(STACK_BYTES);
    void **top = (void **)((uintptr_t)(f.stack + STACK_BYTES) & ~(uintptr_t)63);
    *--top = nullptr; /* the ABI's alignment at a function's entry */
    *--top = (void *)run_fiber;
    for (int i = 0; i < 6; i++) /* the registers that quern_switch takes back */
        *--top = nullptr;
    f.stack_pointer = top;
}

static void run_warp(std::vector<fiber> &fibers, uint32_t warp, uint32_t &left)
{
    for (uint32_t t = warp * WARP; t < (warp + 1) * WARP && t < threads_together(); t++) {
        if (fibers[t].done)
            continue;
        running = &fibers[t];
        quern_switch(&scheduler_stack, fibers[t].stack_pointer);
        left -= fibers[t].done;
    }
}

/* Runs a block, or a cluster of them. */
static void run_block()
{
    static std::vector<fiber> fibers;
    const uint32_t warps = warps_together();
    std::vector<uint32_t> order(warps);
    uint32_t left = threads_together();

    shared.assign(cluster * shared_bytes, 0xff);
    words.assign(cluster * shared_bytes / 4, word());
    live.assign(cluster, threads);
    rendezvous_of.assign(cluster * NAMED + warps * MEETINGS + warps / WARPGROUP + 1, rendezvous());
    late_arrivals.clear();
    mbarriers.clear();
    copies.clear();
    fibers.resize(left);
    for (uint32_t t = 0; t < left; t++)
        start_fiber(fibers[t], t);
    for (uint32_t w = 0; w < warps; w++)
        order[w] = w;
    while (left) {
        const uint64_t before = progress;
        for (uint32_t w = 0; w < warps; w++) {
            std::swap(order[w], order[w + random_below(warps - w)]);
            run_warp(fibers, order[w], left);
        }
        if (!copies.empty() && (progress == before || random_below(2)))
            land();
        else if (progress == before && left)
            fault("deadlock: %u threads wait, and nothing is under way", left);
    }
    if (!copies.empty())
        fault("the block ended with %zu copies under way", copies.size());
}

/* ---- Numbers --------------------------------------------------------------------------------- */

static uint32_t bits_of_f32(float f)
{
    uint32_t bits;

    memcpy(&bits, &f, sizeof bits);
    return bits;
}

float f32_of_f16(uint32_t half)
{
    const uint32_t sign = (half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;

    if (exponent == 31)
        return f32_of_bits(sign | 0x7f800000 | mantissa << 13);
    if (!exponent)
        return (sign ? -1.0f : 1.0f) * (float)mantissa * 0x1p-24f;
    return f32_of_bits(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t f16_of_f32(float value)
{
    const uint32_t bits = bits_of_f32(value), sign = bits >> 16 & 0x8000;
    const uint32_t magnitude = bits & 0x7fffffff;

    if (magnitude > 0x7f800000)
        return 0x7fff;
    if (magnitude >= 0x477ff000) /* halfway to 2^16 and beyond */
        return (uint16_t)(sign | 0x7c00);
    if (magnitude < 0x38800000) /* below the least normal f16: a multiple of 2^-24 */
        return (uint16_t)(sign | (uint32_t)nearbyintf(f32_of_bits(magnitude) * 0x1p24f));
    return (uint16_t)(sign | (magnitude - (112u << 23) + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

uint16_t bf16_of_f32(float value)
{
    const uint32_t bits = bits_of_f32(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return 0x7fff;
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The threads of four warps meet, whose first warp's number is a multiple of four. */
static void meet_warpgroup()
{
    const uint32_t group = running->thread / WARP / WARPGROUP;

    if (group >= warps_together() / WARPGROUP)
        fault("a product of four warps in a warp that has no three others");
    meet(cluster * NAMED + warps_together() * MEETINGS + group, WARP * WARPGROUP, false);
}

/* What the lanes of each warp bring to a product, a shuffle or a comparison. */
struct brought {
    float numbers[WARP][12]; /* 8 of the left matrix, 4 of the right */
    float value[WARP];
    uint32_t compared[WARP];
};
static std::vector<brought> of_warps;

static brought &brought_here()
{
    if (of_warps.size() <= running->thread / WARP)
        of_warps.resize(running->thread / WARP + 1);
    return of_warps[running->thread / WARP];
}

/*
 * mma.m16n8k16: of the left matrix, lane g·4+q has rows g and g+8, columns 2q, 2q+1, 2q+8, 2q+9; of
 * the right one, column g and the same rows; of the result, rows g and g+8, columns 2q and 2q+1.
 * Exact products are summed in double and rounded to f32 once, which hardware is near to.
 */
template <float (*WIDEN)(uint32_t)>
static void multiply_matrices(float (&c)[4], const uint32_t (&bits)[6])
{
    const uint32_t lane = running->thread % WARP, g = lane / 4, q = lane % 4;

    for (uint32_t i = 0; i < 6; i++) {
        brought_here().numbers[lane][2 * i] = WIDEN(bits[i] & 0xffff);
        brought_here().numbers[lane][2 * i + 1] = WIDEN(bits[i] >> 16);
    }
    meet_warp(MEET_MMA);
    const brought &b = brought_here();
    for (uint32_t j = 0; j < 4; j++) {
        const uint32_t column = q * 2 + j % 2;
        double total = (double)c[j];
        for (uint32_t from = 0; from < 4; from++)
            for (uint32_t k = 0; k < 4; k++)
                total += (double)b.numbers[g * 4 + from][k / 2 * 4 + j / 2 * 2 + k % 2] *
                         (double)b.numbers[column * 4 + from][8 + k];
        c[j] = (float)total;
    }
    meet_warp(MEET_MMA);
}

/* A number of A for a product of four warps: row `row` and column `column` of a matrix that starts
 * at `at`, in rows of 128 bytes whose 16-byte pieces are swizzled by the row's number. */
static float product_operand(uint32_t at, uint32_t row, uint32_t column)
{
    const uint32_t plain = at + row * 128 + column * 2, swizzled = plain ^ (plain >> 7 & 7) << 4;
    const uint32_t place = place_here(swizzled & ~3u, 4, 4, "product");
    uint16_t half;

    read_words(place, 4);
    if (!words[place / 4].published)
        fault("product of what thread %u stored at %u of shared memory and did not fence",
              words[place / 4].writer % threads, shown(place));
    memcpy(&half, &shared[place + swizzled % 4], sizeof half);
    return widen_bf16(half);
}

/* Starts a product. The caller's fragment is that of mma.m16n8k16's left matrix. */
void start_product(float *sums, uint32_t count, const uint32_t (&bits)[4], uint32_t at)
{
    const uint32_t lane = running->thread % WARP, g = lane / 4;
    late_product p = {};

    if (at % 32 || at % 1024 >= 128)
        fault("product of a matrix at %u of shared memory: eight rows start at multiples of 1024",
              at);
    if (running->sums && running->sums != sums)
        fault("products into other sums before those under way are waited for");
    for (uint32_t i = 0; i < 4; i++) {
        brought_here().numbers[lane][2 * i] = widen_bf16(bits[i] & 0xffff);
        brought_here().numbers[lane][2 * i + 1] = widen_bf16(bits[i] >> 16);
    }
    meet_warpgroup();
    for (uint32_t from = 0; from < 4; from++)
        for (uint32_t i = 0; i < 8; i++)
            p.left[i / 2 % 2][from * 2 + i % 2 + i / 4 * 8] =
                brought_here().numbers[g * 4 + from][i];
    meet_warpgroup();
    p.at = at;
    if (!running->sums) {
        running->sums = sums;
        running->known.assign(sums, sums + count);
        for (uint32_t i = 0; i < count; i++)
            sums[i] = NAN;
    }
    running->products.push_back(p);
}

/* Computes the products that more than `left` commits came after. */
void finish_products(uint32_t left)
{
    const uint32_t q = running->thread % 4;

    meet_warpgroup();
    while (!running->products.empty() && running->products[0].commits > left) {
        const late_product p = running->products[0];
        running->products.erase(running->products.begin());
        for (size_t j = 0; j < running->known.size(); j++) {
            double total = (double)running->known[j];
            for (uint32_t k = 0; k < 16; k++)
                total += (double)p.left[j / 2 % 2][k] *
                         (double)product_operand(p.at, (uint32_t)(j / 4 * 8 + q * 2 + j % 2), k);
            running->known[j] = (float)total;
        }
    }
    if (running->products.empty() && running->sums) {
        std::copy(running->known.begin(), running->known.end(), running->sums);
        running->sums = nullptr;
    }
    progress++;
}

/* ---- Accesses of the running thread ---------------------------------------------------------- */

void read_shared(unsigned at, void *value, unsigned bytes)
{
    read_shared_of(rank_here(), at, value, bytes);
}

void read_shared_of(unsigned rank, unsigned at, void *value, unsigned bytes)
{
    if (rank >= cluster)
        fault("read of the shared memory of block %u of a cluster of %u", rank, cluster);
    if (!live[rank])
        fault("read of the shared memory of block %u of the cluster, which has ended", rank);
    const uint32_t place = place_of(rank, at, bytes, bytes, "read");

    read_words(place, bytes);
    memcpy(value, &shared[place], bytes);
}

unsigned window_here()
{
    return rank_here() << 24;
}

unsigned in_window(unsigned at)
{
    if (at >> 24 != rank_here())
        fault("read at an address of the window of block %u, by block %u of the cluster", at >> 24,
              rank_here());
    return at & 0xffffff;
}

void check(bool right)
{
    if (!right)
        fault("what the kernel checks is not so");
}

void write_shared(unsigned at, const void *value, unsigned bytes)
{
    if (bytes % 4)
        fault("write of %u bytes to shared memory, where only words are written", bytes);
    const uint32_t place = place_here(at, bytes, bytes, "write");
    write_words(place, bytes, running->thread, running->clock[running->thread]);
    for (unsigned i = place / 4; i < (place + bytes) / 4; i++)
        running->stored.push_back(i);
    memcpy(&shared[place], value, bytes);
}

void read_global(const void *from, void *value, size_t bytes)
{
    check_read(from, bytes, bytes, "load");
    memcpy(value, from, bytes);
}

void read_late(const void *from, void *value, size_t bytes)
{
    check_late_read(from, bytes, bytes);
    memcpy(value, from, bytes);
}

void write_global(void *to, const void *value, size_t bytes)
{
    check_store(to, bytes);
    memcpy(to, value, bytes);
}

void know_launch(const void *const *starts, size_t count)
{
    running->waited = true;
    for (size_t i = 0; i < count; i++)
        if (starts[i])
            running->passed.push_back(find_operand(starts[i], 1, "wait for").at);
}

/* ---- The program ----------------------------------------------------------------------------- */

/* A launch is a text file of such lines, arguments in the kernel's order:
 *
 *     grid X Y | threads N | shared BYTES | seed S
 *     operand NAME FILE read|write     an address: that of the file, mapped
 *     operand NAME FILE late           read, and the launch in front may write it
 *     operand NAME FILE typed          written if the kernel's parameter is no pointer to const
 *     number BYTES VALUE               4 or 8 bytes
 */

struct launch {
    uint32_t grid[2] = {1, 1};
    std::vector<uint64_t> arguments;
    std::vector<bool> stored; /* by parameter of the kernel: what it points to may be written */
};

static bool map_operand(const char *name, const char *path, bool written, bool late, launch &l)
{
    struct stat st;
    const int fd = open(path, written ? O_RDWR : O_RDONLY);

    if (fd < 0 || fstat(fd, &st) || !st.st_size)
        return false;
    const size_t bytes = (size_t)st.st_size;
    uint8_t *const room = (uint8_t *)mmap(nullptr, bytes + 2 * APART, PROT_NONE,
                                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    void *const at = room == MAP_FAILED
                         ? MAP_FAILED
                         : mmap(room + APART, bytes, PROT_READ | (written ? PROT_WRITE : 0),
                                MAP_SHARED | MAP_FIXED, fd, 0);
    close(fd);
    if (at == MAP_FAILED)
        return false;
    operands.push_back(
        {(uint8_t *)at, bytes, written, late, name, std::vector<bool>(written ? bytes : 0)});
    l.arguments.push_back((uint64_t)(uintptr_t)at);
    return true;
}

static bool read_line(const char *line, launch &l)
{
    char name[64], path[4096], access[8];
    unsigned long long value;
    unsigned bytes;

    if (sscanf(line, "grid %u %u", &l.grid[0], &l.grid[1]) == 2 ||
        sscanf(line, "threads %u", &threads) == 1 || sscanf(line, "shared %u", &shared_bytes) == 1)
        return true;
    if (sscanf(line, "seed %llu", &value) == 1) {
        random_state = value;
        return true;
    }
    if (sscanf(line, "operand %63s %4095s %7s", name, path, access) == 3) {
        const size_t index = l.arguments.size();
        const bool stored = index < l.stored.size() && l.stored[index];
        return map_operand(name, path, strcmp(access, "typed") ? !strcmp(access, "write") : stored,
                           !strcmp(access, "late"), l);
    }
    if (sscanf(line, "number %u %llu", &bytes, &value) == 2) {
        l.arguments.push_back(value);
        return true;
    }
    return false;
}

static bool read_launch(const char *path, launch &l)
{
    FILE *const file = fopen(path, "r");
    char line[4400];
    bool right = file != nullptr;

    while (right && fgets(line, sizeof line, file))
        right = read_line(line, l);
    if (!right)
        printf("cannot read the launch %s: %s\n", path, file ? line : "no such file");
    return right && threads;
}

int run(const char *path, const bool *stored, size_t parameters,
        void (*call)(const void *kernel, const uint64_t *arguments), const void *what,
        uint32_t blocks)
{
    launch l;

    cluster = blocks;
    l.stored.assign(stored, stored + parameters);
    if (!read_launch(path, l))
        return 2;
    if (l.arguments.size() != parameters) {
        printf("the launch has %zu arguments and the kernel %zu\n", l.arguments.size(), parameters);
        return 2;
    }
    body = call;
    kernel = what;
    arguments = l.arguments.data();
    if (!cluster || l.grid[1] % cluster || (cluster > 1 && threads % WARP)) {
        printf("the launch has clusters of %u blocks of %u threads, in a grid of %u blocks\n",
               cluster, threads, l.grid[1]);
        return 2;
    }
    for (block[1] = 0; block[1] < l.grid[1]; block[1] += cluster)
        for (block[0] = 0; block[0] < l.grid[0]; block[0]++)
            run_block();
    printf("done\n");
    return 0;
}

} // namespace machine

/* ---- The primitives that are no templates ---------------------------------------------------- */

unsigned item()
{
    return machine::running->thread % machine::threads;
}

unsigned group_x()
{
    return machine::block[0];
}

unsigned group_y()
{
    return machine::block[1] + machine::rank_here();
}

unsigned cluster_rank()
{
    return machine::rank_here();
}

void sync_cluster()
{
    machine::meet_cluster();
}

void check_shared_start()
{
    machine::running->knows_start = true;
}

void prefetch(const void *from)
{
    machine::check_read(from, 1, 1, "prefetch");
}

void barrier_init(unsigned at, unsigned arrivals)
{
    using namespace machine;

    const uint32_t place = place_here(at, 8, 8, "mbarrier");
    if (mbarriers.size() == cluster * BARRIERS_MAX)
        fault("more than %d mbarriers", (int)BARRIERS_MAX);
    write_words(place, 8, BARRIER_WORD, 0);
    mbarriers.push_back({place, arrivals, arrivals, 0, 0, running->thread,
                         running->clock[running->thread], false,
                         vector_clock(running->clock.size()), vector_clock(running->clock.size())});
}

void barrier_init_fence()
{
    for (machine::mbarrier &b : machine::mbarriers)
        b.fenced |= b.maker == machine::running->thread;
}

void barrier_arrive(unsigned at)
{
    machine::arrive_here(machine::find_mbarrier(at));
}

void barrier_expect(unsigned at, unsigned bytes)
{
    const uint32_t which = machine::find_mbarrier(at);

    machine::mbarriers[which].bytes += bytes;
    machine::arrive_here(which);
}

/* Waits until the phase of this parity has ended: the one under way, or the one before it. */
void barrier_wait(unsigned at, unsigned parity)
{
    using namespace machine;
    const uint32_t which = find_mbarrier(at);

    while ((mbarriers[which].phase & 1) == parity)
        give_way();
    join(running->clock, mbarriers[which].behind);
    progress++;
}

void bulk_copy(unsigned to, const void *from, unsigned bytes, unsigned barrier, bool)
{
    using namespace machine;
    const uint32_t which = find_mbarrier(barrier);

    if (!bytes || bytes % 16)
        fault("a bulk copy of %u bytes, which is no multiple of 16", bytes);
    if (!mbarriers[which].fenced)
        fault("a bulk copy for the mbarrier at %u, whose initialisation no fence follows", barrier);
    start_copy(NOBODY, to, from, bytes, barrier, "bulk copy");
}

void copy_16(unsigned to, const void *from, unsigned barrier)
{
    machine::start_copy(machine::running->thread, to, from, 16, barrier, "copy");
}

void arrive_behind_copies(unsigned at)
{
    using namespace machine;
    const uint32_t which = find_mbarrier(at);

    late_arrivals.push_back({running->thread, which, running->clock});
    running->clock[running->thread]++;
    arrive_late(running->thread, which);
}

void sync_group()
{
    machine::meet_named(0, machine::threads);
}

static void check_named(unsigned id, unsigned count)
{
    if (!id || id >= machine::NAMED || !count || count % machine::WARP)
        machine::fault("barrier %u of %u threads: of 1 to 15, of whole warps", id, count);
}

void sync_some(unsigned id, unsigned count)
{
    check_named(id, count);
    machine::meet_named(id, count);
}

void arrive_some(unsigned id, unsigned count)
{
    check_named(id, count);
    machine::meet_named(id, count, machine::GOES_ON);
}

void sync_warp()
{
    machine::meet_warp(machine::MEET_SYNC);
}

float exponential(float x)
{
    return std::exp(x);
}

float shuffle_xor(float value, unsigned lanes)
{
    machine::brought_here().value[machine::running->thread % machine::WARP] = value;
    machine::meet_warp(machine::MEET_SHUFFLE);
    const float other =
        machine::brought_here().value[(machine::running->thread ^ lanes) % machine::WARP];
    machine::meet_warp(machine::MEET_SHUFFLE);
    return other;
}

unsigned lanes_alike(unsigned value)
{
    unsigned alike = 0;

    machine::brought_here().compared[machine::running->thread % machine::WARP] = value;
    machine::meet_warp(machine::MEET_MATCH);
    for (unsigned lane = 0; lane < machine::WARP; lane++)
        alike |= (unsigned)(machine::brought_here().compared[lane] == value) << lane;
    machine::meet_warp(machine::MEET_MATCH);
    return alike;
}

void mma_bf16(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
              unsigned b1)
{
    machine::multiply_matrices<machine::widen_bf16>(c, {a0, a1, a2, a3, b0, b1});
}

void mma_f16(float (&c)[4], unsigned a0, unsigned a1, unsigned a2, unsigned a3, unsigned b0,
             unsigned b1)
{
    machine::multiply_matrices<machine::f32_of_f16>(c, {a0, a1, a2, a3, b0, b1});
}

void fence_async()
{
    using namespace machine;

    for (const uint32_t i : running->stored)
        if (words[i].writer == running->thread)
            words[i].published = true;
    for (const uint32_t i : running->loaded) {
        std::vector<uint32_t> &loading = words[i].loading;
        const auto self = std::find(loading.begin(), loading.end(), running->thread);
        if (self != loading.end()) /* who wrote the word since has taken all off */
            loading.erase(self);
    }
    running->stored.clear();
    running->loaded.clear();
}

void products_commit()
{
    for (machine::late_product &p : machine::running->products)
        p.commits++;
}

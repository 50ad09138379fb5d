/* SPDX-License-Identifier: MIT */
// Primitives of GPUs whose matrix units four warps feed together (wgmma, which only code for
// sm_90a has), beside those of prelude/ptx: src/cpu/machine.hpp defines the same names for a CPU.
// (PTX ISA 8.3, "Asynchronous Warpgroup Level Matrix Instructions" and "Data Movement".)

#ifndef QUERN_CPU
// Starts a copy of 16 bytes, both places aligned to that. It is counted by arrive_behind_copies.
DEVICE void copy_16(u32 to, const void *from, u32)
{
    asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16;" ::"r"(shared_address(to)),
                 "l"(from)
                 : "memory");
}
// The calling thread arrives at a barrier as soon as all copies that it started have landed; the
// barrier was made for that arrival, like any other.
DEVICE void arrive_behind_copies(u32 at)
{
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(at))
                 : "memory");
}

// Asynchronous products: products_begin, any number of warpgroup_mma into the same sums,
// products_commit. products_wait<LEFT> waits for all committed so far but the LEFT last; only then
// may what they read be overwritten, and only with LEFT = 0 may sums be read.
DEVICE void products_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
DEVICE void products_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <u32 LEFT> DEVICE void products_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(LEFT) : "memory");
}

// What the matrix unit is told of 16 columns of A in shared memory: the start, 1024 bytes from
// eight rows to the next eight, and that 16-byte pieces of rows of 128 bytes are swizzled.
DEVICE u64 matrix_descriptor(u32 at)
{
    u64 v;
    asm("mov.b64 %0, {%1, %2};"
        : "=l"(v) : "r"(shared_address(at) >> 4 | 1u << 16), "r"(64u | 1u << 30));
    return v;
}

// Adds W times A transposed to sums, for 64 rows of W, 16 of each warp, 16 columns, and as many
// rows of A as there are sums of two. W's fragments are those of mma.m16n8k16. A lies at `at` (a
// multiple of 32 in blocks that start at multiples of 1024), a row in each 128 bytes, swizzled.
DEVICE void warpgroup_mma(float (&d)[16], u32 a0, u32 a1, u32 a2, u32 a3, u32 at)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
                 "{%16, %17, %18, %19}, %20, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(matrix_descriptor(at)));
}
DEVICE void warpgroup_mma(float (&d)[32], u32 a0, u32 a1, u32 a2, u32 a3, u32 at)
{
    asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
                 "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
                 "{%32, %33, %34, %35}, %36, 1, 1, 1, 0;"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]),
                   "+f"(d[6]), "+f"(d[7]), "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]),
                   "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]), "+f"(d[16]), "+f"(d[17]),
                   "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                   "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]),
                   "+f"(d[30]), "+f"(d[31])
                 : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "l"(matrix_descriptor(at)));
}

// Two numbers of bf16 at a time, rounded to nearest even.
DEVICE u32 both_bf16(float value)
{
    u32 v;
    asm("cvt.rn.bf16x2.f32 %0, %1, %1;" : "=r"(v) : "f"(value));
    return v;
}
DEVICE u32 product_bf16x2(u32 a, u32 b)
{
    u32 v;
    asm("mul.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
DEVICE u32 difference_bf16x2(u32 a, u32 b)
{
    u32 v;
    asm("sub.rn.bf16x2 %0, %1, %2;" : "=r"(v) : "r"(a), "r"(b));
    return v;
}
#endif

#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How long an NVIDIA GPU takes to read a layer's weights and do nothing with them: what a launch of
few rows cannot be faster than.

    reading_cuda.py    layers of language models, in the bytes of each weight format: microseconds
                       a launch, TB/s, and the stages that were quickest

A workgroup on each multiprocessor fills a ring of stages in shared memory by bulk copies, as family
ring does, and nobody looks at what came. Weights are cold and launches wait for each other as in
layers_cuda.py, whose clockwork this is; so a layer's time there and here may be compared. It needs
what that needs, and a GPU of compute capability 9.0 or later. Exit status 77: there is none."""
import sys

from layers_cuda import ROTATE_BYTES, TIMED, microseconds, torch  # ends with 77 without torch

STAGES = [(32768, 3, 2048), (32768, 6, 2048), (16384, 4, 1024), (16384, 6, 2048), (8192, 12, 1024)]
BITS = {"NF4, groups of 64": 4.5, "int4, groups of 128": 4.125, "MXFP4": 4.25, "fp8": 8, "bf16": 16}

KERNEL = r"""
typedef unsigned u32;
typedef unsigned long long u64;

static __device__ bool one_lane()
{
    u32 is;
    asm volatile("{.reg .pred p; elect.sync _|p, 0xffffffff; selp.u32 %0, 1, 0, p;}" : "=r"(is));
    return is;
}

static __device__ void wait(u32 barrier, u32 parity)
{
    u32 over = 0;
    while (!over)
        asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2;"
                     "selp.u32 %0, 1, 0, p;}" : "=r"(over) : "r"(barrier), "r"(parity) : "memory");
}

// bytes: a multiple of STAGE, all of which are read.
extern "C" __global__ void __launch_bounds__(32) read(const char *w, int bytes)
{
    extern __shared__ __align__(128) char ring[];
    __shared__ u64 full[DEPTH];
    const u32 to = (u32)__cvta_generic_to_shared(ring);
    const u32 barriers = (u32)__cvta_generic_to_shared(full);
    const u32 stages = bytes / STAGE, first = blockIdx.x, step = gridDim.x;
    const u32 mine = first < stages ? (stages - first + step - 1) / step : 0;
    u32 slot = 0, parity = 1;

    if (threadIdx.x == 0) {
        for (int i = 0; i < DEPTH; i++)
            asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(barriers + 8 * i));
        asm volatile("fence.mbarrier_init.release.cluster;");
    }
    __syncwarp();
#pragma unroll 1
    for (u32 i = 0; i < mine + DEPTH; i++) {
        const u32 barrier = barriers + 8 * slot;
        if (i >= DEPTH && i - DEPTH < mine)
            wait(barrier, parity);
        if (i < mine && one_lane()) {
            const char *const from = w + (first + i * step) * (u64)STAGE;
            asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(barrier),
                         "r"(STAGE) : "memory");
#pragma unroll
            for (int at = 0; at < STAGE; at += PIECE)
                asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                             "[%0], [%1], %2, [%3];" ::"r"(to + slot * STAGE + at), "l"(from + at),
                             "r"(PIECE), "r"(barrier) : "memory");
        }
        __syncwarp();
        if (++slot == DEPTH)
            slot = 0, parity ^= 1;
    }
}
"""


def reader(stage, depth, piece):
    """A function that reads some of the bytes of a tensor."""
    sizes = {"STAGE": stage, "DEPTH": depth, "PIECE": piece}
    text = "".join(f"#define {name} {value}\n" for name, value in sizes.items()) + KERNEL
    kernel = torch.cuda._compile_kernel(text, "read")
    kernel.set_shared_memory_config(stage * depth)
    grid = torch.cuda.get_device_properties(0).multi_processor_count

    def read(tensor, nbytes):
        kernel((grid, 1, 1), (32, 1, 1), (tensor, nbytes), shared_mem=stage * depth)

    return read


def main():
    if not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0):
        print("reading_cuda.py: no GPU that copies in bulk", file=sys.stderr)
        return 77
    print(f"{torch.cuda.get_device_name(0)}, torch {torch.__version__}")
    readers = {words: reader(*words) for words in STAGES}
    pool = torch.empty(2 * ROTATE_BYTES, dtype=torch.uint8, device="cuda")
    for name, bits in BITS.items():
        print(f"{name}:\n     N      K        MB        us   TB/s  stage x stages by copy")
        for n, k in TIMED:
            nbytes = int(n * k * bits / 8) // 32768 * 32768
            starts = range(0, max(ROTATE_BYTES, nbytes), nbytes)[:64]
            parts = [pool[at:at + nbytes] for at in starts if at + nbytes <= pool.numel()]
            times = {words: microseconds(lambda i: read(parts[i % len(parts)], nbytes))
                     for words, read in readers.items()}
            best = min(times, key=times.get)
            print(f"{n:6} {k:6} {nbytes / 1e6:9.2f} {times[best]:9.2f} "
                  f"{nbytes / times[best] / 1e6:6.2f}  {best[0]} x {best[1]} by {best[2]}",
                  flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

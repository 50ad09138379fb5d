/* SPDX-License-Identifier: MIT */
/*
 * Kernels that others published, for the same work as ours: bitsandbytes' gemm_4bit_simt of version
 * 0.50.2, as its host code launches them (csrc/gemm_4bit_simt.cu). One kernel for each type and
 * each M from 1 to 8, the last one for larger M too; 128 work-items, four rows of W a workgroup.
 */
#ifndef TOOLS_PEER_H
#define TOOLS_PEER_H

#include "command.h"

#define PEER_NAME "bitsandbytes 0.50.2"

/* A library of the peer's with code objects for many targets. Free it with peer_close. */
struct peer {
    const char *rocm; /* release of the compiler, "7.1" */
    char *bytes;      /* the library's file */
    quern_offload *offload;
    const char *target;
};

/* Guest addresses of a problem's operands; 0 for one that it has not. */
struct peer_operands {
    uint64_t a, b, scales, absmax8, code, offset, c, bias;
};

/* One launch; everything it points to lives as long as the peer and this. */
struct peer_launch {
    char symbol[128];
    const void *object;
    size_t object_bytes;
    struct quern_sim_launch launch; /* its kernarg is `arguments` */
    unsigned char arguments[84];
};

/*
 * Reads, from the directory of the wheel's libraries, the one whose code for `target` the
 * disassembler of ROCm 6.4 knows: newer compilers' code for RDNA has forms that it does not.
 */
int peer_open(const char *directory, const struct quern_target_info *target, struct peer *peer);
void peer_close(struct peer *peer);

/* EXIT_MISUSE, with the reason, for a problem that the peer has no kernel for. */
int peer_accepts(const struct quern_problem *problem, const char *text);

/* The launch that does m rows of an accepted problem. */
int peer_launch_of(const struct peer *peer, const struct quern_problem *problem, int64_t m,
                   const struct peer_operands *operands, struct peer_launch *out);

#endif

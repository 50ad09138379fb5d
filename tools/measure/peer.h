/* SPDX-License-Identifier: MIT */
/*
 * Kernels of others for the same work as ours. bitsandbytes' gemm_4bit_simt of version 0.50.2, as
 * its host code launches them (csrc/gemm_4bit_simt.cu): one kernel for each type and each M from 1
 * to 8, the last one for larger M too; 128 work-items, four rows of W a workgroup. And plain
 * W4A16 kernels in Triton (tests/peers/w4a16.py), compiled for the target by triton's PyPI package:
 * tiles of 16 rows of A and 64 of W, for op=moe with the expert of a block of 16 slots.
 */
#ifndef TOOLS_PEER_H
#define TOOLS_PEER_H

#include "command/command.h"

/* One launch of a peer's kernel. What it points to lives as long as this struct and the peer, and
 * until the peer's next launch_of. */
struct peer_launch {
    char symbol[128];
    const void *object;
    size_t object_bytes;
    struct quern_sim_launch launch; /* its kernarg is `arguments` */
    unsigned char arguments[96];
    uint64_t trips; /* how often the kernel's loop goes round, for a count of its text where it
                       cannot be run (static_count.h); 0: not known */
};

struct peer;
struct peer_kind {
    const char *name, *title;
    const char *library; /* the directory in which the tests' scripts put the peer's code */
    int block_rows;      /* of op=moe; 0: it has no kernel for that */
    /* Finds the peer's code for `target` in `directory`. */
    int (*open)(const char *directory, const struct quern_target_info *target, struct peer *peer);
    /* EXIT_MISUSE, with the reason, for a problem that the peer has no kernel for. */
    int (*accepts)(const struct quern_problem *problem, const char *text);
    /* The launch that does m rows of an accepted problem, on operands of a software GPU. */
    int (*launch_of)(struct peer *peer, const struct quern_problem *problem, int64_t m,
                     const struct quern_args *operands, struct peer_launch *out);
};
extern const struct peer_kind peer_bitsandbytes, peer_triton;

/* A peer with its code objects. Zero-initialise it; free it with peer_close. */
struct peer {
    const struct peer_kind *kind;
    const char *compiler; /* "ROCm 7.1" */
    const char *target;
    unsigned wave_size;
    char *bytes;            /* the file: bitsandbytes' library, Triton's code object */
    quern_offload *offload; /* in that library */
    char *directory;        /* of Triton's code objects */
};
void peer_close(struct peer *peer);

#endif

/* SPDX-License-Identifier: MIT */
/*
 * What the examples that own a GPU ask of its runtime, as an engine has it for itself: gpu_hip.c
 * does it with HIP, gpu_cuda.c with the CUDA driver. Streams and graphs are the runtime's own, as
 * pointers. Copies are in the order of their stream, and complete when that was waited for. What
 * fails ends the program with a line that says so.
 */
#ifndef EXAMPLES_GPU_H
#define EXAMPLES_GPU_H

#include <quern/quern.h>

#include <stddef.h>

/* What quern is to open the GPU by. */
extern const enum quern_device_kind gpu_kind;

/* Makes the first GPU the calling thread's: once in each thread, before anything below. */
void gpu_use(void);
void *gpu_allocate(size_t bytes);
void gpu_free(void *address);
void *gpu_stream(void);
void gpu_stream_free(void *stream);
void gpu_copy_to(void *there, const void *from, size_t bytes, void *stream);
void gpu_copy_from(void *to, const void *there, size_t bytes, void *stream);
void gpu_wait(void *stream);
/* What is put on the stream between the two is recorded, and runs when the graph is replayed. */
void gpu_capture(void *stream);
void *gpu_capture_end(void *stream);
void gpu_replay(void *graph, void *stream);
void gpu_graph_free(void *graph);

/* Ends the program with quern's sentence unless the call succeeded. */
void gpu_check(quern_status status, const char *doing);

#endif

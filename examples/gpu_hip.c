/* SPDX-License-Identifier: MIT */
/* gpu.h with the HIP runtime. */
#include "gpu.h"

#define __HIP_PLATFORM_AMD__
#include <hip/hip_runtime_api.h>

#include <stdio.h>
#include <stdlib.h>

const enum quern_device_kind gpu_kind = QUERN_DEVICE_HIP;

static void check(hipError_t error, const char *doing)
{
    if (error != hipSuccess) {
        fprintf(stderr, "%s: %s\n", doing, hipGetErrorName(error));
        exit(1);
    }
}

void gpu_use(void)
{
    check(hipSetDevice(0), "choosing the GPU");
}

void *gpu_allocate(size_t bytes)
{
    void *address;

    check(hipMalloc(&address, bytes), "allocating");
    return address;
}

void gpu_free(void *address)
{
    check(hipFree(address), "freeing");
}

void *gpu_stream(void)
{
    hipStream_t stream;

    check(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking), "making a stream");
    return stream;
}

void gpu_stream_free(void *stream)
{
    check(hipStreamDestroy(stream), "freeing a stream");
}

void gpu_copy_to(void *there, const void *from, size_t bytes, void *stream)
{
    check(hipMemcpyAsync(there, from, bytes, hipMemcpyHostToDevice, stream), "copying");
}

void gpu_copy_from(void *to, const void *there, size_t bytes, void *stream)
{
    check(hipMemcpyAsync(to, there, bytes, hipMemcpyDeviceToHost, stream), "copying");
}

void gpu_wait(void *stream)
{
    check(hipStreamSynchronize(stream), "waiting");
}

void gpu_capture(void *stream)
{
    check(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), "capturing");
}

void *gpu_capture_end(void *stream)
{
    hipGraph_t graph;
    hipGraphExec_t exec;

    check(hipStreamEndCapture(stream, &graph), "ending a capture");
    check(hipGraphInstantiate(&exec, graph, NULL, NULL, 0), "making a graph");
    check(hipGraphDestroy(graph), "freeing a graph");
    return exec;
}

void gpu_replay(void *graph, void *stream)
{
    check(hipGraphLaunch(graph, stream), "replaying");
}

void gpu_graph_free(void *graph)
{
    check(hipGraphExecDestroy(graph), "freeing a graph");
}

void gpu_check(quern_status status, const char *doing)
{
    if (status != QUERN_OK) {
        fprintf(stderr, "%s: %s\n", doing, quern_last_error()->message);
        exit(1);
    }
}

/* SPDX-License-Identifier: MIT */
/* gpu.h with the CUDA driver. With the CUDA runtime it is the same: that uses the same context. */
#include "gpu.h"

#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

const enum quern_device_kind gpu_kind = QUERN_DEVICE_CUDA;

static void check(CUresult error, const char *doing)
{
    const char *name = "an unknown error";

    if (error != CUDA_SUCCESS) {
        cuGetErrorName(error, &name);
        fprintf(stderr, "%s: %s\n", doing, name);
        exit(1);
    }
}

static CUdeviceptr address_of(const void *there)
{
    return (CUdeviceptr)(uintptr_t)there;
}

/* The device's primary context, which the process has until it ends. */
void gpu_use(void)
{
    CUcontext context;
    CUdevice device;

    check(cuInit(0), "starting the driver");
    check(cuDeviceGet(&device, 0), "choosing the GPU");
    check(cuDevicePrimaryCtxRetain(&context, device), "choosing the GPU");
    check(cuCtxSetCurrent(context), "choosing the GPU");
}

void *gpu_allocate(size_t bytes)
{
    CUdeviceptr address;

    check(cuMemAlloc(&address, bytes), "allocating");
    return (void *)(uintptr_t)address;
}

void gpu_free(void *address)
{
    check(cuMemFree(address_of(address)), "freeing");
}

void *gpu_stream(void)
{
    CUstream stream;

    check(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), "making a stream");
    return stream;
}

void gpu_stream_free(void *stream)
{
    check(cuStreamDestroy(stream), "freeing a stream");
}

void gpu_copy_to(void *there, const void *from, size_t bytes, void *stream)
{
    check(cuMemcpyHtoDAsync(address_of(there), from, bytes, stream), "copying");
}

void gpu_copy_from(void *to, const void *there, size_t bytes, void *stream)
{
    check(cuMemcpyDtoHAsync(to, address_of(there), bytes, stream), "copying");
}

void gpu_wait(void *stream)
{
    check(cuStreamSynchronize(stream), "waiting");
}

void gpu_capture(void *stream)
{
    check(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL), "capturing");
}

void *gpu_capture_end(void *stream)
{
    CUgraph graph;
    CUgraphExec exec;

    check(cuStreamEndCapture(stream, &graph), "ending a capture");
    check(cuGraphInstantiate(&exec, graph, 0), "making a graph");
    check(cuGraphDestroy(graph), "freeing a graph");
    return exec;
}

void gpu_replay(void *graph, void *stream)
{
    check(cuGraphLaunch(graph, stream), "replaying");
}

void gpu_graph_free(void *graph)
{
    check(cuGraphExecDestroy(graph), "freeing a graph");
}

void gpu_check(quern_status status, const char *doing)
{
    if (status != QUERN_OK) {
        fprintf(stderr, "%s: %s\n", doing, quern_last_error()->message);
        exit(1);
    }
}

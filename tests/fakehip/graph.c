/* SPDX-License-Identifier: MIT */
/* Stream capture and graphs. */
#include "fake.h"

#include <stdlib.h>

struct ihipGraph *fake_captures;
_Thread_local hipStreamCaptureMode fake_mode = hipStreamCaptureModeGlobal;

/*
 * What CUDA documents and HIP follows: in the global mode a thread may do nothing unsafe while any
 * capture of the global mode is under way, or one of its own that is not relaxed; in the
 * thread-local mode, its own count; in the relaxed mode none do.
 */
hipError_t fake_check_unsafe(void)
{
    hipError_t error = hipSuccess;

    for (struct ihipGraph *g = fake_captures; g; g = g->next) {
        const bool own = pthread_equal(g->owner, pthread_self());
        const bool forbids =
            fake_mode != hipStreamCaptureModeRelaxed && g->mode != hipStreamCaptureModeRelaxed &&
            (own ||
             (g->mode == hipStreamCaptureModeGlobal && fake_mode == hipStreamCaptureModeGlobal));
        if (forbids) {
            g->invalidated = true;
            error = hipErrorStreamCaptureUnsupported;
        }
    }
    return error;
}

hipError_t fake_check_wait(struct ihipStream_t *s)
{
    if (s->capture) {
        s->capture->invalidated = true;
        return hipErrorStreamCaptureUnsupported;
    }
    /* to wait for the null stream is to wait for every blocking one */
    for (struct ihipGraph *g = s == s->device->streams ? fake_captures : NULL; g; g = g->next)
        if (g->origin->device == s->device && g->origin->blocking) {
            g->invalidated = true;
            return hipErrorStreamCaptureImplicit;
        }
    return hipSuccess;
}

hipError_t hipThreadExchangeStreamCaptureMode(hipStreamCaptureMode *mode)
{
    FAKE_ENTER(hipThreadExchangeStreamCaptureMode);
    if (!mode || *mode < hipStreamCaptureModeGlobal || *mode > hipStreamCaptureModeRelaxed)
        return fake_return(hipErrorInvalidValue);
    const hipStreamCaptureMode old = fake_mode;
    fake_mode = *mode;
    *mode = old;
    return hipSuccess;
}

hipError_t hipStreamIsCapturing(hipStream_t handle, hipStreamCaptureStatus *status)
{
    FAKE_ENTER(hipStreamIsCapturing);
    if (!status)
        return fake_return(hipErrorInvalidValue);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    hipError_t error = s ? hipSuccess : hipErrorInvalidHandle;
    for (struct ihipGraph *g = s && !handle ? fake_captures : NULL; g; g = g->next)
        if (g->origin->device == s->device && g->origin->blocking)
            error = hipErrorStreamCaptureImplicit;
    if (error == hipSuccess)
        *status = !s->capture               ? hipStreamCaptureStatusNone
                  : s->capture->invalidated ? hipStreamCaptureStatusInvalidated
                                            : hipStreamCaptureStatusActive;
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipStreamBeginCapture(hipStream_t handle, hipStreamCaptureMode mode)
{
    FAKE_ENTER(hipStreamBeginCapture);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    struct ihipGraph *const g = calloc(1, sizeof *g);
    hipError_t error = !g           ? hipErrorOutOfMemory
                       : !s         ? hipErrorInvalidHandle
                       : !handle    ? hipErrorStreamCaptureUnsupported
                       : s->capture ? hipErrorIllegalState
                                    : hipSuccess;
    if (error == hipSuccess) {
        *g = (struct ihipGraph){
            .next = fake_captures, .origin = s, .owner = pthread_self(), .mode = mode};
        fake_captures = s->capture = g;
    } else {
        free(g);
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

static void free_commands(struct ihipGraph *g)
{
    for (struct fake_command *c = g->first; c;) {
        struct fake_command *const next = c->next;
        fake_command_free(c);
        c = next;
    }
    g->first = g->last = NULL;
}

static void end(struct ihipGraph *g)
{
    struct ihipGraph **at = &fake_captures;

    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        for (struct ihipStream_t *s = fake_devices[i].streams; s; s = s->next)
            if (s->capture == g)
                s->capture = NULL;
}

hipError_t hipStreamEndCapture(hipStream_t handle, hipGraph_t *out)
{
    FAKE_ENTER(hipStreamEndCapture);
    if (!out)
        return fake_return(hipErrorInvalidValue);
    *out = NULL;
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    struct ihipGraph *const g = s ? s->capture : NULL;
    hipError_t error =
        !s               ? hipErrorInvalidHandle
        : !g             ? hipErrorIllegalState
        : g->origin != s ? hipErrorStreamCaptureUnmatched
        : g->mode != hipStreamCaptureModeRelaxed && !pthread_equal(g->owner, pthread_self())
            ? hipErrorStreamCaptureWrongThread
            : hipSuccess;
    if (error == hipSuccess) {
        end(g);
        if (g->invalidated) {
            free_commands(g);
            free(g);
            error = hipErrorStreamCaptureInvalidated;
        } else {
            *out = g;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipGraphDestroy(hipGraph_t g)
{
    FAKE_ENTER(hipGraphDestroy);
    if (!g)
        return fake_return(hipErrorInvalidValue);
    free_commands(g);
    free(g);
    return hipSuccess;
}

static void append(struct ihipGraph *g, const struct fake_command *from)
{
    struct fake_command *const c = fake_command_new(from->kind);

    *c = *from;
    c->next = NULL;
    c->after = NULL;
    c->after_count = 0;
    if (g->first)
        g->last->next = c;
    else
        g->first = c;
    g->last = c;
}

hipError_t hipGraphInstantiate(hipGraphExec_t *exec, hipGraph_t graph, hipGraphNode_t *node,
                               char *text, size_t size)
{
    (void)node, (void)text, (void)size;
    FAKE_ENTER(hipGraphInstantiate);
    if (!exec || !graph)
        return fake_return(hipErrorInvalidValue);
    if (!(*exec = calloc(1, sizeof **exec)))
        return fake_return(hipErrorOutOfMemory);
    for (const struct fake_command *c = graph->first; c; c = c->next)
        append(&(*exec)->graph, c);
    return hipSuccess;
}

hipError_t hipGraphExecDestroy(hipGraphExec_t exec)
{
    FAKE_ENTER(hipGraphExecDestroy);
    if (!exec)
        return fake_return(hipErrorInvalidValue);
    free_commands(&exec->graph);
    free(exec);
    return hipSuccess;
}

hipError_t hipGraphLaunch(hipGraphExec_t exec, hipStream_t handle)
{
    struct ihipGraph copy = {0};

    FAKE_ENTER(hipGraphLaunch);
    if (!exec)
        return fake_return(hipErrorInvalidValue);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    hipError_t error = s ? fake_state(s->device) : hipErrorInvalidHandle;
    if (error == hipSuccess)
        for (const struct fake_command *c = exec->graph.first; c; c = c->next)
            append(&copy, c);
    while (copy.first) {
        struct fake_command *const c = copy.first;
        copy.first = c->next;
        c->next = NULL;
        if (error == hipSuccess)
            error = fake_submit(s, c);
        else
            fake_command_free(c);
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

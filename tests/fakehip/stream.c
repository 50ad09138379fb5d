/* SPDX-License-Identifier: MIT */
/*
 * Streams: a queue and a thread each, started with the first command. Order is by tickets: command
 * n of a stream is done when its `done` is n. One condition serves all who wait.
 */
#include "fake.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;

struct fake_command *fake_command_new(enum fake_kind kind)
{
    struct fake_command *const c = calloc(1, sizeof *c);

    if (!c)
        abort(); /* a test out of memory has nothing to say */
    c->kind = kind;
    return c;
}

void fake_command_free(struct fake_command *c)
{
    free(c->after);
    free(c);
}

/* ---- The thread of a stream ------------------------------------------------------------------ */

static uint64_t now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Without the lock. */
static hipError_t run_kernel(const struct fake_command *c)
{
    struct quern_sim_launch launch = QUERN_INIT(struct quern_sim_launch);

    if (!c->function->module->sim)
        return fake_run_kernel(c);
    launch.kernel = c->function->kernel->name;
    memcpy(launch.grid, c->grid, sizeof launch.grid);
    memcpy(launch.block, c->block, sizeof launch.block);
    launch.lds_bytes = c->lds_bytes;
    launch.kernarg = c->kernarg;
    launch.kernarg_bytes = c->kernarg_bytes;
    return quern_sim_run(c->function->module->sim, &launch, NULL) ? hipErrorLaunchFailure
                                                                  : hipSuccess;
}

static void wait_for(const struct fake_command *c)
{
    for (size_t i = 0; i < c->after_count; i++)
        while (c->after[i].stream->done < c->after[i].ticket)
            pthread_cond_wait(&changed, &fake_lock);
}

static void run(struct ihipStream_t *s, struct fake_command *c)
{
    hipError_t error = hipSuccess;

    wait_for(c);
    const bool dead = fake_state(s->device) != hipSuccess;
    pthread_mutex_unlock(&fake_lock);
    if (c->kind == FAKE_KERNEL && !dead)
        error = run_kernel(c);
    else if (c->kind == FAKE_COPY && !dead)
        memmove(c->to, c->from, c->bytes);
    else if (c->kind == FAKE_HOST && !dead)
        c->host(c->user);
    pthread_mutex_lock(&fake_lock);
    if (error != hipSuccess)
        s->device->sticky = error;
    if (c->kind == FAKE_RECORD)
        c->event->nanoseconds = now();
}

static void *work(void *user)
{
    struct ihipStream_t *const s = user;

    pthread_mutex_lock(&fake_lock);
    for (;;) {
        while (!s->first && !s->destroyed)
            pthread_cond_wait(&changed, &fake_lock);
        struct fake_command *const c = s->first;
        if (!c)
            break;
        s->first = c->next;
        run(s, c);
        s->done++;
        pthread_cond_broadcast(&changed);
        fake_command_free(c);
    }
    pthread_mutex_unlock(&fake_lock);
    return NULL;
}

/* Whether it has one, now if not before. */
static bool start(struct ihipStream_t *s)
{
    sigset_t all, old;

    if (s->running)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    s->running = !pthread_create(&s->thread, NULL, work, s);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return s->running;
}

/* ---- Order ----------------------------------------------------------------------------------- */

static struct ihipStream_t *stream_new(struct fake_device *d, bool blocking)
{
    struct ihipStream_t *const s = calloc(1, sizeof *s), **at = &d->streams;

    if (!s)
        abort();
    s->device = d;
    s->blocking = blocking;
    while (*at) /* the null stream stays the first */
        at = &(*at)->next;
    return *at = s;
}

struct ihipStream_t *fake_stream(hipStream_t handle)
{
    if (!handle) {
        struct fake_device *const d = &fake_devices[fake_current];
        return d->streams ? d->streams : stream_new(d, true);
    }
    for (int i = 0; i < FAKE_DEVICES_MAX; i++)
        for (struct ihipStream_t *s = fake_devices[i].streams; s; s = s->next)
            if (s == handle)
                return s->destroyed ? NULL : s;
    return NULL;
}

static void add_dependence(struct fake_command *c, struct ihipStream_t *stream, uint64_t ticket)
{
    if (stream->done >= ticket)
        return;
    c->after = realloc(c->after, (c->after_count + 1) * sizeof *c->after);
    if (!c->after)
        abort();
    c->after[c->after_count++] = (struct fake_dependence){stream, ticket};
}

/* The null stream waits for blocking ones and they for it. */
static void order_with_null(struct ihipStream_t *s, struct fake_command *c)
{
    struct ihipStream_t *const null = s->device->streams;

    if (s != null && s->blocking && null)
        add_dependence(c, null, null->issued);
    for (struct ihipStream_t *o = s == null ? null->next : NULL; o; o = o->next)
        if (o->blocking)
            add_dependence(c, o, o->issued);
}

static struct ihipGraph *blocking_capture(const struct fake_device *d)
{
    for (struct ihipGraph *g = fake_captures; g; g = g->next)
        if (g->origin->device == d && g->origin->blocking)
            return g;
    return NULL;
}

hipError_t fake_submit(struct ihipStream_t *s, struct fake_command *c)
{
    struct ihipGraph *const g = s->capture;
    struct ihipGraph *const implicit =
        s == s->device->streams && !g ? blocking_capture(s->device) : NULL;

    if (implicit || (g && g->invalidated)) {
        if (implicit)
            implicit->invalidated = true;
        fake_command_free(c);
        return implicit ? hipErrorStreamCaptureImplicit : hipErrorStreamCaptureInvalidated;
    }
    if (!g && !start(s)) {
        fake_command_free(c);
        return hipErrorOutOfMemory;
    }
    struct fake_command **const first = g ? &g->first : &s->first;
    struct fake_command **const last = g ? &g->last : &s->last;
    if (!g) {
        order_with_null(s, c);
        s->issued++;
    }
    if (*first)
        (*last)->next = c;
    else
        *first = c;
    *last = c;
    pthread_cond_broadcast(&changed);
    return hipSuccess;
}

void fake_wait(struct ihipStream_t *s, uint64_t ticket)
{
    while (s->done < ticket)
        pthread_cond_wait(&changed, &fake_lock);
}

void fake_wait_device(struct fake_device *d)
{
    for (struct ihipStream_t *s = d->streams; s; s = s->next)
        fake_wait(s, s->issued);
}

hipError_t hipDeviceSynchronize(void)
{
    FAKE_ENTER(hipDeviceSynchronize);
    if (fake_current >= fake_device_count())
        return fake_return(hipErrorNoDevice);
    pthread_mutex_lock(&fake_lock);
    hipError_t error = fake_check_unsafe();
    if (error == hipSuccess) {
        fake_wait_device(&fake_devices[fake_current]);
        error = fake_state(&fake_devices[fake_current]);
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

/* ---- Streams --------------------------------------------------------------------------------- */

hipError_t hipStreamCreateWithFlags(hipStream_t *out, unsigned flags)
{
    FAKE_ENTER(hipStreamCreateWithFlags);
    if (!out || (flags & ~(unsigned)hipStreamNonBlocking) || fake_current >= fake_device_count())
        return fake_return(hipErrorInvalidValue);
    pthread_mutex_lock(&fake_lock);
    fake_stream(NULL); /* the null stream stands first */
    *out = stream_new(&fake_devices[fake_current], !(flags & hipStreamNonBlocking));
    pthread_mutex_unlock(&fake_lock);
    return hipSuccess;
}

hipError_t hipStreamCreate(hipStream_t *out)
{
    FAKE_ENTER(hipStreamCreate);
    return hipStreamCreateWithFlags(out, hipStreamDefault);
}

hipError_t hipStreamDestroy(hipStream_t handle)
{
    FAKE_ENTER(hipStreamDestroy);
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = handle ? fake_stream(handle) : NULL;
    if (s) {
        fake_wait(s, s->issued);
        s->destroyed = true; /* the struct stays: events may name it */
        pthread_cond_broadcast(&changed);
    }
    pthread_mutex_unlock(&fake_lock);
    if (s && s->running)
        pthread_join(s->thread, NULL);
    return fake_return(s ? hipSuccess : hipErrorInvalidHandle);
}

hipError_t hipStreamSynchronize(hipStream_t handle)
{
    FAKE_ENTER(hipStreamSynchronize);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    hipError_t error = s ? fake_check_wait(s) : hipErrorInvalidHandle;
    if (error == hipSuccess) {
        fake_wait(s, s->issued);
        error = fake_state(s->device);
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipStreamQuery(hipStream_t handle)
{
    FAKE_ENTER(hipStreamQuery);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    hipError_t error = s ? fake_check_wait(s) : hipErrorInvalidHandle;
    if (error == hipSuccess && (error = fake_state(s->device)) == hipSuccess)
        error = s->done == s->issued ? hipSuccess : hipErrorNotReady;
    pthread_mutex_unlock(&fake_lock);
    return error == hipErrorNotReady ? error : fake_return(error);
}

static bool is_under_way(const struct ihipGraph *capture)
{
    const struct ihipGraph *g = capture ? fake_captures : NULL;

    while (g && g != capture)
        g = g->next;
    return g != NULL;
}

hipError_t hipStreamWaitEvent(hipStream_t handle, hipEvent_t event, unsigned flags)
{
    FAKE_ENTER(hipStreamWaitEvent);
    if (!event || flags)
        return fake_return(hipErrorInvalidValue);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    hipError_t error = s ? hipSuccess : hipErrorInvalidHandle;
    if (s && is_under_way(event->capture)) {
        /* a fork within a capture: this stream's work is recorded too from here on */
        if (s->capture && s->capture != event->capture)
            error = hipErrorStreamCaptureMerge;
        else
            s->capture = event->capture;
    } else if (s && event->stream) {
        struct fake_command *const c = fake_command_new(FAKE_NOTHING);
        add_dependence(c, event->stream, event->ticket);
        error = fake_submit(s, c);
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipLaunchHostFunc(hipStream_t handle, hipHostFn_t function, void *user)
{
    FAKE_ENTER(hipLaunchHostFunc);
    if (!function)
        return fake_return(hipErrorInvalidValue);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    hipError_t error = s ? fake_state(s->device) : hipErrorInvalidHandle;
    if (error == hipSuccess) {
        struct fake_command *const c = fake_command_new(FAKE_HOST);
        c->host = function;
        c->user = user;
        error = fake_submit(s, c);
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

/* ---- Events ---------------------------------------------------------------------------------- */

hipError_t hipEventCreate(hipEvent_t *event)
{
    FAKE_ENTER(hipEventCreate);
    if (!event)
        return fake_return(hipErrorInvalidValue);
    *event = calloc(1, sizeof **event);
    return fake_return(*event ? hipSuccess : hipErrorOutOfMemory);
}

hipError_t hipEventDestroy(hipEvent_t event)
{
    FAKE_ENTER(hipEventDestroy);
    if (!event)
        return fake_return(hipErrorInvalidValue);
    pthread_mutex_lock(&fake_lock);
    if (event->stream)
        fake_wait(event->stream, event->ticket);
    pthread_mutex_unlock(&fake_lock);
    free(event);
    return hipSuccess;
}

hipError_t hipEventRecord(hipEvent_t event, hipStream_t handle)
{
    FAKE_ENTER(hipEventRecord);
    if (!event)
        return fake_return(hipErrorInvalidHandle);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    struct ihipStream_t *const s = fake_stream(handle);
    hipError_t error = s ? fake_state(s->device) : hipErrorInvalidHandle;
    if (error == hipSuccess && s->capture) {
        event->capture = s->capture;
    } else if (error == hipSuccess) {
        struct fake_command *const c = fake_command_new(FAKE_RECORD);
        c->event = event;
        if ((error = fake_submit(s, c)) == hipSuccess) {
            event->capture = NULL;
            event->stream = s;
            event->ticket = s->issued;
        }
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipEventQuery(hipEvent_t event)
{
    FAKE_ENTER(hipEventQuery);
    if (!event)
        return fake_return(hipErrorInvalidHandle);
    pthread_mutex_lock(&fake_lock);
    const bool done = !event->stream || event->stream->done >= event->ticket;
    pthread_mutex_unlock(&fake_lock);
    return done ? hipSuccess : hipErrorNotReady;
}

hipError_t hipEventSynchronize(hipEvent_t event)
{
    hipError_t error = hipSuccess;

    FAKE_ENTER(hipEventSynchronize);
    if (!event)
        return fake_return(hipErrorInvalidHandle);
    pthread_mutex_lock(&fake_lock);
    if (event->stream) {
        fake_wait(event->stream, event->ticket);
        error = fake_state(event->stream->device);
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipEventElapsedTime(float *milliseconds, hipEvent_t start, hipEvent_t stop)
{
    FAKE_ENTER(hipEventElapsedTime);
    if (!milliseconds || !start || !stop || !start->stream || !stop->stream)
        return fake_return(milliseconds ? hipErrorInvalidHandle : hipErrorInvalidValue);
    pthread_mutex_lock(&fake_lock);
    const bool done = start->stream->done >= start->ticket && stop->stream->done >= stop->ticket;
    *milliseconds = (float)(int64_t)(stop->nanoseconds - start->nanoseconds) * 1e-6f;
    pthread_mutex_unlock(&fake_lock);
    return fake_return(done ? hipSuccess : hipErrorNotReady);
}

/* SPDX-License-Identifier: MIT */
/* Device memory: host memory that the device's software GPU maps, if it has one. Addresses are the
 * guest's, or reserved, so a host that reads one as a pointer crashes, as it would with a discrete
 * GPU. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct fake_memory *fake_memory_at(struct fake_device *d, uint64_t address, size_t bytes)
{
    struct fake_memory *m = d->memory;

    while (m && !(address >= m->address && address - m->address <= m->bytes &&
                  bytes <= m->bytes - (address - m->address)))
        m = m->next;
    return m;
}

/* Gives the memory its address. */
static bool place(struct fake_device *d, struct fake_memory *m, void *host, size_t bytes)
{
    if (d->sim)
        return !quern_sim_map(d->sim, host, bytes, QUERN_SIM_READ_WRITE, "hipMalloc", &m->address);
    m->reserved = mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    m->address = (uint64_t)(uintptr_t)m->reserved;
    return m->reserved != MAP_FAILED;
}

static hipError_t allocate(struct fake_device *d, void **address, size_t bytes)
{
    struct fake_memory *const m = calloc(1, sizeof *m);
    uint8_t *const host = aligned_alloc(256, (bytes + 255) & ~(size_t)255);

    if (!m || !host || !place(d, m, host, bytes)) {
        free(m);
        free(host);
        return hipErrorOutOfMemory;
    }
    /* what a fresh allocation holds is nobody's business: make it show */
    memset(host, 0xa5, bytes);
    m->bytes = bytes;
    m->host = host;
    m->next = d->memory;
    d->memory = m;
    *address = (void *)(uintptr_t)m->address;
    return hipSuccess;
}

hipError_t hipMalloc(void **address, size_t bytes)
{
    FAKE_ENTER(hipMalloc);
    if (!address || fake_current >= fake_device_count())
        return fake_return(hipErrorInvalidValue);
    *address = NULL;
    if (!bytes)
        return hipSuccess;
    pthread_mutex_lock(&fake_lock);
    struct fake_device *const d = &fake_devices[fake_current];
    hipError_t error = fake_check_unsafe();
    if (error == hipSuccess && (error = fake_state(d)) == hipSuccess)
        error = allocate(d, address, bytes);
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipFree(void *address)
{
    FAKE_ENTER(hipFree);
    if (!address)
        return hipSuccess;
    pthread_mutex_lock(&fake_lock);
    struct fake_device *const d = &fake_devices[fake_current];
    hipError_t error = fake_check_unsafe();
    if (error == hipSuccess)
        fake_wait_device(d);
    struct fake_memory **at = &d->memory;
    while (*at && (*at)->address != (uint64_t)(uintptr_t)address)
        at = &(*at)->next;
    struct fake_memory *const m = error == hipSuccess ? *at : NULL;
    if (m) {
        *at = m->next;
        if (d->sim)
            quern_sim_unmap(d->sim, m->address);
        else
            munmap(m->reserved, m->bytes);
        free(m->host);
        free(m);
    } else if (error == hipSuccess) {
        error = hipErrorInvalidValue;
    }
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

/* Where the host finds one end of a copy. */
static hipError_t resolve(struct fake_device *d, const void *p, size_t bytes, bool on_device,
                          void **host)
{
    struct fake_memory *const m =
        on_device ? fake_memory_at(d, (uint64_t)(uintptr_t)p, bytes) : NULL;

    if (!p || (on_device && !m))
        return hipErrorInvalidValue;
    *host = m ? m->host + ((uint64_t)(uintptr_t)p - m->address) : (void *)(uintptr_t)p;
    return hipSuccess;
}

void *fakehip_host(const void *address, size_t bytes)
{
    void *host = NULL;

    pthread_mutex_lock(&fake_lock);
    const hipError_t error = resolve(&fake_devices[fake_current], address, bytes, true, &host);
    pthread_mutex_unlock(&fake_lock);
    return error == hipSuccess ? host : NULL;
}

static hipError_t copy(void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                       hipStream_t handle, bool wait)
{
    struct ihipStream_t *const stream = fake_stream(handle);
    void *target, *source;
    hipError_t error;

    if (!stream)
        return hipErrorInvalidHandle;
    if (kind < hipMemcpyHostToDevice || kind > hipMemcpyDeviceToDevice)
        return hipErrorInvalidMemcpyDirection;
    if ((error = fake_state(stream->device)) ||
        (error = resolve(stream->device, to, bytes, kind != hipMemcpyDeviceToHost, &target)) ||
        (error = resolve(stream->device, from, bytes, kind != hipMemcpyHostToDevice, &source)))
        return error;
    if (wait && (error = fake_check_wait(stream)))
        return error;
    struct fake_command *const c = fake_command_new(FAKE_COPY);
    c->to = target;
    c->from = source;
    c->bytes = bytes;
    if ((error = fake_submit(stream, c)) || !wait)
        return error;
    fake_wait(stream, stream->issued);
    return fake_state(stream->device);
}

hipError_t hipMemcpy(void *to, const void *from, size_t bytes, hipMemcpyKind kind)
{
    FAKE_ENTER(hipMemcpy);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    const hipError_t error = copy(to, from, bytes, kind, NULL, true);
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

hipError_t hipMemcpyAsync(void *to, const void *from, size_t bytes, hipMemcpyKind kind,
                          hipStream_t stream)
{
    FAKE_ENTER(hipMemcpyAsync);
    fake_device_count();
    pthread_mutex_lock(&fake_lock);
    const hipError_t error = copy(to, from, bytes, kind, stream, false);
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

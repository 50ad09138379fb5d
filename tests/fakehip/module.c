/* SPDX-License-Identifier: MIT */
/* Modules and launches. */
#include "fake.h"

#include <stdlib.h>
#include <string.h>

/* The size of an image is not given: an ELF file ends with its section headers, or those of its
 * segments. */
static size_t image_size(const uint8_t *image)
{
    uint64_t sections, segments;
    uint16_t count, each, segment_count, segment_each;

    if (memcmp(image, "\177ELF\2\1", 6))
        return 0;
    memcpy(&segments, image + 0x20, 8);
    memcpy(&sections, image + 0x28, 8);
    memcpy(&segment_each, image + 0x36, 2);
    memcpy(&segment_count, image + 0x38, 2);
    memcpy(&each, image + 0x3a, 2);
    memcpy(&count, image + 0x3c, 2);
    const uint64_t end = sections + (uint64_t)each * count,
                   segments_end = segments + (uint64_t)segment_each * segment_count,
                   size = end > segments_end ? end : segments_end;
    return size < (uint64_t)1 << 30 ? (size_t)size : 0;
}

static void module_free(struct ihipModule_t *m)
{
    if (m->sim)
        quern_sim_unload(m->sim);
    object_free(&m->object);
    free(m->functions);
    free(m->bytes);
    free(m);
}

static hipError_t fill(struct ihipModule_t *m, const void *image, size_t size)
{
    if (!(m->bytes = malloc(size)))
        return hipErrorOutOfMemory;
    memcpy(m->bytes, image, size);
    if (object_parse(m->bytes, size, &m->object) != QUERN_OK)
        return hipErrorInvalidImage;
    const bool fits = m->device->id.target && object_fits(&m->object, &m->device->id) == QUERN_OK;
    if (!fits && !fake_any_object)
        return hipErrorNoBinaryForGpu;
    if (!(m->functions = calloc(m->object.kernel_count + 1, sizeof *m->functions)))
        return hipErrorOutOfMemory;
    for (size_t i = 0; i < m->object.kernel_count; i++)
        m->functions[i] = (struct ihipModuleSymbol_t){m, &m->object.kernels[i], 0};
    return hipSuccess;
}

hipError_t hipModuleLoadData(hipModule_t *out, const void *image)
{
    FAKE_ENTER(hipModuleLoadData);
    if (!out || !image || fake_current >= fake_device_count())
        return fake_return(hipErrorInvalidValue);
    const size_t size = image_size(image);
    if (!size)
        return fake_return(hipErrorInvalidImage);
    struct ihipModule_t *const m = calloc(1, sizeof *m);
    if (!m)
        return fake_return(hipErrorOutOfMemory);
    m->device = &fake_devices[fake_current];
    pthread_mutex_lock(&fake_lock);
    hipError_t error = fake_check_unsafe();
    if (error == hipSuccess && (error = fake_state(m->device)) == hipSuccess)
        error = fill(m, image, size);
    pthread_mutex_unlock(&fake_lock);
    /* the disassembler takes its time */
    if (error == hipSuccess && m->device->sim && m->object.target == m->device->id.target &&
        quern_sim_load(m->device->sim, m->bytes, size, &m->sim) != QUERN_OK)
        error = hipErrorInvalidImage;
    if (error != hipSuccess) {
        module_free(m);
        return fake_return(error);
    }
    *out = m;
    return hipSuccess;
}

hipError_t hipModuleGetFunction(hipFunction_t *function, hipModule_t m, const char *name)
{
    FAKE_ENTER(hipModuleGetFunction);
    if (!function || !m || !name)
        return fake_return(hipErrorInvalidValue);
    for (size_t i = 0; i < m->object.kernel_count; i++)
        if (!strcmp(m->object.kernels[i].name, name)) {
            *function = &m->functions[i];
            return hipSuccess;
        }
    return fake_return(hipErrorNotFound);
}

hipError_t hipModuleUnload(hipModule_t m)
{
    FAKE_ENTER(hipModuleUnload);
    if (!m)
        return fake_return(hipErrorInvalidHandle);
    pthread_mutex_lock(&fake_lock);
    const hipError_t error = fake_check_unsafe();
    if (error == hipSuccess)
        fake_wait_device(m->device);
    pthread_mutex_unlock(&fake_lock);
    if (error == hipSuccess)
        module_free(m);
    return fake_return(error);
}

/* The limits of hipModuleLaunchKernel in ROCm/clr. */
static bool fits_grid(const unsigned grid[3], const unsigned block[3], unsigned flat_max)
{
    for (int i = 0; i < 3; i++)
        if (!grid[i] || !block[i] || (uint64_t)grid[i] * block[i] > UINT32_MAX)
            return false;
    return grid[0] <= INT32_MAX && grid[1] <= 65535 && grid[2] <= 65535 &&
           (uint64_t)block[0] * block[1] * block[2] <= flat_max;
}

static hipError_t launch(struct fake_command *c, hipStream_t handle, void **extra)
{
    struct ihipStream_t *const stream = fake_stream(handle);

    if (!stream || stream->device != &fake_devices[fake_current] ||
        c->function->module->device != stream->device)
        return hipErrorInvalidHandle;
    if (fake_state(stream->device))
        return fake_state(stream->device);
    if (!extra || extra[0] != HIP_LAUNCH_PARAM_BUFFER_POINTER ||
        extra[2] != HIP_LAUNCH_PARAM_BUFFER_SIZE || extra[4] != HIP_LAUNCH_PARAM_END)
        return hipErrorInvalidValue;
    c->kernarg_bytes = *(const size_t *)extra[3];
    if (!c->kernarg_bytes || c->kernarg_bytes > sizeof c->kernarg ||
        c->kernarg_bytes > c->function->kernel->kernarg_bytes ||
        !fits_grid(c->grid, c->block, c->function->kernel->max_flat_workgroup))
        return hipErrorInvalidValue;
    memcpy(c->kernarg, extra[1], c->kernarg_bytes);
    return hipSuccess;
}

hipError_t hipModuleLaunchKernel(hipFunction_t f, unsigned gx, unsigned gy, unsigned gz,
                                 unsigned bx, unsigned by, unsigned bz, unsigned lds_bytes,
                                 hipStream_t handle, void **parameters, void **extra)
{
    if (atomic_load_explicit(&fake_empty_launches, memory_order_relaxed))
        return hipSuccess;
    FAKE_ENTER(hipModuleLaunchKernel);
    if (!f || parameters)
        return fake_return(hipErrorInvalidValue);
    pthread_mutex_lock(&fake_lock);
    struct fake_command *const c = fake_command_new(FAKE_KERNEL);
    c->function = f;
    memcpy(c->grid, (unsigned[]){gx, gy, gz}, sizeof c->grid);
    memcpy(c->block, (unsigned[]){bx, by, bz}, sizeof c->block);
    c->lds_bytes = lds_bytes;
    hipError_t error = launch(c, handle, extra);
    if (error == hipSuccess && !fake_no_kernels)
        error = fake_submit(fake_stream(handle), c);
    else
        fake_command_free(c);
    pthread_mutex_unlock(&fake_lock);
    return fake_return(error);
}

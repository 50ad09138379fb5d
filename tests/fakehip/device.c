/* SPDX-License-Identifier: MIT */
/* Devices, counted calls and planned failures. */
#include "fake.h"

#include "sim/launch.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

pthread_mutex_t fake_lock = PTHREAD_MUTEX_INITIALIZER;
struct fake_device fake_devices[FAKE_DEVICES_MAX];
_Thread_local int fake_current;
bool fake_any_object, fake_no_kernels;
atomic_bool fake_empty_launches;

static const char *const names[] = {
#define FAKE_NAME(name) #name,
    FAKE_FUNCTIONS(FAKE_NAME)
#undef FAKE_NAME
};

static atomic_ulong calls[FAKE_COUNT];
/* the call that fails, counted down to 0; 0: none */
static atomic_int countdown[FAKE_COUNT];
static atomic_int planned[FAKE_COUNT];
static _Thread_local hipError_t last_error;

/* ---- Calls ----------------------------------------------------------------------------------- */

hipError_t fake_enter(enum fake_function function)
{
    atomic_fetch_add_explicit(&calls[function], 1, memory_order_relaxed);
    if (atomic_load_explicit(&countdown[function], memory_order_relaxed) > 0 &&
        atomic_fetch_sub(&countdown[function], 1) == 1)
        return (hipError_t)atomic_load(&planned[function]);
    return hipSuccess;
}

hipError_t fake_return(hipError_t error)
{
    if (error != hipSuccess)
        last_error = error;
    return error;
}

unsigned long fakehip_calls(const char *function)
{
    unsigned long total = 0;

    for (int i = 0; i < FAKE_COUNT; i++)
        if (!function || !strcmp(function, names[i]))
            total += atomic_load(&calls[i]);
    return total;
}

void fakehip_fail(const char *function, int nth, int error)
{
    for (int i = 0; i < FAKE_COUNT; i++)
        if (!strcmp(function, names[i])) {
            atomic_store(&planned[i], error);
            atomic_store(&countdown[i], nth);
        }
}

void fakehip_lose(int device)
{
    if (device < 0 || device >= fake_device_count())
        return;
    pthread_mutex_lock(&fake_lock);
    fake_devices[device].lost = true;
    pthread_mutex_unlock(&fake_lock);
}

void fakehip_take_any_object(bool yes)
{
    pthread_mutex_lock(&fake_lock);
    fake_any_object = yes;
    pthread_mutex_unlock(&fake_lock);
}

void fakehip_skip_kernels(bool yes)
{
    pthread_mutex_lock(&fake_lock);
    fake_no_kernels = yes;
    pthread_mutex_unlock(&fake_lock);
}

void fakehip_empty_launches(bool yes)
{
    atomic_store(&fake_empty_launches, yes);
}

void fakehip_reset(void)
{
    fakehip_empty_launches(false);
    pthread_mutex_lock(&fake_lock);
    fake_any_object = fake_no_kernels = false;
    for (int i = 0; i < FAKE_DEVICES_MAX; i++) {
        fake_devices[i].lost = false;
        fake_devices[i].sticky = hipSuccess;
    }
    for (int i = 0; i < FAKE_COUNT; i++)
        atomic_store(&countdown[i], 0);
    pthread_mutex_unlock(&fake_lock);
}

hipError_t hipGetLastError(void)
{
    fake_enter(FAKE_hipGetLastError);
    const hipError_t error = last_error;
    last_error = hipSuccess;
    return error;
}

hipError_t hipPeekAtLastError(void)
{
    fake_enter(FAKE_hipPeekAtLastError);
    return last_error;
}

const char *hipGetErrorName(hipError_t error)
{
    static const struct {
        hipError_t error;
        const char *name;
    } known[] = {
#define KNOWN(name) {name, #name}
        KNOWN(hipSuccess),
        KNOWN(hipErrorInvalidValue),
        KNOWN(hipErrorOutOfMemory),
        KNOWN(hipErrorNoDevice),
        KNOWN(hipErrorInvalidDevice),
        KNOWN(hipErrorInvalidImage),
        KNOWN(hipErrorNoBinaryForGpu),
        KNOWN(hipErrorInvalidHandle),
        KNOWN(hipErrorNotFound),
        KNOWN(hipErrorNotReady),
        KNOWN(hipErrorLaunchFailure),
        KNOWN(hipErrorStreamCaptureUnsupported),
        KNOWN(hipErrorStreamCaptureInvalidated),
        KNOWN(hipErrorStreamCaptureUnmatched),
        KNOWN(hipErrorStreamCaptureImplicit),
        KNOWN(hipErrorStreamCaptureWrongThread),
#undef KNOWN
    };

    fake_enter(FAKE_hipGetErrorName);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].error == error)
            return known[i].name;
    return "hipErrorUnknown";
}

/* ---- Devices --------------------------------------------------------------------------------- */

static int device_count;
static struct compiler *compiler; /* for the software GPUs' disassembler */
static struct log no_log;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Whoever gets instructions of which those of matrices have their factors exchanged. */
struct exchange {
    quern_disassembly_fn emit;
    void *user;
};

static void emit_exchanged(void *user, uint64_t offset, unsigned size, const char *text)
{
    const struct exchange *const x = user;
    const bool matrix = !strncmp(text, "v_wmma_", 7) || !strncmp(text, "v_mfma_", 7);
    const char *const a = matrix ? strstr(text, ", ") : NULL, *const b =
                                                                  a ? strstr(a + 2, ", ") : a;
    const char *const rest = b ? strstr(b + 2, ", ") : NULL;
    char other[256];

    if (rest) {
        snprintf(other, sizeof other, "%.*s%.*s%.*s%s", (int)(a - text), text, (int)(rest - b), b,
                 (int)(b - a), a, rest);
        text = other;
    }
    x->emit(x->user, offset, size, text);
}

static quern_status disassemble_exchanged(void *user, const char *processor, const void *code,
                                          size_t size, quern_disassembly_fn emit, void *emit_user)
{
    struct exchange x = {emit, emit_user};

    return compiler_disassemble(user, processor, code, size, emit_exchanged, &x);
}

/* `how`: the word behind the name, or null. */
static bool open_device(const char *text, const char *how)
{
    struct fake_device *const d = &fake_devices[device_count];
    struct quern_sim_options options = QUERN_INIT(struct quern_sim_options);

    if (target_parse(text, &d->id) != QUERN_OK) {
        /* a GPU of a target that quern does not list: only its name is ever asked for */
        d->id.target = NULL;
        return true;
    }
    if (!target_simulated(d->id.target))
        return true;
    options.target = d->id.target->name;
    options.disassembler = (struct quern_disassembler){compiler_disassemble, compiler};
    if (how)
        options.arithmetic = QUERN_ARITHMETIC_SILICON;
    if (how && !strcmp(how, "transposed"))
        options.disassembler.function = disassemble_exchanged;
    if (quern_sim_open(&options, &d->sim) != QUERN_OK)
        return false;
    d->sim->nearest = how && !strcmp(how, "nearest");
    return true;
}

static char *device_names[FAKE_DEVICES_MAX];

/* Where that fails there are no devices, as of a runtime that cannot reach its driver: a test that
 * needs one fails, one of faults goes on. */
static void set_up(void)
{
    const char *const text = getenv(fake_variable);
    char *const copy = strdup(text ? text : fake_default);
    bool ok =
        compiler_open(&(struct compiler_config){.jobs = 1, .log = &no_log}, &compiler) == QUERN_OK;

    for (char *save, *name = strtok_r(copy, ",", &save);
         ok && name && device_count < FAKE_DEVICES_MAX; name = strtok_r(NULL, ",", &save)) {
        char *const how = strchr(name, '/');
        if (how)
            *how = 0;
        device_names[device_count] = strdup(name);
        if ((ok = open_device(name, how ? how + 1 : NULL)))
            device_count++;
    }
    free(copy);
    if (!ok) {
        fprintf(stderr, "fakehip: no devices: %s\n", quern_last_error()->message);
        device_count = 0;
    }
}

__attribute__((destructor)) static void tear_down(void)
{
    /* workers are processes; memory and threads end with this one */
    if (compiler)
        compiler_close(compiler);
    compiler = NULL;
}

int fake_device_count(void)
{
    pthread_once(&once, set_up);
    return device_count;
}

hipError_t fake_state(const struct fake_device *d)
{
    return d->lost ? hipErrorLaunchFailure : d->sticky;
}

hipError_t hipGetDeviceCount(int *count)
{
    FAKE_ENTER(hipGetDeviceCount);
    if (!count)
        return fake_return(hipErrorInvalidValue);
    *count = fake_device_count();
    return fake_return(*count ? hipSuccess : hipErrorNoDevice);
}

hipError_t hipGetDevice(int *device)
{
    FAKE_ENTER(hipGetDevice);
    if (!device)
        return fake_return(hipErrorInvalidValue);
    *device = fake_current;
    return hipSuccess;
}

hipError_t hipSetDevice(int device)
{
    FAKE_ENTER(hipSetDevice);
    if (device < 0 || device >= fake_device_count())
        return fake_return(hipErrorInvalidDevice);
    fake_current = device;
    return hipSuccess;
}

hipError_t hipGetDevicePropertiesR0600(hipDeviceProp_tR0600 *p, int device)
{
    FAKE_ENTER(hipGetDevicePropertiesR0600);
    if (!p || device < 0 || device >= fake_device_count())
        return fake_return(p ? hipErrorInvalidDevice : hipErrorInvalidValue);
    memset(p, 0, sizeof *p);
    snprintf(p->name, sizeof p->name, "fakehip %s", device_names[device]);
    snprintf(p->gcnArchName, sizeof p->gcnArchName, "%s", device_names[device]);
    return hipSuccess;
}

hipError_t hipDeviceGetAttribute(int *value, hipDeviceAttribute_t attribute, int device)
{
    FAKE_ENTER(hipDeviceGetAttribute);
    if (!value || device < 0 || device >= fake_device_count())
        return fake_return(value ? hipErrorInvalidDevice : hipErrorInvalidValue);
    const struct target *const t = fake_devices[device].id.target;
    switch ((int)attribute) {
    case hipDeviceAttributeMultiprocessorCount: /* of RDNA, pairs of compute units */
        *value = t ? (int)t->cus / (t->wgp ? 2 : 1) : 1;
        return hipSuccess;
    case hipDeviceAttributeClockRate:
        *value = t ? (int)(t->clock_ghz * 1e6) : 1;
        return hipSuccess;
    case hipDeviceAttributeL2CacheSize:
        *value = 2 << 20;
        return hipSuccess;
    default:
        return fake_return(hipErrorInvalidValue);
    }
}

hipError_t hipDeviceTotalMem(size_t *bytes, hipDevice_t device)
{
    FAKE_ENTER(hipDeviceTotalMem);
    if (!bytes || device < 0 || device >= fake_device_count())
        return fake_return(bytes ? hipErrorInvalidDevice : hipErrorInvalidValue);
    *bytes = (size_t)16 << 30;
    return hipSuccess;
}

hipError_t hipRuntimeGetVersion(int *version)
{
    FAKE_ENTER(hipRuntimeGetVersion);
    if (!version)
        return fake_return(hipErrorInvalidValue);
    *version = HIP_VERSION;
    return hipSuccess;
}

/* SPDX-License-Identifier: MIT */
/*
 * NVIDIA's code objects: cubins, ELF files of machine 190. Their format is not published. What is
 * read here was learnt from cubins of NVRTC 12.9, 13.0 and 13.5 for fourteen targets, and is the
 * part in which cuobjdump -res-usage and the files agree: records {format, attribute, value} in the
 * sections .nv.info, for the whole file, and .nv.info.KERNEL. Attributes that are not known are
 * passed over: later releases add some.
 */
#include "base/os.h"
#include "object/elf.h"
#include "object/format.h"
#include "object/le.h"

#include <stdlib.h>
#include <string.h>

/* EI_OSABI and EI_ABIVERSION of CUDA 12 for targets below sm_100, and of all others. They have the
 * compute capability in different bits of e_flags. */
enum { OSABI_CUDA_12 = 51, ABI_CUDA_12 = 7, OSABI_CUDA = 65, ABI_CUDA = 8 };
enum { ET_EXEC = 2 };

/* How a record of .nv.info has its value: in itself, or so many bytes behind it. */
enum { FORMAT_BYTES = 4 };
enum attribute {
    MAX_THREADS = 0x05, /* u32 x, y, z: of __launch_bounds__ */
    PARAM_CBANK = 0x0a, /* u32 symbol, u16 offset, u16 size of the arguments */
    FRAME_SIZE = 0x11,  /* of the file: u32 symbol, u32 bytes of stack of a function's own */
    MIN_STACK = 0x12,   /* of the file: u32 symbol, u32 bytes of stack with what it calls */
    KPARAM_INFO = 0x17, /* one argument: u32 index, u16 ordinal, u16 offset, u32 with the size */
    CBANK_PARAM_SIZE = 0x19,
    REGCOUNT = 0x2f, /* of the file: u32 symbol, u32 registers */
};
#define KPARAM_SIZE_SHIFT 18

#define KERNELS_MAX   64
#define ARGS_MAX      256
#define REGISTERS_MAX 255
#define SHARED_MAX    (1u << 18) /* more than any block can have */
#define THREADS_MAX   1024

struct record {
    unsigned attribute;
    const uint8_t *value;
    uint32_t bytes;
};

/* The records of a section, one after another. */
struct records {
    const uint8_t *at, *end;
};

static struct records records_of(const struct elf *elf, const struct elf_section *s)
{
    /* a section without bytes may say that it is anywhere, also where no pointer reaches */
    const bool empty = s->type == ELF_SHT_NOBITS;
    const uint8_t *const at = elf->bytes + (empty ? 0 : s->offset);

    return (struct records){at, at + (empty ? 0 : s->size)};
}

/* Takes the next record; *found is false behind the last. */
static quern_status next_record(struct records *r, struct record *record, bool *found)
{
    const size_t left = (size_t)(r->end - r->at);

    *found = left > 0;
    if (!*found)
        return QUERN_OK;
    FAIL_IF(left < 4, QUERN_E_OBJECT, "a record of .nv.info has %zu bytes; it has 4 at least",
            left);
    const unsigned format = r->at[0];
    *record = (struct record){.attribute = r->at[1], .value = r->at + 2, .bytes = 2};
    r->at += 4;
    if (format != FORMAT_BYTES)
        return QUERN_OK;
    record->value = r->at;
    record->bytes = le16(r->at - 2);
    FAIL_IF(record->bytes > left - 4, QUERN_E_OBJECT,
            "a record of .nv.info has %u bytes; %zu are left", record->bytes, left - 4);
    r->at += record->bytes;
    return QUERN_OK;
}

static quern_status check_bytes(const struct record *r, uint32_t bytes)
{
    FAIL_IF(r->bytes < bytes, QUERN_E_OBJECT,
            "attribute %#x of .nv.info has %u bytes; it has %u at least", r->attribute, r->bytes,
            bytes);
    return QUERN_OK;
}

/* ---- Target ---------------------------------------------------------------------------------- */

static bool find_named(const struct elf *elf, const char *prefix, const char *name,
                       struct elf_section *section)
{
    const size_t n = strlen(prefix);

    for (unsigned i = 0; i < elf->section_count; i++) {
        *section = elf_section(elf, i);
        if (section->type != ELF_SHT_NULL && !strncmp(section->name, prefix, n) &&
            !strcmp(section->name + n, name))
            return true;
    }
    return false;
}

static quern_status read_header(const struct elf *elf, struct object *o)
{
    const bool cuda_12 = elf->os_abi == OSABI_CUDA_12 && elf->abi_version == ABI_CUDA_12;

    FAIL_IF(!cuda_12 && (elf->os_abi != OSABI_CUDA || elf->abi_version != ABI_CUDA), QUERN_E_OBJECT,
            "ELF OS/ABI %u, version %u: a cubin has %d, %d (CUDA 12) or %d, %d (CUDA 13)",
            elf->os_abi, elf->abi_version, OSABI_CUDA_12, ABI_CUDA_12, OSABI_CUDA, ABI_CUDA);
    FAIL_IF(elf->type != ET_EXEC, QUERN_E_OBJECT,
            "ELF type %u: a cubin that can be loaded has %d; one of device code to be linked "
            "(-rdc) cannot",
            elf->type, ET_EXEC);
    /* An "a" form ("sm_90a") is code for this processor alone, as every other is to quern. */
    const unsigned machine = (cuda_12 ? elf->flags : elf->flags >> 8) & 0xff;
    o->target = target_of_machine(VENDOR_NVIDIA, machine);
    FAIL_IF(!o->target, QUERN_E_OBJECT, "code for sm_%u, which is none of the known targets",
            machine);
    return QUERN_OK;
}

/* ---- Kernels --------------------------------------------------------------------------------- */

static struct object_kernel *find_kernel(struct object *o, const char *name)
{
    for (size_t i = 0; i < o->kernel_count; i++)
        if (!strcmp(o->kernels[i].name, name))
            return &o->kernels[i];
    return NULL;
}

static quern_status add_arg(const struct record *r, struct object_kernel *k)
{
    TRY(check_bytes(r, 12));
    const unsigned ordinal = le16(r->value + 4);
    FAIL_IF(ordinal >= ARGS_MAX, QUERN_E_OBJECT, "argument %u of kernel %.80s: at most %d are read",
            ordinal, k->name, ARGS_MAX);
    if (!k->args) {
        k->args = os.calloc(ARGS_MAX, sizeof *k->args);
        FAIL_IF(!k->args, QUERN_E_MEMORY, "no memory for the arguments of a kernel");
    }
    FAIL_IF(k->args[ordinal].kind, QUERN_E_OBJECT, "kernel %.80s has argument %u twice", k->name,
            ordinal);
    k->args[ordinal] = (struct object_arg){
        .kind = OBJECT_ARG_BY_VALUE,
        .offset = le16(r->value + 6),
        .size = le32(r->value + 8) >> KPARAM_SIZE_SHIFT,
    };
    if (ordinal >= k->arg_count)
        k->arg_count = ordinal + 1;
    return QUERN_OK;
}

static quern_status read_record(const struct record *r, struct object_kernel *k)
{
    switch (r->attribute) {
    case KPARAM_INFO:
        return add_arg(r, k);
    case CBANK_PARAM_SIZE:
        TRY(check_bytes(r, 2));
        k->kernarg_bytes = le16(r->value);
        return QUERN_OK;
    case MAX_THREADS: {
        TRY(check_bytes(r, 12));
        const uint64_t threads =
            (uint64_t)le32(r->value) * le32(r->value + 4); /* z is 1 of all that matter here */
        FAIL_IF(!threads || threads > THREADS_MAX || le32(r->value + 8) != 1, QUERN_E_OBJECT,
                "kernel %.80s is for blocks of %u × %u × %u threads; they have up to %d × 1",
                k->name, le32(r->value), le32(r->value + 4), le32(r->value + 8), THREADS_MAX);
        k->max_flat_workgroup = (uint32_t)threads;
        return QUERN_OK;
    }
    default:
        return QUERN_OK;
    }
}

/* Arguments must be whole, in order and inside of their bytes. */
static quern_status check_args(const struct object_kernel *k)
{
    uint32_t end = 0;

    for (size_t i = 0; i < k->arg_count; i++) {
        const struct object_arg *const a = &k->args[i];
        FAIL_IF(!a->kind, QUERN_E_OBJECT, "kernel %.80s does not say what argument %zu is", k->name,
                i);
        FAIL_IF(!a->size || a->offset < end || a->size > k->kernarg_bytes ||
                    a->offset > k->kernarg_bytes - a->size,
                QUERN_E_OBJECT,
                "argument %zu of kernel %.80s (offset %u, %u bytes) is not behind the one before "
                "it and inside of %u bytes",
                i, k->name, a->offset, a->size, k->kernarg_bytes);
        end = a->offset + a->size;
    }
    return QUERN_OK;
}

static quern_status read_kernel(const struct elf *elf, const struct elf_section *text,
                                struct object *o)
{
    struct object_kernel *const k = &o->kernels[o->kernel_count++];
    struct elf_section section;
    struct record record;
    bool found = true;

    *k = (struct object_kernel){
        .name = text->name + strlen(".text."),
        .entry = text->offset,
        .code_bytes = text->size,
        .wave_size = o->target->wave_size,
        .max_flat_workgroup = THREADS_MAX,
    };
    FAIL_IF(find_kernel(o, k->name) != k, QUERN_E_OBJECT, "kernel %.80s is there twice", k->name);
    FAIL_IF(!find_named(elf, ".nv.info.", k->name, &section), QUERN_E_OBJECT,
            "there is no .nv.info of kernel %.80s", k->name);
    for (struct records records = records_of(elf, &section);;) {
        TRY(next_record(&records, &record, &found));
        if (!found)
            break;
        TRY(read_record(&record, k));
    }
    TRY(check_args(k));
    if (!find_named(elf, ".nv.shared.", k->name, &section))
        return QUERN_OK;
    FAIL_IF(section.size > SHARED_MAX, QUERN_E_OBJECT,
            "kernel %.80s has %llu bytes of shared memory; at most %u are read", k->name,
            (unsigned long long)section.size, SHARED_MAX);
    k->lds_bytes = (uint32_t)section.size;
    return QUERN_OK;
}

/* ---- What the file says of its functions ----------------------------------------------------- */

/* A kernel's number in the file, by the symbol of a record {symbol, number}; null: the symbol is no
 * kernel's. */
static quern_status kernel_of(const struct elf *elf, const struct elf_section *symbols,
                              const struct record *r, struct object *o,
                              struct object_kernel **kernel)
{
    TRY(check_bytes(r, 8));
    FAIL_IF(le32(r->value) >= elf_table_count(symbols), QUERN_E_OBJECT,
            "attribute %#x of .nv.info is of symbol %u of %llu", r->attribute, le32(r->value),
            (unsigned long long)elf_table_count(symbols));
    const struct elf_symbol s = elf_symbol(elf, symbols, le32(r->value));
    *kernel = s.type == ELF_STT_FUNC ? find_kernel(o, s.name) : NULL;
    return QUERN_OK;
}

static quern_status read_resources(const struct elf *elf, struct object *o)
{
    struct elf_section info, symbols;
    struct object_kernel *k = NULL;
    struct record r;
    bool found;

    FAIL_IF(!find_named(elf, ".nv.info", "", &info) ||
                !elf_find_section(elf, ELF_SHT_SYMTAB, &symbols),
            QUERN_E_OBJECT, "the cubin has no .nv.info, or no symbols");
    for (struct records records = records_of(elf, &info);;) {
        TRY(next_record(&records, &r, &found));
        if (!found)
            return QUERN_OK;
        if (r.attribute != REGCOUNT && r.attribute != FRAME_SIZE && r.attribute != MIN_STACK)
            continue;
        TRY(kernel_of(elf, &symbols, &r, o, &k));
        const uint32_t number = le32(r.value + 4);
        FAIL_IF(number > (r.attribute == REGCOUNT ? REGISTERS_MAX : OBJECT_SCRATCH_MAX),
                QUERN_E_OBJECT, "attribute %#x of .nv.info is %u, which no GPU has", r.attribute,
                number);
        if (k && r.attribute == REGCOUNT)
            k->vgprs = k->vgprs_granted = number;
        else if (k && number > k->scratch_bytes)
            k->scratch_bytes = number;
    }
}

static bool is_text(const struct elf_section *s)
{
    static const char prefix[] = ".text.";

    return s->type != ELF_SHT_NULL && s->type != ELF_SHT_NOBITS &&
           !strncmp(s->name, prefix, sizeof prefix - 1) && s->name[sizeof prefix - 1];
}

static quern_status read_cubin(const struct elf *elf, struct object *o)
{
    size_t count = 0;

    TRY(read_header(elf, o));
    for (unsigned i = 0; i < elf->section_count; i++) {
        const struct elf_section s = elf_section(elf, i);
        count += is_text(&s);
    }
    FAIL_IF(count > KERNELS_MAX, QUERN_E_OBJECT, "%zu kernels: at most %d are read", count,
            KERNELS_MAX);
    o->kernels = os.calloc(count ? count : 1, sizeof *o->kernels);
    FAIL_IF(!o->kernels, QUERN_E_MEMORY, "no memory for %zu kernels", count);
    for (unsigned i = 0; i < elf->section_count; i++) {
        const struct elf_section s = elf_section(elf, i);
        if (!is_text(&s))
            continue;
        TRY(read_kernel(elf, &s, o));
    }
    return read_resources(elf, o);
}

static bool recognise(const uint8_t *bytes, size_t size)
{
    return elf_machine(bytes, size) == ELF_EM_CUDA;
}

static quern_status parse(struct object *o)
{
    struct elf elf;

    TRY(elf_open_sections(o->bytes, o->size, &elf));
    return read_cubin(&elf, o);
}

const struct object_format object_nvidia = {recognise, parse};

/* SPDX-License-Identifier: MIT */
/*
 * AMD's code objects: HSA ELF files of code object version 4 to 6, as LLVM's AMDGPUUsage describes
 * them. The only file that a vendor's entry among object/formats.c needs for AMD.
 */
#include "base/os.h"
#include "object/amdgpu/metadata.h"
#include "object/amdgpu/object_kernel.h"
#include "object/elf.h"
#include "object/format.h"
#include "object/le.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* e_flags of code object versions 4 to 6 */
#define FLAG_MACHINE 0x0ffu
#define FLAG_XNACK   0x300u
#define FLAG_SRAMECC 0xc00u
#define FLAGS_KNOWN  (FLAG_MACHINE | FLAG_XNACK | FLAG_SRAMECC)
/* the two bits of a feature: unsupported, any, off, on */
static const char feature_sign[] = {0, 0, '-', '+'};

#define KERNELS_MAX 65536

static quern_status read_flags(const struct elf *elf, struct object *o)
{
    enum { ET_DYN = 3, ELFOSABI_AMDGPU_HSA = 64 };

    FAIL_IF(elf->os_abi != ELFOSABI_AMDGPU_HSA, QUERN_E_OBJECT,
            "ELF OS/ABI %u: a code object has %d", elf->os_abi, ELFOSABI_AMDGPU_HSA);
    FAIL_IF(elf->type != ET_DYN || elf_machine(elf->bytes, elf->size) != ELF_EM_AMDGPU,
            QUERN_E_OBJECT, "ELF type %u, machine %u: a linked code object has %d, %d", elf->type,
            elf_machine(elf->bytes, elf->size), ET_DYN, ELF_EM_AMDGPU);
    FAIL_IF(elf->abi_version < 2 || elf->abi_version > 4, QUERN_E_OBJECT,
            "ELF ABI version %u: 2 to 4 are read (code object versions 4 to 6)", elf->abi_version);
    o->code_object_version = elf->abi_version + 2;
    FAIL_IF(elf->flags & ~FLAGS_KNOWN, QUERN_E_OBJECT,
            "ELF flags %#x: only bits of %#x have a meaning", elf->flags, FLAGS_KNOWN);
    o->target = target_of_machine(VENDOR_AMD, elf->flags & FLAG_MACHINE);
    FAIL_IF(!o->target, QUERN_E_OBJECT, "code for machine %#x, which is none of the known targets",
            elf->flags & FLAG_MACHINE);
    o->xnack = feature_sign[(elf->flags & FLAG_XNACK) / 0x100];
    o->sramecc = feature_sign[(elf->flags & FLAG_SRAMECC) / 0x400];
    return QUERN_OK;
}

/* Bytes of the part of a triple that names instruction set and system, its last '-' included: that
 * of "amdgcn-amd-amdhsa--gfx1151" is "amdgcn-amd-amdhsa-". LLVM 24 has "amdgpu", with a version of
 * the instruction set behind it, in amdgcn's place. 0: it is neither. */
static size_t system_bytes(const struct msgpack_text *triple)
{
    static const char system[] = "-amd-amdhsa-";
    const size_t arch = strlen("amdgcn");
    size_t at = arch;

    if (triple->bytes < arch)
        return 0;
    if (!memcmp(triple->text, "amdgpu", arch))
        while (at < triple->bytes && triple->text[at] != '-')
            at++;
    else if (memcmp(triple->text, "amdgcn", arch))
        return 0;
    if (triple->bytes - at < sizeof system - 1 ||
        memcmp(triple->text + at, system, sizeof system - 1))
        return 0;
    return at + sizeof system - 1;
}

/* The metadata's own name of the target, if there is one, must be that of the flags:
 * "amdgcn-amd-amdhsa--" + id, with or without an environment between the last two '-'. */
static quern_status check_target(const struct metadata *m, const struct object *o)
{
    char id[64];

    target_id_text(&(struct target_id){o->target, o->sramecc, o->xnack}, id, sizeof id);
    const size_t bytes = strlen(id), at = m->target.bytes - bytes;
    const size_t system = system_bytes(&m->target);
    if (!m->target.bytes)
        return QUERN_OK;
    FAIL_IF(!system || m->target.bytes < system + 1 + bytes ||
                memcmp(m->target.text + at, id, bytes) || m->target.text[at - 1] != '-',
            QUERN_E_OBJECT, "code for %s by its ELF flags, for %.*s by its metadata", id,
            (int)(m->target.bytes < 80 ? m->target.bytes : 80), m->target.text);
    return QUERN_OK;
}

static quern_status read_segments(const struct elf *elf, struct object *o)
{
    o->segments = os.calloc(ELF_SEGMENTS_MAX, sizeof *o->segments);
    FAIL_IF(!o->segments, QUERN_E_MEMORY, "no memory for the segments of a code object");
    for (unsigned i = 0; i < elf->segment_count; i++) {
        const struct elf_segment s = elf_segment(elf, i);
        if (s.type != ELF_PT_LOAD || s.memory_bytes == 0)
            continue;
        o->segments[o->segment_count++] = (struct object_segment){
            .address = s.address,
            .file_offset = s.offset,
            .file_bytes = s.file_bytes,
            .memory_bytes = s.memory_bytes,
            .write = s.flags & ELF_PF_W,
            .execute = s.flags & ELF_PF_X,
        };
        o->image_bytes = s.address + s.memory_bytes;
    }
    return QUERN_OK;
}

static int by_address(const void *a, const void *b)
{
    const struct object_symbol *const x = a, *const y = b;

    return (x->address > y->address) - (x->address < y->address);
}

static quern_status read_symbols(const struct elf *elf, struct object *o)
{
    struct elf_section table;

    if (!elf_find_section(elf, ELF_SHT_SYMTAB, &table) &&
        !elf_find_section(elf, ELF_SHT_DYNSYM, &table))
        return QUERN_OK;
    const uint64_t total = elf_table_count(&table);
    o->symbols = os.malloc((total ? total : 1) * sizeof *o->symbols);
    FAIL_IF(!o->symbols, QUERN_E_MEMORY, "no memory for %" PRIu64 " symbols", total);
    for (uint64_t i = 0; i < total; i++) {
        const struct elf_symbol s = elf_symbol(elf, &table, i);
        if (s.section == ELF_SHN_UNDEF || s.section >= ELF_SHN_LORESERVE ||
            (s.type != ELF_STT_FUNC && s.type != ELF_STT_OBJECT))
            continue;
        o->symbols[o->symbol_count++] = (struct object_symbol){
            .name = s.name,
            .address = s.address,
            .bytes = s.bytes,
            .function = s.type == ELF_STT_FUNC,
        };
    }
    qsort(o->symbols, o->symbol_count, sizeof *o->symbols, by_address);
    return QUERN_OK;
}

static quern_status read_relocation(const struct elf *elf, const struct elf_section *table,
                                    uint64_t index, struct object *o)
{
    enum { R_NONE = 0, R_ABS64 = 3, R_RELATIVE64 = 13 };
    const struct elf_relocation r = elf_relocation(elf, table, index);
    uint64_t value = (uint64_t)r.addend;

    if (r.type == R_NONE)
        return QUERN_OK;
    FAIL_IF(r.type != R_ABS64 && r.type != R_RELATIVE64, QUERN_E_OBJECT,
            "a relocation of type %u at %#" PRIx64 ": only %d and %d are known", r.type, r.address,
            R_ABS64, R_RELATIVE64);
    if (r.type == R_ABS64) {
        const struct elf_section symbols = elf_section(elf, table->link);
        const struct elf_symbol s = elf_symbol(elf, &symbols, r.symbol);
        FAIL_IF(s.section == ELF_SHN_UNDEF || s.section >= ELF_SHN_LORESERVE, QUERN_E_OBJECT,
                "the code object needs the symbol %.80s, which it does not define", s.name);
        value += s.address;
    }
    o->relocations[o->relocation_count++] =
        (struct object_relocation){.address = r.address, .value = value};
    return QUERN_OK;
}

static quern_status read_relocations(const struct elf *elf, struct object *o)
{
    uint64_t total = 0;

    for (unsigned i = 0; i < elf->section_count; i++) {
        const struct elf_section s = elf_section(elf, i);
        if (s.type == ELF_SHT_RELA && (s.flags & ELF_SHF_ALLOC))
            total += elf_table_count(&s);
    }
    if (total == 0)
        return QUERN_OK;
    o->relocations = os.malloc(total * sizeof *o->relocations);
    FAIL_IF(!o->relocations, QUERN_E_MEMORY, "no memory for %" PRIu64 " relocations", total);
    for (unsigned i = 0; i < elf->section_count; i++) {
        const struct elf_section s = elf_section(elf, i);
        if (s.type != ELF_SHT_RELA || !(s.flags & ELF_SHF_ALLOC))
            continue;
        for (uint64_t j = 0; j < elf_table_count(&s); j++)
            TRY(read_relocation(elf, &s, j, o));
    }
    return QUERN_OK;
}

static int by_descriptor(const void *a, const void *b)
{
    const struct object_kernel *const x = a, *const y = b;

    return (x->descriptor > y->descriptor) - (x->descriptor < y->descriptor);
}

static quern_status read_kernels(const struct elf *elf, const struct symbol_index *index,
                                 struct metadata *m, struct object *o)
{
    FAIL_IF(m->kernel_count > KERNELS_MAX, QUERN_E_OBJECT, "%zu kernels: at most %d are read",
            m->kernel_count, KERNELS_MAX);
    o->kernels = os.calloc(m->kernel_count ? m->kernel_count : 1, sizeof *o->kernels);
    FAIL_IF(!o->kernels, QUERN_E_MEMORY, "no memory for %zu kernels", m->kernel_count);
    for (size_t i = 0; i < m->kernel_count; i++) {
        struct metadata_kernel *const from = &m->kernels[i];
        struct object_kernel *const k = &o->kernels[o->kernel_count];
        TRY(kernel_read(elf, o->target, index, o->symbols, o->symbol_count, from, k));
        k->arg_count = from->arg_count;
        k->args = from->args;
        from->args = NULL;
        o->kernel_count++;
    }
    qsort(o->kernels, o->kernel_count, sizeof *o->kernels, by_descriptor);
    for (size_t i = 1; i < o->kernel_count; i++)
        FAIL_IF(o->kernels[i].descriptor == o->kernels[i - 1].descriptor, QUERN_E_OBJECT,
                "kernel %.80s is described twice", o->kernels[i].name);
    return QUERN_OK;
}

static quern_status read_metadata(const struct elf *elf, const struct symbol_index *index,
                                  struct object *o)
{
    struct elf_note_place place = {0};
    struct metadata metadata = {0};
    const uint8_t *content;
    size_t bytes, notes = 0;
    quern_status status;

    while ((status = elf_next_note(elf, METADATA_NOTE_OWNER, METADATA_NOTE_TYPE, &place, &content,
                                   &bytes)) == QUERN_OK &&
           content) {
        TRY(metadata_read(content, bytes, &metadata));
        if ((status = check_target(&metadata, o)) != QUERN_OK)
            break;
        notes++;
    }
    if (status == QUERN_OK && notes)
        status = read_kernels(elf, index, &metadata, o);
    metadata_free(&metadata);
    TRY(status);
    FAIL_IF(!notes, QUERN_E_OBJECT, "no note \"%s\" of type %d", METADATA_NOTE_OWNER,
            METADATA_NOTE_TYPE);
    return QUERN_OK;
}

static quern_status read_object(const struct elf *elf, struct object *o)
{
    struct symbol_index index;

    TRY(read_flags(elf, o));
    TRY(read_segments(elf, o));
    TRY(read_symbols(elf, o));
    TRY(read_relocations(elf, o));
    TRY(symbol_index_make(elf, &index));
    const quern_status status = read_metadata(elf, &index, o);
    symbol_index_free(&index);
    return status;
}

static quern_status amdgpu_parse(struct object *object)
{
    struct elf elf;

    TRY(elf_open(object->bytes, object->size, &elf));
    return read_object(&elf, object);
}

void object_fill_hidden(const struct object_kernel *kernel, uint8_t *kernarg,
                        const uint32_t grid[3], const uint32_t block[3], uint32_t dynamic_lds)
{
    for (size_t i = 0; i < kernel->arg_count; i++) {
        const struct object_arg *const a = &kernel->args[i];
        uint64_t value = 0;
        switch (a->kind) {
        case OBJECT_ARG_BY_VALUE:
        case OBJECT_ARG_GLOBAL_BUFFER:
        case OBJECT_ARG_DYNAMIC_LDS:
            continue;
        case OBJECT_ARG_HIDDEN_BLOCK_COUNT_X:
        case OBJECT_ARG_HIDDEN_BLOCK_COUNT_Y:
        case OBJECT_ARG_HIDDEN_BLOCK_COUNT_Z:
            value = grid[a->kind - OBJECT_ARG_HIDDEN_BLOCK_COUNT_X];
            break;
        case OBJECT_ARG_HIDDEN_GROUP_SIZE_X:
        case OBJECT_ARG_HIDDEN_GROUP_SIZE_Y:
        case OBJECT_ARG_HIDDEN_GROUP_SIZE_Z:
            value = block[a->kind - OBJECT_ARG_HIDDEN_GROUP_SIZE_X];
            break;
        case OBJECT_ARG_HIDDEN_GRID_DIMS:
            value = 3; /* as HIP has it: every launch has three */
            break;
        case OBJECT_ARG_HIDDEN_DYNAMIC_LDS_SIZE:
            value = dynamic_lds;
            break;
        case OBJECT_ARG_HIDDEN_REMAINDER_X: /* a grid of whole workgroups leaves none over */
        case OBJECT_ARG_HIDDEN_REMAINDER_Y:
        case OBJECT_ARG_HIDDEN_REMAINDER_Z:
        case OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_X:
        case OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Y:
        case OBJECT_ARG_HIDDEN_GLOBAL_OFFSET_Z:
        case OBJECT_ARG_HIDDEN_OTHER:
            break;
        }
        le_put(kernarg + a->offset, a->size, value);
    }
}

static bool amdgpu_recognise(const uint8_t *bytes, size_t size)
{
    return elf_machine(bytes, size) == ELF_EM_AMDGPU;
}

bool object_rename(void *bytes, size_t size, const struct target *from, const struct target *to)
{
    enum { FLAGS_AT = 48 };
    uint8_t *const b = bytes, *const end = b + size;
    char triple[64];

    const size_t n = (size_t)snprintf(triple, sizeof triple, "-amd-amdhsa--%s", from->name);
    const size_t name = strlen(from->name);
    if (!amdgpu_recognise(b, size) || name != strlen(to->name) || b[FLAGS_AT] != from->elf_machine)
        return false;
    b[FLAGS_AT] = (uint8_t)to->elf_machine;
    for (uint8_t *at = b; (at = memmem(at, (size_t)(end - at), triple, n)); at += n)
        memcpy(at + n - name, to->name, name);
    return true;
}

const struct object_format object_amd = {amdgpu_recognise, amdgpu_parse};

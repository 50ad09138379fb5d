/* SPDX-License-Identifier: MIT */
/* The descriptor of a kernel (object_kernel.h), and whether metadata and symbols agree with it. */
#include "object/amdgpu/object_kernel.h"
#include "base/hash.h"
#include "base/os.h"
#include "object/le.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The kernel descriptor, as LLVM's AMDGPU user guide lays it out. */
enum {
    DESCRIPTOR_BYTES = 64,
    AT_LDS = 0,
    AT_SCRATCH = 4,
    AT_KERNARG = 8,
    AT_RESERVED_0 = 12, /* 4 bytes */
    AT_ENTRY = 16,      /* i64, from the descriptor's own address */
    AT_RESERVED_1 = 24, /* 20 bytes */
    AT_RSRC3 = 44,
    AT_RSRC1 = 48,
    AT_RSRC2 = 52,
    AT_PROPERTIES = 56,
    AT_PRELOAD = 58,
    AT_RESERVED_2 = 60 /* 4 bytes */
};
#define ENTRY_ALIGN   256
#define WORKGROUP_MAX 1024

/* Hashing all names costs their total length; names that share their bytes could make that large.
 */
#define NAMES_BYTES_MAX ((uint64_t)1 << 28)

struct symbol_slot {
    uint64_t hash;
    uint64_t symbol; /* its number in the table */
};

static uint64_t name_hash(const char *name, size_t bytes)
{
    const struct hash128 h = hash128_of(name, bytes);

    return le64(h.bytes);
}

static int by_hash(const void *a, const void *b)
{
    const struct symbol_slot *const x = a, *const y = b;

    return (x->hash > y->hash) - (x->hash < y->hash);
}

static bool placed(const struct elf_symbol *s)
{
    return s->section != ELF_SHN_UNDEF && s->section < ELF_SHN_LORESERVE &&
           (s->type == ELF_STT_FUNC || s->type == ELF_STT_OBJECT);
}

quern_status symbol_index_make(const struct elf *elf, struct symbol_index *index)
{
    uint64_t left = NAMES_BYTES_MAX;

    *index = (struct symbol_index){.elf = elf};
    FAIL_IF(!elf_find_section(elf, ELF_SHT_DYNSYM, &index->table) &&
                !elf_find_section(elf, ELF_SHT_SYMTAB, &index->table),
            QUERN_E_OBJECT, "no symbol table");
    const uint64_t total = elf_table_count(&index->table);
    index->slots = os.malloc((total ? total : 1) * sizeof *index->slots);
    FAIL_IF(!index->slots, QUERN_E_MEMORY, "no memory for %" PRIu64 " symbols", total);
    for (uint64_t i = 0; i < total; i++) {
        const struct elf_symbol s = elf_symbol(elf, &index->table, i);
        if (!placed(&s))
            continue;
        const size_t bytes = strnlen(s.name, left);
        if (bytes >= left) {
            symbol_index_free(index);
            FAIL(QUERN_E_OBJECT,
                 "the names of %" PRIu64 " symbols are longer than %" PRIu64 " bytes together",
                 total, NAMES_BYTES_MAX);
        }
        left -= bytes;
        index->slots[index->count++] =
            (struct symbol_slot){.hash = name_hash(s.name, bytes), .symbol = i};
    }
    qsort(index->slots, index->count, sizeof *index->slots, by_hash);
    return QUERN_OK;
}

void symbol_index_free(struct symbol_index *index)
{
    os.free(index->slots);
    index->slots = NULL;
}

/* The symbol of that name and type. */
static bool find_symbol(const struct symbol_index *index, const char *name, size_t bytes,
                        unsigned type, struct elf_symbol *symbol)
{
    const uint64_t hash = name_hash(name, bytes);
    size_t low = 0, high = index->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (index->slots[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == index->count || index->slots[low].hash != hash)
        return false;
    *symbol = elf_symbol(index->elf, &index->table, index->slots[low].symbol);
    return symbol->type == type && strlen(symbol->name) == bytes &&
           !memcmp(symbol->name, name, bytes);
}

/* Where the function that begins at `entry` ends when its symbol does not say: at the next one. */
static uint64_t next_function(const struct object_symbol *symbols, size_t count, uint64_t entry,
                              uint64_t end)
{
    size_t low = 0, high = count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (symbols[middle].address <= entry)
            low = middle + 1;
        else
            high = middle;
    }
    return low < count && symbols[low].address < end ? symbols[low].address : end;
}

static bool all_zero(const uint8_t *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (p[i])
            return false;
    return true;
}

static quern_status check_resources(const struct target *t, const struct metadata_kernel *m,
                                    const struct object_kernel *k, const uint8_t *d)
{
    const char *const n = k->name;

    FAIL_IF(k->lds_bytes != m->lds_bytes, QUERN_E_OBJECT,
            "kernel %.80s: the descriptor has %u bytes of LDS, the metadata %u", n, k->lds_bytes,
            m->lds_bytes);
    FAIL_IF(k->scratch_bytes != m->scratch_bytes, QUERN_E_OBJECT,
            "kernel %.80s: the descriptor has %u bytes of scratch, the metadata %u", n,
            k->scratch_bytes, m->scratch_bytes);
    FAIL_IF(k->kernarg_bytes != m->kernarg_bytes, QUERN_E_OBJECT,
            "kernel %.80s: the descriptor has %u bytes of arguments, the metadata %u", n,
            k->kernarg_bytes, m->kernarg_bytes);
    FAIL_IF(k->wave_size != m->wave_size, QUERN_E_OBJECT,
            "kernel %.80s: the descriptor is for waves of %u, the metadata for %u", n, k->wave_size,
            m->wave_size);
    FAIL_IF(k->dynamic_stack != m->dynamic_stack, QUERN_E_OBJECT,
            "kernel %.80s: descriptor and metadata disagree on a dynamic stack", n);
    FAIL_IF(k->wave_size != t->wave_size && !t->other_wave, QUERN_E_OBJECT,
            "kernel %.80s is for waves of %u; those of %s have %u", n, k->wave_size, t->name,
            t->wave_size);
    FAIL_IF(k->lds_bytes > t->lds_bytes, QUERN_E_OBJECT,
            "kernel %.80s wants %u bytes of LDS; a workgroup of %s has %u", n, k->lds_bytes,
            t->name, t->lds_bytes);
    FAIL_IF(k->scratch_bytes > OBJECT_SCRATCH_MAX, QUERN_E_OBJECT,
            "kernel %.80s wants %u bytes of scratch; at most %u are possible", n, k->scratch_bytes,
            OBJECT_SCRATCH_MAX);
    FAIL_IF(k->kernarg_bytes > OBJECT_KERNARG_MAX, QUERN_E_OBJECT,
            "kernel %.80s wants %u bytes of arguments; at most %d are possible", n,
            k->kernarg_bytes, OBJECT_KERNARG_MAX);
    FAIL_IF(m->max_flat_workgroup == 0 || m->max_flat_workgroup > WORKGROUP_MAX, QUERN_E_OBJECT,
            "kernel %.80s is for workgroups of up to %u; they have 1 to %d work-items", n,
            m->max_flat_workgroup, WORKGROUP_MAX);
    FAIL_IF(m->vgprs > k->vgprs_granted, QUERN_E_OBJECT,
            "kernel %.80s uses %u VGPRs by its metadata but asks for %u", n, m->vgprs,
            k->vgprs_granted);
    FAIL_IF(!all_zero(d + AT_RESERVED_0, 4) || !all_zero(d + AT_RESERVED_1, 20) ||
                !all_zero(d + AT_RESERVED_2, 4) || (k->properties & ~OBJECT_PROPERTIES_KNOWN),
            QUERN_E_OBJECT, "kernel %.80s: reserved bits of its descriptor are set", n);
    return QUERN_OK;
}

/* Entry point and extent of the code. */
static quern_status read_code(const struct elf *elf, const struct symbol_index *index,
                              const struct object_symbol *symbols, size_t symbol_count,
                              struct msgpack_text name, int64_t offset, struct object_kernel *k)
{
    struct elf_segment segment;
    struct elf_symbol function;
    const int shown = (int)(name.bytes < 80 ? name.bytes : 80);

    k->entry = k->descriptor + (uint64_t)offset;
    FAIL_IF(!elf_find_segment(elf, k->entry, 4, &segment) || !(segment.flags & ELF_PF_X),
            QUERN_E_OBJECT, "kernel %.*s begins at %#" PRIx64 ", not inside executable code", shown,
            name.text, k->entry);
    FAIL_IF(k->entry % ENTRY_ALIGN, QUERN_E_OBJECT,
            "kernel %.*s begins at %#" PRIx64 ", not a multiple of %d", shown, name.text, k->entry,
            ENTRY_ALIGN);
    FAIL_IF(!find_symbol(index, name.text, name.bytes, ELF_STT_FUNC, &function), QUERN_E_OBJECT,
            "kernel %.*s has no function symbol", shown, name.text);
    FAIL_IF(function.address != k->entry, QUERN_E_OBJECT,
            "kernel %.*s begins at %#" PRIx64 " by its symbol, at %#" PRIx64 " by its descriptor",
            shown, name.text, function.address, k->entry);
    k->name = function.name;
    k->code_bytes = function.bytes;
    if (!k->code_bytes)
        k->code_bytes =
            next_function(symbols, symbol_count, k->entry, segment.address + segment.file_bytes) -
            k->entry;
    FAIL_IF(k->code_bytes < 4 || !elf_at(elf, k->entry, k->code_bytes), QUERN_E_OBJECT,
            "kernel %.*s: the file does not hold the %" PRIu64 " bytes of its code", shown,
            name.text, k->code_bytes);
    return QUERN_OK;
}

quern_status kernel_read(const struct elf *elf, const struct target *target,
                         const struct symbol_index *index, const struct object_symbol *symbols,
                         size_t symbol_count, const struct metadata_kernel *m,
                         struct object_kernel *k)
{
    const struct msgpack_text s = m->symbol;
    struct msgpack_text name = {.text = s.text, .bytes = s.bytes < 3 ? 0 : s.bytes - 3};
    const int shown = (int)(s.bytes < 80 ? s.bytes : 80);
    struct elf_symbol symbol;

    FAIL_IF(name.bytes == 0 || memcmp(s.text + name.bytes, ".kd", 3), QUERN_E_OBJECT,
            "a kernel whose symbol \"%.*s\" does not end in \".kd\"", shown, s.text);
    FAIL_IF(!find_symbol(index, s.text, s.bytes, ELF_STT_OBJECT, &symbol), QUERN_E_OBJECT,
            "no symbol %.*s, which the metadata name", shown, s.text);
    const uint8_t *const d = elf_at(elf, symbol.address, DESCRIPTOR_BYTES);
    FAIL_IF(
        !d || symbol.address % DESCRIPTOR_BYTES || symbol.bytes != DESCRIPTOR_BYTES, QUERN_E_OBJECT,
        "%.*s (%#" PRIx64 ", %" PRIu64 " bytes) is no descriptor: %d bytes of the file, aligned",
        shown, s.text, symbol.address, symbol.bytes, DESCRIPTOR_BYTES);
    *k = (struct object_kernel){
        .descriptor = symbol.address,
        .rsrc1 = le32(d + AT_RSRC1),
        .rsrc2 = le32(d + AT_RSRC2),
        .rsrc3 = le32(d + AT_RSRC3),
        .properties = le16(d + AT_PROPERTIES),
        .kernarg_preload = le16(d + AT_PRELOAD),
        /* assembly may leave it 0, as Tensile's does: loaders go by the metadata */
        .kernarg_bytes = le32(d + AT_KERNARG) ? le32(d + AT_KERNARG) : m->kernarg_bytes,
        .lds_bytes = le32(d + AT_LDS),
        .scratch_bytes = le32(d + AT_SCRATCH),
        .vgprs = m->vgprs,
        .agprs = m->agprs,
        .sgprs = m->sgprs,
        .vgpr_spills = m->vgpr_spills,
        .sgpr_spills = m->sgpr_spills,
        .max_flat_workgroup = m->max_flat_workgroup,
    };
    k->wave_size = k->properties & OBJECT_WAVEFRONT_SIZE32 ? 32 : 64;
    k->dynamic_stack = k->properties & OBJECT_USES_DYNAMIC_STACK;
    const uint32_t unit = target->vgpr_unit / (k->wave_size > target->wave_size ? 2 : 1);
    k->vgprs_granted = ((k->rsrc1 & 63) + 1) * unit;
    TRY(read_code(elf, index, symbols, symbol_count, name, (int64_t)le64(d + AT_ENTRY), k));
    return check_resources(target, m, k, d);
}

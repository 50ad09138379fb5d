/* SPDX-License-Identifier: MIT */
/*
 * A bounds-checked reader of 64-bit little-endian ELF files, for the readers of code objects.
 * elf_open checks every header, table, string and note once, and that what a loader would use is
 * placed in memory as loaders demand; elf_open_sections checks headers, sections and symbols alone,
 * for files whose makers' loaders have other rules. After the first the accessors cannot fail or
 * read outside the file, whatever its bytes are; after the second those of sections and symbols.
 * What machine and system the file is for is not checked: formats do that.
 */
#ifndef QUERN_OBJECT_ELF_H
#define QUERN_OBJECT_ELF_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum elf_segment_type { ELF_PT_LOAD = 1, ELF_PT_NOTE = 4 };
enum elf_segment_flag { ELF_PF_X = 1, ELF_PF_W = 2 };
enum elf_section_type {
    ELF_SHT_NULL = 0,
    ELF_SHT_SYMTAB = 2,
    ELF_SHT_STRTAB = 3,
    ELF_SHT_RELA = 4,
    ELF_SHT_NOBITS = 8,
    ELF_SHT_REL = 9,
    ELF_SHT_DYNSYM = 11
};
enum elf_section_flag { ELF_SHF_ALLOC = 2 };
enum elf_symbol_type { ELF_STT_NOTYPE = 0, ELF_STT_OBJECT = 1, ELF_STT_FUNC = 2 };
enum elf_section_index { ELF_SHN_UNDEF = 0, ELF_SHN_LORESERVE = 0xff00 };

/* Limits beyond which a file is refused: far above any real code object, low enough that no table
 * read here costs noticeable time or memory. */
#define ELF_FILE_MAX     ((uint64_t)1 << 28)
#define ELF_IMAGE_MAX    ((uint64_t)1 << 28) /* highest virtual address */
#define ELF_SEGMENTS_MAX 64                  /* loaded ones */
#define ELF_NOTES_MAX    4                   /* segments of notes */
#define ELF_TABLES_MAX   8                   /* of symbols and relocations */

struct elf {
    const uint8_t *bytes; /* the caller's */
    uint64_t size;
    uint32_t flags;
    unsigned os_abi, abi_version;                /* EI_OSABI, EI_ABIVERSION */
    unsigned type;                               /* e_type */
    uint64_t segments_at, sections_at, names_at; /* the last: of sections */
    unsigned segment_count, section_count;
};

struct elf_segment {
    uint32_t type, flags;
    uint64_t offset, address, file_bytes, memory_bytes;
};

struct elf_section {
    const char *name; /* inside the file, NUL-terminated */
    uint32_t type;
    uint64_t flags, offset, size;
    uint32_t link, info;
    uint64_t entry_bytes;
};

struct elf_symbol {
    const char *name; /* inside the file, NUL-terminated */
    unsigned type;
    unsigned section;
    uint64_t address, bytes;
};

struct elf_relocation {
    uint64_t address;
    uint32_t type, symbol;
    int64_t addend;
};

enum elf_machine { ELF_EM_CUDA = 190, ELF_EM_AMDGPU = 224 };

/* The e_machine of what begins like a 64-bit little-endian ELF file; 0 of anything else. */
unsigned elf_machine(const void *bytes, size_t size);

/* QUERN_E_OBJECT says which header or table is wrong, and how. */
quern_status elf_open(const void *bytes, size_t size, struct elf *elf);
quern_status elf_open_sections(const void *bytes, size_t size, struct elf *elf);

/* The index must be below segment_count, section_count or the count of the table. */
struct elf_segment elf_segment(const struct elf *elf, unsigned index);
struct elf_section elf_section(const struct elf *elf, unsigned index);

/* A table of symbols or relocations: `section` is of that type. */
uint64_t elf_table_count(const struct elf_section *section);
struct elf_symbol elf_symbol(const struct elf *elf, const struct elf_section *table,
                             uint64_t index);
struct elf_relocation elf_relocation(const struct elf *elf, const struct elf_section *table,
                                     uint64_t index);

/* The first section of a type; false if there is none. */
bool elf_find_section(const struct elf *elf, uint32_t type, struct elf_section *section);

/* The PT_LOAD segment that holds all of address…address+bytes (in memory), or false. */
bool elf_find_segment(const struct elf *elf, uint64_t address, uint64_t bytes,
                      struct elf_segment *segment);

/* The file's bytes for a range of virtual addresses; null unless all of it is in the file. */
const uint8_t *elf_at(const struct elf *elf, uint64_t address, uint64_t bytes);

/* Where a walk through the notes is; begins as zeros. */
struct elf_note_place {
    unsigned segment;
    uint64_t at;
};

/* The content of the next note of that owner and type; null when there is none left. A note that
 * does not fit is refused whoever owns it. */
quern_status elf_next_note(const struct elf *elf, const char *owner, uint32_t type,
                           struct elf_note_place *place, const uint8_t **content, size_t *size);

#endif

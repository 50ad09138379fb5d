/* SPDX-License-Identifier: MIT */
/* The reader of ELF files (elf.h), for the formats of code objects. */
#include "object/elf.h"
#include "object/le.h"

#include <inttypes.h>
#include <string.h>

enum {
    HEADER_BYTES = 64,
    SEGMENT_BYTES = 56,
    SECTION_BYTES = 64,
    SYMBOL_BYTES = 24,
    RELOCATION_BYTES = 24,
    NOTE_BYTES = 12
};
#define PHDR_MAX 1024

static bool in_file(const struct elf *elf, uint64_t offset, uint64_t bytes)
{
    return offset <= elf->size && bytes <= elf->size - offset;
}

struct elf_segment elf_segment(const struct elf *elf, unsigned index)
{
    const uint8_t *const p = elf->bytes + elf->segments_at + (uint64_t)index * SEGMENT_BYTES;

    return (struct elf_segment){
        .type = le32(p),
        .flags = le32(p + 4),
        .offset = le64(p + 8),
        .address = le64(p + 16),
        .file_bytes = le64(p + 32),
        .memory_bytes = le64(p + 40),
    };
}

struct elf_section elf_section(const struct elf *elf, unsigned index)
{
    const uint8_t *const p = elf->bytes + elf->sections_at + (uint64_t)index * SECTION_BYTES;

    return (struct elf_section){
        .name = (const char *)elf->bytes + elf->names_at + le32(p),
        .type = le32(p + 4),
        .flags = le64(p + 8),
        .offset = le64(p + 24),
        .size = le64(p + 32),
        .link = le32(p + 40),
        .info = le32(p + 44),
        .entry_bytes = le64(p + 56),
    };
}

uint64_t elf_table_count(const struct elf_section *section)
{
    return section->size / section->entry_bytes;
}

static struct elf_symbol symbol_at(const struct elf *elf, const struct elf_section *table,
                                   uint64_t index, uint32_t *name)
{
    const uint8_t *const p = elf->bytes + table->offset + index * SYMBOL_BYTES;

    *name = le32(p);
    return (struct elf_symbol){
        .type = p[4] & 15,
        .section = le16(p + 6),
        .address = le64(p + 8),
        .bytes = le64(p + 16),
    };
}

struct elf_symbol elf_symbol(const struct elf *elf, const struct elf_section *table, uint64_t index)
{
    uint32_t name;
    struct elf_symbol symbol = symbol_at(elf, table, index, &name);

    symbol.name = (const char *)elf->bytes + elf_section(elf, table->link).offset + name;
    return symbol;
}

struct elf_relocation elf_relocation(const struct elf *elf, const struct elf_section *table,
                                     uint64_t index)
{
    const uint8_t *const p = elf->bytes + table->offset + index * RELOCATION_BYTES;

    return (struct elf_relocation){
        .address = le64(p),
        .type = le32(p + 8),
        .symbol = le32(p + 12),
        .addend = (int64_t)le64(p + 16),
    };
}

bool elf_find_section(const struct elf *elf, uint32_t type, struct elf_section *section)
{
    for (unsigned i = 0; i < elf->section_count; i++) {
        *section = elf_section(elf, i);
        if (section->type == type)
            return true;
    }
    return false;
}

bool elf_find_segment(const struct elf *elf, uint64_t address, uint64_t bytes,
                      struct elf_segment *segment)
{
    for (unsigned i = 0; i < elf->segment_count; i++) {
        *segment = elf_segment(elf, i);
        if (segment->type == ELF_PT_LOAD && address >= segment->address &&
            address - segment->address <= segment->memory_bytes &&
            bytes <= segment->memory_bytes - (address - segment->address))
            return true;
    }
    return false;
}

const uint8_t *elf_at(const struct elf *elf, uint64_t address, uint64_t bytes)
{
    struct elf_segment s;

    if (!elf_find_segment(elf, address, bytes, &s) || address - s.address > s.file_bytes ||
        bytes > s.file_bytes - (address - s.address))
        return NULL;
    return elf->bytes + s.offset + (address - s.address);
}

unsigned elf_machine(const void *bytes, size_t size)
{
    const uint8_t *const b = bytes;

    return size < HEADER_BYTES || memcmp(b, "\177ELF", 4) || b[4] != 2 || b[5] != 1 ? 0
                                                                                    : le16(b + 18);
}

static quern_status check_header(struct elf *elf)
{
    const uint8_t *const b = elf->bytes;

    FAIL_IF(elf->size < HEADER_BYTES, QUERN_E_OBJECT,
            "not a code object: %" PRIu64 " bytes are less than an ELF header's %d", elf->size,
            HEADER_BYTES);
    FAIL_IF(memcmp(b, "\177ELF", 4), QUERN_E_OBJECT,
            "not a code object: begins with %02x %02x %02x %02x instead of the ELF magic", b[0],
            b[1], b[2], b[3]);
    FAIL_IF(elf->size > ELF_FILE_MAX, QUERN_E_OBJECT,
            "code object of %" PRIu64 " bytes: at most %" PRIu64 " are read", elf->size,
            ELF_FILE_MAX);
    FAIL_IF(b[4] != 2 || b[5] != 1 || b[6] != 1, QUERN_E_OBJECT,
            "ELF class %u, data %u, version %u: a code object is 64-bit (2), little-endian (1), 1",
            b[4], b[5], b[6]);
    elf->os_abi = b[7];
    elf->abi_version = b[8];
    elf->type = le16(b + 16);
    elf->segments_at = le64(b + 32);
    elf->sections_at = le64(b + 40);
    elf->flags = le32(b + 48);
    elf->segment_count = le16(b + 56);
    elf->section_count = le16(b + 60);
    FAIL_IF(le16(b + 52) != HEADER_BYTES || le16(b + 54) != SEGMENT_BYTES ||
                le16(b + 58) != SECTION_BYTES,
            QUERN_E_OBJECT,
            "ELF header, program header and section header sizes %u, %u, %u: "
            "they are %d, %d, %d",
            le16(b + 52), le16(b + 54), le16(b + 58), HEADER_BYTES, SEGMENT_BYTES, SECTION_BYTES);
    FAIL_IF(elf->segment_count == 0 || elf->segment_count > PHDR_MAX, QUERN_E_OBJECT,
            "%u program headers: 1 to %d are read", elf->segment_count, PHDR_MAX);
    FAIL_IF(!in_file(elf, elf->segments_at, (uint64_t)elf->segment_count * SEGMENT_BYTES),
            QUERN_E_OBJECT,
            "%u program headers at offset %" PRIu64 " end behind the file's %" PRIu64 " bytes",
            elf->segment_count, elf->segments_at, elf->size);
    FAIL_IF(elf->section_count == 0 || elf->section_count >= ELF_SHN_LORESERVE, QUERN_E_OBJECT,
            "%u section headers: 1 to %d are read", elf->section_count, ELF_SHN_LORESERVE - 1);
    FAIL_IF(!in_file(elf, elf->sections_at, (uint64_t)elf->section_count * SECTION_BYTES),
            QUERN_E_OBJECT,
            "%u section headers at offset %" PRIu64 " end behind the file's %" PRIu64 " bytes",
            elf->section_count, elf->sections_at, elf->size);
    return QUERN_OK;
}

static quern_status check_segments(const struct elf *elf)
{
    uint64_t end = 0;
    unsigned loads = 0, notes = 0;

    for (unsigned i = 0; i < elf->segment_count; i++) {
        const struct elf_segment s = elf_segment(elf, i);
        FAIL_IF(s.type == ELF_PT_NOTE && ++notes > ELF_NOTES_MAX, QUERN_E_OBJECT,
                "more than %d segments of notes", ELF_NOTES_MAX);
        FAIL_IF(!in_file(elf, s.offset, s.file_bytes), QUERN_E_OBJECT,
                "segment %u (offset %" PRIu64 ", %" PRIu64 " bytes) ends behind the file's %" PRIu64
                " bytes",
                i, s.offset, s.file_bytes, elf->size);
        if (s.type != ELF_PT_LOAD)
            continue;
        FAIL_IF(++loads > ELF_SEGMENTS_MAX, QUERN_E_OBJECT, "more than %d loaded segments",
                ELF_SEGMENTS_MAX);
        FAIL_IF(s.file_bytes > s.memory_bytes, QUERN_E_OBJECT,
                "segment %u has %" PRIu64 " bytes in the file but only %" PRIu64 " in memory", i,
                s.file_bytes, s.memory_bytes);
        FAIL_IF(s.address > ELF_IMAGE_MAX || s.memory_bytes > ELF_IMAGE_MAX - s.address,
                QUERN_E_OBJECT,
                "segment %u (address %#" PRIx64 ", %#" PRIx64 " bytes) ends above %#" PRIx64, i,
                s.address, s.memory_bytes, ELF_IMAGE_MAX);
        FAIL_IF(s.address < end, QUERN_E_OBJECT,
                "segment %u begins at %#" PRIx64 ", inside or before the one ending at %#" PRIx64,
                i, s.address, end);
        FAIL_IF((s.flags & ELF_PF_X) && (s.flags & ELF_PF_W), QUERN_E_OBJECT,
                "segment %u is both writable and executable", i);
        end = s.address + s.memory_bytes;
    }
    FAIL_IF(loads == 0, QUERN_E_OBJECT, "no loaded segment");
    return QUERN_OK;
}

static quern_status check_symbols(const struct elf *elf, unsigned index,
                                  const struct elf_section *table)
{
    const struct elf_section strings = elf_section(elf, table->link);

    for (uint64_t i = 0; i < elf_table_count(table); i++) {
        uint32_t name;
        const struct elf_symbol s = symbol_at(elf, table, i, &name);
        FAIL_IF(name >= strings.size, QUERN_E_OBJECT,
                "symbol %" PRIu64 " of section %u: its name begins at %u of %" PRIu64
                " bytes of names",
                i, index, name, strings.size);
        FAIL_IF(s.section >= elf->section_count && s.section < ELF_SHN_LORESERVE, QUERN_E_OBJECT,
                "symbol %" PRIu64 " of section %u is in section %u of %u", i, index, s.section,
                elf->section_count);
    }
    return QUERN_OK;
}

/* Symbols of code and data must be where a segment is loaded. */
static quern_status check_places(const struct elf *elf, unsigned index,
                                 const struct elf_section *table)
{
    struct elf_segment segment;

    for (uint64_t i = 0; i < elf_table_count(table); i++) {
        const struct elf_symbol s = elf_symbol(elf, table, i);
        const bool placed = s.section != ELF_SHN_UNDEF && s.section < ELF_SHN_LORESERVE &&
                            (s.type == ELF_STT_OBJECT || s.type == ELF_STT_FUNC);
        FAIL_IF(placed && !elf_find_segment(elf, s.address, s.bytes, &segment), QUERN_E_OBJECT,
                "symbol %" PRIu64 " of section %u (address %#" PRIx64 ", %" PRIu64
                " bytes) is not inside a loaded segment",
                i, index, s.address, s.bytes);
    }
    return QUERN_OK;
}

static quern_status check_relocations(const struct elf *elf, unsigned index,
                                      const struct elf_section *table)
{
    const struct elf_section symbols = elf_section(elf, table->link);
    struct elf_segment segment;

    for (uint64_t i = 0; i < elf_table_count(table); i++) {
        const struct elf_relocation r = elf_relocation(elf, table, i);
        FAIL_IF(r.symbol >= elf_table_count(&symbols), QUERN_E_OBJECT,
                "relocation %" PRIu64 " of section %u is against symbol %u of %" PRIu64, i, index,
                r.symbol, elf_table_count(&symbols));
        FAIL_IF((table->flags & ELF_SHF_ALLOC) && !elf_find_segment(elf, r.address, 8, &segment),
                QUERN_E_OBJECT,
                "relocation %" PRIu64 " of section %u is at %#" PRIx64
                ", not inside a loaded segment",
                i, index, r.address);
    }
    return QUERN_OK;
}

static bool holds_symbols(const struct elf_section *s)
{
    return s->type == ELF_SHT_SYMTAB || s->type == ELF_SHT_DYNSYM;
}

/* Every extent, string table and name. */
static quern_status check_extents(struct elf *elf)
{
    const unsigned names = le16(elf->bytes + 62);

    FAIL_IF(names >= elf->section_count || elf_section(elf, names).type != ELF_SHT_STRTAB,
            QUERN_E_OBJECT, "the table of section names is said to be section %u of %u", names,
            elf->section_count);
    for (unsigned i = 0; i < elf->section_count; i++) {
        const struct elf_section s = elf_section(elf, i);
        if (s.type == ELF_SHT_NULL)
            continue;
        FAIL_IF(s.type != ELF_SHT_NOBITS && !in_file(elf, s.offset, s.size), QUERN_E_OBJECT,
                "section %u (offset %" PRIu64 ", %" PRIu64 " bytes) ends behind the file's %" PRIu64
                " bytes",
                i, s.offset, s.size, elf->size);
        FAIL_IF(s.link >= elf->section_count, QUERN_E_OBJECT,
                "section %u links to section %u of %u", i, s.link, elf->section_count);
        FAIL_IF(s.type == ELF_SHT_STRTAB && (s.size == 0 || elf->bytes[s.offset + s.size - 1]),
                QUERN_E_OBJECT, "section %u: the last of its strings does not end", i);
    }
    const struct elf_section table = elf_section(elf, names);
    for (unsigned i = 0; i < elf->section_count; i++) {
        const uint32_t name = le32(elf->bytes + elf->sections_at + (uint64_t)i * SECTION_BYTES);
        FAIL_IF(name >= table.size, QUERN_E_OBJECT,
                "section %u: its name is outside the table of section names", i);
    }
    elf->names_at = table.offset;
    return QUERN_OK;
}

/* Whether section i is a table of entries of that size. */
static quern_status check_entries(unsigned i, const struct elf_section *s, unsigned entry_bytes)
{
    FAIL_IF(s->entry_bytes != entry_bytes, QUERN_E_OBJECT,
            "section %u has entries of %" PRIu64 " bytes; they have %u", i, s->entry_bytes,
            entry_bytes);
    FAIL_IF(s->size % entry_bytes, QUERN_E_OBJECT,
            "section %u: %" PRIu64 " bytes are no whole number of entries", i, s->size);
    return QUERN_OK;
}

/* Tables of symbols: those of names must have been checked. */
static quern_status check_symbol_tables(const struct elf *elf)
{
    unsigned tables = 0;

    for (unsigned i = 0; i < elf->section_count; i++) {
        const struct elf_section s = elf_section(elf, i);
        if (!holds_symbols(&s))
            continue;
        FAIL_IF(++tables > ELF_TABLES_MAX, QUERN_E_OBJECT, "more than %d symbol tables",
                ELF_TABLES_MAX);
        TRY(check_entries(i, &s, SYMBOL_BYTES));
        FAIL_IF(elf_section(elf, s.link).type != ELF_SHT_STRTAB, QUERN_E_OBJECT,
                "section %u: its names are said to be in section %u, which has none", i, s.link);
        TRY(check_symbols(elf, i, &s));
    }
    return QUERN_OK;
}

/* What is to be loaded and relocated. */
static quern_status check_placement(const struct elf *elf)
{
    unsigned tables = 0;

    for (unsigned i = 0; i < elf->section_count; i++) {
        const struct elf_section s = elf_section(elf, i);
        FAIL_IF(s.type == ELF_SHT_REL, QUERN_E_OBJECT,
                "section %u has relocations without addends, which AMD GPUs do not use", i);
        if (holds_symbols(&s))
            TRY(check_places(elf, i, &s));
        if (s.type != ELF_SHT_RELA)
            continue;
        FAIL_IF(++tables > ELF_TABLES_MAX, QUERN_E_OBJECT, "more than %d relocation tables",
                ELF_TABLES_MAX);
        TRY(check_entries(i, &s, RELOCATION_BYTES));
        const struct elf_section linked = elf_section(elf, s.link);
        FAIL_IF(!holds_symbols(&linked), QUERN_E_OBJECT,
                "section %u: its symbols are said to be in section %u, which has none", i, s.link);
        TRY(check_relocations(elf, i, &s));
    }
    return QUERN_OK;
}

struct note {
    const char *owner;
    uint32_t owner_bytes, type;
    const uint8_t *content;
    uint32_t bytes;
};

/* Reads the note at *at and moves on. */
static quern_status next_note(const struct elf *elf, const struct elf_segment *s, uint64_t *at,
                              struct note *note)
{
    const uint8_t *const p = elf->bytes + s->offset + *at;
    const uint64_t left = s->file_bytes - *at;

    *note = (struct note){0};
    FAIL_IF(left < NOTE_BYTES, QUERN_E_OBJECT, "a note of %" PRIu64 " bytes: its header has %d",
            left, NOTE_BYTES);
    note->owner_bytes = le32(p);
    note->bytes = le32(p + 4);
    note->type = le32(p + 8);
    const uint64_t owner_room = ((uint64_t)note->owner_bytes + 3) & ~(uint64_t)3;
    FAIL_IF(owner_room > left - NOTE_BYTES || note->bytes > left - NOTE_BYTES - owner_room,
            QUERN_E_OBJECT, "a note of %u + %u bytes does not fit in the %" PRIu64 " that are left",
            note->owner_bytes, note->bytes, left);
    note->owner = (const char *)p + NOTE_BYTES;
    note->content = p + NOTE_BYTES + owner_room;
    const uint64_t end = NOTE_BYTES + owner_room + (((uint64_t)note->bytes + 3) & ~(uint64_t)3);
    *at += end < left ? end : left; /* the last one's padding may be missing */
    return QUERN_OK;
}

quern_status elf_next_note(const struct elf *elf, const char *owner, uint32_t type,
                           struct elf_note_place *place, const uint8_t **content, size_t *size)
{
    const size_t owner_bytes = strlen(owner) + 1;

    for (; place->segment < elf->segment_count; place->segment++, place->at = 0) {
        const struct elf_segment s = elf_segment(elf, place->segment);
        while (s.type == ELF_PT_NOTE && place->at < s.file_bytes) {
            struct note n;
            TRY(next_note(elf, &s, &place->at, &n));
            if (n.type != type || n.owner_bytes != owner_bytes ||
                memcmp(n.owner, owner, owner_bytes))
                continue;
            *content = n.content;
            *size = n.bytes;
            return QUERN_OK;
        }
    }
    *content = NULL;
    *size = 0;
    return QUERN_OK;
}

quern_status elf_open_sections(const void *bytes, size_t size, struct elf *elf)
{
    *elf = (struct elf){.bytes = bytes, .size = size};
    TRY(check_header(elf));
    TRY(check_extents(elf));
    return check_symbol_tables(elf);
}

quern_status elf_open(const void *bytes, size_t size, struct elf *elf)
{
    TRY(elf_open_sections(bytes, size, elf));
    /* in cubins a number of NVIDIA's */
    FAIL_IF(le32(elf->bytes + 20) != 1, QUERN_E_OBJECT, "ELF version %u: only 1 has a meaning",
            le32(elf->bytes + 20));
    TRY(check_segments(elf));
    return check_placement(elf);
}

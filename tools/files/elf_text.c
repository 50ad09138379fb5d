/* SPDX-License-Identifier: MIT */
#include "files/elf_text.h"

#include <elf.h>
#include <string.h>

/* Copies `size` bytes at `offset`: files need not be aligned, and may lie about what they hold. */
static bool get(const void *file, size_t file_size, uint64_t offset, void *out, size_t size)
{
    if (offset > file_size || size > file_size - offset)
        return false;
    memcpy(out, (const char *)file + offset, size);
    return true;
}

static bool section(const void *file, size_t size, const Elf64_Ehdr *header, uint64_t index,
                    Elf64_Shdr *out)
{
    return index < header->e_shnum && header->e_shentsize == sizeof *out &&
           header->e_shoff <= size &&
           get(file, size, header->e_shoff + index * sizeof *out, out, sizeof *out);
}

/* Whether the string at `offset` of a string table is `name`. */
static bool has_name(const void *file, size_t size, const Elf64_Shdr *strings, uint64_t offset,
                     const char *name)
{
    const size_t length = strlen(name) + 1;

    return offset < strings->sh_size && length <= strings->sh_size - offset &&
           strings->sh_offset <= size && offset <= size - strings->sh_offset &&
           length <= size - strings->sh_offset - offset &&
           !memcmp((const char *)file + strings->sh_offset + offset, name, length);
}

/* The bytes that a symbol stands for, in the section that holds its address. */
static bool place(const void *file, size_t size, const Elf64_Ehdr *header, const Elf64_Sym *symbol,
                  const void **code, size_t *code_bytes)
{
    Elf64_Shdr text;

    if (!section(file, size, header, symbol->st_shndx, &text) || text.sh_type != SHT_PROGBITS ||
        symbol->st_value < text.sh_addr || symbol->st_value - text.sh_addr > text.sh_size ||
        symbol->st_size > text.sh_size - (symbol->st_value - text.sh_addr) ||
        text.sh_offset > size || text.sh_size > size - text.sh_offset)
        return false;
    *code = (const char *)file + text.sh_offset + (symbol->st_value - text.sh_addr);
    *code_bytes = symbol->st_size;
    return true;
}

static bool search(const void *file, size_t size, const Elf64_Ehdr *header,
                   const Elf64_Shdr *symbols, const char *name, Elf64_Sym *found)
{
    Elf64_Shdr strings;

    if (symbols->sh_entsize != sizeof *found ||
        !section(file, size, header, symbols->sh_link, &strings))
        return false;
    for (uint64_t at = 0; symbols->sh_size - at >= sizeof *found; at += sizeof *found) {
        if (symbols->sh_offset > size ||
            !get(file, size, symbols->sh_offset + at, found, sizeof *found))
            return false;
        if (ELF64_ST_TYPE(found->st_info) == STT_FUNC &&
            has_name(file, size, &strings, found->st_name, name))
            return true;
    }
    return false;
}

bool elf_function(const void *file, size_t size, const char *name, const void **code,
                  size_t *code_bytes, uint64_t *address)
{
    Elf64_Ehdr header;
    Elf64_Shdr symbols;
    Elf64_Sym symbol;

    if (!get(file, size, 0, &header, sizeof header) || memcmp(header.e_ident, ELFMAG, SELFMAG) ||
        header.e_ident[EI_CLASS] != ELFCLASS64)
        return false;
    for (uint64_t i = 0; section(file, size, &header, i, &symbols); i++)
        if ((symbols.sh_type == SHT_SYMTAB || symbols.sh_type == SHT_DYNSYM) &&
            search(file, size, &header, &symbols, name, &symbol)) {
            *address = symbol.st_value;
            return place(file, size, &header, &symbol, code, code_bytes);
        }
    return false;
}

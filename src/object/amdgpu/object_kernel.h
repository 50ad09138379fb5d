/* SPDX-License-Identifier: MIT */
/* One kernel: its descriptor, symbols and metadata, compared with each other. */
#ifndef QUERN_OBJECT_OBJECT_KERNEL_H
#define QUERN_OBJECT_OBJECT_KERNEL_H

#include "object/elf.h"
#include "object/amdgpu/metadata.h"
#include "object/object.h"

/* Symbols by name: the table that a loader goes by, sorted by hash. */
struct symbol_index {
    const struct elf *elf;
    struct elf_section table;
    size_t count;
    struct symbol_slot *slots;
};

/* QUERN_E_OBJECT if there is no symbol table. */
quern_status symbol_index_make(const struct elf *elf, struct symbol_index *index);
void symbol_index_free(struct symbol_index *index);

/*
 * Fills *kernel, all but its arguments, from the descriptor that the metadata name. `symbols` are
 * those of the object, by address. QUERN_E_OBJECT says which of descriptor, symbols and metadata
 * disagree.
 */
quern_status kernel_read(const struct elf *elf, const struct target *target,
                         const struct symbol_index *index, const struct object_symbol *symbols,
                         size_t symbol_count, const struct metadata_kernel *metadata,
                         struct object_kernel *kernel);

#endif

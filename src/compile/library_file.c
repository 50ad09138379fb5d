/* SPDX-License-Identifier: MIT */
/* Reads an ELF file of a toolchain (library_file.h): its identity, and which libraries it needs. */
#include "compile/library_file.h"

#include "base/os.h"
#include "base/str.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Limits on what is read of a file, whose contents may be anything. */
#define HEADERS_MAX 64
#define NOTES_MAX   65536
#define DYNAMIC_MAX 65536

struct library_file {
    int fd;
    size_t count;
    Elf64_Phdr headers[HEADERS_MAX];
};

static bool read_at(int fd, void *to, size_t n, uint64_t offset)
{
    size_t got = 0;

    if (offset > INT64_MAX - n)
        return false;
    while (got < n) {
        const ssize_t r = os.pread(fd, (char *)to + got, n - got, (off_t)(offset + got));
        if (r <= 0)
            return false;
        got += (size_t)r;
    }
    return true;
}

static bool library_file_open(const char *path, struct library_file *file)
{
    Elf64_Ehdr head;

    /* O_NONBLOCK: opening a fifo must not hang */
    file->fd = os.open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    if (file->fd < 0)
        return false;
    if (read_at(file->fd, &head, sizeof head, 0) && !memcmp(head.e_ident, ELFMAG, SELFMAG) &&
        head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_ident[EI_DATA] == ELFDATA2LSB &&
        head.e_phentsize == sizeof(Elf64_Phdr) && head.e_phnum <= HEADERS_MAX) {
        file->count = head.e_phnum;
        if (read_at(file->fd, file->headers, file->count * sizeof(Elf64_Phdr), head.e_phoff))
            return true;
    }
    os.close(file->fd);
    return false;
}

/* Reads a segment of at most `limit` bytes into malloc'ed memory. */
static void *read_segment(const struct library_file *file, const Elf64_Phdr *h, size_t limit)
{
    if (!h->p_filesz || h->p_filesz > limit)
        return NULL;

    void *const bytes = os.malloc(h->p_filesz);
    if (bytes && read_at(file->fd, bytes, h->p_filesz, h->p_offset))
        return bytes;
    os.free(bytes);
    return NULL;
}

static bool note_id(const uint8_t *notes, size_t size, char *id, size_t id_size)
{
    size_t at = 0;

    while (size - at >= sizeof(Elf64_Nhdr)) {
        Elf64_Nhdr note;
        memcpy(&note, notes + at, sizeof note);
        at += sizeof note;
        const uint64_t name = ((uint64_t)note.n_namesz + 3) & ~3ull;
        const uint64_t desc = ((uint64_t)note.n_descsz + 3) & ~3ull;
        if (name + desc > size - at)
            return false;
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && !memcmp(notes + at, "GNU", 4) &&
            note.n_descsz && note.n_descsz * 2 < id_size) {
            hex_from_bytes(id, notes + at + name, note.n_descsz);
            return true;
        }
        at += name + desc;
    }
    return false;
}

static bool whole_file_id(int fd, char *id, size_t id_size)
{
    /* xxHash demands that alignment */
    XXH3_state_t *const state = os.aligned_alloc(64, sizeof(XXH3_state_t));
    uint8_t *const block = os.malloc(1 << 20);
    XXH128_canonical_t canonical;
    bool done = false;
    off_t at = 0;

    if (state && block && id_size >= 2 * sizeof canonical + 2) {
        ssize_t n = 0;
        XXH3_128bits_reset(state);
        while ((n = os.pread(fd, block, 1 << 20, at)) > 0) {
            XXH3_128bits_update(state, block, (size_t)n);
            at += n;
        }
        if (n == 0) {
            XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(state));
            id[0] = 'x';
            hex_from_bytes(id + 1, &canonical, sizeof canonical);
            done = true;
        }
    }
    os.free(block);
    os.free(state);
    return done;
}

bool library_file_id(const char *path, char *id, size_t size)
{
    struct library_file file;
    bool found = false;

    if (!library_file_open(path, &file))
        return false;
    for (size_t i = 0; i < file.count && !found; i++) {
        if (file.headers[i].p_type != PT_NOTE)
            continue;
        uint8_t *const notes = read_segment(&file, &file.headers[i], NOTES_MAX);
        found = notes && note_id(notes, file.headers[i].p_filesz, id, size);
        os.free(notes);
    }
    if (!found)
        found = whole_file_id(file.fd, id, size);
    os.close(file.fd);
    return found;
}

/* The file offset of a virtual address. */
static bool file_offset(const struct library_file *file, uint64_t address, uint64_t *offset)
{
    for (size_t i = 0; i < file->count; i++) {
        const Elf64_Phdr *const h = &file->headers[i];
        if (h->p_type == PT_LOAD && address >= h->p_vaddr && address - h->p_vaddr < h->p_filesz) {
            *offset = h->p_offset + (address - h->p_vaddr);
            return true;
        }
    }
    return false;
}

static bool string_at(const struct library_file *file, uint64_t table, uint64_t index, char *text,
                      size_t size)
{
    uint64_t offset = 0;

    if (index > UINT32_MAX || !file_offset(file, table, &offset))
        return false;
    const ssize_t n = os.pread(file->fd, text, size, (off_t)(offset + index));
    return n > 0 && memchr(text, 0, (size_t)n);
}

bool library_file_needs(const char *path, const char *prefix, char *name, size_t size)
{
    struct library_file file;
    Elf64_Dyn *dynamic = NULL;
    size_t count = 0;
    uint64_t table = 0;
    bool found = false;

    if (!library_file_open(path, &file))
        return false;
    for (size_t i = 0; i < file.count && !dynamic; i++)
        if (file.headers[i].p_type == PT_DYNAMIC) {
            dynamic = read_segment(&file, &file.headers[i], DYNAMIC_MAX);
            count = file.headers[i].p_filesz / sizeof *dynamic;
        }
    for (size_t i = 0; dynamic && i < count; i++)
        if (dynamic[i].d_tag == DT_STRTAB)
            table = dynamic[i].d_un.d_ptr;
    for (size_t i = 0; dynamic && i < count && !found && dynamic[i].d_tag != DT_NULL; i++)
        found = dynamic[i].d_tag == DT_NEEDED &&
                string_at(&file, table, dynamic[i].d_un.d_val, name, size) &&
                !strncmp(name, prefix, strlen(prefix));
    os.free(dynamic);
    os.close(file.fd);
    return found;
}

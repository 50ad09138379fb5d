/* SPDX-License-Identifier: MIT */
/* Finding the toolchain, and telling one from another by its files. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "compile/compile.h"
#include "compile/library_file.h"
#include "t_context.h"
#include "t_store.h"

#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void toolchain_is_found_and_named(void **state)
{
    static const char *const labels[] = {"hiprtc:", ",builtins:", ",comgr:", ",llvm:"};
    struct toolchain t;
    const char *at;

    (void)state;
    assert_int_equal(toolchain_find(VENDOR_AMD, NULL, &t), QUERN_OK);
    assert_int_equal(access(t.library[LIBRARY_COMPILER], R_OK), 0);
    assert_int_equal(access(t.library[LIBRARY_DISASSEMBLER], R_OK), 0);
    assert_int_equal(strncmp(t.library[LIBRARY_COMPILER], t.root, strlen(t.root)), 0);
    at = t.identity;
    for (size_t i = 0; i < sizeof labels / sizeof *labels; i++) {
        assert_non_null(at = strstr(at, labels[i]));
        at += strlen(labels[i]);
    }
    assert_null(strstr(t.identity, "unreadable"));
    if (*t.loader) {
        assert_int_equal(access(t.loader, X_OK), 0);
        assert_true(*t.library_path == '/');
    }
}

static void toolchain_is_looked_for_in_the_given_root_only(void **state)
{
    char *const root = t_temp_dir();
    char path[600], *real;
    struct toolchain usual, t;

    (void)state;
    assert_int_equal(toolchain_find(VENDOR_AMD, NULL, &usual), QUERN_OK);
    snprintf(path, sizeof path, "%s/lib64", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/lib64/libhiprtc.so.6", root);
    assert_int_equal(symlink(usual.library[LIBRARY_COMPILER], path), 0);
    /* hipRTC alone is none, and whoever named a root does not get another one's */
    assert_int_equal(toolchain_find(VENDOR_AMD, root, &t), QUERN_E_TOOLCHAIN);
    assert_non_null(strstr(quern_last_error()->message, root));
    snprintf(path, sizeof path, "%s/lib64/libamd_comgr.so.3", root);
    assert_int_equal(symlink(usual.library[LIBRARY_DISASSEMBLER], path), 0);
    assert_int_equal(toolchain_find(VENDOR_AMD, root, &t), QUERN_OK);
    assert_non_null(real = realpath(root, NULL));
    assert_string_equal(t.root, real);
    assert_string_equal(t.library[LIBRARY_DISASSEMBLER] + strlen(real), "/lib64/libamd_comgr.so.3");
    assert_string_equal(t.loader, "");
    /* the same libraries by another path, but no built-ins: not the same toolchain */
    assert_non_null(strstr(t.identity, "builtins:-"));
    free(real);
    t_remove(root);
}

/* The C library of this very process, and its build-id as the loader mapped it. */
struct mapped {
    char path[600];
    char id[64];
};

static int find_libc(struct dl_phdr_info *info, size_t size, void *user)
{
    struct mapped *const m = user;

    (void)size;
    if (!strstr(info->dlpi_name, "/libc.so.6"))
        return 0;
    snprintf(m->path, sizeof m->path, "%s", info->dlpi_name);
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *const h = &info->dlpi_phdr[i];
        if (h->p_type != PT_NOTE)
            continue;
        const char *note = (const char *)(info->dlpi_addr + h->p_vaddr);
        const char *const end = note + h->p_memsz;
        while (note < end) {
            const ElfW(Nhdr) *const n = (const void *)note;
            const unsigned char *const bytes =
                (const unsigned char *)note + sizeof *n + ((n->n_namesz + 3) & ~3u);
            if (n->n_type == NT_GNU_BUILD_ID)
                for (unsigned b = 0; b < n->n_descsz; b++)
                    sprintf(m->id + 2 * b, "%02x", bytes[b]);
            note = (const char *)bytes + ((n->n_descsz + 3) & ~3u);
        }
    }
    return 1;
}

static void library_id_is_the_build_id(void **state)
{
    struct mapped libc = {0};
    char id[64];

    (void)state;
    assert_int_equal(dl_iterate_phdr(find_libc, &libc), 1);
    assert_true(*libc.id);
    assert_true(library_file_id(libc.path, id, sizeof id));
    assert_string_equal(id, libc.id);
}

/* An ELF file with one note segment whose note has the given type. */
static void write_elf(const char *path, uint32_t note_type, uint32_t desc_size, uint8_t last)
{
    struct {
        Elf64_Ehdr head;
        Elf64_Phdr segment;
        Elf64_Nhdr note;
        char name[4];
        uint8_t desc[20];
        uint8_t last;
    } f = {
        .head = {.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
                 .e_phoff = sizeof(Elf64_Ehdr),
                 .e_phentsize = sizeof(Elf64_Phdr),
                 .e_phnum = 1},
        .segment = {.p_type = PT_NOTE, .p_offset = offsetof(__typeof__(f), note), .p_filesz = 36},
        .note = {4, desc_size, note_type},
        .name = "GNU",
        .desc = {0xab, 0xcd},
        .last = last};

    t_write_file(path, &f, sizeof f);
}

static void library_id_of_odd_files(void **state)
{
    char *const directory = t_temp_dir();
    char path[600], a[64], b[64];

    (void)state;
    snprintf(path, sizeof path, "%s/odd", directory);
    assert_false(library_file_id(path, a, sizeof a));
    t_write_file(path, "no library", 10);
    assert_false(library_file_id(path, a, sizeof a));
    t_write_file(path, "\177ELF\2\1\1", 7);
    assert_false(library_file_id(path, a, sizeof a));
    assert_false(library_file_id(directory, a, sizeof a));

    write_elf(path, NT_GNU_BUILD_ID, 20, 0);
    assert_true(library_file_id(path, a, sizeof a));
    assert_string_equal(a, "abcd000000000000000000000000000000000000");
    /* no build-id, and a note longer than the segment: the bytes decide */
    write_elf(path, NT_GNU_HWCAP, 20, 0);
    assert_true(library_file_id(path, a, sizeof a));
    assert_int_equal(a[0], 'x');
    assert_int_equal(strlen(a), 33);
    write_elf(path, NT_GNU_HWCAP, 20, 1);
    assert_true(library_file_id(path, b, sizeof b));
    assert_string_not_equal(a, b);
    write_elf(path, NT_GNU_BUILD_ID, 4000, 0);
    assert_true(library_file_id(path, b, sizeof b));
    assert_int_equal(b[0], 'x');
    t_remove(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toolchain_is_found_and_named),
        cmocka_unit_test(toolchain_is_looked_for_in_the_given_root_only),
        cmocka_unit_test(library_id_is_the_build_id),
        cmocka_unit_test(library_id_of_odd_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

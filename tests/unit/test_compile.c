/* SPDX-License-Identifier: MIT */
/* What the real hipRTC and comgr are asked for, through the pool. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "t_compile.h"
#include "t_context.h"
#include "t_paths.h"
#include "t_store.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Compiling ------------------------------------------------------------------------------- */

static void compiles_for_every_target_of_the_table(void **state)
{
    struct compiler *const c = t_compiler_open(2, 0);
    size_t compiled = 0;

    (void)state;
    for (size_t i = 0; i < target_count(); i++) {
        struct compile_result r;
        Elf64_Ehdr head;
        if (target_at(i)->vendor != VENDOR_AMD)
            continue;
        compiled++;
        t_compile_well(c, t_add_source, target_at(i)->name, &r);
        assert_true(r.object_bytes > sizeof head);
        memcpy(&head, r.object, sizeof head);
        assert_memory_equal(head.e_ident, ELFMAG, SELFMAG);
        assert_int_equal(head.e_machine, 224); /* EM_AMDGPU */
        assert_int_equal(head.e_flags & 0xff, target_at(i)->elf_machine);
        assert_string_equal(r.log, "");
        assert_true(r.milliseconds > 0);
        compile_result_free(&r);
    }
    /* one after another, so one worker did it all */
    assert_int_equal(t_compiler_stats(c).started, 1);
    assert_int_equal(t_compiler_stats(c).compiled, compiled);
    compiler_close(c);
}

static void same_source_gives_the_same_bytes(void **state)
{
    struct compiler *c = t_compiler_open(1, 0);
    struct compile_result first, other, again;

    (void)state;
    t_compile_well(c, t_add_source, "gfx1151", &first);
    t_compile_well(c, t_add_source, "gfx942", &other);
    t_compile_well(c, t_add_source, "gfx1151", &again);
    assert_int_equal(first.object_bytes, again.object_bytes);
    assert_memory_equal(first.object, again.object, first.object_bytes);
    compile_result_free(&again);
    compiler_close(c);
    /* and in another worker, with another temporary directory */
    c = t_compiler_open(1, 0);
    t_compile_well(c, t_add_source, "gfx1151", &again);
    assert_int_equal(t_compiler_stats(c).started, 1);
    assert_int_equal(first.object_bytes, again.object_bytes);
    assert_memory_equal(first.object, again.object, first.object_bytes);
    compile_result_free(&first);
    compile_result_free(&other);
    compile_result_free(&again);
    compiler_close(c);
}

static void a_compile_error_brings_the_log(void **state)
{
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;

    (void)state;
    assert_int_equal(t_compile(c, T_KERNEL "k() { nonsense; }\n", "gfx1100", T_OPTIONS, &r),
                     QUERN_E_COMPILE);
    assert_null(r.object);
    const struct quern_error *const e = quern_last_error();
    assert_int_equal(e->status, QUERN_E_COMPILE);
    assert_string_equal(e->stage, "compile");
    assert_non_null(strstr(e->message, "gfx1100"));
    /* no path of the worker's private directory: the log is the same every time */
    assert_int_equal(strncmp(e->log, "quern.hip:1:", 12), 0);
    assert_non_null(strstr(e->log, "use of undeclared identifier 'nonsense'"));
    /* the worker goes on */
    t_compile_well(c, t_add_source, "gfx1100", &r);
    assert_int_equal(t_compiler_stats(c).started, 1);
    assert_int_equal(t_compiler_stats(c).died, 0);
    assert_int_equal(t_compiler_stats(c).failed, 1);
    compile_result_free(&r);
    compiler_close(c);
}

static void a_warning_is_in_the_log(void **state)
{
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;

    (void)state;
    t_compile_well(c, "#warning look here\n", "gfx1100", &r);
    assert_non_null(strstr(r.log, "look here"));
    compile_result_free(&r);
    compiler_close(c);
}

static void unknown_targets_never_reach_a_worker(void **state)
{
    static const char *const names[] = {
        "",       "gfx9999",  "gfx1151\n", "GFX1151",  "gfx1151 ", "gfx1151;",
        "gfx115", "gfx1151:", "sm_90",     "gfx11511", "gfx942:x", "../gfx942"};
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;
    char *const longest = malloc(65537);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(t_compile(c, t_add_source, names[i], T_OPTIONS, &r), QUERN_E_TARGET);
    memset(longest, 'g', 65536);
    longest[65536] = 0;
    assert_int_equal(t_compile(c, t_add_source, longest, T_OPTIONS, &r), QUERN_E_TARGET);
    assert_int_equal(compiler_disassemble(c, "gfx9999", "", 0, NULL, NULL), QUERN_E_TARGET);
    assert_int_equal(t_compiler_stats(c).started, 0);
    free(longest);
    compiler_close(c);
}

static void the_environment_does_not_reach_the_compiler(void **state)
{
    static const char source[] = "#if defined(CANARY) || __has_include(\"canary.h\")\n"
                                 "#error the canary sings\n"
                                 "#endif\n";
    char *const directory = t_temp_dir();
    char path[600];
    struct compile_result r;

    (void)state;
    snprintf(path, sizeof path, "%s/canary.h", directory);
    t_write_file(path, "\n", 1);
    setenv("HIPRTC_COMPILE_OPTIONS_APPEND", "-DCANARY=1", 1);
    setenv("CPATH", directory, 1);
    setenv("CPLUS_INCLUDE_PATH", directory, 1);
    setenv("AMD_COMGR_CACHE", "1", 1);
    setenv("AMD_COMGR_CACHE_DIR", directory, 1);
    setenv("AMD_COMGR_SAVE_TEMPS", "1", 1);
    setenv("LD_PRELOAD", "/nonexistent/canary.so", 1);
    setenv("LD_LIBRARY_PATH", directory, 1);
    struct compiler *const c = t_compiler_open(1, 0);
    t_compile_well(c, source, "gfx1100", &r);
    compile_result_free(&r);
    compiler_close(c);
    static const char *const set[] = {"HIPRTC_COMPILE_OPTIONS_APPEND",
                                      "CPATH",
                                      "CPLUS_INCLUDE_PATH",
                                      "AMD_COMGR_CACHE",
                                      "AMD_COMGR_CACHE_DIR",
                                      "AMD_COMGR_SAVE_TEMPS",
                                      "LD_PRELOAD",
                                      "LD_LIBRARY_PATH"};
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        unsetenv(set[i]);
    assert_int_equal(t_count_entries(directory), 1);
    t_remove(directory);
}

/* Files of the host are out of reach where the kernel has Landlock. */
static void the_sandbox_hides_files(void **state)
{
    char *const directory = t_temp_dir();
    char source[1400], *version = NULL;
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;

    (void)state;
    assert_int_equal(compiler_version(c, &version), QUERN_OK);
    assert_non_null(strstr(version, "hiprtc interface "));
    assert_non_null(strstr(version, "no-new-privileges"));
    if (!strstr(version, "landlock")) {
        free(version);
        compiler_close(c);
        t_remove(directory);
        skip();
    }
    snprintf(source, sizeof source, "%s/secret.h", directory);
    t_write_file(source, "\n", 1);
    snprintf(source, sizeof source,
             "#include \"%s/secret.h\"\nstatic const unsigned char b[] = {\n#embed "
             "\"/etc/passwd\"\n};\n",
             directory);
    assert_int_equal(t_compile(c, source, "gfx1100", T_OPTIONS, &r), QUERN_E_COMPILE);
    assert_non_null(strstr(quern_last_error()->log, "secret.h"));
    assert_int_equal(t_compile(c, T_KERNEL "k() { __asm__(\".incbin \\\"/etc/passwd\\\"\"); }",
                               "gfx1100", T_OPTIONS, &r),
                     QUERN_E_COMPILE);
    assert_int_equal(t_compiler_stats(c).died, 0);
    free(version);
    compiler_close(c);
    t_remove(directory);
}

/* ---- The other jobs -------------------------------------------------------------------------- */

struct listing {
    size_t count;
    uint64_t offset[16];
    unsigned size[16];
    char text[16][80];
};

static void add_to_listing(void *user, uint64_t offset, unsigned size, const char *text)
{
    struct listing *const l = user;

    assert_true(l->count < 16);
    l->offset[l->count] = offset;
    l->size[l->count] = size;
    snprintf(l->text[l->count++], 80, "%s", text);
}

static void disassembles_known_words(void **state)
{
    /* the words are LLVM's published encodings */
    static const uint8_t gfx11[] = {0x00, 0x00, 0x80, 0xbf, /* s_nop 0 */
                                    0x01, 0x03, 0x00, 0x7e, /* v_mov_b32_e32 v0, v1 */
                                    0x00, 0x00, 0xfd, 0xff, /* nothing */
                                    0x00, 0x00, 0xb0, 0xbf, /* s_endpgm */
                                    0x80, 0xbf};            /* half a word */
    static const uint8_t newer[] = {0x03, 0x00, 0x2c, 0xd7, 0x02, 0x9d, 0x00, 0x02,
                                    0x95, 0x00, 0x81, 0xd5, 0x80, 0x00, 0x01, 0x02,
                                    0xff, 0x00, 0xff, 0xd7, 0x80, 0x00, 0x01, 0x02}; /* none */
    static const uint8_t gfx9[] = {0x00, 0x00, 0x81, 0xbf};                          /* s_endpgm */
    struct compiler *const c = t_compiler_open(1, 0);
    struct listing l = {0};

    (void)state;
    assert_int_equal(compiler_disassemble(c, "gfx1151", gfx11, sizeof gfx11, add_to_listing, &l),
                     QUERN_OK);
    assert_int_equal(l.count, 5);
    assert_string_equal(l.text[0], "s_nop 0");
    assert_string_equal(l.text[1], "v_mov_b32_e32 v0, v1");
    assert_string_equal(l.text[2], "");
    assert_string_equal(l.text[3], "s_endpgm");
    assert_string_equal(l.text[4], "");
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(l.offset[i], 4 * i);
    assert_int_equal(l.size[4], 2);
    l.count = 0;
    assert_int_equal(compiler_disassemble(c, "gfx90a", gfx9, sizeof gfx9, add_to_listing, &l),
                     QUERN_OK);
    assert_int_equal(l.count, 1);
    assert_string_equal(l.text[0], "s_endpgm");
    /* LLVM 24 writes constant 0 for operands that an instruction has not */
    l.count = 0;
    assert_int_equal(compiler_disassemble(c, "gfx1151", newer, sizeof newer, add_to_listing, &l),
                     QUERN_OK);
    assert_int_equal(l.count, 4);
    assert_string_equal(l.text[0], "v_mul_lo_u32 v3, v2, s78");
    assert_string_equal(l.text[1], "v_mov_b32_e64 v149, 0");
    assert_string_equal(l.text[2], "");
    l.count = 0;
    assert_int_equal(compiler_disassemble(c, "gfx90a", gfx9, 0, add_to_listing, &l), QUERN_OK);
    assert_int_equal(l.count, 0);
    compiler_close(c);
}

static void reads_metadata_and_lists_targets(void **state)
{
    struct compiler *const c = t_compiler_open(1, 0);
    struct compile_result r;
    char *text = NULL, name[32];

    (void)state;
    t_compile_well(c, t_add_source, "gfx1100", &r);
    assert_int_equal(compiler_metadata(c, r.object, r.object_bytes, &text), QUERN_OK);
    assert_non_null(strstr(text, ".symbol: add.kd\n"));
    assert_non_null(strstr(text, ".wavefront_size: 32\n"));
    assert_non_null(strstr(text, "amdhsa.target: amdgcn-amd-amdhsa--gfx1100\n"));
    free(text);
    compile_result_free(&r);
    assert_int_equal(compiler_metadata(c, "junk", 4, &text), QUERN_E_OBJECT);

    assert_int_equal(compiler_targets(c, &text), QUERN_OK);
    for (size_t i = 0; i < target_count(); i++) {
        snprintf(name, sizeof name, "%s", target_at(i)->name);
        assert_true(target_at(i)->vendor != VENDOR_AMD || strstr(text, name));
    }
    assert_null(strstr(text, "amdgcn"));
    free(text);
    assert_int_equal(t_compiler_stats(c).started, 1);
    compiler_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compiles_for_every_target_of_the_table),
        cmocka_unit_test(same_source_gives_the_same_bytes),
        cmocka_unit_test(a_compile_error_brings_the_log),
        cmocka_unit_test(a_warning_is_in_the_log),
        cmocka_unit_test(unknown_targets_never_reach_a_worker),
        cmocka_unit_test(the_environment_does_not_reach_the_compiler),
        cmocka_unit_test(the_sandbox_hides_files),
        cmocka_unit_test(disassembles_known_words),
        cmocka_unit_test(reads_metadata_and_lists_targets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

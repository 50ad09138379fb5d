/* SPDX-License-Identifier: MIT */
/* The compiler pool with the real hipRTC and comgr. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "base/os.h"
#include "compile/compile.h"
#include "compile/library_file.h"
#include "t_context.h"
#include "t_paths.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define OPTIONS "--hiprtc-no-builtin-header\n-nogpuinc\n-nogpulib\n-O2\n-std=c++17"
#define KERNEL  "extern \"C\" __attribute__((global)) void "

static const char add_source[] = KERNEL "add(float *y, const float *x)\n"
                                        "{ y[__builtin_amdgcn_workitem_id_x()] += x[0]; }\n";

static const char endless[] = "constexpr unsigned f() { unsigned i = 0; for (;;) i++; return i; }\n"
                              "constexpr unsigned x = f();\n";
#define ENDLESS_OPTIONS OPTIONS "\n-fconstexpr-steps=2147483647"

static struct compiler *open_compiler(int jobs, int deadline_ms)
{
    const struct compiler_config config = {.jobs = jobs, .deadline_ms = deadline_ms};
    struct compiler *compiler = NULL;

    assert_int_equal(compiler_open(&config, &compiler), QUERN_OK);
    return compiler;
}

static struct compiler_stats stats_of(struct compiler *compiler)
{
    struct compiler_stats stats;

    compiler_stats(compiler, &stats);
    return stats;
}

static quern_status compile(struct compiler *compiler, const char *source, const char *processor,
                            const char *options, struct compile_result *result)
{
    const struct compile_job job = {source, processor, options};

    return compiler_compile(compiler, &job, result);
}

/* Compiles what must compile. */
static void compile_well(struct compiler *compiler, const char *source, const char *processor,
                         struct compile_result *result)
{
    const quern_status status = compile(compiler, source, processor, OPTIONS, result);

    if (status != QUERN_OK)
        print_message("%s\n%s\n", quern_last_error()->message, quern_last_error()->log);
    assert_int_equal(status, QUERN_OK);
}

/* ---- The toolchain --------------------------------------------------------------------------- */

static void toolchain_is_found_and_named(void **state)
{
    static const char *const labels[] = {"hiprtc:", ",builtins:", ",comgr:", ",llvm:"};
    struct toolchain t;
    const char *at;

    (void)state;
    assert_int_equal(toolchain_find(NULL, &t), QUERN_OK);
    assert_int_equal(access(t.hiprtc, R_OK), 0);
    assert_int_equal(access(t.comgr, R_OK), 0);
    assert_int_equal(strncmp(t.hiprtc, t.root, strlen(t.root)), 0);
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
    assert_int_equal(toolchain_find(NULL, &usual), QUERN_OK);
    snprintf(path, sizeof path, "%s/lib64", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/lib64/libhiprtc.so.6", root);
    assert_int_equal(symlink(usual.hiprtc, path), 0);
    /* hipRTC alone is none, and whoever named a root does not get another one's */
    assert_int_equal(toolchain_find(root, &t), QUERN_E_TOOLCHAIN);
    assert_non_null(strstr(quern_last_error()->message, root));
    snprintf(path, sizeof path, "%s/lib64/libamd_comgr.so.3", root);
    assert_int_equal(symlink(usual.comgr, path), 0);
    assert_int_equal(toolchain_find(root, &t), QUERN_OK);
    assert_non_null(real = realpath(root, NULL));
    assert_string_equal(t.root, real);
    assert_string_equal(t.comgr + strlen(real), "/lib64/libamd_comgr.so.3");
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

static void write_file(const char *path, const void *bytes, size_t size)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    close(fd);
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

    write_file(path, &f, sizeof f);
}

static void library_id_of_odd_files(void **state)
{
    char *const directory = t_temp_dir();
    char path[600], a[64], b[64];

    (void)state;
    snprintf(path, sizeof path, "%s/odd", directory);
    assert_false(library_file_id(path, a, sizeof a));
    write_file(path, "no library", 10);
    assert_false(library_file_id(path, a, sizeof a));
    write_file(path, "\177ELF\2\1\1", 7);
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

/* ---- Compiling ------------------------------------------------------------------------------- */

static void compiles_for_every_target_of_the_table(void **state)
{
    struct compiler *const c = open_compiler(2, 0);

    (void)state;
    for (size_t i = 0; i < target_count(); i++) {
        struct compile_result r;
        Elf64_Ehdr head;
        compile_well(c, add_source, target_at(i)->name, &r);
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
    assert_int_equal(stats_of(c).started, 1);
    assert_int_equal(stats_of(c).compiled, target_count());
    compiler_close(c);
}

static void same_source_gives_the_same_bytes(void **state)
{
    struct compiler *c = open_compiler(1, 0);
    struct compile_result first, other, again;

    (void)state;
    compile_well(c, add_source, "gfx1151", &first);
    compile_well(c, add_source, "gfx942", &other);
    compile_well(c, add_source, "gfx1151", &again);
    assert_int_equal(first.object_bytes, again.object_bytes);
    assert_memory_equal(first.object, again.object, first.object_bytes);
    compile_result_free(&again);
    compiler_close(c);
    /* and in another worker, with another temporary directory */
    c = open_compiler(1, 0);
    compile_well(c, add_source, "gfx1151", &again);
    assert_int_equal(stats_of(c).started, 1);
    assert_int_equal(first.object_bytes, again.object_bytes);
    assert_memory_equal(first.object, again.object, first.object_bytes);
    compile_result_free(&first);
    compile_result_free(&other);
    compile_result_free(&again);
    compiler_close(c);
}

static void a_compile_error_brings_the_log(void **state)
{
    struct compiler *const c = open_compiler(1, 0);
    struct compile_result r;

    (void)state;
    assert_int_equal(compile(c, KERNEL "k() { nonsense; }\n", "gfx1100", OPTIONS, &r),
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
    compile_well(c, add_source, "gfx1100", &r);
    assert_int_equal(stats_of(c).started, 1);
    assert_int_equal(stats_of(c).died, 0);
    assert_int_equal(stats_of(c).failed, 1);
    compile_result_free(&r);
    compiler_close(c);
}

static void a_warning_is_in_the_log(void **state)
{
    struct compiler *const c = open_compiler(1, 0);
    struct compile_result r;

    (void)state;
    compile_well(c, "#warning look here\n", "gfx1100", &r);
    assert_non_null(strstr(r.log, "look here"));
    compile_result_free(&r);
    compiler_close(c);
}

static void unknown_targets_never_reach_a_worker(void **state)
{
    static const char *const names[] = {
        "",       "gfx9999",  "gfx1151\n", "GFX1151",  "gfx1151 ", "gfx1151;",
        "gfx115", "gfx1151:", "sm_90",     "gfx11511", "gfx942:x", "../gfx942"};
    struct compiler *const c = open_compiler(1, 0);
    struct compile_result r;
    char *const longest = malloc(65537);

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(compile(c, add_source, names[i], OPTIONS, &r), QUERN_E_TARGET);
    memset(longest, 'g', 65536);
    longest[65536] = 0;
    assert_int_equal(compile(c, add_source, longest, OPTIONS, &r), QUERN_E_TARGET);
    assert_int_equal(compiler_disassemble(c, "gfx9999", "", 0, NULL, NULL), QUERN_E_TARGET);
    assert_int_equal(stats_of(c).started, 0);
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
    write_file(path, "\n", 1);
    setenv("HIPRTC_COMPILE_OPTIONS_APPEND", "-DCANARY=1", 1);
    setenv("CPATH", directory, 1);
    setenv("CPLUS_INCLUDE_PATH", directory, 1);
    setenv("AMD_COMGR_CACHE", "1", 1);
    setenv("AMD_COMGR_CACHE_DIR", directory, 1);
    setenv("AMD_COMGR_SAVE_TEMPS", "1", 1);
    setenv("LD_PRELOAD", "/nonexistent/canary.so", 1);
    setenv("LD_LIBRARY_PATH", directory, 1);
    struct compiler *const c = open_compiler(1, 0);
    compile_well(c, source, "gfx1100", &r);
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
    struct compiler *const c = open_compiler(1, 0);
    struct compile_result r;

    (void)state;
    assert_int_equal(compiler_version(c, &version), QUERN_OK);
    assert_non_null(strstr(version, "hipRTC"));
    assert_non_null(strstr(version, "no-new-privileges"));
    if (!strstr(version, "landlock")) {
        free(version);
        compiler_close(c);
        t_remove(directory);
        skip();
    }
    snprintf(source, sizeof source, "%s/secret.h", directory);
    write_file(source, "\n", 1);
    snprintf(source, sizeof source,
             "#include \"%s/secret.h\"\nstatic const unsigned char b[] = {\n#embed "
             "\"/etc/passwd\"\n};\n",
             directory);
    assert_int_equal(compile(c, source, "gfx1100", OPTIONS, &r), QUERN_E_COMPILE);
    assert_non_null(strstr(quern_last_error()->log, "secret.h"));
    assert_int_equal(compile(c, KERNEL "k() { __asm__(\".incbin \\\"/etc/passwd\\\"\"); }",
                             "gfx1100", OPTIONS, &r),
                     QUERN_E_COMPILE);
    assert_int_equal(stats_of(c).died, 0);
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
    static const uint8_t gfx9[] = {0x00, 0x00, 0x81, 0xbf}; /* s_endpgm */
    struct compiler *const c = open_compiler(1, 0);
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
    l.count = 0;
    assert_int_equal(compiler_disassemble(c, "gfx90a", gfx9, 0, add_to_listing, &l), QUERN_OK);
    assert_int_equal(l.count, 0);
    compiler_close(c);
}

static void reads_metadata_and_lists_targets(void **state)
{
    struct compiler *const c = open_compiler(1, 0);
    struct compile_result r;
    char *text = NULL, name[32];

    (void)state;
    compile_well(c, add_source, "gfx1100", &r);
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
        assert_non_null(strstr(text, name));
    }
    assert_null(strstr(text, "amdgcn"));
    free(text);
    assert_int_equal(stats_of(c).started, 1);
    compiler_close(c);
}

/* ---- The pool -------------------------------------------------------------------------------- */

#define SOURCES 6

struct share {
    struct compiler *compiler;
    int first, step;
    struct compile_result results[SOURCES];
};

static void compile_numbered(struct compiler *c, int i, struct compile_result *result)
{
    char source[200];

    snprintf(source, sizeof source, KERNEL "k(int *p) { p[%d] = p[%d] * %d; }\n", i, i + 1, i + 2);
    if (compile(c, source, "gfx1201", OPTIONS, result) != QUERN_OK)
        result->object = NULL;
}

static void *compile_share(void *user)
{
    struct share *const s = user;

    for (int i = s->first; i < SOURCES; i += s->step)
        compile_numbered(s->compiler, i, &s->results[i]);
    return NULL;
}

/* Compiles all sources on `threads` threads with `jobs` workers; returns workers started. */
static uint64_t compile_all(int threads, int jobs, struct compile_result results[SOURCES])
{
    struct compiler *const c = open_compiler(jobs, 0);
    struct share shares[SOURCES];
    pthread_t ids[SOURCES];

    for (int t = 0; t < threads; t++) {
        shares[t] = (struct share){.compiler = c, .first = t, .step = threads};
        assert_int_equal(pthread_create(&ids[t], NULL, compile_share, &shares[t]), 0);
    }
    for (int t = 0; t < threads; t++) {
        pthread_join(ids[t], NULL);
        for (int i = t; i < SOURCES; i += threads)
            results[i] = shares[t].results[i];
    }
    const uint64_t started = stats_of(c).started;
    compiler_close(c);
    return started;
}

static void threads_share_the_workers(void **state)
{
    struct compile_result one[SOURCES], two[SOURCES], few[SOURCES];

    (void)state;
    assert_int_equal(compile_all(1, 2, one), 1);
    assert_int_equal(compile_all(2, 2, two), 2);
    assert_int_equal(compile_all(4, 1, few), 1);
    for (int i = 0; i < SOURCES; i++) {
        assert_non_null(one[i].object);
        assert_non_null(two[i].object);
        assert_non_null(few[i].object);
        assert_int_equal(one[i].object_bytes, two[i].object_bytes);
        assert_memory_equal(one[i].object, two[i].object, one[i].object_bytes);
        assert_memory_equal(one[i].object, few[i].object, one[i].object_bytes);
        compile_result_free(&one[i]);
        compile_result_free(&two[i]);
        compile_result_free(&few[i]);
    }
}

static void equal_configurations_share_one_pool(void **state)
{
    struct compiler *const a = open_compiler(1, 0), *const b = open_compiler(1, 0);
    struct compiler *const other = open_compiler(1, 12345);
    struct compile_result r;

    (void)state;
    compile_well(a, add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(stats_of(b).compiled, 1);
    assert_int_equal(stats_of(other).compiled, 0);
    compiler_close(a);
    compile_well(b, add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(stats_of(b).started, 1);
    compiler_close(b);
    compiler_close(other);
}

static void bad_configurations_are_refused(void **state)
{
    struct compiler *c = NULL;

    (void)state;
    assert_int_equal(compiler_open(&(struct compiler_config){.jobs = -1}, &c), QUERN_E_ARGUMENT);
    assert_int_equal(compiler_open(&(struct compiler_config){.jobs = 100000}, &c),
                     QUERN_E_ARGUMENT);
    assert_int_equal(compiler_open(&(struct compiler_config){.deadline_ms = -5}, &c),
                     QUERN_E_ARGUMENT);
    assert_null(c);
}

/* Compilers that really die: hipRTC 6.4 exits on an unknown LLVM option, and every clang overflows
 * its stack on deep enough nesting. */
static void a_source_that_kills_a_worker_is_remembered(void **state)
{
    struct compiler *const c = open_compiler(1, 0);
    const size_t depth = 400000;
    char *const source = malloc(depth + 100);
    struct compile_result r;

    (void)state;
    strcpy(source, KERNEL "k(int *p) { p[0] = ");
    const size_t head = strlen(source);
    for (size_t i = 0; i < depth; i++)
        source[head + i] = i & 1 ? ' ' : '-';
    strcpy(source + head + depth, "1; }\n");
    assert_int_equal(compile(c, source, "gfx1100", OPTIONS, &r), QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "signal"));
    assert_non_null(strstr(quern_last_error()->message, "gfx1100"));
    assert_int_equal(stats_of(c).died, 1);
    assert_int_equal(stats_of(c).started, 1);
    assert_int_equal(compile(c, source, "gfx1100", OPTIONS, &r), QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "not tried again"));
    assert_int_equal(stats_of(c).started, 1);

    assert_int_equal(
        compile(c, add_source, "gfx1100", OPTIONS "\n-mllvm\n-quern-no-such-option", &r),
        QUERN_E_WORKER);
    assert_non_null(strstr(quern_last_error()->message, "exited with status 1"));
    assert_non_null(strstr(quern_last_error()->log, "quern-no-such-option"));
    compile_well(c, add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(stats_of(c).started, 3);
    assert_int_equal(stats_of(c).died, 2);
    free(source);
    compiler_close(c);
}

static void an_endless_compile_meets_the_deadline(void **state)
{
    struct compiler *const c = open_compiler(1, 1000);
    struct compile_result r;

    (void)state;
    assert_int_equal(compile(c, endless, "gfx1100", ENDLESS_OPTIONS, &r), QUERN_E_TIMEOUT);
    assert_non_null(strstr(quern_last_error()->message, "1000 ms"));
    assert_int_equal(stats_of(c).timeouts, 1);
    compiler_close(c);
}

static void nothing_is_left_behind(void **state)
{
    char *const directory = t_temp_dir();
    const char *const before = getenv("TMPDIR");
    char *const saved = before ? strdup(before) : NULL;
    const int descriptors = t_count_entries("/proc/self/fd");
    struct compile_result r;

    (void)state;
    setenv("TMPDIR", directory, 1);
    /* a configuration that no other test uses: pools read TMPDIR when they are opened */
    struct compiler *const c = open_compiler(1, 50001);
    compile_well(c, add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(t_count_entries(directory), 1);
    compile(c, add_source, "gfx1100", OPTIONS "\n-mllvm\n-quern-no-such-option", &r);
    compile_well(c, add_source, "gfx1100", &r);
    compile_result_free(&r);
    compiler_close(c);
    assert_int_equal(t_count_entries(directory), 0);
    assert_int_equal(t_count_entries("/proc/self/fd"), descriptors);
    if (saved)
        setenv("TMPDIR", saved, 1);
    else
        unsetenv("TMPDIR");
    free(saved);
    t_remove(directory);
}

/* ---- The host -------------------------------------------------------------------------------- */

static volatile sig_atomic_t child_signals;
static void count_child(int number)
{
    (void)number;
    child_signals++;
}

static void the_host_sees_no_child(void **state)
{
    struct sigaction old, mine = {.sa_handler = count_child};
    struct compiler *c;
    struct compile_result r;

    (void)state;
    child_signals = 0;
    assert_int_equal(sigaction(SIGCHLD, &mine, &old), 0);
    c = open_compiler(1, 0);
    compile_well(c, add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
    compile(c, add_source, "gfx1100", OPTIONS "\n-mllvm\n-quern-no-such-option", &r);
    compiler_close(c);
    assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
    assert_int_equal(errno, ECHILD);
    assert_int_equal(child_signals, 0);
    assert_int_equal(sigaction(SIGCHLD, &old, NULL), 0);
}

/* Runs `body` in a forked child; its result is the exit status. */
static int in_child(int (*body)(void *), void *user)
{
    int status = 0;
    const pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(body(user));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

/* 0: compiled by a worker of its own. */
static int compile_in_child(void *compiler)
{
    struct compile_result r;

    if (compile(compiler, add_source, "gfx1030", OPTIONS, &r) != QUERN_OK)
        return 1;
    compile_result_free(&r);
    const int right = stats_of(compiler).started == 1;
    compiler_close(compiler);
    return right ? 0 : 2;
}

static void a_forked_child_has_its_own_workers(void **state)
{
    struct compiler *const c = open_compiler(1, 0);
    struct compile_result r;

    (void)state;
    compile_well(c, add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(in_child(compile_in_child, c), 0);
    /* what the child did, closing included, is nothing to the parent's worker */
    compile_well(c, add_source, "gfx1100", &r);
    compile_result_free(&r);
    assert_int_equal(stats_of(c).started, 1);
    assert_int_equal(stats_of(c).died, 0);
    compiler_close(c);
}

static void *compile_until_told(void *user)
{
    struct share *const s = user;

    for (int i = 0; !__atomic_load_n(&s->step, __ATOMIC_ACQUIRE); i++) {
        struct compile_result r;
        compile_numbered(s->compiler, i, &r);
        s->first += !r.object;
        compile_result_free(&r);
    }
    return NULL;
}

static void forks_while_another_thread_compiles(void **state)
{
    struct compiler *const c = open_compiler(1, 0);
    struct share s = {.compiler = c};
    pthread_t id;

    (void)state;
    assert_int_equal(pthread_create(&id, NULL, compile_until_told, &s), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(in_child(compile_in_child, c), 0);
    __atomic_store_n(&s.step, 1, __ATOMIC_RELEASE);
    pthread_join(id, NULL);
    assert_int_equal(s.first, 0);
    assert_int_equal(stats_of(c).died, 0);
    compiler_close(c);
}

/* Waits until a directory has so many entries. */
static bool comes_to_hold(const char *directory, int entries)
{
    for (int i = 0; i < 1000; i++) {
        if (t_count_entries(directory) == entries)
            return true;
        usleep(10000);
    }
    return false;
}

static void a_killed_host_takes_its_workers_along(void **state)
{
    char *const directory = t_temp_dir();
    int status = 0;

    (void)state;
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const struct compiler_config config = {.jobs = 1};
        struct compiler *c = NULL;
        struct compile_result r;
        setenv("TMPDIR", directory, 1);
        if (compiler_open(&config, &c) == QUERN_OK)
            compile(c, endless, "gfx1100", ENDLESS_OPTIONS, &r);
        _exit(0);
    }
    assert_true(comes_to_hold(directory, 1));
    usleep(100000); /* into the compile */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    /* the supervisor removes the directory once the compiler is gone */
    assert_true(comes_to_hold(directory, 0));
    t_remove(directory);
}

static int compile_without_standard_descriptors(void *user)
{
    (void)user;
    close(0);
    close(1);
    close(2);
    const struct compiler_config config = {.jobs = 1};
    struct compiler *c = NULL;
    if (compiler_open(&config, &c) != QUERN_OK)
        return 3;
    const int status = compile_in_child(c);
    /* none of ours may stand where the host's next open would expect 0, 1, 2 */
    return status ? status : open("/dev/null", O_RDONLY) == 0 ? 0 : 4;
}

static void closed_standard_descriptors_do_no_harm(void **state)
{
    (void)state;
    assert_int_equal(in_child(compile_without_standard_descriptors, NULL), 0);
}

/* 0: with no descriptor left a clear failure, with some again a compile. */
static int compile_short_of_descriptors(void *user)
{
    struct rlimit limit;
    const struct compiler_config config = {.jobs = 1};
    struct compiler *c = NULL;
    struct compile_result r;

    (void)user;
    if (getrlimit(RLIMIT_NOFILE, &limit) || compiler_open(&config, &c) != QUERN_OK ||
        !compiler_toolchain(c))
        return 3;
    const rlim_t before = limit.rlim_cur;
    for (rlim_t few = 3; few < 40; few++) {
        limit.rlim_cur = few;
        if (setrlimit(RLIMIT_NOFILE, &limit))
            return 4;
        const quern_status status = compile(c, add_source, "gfx1030", OPTIONS, &r);
        if (status == QUERN_OK) {
            compile_result_free(&r);
            break;
        }
        if (status != QUERN_E_IO && status != QUERN_E_TOOLCHAIN && status != QUERN_E_WORKER)
            return 5;
        if (status == QUERN_E_WORKER && !strstr(quern_last_error()->message, "the last 8"))
            return 6;
    }
    limit.rlim_cur = before;
    setrlimit(RLIMIT_NOFILE, &limit);
    compiler_close(c);
    /* a pool that has not failed often: the pause after many failures is not what is tested */
    if (compiler_open(&config, &c) != QUERN_OK)
        return 7;
    return compile_in_child(c);
}

static void running_out_of_descriptors_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(in_child(compile_short_of_descriptors, NULL), 0);
}

/* The host may block every signal and ignore some: starting a worker leaves that as it is. */
static void the_signal_state_of_the_host_stays(void **state)
{
    sigset_t all, blocked, now, old;
    struct sigaction ignore = {.sa_handler = SIG_IGN}, was;
    struct compiler *const c = open_compiler(1, 1000);
    struct compile_result r;

    (void)state;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    sigaction(SIGSEGV, &ignore, &was);
    compile_well(c, add_source, "gfx1100", &r);
    compile_result_free(&r);
    pthread_sigmask(SIG_SETMASK, NULL, &now);
    assert_memory_equal(&now, &blocked, 8);
    sigaction(SIGSEGV, NULL, &ignore);
    assert_true(ignore.sa_handler == SIG_IGN);
    sigaction(SIGSEGV, &was, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    compiler_close(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(toolchain_is_found_and_named),
        cmocka_unit_test(toolchain_is_looked_for_in_the_given_root_only),
        cmocka_unit_test(library_id_is_the_build_id),
        cmocka_unit_test(library_id_of_odd_files),
        cmocka_unit_test(compiles_for_every_target_of_the_table),
        cmocka_unit_test(same_source_gives_the_same_bytes),
        cmocka_unit_test(a_compile_error_brings_the_log),
        cmocka_unit_test(a_warning_is_in_the_log),
        cmocka_unit_test(unknown_targets_never_reach_a_worker),
        cmocka_unit_test(the_environment_does_not_reach_the_compiler),
        cmocka_unit_test(the_sandbox_hides_files),
        cmocka_unit_test(disassembles_known_words),
        cmocka_unit_test(reads_metadata_and_lists_targets),
        cmocka_unit_test(threads_share_the_workers),
        cmocka_unit_test(equal_configurations_share_one_pool),
        cmocka_unit_test(bad_configurations_are_refused),
        cmocka_unit_test(a_source_that_kills_a_worker_is_remembered),
        cmocka_unit_test(an_endless_compile_meets_the_deadline),
        cmocka_unit_test(nothing_is_left_behind),
        cmocka_unit_test(the_host_sees_no_child),
        cmocka_unit_test(a_forked_child_has_its_own_workers),
        cmocka_unit_test(forks_while_another_thread_compiles),
        cmocka_unit_test(a_killed_host_takes_its_workers_along),
        cmocka_unit_test(closed_standard_descriptors_do_no_harm),
        cmocka_unit_test(running_out_of_descriptors_is_an_error),
        cmocka_unit_test(the_signal_state_of_the_host_stays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}

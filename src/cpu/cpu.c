/* SPDX-License-Identifier: MIT */
/* Makes programs of kernels' texts with the host's C++ compiler, and runs them: cpu.h. */
#include "cpu/cpu.h"

#include "base/lock.h"
#include "base/os.h"
#include "base/str.h"
#include "compile/spawn.h"
#include "machine_text.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_BYTES  1024
#define OUTPUT_MAX  65536
#define MINUTES_MAX 20 /* of one program; a hang shows as a deadlock long before */
#define FILES_MAX   (CPU_ARGUMENTS_MAX + 8)
#define NAME_BYTES  32

/* A program, in a directory of its own. */
struct cpu_program {
    char path[PATH_BYTES];
    char files[FILES_MAX][NAME_BYTES];
    size_t file_count;
};

/* ---- Files ----------------------------------------------------------------------------------- */

/* Not in /dev/shm, from which programs often may not be run. */
static quern_status make_directory(struct cpu_program *b)
{
    const char *const bases[] = {secure_getenv("TMPDIR"), "/tmp", "/var/tmp"};
    uint8_t bytes[8];
    char name[2 * sizeof bytes + 1];

    b->file_count = 0;
    FAIL_IF(os.getrandom(bytes, sizeof bytes, 0) != sizeof bytes, QUERN_E_IO,
            "the system gives no random numbers: %s", strerror(errno));
    hex_from_bytes(name, bytes, sizeof bytes);
    for (size_t i = 0; i < sizeof bases / sizeof *bases; i++) {
        if (!bases[i] || *bases[i] != '/' || strlen(bases[i]) > PATH_BYTES / 2)
            continue;
        snprintf(b->path, sizeof b->path, "%s/quern-cpu-%s", bases[i], name);
        if (!os.mkdirat(AT_FDCWD, b->path, 0700))
            return QUERN_OK;
    }
    FAIL(QUERN_E_IO, "cannot make a directory in $TMPDIR, /tmp or /var/tmp: %s", strerror(errno));
}

static void path_in(const struct cpu_program *b, const char *name,
                    char path[PATH_BYTES + NAME_BYTES])
{
    snprintf(path, PATH_BYTES + NAME_BYTES, "%s/%s", b->path, name);
}

/* Removes the files that were made when there were `count`. */
static void remove_files(struct cpu_program *b, size_t count)
{
    char path[PATH_BYTES + NAME_BYTES];

    while (b->file_count > count) {
        path_in(b, b->files[--b->file_count], path);
        os.unlinkat(AT_FDCWD, path, 0);
    }
}

/* Names a file that is to be removed at the end, whoever makes it. */
static void note_file(struct cpu_program *b, const char *name)
{
    snprintf(b->files[b->file_count++], NAME_BYTES, "%s", name);
}

static quern_status write_file(struct cpu_program *b, const char *name, const void *bytes,
                               size_t size)
{
    char path[PATH_BYTES + NAME_BYTES];
    const char *at = bytes;

    path_in(b, name, path);
    note_file(b, name);
    const int fd = os.openat(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    FAIL_IF(fd < 0, QUERN_E_IO, "cannot make %s: %s", path, strerror(errno));
    while (size) {
        const ssize_t n = os.write(fd, at, size);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        at += n;
        size -= (size_t)n;
    }
    const int error = errno;
    os.close(fd);
    FAIL_IF(size, QUERN_E_IO, "cannot write %s: %s", path, strerror(error));
    return QUERN_OK;
}

static quern_status read_back(const struct cpu_program *b, const struct cpu_argument *operand)
{
    char path[PATH_BYTES + NAME_BYTES];
    size_t done = 0;

    path_in(b, operand->name, path);
    const int fd = os.openat(AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
    FAIL_IF(fd < 0, QUERN_E_IO, "cannot read %s: %s", path, strerror(errno));
    while (done < operand->bytes) {
        const ssize_t n =
            os.pread(fd, (char *)operand->at + done, operand->bytes - done, (off_t)done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        done += (size_t)n;
    }
    os.close(fd);
    FAIL_IF(done < operand->bytes, QUERN_E_IO, "%s has %zu bytes of %zu", path, done,
            operand->bytes);
    return QUERN_OK;
}

/* ---- Programs -------------------------------------------------------------------------------- */

/* Collects what a program prints until it has ended. False: it took too long, and was stopped. */
static bool collect(const struct spawned *s, struct str *output)
{
    const uint64_t end = os_now() + (uint64_t)MINUTES_MAX * 60 * 1000000000;
    struct pollfd poll = {.fd = s->pipe, .events = POLLIN};
    char part[4096];

    for (;;) {
        const uint64_t now = os_now();
        if (now >= end) {
            if (s->pidfd >= 0)
                os.pidfd_send_signal(s->pidfd, SIGKILL);
            return false;
        }
        if (os.poll(&poll, 1, 1000) < 0 && errno != EINTR)
            return true;
        const ssize_t n = os.read(s->pipe, part, sizeof part);
        if (n == 0)
            return true;
        if (n > 0 && output->length < OUTPUT_MAX)
            str_add_bytes(output, part, (size_t)n);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return true;
    }
}

/* Runs the program arguments[0], which may be a script: a C++ compiler often is one. */
static quern_status run_program(char *const *arguments, char *const *environment,
                                struct str *output)
{
    const char *const path = arguments[0];
    const struct spawn spawn = {
        .program = -1, .argument_file = -1, .arguments = arguments, .environment = environment};
    struct spawned spawned;
    const char *stage = "";
    const int error = spawn_program(&spawn, &spawned, &stage);

    FAIL_IF(error, QUERN_E_IO, "cannot run %s: %s: %s", path, stage, strerror(error));
    const bool ended = collect(&spawned, output);
    os.close(spawned.sock);
    os.close(spawned.pipe);
    if (spawned.pidfd >= 0)
        os.close(spawned.pidfd);
    FAIL_IF(!ended, QUERN_E_TIMEOUT, "%s took more than %d minutes, and was stopped", path,
            MINUTES_MAX);
    return QUERN_OK;
}

/* The first of the usual names of a C++ compiler on the path. */
static quern_status find_compiler(char path[PATH_BYTES])
{
    static const char *const names[] = {"c++", "g++", "clang++"};
    const char *const all = secure_getenv("PATH");

    for (size_t i = 0; all && i < sizeof names / sizeof *names; i++)
        for (const char *at = all; *at;) {
            const size_t n = strcspn(at, ":");
            snprintf(path, PATH_BYTES, "%.*s/%s", (int)n, at, names[i]);
            if (*at == '/' && n + NAME_BYTES < PATH_BYTES && !os.faccessat(AT_FDCWD, path, X_OK, 0))
                return QUERN_OK;
            at += n + (at[n] == ':');
        }
    FAIL(QUERN_E_TOOLCHAIN,
         "no C++ compiler to verify kernels for NVIDIA with: none of c++, g++ and clang++ is on "
         "the PATH; installing g++ brings one");
}

/* Runs the compiler in the program's directory, to make a file `made` there. `words` are the files
 * to make it of, and options. `what` names them in the error if the compiler refuses them. */
static quern_status run_compiler(struct cpu_program *b, const char *compiler,
                                 const char *const words[3], const char *made, const char *what)
{
    char paths[3][PATH_BYTES + NAME_BYTES], output[PATH_BYTES + NAME_BYTES];
    char search[4096 + 8], temporary[PATH_BYTES + 8];
    char *arguments[] = {(char *)compiler,
                         (char *)"-std=c++17",
                         (char *)"-O1",
                         (char *)"-w",
                         (char *)"-ffp-contract=off",
                         (char *)"-o",
                         output,
                         NULL,
                         NULL,
                         NULL,
                         NULL};
    struct str log = {0};

    for (size_t i = 0, n = 7; i < 3 && words[i]; i++) {
        path_in(b, words[i], paths[i]);
        arguments[n++] = *words[i] == '-' ? (char *)words[i] : paths[i];
    }
    note_file(b, made);
    path_in(b, made, output);
    snprintf(search, sizeof search, "PATH=%s", secure_getenv("PATH"));
    snprintf(temporary, sizeof temporary, "TMPDIR=%s", b->path);
    char *const environment[] = {search, temporary, (char *)"LC_ALL=C", NULL};
    quern_status status = run_program(arguments, environment, &log);
    if (status == QUERN_OK && os.faccessat(AT_FDCWD, output, R_OK, 0)) {
        status = error_set(QUERN_E_COMPILE, __FILE__, FAIL_AT(""),
                           "%s refuses %s, which is to be run on the CPU", compiler, what);
        error_log(str_text(&log));
    }
    str_free(&log);
    return status;
}

/* machine.cpp as one compiler compiled it. That takes the compiler two seconds, so a process makes
 * it once, and keeps it to its end. */
struct machine {
    char compiler[PATH_BYTES];
    size_t size;
    uint8_t bytes[];
};
static _Atomic(struct machine *) machine_made;
static struct lock machine_lock;

/* Makes it, in the program's directory, and keeps it. */
static quern_status make_machine(struct cpu_program *b, const char *compiler)
{
    struct stat st;
    char path[PATH_BYTES + NAME_BYTES];

    TRY(write_file(b, "machine.cpp", machine_cpp, sizeof machine_cpp - 1));
    TRY(run_compiler(b, compiler, (const char *const[3]){"-c", "machine.cpp"}, "machine.o",
                     "the multiprocessor for a kernel"));
    path_in(b, "machine.o", path);
    FAIL_IF(os.fstatat(AT_FDCWD, path, &st, 0), QUERN_E_IO, "cannot read %s: %s", path,
            strerror(errno));
    struct machine *const m = os.malloc(sizeof *m + (size_t)st.st_size);
    FAIL_IF(!m, QUERN_E_MEMORY, "out of memory for a compiled multiprocessor");
    snprintf(m->compiler, sizeof m->compiler, "%s", compiler);
    m->size = (size_t)st.st_size;
    const struct cpu_argument whole = {.name = "machine.o", .at = m->bytes, .bytes = m->size};
    const quern_status status = read_back(b, &whole);
    if (status == QUERN_OK)
        atomic_store(&machine_made, m); /* another thread may read one of another compiler */
    else
        os.free(m);
    return status;
}

/* Puts machine.o into the program's directory. Who comes while another thread makes it waits. */
static quern_status give_machine(struct cpu_program *b, const char *compiler)
{
    lock_take(&machine_lock);
    const struct machine *const m = atomic_load(&machine_made);
    const bool fits = m && !strcmp(m->compiler, compiler);
    const quern_status status = fits ? QUERN_OK : make_machine(b, compiler);
    lock_give(&machine_lock);
    return fits ? write_file(b, "machine.o", m->bytes, m->size) : status;
}

static quern_status compile(struct cpu_program *b, const char *source)
{
    static const char whole[] =
        "#include \"machine.hpp\"\n#include \"kernel.cu\"\n#include \"machine_main.hpp\"\n";
    char compiler[PATH_BYTES];

    TRY(find_compiler(compiler));
    TRY(write_file(b, "machine.hpp", machine_hpp, sizeof machine_hpp - 1));
    TRY(write_file(b, "machine_main.hpp", machine_main_hpp, sizeof machine_main_hpp - 1));
    TRY(write_file(b, "kernel.cu", source, strlen(source)));
    TRY(write_file(b, "whole.cpp", whole, sizeof whole - 1));
    TRY(give_machine(b, compiler));
    return run_compiler(b, compiler, (const char *const[3]){"whole.cpp", "machine.o"}, "kernel",
                        "the text of a kernel");
}

/* ---- A launch -------------------------------------------------------------------------------- */

static quern_status write_launch(struct cpu_program *b, const struct cpu_launch *l)
{
    char path[PATH_BYTES + NAME_BYTES];
    struct str text = {0};

    str_addf(&text,
             "grid %" PRIu32 " %" PRIu32 "\nthreads %" PRIu32 "\nshared %" PRIu32 "\nseed %" PRIu64
             "\n",
             l->grid[0], l->grid[1], l->threads, l->shared_bytes, l->seed);
    for (size_t i = 0; i < l->count; i++) {
        const struct cpu_argument *const a = &l->arguments[i];
        if (!a->name) {
            str_addf(&text, "number %zu %" PRIu64 "\n", a->bytes, (uint64_t)a->value);
            continue;
        }
        path_in(b, a->name, path);
        str_addf(&text, "operand %s %s %s\n", a->name, path,
                 a->typed     ? "typed"
                 : a->written ? "write"
                 : a->late    ? "late"
                              : "read");
        const quern_status status = write_file(b, a->name, a->at, a->bytes);
        if (status != QUERN_OK) {
            str_free(&text);
            return status;
        }
    }
    const quern_status status =
        text.failed ? error_set(QUERN_E_MEMORY, __FILE__, FAIL_AT(""), "out of memory for a launch")
                    : write_file(b, "launch", str_text(&text), text.length);
    str_free(&text);
    return status;
}

static quern_status judge(struct str *output)
{
    static const char fault[] = "fault: ";
    char *const text = output->text;

    if (text && !strcmp(text, "done\n"))
        return QUERN_OK;
    if (text)
        text[strcspn(text, "\n")] = 0;
    FAIL_IF(text && !strncmp(text, fault, sizeof fault - 1), QUERN_E_FAULT, "%s",
            text + sizeof fault - 1);
    FAIL(QUERN_E_INTERNAL, "the program that runs a kernel on the CPU ended early%s%s",
         text ? ": " : "", text ? text : "");
}

static quern_status launch(struct cpu_program *b, const struct cpu_launch *l)
{
    char program[PATH_BYTES + NAME_BYTES], path[PATH_BYTES + NAME_BYTES];
    struct str output = {0};

    TRY(write_launch(b, l));
    path_in(b, "kernel", program);
    path_in(b, "launch", path);
    char *const arguments[] = {program, path, NULL}, *const environment[] = {NULL};
    quern_status status = run_program(arguments, environment, &output);
    if (status == QUERN_OK)
        status = judge(&output);
    str_free(&output);
    for (size_t i = 0; i < l->count && status == QUERN_OK; i++)
        if (l->arguments[i].written || l->arguments[i].typed)
            status = read_back(b, &l->arguments[i]);
    return status;
}

quern_status cpu_program_run(struct cpu_program *b, const struct cpu_launch *l)
{
    const size_t files = b->file_count;
    const quern_status status = launch(b, l);

    remove_files(b, files);
    return status;
}

void cpu_program_free(struct cpu_program *b)
{
    if (!b)
        return;
    remove_files(b, 0);
    os.unlinkat(AT_FDCWD, b->path, AT_REMOVEDIR);
    os.free(b);
}

quern_status cpu_program_make(const char *source, struct cpu_program **program)
{
    struct cpu_program *const b = os.calloc(1, sizeof *b);

    *program = NULL;
    FAIL_IF(!b, QUERN_E_MEMORY, "out of memory for a program");
    quern_status status = make_directory(b);
    if (status != QUERN_OK) {
        os.free(b);
        return status;
    }
    status = compile(b, source);
    if (status == QUERN_OK)
        *program = b;
    else
        cpu_program_free(b);
    return status;
}

quern_status cpu_run(const char *source, const struct cpu_launch *l)
{
    struct cpu_program *program;

    TRY(cpu_program_make(source, &program));
    const quern_status status = cpu_program_run(program, l);
    cpu_program_free(program);
    return status;
}

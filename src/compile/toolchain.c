/* SPDX-License-Identifier: MIT */
#include "base/os.h"
#include "base/rocm.h"
#include "base/str.h"
#include "compile/compile.h"
#include "compile/library_file.h"
#include "base/place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Where libraries lie below a root, and the sonames of the releases that are known to work. */
static const char *const library_places[] = {"lib", "lib64", "lib/x86_64-linux-gnu",
                                             "usr/lib/x86_64-linux-gnu", "."};
static const char *const hiprtc_names[] = {"libhiprtc.so.7", "libhiprtc.so.6"};
static const char *const builtins_names[] = {"libhiprtc-builtins.so.7", "libhiprtc-builtins.so.6"};
static const char *const comgr_names[] = {"libamd_comgr.so.3", "libamd_comgr.so.2",
                                          "libamd_comgr.so"};
static const char loader_name[] = "ld-linux-x86-64.so.2";

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* The first of `names` that exists in `directory`; "" if none does. */
static bool find_library(const char *directory, const char *const names[], size_t count,
                         char path[PLACE_MAX])
{
    for (size_t i = 0; i < count; i++)
        if (place_join(path, "%s/%s", directory, names[i]) && place_exists(path))
            return true;
    path[0] = 0;
    return false;
}

/* LLVM, when comgr is linked with a shared one: its name, and the file if it can be told. */
static void find_llvm(struct toolchain *t, const char *directory)
{
    static const char *const places[] = {".", "../llvm/lib", "../lib/llvm/lib"};
    char name[128];

    t->llvm[0] = 0;
    if (!library_file_needs(t->comgr, "libLLVM", name, sizeof name))
        return;
    for (size_t i = 0; i < COUNT(places); i++)
        if (place_join(t->llvm, "%s/%s/%s", directory, places[i], name) && place_exists(t->llvm))
            return;
    t->llvm[0] = 0;
}

/* A root that brings its own C library must be run by the loader that belongs to it. */
static void find_loader(struct toolchain *t, const char *directory)
{
    char libc[PLACE_MAX], extra[PLACE_MAX];
    struct stat own, host;

    t->loader[0] = t->library_path[0] = 0;
    if (!place_join(t->loader, "%s/%s", directory, loader_name) ||
        !place_join(libc, "%s/libc.so.6", directory) || !place_exists(libc) ||
        os.fstatat(AT_FDCWD, t->loader, &own, 0) ||
        (!os.fstatat(AT_FDCWD, "/lib64/ld-linux-x86-64.so.2", &host, 0) &&
         own.st_dev == host.st_dev && own.st_ino == host.st_ino)) {
        t->loader[0] = 0;
        return;
    }
    if (!place_join(extra, "%s/lib/x86_64-linux-gnu", t->root) || !place_exists(extra) ||
        !strcmp(extra, directory))
        snprintf(t->library_path, sizeof t->library_path, "%s", directory);
    else
        snprintf(t->library_path, sizeof t->library_path, "%s:%s", directory, extra);
}

static void add_identity(struct toolchain *t, const char *label, const char *path)
{
    const size_t used = strlen(t->identity);
    char id[64] = "-";

    if (*path && !library_file_id(path, id, sizeof id))
        snprintf(id, sizeof id, "unreadable");
    snprintf(t->identity + used, sizeof t->identity - used, "%s%s:%.48s", used ? "," : "", label,
             id);
}

/* Fills *t when `root` holds a toolchain. */
static bool toolchain_in(const char *root, struct toolchain *t)
{
    char directory[PLACE_MAX];

    memset(t, 0, sizeof *t);
    if (!place_join(t->root, "%s", root))
        return false;
    for (size_t i = 0; i < COUNT(library_places); i++) {
        if (!strcmp(library_places[i], ".")
                ? !place_join(directory, "%s", root)
                : !place_join(directory, "%s/%s", root, library_places[i]))
            continue;
        if (!find_library(directory, hiprtc_names, COUNT(hiprtc_names), t->hiprtc) ||
            !find_library(directory, comgr_names, COUNT(comgr_names), t->comgr))
            continue;
        find_library(directory, builtins_names, COUNT(builtins_names), t->builtins);
        find_llvm(t, directory);
        find_loader(t, directory);
        add_identity(t, "hiprtc", t->hiprtc);
        add_identity(t, "builtins", t->builtins);
        add_identity(t, "comgr", t->comgr);
        add_identity(t, "llvm", t->llvm);
        return true;
    }
    return false;
}

struct search {
    struct toolchain *toolchain;
    struct str tried;
};

static bool try_root(void *search, const char *root)
{
    struct search *const s = search;
    char absolute[PLACE_MAX];

    if (!root || !*root)
        return false;
    /* the worker has another working directory */
    char *const resolved = os.realpath(root, NULL);
    const bool there = resolved || errno != ENOENT;
    const bool fits = place_join(absolute, "%s", resolved ? resolved : root);
    os.free(resolved);
    if (there && fits && toolchain_in(absolute, s->toolchain))
        return true;
    str_addf(&s->tried, "%s%s", s->tried.length ? ", " : "", root);
    return false;
}

/* The tree that the set-up script makes: build/rocm, for a library in build/<name>/lib. */
static bool try_build(struct search *s)
{
    static const char *const above[] = {"../../rocm", "../../../rocm"};
    char directory[PLACE_MAX], path[PLACE_MAX];

    if (!place_of_library(directory))
        return false;
    for (size_t i = 0; i < COUNT(above); i++)
        if (place_join(path, "%s/%s", directory, above[i]) && try_root(s, path))
            return true;
    return false;
}

quern_status toolchain_find(const char *rocm_path, struct toolchain *toolchain)
{
    struct search s = {toolchain, {0}};
    /* a directory that was named and does not fit is a mistake, not a wish for another compiler */
    const bool named = rocm_path && *rocm_path;
    const bool found =
        try_root(&s, rocm_path) ||
        (!named && (try_root(&s, secure_getenv("ROCM_PATH")) || rocm_in_opt(try_root, &s) ||
                    try_root(&s, "/usr") || try_build(&s)));

    if (!found) {
        error_set(
            QUERN_E_TOOLCHAIN, __FILE__, FAIL_AT("!found"),
            "no libhiprtc.so.6 or .7 with libamd_comgr.so beside it in %s; set QUERN_ROCM_PATH "
            "to the directory of a ROCm 6 or 7 installation",
            str_text(&s.tried));
        memset(toolchain, 0, sizeof *toolchain);
    }
    str_free(&s.tried);
    return found ? QUERN_OK : QUERN_E_TOOLCHAIN;
}

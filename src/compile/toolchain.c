/* SPDX-License-Identifier: MIT */
/* Looking for a toolchain: the places that its vendor's compiler names, and what is in them. */
#include "base/os.h"
#include "base/place.h"
#include "base/str.h"
#include "compile/compilers.h"
#include "compile/library_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

_Static_assert(TOOLCHAIN_PATH_MAX == PLACE_MAX, "paths of libraries are places");

/* In an identity, of a library that could not be read. */
#define UNREADABLE "unreadable"

static const char loader_name[] = "ld-linux-x86-64.so.2";

/* Where a toolchain's root has a C library of its own, finds the loader that belongs to it: the
 * worker must be run by that. */
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
        snprintf(id, sizeof id, UNREADABLE);
    snprintf(t->identity + used, sizeof t->identity - used, "%s%s:%.48s", used ? "," : "", label,
             id);
}

/* Fills *t when `root` holds a toolchain of that kind. */
static bool toolchain_in(const struct compiler_kind *kind, const char *root, struct toolchain *t)
{
    char directory[PLACE_MAX];

    *t = (struct toolchain){.kind = kind};
    if (!place_join(t->root, "%s", root))
        return false;
    for (const char *const *place = kind->places; *place; place++) {
        if (!strcmp(*place, ".") ? !place_join(directory, "%s", root)
                                 : !place_join(directory, "%s/%s", root, *place))
            continue;
        if (!kind->libraries_in(directory, t))
            continue;
        find_loader(t, directory);
        for (size_t i = 0; i < TOOLCHAIN_LIBRARIES; i++)
            if (kind->libraries[i])
                add_identity(t, kind->libraries[i], t->library[i]);
        return true;
    }
    return false;
}

struct search {
    const struct compiler_kind *kind;
    struct toolchain *toolchain;
    struct str tried;
};

static bool try_root(void *search, const char *root)
{
    struct search *const s = search;
    char absolute[PLACE_MAX];

    if (!root || !*root)
        return false;
    /* absolute, because the worker has another working directory */
    char *const resolved = os.realpath(root, NULL);
    const bool there = resolved || errno != ENOENT;
    const bool fits = place_join(absolute, "%s", resolved ? resolved : root);
    os.free(resolved);
    if (there && fits && toolchain_in(s->kind, absolute, s->toolchain))
        return true;
    str_addf(&s->tried, "%s%s", s->tried.length ? ", " : "", root);
    return false;
}

/* Tries the toolchain that `make setup` makes, build/rocm, for a library in build/<name>/lib. */
static bool try_build(struct search *s)
{
    static const char *const above[] = {"../..", "../../.."};
    char directory[PLACE_MAX], path[PLACE_MAX];

    if (!s->kind->built || !place_of_library(directory))
        return false;
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (place_join(path, "%s/%s/%s", directory, above[i], s->kind->built) && try_root(s, path))
            return true;
    return false;
}

quern_status toolchain_find(unsigned vendor, const char *path, struct toolchain *toolchain)
{
    const struct compiler_kind *const kind = compilers[vendor];
    struct search s = {kind, toolchain, {0}};
    /* where a directory was named, no other place is tried: that it has no toolchain is a mistake
     * to be reported, not a wish for another compiler */
    const bool named = path && *path;
    const bool found =
        try_root(&s, path) ||
        (!named && (try_root(&s, kind->variable ? secure_getenv(kind->variable) : NULL) ||
                    kind->roots(try_root, &s) || try_build(&s)));

    if (!found) {
        error_set(QUERN_E_TOOLCHAIN, __FILE__, FAIL_AT("!found"), "no %s in %s", kind->missing,
                  str_text(&s.tried));
        error_remedy("%s", kind->advice);
        memset(toolchain, 0, sizeof *toolchain);
    }
    str_free(&s.tried);
    if (!found)
        return QUERN_E_TOOLCHAIN;
    /* the identity goes into the keys of kernels: what passes, such as too many open files, must
     * not be remembered as another compiler */
    FAIL_IF(strstr(toolchain->identity, ":" UNREADABLE), QUERN_E_TOOLCHAIN,
            "a library of the toolchain %s cannot be read, or is no 64-bit ELF file (%s)",
            toolchain->root, toolchain->identity);
    return QUERN_OK;
}

const char *toolchain_label(const struct toolchain *toolchain, enum toolchain_library library)
{
    return toolchain->kind->libraries[library];
}

const char *toolchain_option(unsigned vendor)
{
    return compilers[vendor]->option;
}

/* SPDX-License-Identifier: MIT */
/* What tells one vendor's compiler from another's: data, for whoever adds a vendor. */
#ifndef QUERN_COMPILE_COMPILERS_H
#define QUERN_COMPILE_COMPILERS_H

#include "compile/compile.h"

struct compiler_kind {
    const char *option; /* of a context's options, the one that names an installation; null: none */
    /* What to say when there is none: what was looked for, and what would help. */
    const char *missing, *advice;

    /* How the compiler, a library with the interface that hipRTC and NVRTC share, is called. */
    const char *prefix; /* of its functions: "hiprtc" of hiprtcCompileProgram */
    const char *code;   /* its word for an object: "Code" of hiprtcGetCode, hiprtcGetCodeSize */
    const char *target; /* the option that a target's name is put behind; "": options have it all */
    const char *file;   /* what the source is called in messages */
    const char *environment; /* NAME=VALUE, all that is set for it beyond the usual; "": nothing */
    const char *trial,
        *trial_options; /* a source that it compiles for every target of the vendor */

    /* Names of its libraries in a toolchain's identity; null where it has no such library. */
    const char *libraries[TOOLCHAIN_LIBRARIES];
    /* Where an installation keeps its libraries, below its root. */
    const char *const *places; /* ends with null */
    /* Fills in the paths of the libraries when all that are needed are in `directory`. */
    bool (*libraries_in)(const char *directory, struct toolchain *toolchain);
    const char *variable; /* of the environment, the one that users name a root with; null: none */
    /* Calls `look` with each usual root until it returns true, which is then returned. */
    bool (*roots)(bool (*look)(void *user, const char *root), void *user);
    const char *built; /* the folder of build/ in which a source tree's set-up puts one; null */
};

/* By enum vendor; null ends it (compilers.c). */
extern const struct compiler_kind *const compilers[];

#define VENDOR(NAME, name) extern const struct compiler_kind compiler_##name;
#include "target/vendors.def"
#undef VENDOR

#endif

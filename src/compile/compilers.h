/* SPDX-License-Identifier: MIT */
/* What tells one vendor's compiler from another's: data, for whoever adds a vendor. */
#ifndef QUERN_COMPILE_COMPILERS_H
#define QUERN_COMPILE_COMPILERS_H

#include "compile/compile.h"

struct compiler_kind {
    const char *option; /* the context's option that names an installation; null: there is none */
    /* For the message when no compiler is found: what was looked for, and what would help. */
    const char *missing, *advice;

    /* How the compiler, a library with the interface that hipRTC and NVRTC share, is called. */
    const char *prefix; /* of its functions: "hiprtc" of hiprtcCompileProgram */
    const char *code;   /* its word for an object: "Code" of hiprtcGetCode, hiprtcGetCodeSize */
    const char *target; /* the option that a target's name is put behind; "": the plan's options
                           name the target */
    const char *file;   /* the name of the source in the compiler's messages */
    const char *environment; /* NAME=VALUE, set for the compiler beside the usual; "": nothing */
    const char *trial,
        *trial_options; /* a source that it compiles for every target of the vendor */

    /* Names of its libraries in a toolchain's identity; null where it has no such library. */
    const char *libraries[TOOLCHAIN_LIBRARIES];
    /* Where an installation keeps its libraries, below its root. */
    const char *const *places; /* ends with null */
    /* Fills in the paths of the libraries when all that are needed are in `directory`. */
    bool (*libraries_in)(const char *directory, struct toolchain *toolchain);
    const char *variable; /* the environment variable by which users name a root; null: none */
    /* Calls `look` with each usual root until it returns true, which is then returned. */
    bool (*roots)(bool (*look)(void *user, const char *root), void *user);
    const char *built; /* the folder of build/ where `make setup` installs one; null: none */
};

/* The compilers, by enum vendor; null ends the list (compilers.c). */
extern const struct compiler_kind *const compilers[];

#define VENDOR(NAME, name) extern const struct compiler_kind compiler_##name;
#include "target/vendors.def"
#undef VENDOR

#endif

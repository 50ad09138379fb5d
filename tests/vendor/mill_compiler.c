/* SPDX-License-Identifier: MIT */
/*
 * Mill's compiler, libmillrtc.so: the interface of hipRTC and NVRTC under a prefix of its own. It
 * understands the constants that quern puts at the head of a source, and one statement.
 */
#include "mill.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct program {
    char *source;
    struct mill_object object;
    char log[256];
};
enum { DONE, OUT_OF_MEMORY, COMPILATION };

EXPORT int millrtcVersion(int *major, int *minor)
{
    *major = 1;
    *minor = 2;
    return DONE;
}

EXPORT const char *millrtcGetErrorString(int error)
{
    return error == COMPILATION ? "the source is wrong" : "out of memory";
}

EXPORT int millrtcCreateProgram(struct program **out, const char *source, const char *name,
                                int headers, const char *const *texts, const char *const *names)
{
    struct program *const p = calloc(1, sizeof *p);

    (void)name, (void)headers, (void)texts, (void)names;
    if (!p || !(p->source = strdup(source))) {
        free(p);
        return OUT_OF_MEMORY;
    }
    *out = p;
    return DONE;
}

/* The value of a constant; what is missing goes to the log. */
static uint32_t constant(struct program *p, const char *name)
{
    char head[64];

    snprintf(head, sizeof head, "constexpr unsigned %s = ", name);
    const char *const at = strstr(p->source, head);
    if (!at && !*p->log)
        snprintf(p->log, sizeof p->log, "mill: error: no constant %s", name);
    return at ? (uint32_t)strtoul(at + strlen(head), NULL, 10) : 0;
}

EXPORT int millrtcCompileProgram(struct program *p, int count, const char *const *options)
{
    struct mill_object *const o = &p->object;
    const char *const symbol = strstr(p->source, "#define SYMBOL ");
    unsigned grain = 0;

    memcpy(o->magic, MILL_MAGIC, sizeof o->magic);
    for (int i = 0; i < count; i++) {
        if (!strcmp(options[i], "-mtarget=mill_1"))
            o->machine = 1;
        else if (sscanf(options[i], "-mgrain=%u", &grain) != 1)
            snprintf(p->log, sizeof p->log, "mill: error: unknown option %s", options[i]);
    }
    o->n = constant(p, "N");
    o->k = constant(p, "K");
    o->m_tile = constant(p, "M_TILE");
    o->rows = constant(p, "ROWS");
    o->lanes = constant(p, "WAVE");
    if (!symbol || sscanf(symbol, "#define SYMBOL %63s", o->symbol) != 1)
        snprintf(p->log, sizeof p->log, "mill: error: no kernel");
    if (!strstr(p->source, "\nC = A * transpose(W);\n"))
        snprintf(p->log, sizeof p->log, "mill: error: no statement");
    if (!o->machine || grain != o->rows)
        snprintf(p->log, sizeof p->log, "mill: error: no target, or grain %u for %u rows", grain,
                 o->rows);
    return *p->log ? COMPILATION : DONE;
}

EXPORT int millrtcDestroyProgram(struct program **p)
{
    free((*p)->source);
    free(*p);
    *p = NULL;
    return DONE;
}

EXPORT int millrtcGetProgramLogSize(struct program *p, size_t *size)
{
    *size = strlen(p->log) + 1;
    return DONE;
}

EXPORT int millrtcGetProgramLog(struct program *p, char *log)
{
    strcpy(log, p->log);
    return DONE;
}

EXPORT int millrtcGetBinarySize(struct program *p, size_t *size)
{
    *size = sizeof p->object;
    return DONE;
}

EXPORT int millrtcGetBinary(struct program *p, char *code)
{
    memcpy(code, &p->object, sizeof p->object);
    return DONE;
}

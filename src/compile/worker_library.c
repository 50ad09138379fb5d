/* SPDX-License-Identifier: MIT */
/* Functions of the libraries that the worker meets by dlopen. */
#include "compile/worker.h"

#include <dlfcn.h>
#include <stdio.h>

bool find_functions(void *library, const char *path, const char *prefix,
                    const struct worker_function *needed, size_t count, struct reply *reply)
{
    for (size_t i = 0; i < count; i++) {
        char symbol[128];
        snprintf(symbol, sizeof symbol, "%s%s", prefix, needed[i].name);
        if (!(*needed[i].function = dlsym(library, symbol))) {
            reply_unable(reply, "%s has no %s", path, symbol);
            return false;
        }
    }
    return true;
}

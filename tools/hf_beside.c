/* SPDX-License-Identifier: MIT */
#include "hf_beside.h"
#include "files.h"
#include "json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define FILE_BYTES_MAX ((size_t)1 << 20) /* a few hundred bytes, but for lists of layers */

/* The first of the files that is there; null if none is. */
static int find(const char *config, char **path)
{
    static const char *const names[] = {"quantize_config.json", "quant_config.json",
                                        "quantization_config.json"};
    const char *const slash = strrchr(config, '/'), *const own = slash ? slash + 1 : config;

    *path = NULL;
    for (size_t i = 0; !strcmp(own, "config.json") && i < sizeof names / sizeof names[0]; i++) {
        if (asprintf(path, "%.*s%s", (int)(own - config), config, names[i]) < 0) {
            *path = NULL;
            return fail("out of memory");
        }
        if (!access(*path, F_OK))
            break;
        free(*path);
        *path = NULL;
    }
    return EXIT_OK;
}

int hf_beside_read(const char *config, json_t **q, char **path)
{
    *q = NULL;
    int status = find(config, path);
    if (status || !*path)
        return status;
    if (!(status = json_file_load(*path, FILE_BYTES_MAX, q))) {
        /* hosts are told the method beside the model; what only AWQ's files have tells it too */
        const bool awq = json_object_get(*q, "w_bit") || json_object_get(*q, "zero_point");
        if (!json_object_get(*q, "quant_method") &&
            json_object_set_new(*q, "quant_method", json_string(awq ? "awq" : "gptq")))
            status = fail("out of memory");
        else
            note("%s has no quantization_config; %s is read instead, as of quant_method %s", config,
                 *path, json_text(*q, "quant_method"));
    }
    if (status) {
        json_decref(*q);
        free(*path);
        *q = NULL;
        *path = NULL;
    }
    return status;
}

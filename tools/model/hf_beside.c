/* SPDX-License-Identifier: MIT */
/* Finds and reads the file beside a config.json (hf_beside.h). */
#include "model/hf_beside.h"
#include "files/files.h"
#include "files/json_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FILE_BYTES_MAX ((size_t)1 << 20) /* a few hundred bytes, but for lists of layers */

/* The first of the files that is there; null if none is. */
static int find(const char *config, char **path)
{
    static const char names[] = "quantize_config.json|quant_config.json|quantization_config.json";
    const char *const slash = strrchr(config, '/'), *const own = slash ? slash + 1 : config;

    *path = NULL;
    if (strcmp(own, "config.json"))
        return EXIT_OK;
    char *const prefix = strndup(config, (size_t)(own - config));
    const int status = prefix ? file_first(prefix, names, path) : fail("out of memory");
    free(prefix);
    return status;
}

int hf_beside_read(const char *config, json_t **q, char **path)
{
    *q = NULL;
    int status = find(config, path);
    if (status || !*path)
        return status;
    if (!(status = json_file_load(*path, FILE_BYTES_MAX, q))) {
        /* such files need not name the method, as hosts are told it in another way; members that
         * only AWQ's files have tell it, too */
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

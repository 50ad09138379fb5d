/* SPDX-License-Identifier: MIT */
/* JSON that comes from outside: read with limits, every member checked before it is used. */
#ifndef TOOLS_JSON_FILE_H
#define TOOLS_JSON_FILE_H

#include "command/command.h"

#include <jansson.h>
#include <stdbool.h>

/* Deepest nesting that is read: far more than any format of ours, far less than the stack. */
#define JSON_DEPTH_MAX 32

/* Reads a file of at most `limit` bytes that holds one JSON object. */
int json_file_load(const char *path, size_t limit, json_t **root);
/* The same of bytes that were read from `path`. */
int json_bytes_load(const char *path, const char *bytes, size_t size, json_t **root);

/* An integer member from lo to hi. `where` starts the message, e.g. "models/x.json: experts". */
int json_field_int(const json_t *object, const char *where, const char *field, int64_t lo,
                   int64_t hi, int64_t *value);
/* A string member, of at least one character; it lives as long as the object. */
int json_field_text(const json_t *object, const char *where, const char *field, const char **value);

/* An object's member under the first of the names (with bars between them) that it has and that is
 * not null; `found` is that name. Null if there is none. */
const json_t *json_any(const json_t *object, const char *names, char found[64]);
/* The same if it is a string, else "". */
const char *json_text(const json_t *object, const char *names);

/* A value as messages show it: its JSON, cut at 60 bytes. */
#define JSON_SHOWN_BYTES 64
const char *json_shown(const json_t *value, char shown[JSON_SHOWN_BYTES]);

/* A string of JSON from bytes of anywhere: \xNN where they are no UTF-8, which JSON must be.
 * Null for null, or when out of memory. */
json_t *json_words(const char *text);

/* What verbs make JSON with: json_pack of the formats s s* i I b f o O, [] and {}, whose strings go
 * through json_words. Null when out of memory, or a value is. */
json_t *json_make(const char *format, ...);

/*
 * Prints on stdout an object that begins with an array of any length, row by row, so that it never
 * is in memory whole: json_row for each, which takes the reference, then json_rows_end with the
 * object's other members. When the work fails between, there is no end and the JSON is cut short.
 */
struct json_rows {
    const char *name; /* of the array */
    size_t count;
    bool failed; /* a row could not be made or written */
};
void json_row(struct json_rows *rows, json_t *row);
int json_rows_end(struct json_rows *rows, json_t *others);

/* Prints `root` on stdout, indented, and drops the reference. Null is "out of memory". */
int json_print(json_t *root);

#endif

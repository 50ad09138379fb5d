/* SPDX-License-Identifier: MIT */
/* Reads JSON from outside and checks its members (json_file.h); prints a verb's own. */
#include "files/json_file.h"
#include "files/files.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How deep arrays and objects nest in a text that may not even be JSON; brackets in strings do not
 * count. */
static int depth_of(const char *bytes, size_t size)
{
    int depth = 0, deepest = 0;
    bool in_string = false;

    for (size_t i = 0; i < size; i++) {
        const char c = bytes[i];
        if (in_string) {
            if (c == '\\')
                i++;
            else if (c == '"')
                in_string = false;
        } else if (c == '"') {
            in_string = true;
        } else if (c == '{' || c == '[') {
            if (++depth > deepest)
                deepest = depth;
        } else if (c == '}' || c == ']') {
            depth--;
        }
    }
    return deepest;
}

int json_bytes_load(const char *path, const char *bytes, size_t size, json_t **root)
{
    json_error_t error;

    const int depth = depth_of(bytes, size);
    if (depth > JSON_DEPTH_MAX)
        return fail("%s nests %d levels deep; at most %d are read", path, depth, JSON_DEPTH_MAX);
    *root = json_loadb(bytes, size, JSON_REJECT_DUPLICATES, &error);
    if (!*root)
        return fail("%s is not JSON: line %d, column %d: %s", path, error.line, error.column,
                    error.text);
    if (!json_is_object(*root)) {
        json_decref(*root);
        *root = NULL;
        return fail("%s must hold a JSON object, { … }", path);
    }
    return EXIT_OK;
}

int json_file_load(const char *path, size_t limit, json_t **root)
{
    char *bytes;
    size_t size;

    int status = file_read(path, limit, &bytes, &size);
    if (status)
        return status;
    status = json_bytes_load(path, bytes, size, root);
    free(bytes);
    return status;
}

const json_t *json_any(const json_t *object, const char *names, char found[64])
{
    for (const char *p = names; p;) {
        const char *const bar = strchr(p, '|');
        snprintf(found, 64, "%.*s", bar ? (int)(bar - p) : (int)strlen(p), p);
        const json_t *const value = json_object_get(object, found);
        if (value && !json_is_null(value))
            return value;
        p = bar ? bar + 1 : NULL;
    }
    return NULL;
}

const char *json_text(const json_t *object, const char *names)
{
    char found[64];
    const char *const text = json_string_value(json_any(object, names, found));

    return text ? text : "";
}

const char *json_shown(const json_t *value, char shown[JSON_SHOWN_BYTES])
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);

    if (!text)
        return "?";
    if (strlen(text) < JSON_SHOWN_BYTES)
        strcpy(shown, text);
    else
        strcpy(shown + quern_text_shown(QUERN_SHOWN_DATA, text, strlen(text), shown,
                                        JSON_SHOWN_BYTES - 3),
               "…");
    free(text);
    return shown;
}

int json_field_int(const json_t *object, const char *where, const char *field, int64_t lo,
                   int64_t hi, int64_t *value)
{
    const json_t *member = json_object_get(object, field);
    char shown[JSON_SHOWN_BYTES];

    if (!member)
        return fail("%s: '%s' is missing; it must be an integer from %lld to %lld", where, field,
                    (long long)lo, (long long)hi);
    if (!json_is_integer(member) || json_integer_value(member) < lo ||
        json_integer_value(member) > hi)
        return fail("%s: '%s' is %s; it must be an integer from %lld to %lld", where, field,
                    json_shown(member, shown), (long long)lo, (long long)hi);
    *value = json_integer_value(member);
    return EXIT_OK;
}

int json_field_text(const json_t *object, const char *where, const char *field, const char **value)
{
    const json_t *member = json_object_get(object, field);
    char shown[JSON_SHOWN_BYTES];

    if (!member)
        return fail("%s: '%s' is missing; it must be a text", where, field);
    if (!json_is_string(member) || !json_string_length(member))
        return fail("%s: '%s' is %s; it must be a text", where, field, json_shown(member, shown));
    *value = json_string_value(member);
    return EXIT_OK;
}

json_t *json_words(const char *text)
{
    const size_t size = text ? strlen(text) : 0, room = 4 * size + 1;
    char *const shown = text ? malloc(room) : NULL;
    json_t *made = NULL;

    if (shown) /* checked once more by jansson, so that no mistake here makes bad JSON */
        made = json_stringn(shown, quern_text_shown(QUERN_SHOWN_DATA, text, size, shown, room));
    free(shown);
    return made;
}

/* One value of json_make, *format being behind its character then. A va_list in a struct can be
 * handed on by address. */
struct values {
    const char *format;
    va_list list;
};

static json_t *make_value(struct values *v);

static json_t *make_array(struct values *v)
{
    json_t *const array = json_array();
    bool bad = !array;

    while (*v->format != ']')
        bad |= json_array_append_new(array, make_value(v)) != 0;
    v->format++;
    if (!bad)
        return array;
    json_decref(array);
    return NULL;
}

static json_t *make_object(struct values *v)
{
    json_t *const object = json_object();
    bool bad = !object;

    while (*v->format != '}') {
        v->format += strspn(v->format, ", ") + 2; /* "s:" */
        const char *const name = va_arg(v->list, const char *);
        json_t *const value = make_value(v);
        const bool optional = *v->format == '*';
        v->format += optional;
        if (value || !optional)
            bad |= json_object_set_new(object, name, value) != 0;
    }
    v->format++;
    if (!bad)
        return object;
    json_decref(object);
    return NULL;
}

static json_t *make_value(struct values *v)
{
    v->format += strspn(v->format, ", ");
    switch (*v->format++) {
    case '{':
        return make_object(v);
    case '[':
        return make_array(v);
    case 's':
        return json_words(va_arg(v->list, const char *));
    case 'i':
        return json_integer(va_arg(v->list, int));
    case 'I':
        return json_integer(va_arg(v->list, json_int_t));
    case 'b':
        return json_boolean(va_arg(v->list, int));
    case 'f':
        return json_real(va_arg(v->list, double));
    case 'O':
        return json_incref(va_arg(v->list, json_t *));
    default: /* o */
        return va_arg(v->list, json_t *);
    }
}

json_t *json_make(const char *format, ...)
{
    struct values v = {.format = format};

    va_start(v.list, format);
    json_t *const made = make_value(&v);
    va_end(v.list);
    return made;
}

#define JSON_FLAGS JSON_REAL_PRECISION(9)

static void begin_row(struct json_rows *rows)
{
    if (rows->count++)
        fputs(",\n  ", stdout);
    else
        printf("{\n \"%s\": [\n  ", rows->name);
}

void json_row(struct json_rows *rows, json_t *row)
{
    begin_row(rows);
    rows->failed |= !row || json_dumpf(row, stdout, JSON_FLAGS);
    json_decref(row);
}

int json_rows_end(struct json_rows *rows, json_t *others)
{
    const char *name;
    json_t *value;

    if (!rows->count)
        begin_row(rows);
    fputs("\n ]", stdout);
    json_object_foreach(others, name, value)
    {
        printf(",\n \"%s\": ", name);
        rows->failed |= json_dumpf(value, stdout, JSON_FLAGS | JSON_ENCODE_ANY) != 0;
    }
    fputs("\n}\n", stdout);
    const bool bad = rows->failed || !others;
    json_decref(others);
    return bad ? fail("the output cannot be made or written") : finish_output();
}

int json_print(json_t *root)
{
    if (!root)
        return fail("out of memory");
    const int bad = json_dumpf(root, stdout, JSON_INDENT(1) | JSON_FLAGS);
    json_decref(root);
    fputc('\n', stdout);
    return bad ? fail("cannot write the output") : finish_output();
}

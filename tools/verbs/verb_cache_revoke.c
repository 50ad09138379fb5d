/* SPDX-License-Identifier: MIT */
/* quern cache revoke: the next revocation list of a remote cache, with more entries in it. */
#include "verbs/verb_cache_revoke.h"

#include "files/json_file.h"
#include "files/shared_files.h"
#include "files/signing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIST_NAME  "v1/revoked.qr"
#define KEY_DIGITS 32

static void sign_list(void *seed, const void *message, size_t size,
                      uint8_t public_key[PUBLIC_KEY_BYTES], uint8_t value[SIGNATURE_VALUE_BYTES])
{
    signature_of_message(seed, message, size, public_key, value);
}

/* Reads the entry of a key as it lies at the place. */
static int read_entry(quern_ctx *ctx, const char *place, const char *key, struct quern_bytes *file)
{
    char name[64];
    void *bytes = NULL;

    if (strlen(key) != KEY_DIGITS || strspn(key, "0123456789abcdef") != KEY_DIGITS)
        return misuse("'%s' is no key; expected the %d hexadecimal digits that quern cache list "
                      "--json has",
                      key, KEY_DIGITS);
    snprintf(name, sizeof name, "v1/objects/%.2s/%s.qk", key, key + 2);
    int status = shared_read(ctx, place, name, &bytes, &file->size);
    if (!status && !bytes)
        status = fail("%s has no entry of the key %s", place, key);
    file->bytes = bytes;
    return status;
}

static int write_list(const struct common *common, quern_ctx *ctx, const char *place,
                      const struct quern_bytes *files, size_t count, uint8_t *seed)
{
    uint8_t public_key[PUBLIC_KEY_BYTES], value[SIGNATURE_VALUE_BYTES];
    struct quern_bytes last = {0};
    void *old = NULL, *list = NULL;
    uint64_t serial = 0, revoked = 0;
    size_t size = 0;

    int status = shared_read(ctx, place, LIST_NAME, &old, &last.size);
    if (status)
        return status;
    last.bytes = old;
    signature_of_message(seed, "", 0, public_key, value); /* for the public key */
    const quern_status e = quern_cache_revoke(ctx, old ? &last : NULL, files, count, public_key,
                                              sign_list, seed, &list, &size, &serial, &revoked);
    free(old);
    status = e ? fail_status(e, NULL) : shared_write(ctx, place, LIST_NAME, list, size, NULL);
    free(list);
    if (status)
        return status;
    if (common->json)
        return json_print(json_make("{s:s, s:I, s:I}", "place", place, "serial", (json_int_t)serial,
                                    "revoked", (json_int_t)revoked));
    printf("%s: list %llu revokes %llu entr%s\n", shown_line(place), (unsigned long long)serial,
           (unsigned long long)revoked, revoked == 1 ? "y" : "ies");
    return finish_output();
}

int cache_revoke(const struct common *common, quern_ctx *ctx, const char *sign_key)
{
    const char *const place = common->arguments[1];
    const size_t count = (size_t)common->argument_count - 2;
    struct quern_bytes *const files = calloc(count, sizeof *files);
    uint8_t seed[SECRET_SEED_BYTES];

    if (!files)
        return fail("out of memory");
    int status = signature_seed(sign_key, seed);
    for (size_t i = 0; i < count && !status; i++)
        status = read_entry(ctx, place, common->arguments[i + 2], &files[i]);
    if (!status)
        status = write_list(common, ctx, place, files, count, seed);
    explicit_bzero(seed, sizeof seed);
    for (size_t i = 0; i < count; i++)
        free((void *)(uintptr_t)files[i].bytes);
    free(files);
    return status;
}

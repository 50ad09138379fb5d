/* SPDX-License-Identifier: MIT */
/* Checks the signature of a bundle (signature.h) against the keys that a user trusts. */
#include "store/signature.h"
#include "base/hash.h"
#include "base/os.h"
#include "store/directory.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>

#define PUBLIC_WORD "quern-public-key "
#define SECRET_WORD "quern-secret-key "
/* Signed messages begin with this, so that a bundle's signature cannot pass for one of anything
 * else. */
#define DOMAIN         "quern bundle signature 1\n"
#define KEY_FILE_BYTES ((off_t)64 << 10)
#define KEY_BYTES      crypto_sign_PUBLICKEYBYTES

/* sodium_init is not called: it gathers random numbers, and aborts the process where there are
 * none. Checking signatures needs none. */

/* ---- keys ------------------------------------------------------------------------------------ */

static bool parse_key(const char *line, size_t length, const char *word, uint8_t key[KEY_BYTES])
{
    const size_t w = strlen(word);
    size_t got = 0;

    return length == w + 2 * (size_t)KEY_BYTES && !memcmp(line, word, w) &&
           !sodium_hex2bin(key, KEY_BYTES, line + w, 2 * (size_t)KEY_BYTES, NULL, &got, NULL) &&
           got == KEY_BYTES;
}

static quern_status parse_keys(const char *path, const char *text, struct signers *signers)
{
    signers->count = 0;
    for (size_t line = 1; *text; line++) {
        const size_t n = strcspn(text, "\n");
        const bool silent = n == 0 || *text == '#';
        FAIL_IF(!strncmp(text, SECRET_WORD, sizeof SECRET_WORD - 1), QUERN_E_CACHE,
                "%.400s: line %zu is a secret key, which signs; trusted keys are public ones: name "
                "the other file that `quern bundle keygen` wrote, and keep this one to yourself",
                path, line);
        FAIL_IF(!silent && (signers->count == SIGNERS_MAX ||
                            !parse_key(text, n, PUBLIC_WORD, signers->keys[signers->count])),
                QUERN_E_CACHE,
                "%.400s: line %zu is not \"" PUBLIC_WORD
                "\" and 64 hexadecimal digits (at most %d keys)",
                path, line, SIGNERS_MAX);
        signers->count += !silent;
        text += n + (text[n] == '\n');
    }
    FAIL_IF(!signers->count, QUERN_E_CACHE, "%.400s: there is no key in it", path);
    return QUERN_OK;
}

/* Reads a key file as a text, NUL-terminated and malloc'ed. */
static quern_status read_key_file(const char *what, const char *path, char **text)
{
    char *bytes;
    size_t size;

    TRY(store_read_named(what, path, KEY_FILE_BYTES, &bytes, &size));
    *text = os.realloc(bytes, size + 1);
    if (!*text) {
        os.free(bytes);
        FAIL(QUERN_E_MEMORY, "out of memory for the keys of %.400s", path);
    }
    (*text)[size] = 0;
    return QUERN_OK;
}

quern_status signers_read(const char *what, const char *path, struct signers *signers)
{
    char *text;

    TRY(read_key_file(what, path, &text));
    const quern_status status = parse_keys(path, text, signers);
    os.free(text);
    return status;
}

size_t signers_find(const struct signers *signers, const uint8_t public_key[KEY_BYTES])
{
    size_t i = 0;

    while (i < signers->count && memcmp(signers->keys[i], public_key, KEY_BYTES))
        i++;
    return i;
}

static bool parse_secret(const char *text, uint8_t seed[KEY_BYTES])
{
    size_t count = 0;

    while (*text) {
        const size_t n = strcspn(text, "\n");
        const bool silent = n == 0 || *text == '#';
        if (!silent && (count || !parse_key(text, n, SECRET_WORD, seed)))
            return false;
        count += !silent;
        text += n + (text[n] == '\n');
    }
    return count == 1;
}

quern_status signer_read_secret(const char *what, const char *path, uint8_t seed[32])
{
    struct stat st;
    char *text;

    TRY(read_key_file(what, path, &text));
    const bool sound = parse_secret(text, seed);
    sodium_memzero(text, strlen(text));
    os.free(text);
    FAIL_IF(!sound, QUERN_E_CACHE,
            "%s: %.400s does not have one line \"" SECRET_WORD "\" and 64 hexadecimal digits, as "
            "`quern bundle keygen` writes it",
            what, path);
    FAIL_IF(os.fstatat(AT_FDCWD, path, &st, 0) || st.st_mode & 077, QUERN_E_CACHE,
            "%s: %.400s may be read by others; a secret key must be its owner's alone: chmod 600",
            what, path);
    return QUERN_OK;
}

/* ---- signatures ------------------------------------------------------------------------------ */

quern_status bundle_check_signature(struct bundle *bundle, const struct signers *signers)
{
    char hex[2 * KEY_BYTES + 1];
    crypto_sign_state state;
    struct bundle_info info;

    bundle_info(bundle, &info);
    FAIL_IF(!info.has_signature, QUERN_E_OBJECT, "the bundle is not signed");
    hex_from_bytes(hex, info.public_key, KEY_BYTES);
    FAIL_IF(signers_find(signers, info.public_key) == signers->count, QUERN_E_OBJECT,
            "signed by %s, which is not among the %zu trusted key%s; only if the signer gave you "
            "this key by another way, add the line \"" PUBLIC_WORD "%s\" to their file",
            hex, signers->count, signers->count == 1 ? "" : "s", hex);
    /* Ed25519ph (RFC 8032): the message is hashed in pieces */
    crypto_sign_init(&state);
    crypto_sign_update(&state, (const unsigned char *)DOMAIN, sizeof DOMAIN - 1);
    TRY(bundle_sign_update(bundle, &state));
    FAIL_IF(crypto_sign_final_verify(&state, info.signature, info.public_key), QUERN_E_OBJECT,
            "the signature by %s is not that of these bytes", hex);
    return QUERN_OK;
}

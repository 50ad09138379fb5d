/* SPDX-License-Identifier: MIT */
/* Makes keys and signatures (signing.h), for `quern bundle`. */
#include "files/signing.h"
#include "files/files.h"

#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#define PUBLIC_WORD "quern-public-key"
#define SECRET_WORD "quern-secret-key"
/* Signed messages begin with this, so that a bundle's signature cannot pass for one of anything
 * else. */
#define DOMAIN         "quern bundle signature 1\n"
#define KEY_FILE_BYTES ((size_t)64 << 10)

/* sodium_init is not called: it gathers random numbers, and aborts the process where there are
 * none. What is used of libsodium here needs none; random_bytes gets those of keys. */

/* Ed25519ph (RFC 8032): the message is hashed in pieces, so DOMAIN needs no copy of the bundle. */
static void begin(crypto_sign_state *state, const void *bytes, size_t size)
{
    crypto_sign_init(state);
    crypto_sign_update(state, (const unsigned char *)DOMAIN, sizeof DOMAIN - 1);
    crypto_sign_update(state, bytes, size);
}

/* ---- key files ------------------------------------------------------------------------------- */

/* Reads "WORD HEX" of exactly `size` bytes. */
static bool parse_key(const char *line, size_t length, const char *word, uint8_t *key, size_t size)
{
    const size_t w = strlen(word);
    size_t got = 0;

    return length == w + 1 + 2 * size && !memcmp(line, word, w) && line[w] == ' ' &&
           !sodium_hex2bin(key, size, line + w + 1, 2 * size, NULL, &got, NULL) && got == size;
}

/* Reads a text that has one secret key, and nothing else but empty lines and comments. */
static bool parse_secret(const char *text, uint8_t seed[SECRET_SEED_BYTES])
{
    size_t count = 0;

    while (*text) {
        const size_t n = strcspn(text, "\n");
        const bool silent = n == 0 || *text == '#';
        if (!silent && (count || !parse_key(text, n, SECRET_WORD, seed, SECRET_SEED_BYTES)))
            return false;
        count += !silent;
        text += n + (text[n] == '\n');
    }
    return count == 1;
}

int signature_seed(const char *path, uint8_t seed[SECRET_SEED_BYTES])
{
    struct stat st;
    char *text;
    size_t size;

    if (stat(path, &st))
        return fail("%s: %s", path, strerror(errno));
    int status = file_read(path, KEY_FILE_BYTES, &text, &size);
    if (status)
        return status;
    if (!strncmp(text, PUBLIC_WORD, sizeof PUBLIC_WORD - 1))
        status =
            fail("%s is a public key; a secret one signs: name the other file that `quern bundle "
                 "keygen` wrote",
                 path);
    else if (st.st_mode & 077)
        status = fail("%s has mode %04o; a secret key must be its owner's alone: chmod 600 %s",
                      path, st.st_mode & 07777, path);
    else if (!parse_secret(text, seed))
        status =
            fail("%s does not hold one line \"" SECRET_WORD "\" and 64 hexadecimal digits", path);
    sodium_memzero(text, size);
    free(text);
    return status;
}

/* Writes a file that must not exist yet, whole or not at all. */
static int write_new(const char *path, const char *text, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
    const size_t size = strlen(text);

    if (fd < 0)
        return fail("%s: %s", path,
                    errno == EEXIST ? "exists; a key is not written over" : strerror(errno));
    const bool written = !fchmod(fd, mode) && write(fd, text, size) == (ssize_t)size && !fsync(fd);
    const int error = errno;
    if ((close(fd) || !written)) {
        unlink(path);
        return fail("%s: %s", path, strerror(written ? errno : error));
    }
    return EXIT_OK;
}

/* Random bytes for a key. getentropy is not used, as it tries again for as long as it is
 * interrupted. */
static bool random_bytes(uint8_t *bytes, size_t size)
{
    ssize_t n = -1;

    errno = EINTR;
    for (int tries = 0; n < 0 && errno == EINTR && tries < 100; tries++)
        n = getrandom(bytes, size, 0);
    return n == (ssize_t)size;
}

int signature_new_pair(const char *secret_path, const char *public_path)
{
    uint8_t public[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
    uint8_t seed[SECRET_SEED_BYTES];
    char hex[2 * SECRET_SEED_BYTES + 1], text[128];

    if (!random_bytes(seed, sizeof seed))
        return fail("no random numbers for a key: %s", strerror(errno));
    crypto_sign_seed_keypair(public, secret, seed);
    sodium_bin2hex(hex, sizeof hex, seed, sizeof seed);
    snprintf(text, sizeof text, SECRET_WORD " %s\n", hex);
    int status = write_new(secret_path, text, 0600);
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    sodium_memzero(text, sizeof text);
    if (status)
        return status;
    sodium_bin2hex(hex, sizeof hex, public, sizeof public);
    snprintf(text, sizeof text, PUBLIC_WORD " %s\n", hex);
    status = write_new(public_path, text, 0644);
    if (status)
        unlink(secret_path);
    return status;
}

/* ---- signing --------------------------------------------------------------------------------- */

void signature_of_message(const uint8_t seed[SECRET_SEED_BYTES], const void *message, size_t size,
                          uint8_t public_key[PUBLIC_KEY_BYTES],
                          uint8_t value[SIGNATURE_VALUE_BYTES])
{
    uint8_t secret[crypto_sign_SECRETKEYBYTES];

    crypto_sign_seed_keypair(public_key, secret, seed);
    crypto_sign_detached(value, NULL, message, size, secret);
    sodium_memzero(secret, sizeof secret);
}

int signature_make(const char *secret_path, const void *bytes, size_t size,
                   uint8_t public_key[PUBLIC_KEY_BYTES], uint8_t value[SIGNATURE_VALUE_BYTES])
{
    uint8_t seed[SECRET_SEED_BYTES], secret[crypto_sign_SECRETKEYBYTES];
    crypto_sign_state state;
    int status = signature_seed(secret_path, seed);

    if (status)
        return status;
    crypto_sign_seed_keypair(public_key, secret, seed);
    begin(&state, bytes, size);
    if (crypto_sign_final_create(&state, value, NULL, secret))
        status = fail("signing failed");
    sodium_memzero(seed, sizeof seed);
    sodium_memzero(secret, sizeof secret);
    return status;
}

/* SPDX-License-Identifier: MIT */
/*
 * The highest serial imported of each signer: serials/<64 digits> holds it as 20 decimal digits
 * and a newline. It is replaced by renaming, with the directory locked, so that two imports at once
 * cannot lower it. A file with anything else in it is an error: to take it for 0 would let old
 * bundles in.
 */
#include "base/os.h"
#include "store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>

enum { SERIAL_BYTES = 21, SIGNER_HEX = 64 };

static quern_status check_signer(const char *signer)
{
    FAIL_IF(strlen(signer) != SIGNER_HEX || strspn(signer, "0123456789abcdef") != SIGNER_HEX,
            QUERN_E_ARGUMENT, "a signer is %d hexadecimal digits, not \"%.80s\"", SIGNER_HEX,
            signer);
    return QUERN_OK;
}

static quern_status parse(const char *text, const char *signer, uint64_t *serial)
{
    char *end;

    errno = 0;
    *serial = strtoull(text, &end, 10);
    FAIL_IF(strspn(text, "0123456789") != SERIAL_BYTES - 1 || strcmp(end, "\n") || errno,
            QUERN_E_CACHE,
            "the serial kept for signer %s is unreadable; remove " SERIALS_DIRECTORY
            "/%s from the cache to start anew",
            signer, signer);
    return QUERN_OK;
}

static quern_status read_serial(const struct store *s, int directory, const char *signer,
                                uint64_t *serial)
{
    char text[SERIAL_BYTES + 1] = "";
    struct stat st;
    void *bytes;

    *serial = 0;
    const int fd = store_open_fit(s, directory, signer, "the serial of signer", &st);
    if (fd == -ENOENT)
        return QUERN_OK;
    if (fd < 0)
        return quern_last_error()->status;
    const int error = store_read_exactly(fd, SERIAL_BYTES, &bytes);
    if (!error) {
        memcpy(text, bytes, SERIAL_BYTES);
        os.free(bytes);
    }
    os.close(fd);
    /* of another size: parse says what to do about it */
    FAIL_IF(error && error != -EAGAIN, QUERN_E_IO, "the serial of signer %s cannot be read: %s",
            signer, strerror(-error));
    return parse(text, signer, serial);
}

quern_status store_serial(struct store *s, const char *signer, uint64_t *serial)
{
    int directory;

    TRY(check_signer(signer));
    *serial = 0;
    TRY(store_open_beside(s, SERIALS_DIRECTORY, "serials", false, &directory));
    if (directory < 0)
        return QUERN_OK;
    const quern_status status = read_serial(s, directory, signer, serial);
    os.close(directory);
    return status;
}

static quern_status replace(const struct store *s, int directory, const char *signer,
                            uint64_t serial)
{
    char text[SERIAL_BYTES + 1];

    snprintf(text, sizeof text, "%020" PRIu64 "\n", serial);
    const int error = store_exchange(s, directory, signer, text, SERIAL_BYTES);
    FAIL_IF(error, QUERN_E_IO, "the serial of signer %s cannot be kept: %s", signer,
            strerror(-error));
    return QUERN_OK;
}

quern_status store_raise_serial(struct store *s, const char *signer, uint64_t serial)
{
    uint64_t kept = 0;
    quern_status status;
    int directory;

    TRY(check_signer(signer));
    FAIL_IF(s->mode != QUERN_CACHE_RW, QUERN_E_CACHE, "cache directory %s is not open for writing",
            store_directory(s));
    TRY(store_open_beside(s, SERIALS_DIRECTORY, "serials", true, &directory));
    store_lock_file(s, directory, SERIAL_LOCK_MS);
    status = read_serial(s, directory, signer, &kept);
    if (status == QUERN_OK && serial > kept)
        status = replace(s, directory, signer, serial);
    store_unlock(s, directory);
    return status;
}

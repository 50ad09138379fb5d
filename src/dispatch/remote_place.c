/* SPDX-License-Identifier: MIT */
/* Where a remote cache is, and the helper that reaches it: for the tier (remote_tier.c), and for
 * what sends a whole cache there (cache_send.c). */
#include "dispatch/remote_place.h"

#include "base/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether a URL's host is this machine, by a name or number that no resolver is asked for. */
static bool is_loopback(const char *host)
{
    static const char *const names[] = {"localhost", "127.0.0.1", "[::1]"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (!strncmp(host, names[i], n) && strchr(":/", host[n])) /* or the end */
            return true;
    }
    return false;
}

quern_status remote_read_url(const char *what, const char *text, char url[REMOTE_URL_MAX],
                             bool *https, bool *local)
{
    const bool tls = !strncmp(text, "https://", 8), plain = !strncmp(text, "http://", 7);
    const char *const host = text + (tls ? 8 : 7);
    size_t length = strlen(text);

    FAIL_IF((!plain && !tls) || !*host || strchr("/:", *host), QUERN_E_ARGUMENT,
            "%s is %.200s; expected an address such as https://cache.example/quern", what, text);
    for (const char *c = text; *c; c++)
        FAIL_IF(*c <= ' ' || *c > '~' || strchr("@?#\"<>\\", *c), QUERN_E_ARGUMENT,
                "%s has the character %d at %zu; expected http://HOST/PATH without a name, "
                "password, query or fragment, other characters written %%XX",
                what, (unsigned char)*c, (size_t)(c - text));
    while (text[length - 1] == '/')
        length--;
    FAIL_IF(length >= REMOTE_URL_MAX, QUERN_E_ARGUMENT,
            "%s has %zu characters; at most %d are taken", what, length, REMOTE_URL_MAX - 1);
    memcpy(url, text, length);
    url[length] = 0;
    *https = tls;
    *local = is_loopback(host);
    return QUERN_OK;
}

bool remote_find_helper(const char *worker_path, char *path, char *why, size_t why_size)
{
    const char *const slash = worker_path ? strrchr(worker_path, '/') : NULL;
    char tried[3 * PLACE_MAX] = "";

    if (slash && place_join(path, "%.*s/quern-remote", (int)(slash - worker_path), worker_path) &&
        place_exists(path))
        return true;
    if (place_of_helper("quern-remote", path, tried, sizeof tried))
        return true;
    snprintf(why, why_size, "there is no helper quern-remote at %.200s", tried);
    return false;
}

const char *remote_certificates(void)
{
    /* others' variable, which programs that use OpenSSL read; libcurl does not */
    const char *const file = secure_getenv("SSL_CERT_FILE");

    return file ? file : "";
}

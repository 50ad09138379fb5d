/* SPDX-License-Identifier: MIT */
/* Reads the http:// or https:// address of a remote cache (remote_place.h). */
#include "dispatch/remote_place.h"

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

quern_status remote_read_url(const char *what, const char *text, struct remote_place *place)
{
    const bool tls = !strncmp(text, "https://", 8), plain = !strncmp(text, "http://", 7);
    const char *const host = text + (tls ? 8 : 7);
    size_t length = strlen(text);

    FAIL_IF((!plain && !tls) || !*host || strchr("/:", *host), QUERN_E_ARGUMENT,
            "%s is %.200s; expected an address such as https://cache.example/quern or "
            "s3://bucket/prefix",
            what, text);
    for (const char *c = text; *c; c++)
        FAIL_IF(*c <= ' ' || *c > '~' || strchr("@?#\"<>\\", *c), QUERN_E_ARGUMENT,
                "%s has the character %d at %zu; expected http://HOST/PATH without a name, "
                "password, query or fragment, other characters written %%XX",
                what, (unsigned char)*c, (size_t)(c - text));
    while (text[length - 1] == '/')
        length--;
    FAIL_IF(length >= REMOTE_URL_MAX, QUERN_E_ARGUMENT,
            "%s has %zu characters; at most %d are taken", what, length, REMOTE_URL_MAX - 1);
    memcpy(place->url, text, length);
    place->url[length] = 0;
    place->https = tls;
    place->local = is_loopback(host);
    return QUERN_OK;
}

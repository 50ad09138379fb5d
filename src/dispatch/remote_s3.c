/* SPDX-License-Identifier: MIT */
/*
 * A remote cache in an S3 object store: from s3://BUCKET/PREFIX and the environment to an https
 * address and what its requests are signed with. The variables are AWS's
 * (https://docs.aws.amazon.com/sdkref/latest/guide/environment-variables.html). Neither their files
 * (~/.aws) nor the metadata service of an instance is read: what is used is what the host was
 * given.
 */
#include "dispatch/remote_place.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A variable of the environment; null where it is not set, or empty. */
static const char *variable(const char *name)
{
    const char *const value = secure_getenv(name);

    return value && *value ? value : NULL;
}

static const char *either(const char *first, const char *second, const char **name)
{
    const char *const value = variable(first);

    *name = value ? first : second;
    return value ? value : variable(second);
}

/* Copies a variable into what is signed with. It becomes part of a header: spaces and control
 * characters have no place there. Its value is in no message. */
static quern_status take_word(const char *name, const char *value, char *to, size_t room)
{
    for (const char *c = value; *c; c++)
        FAIL_IF(*c <= ' ' || *c > '~', QUERN_E_ARGUMENT,
                "%s has the character %d at %zu; expected letters, digits and marks", name,
                (unsigned char)*c, (size_t)(c - value));
    FAIL_IF(snprintf(to, room, "%s", value) >= (int)room, QUERN_E_ARGUMENT,
            "%s has %zu characters; at most %zu are taken", name, strlen(value), room - 1);
    return QUERN_OK;
}

static quern_status read_credentials(const char *what, struct remote_credentials *c)
{
    const char *const id = variable("AWS_ACCESS_KEY_ID");
    const char *const secret = variable("AWS_SECRET_ACCESS_KEY");
    const char *const token = variable("AWS_SESSION_TOKEN");

    FAIL_IF(!id || !secret, QUERN_E_ARGUMENT,
            "%s is an s3:// address and %s is not set; requests are signed with AWS_ACCESS_KEY_ID "
            "and AWS_SECRET_ACCESS_KEY, and neither ~/.aws nor instance metadata is read (a bucket "
            "that anybody may read has an https:// address)",
            what, id ? "AWS_SECRET_ACCESS_KEY" : "AWS_ACCESS_KEY_ID");
    TRY(take_word("AWS_ACCESS_KEY_ID", id, c->key_id, sizeof c->key_id));
    TRY(take_word("AWS_SECRET_ACCESS_KEY", secret, c->secret, sizeof c->secret));
    return token ? take_word("AWS_SESSION_TOKEN", token, c->token, sizeof c->token) : QUERN_OK;
}

/* The region, which is signed: of a store of one's own it is us-east-1 unless it says otherwise. */
static quern_status read_region(const char *what, bool own_store, struct remote_credentials *c)
{
    const char *name, *region = either("AWS_REGION", "AWS_DEFAULT_REGION", &name);

    FAIL_IF(!region && !own_store, QUERN_E_ARGUMENT,
            "%s is an s3:// address and AWS_REGION is not set; set it to the bucket's region, or "
            "AWS_ENDPOINT_URL to the address of another store than Amazon's",
            what);
    region = region ? region : "us-east-1";
    for (const char *r = region; *r; r++)
        FAIL_IF(!isalnum((unsigned char)*r) && *r != '-' && *r != '_', QUERN_E_ARGUMENT,
                "%s=%.100s; expected a region such as eu-central-1", name, region);
    return take_word(name, region, c->region, sizeof c->region);
}

/* Appends a path to an address, as what is signed must have it: all but unreserved characters (RFC
 * 3986) and slashes are written %XX. */
static bool add_path(char url[REMOTE_URL_MAX], const char *path, size_t length)
{
    size_t at = strlen(url);

    for (size_t i = 0; i < length; i++) {
        const unsigned char c = (unsigned char)path[i];
        const bool plain = isalnum(c) || strchr("-._~/", c);
        const int n = snprintf(url + at, REMOTE_URL_MAX - at, plain ? "%c" : "%%%02X", c);
        if (n >= (int)(REMOTE_URL_MAX - at))
            return false;
        at += (size_t)n;
    }
    return true;
}

/* The store's address. *in_host: it has the bucket, before Amazon's host; else the bucket is the
 * first part of the path, as where a dot in it would be beyond what the host's certificate is for.
 */
static quern_status find_store(const char *what, const char *bucket, size_t length,
                               struct remote_place *place, bool *in_host)
{
    const char *name, *endpoint = either("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", &name);
    char amazon[REMOTE_URL_MAX];

    *in_host = !endpoint && !memchr(bucket, '.', length);
    TRY(read_region(what, endpoint, &place->credentials));
    if (endpoint)
        return remote_read_url(name, endpoint, place);
    snprintf(amazon, sizeof amazon, "https://%.*s%ss3.%s.amazonaws.com", *in_host ? (int)length : 0,
             bucket, *in_host ? "." : "", place->credentials.region);
    return remote_read_url(what, amazon, place);
}

quern_status remote_read_s3(const char *what, const char *text, struct remote_place *place)
{
    const char *const bucket = text + strlen("s3://");
    const size_t length = strcspn(bucket, "/");
    size_t total = strlen(bucket);
    bool in_host, fits = true;

    place->s3 = true;
    for (size_t i = 0; i < length; i++)
        FAIL_IF(!isalnum((unsigned char)bucket[i]) && !strchr("-._", bucket[i]), QUERN_E_ARGUMENT,
                "%s is %.200s; expected s3://BUCKET/PREFIX, with a bucket of letters, digits, "
                "'-', '.' and '_'",
                what, text);
    FAIL_IF(length < 3 || length > 63, QUERN_E_ARGUMENT,
            "%s is %.200s; expected s3://BUCKET/PREFIX, with a bucket of 3 to 63 characters", what,
            text);
    for (const char *c = bucket; *c; c++)
        FAIL_IF(*c < ' ' || *c > '~' || (c[0] == '/' && c[1] == '/'), QUERN_E_ARGUMENT,
                "%s has the character %d at %zu; expected a prefix of ASCII without empty parts",
                what, (unsigned char)*c, (size_t)(c - text));
    TRY(read_credentials(what, &place->credentials));
    TRY(find_store(what, bucket, length, place, &in_host));
    if (bucket[total - 1] == '/')
        total--;
    if (!in_host)
        fits = add_path(place->url, "/", 1) && add_path(place->url, bucket, length);
    fits = fits && add_path(place->url, bucket + length, total - length);
    FAIL_IF(!fits, QUERN_E_ARGUMENT, "%s is too long: its address has more than %d characters",
            what, REMOTE_URL_MAX - 1);
    return QUERN_OK;
}

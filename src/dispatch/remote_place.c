/* SPDX-License-Identifier: MIT */
/* Where a remote cache is, and the helper that reaches it (remote_place.h). */
#include "dispatch/remote_place.h"

#include "base/place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

quern_status remote_read_place(const char *what, const char *text, struct remote_place *place)
{
    *place = (struct remote_place){.patience_ms = REMOTE_PATIENCE_MS};
    return strncmp(text, "s3://", 5) ? remote_read_url(what, text, place)
                                     : remote_read_s3(what, text, place);
}

struct remote_config remote_config_of(const struct remote_place *place, const char *path)
{
    /* others' variable, which programs that use OpenSSL read; libcurl does not */
    const char *const file = secure_getenv("SSL_CERT_FILE");

    return (struct remote_config){.path = path,
                                  .url = place->url,
                                  .patience_ms = place->patience_ms,
                                  .certificates = file ? file : "",
                                  .credentials = place->s3 ? &place->credentials : NULL};
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

quern_status remote_start_helper(const struct remote_place *place, const char *worker_path,
                                 struct remote **helper)
{
    char path[PLACE_MAX], why[300];

    FAIL_IF(!remote_find_helper(worker_path, path, why, sizeof why), QUERN_E_TOOLCHAIN, "%s", why);
    const struct remote_config config = remote_config_of(place, path);
    return remote_start(&config, helper);
}

/* SPDX-License-Identifier: MIT */
/* A remote cache in a directory, as `quern cache push` writes it (remote_place.h). */
#include "dispatch/remote_place.h"

#include "base/os.h"
#include "base/place.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

quern_status remote_read_directory(const char *what, const char *text, struct remote_place *place)
{
    size_t length = strlen(text);

    while (length > 1 && text[length - 1] == '/')
        length--;
    FAIL_IF(length >= REMOTE_URL_MAX / 2, QUERN_E_ARGUMENT,
            "%s has %zu characters; of a directory's path at most %d are taken", what, length,
            REMOTE_URL_MAX / 2 - 1);
    *place = (struct remote_place){.directory = true};
    memcpy(place->url, text, length);
    return QUERN_OK;
}

void remote_directory_fetch(const struct remote_place *place, const char *name,
                            struct remote_answer *answer)
{
    const uint64_t begun = os_now();
    char path[PLACE_MAX], *bytes = NULL;

    *answer = (struct remote_answer){.outcome = REPLY_UNABLE};
    int error = place_join(path, "%s/%s", place->url, name)
                    ? os_read_file(path, FETCH_BYTES_MAX, &bytes, &answer->size)
                    : ENAMETOOLONG;
    answer->bytes = (uint8_t *)bytes;
    answer->microseconds = (os_now() - begun) / 1000;
    if (!error)
        answer->outcome = REPLY_DONE;
    else if (error == ENOENT && place_exists(place->url)) /* else the whole directory is missing */
        answer->outcome = REPLY_ABSENT;
    else
        snprintf(answer->message, sizeof answer->message, "%.60s in the directory: %s", name,
                 error == EINVAL  ? "it is no regular file"
                 : error == EFBIG ? "it is too large for an entry"
                                  : strerror(error));
}

/* SPDX-License-Identifier: MIT */
/* The files that a vendor's compiler makes, for whoever adds a vendor: what object.h needs of it.
 * */
#ifndef QUERN_OBJECT_FORMAT_H
#define QUERN_OBJECT_FORMAT_H

#include "object/object.h"

struct object_format {
    /* Whether bytes claim to be of this format; all else about them may still be wrong. */
    bool (*recognise)(const uint8_t *bytes, size_t size);
    /* Fills an object of which only bytes and size are set. What it allocated is freed by
     * object_free, also when it fails. Errors as those of object_parse. */
    quern_status (*parse)(struct object *object);
};

/* The formats, by enum vendor; null ends the list (formats.c). */
extern const struct object_format *const object_formats[];

#define VENDOR(NAME, name) extern const struct object_format object_##name;
#include "target/vendors.def"
#undef VENDOR

#endif

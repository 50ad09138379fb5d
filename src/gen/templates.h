/* SPDX-License-Identifier: MIT */
/* The files below templates/, embedded in the library by tools/embed.sh. */
#ifndef QUERN_GEN_TEMPLATES_H
#define QUERN_GEN_TEMPLATES_H

struct template_file {
    const char *name;   /* path below templates/ without its ending: "family/simt_w4" */
    const char *sha256; /* of the file, 64 hexadecimal digits */
    const char *text;
};

/* All files; the last has a null name. */
extern const struct template_file template_files[];

#endif

#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh FILE.hip…: prints a C file that holds the kernel templates, one string literal a line,
# named by their paths below templates/ without the ending, and the SHA-256 of each.
set -eu

cat <<'HEAD'
/* Made by tools/embed.sh from templates/; not to be edited. */
#include "gen/templates.h"

#include <stddef.h>

const struct template_file template_files[] = {
HEAD
for file; do
    name=${file#*templates/}
    digest=$(sha256sum < "$file")
    printf '    {"%s",\n     "%s",\n' "${name%.hip}" "${digest%% *}"
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/     "&\\n"/' "$file"
    printf '    },\n'
done
printf '    {NULL, NULL, NULL},\n};\n'

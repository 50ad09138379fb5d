#!/bin/sh
# SPDX-License-Identifier: MIT
# Prints C that holds files as string literals, one a line, for what is built into the library and
# the command.
# embed.sh FILE…        a C file of the kernel templates, named by their paths below templates/
#                       without the ending (.hip or .cu), and the SHA-256 of each
# embed.sh --text FILE… a header with each file as an array of characters: a.html is a_html
set -eu

literals() {
    sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/.*/     "&\\n"/' "$1"
}

if [ "$1" = --text ]; then
    shift
    echo '/* Made by tools/embed.sh; not to be edited. */'
    for file; do
        printf 'static const char %s[] =\n' "$(basename "$file" | tr -c 'a-z0-9\n' _)"
        literals "$file"
        echo '    ;'
    done
    exit
fi

cat <<'HEAD'
/* Made by tools/embed.sh from templates/; not to be edited. */
#include "gen/templates.h"

#include <stddef.h>

const struct template_file template_files[] = {
HEAD
for file; do
    name=${file#*templates/}
    name=${name%.hip}
    digest=$(sha256sum < "$file")
    printf '    {"%s",\n     "%s",\n' "${name%.cu}" "${digest%% *}"
    literals "$file"
    printf '    },\n'
done
printf '    {NULL, NULL, NULL},\n};\n'

#!/bin/sh
# SPDX-License-Identifier: MIT
# Proves which room may include which: prints every #include that breaks the rule, and fails.
# A room is a folder of src, with all that is below it. It has itself, base and <quern/…>; tools and
# examples have <quern/…> and their own files, tools by their folder; examples share gpu.h,
# fail.h and safetensors.h.
cd "$(dirname "$0")/.." || exit 1
grep -HnE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]' \
    $(find include src tools examples -name '*.[ch]') |
    awk -F: -v tools=" $(cd tools && echo */) " '
BEGIN {
    rooms = "base target problem object plan gen compile cpu store sim lint device quant dispatch"
    may["base"] = may["target"] = may["problem"] = " "
    may["object"] = may["compile"] = " target "
    may["plan"] = " target problem "
    may["cpu"] = " compile "
    may["gen"] = " target problem plan "
    may["store"] = may["sim"] = " object target "
    may["device"] = may["lint"] = " object target sim "
    may["quant"] = " problem "
    may["dispatch"] = " " rooms " "
}
{
    split($1, path, "/"); split($3, part, /["<>]/)
    folder = part[2]; sub(/\/.*/, "", folder)
    if (folder == "quern" || (folder == part[2] && $3 ~ /</)) next   # public, or a system header
    if (path[1] == "examples" && part[2] ~ /^\.\.\/(gpu|fail|safetensors)\.h$/) ok = 1
    else if (folder == part[2]) ok = path[1] != "include"     # "file.h" beside the includer
    else if (path[1] == "tools" && index(tools, " " folder "/ ")) ok = $3 !~ /</
    else if (!index(" " rooms " ", " " folder " ")) ok = $3 ~ /</ && path[1] != "include" # <sys/…>
    else ok = path[1] == "src" && (folder == "base" || folder == path[2] ||
                                   index(may[path[2]], " " folder " "))
    if (!ok) { print $1 ":" $2 ": may not include " part[2]; bad = 1 }
}
END { exit bad }'

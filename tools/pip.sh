#!/bin/sh
# SPDX-License-Identifier: MIT
# Runs pip: the machine's, or the one that setup.sh put into build/deps/python. Usage: pip.sh ARGS…
set -eu
deps=$(cd "$(dirname "$0")/.." && pwd)/build/deps
if [ -z "${PIP_CERT:-}" ] && [ -e "$deps/ca.pem" ] &&
    [ ! -e /etc/ssl/certs/ca-certificates.crt ]; then
    export PIP_CERT="$deps/ca.pem"
fi
if [ -d "$deps/python" ]; then
    export PYTHONPATH="$deps/python${PYTHONPATH:+:$PYTHONPATH}"
fi
python3 -c 'import pip' 2>/dev/null || {
    echo "pip.sh: $(command -v python3) has no pip: sh tools/setup.sh pip brings it" >&2
    exit 1
}
exec python3 -m pip --disable-pip-version-check "$@"

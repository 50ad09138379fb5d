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
exec python3 -m pip --disable-pip-version-check "$@"

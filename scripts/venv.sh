#!/bin/sh
# Keeps the Python environment .venv:  venv.sh test|notebook
# Installs scripts/requirements-WHAT.txt when it has changed since the last time.
set -eu
cd "$(dirname "$0")/.."
what=$1
list=scripts/requirements-$what.txt
stamp=.venv/.installed-$what
[ -f "$stamp" ] && cmp -s "$list" "$stamp" && exit 0
[ -x .venv/bin/python ] || python3 -m venv .venv
.venv/bin/python -m pip install --quiet --disable-pip-version-check -r "$list"
cp "$list" "$stamp"

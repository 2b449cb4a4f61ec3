#!/bin/sh
# Installs the kernel into .venv and opens the tour in JupyterLab; without a display it prints the address.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
export PATH
build/release/relay kernel install --prefix .venv
[ -n "${DISPLAY:-}${WAYLAND_DISPLAY:-}" ] || set -- "$@" --no-browser
[ "$(id -u)" -ne 0 ] || set -- "$@" --allow-root
exec jupyter lab --ServerApp.root_dir="$PWD" --LabApp.default_url=/lab/tree/examples/tour.ipynb \
    ${JUPYTER_OPTIONS:-} "$@"

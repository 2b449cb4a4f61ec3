#!/bin/sh
# Installs the kernel into .venv and opens the tour in JupyterLab.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH
export PATH
build/release/relay kernel install --prefix .venv
exec jupyter lab ${JUPYTER_OPTIONS:-} examples/tour.ipynb

#!/bin/sh
# Configures (once) and builds one of the presets:  build.sh PRESET
set -eu
cd "$(dirname "$0")/.."
preset=$1
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" ${RELAY_WERROR:+-DRELAY_WERROR=$RELAY_WERROR}
exec cmake --build "build/$preset"

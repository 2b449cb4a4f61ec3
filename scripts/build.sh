#!/bin/sh
# Configures (once) and builds one of the presets, all of it or the targets named:
#     build.sh PRESET [TARGET…]
set -eu
cd "$(dirname "$0")/.."
preset=$1
shift
[ -f "build/$preset/build.ninja" ] || cmake --preset "$preset" ${RELAY_WERROR:+-DRELAY_WERROR=$RELAY_WERROR}
exec cmake --build "build/$preset" ${*:+--target "$@"}

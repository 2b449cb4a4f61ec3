#!/bin/sh
# Builds with GCC (release, then sanitizers) and with Clang (for its warnings), and runs the tests of
# the first two as one: all of the release build, all but the slow ones under the sanitizers.
set -eu
cd "$(dirname "$0")/.."
for preset in release asan clang; do
    echo "== build: $preset"
    sh scripts/build.sh "$preset"
done
echo "== build: count"
sh scripts/build.sh count relay
mkdir -p build/test
echo 'subdirs("../release" "../asan")' > build/test/CTestTestfile.cmake
echo "== tests"
exec ctest --test-dir build/test --output-on-failure -j "$(nproc 2>/dev/null || echo 2)"

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
if ctest --test-dir build/test --output-on-failure -j "$(nproc 2>/dev/null || echo 2)"; then
    exit 0
fi
# A log that is cut keeps its end.
echo "== the last lines of what failed"
cd build/test/Testing/Temporary
awk 'FNR == 1 { file++ }
    file == 1 { sub(/^[0-9]+:/, ""); failed[$0] = 1; next }
    sub(/^[0-9]+\/[0-9]+ Test: /, "") { name = $0; n = 0; next }
    /^<end of output>$/ && name in failed {
        print "-- " name
        for (i = n > 60 ? n - 59 : 1; i <= n; i++) print lines[i]
    }
    { lines[++n] = $0 }' LastTestsFailed.log LastTest.log
exit 1

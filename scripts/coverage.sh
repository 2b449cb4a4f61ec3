#!/bin/sh
# Which lines the tests run:
#     scripts/coverage.sh [REGEX]      of the tests whose names match (all)
# Prints the share of each layer, and the diagnostics that no test reports; lines and branches are in build/coverage/report/index.html.
set -eu
cd "$(dirname "$0")/.."
sh scripts/venv.sh test
sh scripts/venv.sh coverage
sh scripts/build.sh coverage
find build/coverage -name '*.gcda' -delete
# A process that is killed while it writes its counts leaves a broken file, and with it all counts of runs before are lost: tests that
# kill are left out.
ctest --test-dir build/coverage -R "${1:-.}" -E "killed_test|lifecycle_test" -j "$(nproc 2>/dev/null || echo 2)" --timeout 1200 || echo "some tests fail: what they would have run may be missing"
mkdir -p build/coverage/report
.venv/bin/gcovr --root . --filter '[a-z]+/' --exclude 'tests/' --exclude 'build/' --exclude-directories '.*CompilerIdC.*' \
    --gcov-ignore-parse-errors=all --gcov-ignore-errors=source_not_found \
    --json build/coverage/report/lines.json --html-details build/coverage/report/index.html build/coverage
exec sh tests/python scripts/coverage.py build/coverage/report/lines.json

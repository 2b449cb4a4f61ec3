#!/bin/sh
# Which lines the tests run:
#     scripts/coverage.sh [REGEX]      of the tests whose names match (all)
# Prints the share of each layer, and the diagnostics that no test reports; lines and branches are in build/coverage/report/index.html.
# Tests of other builds and of the text are left out. The counters of each program lie in a file that all its processes map (Clang's
# continuous mode), so killed ones are counted too.
set -eu
cd "$(dirname "$0")/.."
sh scripts/venv.sh test
sh scripts/build.sh coverage
cd build/coverage
rm -rf counts report
mkdir -p counts report
ctest -E '^(lint|fuzz|growth)/' -R "${1:-.}" -j "$(nproc 2>/dev/null || echo 2)" || echo "some tests fail: what they would have run may be missing"
llvm-profdata-19 merge --failure-mode=any counts/*.profraw -o report/all.profdata
programs=$(find . -maxdepth 1 -type f -perm -u+x -exec sh -c 'for f; do grep -q __llvm_covmap "$f" && echo "-object $f"; done' sh {} +)
# shellcheck disable=SC2086 # one word each
llvm-cov-19 export -format=lcov -instr-profile report/all.profdata $programs > report/lines.info
# shellcheck disable=SC2086
llvm-cov-19 show -format=html -output-dir report -ignore-filename-regex '(^|/)tests/' -instr-profile report/all.profdata $programs > /dev/null
cd ../..
exec sh tests/python scripts/coverage.py build/coverage/report/lines.info

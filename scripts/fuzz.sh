#!/bin/sh
# Builds the fuzzers with Clang and the sanitizers and runs each from the programs of the corpus:
#     scripts/fuzz.sh [SECONDS [NAME…]]      seconds for each (20), names as in tests/fuzz (all)
# What breaks stays in build/fuzz/found; the inputs that reach something new stay in build/fuzz/corpus.
set -eu
cd "$(dirname "$0")/.."
seconds=${1:-20}
[ $# -gt 0 ] && shift
probe=$(mktemp -d)
trap 'rm -rf "$probe"' EXIT
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n); int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }' > "$probe/a.c"
if ! clang-19 -fsanitize=fuzzer,address "$probe/a.c" -o "$probe/a" 2> "$probe/why"; then
    echo "skipped: clang-19 with libFuzzer is not installed: $(head -1 "$probe/why")"
    exit 77
fi
sh scripts/build.sh fuzz
names=${*:-$(ls tests/fuzz | sed -n 's/_fuzz\.c$//p')}
{
    sed -n 's/^\(KEYWORD\|PUNCT\|INFIX\)[^"]*"\([^"]*\)".*/"\2"/p' parser/tokens.def
    sed -n 's/^### \([A-Za-z0-9_.]*\)$/"\1"/p' docs/operators.md
    printf '"%s"\n' Tensor True False None inff nanf int32 float32 bool bfloat16 %%0 @main '=>' '->' meta
} | sort -u > build/fuzz/words.dict
mkdir -p build/fuzz/found
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0
for name in $names; do
    echo "== $name, $seconds seconds"
    mkdir -p "build/fuzz/corpus/$name"
    nice "build/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout=60 -rss_limit_mb=3000 \
        -max_len=4096 -dict=build/fuzz/words.dict -artifact_prefix="build/fuzz/found/$name-" \
        -verbosity=0 -print_final_stats=1 "build/fuzz/corpus/$name" tests/conformance/cases/*
done

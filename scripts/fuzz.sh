#!/bin/sh
# Builds the fuzzers with Clang and the sanitizers and runs each from the programs of the corpus:
#     scripts/fuzz.sh [SECONDS [NAME…]]      seconds for each (20), names as in tests/fuzz (all)
#     scripts/fuzz.sh --test SECONDS NAME…   the same 2500 inputs at each call, and nothing is kept
# What breaks stays in build/fuzz/found; the inputs that reach something new stay in build/fuzz/corpus.
set -eu
cd "$(dirname "$0")/.."
seed=0
runs=-1
patience=60
run=nice
corpus=$PWD/build/fuzz/corpus
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
if [ "${1:-}" = --test ]; then
    seed=1
    runs=2500
    patience=300 # beside other tests, on a machine that may stand still
    run=env
    corpus=$work
    shift
fi
seconds=${1:-20}
[ $# -gt 0 ] && shift
names=${*:-$(ls tests/fuzz | sed -n 's/_fuzz\.c$//p' | tr '\n' ' ')}
echo 'int LLVMFuzzerTestOneInput(const char *d, unsigned long n); int LLVMFuzzerTestOneInput(const char *d, unsigned long n) { return !d && n; }' > "$work/a.c"
if ! clang-19 -fsanitize=fuzzer,address "$work/a.c" -o "$work/a" 2> "$work/why"; then
    echo "skipped: clang-19 with libFuzzer (libclang-rt-19-dev) is not installed: $(head -1 "$work/why")"
    exit 77
fi
# shellcheck disable=SC2046
sh scripts/build.sh fuzz $(for name in $names; do echo "${name}_fuzz"; done)

# Saved graphs of the corpus' programs, which a relay makes that is there.
relay=${RELAY:-build/release/relay}
mkdir -p "$work/graphs" build/fuzz/found
case " $names " in *" json "*)
    for file in tests/conformance/cases/*/*.rly; do
        graph=$work/graphs/$(echo "${file#tests/conformance/cases/}" | tr / _).json
        "$relay" fmt --to json "$file" 2> /dev/null | tr -d ' \n' > "$graph"
    done ;;
esac
# Arrays in both formats.
case " $names " in *" params "*)
    mkdir -p "$work/arrays"
    for ending in params npz; do
        echo '(1f, cast(2, dtype="int8"), ones(shape=[2, 3], dtype="float64"), True)' |
            "$relay" run - --out "$work/arrays/a.$ending"
    done ;;
esac
# Models: small ones that the tests write.
case " $names " in *" onnx "*)
    mkdir -p "$work/models"
    sh tests/python tests/fuzz/onnx_seeds.py "$work/models" 2000 || true ;;
esac
# Programs behind two bytes that choose passes.
case " $names " in *" pass "*)
    mkdir -p "$work/programs"
    i=0
    for file in tests/conformance/cases/*/*.rly; do
        i=$((i + 1))
        { printf "\\$(printf %03o $((i % 128)))\\$(printf %03o $((i * 7 % 128)))"; cat "$file"; } > "$work/programs/$i"
    done ;;
esac
# Cells: what the tests of sessions enter, some at a time.
case " $names " in *" session "*)
    mkdir -p "$work/cells"
    for file in tests/eval/*.rly tests/repl/*.txt; do
        case $file in
        *.txt) sed -n 's/^relay> /\n/p; s/^  \.\.\.> //p' "$file" ;;
        *) cat "$file" ;;
        esac | awk -v RS= -v to="$work/cells/$(basename "$file")" '{ printf "%s\n\n", $0 > (to int((NR - 1) / 5)) }'
    done ;;
esac
{
    sed -n 's/^\(KEYWORD\|PUNCT\|INFIX\)[^"]*"\([^"]*\)".*/"\2"/p' parser/tokens.def
    sed -n 's/^### \([A-Za-z0-9_.]*\)$/"\1"/p' docs/operators.md
    sed -n 's/^GRAPH_[A-Z]*([A-Z_]*, "\([A-Za-z.]\+\)".*/"\1"/p' ir/json_kinds.def
    sed -n 's/^COMMAND("\([a-z]*\)".*/":\1 "/p' session/commands.def
    printf '"%s"\n' Tensor True False None inff nanf int32 float32 bool bfloat16 %%0 @main '=>' '->' meta
} | sort -u > "$work/words.dict"
export ASAN_OPTIONS=allocator_may_return_null=1:detect_leaks=0
for name in $names; do
    echo "== $name, $seconds seconds"
    seeds=tests/conformance/cases
    [ "$name" = json ] && seeds=$work/graphs
    [ "$name" = params ] && seeds=$work/arrays
    [ "$name" = onnx ] && seeds=$work/models
    [ "$name" = pass ] && seeds=$work/programs
    [ "$name" = session ] && seeds=$work/cells
    mkdir -p "$corpus/$name"
    $run "build/fuzz/${name}_fuzz" -max_total_time="$seconds" -timeout="$patience" -rss_limit_mb=3000 \
        -error_exitcode=1 \
        -seed="$seed" -runs="$runs" -max_len=8192 -dict="$work/words.dict" \
        -artifact_prefix="$PWD/build/fuzz/found/$name-" -verbosity=0 -print_final_stats=1 \
        "$corpus/$name" "$seeds"
done

#!/bin/sh
# On a machine with an NVIDIA card: builds, runs the tests of values on the card instead of the stand-in, and measures the benchmark beside
# PyTorch, eager and compiled, where it is installed (float32 without TF32 on both sides).
#     run.sh [build|values|bandwidth|tiles|bench [WORKLOAD…]|networks [NETWORK[:step]…]]…
# Without a word it does all of them. Each part ends within LIMIT seconds (default 540), says what it left then, and can be run by itself.
# What was found is in build/gpu: card.txt, values.txt with a line for each test, and results.json with a line for each result and table.txt,
# to both of which each part adds: how much of the card's bandwidth elements and reductions reach, products of each kind beside cuBLAS, the
# workloads, batches of 32 and steps of training. Without a card it says so and ends with 77; with the
# stand-in for the driver, which checks every address, the values of all operators and models:
#     LD_LIBRARY_PATH=build/release/standin LIMIT=7200 sh tests/gpu/run.sh values
set -eu
cd "$(dirname "$0")/../.."
out=build/gpu
limit=${LIMIT:-540}
relay=$PWD/build/release/relay
export RELAY="$relay" RELAY_SOURCE="$PWD" RELAY_CACHE=off NO_COLOR=1
mkdir -p "$out"
begun=$(date +%s)
failed=0

if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' &&
    ! ls $(echo "${LD_LIBRARY_PATH:-}" | tr ':' '\n' | sed 's|$|/libcuda.so.1|') >/dev/null 2>&1; then
    echo "skipped: there is no driver (libcuda.so.1) on this machine"
    exit 77
fi
python=python3
[ -x .venv/bin/python ] && python=.venv/bin/python
# What measures beside PyTorch runs where that is installed.
with=python3
python3 -c 'import numpy' 2>/dev/null || with=$python

left() {
    echo $((limit - $(date +%s) + begun))
}

# Runs a test for as long as there is time, and notes how it ended.
note() {
    name=$1
    shift
    if [ "$(left)" -le 0 ]; then
        echo "left  $name" >>"$out/values.txt"
        return
    fi
    if timeout "$(left)" "$@" >"$out/last.txt" 2>&1; then
        echo "ok    $name" >>"$out/values.txt"
    else
        echo "WRONG $name: $(grep -m1 -i 'error\|differ\|wrong\|fail' "$out/last.txt" || tail -n1 "$out/last.txt")" | tee -a "$out/values.txt"
        failed=$((failed + 1))
    fi
}

part_build() {
    sh scripts/build.sh release
}

has_card() {
    { nvidia-smi 2>/dev/null || true; "$relay" doctor; } >"$out/card.txt" 2>&1
    grep ' GPU ' "$out/card.txt" || true
    if ! grep -q '^ok.* GPU ' "$out/card.txt"; then
        echo "skipped: nothing runs on a card here"
        exit 77
    fi
}

part_values() {
    begun=$(date +%s)
    : >"$out/values.txt"
    note shapes $python tests/gpu/shapes_test.py
    for file in tests/eval/*.rly; do
        note "$file" build/release/runner --engines gpu "$file"
    done
    note workloads $python tests/bench/answers.py --relay "$relay" --engine gpu --all --timeout "$limit"
    note numpy $python tests/ops/against_numpy.py --engine gpu
    echo "values: $(grep -c '^ok' "$out/values.txt" || true) right, $(grep -c '^WRONG' "$out/values.txt" || true) wrong," \
        "$(grep -c '^left' "$out/values.txt" || true) left for want of time"
}

# Adds what a part measures to the results and to the table.
measure() {
    : >"$out/part.json"
    timeout "$limit" "$@" --json "$out/part.json" >"$out/part.txt" || failed=$((failed + 1))
    cat "$out/part.json" >>"$out/results.json"
    cat "$out/part.txt" >>"$out/table.txt"
    cat "$out/part.txt"
}

part_bandwidth() {
    measure $python tests/gpu/bandwidth.py
}

part_tiles() {
    measure $with tests/gpu/products.py
}

part_bench() {
    peers=
    if $with -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
        peers=torch,torch-compile
    fi
    [ $# -gt 0 ] || set -- add_1m chain_1m sum_all_1m sum_rows_1m sum_cols_1m transpose_add_1m softmax_1024x1024 layer_norm_512x768 \
        gemm_1024 gemm_2048 conv3x3_64_64_56 conv_bn_relu_64_56 resnet18 mobilenet_v2 bert_base_block lstm_32x512 treelstm_64
    measure $with tests/bench/compare.py --device cuda --peers "$peers" --seconds 1 --rounds 2 \
        --limit 120 --ours "$relay bench {workload} --bench {bench} --threads {threads} --seconds {seconds} --exec gpu --json" "$@"
}

part_networks() {
    measure $with tests/gpu/networks.py "$@"
}

[ -x "$relay" ] || part_build
case ${1-} in
bench | networks)
    part=$1
    shift
    has_card
    "part_$part" "$@"
    ;;
'')
    part_build
    has_card
    : >"$out/results.json"
    : >"$out/table.txt"
    part_values
    part_bandwidth
    part_tiles
    part_bench
    part_networks
    ;;
*)
    for part in "$@"; do
        case $part in
        build) part_build ;;
        values | bandwidth | tiles | bench | networks)
            has_card
            "part_$part"
            ;;
        *)
            echo "run.sh: there is no part \`$part\`: build, values, bandwidth, tiles, bench, networks" >&2
            exit 2
            ;;
        esac
    done
    ;;
esac
[ "$failed" = 0 ]

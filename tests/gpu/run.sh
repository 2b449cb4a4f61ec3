#!/bin/sh
# On a machine with an NVIDIA card: builds, runs the tests of values on the card instead of the stand-in, and measures the benchmark beside
# PyTorch where it is installed (float32 without TF32 on both sides).
#     run.sh [WORKLOAD…]
# What was measured is in build/gpu: results.json, a line for each result, and table.txt. Without a card it says so and ends with 77.
set -eu
cd "$(dirname "$0")/../.."
out=build/gpu
relay=$PWD/build/release/relay
export RELAY="$relay" RELAY_SOURCE="$PWD" RELAY_CACHE=off NO_COLOR=1

if ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1' &&
    ! ls $(echo "${LD_LIBRARY_PATH:-}" | tr ':' '\n' | sed 's|$|/libcuda.so.1|') >/dev/null 2>&1; then
    echo "skipped: there is no driver (libcuda.so.1) on this machine"
    exit 77
fi
sh scripts/build.sh release
card=$("$relay" doctor | grep ' GPU ')
echo "$card"
case $card in
ok*) ;;
*)
    echo "skipped: nothing runs on a card here"
    exit 77
    ;;
esac

mkdir -p "$out"
failed=0
for file in tests/eval/*.rly; do
    build/release/runner --engines gpu "$file" || failed=$((failed + 1))
done
python=python3
if [ -x .venv/bin/python ]; then
    python=.venv/bin/python
    $python tests/ops/against_numpy.py --engine gpu || failed=$((failed + 1))
fi
$python tests/bench/answers.py --relay "$relay" --engine gpu --all || failed=$((failed + 1))
echo "$failed tests of values failed"

peers=
if python3 -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    peers=torch,torch-compile
fi
[ $# -gt 0 ] || set -- gemm_1024 gemm_2048 conv3x3_64_64_56 conv_bn_relu_64_56 add_1m chain_1m softmax_1024x1024 \
    layer_norm_512x768 sum_all_1m sum_rows_1m sum_cols_1m transpose_add_1m resnet18 mobilenet_v2 bert_base_block lstm_32x512 \
    treelstm_64
python3 tests/bench/compare.py --device cuda --peers "$peers" --json "$out/results.json" \
    --ours "$relay bench {workload} --bench {bench} --threads {threads} --seconds {seconds} --exec gpu --json" "$@" |
    tee "$out/table.txt" || failed=$((failed + 1))
[ "$failed" = 0 ]

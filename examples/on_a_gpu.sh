#!/usr/bin/env bash
# All that is measured on an NVIDIA GPU, the most important first, each with its log and its numbers in a folder:
#
#     examples/on_a_gpu.sh RESULTS
#
# About half an hour on an H200 (tests 6 minutes, pilot 7). What fails does not stop the rest. Needs jfstat with the extra
# test, for Weave's way of adding cupy, and for the kernels' sanitizer also compute-sanitizer.
set -u
results=$(mkdir -p "${1:?name a folder for the results}" && cd "$1" && pwd)
cd "$(dirname "$0")/.."

measure() { # name, command
    local name=$1
    shift
    "$@" >"$results/$name.log" 2>&1 && echo "$name: done" || echo "$name: failed, see $results/$name.log"
}

measure first_use python examples/first_use.py --output "$results/first_use.json"
measure tests env XLA_FLAGS= python -m pytest -o addopts= -q -m gpu tests
measure benchmark jfstat benchmark --output "$results/benchmark.json"
measure gpu_against_cpu python examples/paper/gpu_against_cpu.py --output "$results/gpu_against_cpu.json"
measure search_speed python examples/search_speed.py --only overhead --output "$results/search_speed.json"
measure transients python examples/transient_search_speed.py --output "$results/transient_search_speed.json"
measure one_hertz python examples/one_hertz_search.py --run --templates 2e6 --output "$results/one_hertz_search.json"
measure one_hertz_narrow python examples/one_hertz_search.py --run --width 0.25 --templates 2e6 --output "$results/one_hertz_search_narrow.json"
measure one_hertz_followed python examples/one_hertz_followed.py --run --weak 60 --output "$results/one_hertz_followed.json"
measure one_hertz_weave_cuda python examples/one_hertz_weave_cuda.py --beside "$results/one_hertz_search.json" --output "$results/one_hertz_weave_cuda.json"
measure devices python examples/search_speed.py --only devices --output "$results/search_devices.json"
measure pilot python examples/omega_centauri.py all --outdir "$results/pilot" --devices 0
for tool in memcheck racecheck; do
    measure "$tool" env PYTHONPATH=. compute-sanitizer --tool "$tool" python tests/sanitize_kernels.py
done

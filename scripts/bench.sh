#!/bin/sh
# Measures the engine against the block prototype and the Python peers; docs/benchmarks.md says how. Arguments go to the bench:
#
#   scripts/bench.sh [--quick] [--only a,b] [--dtype float32] [--device cpu,go] [--model DIR] [--prompts FILE] [--out FILE]
#
# HEADSCOPE_PEER_PYTHON names a python with torch and transformers, HEADSCOPE_PEER_DIR the folder of hf_profile.py and calib.py;
# without them the sections against Python say that they did not run.
set -eu

cd "$(dirname "$0")/.."
export GOEXPERIMENT="${GOEXPERIMENT-simd}"
go build -o bin/bench ./scripts/bench
exec bin/bench "$@"

#!/usr/bin/env bash
# bench.sh [flags of bench/compare.py...]: ropeway and llama-server side by side; CSV and table in
# bench/results/.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/setup.sh" build
server=$("$root/scripts/build_llama_server.sh")
model=$("$root/scripts/fetch_model.sh")
"$root/scripts/build.sh" release
cd "$root"
exec "$venv/bin/python" bench/compare.py --ropeway build/release/ropeway --llama-server "$server" \
  --load build/release/bench/bench_load --step-bench build/release/bench/step_bench \
  --model "$model" "$@"

#!/usr/bin/env bash
# bench.sh [flags of bench/compare.py...]: ropeway and llama-server side by side; CSV, table and plot
# in bench/results/.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/setup.sh" build
server=$("$root/scripts/build_llama_server.sh")
model=$("$root/scripts/fetch_model.sh")
"$root/scripts/build.sh" release
if ! "$venv/bin/python" -c 'import matplotlib' 2>/dev/null; then
  say "Installing what draws the plot into .venv"
  "$venv/bin/python" -m pip install --disable-pip-version-check -r "$root/bench/requirements.txt" >&2 ||
    say "No plot this time: pip install failed (see above)"
fi
cd "$root"
exec "$venv/bin/python" bench/compare.py --ropeway build/release/ropeway --llama-server "$server" \
  --step-bench build/release/bench/step_bench --model "$model" "$@"

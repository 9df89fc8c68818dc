#!/usr/bin/env bash
# bench.sh [http|engine|steps|models...] [flags of bench/run.py...]: ropeway beside its peers, llama-server, llama.cpp
# and OpenVINO GenAI; CSV, tables and plots in bench/results/.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$root/scripts/setup.sh" build
server=$("$root/scripts/build_llama_server.sh")
source=$("$root/scripts/fetch_llama_source.sh")
model=$("$root/scripts/fetch_model.sh")
q4_0_model=$("$root/scripts/requantize_model.sh")
"$root/scripts/build.sh" release

# .venv is shared with the tests, which may have put older packages into it.
stamp=$venv/.bench.sha256
sum=$(sha256sum <"$root/bench/requirements.txt")
peers=(--openvino)
if [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ] || ! "$venv/bin/python" -c 'import openvino_genai, matplotlib' 2>/dev/null; then
  say "Installing OpenVINO GenAI, a peer, and what draws the plots into .venv (200 MB)"
  if "$venv/bin/python" -m pip install --disable-pip-version-check -r "$root/bench/requirements.txt" >&2; then
    echo "$sum" >"$stamp"
  else
    say "No OpenVINO GenAI and perhaps no plots this time: pip install failed (see above)"
    peers=()
  fi
fi
cd "$root"
names=()
while [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; do
  names+=("$1")
  shift
done
[ ${#names[@]} -gt 0 ] || names=(http engine steps models)
code=0
for name in "${names[@]}"; do
  "$venv/bin/python" bench/run.py "$name" --ropeway build/release/ropeway --ropeway-bench build/release/ropeway-bench \
    --model "$model" --q4-0-model "$q4_0_model" --llama-server "$server" \
    --llama-batched-bench "$(dirname "$server")/llama-batched-bench" --llama-version "$(basename "$(dirname "$source")")" \
    "${peers[@]}" --rounds 3 --max-others 0.03 --out bench/results "$@" || code=1
done
exit $code

#!/usr/bin/env bash
# requantize_model.sh: prints the path of the default model in Q4_0, the format that llama-server is
# fastest with, made first from the default model by llama.cpp's own llama-quantize where it is
# missing or the default model's file is another one now.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

model=$("$root/scripts/fetch_model.sh")
quantize=$(dirname "$("$root/scripts/build_llama_server.sh")")/llama-quantize
result=$(dirname "$model")/$(basename "$model" .Q4_1.gguf).Q4_0.gguf
stamp=$(dirname "$result")/.$(basename "$result").made

identity() { stat -c '%n %s %i %.9Y' "$model" "$result"; }

if [ ! -f "$result" ] || [ "$(cat "$stamp" 2>/dev/null)" != "$(identity)" ]; then
  workspace "$(dirname "$result")"
  say "Quantising the default model again, to Q4_0"
  "$quantize" --allow-requantize "$model" "$work/model.gguf" Q4_0 "$(nproc)" >&2 ||
    die "llama-quantize failed (see above)"
  mv -f "$work/model.gguf" "$result"
  identity >"$stamp"
fi
echo "$result"

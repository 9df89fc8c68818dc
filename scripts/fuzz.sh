#!/usr/bin/env bash
# fuzz.sh [--seconds N] [--seed N] [TARGET...]: runs the fuzz targets (answer, anthropic, embeddings, gguf, http, json, llamacpp, ollama,
# responses, safetensors, schema, template, tokenizer, tokenizer_json, toml, wire; all of them unless named) under libFuzzer, AddressSanitizer and
# UBSan, N seconds each (30), as many at a time as there are cores. With a seed each run on an empty build/fuzz/corpus tries the
# same inputs, as far as it gets; without one they are new. What it learns is kept in build/fuzz/corpus. An input that breaks a target
# is kept in build/fuzz/found and printed; once it is mended, copy it to tests/data/fuzz/TARGET, which
# every ./test replays.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

all="answer anthropic embeddings gguf http json llamacpp ollama responses safetensors schema template tokenizer tokenizer_json toml wire"
seconds=30
seed=0
targets=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds)
      seconds=${2:?--seconds wants a number}
      shift
      ;;
    --seed)
      seed=${2:?--seed wants a number}
      shift
      ;;
    answer | anthropic | embeddings | gguf | http | json | llamacpp | ollama | responses | safetensors | schema | template | tokenizer | tokenizer_json | toml | wire) targets+=("$1") ;;
    *) die "usage: fuzz.sh [--seconds N] [--seed N] [${all// /|}...]" ;;
  esac
  shift
done
[[ $seconds =~ ^[1-9][0-9]*$ ]] || die "--seconds wants a whole number above 0, not '$seconds'"
[[ $seed =~ ^[0-9]+$ ]] || die "--seed wants a whole number, not '$seed'"
[ ${#targets[@]} -gt 0 ] || read -ra targets <<<"$all"

"$root/scripts/setup.sh" test
"$root/scripts/build.sh" fuzz --target fuzz_targets
build=$root/build/fuzz
found=$build/found
"$build/fuzz/make_gguf_corpus" "$build/fuzz/gguf"

# The kernels for AVX-512 are compiled without sanitizers (src/kernels/CMakeLists.txt).
if grep -qw avx512_vnni /proc/cpuinfo; then export ROPEWAY_ISA=avx2; fi
export ASAN_OPTIONS=halt_on_error=1:detect_leaks=1:allocator_may_return_null=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1

# fuzz_one TARGET: one target for its time. Its log goes to a file: targets run side by side.
fuzz_one() {
  local target=$1 corpus=$build/corpus/$1 log=$build/$1.log
  local seeds=("$root/tests/data/fuzz/$target") flags=()
  [ "$target" != gguf ] || seeds+=("$build/fuzz/gguf")
  [ ! -f "$root/fuzz/$target.dict" ] || flags+=("-dict=$root/fuzz/$target.dict")
  mkdir -p "$corpus" "$found"
  # The bounds: no input takes a minute (of a machine that does other things too), 2 GiB, or an
  # allocation of 512 MiB.
  if "$build/fuzz/fuzz_$target" "$corpus" "${seeds[@]}" "${flags[@]}" -max_total_time="$seconds" -seed="$seed" \
    -max_len=65536 -timeout=60 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1 \
    -artifact_prefix="$found/$target-" >"$log" 2>&1; then
    local runs
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    # A target that ran nothing has found nothing.
    [ "${runs:-0}" -gt 0 ] || return 1
    say "fuzz $target: nothing found in $runs runs"
  else
    grep -avE '^#[0-9]+[[:space:]]' "$log" | tail -n 60 | cut -c 1-200 >&2
    local input
    input=$(sed -n 's/^.*Test unit written to //p' "$log" | tail -n 1)
    say "fuzz $target: FOUND ${input:-an error before the first run (see $log)}"
    [ ! -f "$input" ] || head -c 1024 "$input" | base64 >&2
    return 1
  fi
}

status=0
running=0
for target in "${targets[@]}"; do
  if [ "$running" -ge "$(nproc)" ]; then
    wait -n || status=1
    running=$((running - 1))
  fi
  fuzz_one "$target" &
  running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
  wait -n || status=1
  running=$((running - 1))
done
[ "$status" = 0 ] || die "the inputs found are in $found"

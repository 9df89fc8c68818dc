#!/usr/bin/env bash
# cluster.sh up N [gateway|dynamo] | kill I | status | down: N replicas of the small model on this machine, behind a
# gateway or Dynamo's front, on port 8080 (PORT). `kill` is kill -9 of replica I.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

state=$root/build/cluster
port=${PORT:-8080}
ropeway=${ROPEWAY:-$root/build/release/ropeway}

# start NAME COMMAND...: in the background, with its log in $state.
start() {
  local name=$1
  shift
  setsid "$@" >"$state/$name.log" 2>&1 </dev/null &
  echo $! >"$state/$name.pid"
}

# answers URL: within two minutes.
answers() {
  for _ in $(seq 240); do
    if curl -sf "$1" | grep -q "${2:-.}"; then return; fi
    sleep 0.5
  done
  die "nothing answers at $1: see $state/*.log"
}

up() {
  local count=$1 kind=$2 model backends=() i
  [[ $count =~ ^[1-9][0-9]?$ ]] || die "up: expected a number of replicas, 1 to 99, not '$count'"
  [ ! -d "$state" ] || die "a cluster is up: scripts/cluster.sh down"
  model=$("$root/scripts/fetch_model.sh")
  mkdir -p "$state"
  if [ "$kind" = dynamo ]; then
    up_dynamo "$count" "$model"
  else
    [ -x "$ropeway" ] || die "there is no $ropeway: ./run builds it"
    for i in $(seq "$count"); do
      start "replica$i" "$ropeway" serve --model "$model" --port $((port + i)) --threads 1 --kv-cache-size 256MiB
      backends+=(--backend "http://127.0.0.1:$((port + i)),kind=ropeway")
    done
    start front "$ropeway" gateway --port "$port" "${backends[@]}"
    answers "http://127.0.0.1:$port/readyz"
  fi
  say "$count replicas behind http://127.0.0.1:$port; logs in $state"
}

up_dynamo() {
  local count=$1 model=$2 python package i
  package=$(dirname "$(find "$root/build" -path '*/python/ropeway/_ropeway*.so' -print -quit)")
  [ -e "$package/_ropeway.pyi" ] || die "the Python package is not built: ./test, or cmake --build build/dev --target _ropeway"
  python=$("$root/scripts/dynamo_venv.sh")
  "$root/scripts/venv.sh" test
  "$venv/bin/python" "$root/scripts/make_tokenizer_folder.py" "$model" "$state/tokenizer"
  mkdir "$state/store"
  export DYN_FILE_KV=$state/store PYTHONPATH=${package%/ropeway} DYN_LOG=warn DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS=5
  start front "$python" -m dynamo.frontend --http-host 127.0.0.1 --http-port "$port" --discovery-backend file \
    --router-mode kv --migration-limit 3
  for i in $(seq "$count"); do
    DYN_SYSTEM_PORT=$((port + i)) start "replica$i" "$python" -m ropeway.dynamo --model "$model" --tokenizer "$state/tokenizer" \
      --served-model-name smollm2 --discovery-backend file --threads 1 --kv-cache-size 256MiB
  done
  answers "http://127.0.0.1:$port/v1/models" smollm2
}

case ${1:-} in
  up) up "${2:?usage: cluster.sh up N [gateway|dynamo]}" "${3:-gateway}" ;;
  kill)
    kill -9 "$(cat "$state/replica${2:?usage: cluster.sh kill I}.pid" 2>/dev/null)" || die "there is no replica $2"
    ;;
  status)
    for file in "$state"/*.pid; do
      [ -e "$file" ] || die "no cluster is up"
      if kill -0 "$(cat "$file")" 2>/dev/null; then alive=runs; else alive=gone; fi
      printf '%-10s %s\n' "$(basename "$file" .pid)" "$alive"
    done
    ;;
  down)
    for file in "$state"/*.pid; do
      [ ! -e "$file" ] || kill "$(cat "$file")" 2>/dev/null || true
    done
    rm -rf "$state"
    ;;
  *) die "usage: cluster.sh up N [gateway|dynamo] | kill I | status | down" ;;
esac

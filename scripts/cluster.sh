#!/usr/bin/env bash
# cluster.sh up N [gateway|dynamo] | kill I | status | down: N replicas of the small model on this machine, behind a
# gateway or Dynamo's front, on port 8080 (PORT). `kill` is kill -9 of replica I.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

state=$root/build/cluster
port=${PORT:-8080}
ropeway=${ROPEWAY:-$root/build/release/ropeway}

# start NAME COMMAND...: in the background, in a group of its own, with its log in $state.
start() {
  local name=$1
  shift
  setsid "$@" >"$state/$name.log" 2>&1 </dev/null &
  printf '%s\n' "$@" >"$state/$name.words"
  echo $! >"$state/$name.pid"
  # Until then it is a bash, or setsid.
  for _ in $(seq 50); do
    if runs "$name"; then return; fi
    sleep 0.02
  done
}

# runs NAME: is its process alive, and still ours? The system gives the number of an ended one to others. One that has
# ended and was not waited for has no words.
runs() {
  local pid
  pid=$(cat "$state/$1.pid" 2>/dev/null) && { tr '\0' '\n' <"/proc/$pid/cmdline" | cmp -s - "$state/$1.words"; } 2>/dev/null
}

# stop NAME SIGNAL: to all of its group.
stop() {
  if runs "$1"; then kill -s "$2" -- "-$(cat "$state/$1.pid")" 2>/dev/null || true; fi
}

# names: of all that was started.
names() {
  local file
  for file in "$state"/*.pid; do
    if [ -e "$file" ]; then basename "$file" .pid; fi
  done
}

# answers NAME URL [TEXT]: within two minutes, unless NAME ends.
answers() {
  local answered=""
  for _ in $(seq 240); do
    # Not grep -q: curl would fail at the pipe that it leaves.
    if curl -sf --max-time 5 "$2" | grep "${3:-.}" >/dev/null; then answered=1; fi
    # Looked at behind the answer: it may be that of a stranger who had the port.
    runs "$1" || die "$1 has ended: see $state/$1.log, and scripts/cluster.sh down"
    if [ -n "$answered" ]; then return; fi
    sleep 0.5
  done
  die "nothing answers at $2: see $state/*.log, and scripts/cluster.sh down"
}

up() {
  local count=$1 kind=$2 model package python backends=() i
  [[ $count =~ ^[1-9][0-9]?$ ]] || die "up: expected a number of replicas, 1 to 99, not '$count'"
  [[ $kind =~ ^(gateway|dynamo)$ ]] || die "up: expected gateway or dynamo, not '$kind'"
  [ ! -d "$state" ] || die "a cluster is up: scripts/cluster.sh down"
  # All that may be missing is asked for before there is anything to take down.
  if [ "$kind" = dynamo ]; then
    package=$(python_package)
    python=$("$root/scripts/dynamo_venv.sh")
    "$root/scripts/venv.sh" test
  else
    [ -x "$ropeway" ] || die "there is no $ropeway: ./run builds it"
  fi
  model=$("$root/scripts/fetch_model.sh")
  mkdir -p "$state"
  if [ "$kind" = dynamo ]; then
    up_dynamo "$count" "$model" "$package" "$python"
  else
    for i in $(seq "$count"); do
      start "replica$i" "$ropeway" serve --model "$model" --served-model-name smollm2 --port $((port + i)) --threads 1 --kv-cache-size 256MiB
      backends+=(--backend "http://127.0.0.1:$((port + i)),kind=ropeway")
    done
    for i in $(seq "$count"); do answers "replica$i" "http://127.0.0.1:$((port + i))/readyz"; done
    start front "$ropeway" gateway --port "$port" "${backends[@]}"
    answers front "http://127.0.0.1:$port/readyz"
  fi
  say "$count replicas behind http://127.0.0.1:$port; logs in $state"
}

# python_package: prints the folder that holds the package ropeway.
python_package() {
  local build
  # No other build's: those with sanitizers need more than a Python.
  for build in release dev; do
    if compgen -G "$root/build/$build/python/ropeway/_ropeway*.so" >/dev/null; then
      echo "$root/build/$build/python"
      return
    fi
  done
  die "the Python package is not built: ./test, or cmake --build build/dev --target _ropeway"
}

up_dynamo() {
  local count=$1 model=$2 package=$3 python=$4 i
  "$venv/bin/python" "$root/scripts/make_tokenizer_folder.py" "$model" "$state/tokenizer"
  mkdir "$state/store"
  export DYN_FILE_KV=$state/store PYTHONPATH=$package DYN_LOG=warn DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS=5
  start front "$python" -m dynamo.frontend --http-host 127.0.0.1 --http-port "$port" --discovery-backend file \
    --router-mode kv --migration-limit 3
  for i in $(seq "$count"); do
    DYN_SYSTEM_PORT=$((port + i)) start "replica$i" "$python" -m ropeway.dynamo --model "$model" --tokenizer "$state/tokenizer" \
      --served-model-name smollm2 --discovery-backend file --threads 1 --kv-cache-size 256MiB
  done
  for i in $(seq "$count"); do answers "replica$i" "http://127.0.0.1:$((port + i))/health"; done
  answers front "http://127.0.0.1:$port/v1/models" smollm2
}

down() {
  local name
  for name in $(names); do stop "$name" TERM; done
  for _ in $(seq 100); do
    any_runs || break
    sleep 0.1
  done
  for name in $(names); do stop "$name" KILL; done
  # Ports and memory are free once they are gone: an `up` may follow at once.
  while any_runs; do sleep 0.1; done
  rm -rf "$state"
}

any_runs() {
  local name
  for name in $(names); do
    if runs "$name"; then return 0; fi
  done
  return 1
}

case ${1:-} in
  up) up "${2:?usage: cluster.sh up N [gateway|dynamo]}" "${3:-gateway}" ;;
  kill)
    [[ ${2:-} =~ ^[0-9]+$ ]] || die "usage: cluster.sh kill I"
    runs "replica$2" || die "there is no replica $2"
    stop "replica$2" KILL
    ;;
  status)
    [ -n "$(names)" ] || die "no cluster is up"
    for name in $(names); do
      if runs "$name"; then alive=runs; else alive=gone; fi
      printf '%-10s %s\n' "$name" "$alive"
    done
    ;;
  down) down ;;
  *) die "usage: cluster.sh up N [gateway|dynamo] | kill I | status | down" ;;
esac

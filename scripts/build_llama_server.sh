#!/usr/bin/env bash
# build_llama_server.sh: prints the path of llama-server, the peer of `make bench`, built first
# where it is missing (about 10 minutes on 2 cores, once): for this machine's CPU, optimised. Beside
# it lie llama-quantize, llama-batched-bench and llama-perplexity of the same build.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

source=$("$root/scripts/fetch_llama_source.sh")
model=$("$root/scripts/fetch_model.sh")
build=$cache/llama/build
server=$build/bin/llama-server
programs=(llama-server llama-quantize llama-batched-bench llama-perplexity)

# Does it load the model and answer? A build that was killed halfway does not.
works() {
  local program
  for program in "${programs[@]}"; do
    [ -x "$build/bin/$program" ] || return 1
  done
  "$venv/bin/python" - "$server" "$model" <<'PYTHON'
import socket, subprocess, sys, time, urllib.request
try:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = subprocess.Popen([sys.argv[1], "-m", sys.argv[2], "--port", str(port)],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
except OSError:
    sys.exit(1)
try:
    for _ in range(600):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1)
            sys.exit(0)
        except OSError:
            time.sleep(0.1)
        if server.poll() is not None:
            sys.exit(1)
    sys.exit(1)
finally:
    server.kill()
PYTHON
}

# build [compiler flags]
build_server() {
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DCMAKE_C_FLAGS="$*" -DCMAKE_CXX_FLAGS="$*" >&2 ||
    die "cmake failed for llama.cpp (see above)"
  ninja -C "$build" "${programs[@]}" >&2 || die "the build of llama-server failed (see above)"
}

if ! works; then
  say "Building llama-server and its tools once, about 10 minutes on 2 cores"
  build_server
fi
# Some virtual machines show AMX and then fault on it.
if ! works; then
  say "It does not run on this machine: building it without AMX"
  build_server -mno-amx-tile -mno-amx-int8 -mno-amx-bf16
  works || die "llama-server does not run on this machine"
fi
echo "$server"

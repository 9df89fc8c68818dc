#!/usr/bin/env bash
# build_llama_server.sh: prints the path of llama-server, the peer of `make bench`, built first
# where it is missing (about 10 minutes on 2 cores, once): for this machine's CPU, optimised.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

source=$("$root/scripts/fetch_llama_source.sh")
build=$cache/llama/build
server=$build/bin/llama-server

# Some virtual machines show AMX although the kernel grants no use of it: llama-server then dies of
# its first matrix. 158 is arch_prctl, 0x1023 asks for permission, 18 is AMX's tile data.
amx=
if ! "$venv/bin/python" -c \
  'import ctypes, sys; sys.exit(ctypes.CDLL(None).syscall(158, 0x1023, 18) != 0)'; then
  amx='-mno-amx-tile -mno-amx-int8 -mno-amx-bf16'
fi

# The program runs and says its version: a build that was killed halfway does neither.
if ! "$server" --version >/dev/null 2>&1; then
  say "Building llama-server once, about 10 minutes on 2 cores"
  cmake -S "$source" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=OFF \
    -DGGML_NATIVE=ON -DLLAMA_CURL=OFF -DLLAMA_OPENSSL=OFF -DLLAMA_BUILD_TESTS=OFF \
    -DLLAMA_BUILD_EXAMPLES=OFF -DCMAKE_C_FLAGS="$amx" -DCMAKE_CXX_FLAGS="$amx" >&2 || die "cmake failed for llama.cpp (see above)"
  ninja -C "$build" llama-server >&2 || die "the build of llama-server failed (see above)"
fi
echo "$server"

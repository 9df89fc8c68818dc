#!/usr/bin/env bash
# fetch_xgrammar.sh: prints the folder of xgrammar's source, as PyPI carries it, fetched first where
# it is missing. third_party/xgrammar/CMakeLists.txt calls it and builds a part of it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

package=xgrammar==0.2.8
folder=xgrammar-0.2.8
sum=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
parent=$cache/xgrammar

if [ ! -d "$parent/$folder/cpp" ]; then
  workspace "$parent"
  "$root/scripts/venv.sh" pip
  say "Downloading xgrammar's source (3 MB)"
  pip_download "$package" --no-binary xgrammar
  archive=$work/$folder.tar.gz
  check_sha256 "$archive" "$sum" || die "the downloaded archive has a wrong SHA-256 sum"
  tar -xzf "$archive" -C "$work" || die "could not unpack $folder.tar.gz"
  rm -rf "${parent:?}/$folder"
  mv "$work/$folder" "$parent/$folder"
fi
echo "$parent/$folder"

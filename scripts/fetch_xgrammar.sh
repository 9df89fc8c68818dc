#!/usr/bin/env bash
# fetch_xgrammar.sh: prints the folder of xgrammar's source, as PyPI carries it, fetched first where
# it is missing. third_party/xgrammar/CMakeLists.txt calls it and builds a part of it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

parent=$cache/xgrammar
folder=xgrammar-0.2.8
fetch_source "$parent" xgrammar==0.2.8 $folder \
  8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80 cpp \
  "Downloading xgrammar's source (3 MB)"
echo "$parent/$folder"

#!/bin/sh
# Fails if an object file compiled for one instruction set defines a symbol that the linker may
# choose over a copy compiled for every CPU (weak, unique or common), or defines none at all.
# usage: check_isa_symbols.sh OBJECT...
set -eu

[ $# -gt 0 ] || { echo "usage: $0 OBJECT..." >&2; exit 2; }
status=0
for object in "$@"; do
  symbols=$(nm --defined-only --demangle "$object")
  if ! printf '%s\n' "$symbols" | grep -q ' [DRB] ropeway::.*::k.*\(Kernels\|Peaks\)$'; then
    echo "$object: no table of kernels or of their limits in it" >&2
    status=1
  fi
  shared=$(printf '%s\n' "$symbols" | grep -E '^[0-9a-f]* *[WVuC] ' || true)
  if [ -n "$shared" ]; then
    printf '%s: symbols that other files may share:\n%s\n' "$object" "$shared" >&2
    status=1
  fi
done
exit $status

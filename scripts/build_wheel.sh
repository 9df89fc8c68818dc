#!/usr/bin/env bash
# build_wheel.sh [FOLDER]: makes the Python package's source archive, builds the wheel from that, and puts both into
# FOLDER (build/wheels). The wheel has the shared libraries inside that it needs.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$(realpath -m "${1:-$root/build/wheels}")
"$root/scripts/setup.sh" build
"$root/scripts/venv.sh" pip
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" -m venv "$work/venv"
say "Building the wheel"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes -r "$root/python/wheel-requirements.txt" >&2
"$work/venv/bin/python" -m build --outdir "$work/raw" "$root" >"$work/log" 2>&1 || {
  tail -50 "$work/log" >&2
  die "the wheel was not built (see above)"
}
mkdir -p "$out"
mv "$work"/raw/ropeway-*.tar.gz "$out"
PATH=$work/venv/bin:$PATH "$work/venv/bin/auditwheel" repair -w "$out" "$work"/raw/ropeway-*.whl >&2
ls "$out"/ropeway-*

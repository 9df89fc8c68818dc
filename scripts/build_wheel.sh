#!/usr/bin/env bash
# build_wheel.sh [FOLDER]: builds the Python wheel into FOLDER (build/wheels), with the shared
# libraries that it needs inside.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

out=$(realpath -m "${1:-$root/build/wheels}")
"$root/scripts/setup.sh" build
"$root/scripts/venv.sh" pip
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" -m venv "$work/venv"
say "Building the wheel"
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes -r "$root/python/wheel-requirements.txt" >&2
"$work/venv/bin/pip" wheel -q --disable-pip-version-check --no-deps -w "$work/raw" "$root" >&2
mkdir -p "$out"
PATH=$work/venv/bin:$PATH "$work/venv/bin/auditwheel" repair -w "$out" "$work"/raw/ropeway-*.whl >&2
ls "$out"/ropeway-*.whl

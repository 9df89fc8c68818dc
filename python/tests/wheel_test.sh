#!/usr/bin/env bash
# Builds the wheel as a stranger would, installs it into an environment of its own, and runs the package's tests on it.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

unset PYTHONPATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$root/scripts/build_wheel.sh" "$work/wheels" >&2
"$venv/bin/python" -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check "$work"/wheels/ropeway-*.whl pyzmq==27.3.0
[ "$("$work/venv/bin/ropeway" --version)" = "$("$work/venv/bin/python" -c 'import ropeway; print(ropeway.__version__)')" ] ||
  die "the program and the package have different versions"
cd "$work"
"$work/venv/bin/python" "$root/python/tests/engine_test.py"

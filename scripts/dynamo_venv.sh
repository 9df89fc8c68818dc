#!/usr/bin/env bash
# dynamo_venv.sh: makes an environment with NVIDIA Dynamo (python/dynamo-requirements.txt) in the cache, where it is
# missing, and prints its python. It takes some 370 MB.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

requirements=$root/python/dynamo-requirements.txt
sum=$(sha256sum <"$requirements")
folder=$cache/dynamo/venv-${sum:0:16}
if [ ! -f "$folder/.ready" ]; then
  "$root/scripts/setup.sh" build
  python=/usr/bin/python3
  [ -x "$python" ] || python=$(command -v python3) || die "no python3: run scripts/setup.sh first"
  say "Installing Dynamo into $folder"
  rm -rf "$folder"
  "$python" -m venv "$folder" >&2 || die "python3 -m venv failed (Debian: python3-venv)"
  "$folder/bin/pip" install -q --disable-pip-version-check --no-deps --require-hashes -r "$requirements" >&2 ||
    die "pip install failed (see above)"
  touch "$folder/.ready"
fi
echo "$folder/bin/python"

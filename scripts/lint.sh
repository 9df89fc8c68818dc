#!/usr/bin/env bash
# lint.sh: format, rooms, words in comments, shell, Python and its types, names of machines, coroutines, one
# definition of each name, clang-tidy.
# Needs `./test` (or scripts/setup.sh test) once before. Says all that is wrong, not only the first thing.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
cd "$root"

"$root/scripts/setup.sh" test
"$root/scripts/venv.sh" test
failed=()
# step NAME COMMAND...: one check; what it prints is shown, with its time.
step() {
  local name=$1 start=$SECONDS
  shift
  if "$@"; then
    say "$name: good ($((SECONDS - start)) s)"
  else
    say "$name: FAILED ($((SECONDS - start)) s)"
    failed+=("$name")
  fi
}

tracked() { git ls-files -z -- "$@"; }

format() { tracked '*.cc' '*.h' | xargs -0 -r clang-format --dry-run -Werror; }
layers() { "$venv/bin/python" scripts/check_layers.py; }
words() { "$venv/bin/python" scripts/check_words.py; }
shell() { { tracked '*.sh'; tracked run test .ci/run; } | xargs -0 shellcheck -x -P SCRIPTDIR; }
python() {
  tracked '*.py' | xargs -0 -r "$venv/bin/python" -c 'import ast, sys
for name in sys.argv[1:]:
    with open(name, encoding="utf-8") as source:
        ast.parse(source.read(), name)'
}
types() { "$venv/bin/python" -m mypy; }
# The brackets keep this file from matching itself.
paths() {
  ! git grep -nIE -e '/[w]ork/|/[r]oot/|/[h]ome/[a-z]|/[t]mp/[A-Za-z0-9]|[.]librar[y]' \
    -e 'pypi[.]org|pythonhosted[.]org|deb[.]debian[.]org|snapshot[.]debian[.]org' -- . ':!LICENSE'
}
# What GCC 12 destroys twice: see CONTRIBUTING.md, Coroutines.
awaits() { ! git grep -nE 'co_await [^;]*([{?]|\[[^]]*\] *[({])' -- '*.cc' '*.h'; }
# The rooms without templates of Boost: they are where a bug costs most, and tidy reads them in time. It
# reads the sources of a room together as the compiler does: a tenth of the time of file after file.
tidy() {
  local room
  cmake --preset dev >/dev/null || return 1
  for room in base core answer tokenizer grammar model sampling kvcache policy scheduler executor service engine; do
    find "build/dev/src/$room/CMakeFiles/ropeway_$room.dir/Unity" -name '*.cxx' -print0 || return 1
  done | timeout 1200 xargs -0 -n 1 -P "$(nproc)" clang-tidy-16 -p build/dev --quiet --warnings-as-errors='*' \
    --checks=-bugprone-suspicious-include --header-filter="$root/(src|include/ropeway)/" \
    --extra-arg=-Wno-unknown-warning-option 2> >(grep -vE '^[0-9]+ warnings? (generated|treated)' >&2)
}

step "clang-format" format
step "rooms" layers
step "words in comments" words
step "shellcheck" shell
step "python" python
step "types of the package" types
step "paths and hosts" paths
step "co_await" awaits
step "one definition" scripts/check_odr.sh
step "clang-tidy" tidy

[ ${#failed[@]} = 0 ] || die "failed: ${failed[*]}"

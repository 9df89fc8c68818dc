#!/usr/bin/env bash
# count_lines.sh [REVISION]: lines of tracked C++ and Python that are not tests, in src, include, sim,
# bench and scripts, by folder; of REVISION (HEAD).
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

revision=${1:-HEAD}
total=0
for folder in src include sim bench scripts; do
  lines=0
  while IFS= read -r file; do
    count=$(git -C "$root" show "$revision:$file" | wc -l)
    lines=$((lines + count))
  done < <(git -C "$root" ls-tree -r --name-only "$revision" -- "$root/$folder" |
    grep -E '\.(cc|h|py)$' | grep -vE '(^|/)test_[^/]*$|_test\.(cc|py)$')
  printf '%-8s %6d\n' "$folder" "$lines"
  total=$((total + lines))
done
printf '%-8s %6d\n' total "$total"

#!/usr/bin/env bash
# ctest.sh PRESET [ctest flags...]: runs the tests of build/PRESET, two at a time. Fails also for a
# skipped test that names no missing hardware, and for a process that the tests left behind.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:?usage: ctest.sh PRESET [ctest flags]}
shift
report=$root/build/$preset/junit.xml
rm -f "$report"
# The reason of a skip is in the test's output: keep it whole.
mark=ROPEWAY_TEST_RUN=$$.$EPOCHSECONDS
code=0
env "$mark" ctest --test-dir "$root/build/$preset" -j2 --output-on-failure --no-tests=error \
  --test-output-size-passed 65536 --output-junit "$report" "$@" </dev/null || code=$?
"$root/scripts/check_left_processes.py" "$mark" || code=1
[ "$code" = 0 ] || exit "$code"
# No report: the flags asked for no run (ctest -N, --help).
[ ! -f "$report" ] || "$root/scripts/check_skips.py" "$report"

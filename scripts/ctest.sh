#!/usr/bin/env bash
# ctest.sh PRESET [ctest flags...]: runs the tests of build/PRESET, two at a time, and refuses
# skipped ones that name no missing hardware.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:?usage: ctest.sh PRESET [ctest flags]}
shift
report=$root/build/$preset/junit.xml
rm -f "$report"
# The reason of a skip is in the test's output: keep it whole.
ctest --test-dir "$root/build/$preset" -j2 --output-on-failure --no-tests=error \
  --test-output-size-passed 65536 --output-junit "$report" "$@" </dev/null
# No report: the flags asked for no run (ctest -N, --help).
[ ! -f "$report" ] || "$root/scripts/check_skips.py" "$report"

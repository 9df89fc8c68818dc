#!/bin/sh
# expect_caught.sh SIM_MAIN PLANT CHECK [WORLD]: passes if the simulation catches
# PLANT as a violation of CHECK.
out=$("$1" --world "${4:-engine}" --plant "$2")
code=$?
printf '%s\n' "$out"
if [ "$code" -ne 1 ]; then
  echo "expected exit code 1, got $code"
  exit 1
fi
if ! printf '%s\n' "$out" | grep -q "violation of $3:"; then
  echo "expected a violation of $3"
  exit 1
fi

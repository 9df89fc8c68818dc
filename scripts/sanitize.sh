#!/usr/bin/env bash
# sanitize.sh asan|tsan [ctest flags...]: asan runs the unit tests of all rooms (not the laboratory's,
# which measure) and the simulation under AddressSanitizer and UBSan, tsan those of the rooms whose
# threads serve under ThreadSanitizer. What takes long and shows a sanitizer nothing that other tests
# do not is left to ./test. A test that fails without a report of the sanitizer has a second try, alone.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

preset=${1:-}
case $preset in
  asan) target=unit_tests labels='^(base|net|core|answer|tokenizer|grammar|kernels|gpu|model|sampling|kvcache|policy|scheduler|executor|store|service|engine|http|api|server|gateway|flags|loadgen|hub|cli|sim)$' ;;
  tsan) target=thread_tests labels='^(base|net|kvcache|executor|store|service|engine|http|server|gateway)$' ;;
  *) die "usage: sanitize.sh asan|tsan [ctest flags]" ;;
esac
shift

"$root/scripts/setup.sh" test
"$root/scripts/fetch_model.sh" >/dev/null

# Not detect_stack_use_after_return: GCC 12 aligns its fake frames to 32 bytes, and an AVX-512 store to
# a local array then faults (GCC bug 110027).
export ASAN_OPTIONS=halt_on_error=1:detect_stack_use_after_return=0:strict_string_checks=1
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export LSAN_OPTIONS=suppressions=$root/scripts/lsan.supp:print_suppressions=0
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:suppressions=$root/scripts/tsan.supp
without_aslr=()
if [ "$preset" = tsan ] && setarch "$(uname -m)" -R true 2>/dev/null; then
  # GCC 12's tsan knows no address spaces with more than 28 random bits, which newer kernels have.
  without_aslr=(setarch "$(uname -m)" -R)
fi
"${without_aslr[@]}" "$root/scripts/build.sh" "$preset" --target "$target"
# Parts of tests' names, with the CPU seconds that they took here.
skip=(
  # Each token of a vocabulary of 262,144 is tried: 90. That of 49,152 runs the same code.
  'GrammarTest.*/Large'
  # Whole engines over the real model, a minute and more each. Their parts have tests in the rooms.
  '^DeterminismEngine'
  # They compare numbers with others': 53. The same code runs in the tests of invariance; every
  # instruction set in the kernels' tests.
  AgreesWithTheOracle QuantisedExperts EveryInstructionSet SamplerDefinition SamplerWide
  # They wait for RocksDB, which no sanitizer instruments, to be opened hundreds of times: 47. Other
  # tests have a full disk once, and flip bits in all files, the format's too.
  ADiskThatIsFullFromAnyWriteOn ADamagedFormatIsRejected
  # 700 clients in virtual time, in one thread: 6, and 16 under tsan.
  SevenHundredObedientClients
)
if [ "$preset" = asan ]; then
  skip+=(
    # That the simulation's checks see planted faults: 78. The seeds run its code.
    '^sim_catches_'
    # They measure how memory or time grows: 52. The fuzzers run the same code under this sanitizer.
    MemoryIsBounded LooksAtLongTextsAreBounded 'Takes?LinearTime'
    # Long contexts once more: 41. LongContextsAreSplitTheSameWay/q8_0 is left.
    ALongContextIsScoredTheSameWay LongContextsAreSplitTheSameWay/f16
    # Large matrices of panels that other shapes have too: 28.
    EqualsReferenceBeyondOneBlockOfRows EqualsReferenceForLongRows
  )
else
  skip+=(
    # Most of it is one slow thread: 42. ALongContextIsScoredTheSameWay divides long contexts among threads.
    LongContextsAreSplitTheSameWay
    # Numbers again, on the same threads as NothingAroundASequenceChangesIt: 14.
    WhatNoRowSeesMayBeGone
    # These have one thread: 54.
    'EngineCore[A-Za-z]*Test' ModelCheckTest ModelVocabularyTest
    AnotherTenantsFloodRejectsNobodyElse
    # Damaged files, each in a tier of its own: 18. The other tests of tiers have their threads.
    DiskTierDamage
  )
fi
skipped=$(IFS='|' && printf '%s' "${skip[*]}")
tests() { "${without_aslr[@]}" "$root/scripts/ctest.sh" "$preset" -L "$labels" -E "$skipped" "$@"; }
log=$root/build/$preset/tests.log
failures=$root/build/$preset/Testing/Temporary/LastTestsFailed.log
rm -f "$failures"
if tests "$@" 2>&1 | tee "$log"; then exit 0; fi
# Everything is 5 to 20 times slower here, and two tests share two cores: what failed for its timing
# passes alone. What a sanitizer has said stands, and so does a skip without a reason.
if grep -E '(Address|Leak|Thread|UndefinedBehavior)Sanitizer|runtime error: ' "$log" >&2; then
  die "the sanitizer found something (see above)"
fi
[ -s "$failures" ] || die "the tests did not run to their end (see above)"
"$root/scripts/check_skips.py" "$root/build/$preset/junit.xml"
say "Failed without a word of the sanitizer; once more, one at a time: $(cut -d: -f2 "$failures" | paste -sd' ')"
tests --rerun-failed -j1

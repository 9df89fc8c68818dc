# Names for the scripts; each of them also runs without make (a bare Debian has none).
.PHONY: run test build bench lint asan tsan fuzz

run:   ; ./run
test:  ; ./test
build: ; scripts/setup.sh build && scripts/build.sh release --target ropeway
bench: ; scripts/bench.sh
lint:  ; scripts/lint.sh
asan:  ; scripts/sanitize.sh asan
tsan:  ; scripts/sanitize.sh tsan
fuzz:  ; scripts/fuzz.sh

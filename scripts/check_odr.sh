#!/usr/bin/env bash
# check_odr.sh: fails where two translation units define one name in different ways, which the
# linker would accept in silence. Compiles and links the programs with link-time information only
# for this check; first it proves itself on two files that do it.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

flags=(-std=c++20 -O0 -flto -Werror=odr)
workspace "$root/build/odr-proof"
cat >"$work/a.cc" <<'CPP'
#include <string>
struct Twice { int number; };
Twice First() { return {1}; }
CPP
cat >"$work/b.cc" <<'CPP'
#include <string>
struct Twice { std::string text; };
Twice Second() { return {"2"}; }
int main() { return Second().text.empty(); }
CPP
if ! (cd "$work" && g++ "${flags[@]}" -c a.cc b.cc); then die "the proof does not compile"; fi
if g++ "${flags[@]}" "$work/a.o" "$work/b.o" -o "$work/proof" 2>"$work/said"; then
  die "a name that is defined twice was not found: this compiler cannot check"
fi
grep -q 'One Definition Rule' "$work/said" || die "the proof failed for another reason: $(cat "$work/said")"

cd "$root"
cmake --preset dev -B build/odr -DROPEWAY_TESTS=OFF -DCMAKE_BUILD_TYPE=None \
  "-DCMAKE_AR=$(command -v gcc-ar)" "-DCMAKE_RANLIB=$(command -v gcc-ranlib)" \
  -DCMAKE_CXX_FLAGS="-O0 -flto -Werror=odr" >/dev/null || die "cmake failed (see above)"
cmake --build build/odr --parallel "$(nproc)" --target ropeway ropeway-bench >&2 ||
  die "a type or function is defined twice in different ways, or the build failed (see above)"
say "Each name is defined once"

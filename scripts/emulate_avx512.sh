#!/usr/bin/env bash
# emulate_avx512.sh [BUILD] [KERNEL]: runs the tests of the AVX-512 VNNI kernels that lie in BUILD (build/dev) where no
# machine has that instruction set. The emulator Bochs boots the Linux KERNEL (the newest in /boot) with nothing but those
# tests. Fails if a test fails, is skipped or is not there, or if the emulated CPU lacks AVX-512 VNNI. Installs nothing.
# Debian's Bochs has a debugger in it, which makes it slow; BOCHS=FILE names another one, such as one that was configured
# with --with-nogui --enable-avx --enable-evex --enable-handlers-chaining --enable-repeat-speedups.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

build=$(realpath -e "${1:-$root/build/dev}") || die "there is no build: ./test makes build/dev"
kernel=${2:-$(find /boot -maxdepth 1 -name 'vmlinuz-*' 2>/dev/null | sort -V | tail -n 1)}
bochs=${BOCHS:-bochs}
tests=(
  "src/kernels/kernels_test *avx512*:Dispatch.*"
  "tests/digest_test *avx512*"
  "tests/architectures_golden_test *"
  "src/executor/executor_test *EveryInstructionSet*"
  "src/sampling/sampling_test *EveryInstructionSet*"
  "tests/architectures_test *EveryInstructionSet*"
)

# need PACKAGE FILE: notes the package if the file (or the program of that name) is not there.
missing=()
need() { [ -s "$2" ] || have "$2" || missing+=("$1"); }
bios=/usr/share/bochs/BIOS-bochs-latest
vga=/usr/share/vgabios/vgabios.bin
isolinux=/usr/lib/ISOLINUX/isolinux.bin
ldlinux=/usr/lib/syslinux/modules/bios/ldlinux.c32
need bochs "$bochs"
[ -n "${BOCHS:-}" ] || need bochs-term "/usr/lib/$(uname -m)-linux-gnu/bochs/plugins/libbx_term_gui.so"
need bochsbios "$bios"
need vgabios "$vga"
need busybox-static /bin/busybox
need cpio cpio
need isolinux "$isolinux"
need syslinux-common "$ldlinux"
need xorriso xorriso
need linux-image-cloud-amd64 "${kernel:-vmlinuz}"
[ ${#missing[@]} -eq 0 ] || die "these Debian packages are missing (or name a kernel): ${missing[*]}"

workspace "$cache"
tree=$work/tree
mkdir -p "$tree"/{bin,dev,proc,sys,tmp} "$work/iso"
# add FILE...: into the guest, at the path that it has here. Tests know the paths of their data.
add() { (cd / && cpio -pdmuL --quiet "$tree") < <(printf "%s\n" "${@#/}"); }
setting() { sed -n "s/^$1:[A-Z]*=//p" "$build/CMakeCache.txt"; }
sources=$(setting CMAKE_HOME_DIRECTORY)
model=$(setting ROPEWAY_TEST_MODEL)
[ -s "$model" ] || die "$build was configured without the default model: ./test fetches it"
add "$sources"/tests/data/{architectures,digest}.txt "$sources"/tests/architectures/*.txt "$model"
cp /bin/busybox "$tree/bin/busybox"
{
  echo '#!/bin/busybox sh'
  echo '/bin/busybox --install -s /bin; mount -t proc p /proc; mount -t sysfs s /sys; mount -t devtmpfs d /dev'
  echo 'exec </dev/null >/dev/ttyS0 2>&1; cd /tmp'
  echo "export HOME=/tmp ROPEWAY_TEST_MODEL='$model'"
  echo 'grep -qw avx512_vnni /proc/cpuinfo && echo "GUEST has AVX-512 VNNI"'
} >"$tree/init"
for test in "${tests[@]}"; do
  program=$build/${test%% *}
  [ -x "$program" ] || die "there is no $program: build it"
  # shellcheck disable=SC2046
  add "$program" $(ldd "$program" | grep -o '/[^ ]*')
  echo "'$program' --gtest_color=no --gtest_filter='${test#* }'; echo \"GUEST ran ${test%% *}: \$?\"" >>"$tree/init"
done
echo 'poweroff -f' >>"$tree/init"
chmod +x "$tree/init"
(cd "$tree" && find . | cpio -o -H newc --quiet >"$work/iso/initrd")

# Bochs's CPU differs from what Linux believes of it: XSAVES does not pack (Linux would switch AVX off), and that it has no
# fast strings is said in one place and not in another (Linux 6.1's memmove would run beyond its end).
cat >"$work/iso/isolinux.cfg" <<EOF2
default linux
label linux
  kernel vmlinuz
  append initrd=initrd console=ttyS0,115200 loglevel=1 nokaslr mitigations=off clearcpuid=xsaves,xsavec,pku,fsrm
EOF2
cp "$kernel" "$work/iso/vmlinuz"
cp "$isolinux" "$ldlinux" "$work/iso/"
xorriso -as mkisofs -quiet -o "$work/guest.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
  -boot-info-table "$work/iso" 2>"$work/xorriso.log" || die "xorriso says: $(cat "$work/xorriso.log")"
cat >"$work/bochsrc" <<EOF2
display_library: $([ -n "${BOCHS:-}" ] && echo nogui || echo term)
cpu: model=tigerlake, count=1, ips=50000000
memory: guest=1024, host=1024
romimage: file=$bios
vgaromimage: file=$vga
ata0: enabled=1, ioaddr1=0x1f0, ioaddr2=0x3f0, irq=14
ata0-master: type=cdrom, path=$work/guest.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$work/serial
log: $work/bochs.log
panic: action=fatal
plugin_ctrl: speaker=false
EOF2
command="'$bochs' -q -f '$work/bochsrc'"
# A Bochs with a debugger waits for a command before it starts.
echo continue >"$work/start"
case $("$bochs" --help 2>&1 || true) in *'debugger commands'*) command+=" -rc '$work/start'" ;; esac

say "The tests run on the emulated CPU; with Debian's Bochs that takes about an hour"
: >"$work/serial"
tail -f "$work/serial" >&2 &
trap 'kill "$!" 2>/dev/null || true; rm -rf "$work"' EXIT
# script lends the screen of the emulated computer a terminal. To power off is a panic for Bochs: what counts is what
# the guest said.
TERM=vt100 script -qec "$command" /dev/null </dev/null >"$work/bochs.out" 2>&1 || true
said() { tr -d '\r' <"$work/serial" | grep -c "$1" || true; }
[ "$(said '^GUEST ran')" = ${#tests[@]} ] || die "the guest did not come to its end: $(tail -n 3 "$work/bochs.out")"
[ "$(said '^GUEST has AVX-512 VNNI$')" = 1 ] || die "the emulated CPU has no AVX-512 VNNI"
[ "$(said '^GUEST ran .*: 0$')" = ${#tests[@]} ] || die "tests failed: see above"
[ "$(said '^\[  SKIPPED \]')$(said 'Running 0 tests')" = 00 ] || die "tests were skipped: see above"
say "All tests passed with AVX-512 VNNI"

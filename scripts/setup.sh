#!/usr/bin/env bash
# setup.sh build|test|page: installs the Debian packages of scripts/packages.txt that are missing.
# With nothing missing it costs one dpkg-query.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

profile=${1:-build}
case $profile in
  build | test | page | dynamo) ;;
  *) die "unknown profile '$profile': build, test, page or dynamo" ;;
esac

wanted=()
while read -r line_profile package _; do
  case $line_profile in
    '' | '#'*) ;;
    build) wanted+=("$package") ;;
    test) [ "$profile" = build ] || wanted+=("$package") ;;
    page | dynamo) [ "$profile" != "$line_profile" ] || wanted+=("$package") ;;
    *) die "packages.txt: unknown profile '$line_profile'" ;;
  esac
done <"$root/scripts/packages.txt"

if ! have dpkg-query || ! have apt-get; then
  say "This is no Debian system: nothing is installed. Needed are what Debian calls: ${wanted[*]}"
  exit 0
fi

declare -A installed=()
while read -r status package; do
  if [ "$status" = installed ]; then installed[$package]=1; fi
done < <(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${wanted[@]}" 2>/dev/null)
missing=()
for package in "${wanted[@]}"; do
  [ -n "${installed[$package]:-}" ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
  have sudo || die "these Debian packages are missing, and installing them needs root or sudo:" \
    "${missing[*]}. As root: apt-get install --no-install-recommends ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" </dev/null >&2
}

say "Installing ${#missing[@]} Debian packages: ${missing[*]}"
apt -q update || die "apt-get update failed (see above)"
apt -y install --no-install-recommends "${missing[@]}" || die "apt-get install failed (see above)"

# Sourced by the other scripts: the root of the checkout, the cache, and how to speak.
# Needs bash and coreutils only: a bare Debian has nothing else when the first script starts.
# shellcheck shell=bash disable=SC2034
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/ropeway
venv=$root/.venv

# Standard output belongs to results (fetch_model.sh prints a path); people read standard error.
say() { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# check_sha256 FILE SUM: does the file have this sum?
check_sha256() { [ "$(sha256sum <"$1")" = "$2  -" ]; }

# workspace DIR: makes DIR and sets $work to a folder in it (so that a finished file can be moved
# into place in one step) that goes away with the script. Also removes what a killed run left.
workspace() {
  mkdir -p "$1" || die "cannot write to $1 (set XDG_CACHE_HOME to a folder that you own)"
  find "$1" -maxdepth 1 -name '.partial.*' -mmin +1440 -exec rm -rf {} +
  work=$(mktemp -d "$1/.partial.XXXXXX")
  trap 'rm -rf "$work"' EXIT
}

# pip_download PACKAGE==VERSION [pip flags...]: into $work, with pip's own progress bar.
pip_download() {
  "$venv/bin/python" -m pip download --disable-pip-version-check --no-cache-dir --no-deps \
    --dest "$work" "${@:2}" "$1" >&2 || die "could not download $1 from the Python package index: is this machine online?"
}

# fetch_source PARENT NAME==VERSION FOLDER SUM FILE TEXT: the source archive of a package, unpacked as
# FOLDER in PARENT, unless FILE is there in it. SUM: the archive's SHA-256; TEXT: what is said of the
# download.
fetch_source() {
  local parent=$1
  shift
  [ ! -e "$parent/$2/$4" ] || return 0
  workspace "$parent"
  "$root/scripts/venv.sh" pip
  say "$5"
  # Only this package from source: its build tools as source archives would compile for an hour.
  pip_download "$1" --no-binary "${1%%==*}"
  check_sha256 "$work/$2.tar.gz" "$3" || die "the downloaded archive has a wrong SHA-256 sum"
  tar -xzf "$work/$2.tar.gz" -C "$work" || die "could not unpack $2.tar.gz"
  rm -rf "${parent:?}/$2"
  mv "$work/$2" "$parent/$2"
}

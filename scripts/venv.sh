#!/usr/bin/env bash
# venv.sh pip|test: makes .venv when it is missing or does not work. `test` also installs
# scripts/requirements.txt, again only when it has changed since.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

profile=${1:-pip}
case $profile in
  pip | test) ;;
  *) die "unknown profile '$profile': pip or test" ;;
esac

if [ ! -f "$venv/.ready" ] || ! "$venv/bin/python" -c '' 2>/dev/null; then
  # Debian's own python first: one found on the PATH may be a version manager's shim.
  python=/usr/bin/python3
  [ -x "$python" ] || python=$(command -v python3) || die "no python3: run scripts/setup.sh first"
  say "Making a Python environment in .venv"
  rm -rf "$venv"
  "$python" -m venv "$venv" >&2 || die "python3 -m venv failed (Debian: python3-venv)"
  touch "$venv/.ready"
fi
[ "$profile" = test ] || exit 0

stamp=$venv/.requirements.sha256
sum=$(sha256sum <"$root/scripts/requirements.txt")
if [ "$(cat "$stamp" 2>/dev/null)" != "$sum" ]; then
  say "Installing the tests' Python packages into .venv"
  "$venv/bin/python" -m pip install --disable-pip-version-check -r "$root/scripts/requirements.txt" >&2 ||
    die "pip install failed (see above)"
  echo "$sum" >"$stamp"
fi

#!/usr/bin/env bash
# Makes the environment: setup.sh PYTHON VENV. uv where it can be had (seconds), else pip (a minute or two).
# Bytecode is compiled at once: without it every process would import three to four times slower.
set -euo pipefail
python=$1 venv=$2

if ! command -v "$python" >/dev/null; then
  echo "setup: no $python here. Install Python 3.11 to 3.13 (Debian: apt-get install python3 python3-venv)." >&2
  exit 1
fi
"$python" - <<'PY' || exit 1
import sys
if not (3, 11) <= sys.version_info[:2] < (3, 14):
    sys.exit(f"setup: Runcast needs Python 3.11 to 3.13, this is {sys.version.split()[0]}. Name another one: make PYTHON=python3.12 setup")
PY

rm -rf "$venv"
if ! command -v uv >/dev/null; then
  if ! "$python" -m venv "$venv" 2>/dev/null; then
    echo "setup: $python cannot make a virtual environment (Debian: apt-get install python3-venv)." >&2
    exit 1
  fi
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check uv 2>/dev/null || true
  [[ -x $venv/bin/uv ]] && PATH="$PWD/$venv/bin:$PATH"
else
  uv venv --quiet --python "$python" "$venv"
fi

if command -v uv >/dev/null; then
  uv pip install --quiet --python "$venv/bin/python" --compile-bytecode --require-hashes -r requirements.txt
  uv pip install --quiet --python "$venv/bin/python" --no-deps -e .
else
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps -e .
fi
echo "setup: $("$venv/bin/python" --version) in $venv is ready"

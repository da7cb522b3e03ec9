#!/usr/bin/env bash
# Makes the environment: setup.sh PYTHON VENV. By uv where it has a wheel (seconds), else pip (a minute or two); all by hashes, ours aside.
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
pip() { "$venv/bin/python" -m pip "$1" --quiet --disable-pip-version-check --require-hashes "${@:2}"; }
uv="$PWD/$venv/bin/uv"
[[ $venv = /* ]] && uv="$venv/bin/uv"
if "$python" -m venv "$venv" 2>/dev/null; then
  # The installer and the builder of deploy/setup.txt, by their hashes; where uv has no wheel, the builder alone.
  pip install -r deploy/setup.txt 2>/dev/null || pip install -r <(awk '/^[a-z]/ {ours = /^setuptools==/} ours' deploy/setup.txt)
elif command -v uv >/dev/null; then # a Python without pip: the machine's own uv begins
  uv venv --quiet --clear --python "$python" "$venv"
  uv pip install --quiet --python "$venv/bin/python" --require-hashes -r deploy/setup.txt
else
  echo "setup: $python cannot make a virtual environment (Debian: apt-get install python3-venv)." >&2
  exit 1
fi

if [[ -x $uv ]]; then
  "$uv" pip install --quiet --python "$venv/bin/python" --compile-bytecode --require-hashes -r requirements.txt
  "$uv" pip install --quiet --python "$venv/bin/python" --no-deps --no-build-isolation -e .
else
  pip install -r requirements.txt
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
fi
echo "setup: $("$venv/bin/python" --version) in $venv is ready"

#!/usr/bin/env bash
# usage: pytest_test.sh PYTHON FILE...
# What a pytest_test runs, in its runfiles.
set -euo pipefail
python=$1
shift
if ! "$python" -c 'import pytest' 2> /dev/null; then
  echo "$python has no pytest: install it (Debian: python3-pytest), or set NABLA_PYTHON to a Python that has it" >&2
  exit 1
fi
export PYTHONPATH="$PWD/frontend/python" PYTHONDONTWRITEBYTECODE=1
export HOME="$TEST_TMPDIR/home"  # kernels are cached there
mkdir -p "$HOME"
options=(-p no:cacheprovider --rootdir="$PWD" --basetemp="$TEST_TMPDIR/pytest" --junitxml="$XML_OUTPUT_FILE")
if [ -n "${TESTBRIDGE_TEST_ONLY:-}" ]; then options+=(-k "$TESTBRIDGE_TEST_ONLY"); fi
exec "$python" -m pytest "${options[@]}" "$@"

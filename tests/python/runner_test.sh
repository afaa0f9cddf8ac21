#!/usr/bin/env bash
# A pytest_test fails when a test fails, when nothing is collected, and when there is no pytest; else it passes.
set -euo pipefail
python=$1
export XML_OUTPUT_FILE="$TEST_TMPDIR/log.xml"
cd "$TEST_TMPDIR"
runner="$TEST_SRCDIR/$TEST_WORKSPACE/tools/pytest_test.sh"
failed=0

# expect CODE TEXT FILE: the runner's exit code for a file of that text.
expect() {
  local code=0
  printf '%s\n' "$2" > "$3"
  "$runner" "$python" "$3" > "$3.log" 2>&1 || code=$?
  if [ "$code" != "$1" ]; then
    echo "$3: exit code $code instead of $1"
    cat "$3.log"
    failed=1
  fi
}

expect 0 'def test_good(): pass' good_test.py
grep -q '<testcase' "$XML_OUTPUT_FILE" || { echo "no log was written"; failed=1; }
expect 1 'def test_bad(): assert False' bad_test.py
expect 2 'import no_such_module' broken_test.py
expect 5 'def nothing(): pass' empty_test.py
TESTBRIDGE_TEST_ONLY=good expect 0 'def test_good(): pass
def test_bad(): assert False' filtered_test.py

python=/bin/false
expect 1 'def test_good(): pass' without_pytest_test.py
grep -q 'false has no pytest: install it' without_pytest_test.py.log || { echo "the reason is missing"; failed=1; }
exit "$failed"

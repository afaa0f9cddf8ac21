#!/usr/bin/env bash
# The direction of dependencies, from Bazel's own graph: no part depends on one that stands above it.
set -euo pipefail
cd tests/arrows
failed=0

# forbid PART REGEX: no dependency of the part is in a package that the expression matches.
forbid() {
  grep -q "^//$3" "$1_deps" || { echo "$1_deps does not even hold //$3"; failed=1; }
  if grep -E "^//($2)[/:]" "$1_deps"; then
    echo "^ $1 must not depend on these"
    failed=1
  fi
}

forbid runtime 'ir|passes|codegen|frontend|cli|examples|tools|runtime/nccl' runtime/base
forbid nabla_run 'ir|passes|codegen|frontend|cli/driver|examples|tools' runtime/base
forbid ir 'passes|codegen|frontend|cli|examples|tools|runtime/exec|runtime/device' ir/ops
forbid passes 'codegen|frontend|cli|examples|tools|runtime/exec|runtime/device' ir
forbid codegen 'passes|frontend|cli|examples|tools|runtime/exec|runtime/device' ir
# tools/gen_ops generates the frontend's functions.
forbid frontend 'frontend/python|passes|codegen|cli|examples|runtime/exec|runtime/device' ir/ops
forbid python 'examples|bench|tests' cli/driver
if grep '^//cli:' python_deps; then
  echo "^ the Python package must not depend on parts of nablac or nabla-run: what it shares with them is in //cli/driver"
  failed=1
fi
exit "$failed"

#!/bin/bash
# What `bazel run //tools:install` leaves is enough for a C compiler that knows nothing of Bazel.
set -eu
prefix="$TEST_TMPDIR/a prefix"
tools/install "$prefix"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
flags=$(pkg-config --cflags --libs libnabla_run)

cd "$TEST_TMPDIR"
sed 's|"runtime/nabla_run.h"|<nabla/nabla_run.h>|' "$OLDPWD/examples/embed/embed.c" > embed.c
eval gcc -Wall -Werror -o embed embed.c "$flags"
"$OLDPWD/runtime/exec/write_toy_bundle" toy.nbundle
got=$(./embed toy.nbundle step 3)
[ "$got" = "loss: 34" ] || { echo "embed printed: $got"; exit 1; }
ldd embed | grep -qv nabla || { echo "the program needs a library of ours"; exit 1; }

got=$("$prefix/bin/nabla-run" toy.nbundle --entry init --input seed=1)
[ "$got" = "init: done" ] || { echo "nabla-run printed: $got"; exit 1; }
"$prefix/bin/nablac" verify toy.nbundle | grep -q ": ok: bundle" || { echo "nablac does not verify the bundle"; exit 1; }
if "$OLDPWD/tools/install" 2> usage; then echo "install without a prefix succeeded"; exit 1; fi
grep -q "usage: bazel run //tools:install -- PREFIX" usage

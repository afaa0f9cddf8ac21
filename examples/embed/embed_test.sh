#!/bin/bash
# The C example over the toy bundle.
set -eu
bundle="$TEST_TMPDIR/toy.nbundle"
runtime/exec/write_toy_bundle "$bundle"

# init makes w = 1 2 3 4; each step adds two rows of ones, and the loss is the sum of w.
got=$(examples/embed/embed "$bundle" step 3)
[ "$got" = "loss: 34" ] || { echo "step printed: $got"; exit 1; }
got=$(examples/embed/embed "$bundle" predict)
[ "$got" = "y: 1 2 3 4 1 2 3 4" ] || { echo "predict printed: $got"; exit 1; }
if got=$(examples/embed/embed "$bundle" nothing 2>&1); then echo "an unknown entry succeeded"; exit 1; fi
[ "$got" = 'no entry `nothing`; there are: init step eval predict' ] || { echo "got: $got"; exit 1; }
if got=$(examples/embed/embed /dev/null step 2>&1); then echo "a bad bundle succeeded"; exit 1; fi
[[ "$got" == "error[E0801]"* ]] || { echo "got: $got"; exit 1; }

// Layouts whose axes do not divide (allow_padding): the program computes with longer dimensions.
#pragma once

#include "ir/module.h"
#include "passes/pass.h"

namespace nabla::passes {

/// Every dimension that a layout with `allow_padding` cuts unevenly, and all that is computed along with it, becomes the
/// next multiple of its shards long. What the padding holds is masked where it would count: sums take zeros, extremes the
/// lowest or highest number, lookups stay within the rows that there are. Ops that can do neither get the elements
/// alone, which a remark says. Parameters, results and state keep their types: a `pad` comes after parameters and a
/// `slice` before results, and the padding of what leaves an entry is zero. The same module where there is nothing to pad.
Result<ir::Module> pad_shards(const ir::Module& module, PassContext& context);

/// What a test needs to check the padding that the pass relies on.
struct PaddingProbe {
  /// The padding of a value of the result is zero: the elements from `valid` on along `dim`.
  struct Zeros {
    std::string function;
    ir::ValueId value;
    int dim;
    ir::Dim valid;
  };
  std::vector<Zeros> zeros;
};
/// The same, for tests. All padding of which the pass does not claim that it is zero is NaN (of integers the largest
/// number), so that an op that reads it gives a wrong result. The claims are appended to `probe`. Null: neither.
Result<ir::Module> pad_shards_probed(const ir::Module& module, PassContext& context, PaddingProbe* probe);

}  // namespace nabla::passes

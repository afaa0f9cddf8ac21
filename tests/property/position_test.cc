// Positions that parts of an axis tell: argmax and argmin of a part, with the attributes of localise, count from the
// beginning of the whole, so that the parts' (value, index) pairs combine to the whole's.
#include <cmath>

#include "ir/kernel_ir/eval.h"
#include "tests/property/compare.h"
#include "tests/property/driver.h"
#include "tests/property/fixture.h"

namespace nabla::property {
namespace {

class Positions : public OpProperty {};

/// Elements [begin, end) of an axis.
Literal part_of(const Literal& x, int64_t axis, int64_t begin, int64_t end) {
  std::vector<int64_t> shape = x.shape();
  int64_t inner = 1;
  for (size_t d = axis + 1; d < shape.size(); ++d) inner *= shape[d];
  int64_t extent = shape[axis];
  shape[axis] = end - begin;
  Literal out(x.dtype(), shape);
  for (int64_t i = 0, j = 0; i < x.size(); ++i) {
    int64_t at = i / inner % extent;
    if (at >= begin && at < end) kernel_ir::set(out, j++, kernel_ir::get(x, i));
  }
  return out;
}

TEST_P(Positions, OfPartsCombineToThoseOfTheWhole) {
  bool max = op().name == "argmax";
  int compared = 0;
  for (const Case& c : cases_of(op(), 60, Precision::kAll)) {
    ir::TypedOp whole = c.typed();
    int64_t axis = whole.attrs.get_int("axis"), extent = whole.operands[0].shape[axis].value();
    if (extent < 2) continue;
    for (bool awkward : {false, true}) {
      Literal x = c.values(awkward)[0], expected = run_reference(whole, {x}, c.module)[0];
      ir::Factors factors = op().factors(whole);
      std::vector<Literal> found;
      for (int64_t begin : {int64_t{0}, extent / 2}) {
        int64_t end = begin == 0 ? extent / 2 : extent;
        ir::Shard shard = whole_shard(whole, factors);
        int along = factors.operands[0][axis][0];
        shard.begins[along] = begin, shard.sizes[along] = end - begin;
        found.push_back(run_reference({op(), {shard.operand(0)}, shard.attrs(), {shard.result(0)}},
                                      {part_of(x, axis, begin, end)}, c.module)[0]);
      }
      // The value at a position of the whole, for element i of the result. An offset that the case has itself counts.
      const ir::Shape& offset = whole.attrs.get_shape("offset");
      int64_t inner = 1, first = offset.empty() ? 0 : offset[0].value();
      for (size_t d = axis + 1; d < x.shape().size(); ++d) inner *= x.shape()[d];
      auto value = [&](int64_t i, int64_t position) {
        return kernel_ir::get(x, (i / inner * extent + position - first) * inner + i % inner);
      };
      for (int64_t i = 0; i < expected.size(); ++i) {
        kernel_ir::Scalar a = value(i, found[0].get_i(i)), b = value(i, found[1].get_i(i));
        kernel_ir::Combiner combiner = max ? kernel_ir::Combiner::kMax : kernel_ir::Combiner::kMin;
        kernel_ir::Scalar best = kernel_ir::combine(combiner, x.dtype(), a, b);
        bool of_first = is_float(x.dtype()) ? std::isnan(a.f) || (!std::isnan(b.f) && best.f == a.f) : best.i == a.i;
        ASSERT_EQ(found[of_first ? 0 : 1].get_i(i), expected.get_i(i)) << c.str() << ", element " << i;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100);
}

INSTANTIATE_TEST_SUITE_P(Ops, Positions, ::testing::Values("argmax", "argmin"), param_name);

}  // namespace
}  // namespace nabla::property

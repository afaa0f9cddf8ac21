// Every op under random layouts of its operands and results: the parts that ranks compute are those of the whole.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "tests/property/cases.h"
#include "tests/shard/sharded_run.h"

namespace nabla::shard_tests {
namespace {

class ShardedOps : public testing::TestWithParam<std::string> {};

TEST_P(ShardedOps, AreTheSame) {
  const ir::OpDef& op = ops::all_ops().get(GetParam());
  for (const property::Case& c : property::cases_of(op, 6, property::Precision::kAll)) {
    if (!is_comparable(c) || (op.lacks_reference && !op.lacks_reference(c.attrs).empty())) continue;
    expect_same(of_case(c, false, 5));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, ShardedOps, testing::ValuesIn(names_of_sharded_ops()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace nabla::shard_tests

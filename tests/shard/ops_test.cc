// Every op under random layouts of its operands and results: the parts that ranks compute are those of the whole.
#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "tests/property/cases.h"
#include "tests/shard/sharded_run.h"

namespace nabla::shard_tests {
namespace {

bool is_in_global_programs(const ir::OpDef& op) {
  for (ir::Stage stage : {ir::Stage::kFlat, ir::Stage::kSharded})
    if (!(op.stages >> static_cast<int>(stage) & 1)) return false;
  bool code = op.lower != ir::Lowering::kCall && op.lower != ir::Lowering::kTransform;
  return code && op.lower != ir::Lowering::kCollective && !op.traits.side_effect && !op.reference.refused();
}

class ShardedOps : public testing::TestWithParam<std::string> {};

TEST_P(ShardedOps, AreTheSame) {
  const ir::OpDef& op = ops::all_ops().get(GetParam());
  for (const property::Case& c : property::cases_of(op, 6, property::Precision::kAll)) {
    if (!is_comparable(c) || (op.lacks_reference && !op.lacks_reference(c.attrs).empty())) continue;
    expect_same(of_case(c, false, 5));
    if (HasFatalFailure()) return;
  }
}

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const ir::OpDef& op : ops::all_ops().all())
    if (is_in_global_programs(op)) out.push_back(op.name);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, ShardedOps, testing::ValuesIn(names()), [](const auto& info) { return info.param; });

}  // namespace
}  // namespace nabla::shard_tests

// One test per property and op: failures name both.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "tests/property/cases.h"

namespace nabla::property {

class OpProperty : public ::testing::TestWithParam<std::string> {
 protected:
  const ir::OpDef& op() const { return ops::all_ops().get(GetParam()); }
};

inline std::vector<std::string> all_op_names() { return ops::all_ops().names(); }

/// Calls and transforms name one function, `callee`; tests of their own give them one.
inline bool is_call(const ir::OpDef& op) { return takes_function(op) && op.examples.empty(); }

/// Names of the ops whose examples say all.
inline std::vector<std::string> covered_ops() {
  std::vector<std::string> out;
  for (const ir::OpDef& op : ops::all_ops().all())
    if (!is_call(op)) out.push_back(op.name);
  return out;
}

inline std::string param_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace nabla::property

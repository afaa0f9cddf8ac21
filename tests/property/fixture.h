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

/// Names of all ops; without those whose examples would need functions where `with_functions` is false.
inline std::vector<std::string> op_names(bool with_functions) {
  std::vector<std::string> out;
  for (const ir::OpDef& op : ops::all_ops().all())
    if (with_functions || !takes_function(op)) out.push_back(op.name);
  return out;
}

inline std::string param_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

}  // namespace nabla::property

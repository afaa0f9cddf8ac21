#include "frontend/cpp/debug.h"

#include "frontend/cpp/convenience.h"
#include "frontend/cpp/emit.h"

namespace nabla {
namespace {

// A number is shown as what it is, not as the dtype of the tensors beside it.
Tensor shown(const Arg& operand) {
  if (operand.is_tensor()) return operand.tensor();
  DType own = operand.kind() == Arg::Kind::kBool ? boolean : operand.kind() == Arg::Kind::kInt ? i64 : f64;
  return full({}, operand.number(), own);
}

}  // namespace

void debug_print(const std::string& format, const std::vector<Arg>& operands, Site site) {
  AtSite at(site);
  std::vector<Arg> values;
  for (const Arg& operand : operands) values.emplace_back(shown(operand), site);
  (void)emit("debug", values, {{"text", format}}, site);
}

}  // namespace nabla

#include "passes/lower/choose_libraries.h"

#include <algorithm>
#include <map>

#include "passes/lower/library_calls.h"
#include "passes/lower/prepare.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

/// The function with calls in the places of their last nodes.
class Rewrite {
 public:
  Rewrite(const ir::Function& f, const ir::Module& m, const ir::OpTable& ops, std::map<int, LibraryCall> calls)
      : f_(f), calls_(std::move(calls)), copy_(f, ops, &m), b_(copy_.builder()) {}

  ir::FunctionPtr run() {
    std::vector<bool> covered(f_.nodes.size(), false);
    for (const auto& [last, call] : calls_)
      for (int n : call.nodes) covered[n] = true;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const ir::Node& n = f_.nodes[i];
      if (auto call = calls_.find(static_cast<int>(i)); call != calls_.end()) {
        copy_.set(n.results[0], ir::reshape(make(call->second), f_.type(n.results[0]).shape));
      } else if (!covered[i]) {
        b_.set_computes(n.computes);
        copy_.copy(n);
      }
    }
    return copy_.finish();
  }

 private:
  ir::Val make(const LibraryCall& call) {
    b_.set_location(f_.nodes[call.nodes[0]].location);
    std::vector<ir::Val> operands;
    for (const LibraryCall::Operand& operand : call.operands) operands.push_back(turned(operand));
    std::vector<int> computes;
    for (int node : call.nodes)
      computes.insert(computes.end(), f_.nodes[node].computes.begin(), f_.nodes[node].computes.end());
    std::sort(computes.begin(), computes.end());
    b_.set_computes(computes);
    ir::Val out = b_.op(call.op, operands, call.attrs);
    b_.set_computes({});
    return call.result_layout.empty() ? out : ir::transpose(out, call.result_layout);
  }

  // A value that several calls take in the same layout is transposed once.
  ir::Val turned(const LibraryCall::Operand& operand) {
    b_.set_computes({});
    ir::Val value = copy_.at(operand.value);
    if (operand.shape) value = ir::reshape(value, *operand.shape);
    if (operand.layout.empty()) return value;
    auto [known, fresh] = turned_.try_emplace({operand.value, operand.layout});
    if (fresh) known->second = ir::transpose(value, operand.layout);
    return known->second;
  }

  const ir::Function& f_;
  std::map<int, LibraryCall> calls_;  // by the last of their nodes
  FunctionCopy copy_;
  ir::FunctionBuilder& b_;
  std::map<std::pair<ir::ValueId, ir::Ints>, ir::Val> turned_;
};

}  // namespace

Result<ir::Module> choose_libraries(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  if (!context.target.library) return out;
  for (ir::FunctionPtr& f : out.functions) {
    ScopedActivity activity("choose-libraries on @" + f->name);
    NABLA_TRY(check_prepared(*f, module, context.target));
    std::map<int, LibraryCall> calls;
    for (auto find : {library_products, library_convolutions})
      for (LibraryCall& call : find(*f, context.target)) {
        int last = call.nodes.back();
        calls.emplace(last, std::move(call));
      }
    if (!calls.empty()) f = Rewrite(*f, module, context.ops, std::move(calls)).run();
  }
  return out;
}

}  // namespace nabla::passes

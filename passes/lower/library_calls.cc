#include "passes/lower/library_calls.h"

#include <algorithm>
#include <map>
#include <optional>

#include "ir/library/gemm.h"
#include "passes/lower/library_products.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

struct Fallback {
  std::string kernel;
  ir::Ints order;    // of its operands among the call's
  ir::Ints scratch;  // bytes of its results after the first: parts of long sums
};

/// The one launch that a function consists of; views do nothing.
std::optional<Fallback> one_launch(const ir::Function& f) {
  std::optional<Fallback> out;
  std::vector<int> param(f.values.size(), -1);  // of values that are parameters, through views
  for (size_t i = 0; i < f.params.size(); ++i) param[f.params[i]] = static_cast<int>(i);
  for (const ir::Node& n : f.nodes) {
    if (n.op->lower == ir::Lowering::kView) param[n.results[0]] = param[n.operands[0]];
    if (n.op->lower == ir::Lowering::kView) continue;
    if (n.op->lower != ir::Lowering::kCall || out) return std::nullopt;
    out = Fallback{n.attrs.get_string("kernel"), {}, {}};
    for (ir::ValueId id : n.operands) {
      if (param[id] < 0) return std::nullopt;
      out->order.push_back(param[id]);
    }
    param[n.results[0]] = -2;  // what the function gives, through views
    for (size_t r = 1; r < n.results.size(); ++r) out->scratch.push_back(f.type(n.results[r]).bytes().bounds().max);
  }
  return out && param[f.results[0]] == -2 ? out : std::nullopt;
}

int64_t bytes_of(const ir::Ints& scratch) {
  int64_t out = 0;
  for (int64_t bytes : scratch)
    out += (bytes + ir::kLibraryWorkspaceAlignment - 1) / ir::kLibraryWorkspaceAlignment * ir::kLibraryWorkspaceAlignment;
  return out;
}

struct Taken {
  LibraryCall call;
  Fallback fallback;
};

/// The function with calls in the places of their last nodes.
class Rewrite {
 public:
  Rewrite(const ir::Function& f, const ir::Module& m, const PassContext& context, std::map<int, Taken> taken)
      : f_(f), context_(context), taken_(std::move(taken)), copy_(f, context.ops, &m), b_(copy_.builder()) {}

  ir::Function run() {
    std::vector<bool> covered(f_.nodes.size(), false);
    for (const auto& [last, taken] : taken_)
      for (int n : taken.call.nodes) covered[n] = true;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const ir::Node& n = f_.nodes[i];
      if (auto taken = taken_.find(static_cast<int>(i)); taken != taken_.end()) {
        copy_.set(n.results[0], ir::reshape(call(taken->second), f_.type(n.results[0]).shape));
      } else if (!covered[i]) {
        b_.set_computes(n.computes);
        copy_.copy(n);
      }
    }
    return *copy_.finish();
  }

 private:
  ir::Val call(const Taken& taken) {
    const LibraryCall& c = taken.call;
    b_.set_location(f_.nodes[c.nodes[0]].location);
    std::vector<ir::Val> operands;
    for (const LibraryCall::Operand& operand : c.operands) operands.push_back(turned(operand));
    ir::Attrs attrs = c.attrs;
    attrs.set("fallback", taken.fallback.kernel);
    attrs.set("order", taken.fallback.order);
    attrs.set("scratch", taken.fallback.scratch);
    attrs.set("workspace", std::max(context_.target.library_workspace_bytes, bytes_of(taken.fallback.scratch)));
    std::vector<int> computes;
    for (int node : c.nodes)
      computes.insert(computes.end(), f_.nodes[node].computes.begin(), f_.nodes[node].computes.end());
    std::sort(computes.begin(), computes.end());
    b_.set_computes(computes);
    ir::Val out = b_.op(c.op, operands, attrs);
    b_.set_computes({});
    return c.result_layout.empty() ? out : ir::transpose(out, c.result_layout);
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
  const PassContext& context_;
  std::map<int, Taken> taken_;  // by the last of their nodes
  FunctionCopy copy_;
  ir::FunctionBuilder& b_;
  std::map<std::pair<ir::ValueId, ir::Ints>, ir::Val> turned_;
};

}  // namespace

Result<ir::Function> take_library_calls(const ir::Function& f, const ir::Module& m, const PassContext& context,
                                        const GenerateFallback& generate) {
  if (!context.target.is_cuda() || !context.target.library) return f;
  std::map<int, Taken> taken;
  for (auto find : {library_products, library_convolutions})
    for (LibraryCall& call : find(f, m, context)) {
      ir::Function lowered = NABLA_TRY(generate(call.alone));
      int last = call.nodes.back();
      if (std::optional<Fallback> kernel = one_launch(lowered))
        taken.emplace(last, Taken{std::move(call), std::move(*kernel)});
    }
  if (taken.empty()) return f;
  return Rewrite(f, m, context, std::move(taken)).run();
}

}  // namespace nabla::passes

#include "passes/lower/choose_libraries.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/library/convolution.h"
#include "passes/lower/library_calls.h"
#include "passes/lower/prepare.h"
#include "passes/rewrite.h"
#include "runtime/base/text.h"

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

// A choice for a problem that the program lacks: most likely its sizes have changed since, and what was measured counts no more.
void note_unused_choices(const ir::Module& m, PassContext& context) {
  const std::map<std::string, std::string>& choices = context.target.choices;
  auto of_one = [](const auto& choice) { return choice.first.find(' ') != std::string::npos; };  // else a kind, which stands for all others
  if (std::none_of(choices.begin(), choices.end(), of_one)) return;
  std::set<std::string> there;
  for (const ir::FunctionPtr& f : m.functions) {
    const std::vector<int> makers = ir::producers(*f);
    for (const ir::Node& n : f->nodes) {
      if (n.op->lower == ir::Lowering::kConvolution) there.insert(ir::convolution_problem(n, *f).key());
      if (n.op->lower != ir::Lowering::kContraction) continue;
      if (auto problem = library_product(n, *f, makers, context.target).problem) there.insert(problem->key());
    }
  }
  constexpr size_t kMostNamed = 3;
  std::string named;
  size_t count = 0;
  for (auto key = there.begin(); key != there.end() && count < kMostNamed; ++key, ++count)
    named += fmt::format("{}`{}`", count ? ", " : "", *key);
  if (count < there.size()) named += fmt::format(" and {} more", there.size() - count);
  for (const auto& choice : choices)
    if (of_one(choice) && !there.contains(choice.first))
      context.remarks.push_back({ir::RemarkKind::kUnusedTuning, choice.first,
                                 fmt::format("tuning: `{}` is no product or convolution of the program for {}{}", shortened(choice.first),
                                             context.target.name, named.empty() ? ", which has none" : ", whose are " + named)});
}

}  // namespace

Result<ir::Module> choose_libraries(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  if (!context.target.library) return out;
  note_unused_choices(module, context);
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

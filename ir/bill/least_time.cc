#include "ir/bill/least_time.h"

#include <algorithm>
#include <optional>
#include <set>

#include "ir/bill/names.h"
#include "ir/cost/time.h"
#include "ir/library/call.h"
#include "ir/op_def.h"
#include "ir/typed.h"

namespace nabla::ir {
namespace {

// The operations of the products among the nodes that a launch computes; nullopt where there are none: then the kernel
// is no product of the program's.
std::optional<Dim> flops_of_products(const Node& launch, const Function* flat) {
  std::optional<Dim> out;
  for (int i : launch.computes) {
    if (flat == nullptr || i >= static_cast<int>(flat->nodes.size())) continue;
    const Node& n = flat->nodes[i];
    if (n.op->lower != Lowering::kContraction && n.op->lower != Lowering::kConvolution) continue;
    out = out.value_or(0) + node_flops(*flat, n);
  }
  return out;
}

// At most what a kernel or a call must move and compute.
struct Bounds {
  Dim bytes, flops;
};

std::string number(double x) { return fmt::format("{:.9g}", x); }

constexpr size_t kLongestFormula = 1 << 16;
LeastTime constant(double us) { return {us, number(us), true}; }
LeastTime formula_of(double us, std::string postfix) {
  return {us, postfix.size() > kLongestFormula ? "" : std::move(postfix), false};
}

// Equal times once, with how often they stand there.
class Times {
 public:
  void add(const LeastTime& t) {
    std::string key = t.postfix.empty() ? "no formula " + number(t.us) : t.postfix;
    ++terms_.try_emplace(key, t, 0).first->second.second;
  }

  LeastTime sum() const {
    double us = 0, fixed = 0;
    std::string postfix;
    bool known = true;
    for (const auto& [key, term] : terms_) {
      const auto& [time, times] = term;
      us += time.us * static_cast<double>(times);
      if (time.is_static) fixed += time.us * static_cast<double>(times);
      if (time.is_static) continue;
      known &= !time.postfix.empty();
      postfix += (postfix.empty() ? "" : " ") + time.postfix + (times == 1 ? "" : fmt::format(" {} *", times)) +
                 (postfix.empty() ? "" : " +");
    }
    if (known && postfix.empty()) return constant(us);
    return formula_of(us, !known ? "" : fixed == 0 ? postfix : postfix + " " + number(fixed) + " +");
  }

  LeastTime most() const {
    double us = 0;
    std::string postfix;
    bool is_static = true, known = true;
    for (const auto& [key, term] : terms_) {
      us = std::max(us, term.first.us), is_static &= term.first.is_static, known &= !term.first.postfix.empty();
      postfix += (postfix.empty() ? "" : " ") + term.first.postfix + (postfix.empty() ? "" : " max");
    }
    return is_static ? constant(us) : formula_of(us, known ? postfix : "");
  }

 private:
  std::map<std::string, std::pair<LeastTime, int64_t>> terms_;
};

LeastTime times(const LeastTime& t, const Dim& trips) {
  double us = t.us * static_cast<double>(trips.bounds().max);
  if (t.is_static && trips.is_static()) return constant(us);
  return formula_of(us, t.postfix.empty() ? "" : t.postfix + " " + postfix_of(trips) + " *");
}

}  // namespace

LeastTimes::LeastTimes(const Module& flat, const Module& planned, const Target& target)
    : planned_(planned), target_(target) {
  std::map<std::string, Bounds> most;  // by the nodes that run a kernel, or whose place it can take
  auto note = [&](const std::string& kernel, const Bounds& bounds) {
    auto [known, fresh] = most.try_emplace(kernel, bounds);
    if (fresh) return;
    known->second.bytes = Dim::max(known->second.bytes, bounds.bytes);
    known->second.flops = Dim::max(known->second.flops, bounds.flops);
  };
  for (const FunctionPtr& f : planned.functions)
    for (const Node& n : f->nodes) {
      if (std::optional<FallbackKernel> fallback = fallback_kernel(n))
        note(fallback->kernel, {operand_bytes(*f, n), library_call(n, *f, target).flops()});
      else if (n.op->lower == Lowering::kCall)
        note(n.attrs.get_string("kernel"),
             {operand_bytes(*f, n), flops_of_products(n, flat.find(f->name)).value_or(INT64_MAX)});
    }
  for (const kernel_ir::KernelPtr& k : planned.kernels) {
    // A generated sum may also go over what padding or strides leave out, and two operands may be one array.
    Work work = kernel_work(*k);
    if (auto limit = most.find(k->name); limit != most.end()) {
      work.bytes = Dim::min(work.bytes, limit->second.bytes);
      work.flops = Dim::min(work.flops, limit->second.flops);
    }
    kernels_[k->name] = time(work);
    moved_us_[k->name] = static_cast<double>(work.bytes.bounds().max) / bytes_per_us(target);
  }
}

LeastTime LeastTimes::time(const Work& work) const {
  double us = least_us(work, target_);
  if (work.bytes.is_static() && work.flops.is_static()) return constant(us);
  double per_byte = 1 / bytes_per_us(target_), per_flop = 1 / product_rate(work.factors, target_).flops_per_us;
  std::string moved = postfix_of(work.bytes) + " " + number(per_byte) + " *";
  if (work.flops.is(0)) return formula_of(us, moved);
  return formula_of(us, moved + " " + postfix_of(work.flops) + " " + number(per_flop) + " * max");
}

Work LeastTimes::work_of(const Node& n, const Function& f) const {
  return {operand_bytes(f, n), library_call(n, f, target_).flops(), f.type(n.operands[0]).dtype};
}

LeastTime LeastTimes::call(const Node& n, const Function& f) const { return time(work_of(n, f)); }

double LeastTimes::predicted_call_us(const Node& n, const Function& f) const { return library_us(work_of(n, f), target_); }

const LeastTime& LeastTimes::function(const std::string& name) {
  if (auto known = functions_.find(name); known != functions_.end()) return known->second;
  const Function& f = *planned_.find(name);
  Times all;
  for (const Node& n : f.nodes) {
    if (n.op->lower == Lowering::kLibrary) all.add(call(n, f));
    if (n.op->lower == Lowering::kCall) all.add(kernel(n.attrs.get_string("kernel")));
    if (n.op->lower != Lowering::kControl) continue;
    ControlFlow c = control_of(f, n);
    Times inside;
    for (const std::string& callee : c.functions) inside.add(function(callee));
    LeastTime one = c.kind == ControlFlow::Kind::kBranch ? inside.most() : inside.sum();
    all.add(c.kind == ControlFlow::Kind::kLoop ? times(one, c.trips) : one);
  }
  return functions_[name] = all.sum();
}

}  // namespace nabla::ir

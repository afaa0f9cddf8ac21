#include "ir/bill/totals.h"

#include <map>
#include <set>

#include "ir/bill/names.h"
#include "ir/cost/least_work.h"
#include "ir/typed.h"

namespace nabla::ir {

namespace {

// Sums over functions and over what these run. Each function is walked once, also if several loops share it.
template <class Total>
class Totals {
 public:
  explicit Totals(const Module& m) : m_(m) {}
  virtual ~Totals() = default;
  const Total& of(const Function& f) {
    auto known = done_.find(f.name);
    return known != done_.end() ? known->second : done_.emplace(f.name, sum(f)).first->second;
  }

 protected:
  virtual Total sum(const Function& f) = 0;
  const Module& m_;

 private:
  std::map<std::string, Total> done_;
};

// A loop counts all iterations, a branch its costlier side, and a while one iteration.
template <class SizeOf>
Dim inside(const ControlFlow& c, const SizeOf& size_of) {
  Dim out = 0;
  for (const std::string& name : c.functions) {
    Dim callee = size_of(name);
    out = c.kind == ControlFlow::Kind::kBranch ? Dim::max(out, callee) : out + callee;
  }
  return c.kind == ControlFlow::Kind::kLoop ? out * c.trips : out;
}

class FlopTotals : public Totals<FunctionWork> {
  using Totals::Totals;
  FunctionWork sum(const Function& f) override {
    FunctionWork out;
    for (const Node& n : f.nodes) {
      out.flops = out.flops + node_flops(f, n);
      if (n.op->lower != Lowering::kControl) continue;
      ControlFlow c = control_of(f, n);
      out.at_least |= c.kind == ControlFlow::Kind::kWhile;
      out.flops = out.flops + inside(c, [&](const std::string& name) {
                    const FunctionWork& callee = of(*m_.find(name));
                    out.at_least |= callee.at_least;
                    return callee.flops;
                  });
    }
    out.at_least |= out.flops.bounds().max == INT64_MAX;  // sums saturate there
    return out;
  }
};

class MovedTotals : public Totals<Dim> {
 public:
  explicit MovedTotals(const Module& planned) : Totals(planned), bytes_(planned) {}

 private:
  Dim sum(const Function& f) override {
    Dim moved = 0;
    for (const Node& n : f.nodes) {
      if (!is_instruction(n)) continue;
      if (n.op->lower == Lowering::kControl) {
        moved = moved + inside(control_of(f, n), [&](const std::string& name) { return of(*m_.find(name)); });
        continue;
      }
      moved = moved + bytes_.of(f, n);
    }
    return moved;
  }
  const MovedBytes bytes_;
};

class AgainTotals : public Totals<Dim> {
 public:
  AgainTotals(const Module& planned, const Module& flat) : Totals(planned), flat_(flat) {
    for (const kernel_ir::KernelPtr& k : planned.kernels) kernels_[k->name] = k.get();
  }

 private:
  Dim sum(const Function& f) override {
    Dim again = 0;
    std::set<std::pair<std::string, std::vector<int>>> seen;  // kernels, and the nodes that they compute
    for (const Node& n : f.nodes) {
      if (!is_instruction(n)) continue;
      if (n.op->lower == Lowering::kControl)
        again = again + inside(control_of(f, n), [&](const std::string& name) { return of(*m_.find(name)); });
      if (n.computes.empty() || seen.emplace(made_by(n), n.computes).second) continue;
      auto kernel = kernels_.find(made_by(n));
      again = again + launch_flops(n, flat_.find(f.name), kernel == kernels_.end() ? nullptr : kernel->second);
    }
    return again;
  }
  const Module& flat_;
  std::map<std::string, const kernel_ir::Kernel*> kernels_;
};

}  // namespace

Dim flops_again(const Function& f, const Module& planned, const Module& flat) {
  return AgainTotals(planned, flat).of(f);
}
FunctionWork work_of(const Function& f, const Module& m) { return FlopTotals(m).of(f); }
Dim moved_by(const Function& f, const Module& planned) { return MovedTotals(planned).of(f); }

}  // namespace nabla::ir

#include "ir/bill/prediction.h"

#include <algorithm>

#include "ir/op_def.h"
#include "ir/typed.h"

namespace nabla::ir {

void Runs::add(const Runs& other, double times) {
  for (const auto& [name, n] : other.kernels) kernels[name] += n * times;
  for (const auto& [row, n] : other.library_calls) library_calls[row] += n * times;
}

namespace {

class RunTotals {
 public:
  RunTotals(const Module& planned, const Target& target, const std::vector<LibraryBill>& calls, LeastTimes& times)
      : planned_(planned), target_(target), calls_(calls), times_(times) {}

  std::map<std::string, Runs> run() && {
    for (const FunctionPtr& f : planned_.functions) (void)of(f->name);
    return std::move(done_);
  }

 private:
  const Runs& of(const std::string& name) {
    if (auto known = done_.find(name); known != done_.end()) return known->second;
    const Function& f = *planned_.find(name);
    Runs out;
    for (const Node& n : f.nodes) {
      if (n.op->lower == Lowering::kCall) ++out.kernels[n.attrs.get_string("kernel")];
      if (n.op->lower == Lowering::kLibrary) ++out.library_calls[row_of(calls_, library_call(n, f, target_))];
      if (n.op->lower == Lowering::kControl) control(control_of(f, n), out);
    }
    return done_[name] = std::move(out);
  }

  void control(const ControlFlow& c, Runs& out) {
    if (c.functions.empty()) return;
    auto longer = [&](const std::string& a, const std::string& b) { return times_.function(a).us < times_.function(b).us; };
    double times = c.kind == ControlFlow::Kind::kLoop ? static_cast<double>(c.trips.bounds().max) : 1;
    if (c.kind == ControlFlow::Kind::kBranch) return out.add(of(*std::max_element(c.functions.begin(), c.functions.end(), longer)), 1);
    for (const std::string& name : c.functions) out.add(of(name), times);
  }

  const Module& planned_;
  const Target& target_;
  const std::vector<LibraryBill>& calls_;
  LeastTimes& times_;
  std::map<std::string, Runs> done_;
};

}  // namespace

std::map<std::string, Runs> runs_of(const Module& planned, const Target& target, const std::vector<LibraryBill>& calls, LeastTimes& times) {
  return RunTotals(planned, target, calls, times).run();
}

}  // namespace nabla::ir

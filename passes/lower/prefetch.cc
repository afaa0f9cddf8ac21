#include "passes/lower/prefetch.h"

#include <algorithm>
#include <map>

#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::ValueId;

// Where elements come from may be computed, not what they are.
bool moves(const kernel_ir::Expr& e) {
  using kernel_ir::ExprKind;
  if (!e || e->kind == ExprKind::kConst || e->kind == ExprKind::kValue) return true;
  if (e->kind == ExprKind::kLoad) return moves(e->fill);
  if (e->kind != ExprKind::kCall) return false;
  if (e->fn->name == "select") return moves(e->args[1]) && moves(e->args[2]);
  return e->fn->name == "convert" && moves(e->args[0]);
}
bool moves(const kernel_ir::Body& body) {
  return std::all_of(body.begin(), body.end(), [](const kernel_ir::Stmt& s) {
    if (const auto* all = std::get_if<kernel_ir::For>(&s.node)) return moves(all->body);
    if (const auto* let = std::get_if<kernel_ir::Let>(&s.node)) return let->reduce.empty() && moves(let->expr);
    const auto* store = std::get_if<kernel_ir::Store>(&s.node);
    return store && store->combiner == kernel_ir::Combiner::kNone && moves(store->expr);
  });
}

// Kernels that compute nothing: they bring elements into place, or convert them.
std::map<std::string, bool> movements_of(const ir::Module& module) {
  std::map<std::string, bool> out;
  for (const kernel_ir::KernelPtr& k : module.kernels) out[k->name] = !k->procedure && moves(k->body);
  return out;
}

class Prefetch {
 public:
  Prefetch(const ir::Module& m, const Function& f) : f_(f), producer_(ir::producers(f)), is_gather_(gathers_of_parameters(m, f)) {
    find_readers();
  }

  Function run(int64_t ahead) {
    const auto most = static_cast<size_t>(ahead);
    Function out = f_;
    out.nodes.clear();
    size_t started = 0;  // gathers, in the order of their first readers
    auto start = [&](size_t until) {
      for (; started < std::min(until, order_.size()); ++started) emit(order_[started], out.nodes);
    };
    start(most);
    size_t read = 0;  // gathers that have met their first reader, this one included
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      if (is_gather_[i] && reader_.contains(i)) continue;  // where its reader is
      if (auto own = gathers_of_.find(i); own != gathers_of_.end()) read += own->second, start(read + most);
      emit(i, out.nodes);
    }
    return out;
  }

 private:
  bool is_view(const Node& n) const { return n.op->lower == ir::Lowering::kView; }

  // The first node that reads a gather, through views; of one that nothing reads nothing is known, and it stays.
  void find_readers() {
    std::map<ValueId, size_t> of;  // gathers, and views of them
    std::vector<std::pair<size_t, size_t>> firsts;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const Node& n = f_.nodes[i];
      for (ValueId id : n.operands) {
        auto gather = of.find(id);
        if (gather == of.end()) continue;
        if (is_view(n))
          of[n.results[0]] = gather->second;
        else if (reader_.try_emplace(gather->second, i).second)
          firsts.emplace_back(i, gather->second), ++gathers_of_[i];
      }
      if (is_gather_[i]) of[n.results[0]] = i;
    }
    std::sort(firsts.begin(), firsts.end());
    for (const auto& [reader, gather] : firsts) order_.push_back(gather);
  }

  void emit(size_t i, std::vector<Node>& out) {
    if (done_.empty()) done_.assign(f_.nodes.size(), 0);
    if (done_[i]) return;
    done_[i] = 1;
    for (ValueId id : f_.nodes[i].operands)
      if (int maker = producer_[id]; maker >= 0) emit(static_cast<size_t>(maker), out);
    out.push_back(f_.nodes[i]);
  }

  const Function& f_;
  std::vector<int> producer_;
  std::vector<bool> is_gather_;
  std::map<size_t, size_t> reader_;      // by gather
  std::map<size_t, size_t> gathers_of_;  // by reader: how many it is the first for
  std::vector<size_t> order_;            // gathers
  std::vector<char> done_;
};

}  // namespace

std::vector<bool> gathers_of_parameters(const ir::Module& module, const Function& f) {
  const std::map<std::string, bool> movements = movements_of(module);
  std::vector<bool> given(f.values.size(), false), out(f.nodes.size(), false);
  for (ValueId id : f.params) given[id] = true;
  for (size_t i = 0; i < f.nodes.size(); ++i) {
    const Node& n = f.nodes[i];
    const ir::Attr* kernel = n.attrs.find("kernel");
    bool all = !n.operands.empty() && std::all_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return given[id]; });
    bool only = n.op->lower == ir::Lowering::kView ||
                (n.op->lower == ir::Lowering::kCall && kernel && movements.at(std::get<std::string>(*kernel)));
    for (ValueId id : n.results) given[id] = all && only;
    out[i] = all && ir::is_collective(n, CollectiveKind::kAllGather);
  }
  return out;
}

Function prefetched(const ir::Module& module, const Function& f, int64_t ahead) { return Prefetch(module, f).run(ahead); }

}  // namespace nabla::passes

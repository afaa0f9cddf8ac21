#include "passes/lower/stream_host_state.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Node;
using ir::Val;
using ir::ValueId;

/// The function of an entry, with its copies.
class EntryStreams {
 public:
  EntryStreams(const ir::Module& m, const ir::Entry& e, const ir::OpTable& ops, int64_t keep)
      : m_(m), e_(e), f_(*m.find(e.function)), copy_(f_, ops, &m), keep_(keep), root_(f_.values.size()) {
    for (size_t v = 0; v < root_.size(); ++v) root_[v] = static_cast<ValueId>(v);
    for (const Node& n : f_.nodes)
      if (n.op->lower == ir::Lowering::kView) view_of_[n.results[0]] = &n, root_[n.results[0]] = root_[n.operands[0]];
    for (size_t p = 0; p < e.reads.size(); ++p)
      if (on_host(e.reads[p])) leaves_[f_.params[p]] = {};
    for (size_t w = 0; w < e.writes.size(); ++w)
      if (on_host(e.writes[w]) && !leaves_.count(f_.results[w])) written_[f_.results[w]] = w;
  }

  ir::FunctionPtr run() {
    std::vector<Val> results(f_.results.size());
    for (const Node& n : f_.nodes) {
      if (n.op->lower == ir::Lowering::kView && leaves_.count(root_[n.operands[0]])) continue;  // made for those who read it
      for (ValueId id : n.operands)
        if (leaves_.count(root_[id])) copy_.set(id, on_device(id, n));
      copy_.copy(n);
      for (ValueId id : n.operands)
        if (auto leaf = leaves_.find(root_[id]); leaf != leaves_.end()) leaf->second.others = 0;
      for (ValueId id : n.results)
        if (auto w = written_.find(id); w != written_.end()) results[w->second] = to_host(id, n);
    }
    for (size_t r = 0; r < results.size(); ++r)
      if (!results[r].b) results[r] = copy_.at(f_.results[r]);
    ir::Function out = copy_.builder().finish(results);
    out.location = f_.location;
    return std::make_shared<const ir::Function>(std::move(out));
  }

  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  struct Leaf {
    Val param, device;   ///< without a builder: it was not copied yet
    int64_t others = 0;  ///< bytes of other leaves that were copied for nodes after its last reader
    std::map<ValueId, Val> views = {};  ///< of `device`
  };
  bool on_host(int leaf) const { return m_.state[static_cast<size_t>(leaf)].memory == ir::MemorySpace::kHost; }
  int64_t bytes(ValueId id) const { return f_.type(id).bytes().value(); }

  Val on_device(ValueId id, const Node& reader) {
    ValueId root = root_[id];
    Leaf& leaf = leaves_.at(root);
    if (!leaf.param.b) leaf.param = copy_.at(root);
    if (!leaf.device.b || leaf.others > keep_) {
      copy_.builder().set_location(reader.location);
      leaf.device = copy_.builder().op("to_device", {leaf.param});
      leaf.views = {{root, leaf.device}};
      in_ += bytes(root);
      for (auto& [other, at] : leaves_)
        if (other != root) at.others += bytes(root);
    }
    return view(id, leaf);
  }
  // Views of the leaf are made anew of each copy.
  Val view(ValueId id, Leaf& leaf) {
    if (auto known = leaf.views.find(id); known != leaf.views.end()) return known->second;
    const Node& n = *view_of_.at(id);
    copy_.set(n.operands[0], view(n.operands[0], leaf));
    copy_.copy(n);
    return leaf.views[id] = copy_.at(id);
  }

  Val to_host(ValueId id, const Node& maker) {
    copy_.builder().set_location(maker.location);
    out_ += bytes(id);
    return copy_.builder().op("to_host", {copy_.at(id)});
  }

  const ir::Module& m_;
  const ir::Entry& e_;
  const ir::Function& f_;
  FunctionCopy copy_;
  int64_t keep_;
  std::vector<ValueId> root_;
  std::map<ValueId, const Node*> view_of_;
  std::map<ValueId, Leaf> leaves_;      // parameters that are leaves of the host
  std::map<ValueId, size_t> written_;   // results that are new values of such leaves
  int64_t in_ = 0, out_ = 0;
};

}  // namespace

Result<ir::Module> stream_host_state(const ir::Module& module, PassContext& context) {
  const int64_t keep = context.options.stream_host_state.keep_bytes.count;
  bool any = std::any_of(module.state.begin(), module.state.end(),
                         [](const ir::StateLeaf& l) { return l.memory == ir::MemorySpace::kHost; });
  if (!any || !context.target.is_cuda()) return module;
  ir::Module out = module;
  for (const ir::Entry& e : module.entries) {
    ScopedActivity activity("stream-host-state on @" + e.function);
    EntryStreams streams(module, e, context.ops, keep);
    out.set(streams.run());
    if (streams.in() + streams.out() > 0)
      context.remarks.push_back({ir::RemarkKind::kHostState, e.name,
                                 fmt::format("entry {}: {} bytes of state come from the host's memory, {} bytes go there", e.name,
                                             streams.in(), streams.out()),
                                 streams.in() + streams.out()});
  }
  return out;
}

}  // namespace nabla::passes

#include "passes/lower/plan_memory.h"

#include <algorithm>
#include <set>

#include "ir/kernel_ir/kernel.h"
#include "ir/library/call.h"
#include "passes/lower/in_place.h"
#include "passes/rewrite.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

using ir::Base;
using ir::Placement;
using ir::ValueId;

constexpr int64_t kAlignment = 64;
constexpr int64_t kStagedLeafBytes = 4096;
int64_t aligned(int64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

/// The carries of a function that is the body of loops, all with the same ones.
struct LoopBody {
  int consts = 0, carries = 0;
};

/// By function; without a value: the branches and loops that run it disagree about its carries.
using LoopBodies = std::map<std::string, std::optional<LoopBody>>;

LoopBodies loop_bodies(const ir::Module& m) {
  LoopBodies out;
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes) {
      if (n.op->lower != ir::Lowering::kControl) continue;
      ir::ControlFlow c = control_of(*f, n);
      for (const std::string& callee : c.functions) {
        bool body = c.kind != ir::ControlFlow::Kind::kBranch && &callee == &c.functions.back();
        LoopBody role = body ? LoopBody{c.consts, c.carries} : LoopBody{};
        auto [it, fresh] = out.try_emplace(callee, role);
        if (!fresh && it->second && (it->second->consts != role.consts || it->second->carries != role.carries))
          it->second.reset();
      }
    }
  return out;
}

class FunctionPlanner {
 public:
  /// `memory` has the plans of the functions that f's branches and loops run.
  FunctionPlanner(const ir::Module& m, const ir::Function& f, const LoopBody& role, ir::MemoryPlan& memory)
      : m_(m), memory_(memory), f_(f), entry_(m.entry_of(f.name)), role_(role) {
    plan_.values.resize(f.values.size());
    root_.resize(f.values.size());
    for (size_t i = 0; i < root_.size(); ++i) root_[i] = static_cast<int>(i);
    for (const ir::Node& n : f_.nodes)
      if (n.op->lower == ir::Lowering::kView) root_[n.results[0]] = root_[n.operands[0]];
    producer_ = ir::producers(f_);
  }

  Result<std::pair<ir::Function, ir::FunctionPlan>> run() {
    fix_borders();
    find_donations();
    for (Status ordered = order_nodes(); !ordered.ok(); ordered = order_nodes()) {
      if (entry_ && !stage_blocked()) return ordered.errors();
      donations_.erase(donations_.begin() + blocked_);  // a carry that is copied instead
    }
    plan_.carries_in_place.assign(role_.carries, false);
    for (const Donation& d : donations_)
      if (d.leaf < 0) plan_.carries_in_place[d.carry] = true;
    find_lifetimes();
    share_with_operands();
    place_temporaries();
    for (size_t i = 0; i < plan_.values.size(); ++i)
      if (root_[i] != static_cast<int>(i)) plan_.values[i] = plan_.values[root_[i]];
    return std::make_pair(std::move(f_), std::move(plan_));
  }

 private:
  // Offsets are constants, so memory is planned at the sizes' upper bounds.
  int64_t bytes(ValueId id) const { return f_.type(id).bytes().bounds().max; }
  bool fixed(ValueId root) const { return plan_.values[root].offset >= 0; }
  void fix(ValueId id, Base base, int index, int64_t offset) {
    plan_.values[root_[id]] = {base, index, offset, bytes(id)};
  }

  // Parameters, constants and results lie where the caller, the bundle and the state table want them.
  void fix_borders() {
    size_t reads = entry_ ? entry_->reads.size() : 0, writes = entry_ ? entry_->writes.size() : 0;
    for (size_t p = 0; p < f_.params.size(); ++p) {
      if (p < reads)
        fix_leaf(f_.params[p], entry_->reads[p]);
      else
        fix(f_.params[p], Base::kInput, static_cast<int>(p - reads), 0);
    }
    for (const ir::Node& n : f_.nodes)
      if (n.op->lower == ir::Lowering::kConstant)
        fix(n.results[0], Base::kConstants, 0, constant(n.attrs.get_literal("value")));
    for (size_t r = 0; r < f_.results.size(); ++r) {
      if (r >= writes)
        fix(f_.results[r], Base::kOutput, static_cast<int>(r - writes), 0);
      else if (producer_[root_[f_.results[r]]] >= 0)
        fix_leaf(f_.results[r], entry_->writes[r]);
    }
  }
  void fix_leaf(ValueId id, int leaf) {
    const ir::MemoryPlan::Leaf& at = memory_.leaves[static_cast<size_t>(leaf)];
    fix(id, at.base, 0, at.offset);
  }
  int64_t constant(const Literal& value) {
    for (const auto& c : memory_.constants)
      if (c.value == value) return c.offset;
    memory_.constants.push_back({value, memory_.constants_bytes});
    memory_.constants_bytes += aligned(value.size_bytes());
    return memory_.constants.back().offset;
  }

  // ---- Memory that is overwritten: a state leaf, a loop's carry
  struct Donation {
    ValueId old, fresh;
    int leaf = -1, carry = -1;
  };
  void find_donations() {
    auto add = [&](ValueId old, ValueId fresh, int leaf, int carry) {
      if (producer_[root_[fresh]] >= 0) donations_.push_back({old, root_[fresh], leaf, carry});
    };
    for (size_t w = 0; entry_ && w < entry_->writes.size(); ++w) {
      auto read = std::find(entry_->reads.begin(), entry_->reads.end(), entry_->writes[w]);
      if (read != entry_->reads.end())
        add(f_.params[read - entry_->reads.begin()], f_.results[w], entry_->writes[w], -1);
    }
    for (int i = 0; i < role_.carries; ++i) add(f_.params[role_.consts + i], f_.results[i], -1, i);
  }

  // A small leaf that cannot be updated in place gets its new value beside, copied at the end.
  bool stage_blocked() {
    const Donation& d = donations_[blocked_];
    if (bytes(d.fresh) > kStagedLeafBytes) return false;
    plan_.values[d.fresh] = {};
    plan_.staged_writes.push_back({d.fresh, d.leaf});
    return true;
  }

  // ---- Order: the given one, but every reader of an old value before the writer of the new one
  Status order_nodes() {
    size_t n = f_.nodes.size();
    std::vector<std::set<int>> after(n);  // edges to later nodes
    std::vector<int> waits(n, 0);
    auto edge = [&](int from, int to) {
      if (from >= 0 && from != to && after[from].insert(to).second) ++waits[to];
    };
    for (size_t i = 0; i < n; ++i)
      for (ValueId id : f_.nodes[i].operands) edge(producer_[id], static_cast<int>(i));
    int effect = -1;
    for (size_t i = 0; i < n; ++i) {
      if (!ir::has_effect(f_.nodes[i], m_)) continue;
      edge(effect, static_cast<int>(i));
      effect = static_cast<int>(i);
    }
    for (blocked_ = 0; blocked_ < static_cast<int>(donations_.size()); ++blocked_)
      NABLA_TRY(write_after_read(donations_[blocked_], edge));
    std::set<int> ready;
    for (size_t i = 0; i < n; ++i)
      if (waits[i] == 0) ready.insert(static_cast<int>(i));
    std::vector<ir::Node> ordered;
    while (!ready.empty()) {
      int i = *ready.begin();
      ready.erase(ready.begin());
      ordered.push_back(f_.nodes[i]);
      for (int next : after[i])
        if (--waits[next] == 0) ready.insert(next);
    }
    if (ordered.size() < n) return cyclic(waits);
    f_.nodes = std::move(ordered);
    producer_ = ir::producers(f_);
    return Ok{};
  }
  template <class Edge>
  Status write_after_read(const Donation& d, const Edge& edge) {
    int writer = producer_[d.fresh];
    for (int i : readers_of(d.old)) {
      edge(i, writer);
      if (i == writer && !shares(f_.nodes[i], d.old, d.fresh))
        return donation(d, f_.nodes[i], fmt::format("{} reads all of it while it writes", label(f_.nodes[i])));
    }
    return Ok{};
  }
  // Nodes that read a root, each once.
  const std::vector<int>& readers_of(ValueId root) {
    if (readers_.empty()) {
      readers_.resize(f_.values.size());
      for (size_t i = 0; i < f_.nodes.size(); ++i)
        for (ValueId id : f_.nodes[i].operands) {
          std::vector<int>& list = readers_[root_[id]];
          if (list.empty() || list.back() != static_cast<int>(i)) list.push_back(static_cast<int>(i));
        }
    }
    return readers_[root];
  }
  std::string label(const ir::Node& n) const {
    const Attr* kernel = n.attrs.find("kernel");
    return kernel ? "kernel " + std::get<std::string>(*kernel) : n.op->name;
  }
  using Attr = ir::Attr;
  Diagnostic donation(const Donation& which, const ir::Node& n, const std::string& why) const {
    if (which.leaf < 0) return error(Code::kDonationFailed, "@{}: carry {}: {}", f_.name, which.carry, why);
    const ir::StateLeaf& l = m_.state[which.leaf];
    Diagnostic d = error(Code::kDonationFailed, "state leaf `{}` cannot be updated in place in entry `{}`: {}", l.name,
                         entry_->name, why);
    d.location = n.location;
    d.notes.push_back(fmt::format("a copy would cost {} bytes", l.type.bytes().str()));
    d.help = "pass the new value through nabla::copy, which allows it";
    return d;
  }
  Status cyclic(const std::vector<int>& waits) {
    for (blocked_ = 0; blocked_ < static_cast<int>(donations_.size()); ++blocked_) {
      int writer = producer_[donations_[blocked_].fresh];
      if (waits[writer] == 0) continue;
      Diagnostic d =
          donation(donations_[blocked_], f_.nodes[writer], "its old value is read after the new one is stored");
      for (size_t i = 0; i < waits.size(); ++i) {
        const LocationRef& at = f_.nodes[i].location;
        if (waits[i] > 0 && static_cast<int>(i) != writer && at)
          d.notes.push_back(fmt::format("{}{} waits too", label(f_.nodes[i]), at_place(at)));
      }
      return d;
    }
    NABLA_CHECK(false, "@{}: a cycle without a state leaf", f_.name);
    return Ok{};
  }

  // May `result` of the node lie where `operand` (a root) lies?
  bool shares(const ir::Node& n, ValueId operand, ValueId result) const {
    if (n.op->lower == ir::Lowering::kControl) return carries_over(n, operand, result);
    if (n.op->lower == ir::Lowering::kCollective) return ir::is_collective(n, CollectiveKind::kAllReduce);
    if (n.op->lower == ir::Lowering::kTransfer) return false;  // they lie in different memories
    const Attr* name = n.attrs.find("kernel");
    if (!name) return takes_the_place(n, operand);
    const kernel_ir::Kernel* kernel = &kernel_of(n.attrs.get_string("kernel"));
    auto r = std::find(n.results.begin(), n.results.end(), result);
    int out = static_cast<int>(n.operands.size() + (r - n.results.begin()));
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (root_[n.operands[i]] == operand && !may_share(*kernel, static_cast<int>(i), out)) return false;
    return r != n.results.end();
  }

  const kernel_ir::Kernel& kernel_of(const std::string& name) const {
    for (const auto& k : m_.kernels)
      if (k->name == name) return *k;
    NABLA_CHECK(false, "{} is not in the module", name);
    return *m_.kernels[0];
  }

  // A library's product may lie where its addend lay, where its fallback can do that too.
  bool takes_the_place(const ir::Node& n, ValueId operand) const {
    std::optional<ir::FallbackKernel> fallback = ir::fallback_kernel(n);
    int addend = ir::addend_operand(n);
    if (!fallback || addend < 0) return false;
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (root_[n.operands[i]] == operand && static_cast<int>(i) != addend) return false;
    const ir::Ints& order = fallback->order;
    auto at = std::find(order.begin(), order.end(), addend);
    return at != order.end() &&
           may_share(kernel_of(fallback->kernel), static_cast<int>(at - order.begin()), static_cast<int>(order.size()));
  }

  // A loop's result starts as the operand of the same carry and is updated in place.
  bool carries_over(const ir::Node& n, ValueId operand, ValueId result) const {
    ir::ControlFlow c = control_of(f_, n);
    for (int i = 0; i < c.carries; ++i) {
      if (root_[n.results[i]] != result || root_[n.operands[c.consts + i]] != operand) continue;
      return std::count_if(n.operands.begin(), n.operands.end(), [&](ValueId id) { return root_[id] == operand; }) == 1;
    }
    return false;
  }

  // ---- Lifetimes over node positions; of roots only
  void find_lifetimes() {
    first_.assign(f_.values.size(), -1);
    last_.assign(f_.values.size(), -1);
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      for (ValueId id : f_.nodes[i].results)
        if (root_[id] == id) first_[id] = static_cast<int>(i), last_[id] = std::max(last_[id], static_cast<int>(i));
      for (ValueId id : f_.nodes[i].operands) last_[root_[id]] = static_cast<int>(i);
    }
    for (const auto& staged : plan_.staged_writes) last_[staged.value] = static_cast<int>(f_.nodes.size());
    buffer_.resize(f_.values.size());
    for (size_t i = 0; i < buffer_.size(); ++i) buffer_[i] = static_cast<int>(i);
  }

  // A result takes over the memory of an operand that dies there, where the kernel permits.
  void share_with_operands() {
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const ir::Node& n = f_.nodes[i];
      std::set<ValueId> taken;
      for (ValueId r : n.results) {
        if (root_[r] != r || fixed(r)) continue;
        for (ValueId o : n.operands) {
          ValueId a = root_[o];
          bool temporary = !fixed(a) && producer_[a] >= 0;
          if (!temporary || last_[a] != static_cast<int>(i) || taken.count(a) ||
              !(f_.type(a).bytes() == f_.type(r).bytes()) || !shares(n, a, r))
            continue;
          buffer_[r] = buffer_[a];
          last_[buffer_[a]] = std::max(last_[buffer_[a]], last_[r]);
          taken.insert(a);
          break;
        }
      }
      // The buffer's end is that of its last owner.
      for (ValueId r : n.results)
        if (buffer_[r] != r) last_[buffer_[r]] = std::max(last_[buffer_[r]], last_[r]);
    }
  }

  int64_t workspace_bytes(int index) {
    const ir::Node& n = f_.nodes[index];
    if (n.op->lower != ir::Lowering::kControl) return ir::library_workspace_bytes(n, f_);
    ir::ControlFlow c = control_of(f_, n);
    ir::ControlPlan& plan = plan_.controls[index];
    int64_t end = 0;
    for (const std::string& callee : c.functions)
      end = std::max(end, aligned(memory_.functions.at(callee).temporary_bytes));
    if (c.kind == ir::ControlFlow::Kind::kBranch) return end;
    const std::vector<bool>& in_place = memory_.functions.at(c.functions.back()).carries_in_place;
    for (int i = 0; i < c.carries; ++i) {
      bool staged = i >= static_cast<int>(in_place.size()) || !in_place[i];
      plan.staged.push_back(staged ? end : -1);
      if (staged) end += aligned(bytes(n.results[i]));
    }
    if (c.kind == ir::ControlFlow::Kind::kWhile) plan.predicate = end, end += kAlignment;
    return end;
  }

  void place_temporaries() {
    struct Item {
      ValueId id;
      int64_t bytes, offset;
      int first, last;
    };
    std::vector<Item> items;
    for (size_t v = 0; v < f_.values.size(); ++v) {
      bool own = root_[v] == static_cast<int>(v) && producer_[v] >= 0 && !fixed(static_cast<int>(v)) &&
                 buffer_[v] == static_cast<int>(v);
      if (own)
        items.push_back(
            {static_cast<int>(v), aligned(std::max<int64_t>(bytes(static_cast<int>(v)), 1)), 0, first_[v], last_[v]});
    }
    // Scratch memory of library calls lives for one node; it is numbered after the values.
    int values = static_cast<int>(f_.values.size());
    for (size_t i = 0; i < f_.nodes.size(); ++i)
      if (int64_t scratch = workspace_bytes(static_cast<int>(i)); scratch > 0)
        items.push_back({values + static_cast<int>(i), aligned(scratch), 0, static_cast<int>(i), static_cast<int>(i)});
    // Large ones first, each at the lowest place that no live neighbour holds.
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.bytes > b.bytes; });
    std::vector<Item> placed;  // by offset; copies side by side, since each item looks at all before it
    for (size_t i = 0; i < items.size(); ++i) {
      int64_t at = 0;
      for (const Item& other : placed) {
        if (other.offset >= at + items[i].bytes) break;
        bool together = other.first <= items[i].last && items[i].first <= other.last;
        if (together) at = std::max(at, other.offset + other.bytes);
      }
      items[i].offset = at;
      auto behind =
          std::upper_bound(placed.begin(), placed.end(), at, [](int64_t o, const Item& x) { return o < x.offset; });
      placed.insert(behind, items[i]);
      if (items[i].id < values)
        plan_.values[items[i].id] = {Base::kArena, 0, memory_.state_bytes + at, bytes(items[i].id)};
      else
        plan_.workspaces[items[i].id - values] = {Base::kArena, 0, memory_.state_bytes + at, items[i].bytes};
      plan_.temporary_bytes = std::max(plan_.temporary_bytes, at + items[i].bytes);
    }
    for (size_t v = 0; v < f_.values.size(); ++v)
      if (buffer_[v] != static_cast<int>(v) && root_[v] == static_cast<int>(v) && !fixed(static_cast<int>(v))) {
        int b = buffer_[v];
        while (buffer_[b] != b) b = buffer_[b];
        plan_.values[v] = plan_.values[b];
      }
    std::vector<int64_t> change(f_.nodes.size() + 2, 0);  // of the bytes alive, at each node
    for (const Item& item : items)
      if (item.first >= 0) change[item.first] += item.bytes, change[item.last + 1] -= item.bytes;
    int64_t peak = -1, live = 0;
    for (int i = 0; i < static_cast<int>(f_.nodes.size()); ++i) {
      live += change[i];
      if (live > peak) peak = live, plan_.peak_node = i;
    }
    for (const Item& item : items)
      if (item.id < values && item.first <= plan_.peak_node && plan_.peak_node <= item.last)
        plan_.at_peak.push_back({item.id, item.bytes});
  }

  const ir::Module& m_;
  ir::MemoryPlan& memory_;
  ir::Function f_;
  const ir::Entry* entry_;  // null: none runs the function
  ir::FunctionPlan plan_;
  LoopBody role_;
  std::vector<Donation> donations_;
  int blocked_ = -1;                       // the donation that order_nodes could not keep
  std::vector<std::vector<int>> readers_;  // by root, before nodes are ordered
  std::vector<int> root_;                  // views followed to the value that owns the bytes
  std::vector<int> producer_;
  std::vector<int> first_, last_;
  std::vector<int> buffer_;  // the root whose memory a root uses
};

LocationRef place_of(const ir::Function& f, ValueId id) {
  int maker = ir::producers(f)[id];
  return maker < 0 ? f.location : f.nodes[maker].location;
}

// The loader's limit, told here by what the user wrote.
Status check_bytes(const ir::Function& f) {
  for (size_t id = 0; id < f.values.size(); ++id) {
    const ir::Type& type = f.values[id].type;
    int64_t bytes = type.bytes().bounds().max;
    if (bytes <= kMaxArrayBytes) continue;
    Diagnostic d = error(Code::kOverBudget, "{} {} {} bytes, at most {} are allowed", type.str(),
                         type.is_static() ? "has" : "may have", bytes, kMaxArrayBytes);
    d.location = place_of(f, static_cast<ValueId>(id));
    d.help = type.is_static() ? "make it smaller" : "give its sizes smaller upper bounds";
    return d;
  }
  return Ok{};
}

// The largest by their bytes, as many as are worth reading, of equal ones the first.
std::string largest(std::vector<std::pair<int64_t, std::string>> all) {
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string out;
  for (size_t i = 0; i < std::min<size_t>(all.size(), 3); ++i)
    out += fmt::format("{}{} bytes of {}", i ? ", " : "", all[i].first, all[i].second);
  return out;
}

std::string largest_leaves(const ir::Module& m, const ir::MemoryPlan& plan) {
  std::vector<std::pair<int64_t, std::string>> all;
  for (size_t i = 0; i < m.state.size(); ++i) {
    const ir::StateLeaf& leaf = m.state[i];
    if (plan.leaves[i].base == Base::kArena)
      all.push_back({leaf.type.bytes().value(), fmt::format("{} {}{}", leaf.name, leaf.type.str(), at_place(leaf.location))});
  }
  return largest(std::move(all));
}

std::string largest_temporaries(const ir::Function& f, const ir::FunctionPlan& plan) {
  std::vector<std::pair<int64_t, std::string>> all;
  const std::vector<int> makers = ir::producers(f);
  auto add = [&](int64_t bytes, const std::string& what, const ir::Node& n) {
    const ir::Attr* kernel = n.attrs.find("kernel");
    const std::string& by = kernel ? std::get<std::string>(*kernel) : n.op->name;
    all.push_back({bytes, fmt::format("{} by {}{}", what, by, at_place(n.location))});
  };
  for (const auto& live : plan.at_peak) add(live.bytes, f.type(live.value).str(), f.nodes[static_cast<size_t>(makers[live.value])]);
  if (auto scratch = plan.workspaces.find(plan.peak_node); scratch != plan.workspaces.end())
    add(scratch->second.bytes, "what is needed", f.nodes[static_cast<size_t>(plan.peak_node)]);
  return largest(std::move(all));
}

// Of what a library may use while it computes at the peak of an entry.
int64_t library_scratch(const ir::Function& f, const ir::FunctionPlan& plan) {
  auto scratch = plan.workspaces.find(plan.peak_node);
  bool library = scratch != plan.workspaces.end() && f.nodes[static_cast<size_t>(plan.peak_node)].op->lower == ir::Lowering::kLibrary;
  return library ? scratch->second.bytes : 0;
}

// `limit`: an option of the pass; none: what loaders take.
Status check_arena(const ir::Module& m, const ir::MemoryPlan& plan, std::optional<Bytes> limit) {
  if (plan.host_bytes > kMaxArrayBytes)
    return error(Code::kOverBudget, "state in the host's memory needs {} bytes, {} are allowed", plan.host_bytes, kMaxArrayBytes);
  int64_t most = std::min(limit ? limit->count : kMaxArrayBytes, kMaxArrayBytes);
  if (plan.arena_bytes <= most) return Ok{};
  Diagnostic d = error(Code::kOverBudget, "the program needs {} bytes ({} of state, {} of temporaries), {} are allowed",
                       plan.arena_bytes, plan.state_bytes, plan.arena_bytes - plan.state_bytes, most);
  if (const std::string leaves = largest_leaves(m, plan); !leaves.empty()) d.notes.push_back("the state has " + leaves);
  const ir::Entry* most_used = nullptr;
  auto temporaries = [&](const ir::Entry& e) { return plan.functions.at(e.function).temporary_bytes; };
  for (const ir::Entry& e : m.entries)
    if (!most_used || temporaries(e) > temporaries(*most_used)) most_used = &e;
  int64_t scratch = 0;
  if (most_used && temporaries(*most_used) > 0) {
    const ir::Function& f = *m.find(most_used->function);
    const ir::FunctionPlan& made = plan.functions.at(most_used->function);
    scratch = library_scratch(f, made);
    d.notes.push_back(fmt::format("entry {} needs {} bytes of temporaries at once: {}", most_used->name, temporaries(*most_used),
                                  largest_temporaries(f, made)));
  }
  if (most == kMaxArrayBytes)
    d.help = "shrink the program, or give its sizes smaller upper bounds";
  else
    d.help = fmt::format(
        "raise {}, {}{}give up speed for memory with {}, or shrink the program", OptionName{"max-bytes"},
        scratch > 0 ? fmt::format("do without the library's working memory ({}), ", OptionName{"no-library"}) : std::string(),
        m.mesh() ? "lay the program out otherwise (nablac plan compares), " : "", OptionName{"remat-bytes"});
  return d;
}

}  // namespace

Result<ir::Module> plan_memory(const ir::Module& module, PassContext& context) {
  for (const kernel_ir::KernelPtr& k : module.kernels)
    if (!k->schedule) {
      Diagnostic d = error(Code::kWrongStage, "kernel @{} has no schedule", k->name);
      d.help = "run the pass `schedule-kernels` before plan-memory";
      return d;
    } else if (std::holds_alternative<kernel_ir::CudaSchedule>(*k->schedule) != context.target.is_cuda()) {
      Diagnostic d = error(Code::kWrongStage, "kernel @{} is not scheduled for {}", k->name, context.target.name);
      d.help = "begin with a kernel without a schedule: `schedule none`";
      return d;
    }
  auto plan = std::make_shared<ir::MemoryPlan>();
  for (const ir::StateLeaf& leaf : module.state) {
    bool host = leaf.memory == ir::MemorySpace::kHost && context.target.is_cuda();
    int64_t& end = host ? plan->host_bytes : plan->state_bytes;
    plan->leaves.push_back({host ? Base::kHost : Base::kArena, end});
    end += aligned(leaf.type.bytes().value());
  }
  ir::Module out = module;
  out.stage = ir::Stage::kPlanned;
  int64_t temporaries = 0;
  LoopBodies bodies = loop_bodies(module);
  for (const ir::FunctionPtr& f : NABLA_TRY(bottom_up(module))) {
    ScopedActivity activity("plan-memory on @" + f->name);
    (void)NABLA_TRY(check_bytes(*f));
    LoopBody role = bodies[f->name].value_or(LoopBody{});
    auto [function, function_plan] = NABLA_TRY(FunctionPlanner(module, *f, role, *plan).run());
    temporaries = std::max(temporaries, function_plan.temporary_bytes);
    plan->functions[function.name] = std::move(function_plan);
    out.set(std::make_shared<ir::Function>(std::move(function)));
  }
  plan->arena_bytes = plan->state_bytes + temporaries;
  out.plan = plan;
  (void)NABLA_TRY(check_arena(out, *plan, context.options.plan_memory.max_bytes));
  return out;
}

}  // namespace nabla::passes

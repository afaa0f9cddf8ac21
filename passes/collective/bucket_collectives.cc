// Small collectives of one group become one.
#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "passes/collective/collectives.h"
#include "passes/collective/parameters.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::Shape;
using ir::Val;
using ir::ValueId;

int64_t bytes_of(const Function& f, ValueId id) { return f.type(id).bytes().bounds().max; }

/// Collectives that may be one: those whose attributes and dtype are equal.
struct Kind {
  const ir::OpDef* op;
  const ir::Attrs* attrs;
  DType dtype;
  bool operator==(const Kind& other) const { return op == other.op && *attrs == *other.attrs && dtype == other.dtype; }
};

/// Nodes of one kind that wait to become one, and how many late nodes wait for them.
struct Bucket {
  Kind kind;
  std::vector<size_t> nodes;
  int64_t bytes = 0;
  int awaited = 0;
  size_t next = 0;  // where in the order the next one stands that may join them; before what is at its turn: not known
};

constexpr size_t kNone = SIZE_MAX;
constexpr int kFused = 4;  // elementwise nodes in a row that are taken to become part of what reads them

/// One function with its collectives in buckets. Where more of a kind are to come, nodes that read what waits in a bucket are late:
/// they are made once it is closed.
class Bucketing {
 public:
  Bucketing(const Function& f, const ir::Module& m, const ir::OpTable& ops, int64_t most, int64_t first, bool keep_order)
      : f_(f),
        m_(m),
        copy_(f, ops, &m),
        b_(copy_.builder()),
        most_(most),
        first_(first),
        keep_order_(keep_order),
        bucket_of_(f.values.size(), -1),
        makers_(ir::producers(f)),
        brought_(brought_from_parameters(f)),
        made_(f.nodes.size(), false),
        order_(sums_early()) {}

  ir::FunctionPtr run() {
    for (at_ = 0; at_ < order_.size(); ++at_) {
      size_t i = order_[at_];
      if (made_[i]) continue;
      if (blocker(i) >= 0 && may_be_late(i)) {
        hold(f_.nodes[i]);
        be_late(i);
        continue;
      }
      for (int b; (b = blocker(i)) >= 0;) close(b);
      place(i);
      settle();
      close_awaited();
    }
    for (ValueId id : f_.results)
      while (bucket_of_[id] >= 0) close(bucket_of_[id]);
    for (auto open = buckets_.begin(); open != buckets_.end();) {
      open = std::find_if(buckets_.begin(), buckets_.end(), [](const Bucket& b) { return !b.nodes.empty(); });
      if (open != buckets_.end()) close(static_cast<int>(open - buckets_.begin()));
    }
    return copy_.finish();
  }

 private:
  // The order of the nodes, in which every sum comes right after what it sums.
  std::vector<size_t> sums_early() const {
    std::vector<std::vector<size_t>> after(f_.nodes.size());
    std::vector<size_t> out;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      if (!ir::combines_ranks(f_.nodes[i]) || !eligible(f_.nodes[i])) continue;
      if (int maker = makers_[f_.nodes[i].operands[0]]; maker >= 0) after[static_cast<size_t>(maker)].push_back(i);
    }
    std::vector<bool> placed(f_.nodes.size(), false);
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      if (placed[i]) continue;
      std::vector<size_t> todo = {i};
      while (!todo.empty()) {
        size_t k = todo.back();
        todo.pop_back();
        placed[k] = true;
        out.push_back(k);
        todo.insert(todo.end(), after[k].rbegin(), after[k].rend());
      }
    }
    return out;
  }

  // Of static size, small enough to share a bucket with another one, and cut or joined along the first dimension, as
  // lower-collectives leaves it.
  bool eligible(const Node& n) const {
    if (!ir::combines_ranks(n) && !ir::is_collective(n, CollectiveKind::kAllGather)) return false;
    if (n.attrs.get_axes("axes").empty() || bytes_of(f_, n.operands[0]) * 2 > most_) return false;
    bool fixed = f_.type(n.operands[0]).is_static() && f_.type(n.results[0]).is_static();
    return fixed && (ir::is_collective(n, CollectiveKind::kAllReduce) || n.attrs.get_int("dim") == 0);
  }
  Kind kind(size_t i) const { return {f_.nodes[i].op, &f_.nodes[i].attrs, f_.type(f_.nodes[i].operands[0]).dtype}; }

  void place(size_t i) {
    for (ValueId id : f_.nodes[i].results) bucket_of_[id] = -1;
    if (eligible(f_.nodes[i]))
      wait(i);
    else
      copy(i);
  }
  // Waits in the open bucket of its kind. A gather of a parameter, which others need as soon, only takes along what is there.
  void wait(size_t i) {
    const bool sum = ir::combines_ranks(f_.nodes[i]);
    const int64_t bytes = bytes_of(f_, sum ? f_.nodes[i].operands[0] : f_.nodes[i].results[0]);
    auto open = std::find_if(buckets_.begin(), buckets_.end(), [&](const Bucket& b) { return b.kind == kind(i); });
    if (open == buckets_.end()) open = buckets_.insert(buckets_.end(), {kind(i), {}});
    auto at = static_cast<int>(open - buckets_.begin());
    if (!sum && !open->nodes.empty() && open->bytes + bytes > most_) emit(at);
    open->nodes.push_back(i);
    open->bytes += bytes;
    open->next = 0;
    bucket_of_[f_.nodes[i].results[0]] = at;
    bool full = open->bytes >= (sum && closed_ == 0 ? first_ : most_);
    if (full || (!sum && brought_[f_.nodes[i].operands[0]])) emit(at);
  }

  // The bucket that the node has to wait for: that of an operand, or of what the operand follows from; -1: there is none.
  int blocker(size_t i) const {
    for (ValueId id : f_.nodes[i].operands)
      if (bucket_of_[id] >= 0) return bucket_of_[id];
    return -1;
  }
  void be_late(size_t i) {
    int b = blocker(i);
    ++buckets_[static_cast<size_t>(b)].awaited;
    for (ValueId id : f_.nodes[i].results) bucket_of_[id] = b;
    late_.push_back(i);
  }
  // Whether it gains by it, and little else is kept meanwhile.
  bool may_be_late(size_t i) {
    const Node& n = f_.nodes[i];
    if (keep_order_ || n.op->lower == ir::Lowering::kControl || ir::has_effect(n, m_)) return false;
    return is_expected(buckets_[static_cast<size_t>(blocker(i))]) && kept_bytes_ + kept_by(n) <= most_;
  }
  // Is one more to come that can join the bucket, because it follows from nothing that waits itself?
  bool is_expected(Bucket& b) const {
    if (!ir::combines_ranks(f_.nodes[b.nodes[0]])) return false;
    if (b.next >= at_ && b.next > 0) return b.next != kNone;
    std::vector<bool> waits(f_.values.size());
    for (size_t v = 0; v < waits.size(); ++v) waits[v] = bucket_of_[v] >= 0;
    for (b.next = at_; b.next < order_.size(); ++b.next) {
      const size_t i = order_[b.next];
      const Node& n = f_.nodes[i];
      if (made_[i]) continue;
      if (std::any_of(n.operands.begin(), n.operands.end(), [&](ValueId id) { return waits[id]; }))
        for (ValueId id : n.results) waits[id] = true;
      else if (eligible(n) && kind(i) == b.kind && bucket_of_[n.results[0]] < 0)
        return true;
    }
    b.next = kNone;
    return false;
  }
  // Bytes that live on for late nodes. What is elementwise of parameters will be computed where it is read.
  int64_t kept_by(const Node& n) const {
    int64_t out = 0;
    for (ValueId id : std::set<ValueId>(n.operands.begin(), n.operands.end()))
      if (kept_.count(id) == 0 && bucket_of_[id] < 0) out += kept_by(id, kFused);
    return out;
  }
  int64_t kept_by(ValueId id, int depth) const {
    if (makers_[id] < 0) return 0;
    const Node& n = f_.nodes[static_cast<size_t>(makers_[id])];
    if (depth == 0 || !(n.operands.empty() || n.op->traits.elementwise || n.op->form == ir::OpForm::kBroadcast)) return bytes_of(f_, id);
    int64_t out = 0;
    for (ValueId from : n.operands) out += kept_by(from, depth - 1);
    return std::min(out, bytes_of(f_, id));
  }
  void hold(const Node& n) {
    kept_bytes_ += kept_by(n);
    kept_.insert(n.operands.begin(), n.operands.end());
  }

  void close(int b) {
    emit(b);
    settle();
  }
  // Makes late nodes, in their order, whose buckets are closed; that may close others.
  void settle() {
    while (std::exchange(emitted_, false)) {
      for (Bucket& b : buckets_) b.awaited = 0;
      for (size_t i : std::exchange(late_, {})) {
        if (made_[i]) continue;
        if (blocker(i) >= 0)
          be_late(i);
        else
          place(i);
      }
    }
    if (late_.empty()) kept_.clear(), kept_bytes_ = 0;
  }
  // Late nodes wait no longer than until the last one that could join their bucket has done so.
  void close_awaited() {
    for (size_t b = 0; b < buckets_.size();) {
      bool done = buckets_[b].awaited > 0 && !is_expected(buckets_[b]);
      if (done) close(static_cast<int>(b));
      b = done ? 0 : b + 1;
    }
  }

  // Makes what is in the bucket.
  void emit(int at) {
    Bucket& bucket = buckets_[static_cast<size_t>(at)];
    std::vector<size_t> nodes = std::exchange(bucket.nodes, {});
    int64_t bytes = std::exchange(bucket.bytes, 0);
    for (size_t i : nodes) made_[i] = true;
    if (ir::combines_ranks(f_.nodes[nodes[0]]))
      ++closed_;
    else
      take_along(nodes, bytes);
    for (size_t i : nodes) bucket_of_[f_.nodes[i].results[0]] = -1, bring(f_.nodes[i].operands[0]);
    join(nodes);
    emitted_ = true;
  }
  // Gathers after these whose operands are there, or can be made of parameters alone.
  void take_along(std::vector<size_t>& nodes, int64_t bytes) {
    const size_t first = nodes[0];
    for (size_t k = first + 1; k < f_.nodes.size() && bytes < most_; ++k) {
      const Node& n = f_.nodes[k];
      if (made_[k] || !eligible(n) || !(kind(k) == kind(first)) || !is_there(n.operands[0])) continue;
      bytes += bytes_of(f_, n.results[0]);
      if (bytes <= most_) nodes.push_back(k);
    }
  }
  bool is_there(ValueId id) const { return brought_[id] || made_[static_cast<size_t>(makers_[id])]; }
  // Makes what a later gather takes along of a parameter, such as its conversion.
  void bring(ValueId id) {
    if (!brought_[id] || makers_[id] < 0) return;
    const auto maker = static_cast<size_t>(makers_[id]);
    if (made_[maker]) return;
    bring(f_.nodes[maker].operands[0]);
    copy(maker);
  }

  void copy(size_t i) {
    made_[i] = true;
    const Node& n = f_.nodes[i];
    b_.set_location(n.location);
    copy_.copy(n);
  }

  // The nodes as one. Values lie side by side along the last of two dimensions, of which the first is that of the
  // ranks.
  void join(const std::vector<size_t>& nodes) {
    if (nodes.size() == 1) return copy(nodes[0]);
    const Node& first = f_.nodes[nodes[0]];
    b_.set_location(first.location);
    bool scatter = ir::is_collective(first, CollectiveKind::kReduceScatter);
    int64_t ranks = first.attrs.get_int("shards"), rows = scatter ? ranks : 1;
    std::vector<Val> values;
    std::vector<int64_t> widths;
    for (size_t i : nodes) {
      Val x = copy_.at(f_.nodes[i].operands[0]);
      widths.push_back(x.type().count().value() / rows);
      values.push_back(ir::reshape(x, {rows, widths.back()}));
    }
    Val all = b_.op(first.op->name, {b_.op("concatenate", values, {{"axis", int64_t{1}}})}, first.attrs);
    int64_t begin = 0;
    for (size_t k = 0; k < nodes.size(); ++k) {
      const Node& n = f_.nodes[nodes[k]];
      Shape range = {begin, widths[k]};
      Val own = b_.op("section", {all}, {{"axis", int64_t{1}}, {"range", range}});
      copy_.set(n.results[0], ir::reshape(own, f_.type(n.results[0]).shape));
      begin += widths[k];
      made_[nodes[k]] = true;
    }
  }

  const Function& f_;
  const ir::Module& m_;
  FunctionCopy copy_;
  ir::FunctionBuilder& b_;
  const int64_t most_, first_;
  const bool keep_order_;
  int closed_ = 0;               // buckets of sums
  bool emitted_ = false;         // a bucket, since late nodes were looked through
  std::vector<Bucket> buckets_;  // one of every kind, which is open where it has nodes
  std::vector<int> bucket_of_;   // by value: the one that it waits for
  std::vector<int> makers_;
  std::vector<bool> brought_;  // by value
  std::vector<bool> made_;     // by node
  std::vector<size_t> order_;  // of nodes
  size_t at_ = 0;              // in the order
  std::vector<size_t> late_;
  std::set<ValueId> kept_;  // operands of late nodes
  int64_t kept_bytes_ = 0;
};

}  // namespace

Result<ir::Module> bucket_collectives(const ir::Module& module, PassContext& context) {
  const int64_t most = context.options.bucket_collectives.bucket_bytes.count;
  const int64_t first = context.options.bucket_collectives.first_bucket_bytes.count;
  const bool in_order = context.options.keep_order;
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions) {
    auto communicates = [](const Node& n) { return n.op->lower == ir::Lowering::kCollective; };
    if (most == 0 || std::count_if(f->nodes.begin(), f->nodes.end(), communicates) < 2) continue;
    ScopedActivity activity("bucket-collectives on @" + f->name);
    f = Bucketing(*f, module, context.ops, most, std::min(first, most), in_order).run();
  }
  return out;
}

}  // namespace nabla::passes

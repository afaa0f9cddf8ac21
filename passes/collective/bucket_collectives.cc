// Small collectives of one group become one.
#include <algorithm>
#include <map>
#include <optional>

#include "passes/collective/collectives.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::Shape;
using ir::Val;
using ir::ValueId;

int64_t bytes_of(const Function& f, ValueId id) { return f.type(id).bytes().bounds().max; }

bool is_sum(const Node& n) { return n.op->name == "all_reduce" || n.op->name == "reduce_scatter"; }

/// Collectives that may be one: those whose attributes and dtype are equal.
struct Kind {
  const ir::OpDef* op;
  const ir::Attrs* attrs;
  DType dtype;
  bool operator==(const Kind& other) const { return op == other.op && *attrs == *other.attrs && dtype == other.dtype; }
};

/// Nodes of one kind that wait to become one.
struct Bucket {
  Kind kind;
  std::vector<size_t> nodes;
  int64_t bytes = 0;
};

/// One function with its collectives in buckets.
class Bucketing {
 public:
  Bucketing(const Function& f, const ir::Module& m, const ir::OpTable& ops, int64_t most, int64_t first)
      : f_(f),
        copy_(f, ops, &m),
        b_(copy_.builder()),
        most_(most),
        first_(first),
        bucket_of_(f.values.size(), -1),
        makers_(ir::producers(f)),
        made_(f.nodes.size(), false) {}

  ir::FunctionPtr run() {
    for (size_t i : sums_early()) {
      if (made_[i]) continue;
      for (ValueId id : f_.nodes[i].operands) need(id);
      if (!eligible(f_.nodes[i]))
        copy(i);
      else if (is_sum(f_.nodes[i]))
        wait(i);
      else
        gather(i);
    }
    for (ValueId id : f_.results) need(id);
    for (size_t bucket = 0; bucket < buckets_.size(); ++bucket) close(bucket);
    return copy_.finish();
  }

 private:
  // The order of the nodes, in which every sum comes right after what it sums.
  std::vector<size_t> sums_early() const {
    std::vector<std::vector<size_t>> after(f_.nodes.size());
    std::vector<size_t> out;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      if (!is_sum(f_.nodes[i]) || !eligible(f_.nodes[i])) continue;
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
    if (!is_sum(n) && n.op->name != "all_gather") return false;
    if (n.attrs.get_axes("axes").empty() || bytes_of(f_, n.operands[0]) * 2 > most_) return false;
    bool fixed = f_.type(n.operands[0]).is_static() && f_.type(n.results[0]).is_static();
    return fixed && (n.op->name == "all_reduce" || n.attrs.get_int("dim") == 0);
  }
  Kind kind(size_t i) const { return {f_.nodes[i].op, &f_.nodes[i].attrs, f_.type(f_.nodes[i].operands[0]).dtype}; }

  // A sum waits in the open bucket of its kind.
  void wait(size_t i) {
    auto open = std::find_if(buckets_.begin(), buckets_.end(),
                             [&](const Bucket& b) { return !b.nodes.empty() && b.kind == kind(i); });
    if (open == buckets_.end()) open = buckets_.insert(buckets_.end(), {kind(i), {}, 0});
    auto at = static_cast<size_t>(open - buckets_.begin());
    open->nodes.push_back(i);
    open->bytes += bytes_of(f_, f_.nodes[i].operands[0]);
    bucket_of_[f_.nodes[i].results[0]] = static_cast<int>(at);
    if (open->bytes >= (closed_ == 0 ? first_ : most_)) close(at);
  }
  // Whoever reads a value that waits ends the wait.
  void need(ValueId id) {
    if (bucket_of_[id] >= 0) close(static_cast<size_t>(bucket_of_[id]));
  }
  void close(size_t at) {
    std::vector<size_t> nodes = std::exchange(buckets_[at].nodes, {});
    buckets_[at].bytes = 0;
    if (nodes.empty()) return;
    ++closed_;
    for (size_t i : nodes) bucket_of_[f_.nodes[i].results[0]] = -1;
    emit(nodes);
  }

  // A gather takes along those after it whose operands are there.
  void gather(size_t i) {
    std::vector<size_t> nodes = {i};
    int64_t bytes = bytes_of(f_, f_.nodes[i].results[0]);
    for (size_t k = i + 1; k < f_.nodes.size() && bytes < most_; ++k) {
      const Node& n = f_.nodes[k];
      if (made_[k] || !eligible(n) || !(kind(k) == kind(i)) || !is_there(n.operands[0])) continue;
      bytes += bytes_of(f_, n.results[0]);
      if (bytes <= most_) nodes.push_back(k);
    }
    emit(nodes);
  }
  bool is_there(ValueId id) const { return makers_[id] < 0 || made_[static_cast<size_t>(makers_[id])]; }

  void copy(size_t i) {
    made_[i] = true;
    const Node& n = f_.nodes[i];
    b_.set_location(n.location);
    copy_.copy(n);
  }

  // The nodes as one. Values lie side by side along the last of two dimensions, of which the first is that of the
  // ranks.
  void emit(const std::vector<size_t>& nodes) {
    if (nodes.size() == 1) return copy(nodes[0]);
    const Node& first = f_.nodes[nodes[0]];
    b_.set_location(first.location);
    bool scatter = first.op->name == "reduce_scatter";
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
  FunctionCopy copy_;
  ir::FunctionBuilder& b_;
  int64_t most_, first_;
  int closed_ = 0;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;  // by value
  std::vector<int> makers_;
  std::vector<bool> made_;  // by node
};

}  // namespace

Result<ir::Module> bucket_collectives(const ir::Module& module, PassContext& context) {
  int64_t most = NABLA_TRY(bytes_option(context, "bucket-bytes")).value_or(0);
  int64_t first = NABLA_TRY(bytes_option(context, "first-bucket-bytes")).value_or(most);
  ir::Module out = module;
  for (ir::FunctionPtr& f : out.functions) {
    auto communicates = [](const Node& n) { return n.op->lower == ir::Lowering::kCollective; };
    if (most == 0 || std::count_if(f->nodes.begin(), f->nodes.end(), communicates) < 2) continue;
    ScopedActivity activity("bucket-collectives on @" + f->name);
    f = Bucketing(*f, module, context.ops, most, std::min(first, most)).run();
  }
  return out;
}

}  // namespace nabla::passes

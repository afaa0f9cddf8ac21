// Sums of which every rank reads its own part.
#include <algorithm>
#include <optional>

#include "passes/collective/collectives.h"
#include "passes/collective/rank_sections.h"
#include "passes/rewrite.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {
namespace {

using ir::Axes;
using ir::Dim;
using ir::Node;
using ir::ValueId;

/// The part at the rank's own place along some of the axes.
struct OwnPart {
  int64_t dim;
  Axes axes;
  bool operator==(const OwnPart&) const = default;
};

/// One function's sums.
class Creation {
 public:
  Creation(const ir::Function& f, const ir::Mesh& mesh, const RankSymbols& rank) : f_(f), mesh_(mesh), rank_(rank) {
    users_.resize(f.values.size());
    for (const Node& n : f.nodes)
      for (ValueId id : n.operands) users_[id].push_back(&n);
    for (ValueId id : f.results) users_[id].push_back(nullptr);
  }

  /// What all users of the sum read, if it is one part of each rank; also of what it is converted to.
  std::optional<OwnPart> part_of_users(const Node& sum) const { return part_of_users(sum.results[0], sum.attrs.get_axes("axes")); }
  /// Adds the value, and those to which it is converted, with their part.
  void add(ValueId id, const OwnPart& part, std::map<ValueId, OwnPart>& out) const {
    out.emplace(id, part);
    for (const Node* user : users_[id])
      if (user->op->form == ir::OpForm::kConvert) add(user->results[0], part, out);
  }

 private:
  std::optional<OwnPart> part_of_users(ValueId id, const Axes& axes) const {
    std::optional<OwnPart> out;
    for (const Node* user : users_[id]) {
      std::optional<OwnPart> part = !user                         ? std::nullopt
                                    : user->op->form == ir::OpForm::kConvert ? part_of_users(user->results[0], axes)
                                                                  : own_part(*user, axes);
      if (!part || (out && !(*out == *part))) return std::nullopt;
      out = std::move(part);
    }
    return out;
  }
  // Is the node a section at coordinate(axes) * size, for the axes of the sum in some order?
  std::optional<OwnPart> own_part(const Node& n, Axes axes) const {
    if (n.op->form != ir::OpForm::kSection) return std::nullopt;
    int64_t dim = n.attrs.get_int("axis");
    const ir::Shape& range = n.attrs.get_shape("range");
    const Dim& whole = f_.type(n.operands[0]).shape[static_cast<size_t>(dim)];
    if (!(range[1] * shards(mesh_, axes) == whole)) return std::nullopt;
    auto by_name = [](const ir::AxisRef& a, const ir::AxisRef& b) {
      return std::pair(a.name, a.before) < std::pair(b.name, b.before);
    };
    std::sort(axes.begin(), axes.end(), by_name);
    do {
      if (rank_.coordinate(axes) * range[1] == range[0]) return OwnPart{dim, axes};
    } while (std::next_permutation(axes.begin(), axes.end(), by_name));
    return std::nullopt;
  }

  const ir::Function& f_;
  const ir::Mesh& mesh_;
  const RankSymbols& rank_;
  std::vector<std::vector<const Node*>> users_;  // null: a result of the function
};

bool is_shared_sum(const Node& n) { return ir::is_collective(n, CollectiveKind::kAllReduce) && n.attrs.get_int("shards") > 1; }

}  // namespace

Result<ir::Module> create_reduce_scatters(const ir::Module& module, PassContext& context) {
  if (!module.mesh()) return module;
  ir::Module out = module;
  RankSymbols rank(*module.mesh());
  for (ir::FunctionPtr& f : out.functions) {
    if (std::none_of(f->nodes.begin(), f->nodes.end(), is_shared_sum)) continue;
    ir::FunctionPtr cut = with_rank_sections(f, rank, module, context.ops);
    Creation creation(*cut, *module.mesh(), rank);
    std::map<ValueId, OwnPart> parts;  // by sum
    for (const Node& n : cut->nodes)
      if (is_shared_sum(n))
        if (std::optional<OwnPart> part = creation.part_of_users(n)) creation.add(n.results[0], *part, parts);
    if (parts.empty()) continue;
    FunctionCopy copy(*cut, context.ops, &module);
    for (const Node& n : cut->nodes) {
      copy.builder().set_location(n.location);
      auto sum = is_shared_sum(n) ? parts.find(n.results[0]) : parts.end();
      auto section = n.op->form == ir::OpForm::kSection ? parts.find(n.operands[0]) : parts.end();
      if (sum != parts.end()) {
        ir::Attrs attrs = n.attrs;
        attrs.set("axes", sum->second.axes);
        attrs.set("dim", sum->second.dim);
        copy.set(n.results[0], copy.builder().op("reduce_scatter", {copy.at(n.operands[0])}, attrs));
      } else if (section != parts.end()) {
        copy.set(n.results[0], copy.at(n.operands[0]));
      } else {
        copy.copy(n);
      }
    }
    f = copy.finish();
  }
  return out;
}

}  // namespace nabla::passes

// Equal nodes are computed once.
#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>

#include "passes/rewrite.h"
#include "passes/simplify/simplify.h"

namespace nabla::passes {
namespace {

using ir::FunctionPtr;
using ir::Node;
using ir::ValueId;

constexpr size_t kLiteralBytes = 64;  // equal long literals differ rarely after these: the caller compares them anyway

struct Hasher {
  size_t value = 1469598103934665603u;  // FNV-1a, by words

  void add(size_t word) { value = (value ^ word) * 1099511628211u; }
  void add(std::string_view text) { add(std::hash<std::string_view>{}(text)); }

  void operator()(bool x) { add(x); }
  void operator()(int64_t x) { add(static_cast<size_t>(x)); }
  void operator()(double x) { add(std::hash<double>{}(x)); }  // 0.0 and -0.0 are equal, and have one hash
  void operator()(const std::string& x) { add(x); }
  void operator()(DType x) { add(static_cast<size_t>(x)); }
  void operator()(const ir::Ints& list) {
    for (int64_t x : list) add(static_cast<size_t>(x));
  }
  void operator()(const ir::Shape& shape) {
    for (const ir::Dim& d : shape) d.is_static() ? add(static_cast<size_t>(d.value())) : add(d.str());
  }
  void operator()(const ir::FunctionRef& f) { add(f.name); }
  void operator()(const Literal& x) {
    add(static_cast<size_t>(x.dtype()));
    (*this)(x.shape());
    add(std::string_view(static_cast<const char*>(x.data()), std::min<size_t>(x.size_bytes(), kLiteralBytes)));
  }
  void operator()(const ir::FunctionRefs& list) {
    for (const ir::FunctionRef& f : list) add(f.name);
  }
  void operator()(const ir::Axes& axes) { add(str(axes)); }
  void operator()(const ir::Sharding& sharding) { add(sharding.str()); }
  void operator()(const ir::Shardings& list) {
    for (const ir::Sharding& s : list) add(s.str());
  }
};

// Equal attributes have equal hashes. Of a literal only the type and the first bytes are read.
size_t hash_of(const ir::Attrs& attrs) {
  Hasher hasher;
  for (const auto& [name, attr] : attrs) {
    hasher.add(name);
    hasher.add(attr.index());
    std::visit([&](const auto& x) { hasher(x); }, attr);
  }
  return hasher.value;
}

FunctionPtr merged(const FunctionPtr& f, const ir::Module& module, const ir::OpTable& ops) {
  FunctionCopy copy(*f, ops, &module);
  using Key = std::tuple<const ir::OpDef*, std::vector<ValueId>, size_t>;
  std::map<Key, std::vector<const Node*>> seen;  // by op, operands and hash of attributes
  bool changed = false;
  for (const Node& node : f->nodes) {
    if (node.op->traits.fence || ir::has_effect(node, module)) {
      copy.copy(node);
      continue;
    }
    std::vector<ValueId> operands;
    for (ir::Val v : copy.at(node.operands)) operands.push_back(v.id);
    if (node.op->traits.commutative) std::sort(operands.begin(), operands.end());
    std::vector<const Node*>& equal = seen[{node.op, std::move(operands), hash_of(node.attrs)}];
    auto twin = std::find_if(equal.begin(), equal.end(), [&](const Node* n) { return n->attrs == node.attrs; });
    if (twin == equal.end()) {
      copy.copy(node);
      equal.push_back(&node);
      continue;
    }
    copy.set(node.results, copy.at((*twin)->results));
    changed = true;
  }
  return changed ? copy.finish() : f;
}

}  // namespace

Result<ir::Module> merge_common_subexpressions(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (FunctionPtr& f : out.functions) f = merged(f, out, context.ops);
  return out;
}

Result<ir::Module> eliminate_dead_code(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  for (FunctionPtr& f : out.functions) f = without_dead_nodes(f, out, context.ops);
  return out;
}

}  // namespace nabla::passes

#include "passes/shard/parts.h"

#include <algorithm>

#include "ir/op_def.h"
#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

// Dimension `from` moves to `to`; the others keep their order.
ir::Val moved(ir::Val v, int64_t from, int64_t to) {
  ir::Ints order = ir::iota_ints(v.rank());
  order.erase(order.begin() + from);
  order.insert(order.begin() + to, from);
  return from == to ? v : ir::transpose(v, order);
}

}  // namespace

ir::Val parts_first(ir::Val v, int64_t dim, int64_t count) {
  ir::Shape shape = v.shape();
  shape[dim] = ir::Dim::floordiv(shape[dim], count);
  shape.insert(shape.begin() + dim, count);
  return moved(ir::reshape(v, shape), dim, 0);
}

ir::Val parts_joined(ir::Val v, int64_t dim) {
  v = moved(v, 0, dim);
  ir::Shape shape = v.shape();
  shape[dim] = shape[dim] * shape[dim + 1];
  shape.erase(shape.begin() + dim + 1);
  return ir::reshape(v, shape);
}

std::optional<Diagnostic> check_gathered(const ir::Function& f, const ir::Node& n, ir::ValueId id, const std::string& why,
                                         int64_t most) {
  int64_t all = f.type(id).bytes().bounds().max;
  if (all <= most) return std::nullopt;
  std::string name = ir::value_name(f, id);
  Diagnostic d = error(Code::kOverBudget, "{} {}: {} would be gathered, {} bytes on every rank, at most {} are allowed", n.op->name,
                       why, name, all, most);
  d.location = n.location;
  d.notes.push_back(ir::describe_value(f, id));
  d.help = fmt::format("lay {} out along other dimensions before it, or raise {}", name, OptionName{"max-gather-bytes"});
  return d;
}

std::optional<Literal> uniform(const Literal& value, const std::vector<int64_t>& shape) {
  const auto* bytes = static_cast<const char*>(value.data());
  int64_t width = bytes_of(value.dtype());
  if (value.size() == 0) return std::nullopt;
  for (int64_t i = 1; i < value.size(); ++i)
    if (!std::equal(bytes, bytes + width, bytes + i * width)) return std::nullopt;
  Literal out = Literal::uninitialized(value.dtype(), shape);
  auto* to = static_cast<char*>(out.mutable_data());
  for (int64_t i = 0; i < out.size(); ++i) std::copy_n(bytes, width, to + i * width);
  return out;
}

}  // namespace nabla::passes

#include "passes/shard/separable_positions.h"

#include <algorithm>

#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Dim;
using ir::Node;
using ir::Shape;
using ir::Val;

bool depends_on(const Dim& d, const std::string& axis) {
  const auto symbols = d.symbols();
  return std::any_of(symbols.begin(), symbols.end(), [&](const ir::SymbolRef& s) { return s->axis == axis; });
}

/// first + number * step, with the microbatch's number.
struct Place {
  Dim first;
  ir::SymbolRef number;
  int64_t step;
};
std::optional<Place> place_of(const Dim& begin, const std::string& axis) {
  const auto symbols = begin.symbols();
  for (const ir::SymbolRef& s : symbols) {
    if (s->axis != axis) continue;
    auto at = [&](int64_t number) {
      return begin.substitute([&](const ir::SymbolRef& of) { return of->axis == axis ? Dim(number) : Dim::symbol(of); });
    };
    Dim step = at(1) - at(0);
    if (step.is_static() && at(0) + Dim::symbol(s) * step == begin) return Place{at(0), s, step.value()};
  }
  return std::nullopt;
}

// The number of the microbatch: the one position in a part of one element.
Val number_of(ir::FunctionBuilder& b, const ir::MeshAxis& axis, const ir::SymbolRef& number) {
  ir::Attrs attrs{{"shape", Shape{1}},
                  {"axis", int64_t{0}},
                  {"dtype", DType::kI64},
                  {"offset", Shape{Dim::symbol(number)}},
                  {"whole", Shape{axis.size}}};
  return ir::reshape(b.op("iota", {}, attrs), {});
}

Val iota(ir::FunctionBuilder& b, const Node& n, const ir::MeshAxis& axis) {
  ir::Attrs attrs = n.attrs;
  Shape offset = attrs.get_shape("offset"), whole = attrs.get_shape("whole");
  const Shape& shape = attrs.get_shape("shape");
  auto along = static_cast<size_t>(attrs.get_int("axis"));
  for (size_t d = 0; d < offset.size(); ++d)
    if (d != along && depends_on(offset[d], axis.name)) offset[d] = 0, whole[d] = shape[d];
  attrs.set("whole", whole);
  std::optional<Place> place = offset.empty() ? std::nullopt : place_of(offset[along], axis.name);
  if (place && !(shape[along] == Dim(place->step))) {
    offset[along] = place->first;
    attrs.set("offset", offset), attrs.set("dtype", DType::kI64);
    Val number = number_of(b, axis, place->number);
    Val behind = number * b.constant(Literal::scalar_int(DType::kI64, place->step));
    Val all = b.op("iota", {}, attrs) + ir::broadcast_in_dim(behind, shape, {});
    return ir::convert(all, n.attrs.get_dtype("dtype"));
  }
  attrs.set("offset", offset);
  return b.op("iota", {}, attrs);
}

bool is_placed(const Node& n, const std::string& axis) {
  if (n.op->form != ir::OpForm::kIota) return false;
  const Shape& offset = n.attrs.get_shape("offset");
  return std::any_of(offset.begin(), offset.end(), [&](const Dim& d) { return depends_on(d, axis); });
}

}  // namespace

ir::FunctionPtr with_separable_positions(const ir::FunctionPtr& f, const ir::MeshAxis& axis, const ir::Module& module,
                                         const ir::OpTable& ops) {
  if (std::none_of(f->nodes.begin(), f->nodes.end(), [&](const Node& n) { return is_placed(n, axis.name); })) return f;
  FunctionCopy copy(*f, ops, &module);
  for (const Node& n : f->nodes) {
    copy.builder().set_location(n.location);
    if (is_placed(n, axis.name))
      copy.set(n.results[0], iota(copy.builder(), n, axis));
    else
      copy.copy(n);
  }
  return copy.finish();
}

}  // namespace nabla::passes

#include "ir/kernel_ir/fragment.h"

#include <limits>

#include "ir/kernel_ir/text.h"
#include "runtime/base/check.h"

namespace nabla::kernel_ir {
namespace {
struct CombinerRow {
  std::string_view name, scalar;
};
constexpr CombinerRow kCombiners[] = {{"none", ""},       {"sum", "add"}, {"prod", "mul"}, {"max", "maximum"},
                                      {"min", "minimum"}, {"and", "and"}, {"or", "or"}};

int64_t lowest_int(DType d) {
  if (d == DType::kBool || is_unsigned(d)) return 0;
  return d == DType::kI64 ? INT64_MIN : -(int64_t{1} << (8 * bytes_of(d) - 1));
}
int64_t highest_int(DType d) {
  if (d == DType::kBool) return 1;
  if (is_unsigned(d)) return d == DType::kU64 ? -1 : (int64_t{1} << (8 * bytes_of(d))) - 1;
  return d == DType::kI64 ? INT64_MAX : (int64_t{1} << (8 * bytes_of(d) - 1)) - 1;
}
}  // namespace

std::string_view name_of(Combiner c) { return kCombiners[static_cast<int>(c)].name; }
std::string_view scalar_of(Combiner c) { return kCombiners[static_cast<int>(c)].scalar; }

std::optional<Combiner> combiner_from_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kCombiners); ++i)
    if (kCombiners[i].name == name) return static_cast<Combiner>(i);
  return std::nullopt;
}

Expr identity_of(Combiner combiner, DType dtype) {
  bool f = is_float(dtype);
  double inf = std::numeric_limits<double>::infinity();
  switch (combiner) {
    case Combiner::kSum:
      return constant_int(dtype, 0);
    case Combiner::kProd:
      return constant_int(dtype, 1);
    case Combiner::kMax:
      return f ? constant(dtype, -inf) : constant_int(dtype, lowest_int(dtype));
    case Combiner::kMin:
      return f ? constant(dtype, inf) : constant_int(dtype, highest_int(dtype));
    case Combiner::kAnd:
      return constant_int(dtype, -1);
    case Combiner::kOr:
      return constant_int(dtype, 0);
    case Combiner::kNone:
      break;
  }
  NABLA_CHECK(false, "no identity of {}", name_of(combiner));
  return {};
}

int Fragment::add_axis(std::string name, ir::Dim extent) {
  axes.push_back({std::move(name), std::move(extent)});
  return static_cast<int>(axes.size()) - 1;
}

std::vector<int> Fragment::add_axes(std::string_view prefix, const ir::Shape& shape) {
  std::vector<int> out;
  for (size_t i = 0; i < shape.size(); ++i) out.push_back(add_axis(std::string(prefix) + std::to_string(i), shape[i]));
  return out;
}

int Fragment::map(std::string name, DType dtype, std::vector<int> over, Expr value) {
  return reduce(std::move(name), dtype, std::move(over), Combiner::kNone, {}, std::move(value));
}

int Fragment::reduce(std::string name, DType dtype, std::vector<int> own, Combiner combiner, std::vector<int> over,
                     Expr value) {
  NABLA_CHECK(value->dtype == dtype, "definition {} is {}, its value {}", name, name_of(dtype), name_of(value->dtype));
  Definition d;
  d.name = std::move(name);
  d.dtype = dtype;
  d.axes = std::move(own);
  d.combiner = combiner;
  d.reduce = std::move(over);
  d.value = std::move(value);
  definitions.push_back(std::move(d));
  return static_cast<int>(definitions.size()) - 1;
}

void Fragment::opaque(std::string name, const ir::Type& type) {
  Definition d;
  d.name = std::move(name);
  d.dtype = type.dtype;
  d.axes = add_axes(d.name, type.shape);
  results.push_back(static_cast<int>(definitions.size()));
  definitions.push_back(std::move(d));
}

Expr Fragment::at(int d) const { return at(d, axes_as_indices(definitions[d].axes)); }
Expr Fragment::at(int d, std::vector<Expr> indices) const { return value(definitions[d].dtype, d, std::move(indices)); }

std::vector<Expr> axes_as_indices(const std::vector<int>& axes) {
  std::vector<Expr> out;
  for (int a : axes) out.push_back(axis(a));
  return out;
}

std::string Fragment::str() const {
  ExprNames names;
  names.axis = [&](int a) { return axes[a].name; };
  names.tensor = [](int t) { return "in" + std::to_string(t); };
  names.value = [&](int v) { return definitions[v].name; };
  auto list = [&](const std::vector<int>& ids) {
    std::string s;
    for (int a : ids) s += (s.empty() ? "" : ", ") + axes[a].name;
    return s;
  };
  std::string out;
  for (const Definition& d : definitions) {
    out += fmt::format("{}[{}]: {} = ", d.name, list(d.axes), name_of(d.dtype));
    if (!d.value) {
      out += std::string(procedure->def->name) + "\n";
      continue;
    }
    if (d.combiner != Combiner::kNone && !d.scatter) out += fmt::format("{}({}) ", name_of(d.combiner), list(d.reduce));
    out += to_text(d.value, names);
    if (d.scatter) {
      std::string at;
      for (const Expr& i : d.indices) at += (at.empty() ? "" : ", ") + to_text(i, names);
      out += fmt::format("; over {}: [{}] {}= {}", list(d.update_axes), at,
                         d.combiner == Combiner::kNone ? "" : name_of(d.combiner), to_text(d.update, names));
    }
    out += "\n";
  }
  return out;
}

}  // namespace nabla::kernel_ir

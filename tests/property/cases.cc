#include "tests/property/cases.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::property {
namespace {

uint64_t hash_name(std::string_view text) {
  uint64_t h = 14695981039346656037ull;
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return h;
}

std::vector<DType> dtypes_of(const ir::OpDef& op, Precision precision) {
  if (precision == Precision::kF64Only) return {DType::kF64};
  std::vector<DType> floats = {DType::kF32, DType::kF64, DType::kF16, DType::kBF16};
  std::vector<DType> out = op.dtypes == ir::DTypes::kAsWritten ? std::vector<DType>{DType::kF32} : floats;
  if (op.dtypes == ir::DTypes::kNumeric || op.dtypes == ir::DTypes::kAll)
    for (DType d : {DType::kI32, DType::kI8, DType::kU64}) out.push_back(d);
  if (op.dtypes == ir::DTypes::kAll) out.push_back(DType::kBool);
  return out;
}

// f32 stands for `dtype`. In the f64 mode every float does.
DType replaced(DType from, DType dtype, Precision precision) {
  if (precision == Precision::kF64Only) return is_float(from) ? DType::kF64 : from;
  return from == DType::kF32 ? dtype : from;
}

ir::Example replaced(ir::Example e, DType dtype, Precision precision) {
  for (ir::Operand& o : e.operands) o.type.dtype = replaced(o.type.dtype, dtype, precision);
  ir::Attrs attrs = e.attrs;
  for (const auto& [name, attr] : e.attrs) {
    if (const DType* d = std::get_if<DType>(&attr)) attrs.set(name, replaced(*d, dtype, precision));
    const Literal* literal = std::get_if<Literal>(&attr);
    if (literal) attrs.set(name, literal->converted(replaced(literal->dtype(), dtype, precision)));
  }
  e.attrs = attrs;
  DType of_f32 = replaced(DType::kF32, dtype, precision);
  for (size_t at = 0; (at = e.functions.find("f32", at)) != std::string::npos; at += name_of(of_f32).size())
    e.functions.replace(at, 3, name_of(of_f32));
  return e;
}

bool mentions_f32(const ir::Example& e) {
  for (const ir::Operand& o : e.operands)
    if (o.type.dtype == DType::kF32) return true;
  for (const auto& [name, attr] : e.attrs)
    if (const DType* d = std::get_if<DType>(&attr); d && *d == DType::kF32) return true;
  return false;
}

void append(std::vector<Case>& cases, const ir::OpDef& op, ir::Example e, std::string label, bool may_refuse) {
  Result<ir::Attrs> attrs = ir::complete_attrs(op, e.attrs);
  std::vector<ir::Type> types;
  for (const ir::Operand& o : e.operands) types.push_back(o.type);
  std::string what = label;
  for (const ir::Type& t : types) what += " " + t.str();
  if (!attrs.ok()) {
    ADD_FAILURE() << op.name << " " << what << ": " << to_string(attrs.errors());
    return;
  }
  ir::Module module = module_of(e.functions);
  Result<std::vector<ir::Type>> results = ir::infer_types(op, types, *attrs, lookup_in(module));
  if (!results.ok()) {
    if (may_refuse) return;
    ADD_FAILURE() << op.name << " " << what << describe(*attrs) << ": " << to_string(results.errors());
    return;
  }
  uint64_t seed = hash_name(op.name + label);
  cases.push_back({&op, std::move(label), std::move(e.operands), *attrs, std::move(module), *results, seed});
}

double awkward_value(DType dtype, ir::Rng& rng) {
  double inf = std::numeric_limits<double>::infinity();
  double tiny = dtype == DType::kF64 ? 1e-310 : dtype == DType::kF32 || dtype == DType::kBF16 ? 1e-40 : 1e-7;
  double values[] = {std::nan(""), inf, -inf, -0.0, 0.0, tiny, -tiny, 1.0};
  return values[rng() % std::size(values)];
}

// Its number from 1 where element i lies on the diagonal of the last two dimensions, else 0.
double diagonal_place(const std::vector<int64_t>& shape, int64_t i) {
  if (shape.size() < 2) return 0;
  int64_t columns = shape.back(), row = i / columns % shape[shape.size() - 2];
  return row == i % columns ? static_cast<double>(row + 1) : 0;
}

}  // namespace

std::vector<ir::Type> Case::types() const {
  std::vector<ir::Type> out;
  for (const ir::Operand& o : operands) out.push_back(o.type);
  return out;
}

std::vector<Literal> Case::values(bool awkward) const {
  ir::Rng rng(seed);
  std::vector<Literal> out;
  for (const ir::Operand& o : operands) out.push_back(draw_literal(o, rng, awkward));
  return out;
}

std::string Case::str() const {
  std::string out = op->name + ", " + label + ":";
  for (const ir::Operand& o : operands) out += " " + o.type.str();
  return out + describe(attrs);
}

std::string describe(const ir::Attrs& attrs) {
  std::string out;
  for (const auto& [name, attr] : attrs) {
    out += fmt::format(" {}=", name);
    if (const auto* b = std::get_if<bool>(&attr)) out += *b ? "true" : "false";
    if (const auto* i = std::get_if<int64_t>(&attr)) out += std::to_string(*i);
    if (const auto* f = std::get_if<double>(&attr)) out += fmt::format("{}", *f);
    if (const auto* s = std::get_if<std::string>(&attr)) out += *s;
    if (const auto* d = std::get_if<DType>(&attr)) out += name_of(*d);
    if (const auto* list = std::get_if<ir::Ints>(&attr)) out += shape_str(*list);
    if (const auto* shape = std::get_if<ir::Shape>(&attr)) out += ir::str(*shape);
    if (const auto* literal = std::get_if<Literal>(&attr)) out += literal->str(4);
    for (const std::string& f : ir::functions_of(attr)) out += "@" + f;
  }
  return out;
}

ir::Shard whole_shard(const ir::TypedOp& op, const ir::Factors& factors) {
  ir::Shard out{op, factors, std::vector<ir::Dim>(factors.factors.size(), 0), {}};
  for (const ir::Factors::Factor& f : factors.factors) out.sizes.push_back(f.size);
  return out;
}

bool takes_function(const ir::OpDef& op) {
  return std::any_of(op.attrs.begin(), op.attrs.end(), [](const ir::AttrDef& a) {
    return a.kind == ir::AttrKind::kFunction || a.kind == ir::AttrKind::kFunctions;
  });
}

ir::Module module_of(const std::string& functions) {
  Result<ir::Module> module = ir::parse_module("nabla 1 flat\n" + functions, "example", ops::all_ops());
  if (!module.ok()) ADD_FAILURE() << to_string(module.errors()) << "\n" << functions;
  return module.ok() ? *module : ir::Module{};
}

ir::FunctionLookup lookup_in(const ir::Module& module) {
  return [&module](std::string_view name) { return module.find(name); };
}

Literal draw_literal(const ir::Operand& operand, ir::Rng& rng, bool awkward) {
  DType dtype = operand.type.dtype;
  Literal out(dtype, operand.type.extents());
  const ir::ValueSpec& spec = operand.values;
  std::vector<int64_t> order(out.size());
  for (int64_t i = 0; i < out.size(); ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), rng);
  double step = std::max(0.0625, (spec.high - spec.low) / static_cast<double>(std::max<int64_t>(out.size(), 1)));
  for (int64_t i = 0; i < out.size(); ++i) {
    double unit = static_cast<double>(rng() >> 11) * 0x1p-53;
    if (is_float(dtype)) {
      double value = spec.low + unit * (spec.high - spec.low);
      if (spec.distinct) value = spec.low + (static_cast<double>(order[i]) + 0.5) * step;
      value += spec.diagonal * diagonal_place(out.shape(), i);
      if (awkward && spec.awkward && rng() % 4 == 0) value = awkward_value(dtype, rng);
      out.set(i, value);
      continue;
    }
    double low = std::ceil(spec.low), high = std::floor(spec.high);
    if (is_unsigned(dtype) || dtype == DType::kBool) low = std::max(low, 0.0);
    if (dtype == DType::kBool) high = 1;
    int64_t span = std::max<int64_t>(static_cast<int64_t>(high - low), 0) + 1;
    int64_t offset =
        spec.distinct && span <= out.size() ? order[i] : static_cast<int64_t>(unit * static_cast<double>(span));
    out.set_i(i, static_cast<int64_t>(low) + offset);
  }
  return out;
}

std::vector<Case> cases_of(const ir::OpDef& op, int draws, Precision precision) {
  std::vector<Case> out;
  std::vector<DType> dtypes = dtypes_of(op, precision);
  // Where dtypes are as written, f64 for every float may be refused: a bitcast whose sizes no longer agree.
  bool may_refuse = op.dtypes == ir::DTypes::kAsWritten && precision == Precision::kF64Only;
  for (size_t i = 0; i < op.examples.size(); ++i) {
    bool varies = mentions_f32(op.examples[i]) || precision == Precision::kF64Only;
    std::vector<DType> here = varies ? dtypes : std::vector<DType>{DType::kF32};
    if (precision == Precision::kSome && i > 0 && here.size() > 2) here = {here[0], here[1 + i % (here.size() - 1)]};
    for (DType dtype : here)
      append(out, op, replaced(op.examples[i], dtype, precision), fmt::format("example {} as {}", i, name_of(dtype)),
             may_refuse);
  }
  ir::Rng rng(hash_name(op.name));
  for (int i = 0; i < draws && op.draw; ++i) {
    DType dtype = dtypes[rng() % dtypes.size()];
    append(out, op, replaced(op.draw(rng), dtype, precision), fmt::format("draw {} as {}", i, name_of(dtype)),
           may_refuse);
  }
  return out;
}

bool is_narrow(const Case& c) {
  return std::any_of(c.operands.begin(), c.operands.end(),
                     [](const auto& o) { return is_float(o.type.dtype) && bytes_of(o.type.dtype) < 4; });
}

void copy_element(Literal& to, int64_t i, const Literal& from, int64_t j) {
  if (is_float(from.dtype()))
    to.set(i, from.get(j));
  else
    to.set_i(i, from.get_i(j));
}

}  // namespace nabla::property

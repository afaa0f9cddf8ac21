#include "frontend/cpp/emit.h"

#include <algorithm>
#include <cmath>

#include "frontend/cpp/convenience.h"
#include "frontend/cpp/frame.h"
#include "frontend/cpp/ops.h"
#include "ir/op_def.h"
#include "ir/ops/all_ops.h"

namespace nabla {
namespace {

thread_local Site outer_site;
thread_local bool has_outer_site = false;

// The dtype of a number among these operands: that of the tensors it meets.
DType number_dtype(const Arg& number, const std::vector<Arg>& operands, bool elementwise, const Site& site) {
  bool only_bool = true;
  const Tensor* first = nullptr;
  for (const Arg& a : operands) {
    if (!a.is_tensor()) continue;
    bool is_bool = a.tensor().dtype() == DType::kBool;
    if (!first || (only_bool && !is_bool)) first = &a.tensor();
    only_bool = only_bool && is_bool;
  }
  DType own = number.kind() == Arg::Kind::kBool ? DType::kBool : number.kind() == Arg::Kind::kInt ? i32 : f32;
  if (!first || (only_bool && own != DType::kBool)) return own;
  DType dtype = first->dtype();
  // A count beside floating operands, such as the step of an optimizer.
  if (!elementwise && number.kind() == Arg::Kind::kInt && !is_integer(dtype)) return i32;
  bool whole = number.number() == std::floor(number.number());
  if (!is_float(dtype) && !whole)
    throw error_at(site, Code::kDTypeMismatch, "the number {} does not fit an operand of dtype {}", number.number(),
                   name_of(dtype));
  return dtype;
}

// The shape that all operands broadcast to, or nullopt when they do not fit: the op's own check says so then.
std::optional<Shape> common_shape(const std::vector<ir::Val>& operands) {
  Shape out;
  for (ir::Val v : operands) {
    const Shape& s = v.shape();
    if (s.size() > out.size()) out.insert(out.begin(), s.size() - out.size(), ir::Dim(1));
    size_t offset = out.size() - s.size();
    for (size_t i = 0; i < s.size(); ++i) {
      ir::Dim& d = out[offset + i];
      if (s[i].is(1) || d == s[i]) continue;
      if (!d.is(1)) return std::nullopt;
      d = s[i];
    }
  }
  return out;
}

// Inside of a region shapes are those of a rank's parts, which its author may have taken for those of the arrays.
Diagnostic with_parts(Diagnostic d) {
  for (const Frame* f = Frame::current().get(); f && d.code == Code::kShapeMismatch; f = f->parent.get())
    d.notes.insert(d.notes.end(), f->parts.begin(), f->parts.end());
  return d;
}

// Throws E0203 where two shapes have known sizes in one place that differ, and neither is 1.
void refuse_shapes(std::string_view op, const std::vector<ir::Val>& operands, const Site& site) {
  for (size_t a = 0; a < operands.size(); ++a)
    for (size_t b = a + 1; b < operands.size(); ++b) {
      const Shape &x = operands[a].shape(), &y = operands[b].shape();
      for (size_t i = 1; i <= std::min(x.size(), y.size()); ++i) {
        const ir::Dim &m = x[x.size() - i], &n = y[y.size() - i];
        if (!m.is_static() || !n.is_static() || m == n || m.is(1) || n.is(1)) continue;
        Error e = error_at(site, Code::kShapeMismatch, "{}: shapes {} and {} do not broadcast: {} and {} in {}", op,
                           ir::str(x), ir::str(y), m.str(), n.str(),
                           i == 1 ? "the last dimension" : fmt::format("dimension {} from the end", i));
        Diagnostic d = e.diagnostics()[0];
        d.help = "sizes must be equal, or 1, counted from the last dimension: reshape or transpose one of the two";
        throw Error(with_parts(std::move(d)));
      }
    }
}

ir::Val broadcast_to(ir::Val v, const Shape& shape) {
  if (v.shape() == shape) return v;
  Ints dims;
  for (size_t i = shape.size() - v.shape().size(); i < shape.size(); ++i) dims.push_back(static_cast<int64_t>(i));
  return ir::broadcast_in_dim(v, shape, dims);
}

}  // namespace

AtSite::AtSite(const Site& site) : outermost_(!has_outer_site) {
  if (!outermost_) return;
  outer_site = site;
  has_outer_site = true;
}

AtSite::~AtSite() {
  if (outermost_) has_outer_site = false;
}

Tensor root_of_squares(const Tensor& sum) {
  Tensor zero = zeros_like(sum), none = eq(sum, zero);
  return select(none, zero, sqrt(select(none, zero + 1, sum)));
}

Tensor widened(const Arg& x) {
  const Tensor& t = x.tensor();
  return is_float(t.dtype()) && bytes_of(t.dtype()) < 4 ? in_dtype(t, DType::kF32) : t;
}

Tensor in_dtype(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return emit("convert", {x}, {{"dtype", dtype}}, Site::here())[0];
}

int64_t counted_from_end(int64_t axis, const Arg& x) {
  return axis < 0 && x.is_tensor() ? axis + x.tensor().rank() : axis;
}

Ints counted_from_end(Ints axes, const Arg& x) {
  for (int64_t& axis : axes) axis = counted_from_end(axis, x);
  return axes;
}

Ints all_axes(const Tensor& x) { return ir::iota_ints(x.rank()); }

const Tensor& need_tensor(const Arg& x, const char* function) {
  if (!x.is_tensor()) throw error_at(x.site(), Code::kMisuse, "{}: the operand is a number", function);
  return x.tensor();
}

const Tensor& need_rank(const Arg& x, int rank, const char* function) {
  if (need_tensor(x, function).rank() != rank)
    throw error_at(x.site(), Code::kShapeMismatch, "{}: the operand must have rank {}, got {}", function, rank, x.tensor().type().str());
  return x.tensor();
}

std::vector<Tensor> emit(std::string_view op, const std::vector<Arg>& operands, ir::Attrs attrs, Site site) {
  for (const Arg& a : operands)
    if (a.is_tensor() && a.site().line > 0) {
      site = a.site();
      break;
    }
  if (has_outer_site) site = outer_site;
  std::shared_ptr<Frame> frame = Frame::current();
  if (!frame) throw error_at(site, Code::kMisuse, "{} is called outside of a traced function", op);
  ir::FunctionBuilder& b = frame->builder;
  b.set_location(locate(site, frame->name));
  const ir::OpDef* record = ops::all_ops().find(op);
  bool elementwise = record && record->traits.elementwise;
  std::vector<ir::Val> values;
  for (const Arg& a : operands)
    values.push_back(a.is_tensor() ? frame->value_of(a.tensor(), site)
                                   : b.fill(number_dtype(a, operands, elementwise, site), {}, a.number()));
  if (elementwise && values.size() > 1) {
    std::optional<Shape> shape = common_shape(values);
    if (!shape) refuse_shapes(op, values, site);
    for (ir::Val& v : values)
      if (shape) v = broadcast_to(v, *shape);
  }
  Result<std::vector<ir::Val>> added =
      b.try_add(op, std::move(values), frame->context->sizes.resolve(std::move(attrs)));
  if (!added.ok()) {
    Diagnostics errors = std::move(added.errors());
    errors[0] = with_parts(std::move(errors[0]));
    throw Error(std::move(errors));
  }
  std::vector<Tensor> out;
  for (ir::Val v : *added) out.push_back(frame->wrap(v));
  return out;
}

namespace {

Tensor binary(std::string_view op, const Arg& a, const Arg& b) { return emit(op, {a, b}, {}, a.site())[0]; }

}  // namespace

Tensor operator+(const Arg& a, const Arg& b) { return binary("add", a, b); }
Tensor operator-(const Arg& a, const Arg& b) { return binary("sub", a, b); }
Tensor operator*(const Arg& a, const Arg& b) { return binary("mul", a, b); }
Tensor operator/(const Arg& a, const Arg& b) { return binary("div", a, b); }
Tensor operator%(const Arg& a, const Arg& b) { return binary("rem", a, b); }
Tensor operator-(const Arg& a) { return emit("neg", {a}, {}, a.site())[0]; }
Tensor operator==(const Arg& a, const Arg& b) { return binary("eq", a, b); }
Tensor operator!=(const Arg& a, const Arg& b) { return binary("ne", a, b); }
Tensor operator<(const Arg& a, const Arg& b) { return binary("lt", a, b); }
Tensor operator<=(const Arg& a, const Arg& b) { return binary("le", a, b); }
Tensor operator>(const Arg& a, const Arg& b) { return binary("gt", a, b); }
Tensor operator>=(const Arg& a, const Arg& b) { return binary("ge", a, b); }
Tensor operator&(const Arg& a, const Arg& b) { return binary("and", a, b); }
Tensor operator|(const Arg& a, const Arg& b) { return binary("or", a, b); }
Tensor operator^(const Arg& a, const Arg& b) { return binary("xor", a, b); }
Tensor operator!(const Arg& a) { return emit("not", {a}, {}, a.site())[0]; }

}  // namespace nabla

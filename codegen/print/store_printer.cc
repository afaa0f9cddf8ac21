#include "codegen/print/store_printer.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

void store_by_lane(const Kernel& k, const Store& s, ExprPrinter& p, CppWriter& out, int& next_temp) {
  const Buffer& b = k.buffers[s.buffer];
  std::string lanes = fmt::format("lanes{}_", next_temp++), value = p.print_vector(s.expr);
  out.line(fmt::format("const {} {} = {};", vector_type(b.dtype), lanes, value));
  out.open("for (long l = 0; l < nb_count(n); ++l) {");
  std::string element = b.dtype == DType::kBool ? fmt::format("bool({}[l])", lanes) : lanes + "[l]";
  if (s.guard && p.varies(s.guard)) out.line(fmt::format("if (!({})) continue;", p.print_at_lane(s.guard, out)));
  Expr flat = kernel_ir::index(0);
  for (size_t d = 0; d < s.indices.size(); ++d) flat = flat * kernel_ir::dim(b.shape[d]) + s.indices[d];
  std::string place = fmt::format("{}[{}]", cpp_name(b.name), p.print_at_lane(flat, out));
  if (s.combiner != Combiner::kNone)
    element =
        fmt::format("nb_{0}<{2}>(nb_widen({1}), {3})", scalar_of(s.combiner), place, compute_type(b.dtype), element);
  out.line(fmt::format("{} = nb_narrow({}{{}}, {});", place, storage_type(b.dtype), element));
  out.close();
}

}  // namespace

void print_store(const Kernel& k, const Store& s, int lane, const std::map<int, ValuePlace>& places, bool streamed,
                 CppWriter& out, int& next_temp) {
  const Buffer& b = k.buffers[s.buffer];
  std::string target = cpp_name(b.name);
  ExprPrinter p(k, places, out, next_temp), first(k, places, out, next_temp);
  p.lane_axis = lane;
  bool lane_guard = s.guard && p.varies(s.guard);
  std::optional<int64_t> stride = lane >= 0 ? p.lane_stride(s.indices, b.shape) : 0;
  if (s.guard && !lane_guard) out.open(fmt::format("if ({}) {{", p.print(s.guard)));
  if (lane < 0) {
    std::string value = p.print(s.expr), place = fmt::format("{}[{}]", target, p.offset(s.indices, b.shape));
    if (s.combiner != Combiner::kNone)
      value = fmt::format("nb_{}<{}>(nb_widen({}), {})", scalar_of(s.combiner), compute_type(b.dtype), place, value);
    out.line(fmt::format("{} = nb_narrow({}{{}}, {});", place, storage_type(b.dtype), value));
  } else if (stride == 1 && !lane_guard) {
    std::string value = p.print_vector(s.expr),
                place = fmt::format("{} + {}", target, first.offset(s.indices, b.shape));
    if (s.combiner != Combiner::kNone)
      value = fmt::format("nb_{}(nb_load<{}>({}, n), {})", scalar_of(s.combiner), vector_type(b.dtype), place, value);
    out.line(fmt::format("nb_{}({}, {}, n);", streamed ? "stream" : "store", place, value));
  } else {
    store_by_lane(k, s, p, out, next_temp);
  }
  if (s.guard && !lane_guard) out.close();
}

std::string in_place_condition(const Kernel& kernel, const Store& store) {
  if (store.guard || store.combiner != Combiner::kNone || store.expr->kind != ExprKind::kLoad) return "";
  const Expr& load = store.expr;
  const Buffer &to = kernel.buffers[store.buffer], &from = kernel.buffers[load->ref];
  bool whole = to.role == BufferRole::kInOut && to.dtype == from.dtype && to.shape == from.shape && !load->guard &&
               load->args == store.indices;
  if (!whole) return "";
  return fmt::format("if ((const void*){} != (const void*){}) {{", cpp_name(from.name), cpp_name(to.name));
}

}  // namespace nabla::codegen

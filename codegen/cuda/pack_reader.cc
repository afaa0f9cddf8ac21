#include "codegen/cuda/pack_reader.h"

#include <algorithm>

#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/team_rows.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

std::string admit_packs(const Kernel& k, const std::vector<int>& buffers) {
  std::string out;
  for (int buffer : buffers) out += fmt::format("{}nb_is_aligned({})", out.empty() ? "" : " && ", cpp_name(k.buffers[buffer].name));
  return out;
}

PackPlace buffer_place(const Kernel& k, int buffer, const std::vector<Expr>& at) {
  const Buffer& b = k.buffers[buffer];
  return {cpp_name(b.name), storage_type(b.dtype), at, b.shape};
}
PackPlace row_place(const Kernel& k, int value, const std::vector<Expr>& at) {
  const ValueInfo& v = k.values[value];
  return {cpp_name(v.name), compute_type(v.dtype), at, row_shape(k, v)};
}

bool PackReader::moves(const PackPlace& place) const {
  std::optional<Affine> flat = flat_offset(place.at, place.shape);
  return flat && walks(*flat, lane_);
}

// The address of the pack's first element.
std::string PackReader::first(const PackPlace& place) const {
  Affine flat = *flat_offset(place.at, place.shape);
  std::string out = place.name;
  for (const auto& [axis, c] : flat.coefficients)
    out += fmt::format(" + {}{}{}", cpp_name(k_.axes[axis].name), axis == lane_ ? "_first_" : "", c.is(1) ? "" : " * " + size_text(c));
  return flat.constant.is(0) ? out : out + " + " + size_text(flat.constant);
}
std::string PackReader::read(const PackPlace& place) const {
  return fmt::format("nb_load_{}<{}>({})", aligned_ ? "pack" : "each", width_, first(place));
}

void PackReader::load(const Expr& e, const std::vector<Kept*>& kept, const std::string& trip) {
  visit(e, [&](const Expr& x) {
    bool array = x->kind == ExprKind::kLoad && !x->guard, row = x->kind == ExprKind::kValue && !x->args.empty();
    if (!array && !row) return;
    PackPlace place = array ? buffer_place(k_, x->ref, x->args) : row_place(k_, x->ref, x->args);
    if (!moves(place) || std::ranges::any_of(loaded_, [&](const auto& l) { return l.first == x; })) return;
    std::string name = fmt::format("e{}_", next_temp_++), text = read(place);
    if (auto found = std::ranges::find(kept, x, &Kept::load); found != kept.end()) {
      std::string held = fmt::format("{}[{}]", (*found)->name, trip);
      if (!(*found)->loaded) out_.line(fmt::format("{} = {};", held, text));
      text = held, (*found)->loaded = true;
    }
    out_.line(fmt::format("const nb_pack<{}, {}> {}pack_ = {};", place.type, width_, name, text));
    k_.values.push_back({name, x->dtype, {}});
    loaded_.emplace_back(x, static_cast<int>(k_.values.size()) - 1);
  });
}

void PackReader::open(std::map<int, ValuePlace>& places) {
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int l_ = 0; l_ < {}; ++l_) {{", width_));
  out_.line(fmt::format("const long {0} = {0}_first_ + l_;", cpp_name(k_.axes[lane_].name)));
  for (const auto& [key, value] : loaded_) {
    const ValueInfo& v = k_.values[value];
    out_.line(fmt::format("const {} {} = nb_widen({}pack_.at[l_]);", compute_type(v.dtype), v.name, v.name));
    places[value] = {};
  }
}

Expr PackReader::element(const Expr& e) const {
  if (!e) return e;
  return rewrite(e, [&](const Expr& x) {
    for (const auto& [load, value] : loaded_)
      if (load == x) return kernel_ir::value(x->dtype, value, {});
    return Expr();
  });
}

void PackReader::declare(const PackPlace& place, const std::string& name) {
  out_.line(fmt::format("nb_pack<{}, {}> {};", place.type, width_, name));
}
void PackReader::store(const PackPlace& place, const std::string& name) {
  out_.line(fmt::format("nb_store_{}({}, {});", aligned_ ? "pack" : "each", first(place), name));
}

}  // namespace nabla::codegen

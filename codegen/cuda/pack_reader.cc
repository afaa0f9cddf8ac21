#include "codegen/cuda/pack_reader.h"

#include <algorithm>

#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/team_rows.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

// Words that Philox makes at a time (nb_philox_block of prelude.cuh).
constexpr int64_t kWords = 4;

void print_by_packs(const Kernel& k, const std::vector<int>& buffers, bool at_packs, CppWriter& out, const std::function<void()>& packs,
                    const std::function<void()>& otherwise) {
  if (at_packs) return packs();
  std::string aligned;
  for (int buffer : buffers) aligned += fmt::format("{}nb_is_aligned({})", aligned.empty() ? "" : " && ", cpp_name(k.buffers[buffer].name));
  out.open(fmt::format("if ({}) {{", aligned));
  packs();
  out.reopen("} else {");
  otherwise();
  out.close();
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
std::string PackReader::first(const PackPlace& place) const { return place.name + first(*flat_offset(place.at, place.shape)); }
// As a sum that follows something.
std::string PackReader::first(const Affine& flat) const {
  std::string out;
  for (const auto& [axis, c] : flat.coefficients)
    out += fmt::format(" + {}{}{}", cpp_name(k_.axes[axis].name), axis == lane_ ? "_first_" : "", c.is(1) ? "" : " * " + size_text(c));
  return flat.constant.is(0) ? out : out + " + " + size_text(flat.constant);
}
std::string PackReader::read(const PackPlace& place) const {
  return fmt::format("nb_load_{}<{}>({})", aligned_ ? "pack" : "each", width_, first(place));
}

void PackReader::load(const Expr& e, const std::vector<Kept*>& kept, const std::string& trip) {
  visit(e, [&](const Expr& x) {
    if (x->kind == ExprKind::kCall && x->fn->name == "philox") return take_word(x);
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

bool PackReader::Words::operator==(const Words& o) const {
  return k0 == o.k0 && k1 == o.k1 && stride == o.stride && first.constant == o.first.constant && first.coefficients == o.first.coefficients;
}

// A word by itself costs the whole block that it is in. Words that no multiple of four begins stay as they are.
void PackReader::take_word(const Expr& call) {
  if (std::ranges::any_of(taken_, [&](const Word& w) { return w.call == call; })) return;
  bool computed = false;  // a key of other than arrays' elements, which might not be there yet
  for (int i : {0, 1}) visit(call->args[i], [&](const Expr& x) { computed |= x->kind == ExprKind::kValue || x->kind == ExprKind::kAxis; });
  std::optional<Affine> at = flat_offset({call->args[2]}, {1});
  if (computed || !at || !at->of(lane_).is_static()) return;
  const int64_t stride = at->of(lane_).value(), offset = stride > 0 ? at->constant.value() % stride : -1;
  if (offset < 0 || stride * width_ % kWords != 0) return;
  at->constant = at->constant - offset;
  if (!packs_divide(*at, lane_, kWords)) return;
  Words words{call->args[0], call->args[1], *at, stride, ""};
  auto found = std::ranges::find(words_, words);
  if (found == words_.end()) {
    words.name = fmt::format("words{}_", next_temp_++);
    found = words_.insert(words_.end(), std::move(words));
  }
  k_.values.push_back({fmt::format("e{}_", next_temp_++), DType::kU32, {}});
  taken_.push_back({call, static_cast<size_t>(found - words_.begin()), offset, static_cast<int>(k_.values.size()) - 1});
}

void PackReader::open_words(const std::map<int, ValuePlace>& places) {
  for (const Words& w : words_) {
    ExprPrinter printer(k_, places, out_, next_temp_);
    std::string k0 = printer.print(w.k0), k1 = printer.print(w.k1);
    const int64_t blocks = w.stride * width_ / kWords;
    out_.line(fmt::format("unsigned {}[{}][{}];", w.name, blocks, kWords));
    for (int64_t b = 0; b < blocks; ++b)
      out_.line(fmt::format("nb_philox_block({}, {}, (unsigned long)(0L{}) / {} + {}, {}[{}]);", k0, k1, first(w.first), kWords, b, w.name,
                            b));
  }
}

void PackReader::open(std::map<int, ValuePlace>& places) {
  open_words(places);
  out_.line("#pragma unroll");
  out_.open(fmt::format("for (int l_ = 0; l_ < {}; ++l_) {{", width_));
  out_.line(fmt::format("const long {0} = {0}_first_ + l_;", cpp_name(k_.axes[lane_].name)));
  for (const auto& [key, value] : loaded_) {
    const ValueInfo& v = k_.values[value];
    out_.line(fmt::format("const {} {} = nb_widen({}pack_.at[l_]);", compute_type(v.dtype), v.name, v.name));
    places[value] = {};
  }
  for (const Word& w : taken_) {
    const std::string at = fmt::format("({} * l_ + {})", words_[w.of].stride, w.offset);
    out_.line(fmt::format("const unsigned {0} = {1}[{2} / {3}][{2} % {3}];", k_.values[w.value].name, words_[w.of].name, at, kWords));
    places[w.value] = {};
  }
}

Expr PackReader::element(const Expr& e) const {
  if (!e) return e;
  return rewrite(e, [&](const Expr& x) {
    for (const auto& [load, value] : loaded_)
      if (load == x) return kernel_ir::value(x->dtype, value, {});
    for (const Word& w : taken_)
      if (w.call == x) return kernel_ir::value(x->dtype, w.value, {});
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

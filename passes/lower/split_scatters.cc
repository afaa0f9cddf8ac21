#include "passes/lower/schedule_kernels.h"

#include <algorithm>

#include "passes/lower/named_axis.h"

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file rewrites kernel_ir

namespace {

constexpr int64_t kMostRows = 16;            // with more of them, blocks that own rows are enough
constexpr int64_t kLeastSplitUpdates = 16 << 10;  // below which two grids more cost more than they gain
constexpr int64_t kMostScatterSlices = 512, kLeastScatterSlice = 64;
constexpr int64_t kMostScatterBytes = 16 << 20;  // of all slices' sums

class ScatterSplitter {
 public:
  ScatterSplitter(Kernel& k, const ir::Target& target) : k_(k), target_(target) {}

  void run() {
    // Every grid would repeat numbers at the head, which may read what another has stored.
    for (const Stmt& s : k_.body)
      if (std::holds_alternative<Let>(s.node)) return;
    for (size_t i = 0; i < k_.body.size(); ++i) {
      const For* f = std::get_if<For>(&k_.body[i].node);
      const Store* store = f && f->body.size() == 1 ? std::get_if<Store>(&f->body[0].node) : nullptr;
      if (!store || store->combiner == Combiner::kNone || !find(*f, *store)) continue;
      Body three = split(*store);
      k_.body.erase(k_.body.begin() + static_cast<int64_t>(i));
      k_.body.insert(k_.body.begin() + static_cast<int64_t>(i), std::make_move_iterator(three.begin()),
                     std::make_move_iterator(three.end()));
      return;
    }
  }

 private:
  int64_t most(int axis) const { return k_.axes[axis].extent.bounds().max; }
  static int stores_to(const Body& body, int buffer) {
    int n = 0;
    for (const Stmt& s : body) {
      if (const Store* store = std::get_if<Store>(&s.node)) n += store->buffer == buffer;
      if (const For* f = std::get_if<For>(&s.node)) n += stores_to(f->body, buffer);
      if (const Loop* l = std::get_if<Loop>(&s.node)) n += stores_to(l->body, buffer);
    }
    return n;
  }
  int add_axis(const std::string& name, ir::Dim extent) { return add_named_axis(k_, name, std::move(extent)); }

  // Many updates of few looked-up rows?
  bool find(const For& f, const Store& store) {
    const Buffer& to = k_.buffers[store.buffer];
    if (!is_float(to.dtype)) return false;  // integers are combined by atomics
    std::vector<int> axes = f.axes;
    axes.insert(axes.end(), store.axes.begin(), store.axes.end());
    updates_.clear(), columns_.clear();
    for (int a : axes) {
      bool plain = std::any_of(store.indices.begin(), store.indices.end(), [&](const Expr& i) { return i == axis(a); });
      (plain ? columns_ : updates_).push_back(a);
    }
    int64_t updates = 1, columns = 1, elements = ir::Type(to.dtype, to.shape).count().bounds().max;
    for (int a : updates_) updates *= std::max<int64_t>(most(a), 1);
    for (int a : columns_) columns *= std::max<int64_t>(most(a), 1);
    bool looked_up =
        std::any_of(store.indices.begin(), store.indices.end(), [](const Expr& i) { return !as_affine(i); });
    if (!looked_up || updates_.empty() || updates < kLeastSplitUpdates || elements > kMostRows * columns) return false;
    along_ = *std::max_element(updates_.begin(), updates_.end(), [&](int a, int b) { return most(a) < most(b); });
    int64_t threads = int64_t{target_.cuda.multiprocessors} * target_.cuda.resident_threads;
    slices_ = std::min({kMostScatterSlices, threads / columns, most(along_) / kLeastScatterSlice, kMostScatterBytes / (8 * elements)});
    return slices_ >= 8;
  }

  Body split(const Store& whole) {
    Store store = whole;
    bool only = stores_to(k_.body, store.buffer) == 1;
    int target = store.buffer, parts = static_cast<int>(k_.buffers.size());
    const Buffer to = k_.buffers[target];
    DType sums = bytes_of(to.dtype) < 4 ? DType::kF32 : to.dtype;
    ir::Dim extent = k_.axes[along_].extent, length = ir::Dim::ceildiv(extent, slices_);
    int slice = add_axis("slice", slices_), part = add_axis("part", length);
    ir::Shape shape = {ir::Dim(slices_)};
    shape.insert(shape.end(), to.shape.begin(), to.shape.end());
    k_.buffers.push_back({fmt::format("parts{}", parts), sums, shape, BufferRole::kWorkspace});
    std::vector<int> places;
    std::vector<Expr> place, part_place = {axis(slice)};
    for (size_t d = 0; d < to.shape.size(); ++d) places.push_back(add_axis("d" + std::to_string(d), to.shape[d]));
    for (int a : places) place.push_back(axis(a)), part_place.push_back(axis(a));

    For clear{{slice}, {}};
    clear.axes.insert(clear.axes.end(), places.begin(), places.end());
    clear.body.push_back({Store{parts, part_place, {}, Combiner::kNone, identity_of(store.combiner, sums), {}}});

    // An update of slice * length + part, which may stand after the last one.
    Expr at = axis(slice) * dim(length) + axis(part), inside;
    if (!(length * slices_ == extent)) inside = lt(at, dim(extent)), at = call("minimum", {at, dim(extent - 1)});
    auto moved = [&](const Expr& e) { return e ? substitute_axes(e, {{along_, at}}) : e; };
    store.buffer = parts, store.axes.clear();
    for (Expr& i : store.indices) i = moved(i);
    store.indices.insert(store.indices.begin(), axis(slice));
    store.expr = moved(store.expr), store.guard = moved(store.guard);
    if (store.expr->dtype != sums) store.expr = convert(sums, store.expr);
    if (inside) store.guard = store.guard ? both(store.guard, inside) : inside;
    For sum{{slice}, {}};
    for (int a : updates_) sum.axes.push_back(a == along_ ? part : a);
    sum.axes.insert(sum.axes.end(), columns_.begin(), columns_.end());
    sum.body.push_back({std::move(store)});

    int value = static_cast<int>(k_.values.size());
    k_.values.push_back({"all_slices", sums, {}});
    For combine{places, {}};
    combine.body.push_back({Let{value, whole.combiner, {slice}, load(sums, parts, part_place)}});
    Expr result = kernel_ir::value(sums, value, {});
    if (to.dtype != sums) result = convert(to.dtype, result);
    // What starts from nothing need not be read.
    Combiner last = to.role == BufferRole::kOut && only ? Combiner::kNone : whole.combiner;
    combine.body.push_back({Store{target, place, {}, last, result, {}}});
    Body out;
    out.push_back({std::move(clear)}), out.push_back({std::move(sum)}), out.push_back({std::move(combine)});
    return out;
  }

  Kernel& k_;
  const ir::Target& target_;
  std::vector<int> updates_, columns_;
  int along_ = -1;
  int64_t slices_ = 0;
};

}  // namespace

void split_scatters(Kernel& kernel, const ir::Target& target) {
  if (target.is_cuda() && !kernel.procedure) ScatterSplitter(kernel, target).run();
}

}  // namespace nabla::passes

#include "ir/kernel_ir/product.h"

#include <algorithm>

#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/stores.h"

namespace nabla::kernel_ir {
namespace {

const Let* contract_of(const Kernel& k) {
  for (const Stmt& s : k.body)
    if (const Let* let = std::get_if<Let>(&s.node); let && let->contract) return let;
  return nullptr;
}

// Values, and stores over the same axes, that use of the product the element at hand.
bool has_epilogue(const Kernel& k, const Let& product) {
  const std::vector<int>& tile = k.values[product.value].axes;
  auto own_element = [&](const Expr& e) {
    bool own = true;
    visit(e, [&](const Expr& x) {
      own &= x->kind != ExprKind::kValue || x->args.empty() || x->args == axes_as_indices(tile);
    });
    return own;
  };
  return std::all_of(k.body.begin(), k.body.end(), [&](const Stmt& s) {
    if (const Let* let = std::get_if<Let>(&s.node)) {
      const std::vector<int>& axes = k.values[let->value].axes;
      if (let == &product) return true;
      return own_element(let->expr) && let->combiner == Combiner::kNone && (axes.empty() || axes == tile);
    }
    const Store* store = std::get_if<Store>(&s.node);
    return store && store->axes == tile && !may_meet(*store) && !store->guard && own_element(store->expr);
  });
}

// Slices of a sum begin where packs do; the last one may end elsewhere.
bool ends_inside_of_packs(const Product& p, bool k_fast, int pack) {
  return k_fast && p.rest_of_k && !(p.whole_k.is_static() && p.whole_k.value() % pack == 0);
}
// What a load gives where its guard fails.
bool is_else_zero(const Expr& load) {
  return load->fill->kind == ExprKind::kConst && load->fill->number == 0 && load->fill->integer == 0;
}

FactorTile tile_of(const Product& p, const Expr& load, int other, int rows) {
  const Kernel& k = p.kernel;
  int bytes = bytes_of(k.buffers[load->ref].dtype), pack = 16 / bytes, tile_k = kTensorTileBytes / bytes;
  bool k_fast = p.walks(load, p.last_of(p.c.k)) || !p.walks(load, p.last_of(other));
  FactorTile t{load, k.buffers[load->ref].dtype, other, rows, k_fast, false, 0, 0};
  int fast = p.last_of(k_fast ? p.c.k : other);
  const ir::Dim& size = k.axes[fast].extent;
  std::optional<Affine> flat = flat_offset(load->args, k.buffers[load->ref].shape);
  t.packs = flat && flat->of(fast).is(1) && packs_divide(*flat, fast, pack) && size.is_static() &&
            size.value() % pack == 0 && !ends_inside_of_packs(p, k_fast, pack) && !(load->guard && uses_axis(load->guard, fast));
  t.pitch = k_fast ? tile_k + pack : rows + std::max(8, pack);
  t.elements = (k_fast ? rows : tile_k) * t.pitch;
  return t;
}

// Factors that are both 0 from one place along k on: the end of the last slice of a sum. Printers know how to end there, so
// that the loads need no guards.
void find_rest_of_k(Product& p) {
  const Expr &a = p.c.lhs, &b = p.c.rhs;
  if (!a->guard || !b->guard || !(a->guard == b->guard) || !is_else_zero(a) || !is_else_zero(b)) return;
  const Expr& g = a->guard;
  if (g->kind != ExprKind::kCall || g->fn->name != "lt") return;
  std::optional<Affine> at = as_affine(g->args[0]), end = as_affine(g->args[1]);
  if (!at || !end || !end->coefficients.empty() || !at->of(p.c.k).is(1)) return;
  for (const auto& [axis, c] : at->coefficients)
    if (axis != p.c.k && std::find(p.c.batch.begin(), p.c.batch.end(), axis) == p.c.batch.end()) return;
  p.rest_of_k = g->args[1] - substitute_axes(g->args[0], {{p.c.k, index(0)}});
  p.whole_k = end->constant;
  auto unguard = [](Expr& factor, Expr& guarded) {
    const Expr plain = load(guarded->dtype, guarded->ref, guarded->args);
    factor = rewrite(factor, [&](const Expr& x) { return x.id() == guarded.id() ? plain : Expr(); });
    guarded = plain;
  };
  unguard(p.lhs, p.c.lhs), unguard(p.rhs, p.c.rhs);
}

}  // namespace

int Product::last_of(int axis) const {
  auto found = parts.find(axis);
  return found == parts.end() ? axis : found->second.back();
}

bool Product::walks(const Expr& load, int axis) const {
  auto moves = [&](const Expr& e) { return uses_axis(e, axis); };
  return stride_along(load->args, kernel.buffers[load->ref].shape, axis, moves) == 1;
}

std::optional<Product> find_product(const Kernel& k) {
  const Let* let = contract_of(k);
  std::optional<Contraction> c = let ? find_contraction(k) : std::nullopt;
  if (!c || !has_epilogue(k, *let)) return std::nullopt;
  Expr first = without_converts(let->expr->args[0]);
  bool turned = first.id() != c->lhs.id();
  Product p{k, *let, *c, let->expr->args[turned ? 1 : 0], let->expr->args[turned ? 0 : 1]};
  find_rest_of_k(p);
  return p;
}

std::optional<Kernel> product_statement(const Kernel& k, const GridStatement& s) {
  const Let* let = s.body.empty() ? nullptr : std::get_if<Let>(&s.body[0].node);
  const bool once = std::all_of(s.axes.begin(), s.axes.end(), [&](int a) { return k.axes[a].extent.is(1); });
  if (!let || !let->contract || !once) return std::nullopt;
  Kernel alone = k;
  alone.body = s.body, alone.schedule.reset();
  return find_product(alone) ? std::optional(std::move(alone)) : std::nullopt;
}

Expr of_own_element(const Expr& e) {
  return rewrite(e, [](const Expr& x) {
    return x->kind == ExprKind::kValue && !x->args.empty() ? value(x->dtype, x->ref, {}) : Expr();
  });
}

std::optional<DType> common_dtype(const Product& p) {
  auto exact = [&](Expr e, const Expr& load) {
    auto keeps = [&](DType to) {
      bool halves = to == DType::kBF16 || to == DType::kF16;
      return to == DType::kF32 || to == load->dtype || (halves && is_byte_float(load->dtype));
    };
    for (; e.id() != load.id(); e = e->args[0])
      if (!is_convert(e) || !keeps(e->dtype)) return false;
    return !load->guard || is_else_zero(load);
  };
  DType d = p.kernel.buffers[p.c.lhs->ref].dtype, other = p.kernel.buffers[p.c.rhs->ref].dtype;
  bool alike = other == d || (is_byte_float(d) && is_byte_float(other));
  bool both = alike && exact(p.lhs, p.c.lhs) && exact(p.rhs, p.c.rhs);
  return both ? std::optional(d) : std::nullopt;
}

bool is_byte_float(DType d) { return is_float(d) && bytes_of(d) == 1; }

int thread_tile_bytes(DType d) { return is_float(d) ? std::max(4, bytes_of(d)) : bytes_of(d); }

bool is_copied(const Product& p, Expr factor) {
  while (is_convert(factor) && factor->dtype == factor->args[0]->dtype) factor = factor->args[0];
  if (factor->kind != ExprKind::kLoad) return false;
  DType d = p.kernel.buffers[factor->ref].dtype;
  return (!factor->guard || is_else_zero(factor)) && bytes_of(d) >= 4 && d == p.c.dtype;
}

FactorTile lhs_tile(const Product& p, int tile_rows) { return tile_of(p, p.c.lhs, p.c.m, tile_rows); }
FactorTile rhs_tile(const Product& p, int tile_columns) { return tile_of(p, p.c.rhs, p.c.n, tile_columns); }

std::optional<ir::Dim> step_of_copies(const Product& p, const FactorTile& t) {
  if (!t.packs || t.load->guard || p.parts.count(p.c.k) || p.parts.count(t.other)) return std::nullopt;
  std::optional<Affine> flat = flat_offset(t.load->args, p.kernel.buffers[t.load->ref].shape);
  return flat ? std::optional(flat->of(p.c.k)) : std::nullopt;
}

bool is_wide_attention(const Procedure& attention) {
  return attention.number("features").value() + attention.number("out").value() > 256;
}

}  // namespace nabla::kernel_ir

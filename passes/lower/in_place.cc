#include "passes/lower/in_place.h"

#include <algorithm>

namespace nabla::passes {

using namespace kernel_ir;  // NOLINT: this file looks at kernel_ir

namespace {

struct Statement {
  const Let* let = nullptr;
  const Store* store = nullptr;
};

bool flatten(const Body& body, std::vector<Statement>& out) {
  for (const Stmt& s : body) {
    if (const Let* let = std::get_if<Let>(&s.node))
      out.push_back({let, nullptr});
    else if (const Store* store = std::get_if<Store>(&s.node))
      out.push_back({nullptr, store});
    else if (const For* f = std::get_if<For>(&s.node)) {
      if (!flatten(f->body, out)) return false;
    } else {
      return false;  // ordered loops: not analysed
    }
  }
  return true;
}

// The indices of every load of `buffer` in e.
void loads(const Expr& e, int buffer, std::vector<std::vector<Expr>>& out) {
  if (!e) return;
  visit(e, [&](const Expr& x) {
    if (x->kind == ExprKind::kLoad && x->ref == buffer) out.push_back(x->args);
  });
}

}  // namespace

bool may_share(const Kernel& k, int in, int out) {
  const Buffer &a = k.buffers[in], &b = k.buffers[out];
  if (bytes_of(a.dtype) != bytes_of(b.dtype) || a.shape != b.shape) return false;
  std::vector<Statement> statements;
  if (!flatten(k.body, statements)) return false;
  std::vector<std::vector<Expr>> sites;      // where `in` is read
  const std::vector<Expr>* place = nullptr;  // where `out` is stored first
  for (const Statement& s : statements) {
    size_t before = sites.size();
    loads(s.let ? s.let->expr : s.store->expr, in, sites);
    if (s.store) {
      loads(s.store->guard, in, sites);
      for (const Expr& i : s.store->indices) loads(i, in, sites);
    }
    if (place && sites.size() > before) return false;
    if (s.store && s.store->buffer == out && !place) place = &s.store->indices;
  }
  if (!place) return false;
  return std::all_of(sites.begin(), sites.end(), [&](const auto& at) { return at == *place; });
}

}  // namespace nabla::passes

#include "ir/kernel_ir/team_rows.h"

#include "ir/kernel_ir/stores.h"

namespace nabla::kernel_ir {
namespace {

void collect_rows(const Kernel& k, const Body& b, std::vector<TeamRow>& out) {
  for (const Stmt& s : b) {
    if (const Let* let = std::get_if<Let>(&s.node); let && !k.values[let->value].axes.empty())
      out.push_back({let->value, 1});
    if (const Loop* l = std::get_if<Loop>(&s.node)) {
      for (int state : l->state)
        if (!k.values[state].axes.empty()) out.push_back({state, 2});
      collect_rows(k, l->body, out);
    }
    if (const For* f = std::get_if<For>(&s.node); f && walked_together(k, *f)) collect_rows(k, f->body, out);
  }
}

}  // namespace

std::vector<TeamRow> team_rows(const Kernel& kernel, const Body& body) {
  std::vector<TeamRow> out;
  collect_rows(kernel, body, out);
  return out;
}

ir::Shape row_shape(const Kernel& kernel, const ValueInfo& row) {
  ir::Shape shape;
  for (int a : row.axes) shape.push_back(kernel.axes[a].extent);
  return shape;
}

int64_t row_bytes(const Kernel& k, int value) {
  int64_t n = bytes_of(k.values[value].dtype) < 4 ? 4 : bytes_of(k.values[value].dtype);
  for (int a : k.values[value].axes) n *= k.axes[a].extent.bounds().max;
  return (n + 15) / 16 * 16;
}

int64_t team_rows_bytes(const Kernel& kernel, const Body& body) {
  int64_t total = 0;
  for (auto [value, copies] : team_rows(kernel, body)) total += copies * row_bytes(kernel, value);
  return total;
}

}  // namespace nabla::kernel_ir

#include "runtime/exec/wholes.h"

#include <algorithm>

#include "runtime/exec/plan.h"
#include "runtime/format/program_check.h"
#include "runtime/format/rank_digits.h"

namespace nabla::exec {

using format::digits_of;
using format::size_of;
using format::view;

namespace {

/// All digits that cut the whole.
std::vector<format::Digit> cutting(const format::Placement& p) {
  std::vector<format::Digit> out;
  for (uint32_t d = 0; d < size_of(p.cuts()); ++d)
    for (const format::Digit& digit : digits_of(p.cuts()->Get(d)->digits())) out.push_back(digit);
  return out;
}

}  // namespace

Whole::Whole(const format::Ranks& table, const format::Whole& whole, const std::vector<uint32_t>& class_of,
             const std::vector<uint32_t>& ranks)
    : table_(&table), class_of_(&class_of), by_class_(size_of(table.classes()), nullptr) {
  info.name = view(whole.name()), info.dtype = dtype_of(whole.dtype());
  if (whole.shape() != nullptr) info.shape.assign(whole.shape()->begin(), whole.shape()->end());
  for (uint32_t d = 0; d < size_of(whole.symbols()); ++d) info.sizes.emplace_back(view(whole.symbols()->Get(d)));
  for (const format::Placement* p : *whole.placements()) by_class_[p->class_index()] = p;
  for (uint32_t r : ranks) here.push_back(part(r));
}

Part Whole::part(uint32_t rank) const {
  Part out;
  const format::Placement* p = placement_of(rank);
  if (p == nullptr) return out;
  out.index = static_cast<int>(p->index());
  out.owner = owned_by(rank);
  out.dims.resize(info.shape.size());
  for (uint32_t d = 0; d < size_of(p->cuts()); ++d) {
    const format::Cut& cut = *p->cuts()->Get(d);
    std::vector<format::Digit> digits = digits_of(cut.digits());
    Part::Dim& dim = out.dims[d];
    dim.begin = cut.begin(), dim.count = static_cast<int64_t>(format::count_of(digits));
    for (const format::Digit& digit : digits) dim.number = dim.number * digit.count() + rank / digit.stride() % digit.count();
  }
  return out;
}

// Of ranks with the same part the lowest one, which has zeros in all other digits of the class.
bool Whole::owned_by(uint32_t rank) const {
  const format::Placement* p = placement_of(rank);
  return p != nullptr && !p->copy() && format::base_of(cutting(*p), rank) == table_->classes()->Get((*class_of_)[rank])->first();
}

int Whole::index_in(uint32_t of_class) const {
  return by_class_[of_class] == nullptr ? -1 : static_cast<int>(by_class_[of_class]->index());
}

int64_t Whole::most_parts(size_t dim) const {
  int64_t out = 1;
  for (const format::Placement* p : by_class_)
    if (p != nullptr && dim < size_of(p->cuts()))
      out = std::max(out, static_cast<int64_t>(format::count_of(digits_of(p->cuts()->Get(static_cast<uint32_t>(dim))->digits()))));
  return out;
}

}  // namespace nabla::exec

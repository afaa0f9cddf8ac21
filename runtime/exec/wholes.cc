#include "runtime/exec/wholes.h"

#include "runtime/exec/plan.h"
#include "runtime/format/program_check.h"
#include "runtime/format/rank_digits.h"

namespace nabla::exec {

using format::digits_of;
using format::size_of;
using format::view;

Whole whole_of(const format::Ranks& table, const format::Whole& whole, const std::vector<uint32_t>& class_of) {
  Whole out;
  out.info.name = view(whole.name()), out.info.dtype = dtype_of(whole.dtype());
  if (whole.shape() != nullptr) out.info.shape.assign(whole.shape()->begin(), whole.shape()->end());
  for (uint32_t d = 0; d < size_of(whole.symbols()); ++d) out.info.sizes.emplace_back(view(whole.symbols()->Get(d)));
  out.parts.resize(table.count());
  for (const format::Placement* p : *whole.placements())
    for (uint32_t r = 0; r < table.count(); ++r) {
      if (class_of[r] != p->class_index()) continue;
      Part& part = out.parts[r];
      part.index = static_cast<int>(p->index());
      part.dims.resize(out.info.shape.size());
      std::vector<format::Digit> used;
      for (uint32_t d = 0; d < size_of(p->cuts()); ++d) {
        const format::Cut& cut = *p->cuts()->Get(d);
        std::vector<format::Digit> digits = digits_of(cut.digits());
        Part::Dim& dim = part.dims[d];
        dim.begin = cut.begin(), dim.count = static_cast<int64_t>(format::count_of(digits));
        for (const format::Digit& digit : digits)
          dim.number = dim.number * digit.count() + r / digit.stride() % digit.count();
        used.insert(used.end(), digits.begin(), digits.end());
      }
      // Of ranks with the same part the lowest one, which has zeros in all other digits of the class.
      part.owner = !p->copy() && format::base_of(used, r) == table.classes()->Get(class_of[r])->first();
    }
  return out;
}

}  // namespace nabla::exec

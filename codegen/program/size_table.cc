#include "codegen/program/size_table.h"

#include <algorithm>

#include "codegen/program/agree.h"

namespace nabla::program {
namespace {

using Op = ir::SizeStep::Op;
using Packed = format::SizeOp;
static_assert(agree<Packed, Op>({{Packed::Constant, Op::kConstant},
                                 {Packed::Symbol, Op::kSymbol},
                                 {Packed::Add, Op::kAdd},
                                 {Packed::Mul, Op::kMul},
                                 {Packed::FloorDiv, Op::kFloorDiv},
                                 {Packed::Mod, Op::kMod},
                                 {Packed::Min, Op::kMin},
                                 {Packed::Max, Op::kMax}}));

}  // namespace

uint32_t SizeTable::reference(const ir::Dim& size) {
  if (size.is_static()) return 0;
  for (const ir::SymbolRef& s : size.symbols())
    if (std::none_of(used_.begin(), used_.end(), [&](const auto& t) { return t->name == s->name; })) used_.push_back(s);
  auto [it, fresh] = size_of_.try_emplace(size.str(), static_cast<uint32_t>(program_.sizes.size()));
  if (!fresh) return it->second + 1;
  program_.sizes.push_back(formula(size));
  program_.sizes.back()->max = most(size);
  return it->second + 1;
}

std::unique_ptr<format::SizeT> SizeTable::formula(const ir::Dim& size) {
  auto out = std::make_unique<format::SizeT>();
  out->text = size.str();
  for (const ir::SizeStep& step : size.steps())
    out->steps.emplace_back(static_cast<format::SizeOp>(step.op),
                            step.symbol ? symbol(*step.symbol) : static_cast<uint64_t>(step.value));
  return out;
}

uint32_t SizeTable::symbol(const ir::Symbol& s) {
  auto [it, fresh] = symbol_of_.try_emplace(s.name, static_cast<uint32_t>(program_.symbols.size()));
  if (fresh) {
    auto out = std::make_unique<format::SymbolT>();
    out->name = s.name, out->min = s.min, out->max = s.max, out->multiple = s.multiple;
    if (!s.axis.empty()) {
      auto group = std::find(groups_.begin(), groups_.end(), ir::Axes{{s.axis}});
      NABLA_CHECK(group != groups_.end(), "coordinate {} belongs to no group", s.name);
      out->group = static_cast<uint32_t>(group - groups_.begin()) + 1;
    }
    program_.symbols.push_back(std::move(out));
  }
  return it->second;
}

}  // namespace nabla::program

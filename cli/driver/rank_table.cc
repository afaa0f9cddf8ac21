#include "cli/driver/rank_table.h"

#include "runtime/format/ranks_generated.h"

namespace nabla::driver {
namespace {

std::vector<format::Digit> packed(const ir::RankDigits& digits) {
  std::vector<format::Digit> out;
  for (const ir::RankDigit& d : digits)
    out.emplace_back(static_cast<uint32_t>(d.stride), static_cast<uint32_t>(d.count));
  return out;
}

std::unique_ptr<format::MeshT> packed(const ir::Mesh& mesh) {
  auto out = std::make_unique<format::MeshT>();
  out->name = mesh.name;
  for (const ir::MeshAxis& a : mesh.axes) {
    out->axes.push_back(std::make_unique<format::MeshAxisT>());
    out->axes.back()->name = a.name, out->axes.back()->size = static_cast<uint32_t>(a.size);
  }
  return out;
}

std::unique_ptr<format::GroupT> packed(const ir::RankGroup& group) {
  auto out = std::make_unique<format::GroupT>();
  out->name = group.name, out->digits = packed(group.digits);
  return out;
}

std::unique_ptr<format::ClassT> packed(const ir::RankClass& c) {
  auto out = std::make_unique<format::ClassT>();
  out->name = c.name, out->first = static_cast<uint32_t>(c.first), out->digits = packed(c.digits);
  for (int group : c.groups) out->groups.push_back(static_cast<uint32_t>(group));
  return out;
}

std::unique_ptr<format::PlacementT> packed(const ir::ClassPlacement& p) {
  auto out = std::make_unique<format::PlacementT>();
  out->class_index = static_cast<uint32_t>(p.of_class), out->index = static_cast<uint32_t>(p.index);
  for (const ir::RankCut& c : p.cuts) {
    out->cuts.push_back(std::make_unique<format::CutT>());
    out->cuts.back()->begin = c.begin, out->cuts.back()->digits = packed(c.digits);
  }
  out->copy = p.copy;
  return out;
}

std::unique_ptr<format::WholeT> packed(const ir::WholeTensor& w) {
  auto out = std::make_unique<format::WholeT>();
  out->entry = w.entry, out->name = w.name, out->dtype = static_cast<format::DType>(w.dtype);
  out->shape = w.shape, out->symbols = w.formulas;
  for (const ir::ClassPlacement& p : w.placements) out->placements.push_back(packed(p));
  return out;
}

template <class To, class From>
void pack_all(const std::vector<From>& list, std::vector<std::unique_ptr<To>>& out) {
  for (const From& one : list) out.push_back(packed(one));
}

}  // namespace

format::RanksT rank_table(const ir::ProgramSet& set) {
  format::RanksT out;
  out.count = static_cast<uint32_t>(set.ranks);
  pack_all(set.meshes, out.meshes), pack_all(set.groups, out.groups), pack_all(set.classes, out.classes);
  pack_all(set.state, out.state), pack_all(set.inputs, out.inputs), pack_all(set.outputs, out.outputs);
  return out;
}

}  // namespace nabla::driver

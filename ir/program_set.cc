#include "ir/program_set.h"

#include <algorithm>

namespace nabla::ir {
namespace {

class Table {
 public:
  Table(const Module& sharded, const Module& local) : sharded_(sharded), local_(local) {}

  void fill(ProgramSet& out) {
    for (size_t i = 0; i < local_.state.size(); ++i)
      out.state.push_back(
          whole("", local_.state[i].name, i, local_.state[i].type, sharded_.state[i].type, sharded_.state[i].sharding));
    for (const Entry& e : local_.entries)
      if (e.variant_of.empty()) add_entry(e, out);
  }

 private:
  void add_entry(const Entry& e, ProgramSet& out) {
    const Entry* from = sharded_.find_entry(e.name);
    NABLA_CHECK(from, "entry {} was not there before partition", e.name);
    const Function &part = *local_.find(e.function), &all = *sharded_.find(from->function);
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      size_t at = e.reads.size() + i;
      out.inputs.push_back(whole(e.name, e.inputs[i], i, part.type(part.params[at]), all.type(all.params[at]),
                                 all.values[all.params[at]].sharding));
    }
    for (size_t i = 0; i < e.outputs.size(); ++i) {
      size_t at = e.writes.size() + i;
      out.outputs.push_back(whole(e.name, e.outputs[i], i, part.type(part.results[at]), all.type(all.results[at]),
                                  all.values[all.results[at]].sharding));
    }
  }

  // `part` is the type of what one rank has, `all` that of the whole.
  WholeTensor whole(const std::string& entry, const std::string& name, size_t index, const Type& part, const Type& all,
                    const ShardingRef& layout) const {
    WholeTensor out{entry, name, part.dtype, {}, {}, {}};
    ClassPlacement placement{0, static_cast<int>(index), {}};
    for (size_t d = 0; d < part.shape.size(); ++d) {
      RankCut cut;
      int64_t parts = 1;
      if (layout && sharded_.mesh()) {
        cut.digits = digits_of(*sharded_.mesh(), layout->dims[d].axes);
        parts = shards(*sharded_.mesh(), layout->dims[d].axes);
      }
      // Of uneven shards the last ones hold less.
      out.shape.push_back(all.shape[d].is_static() ? all.shape[d].value() : part.shape[d].bounds().max * parts);
      if (!all.is_static()) out.formulas.push_back(all.shape[d].is_static() ? "" : all.shape[d].str());
      placement.cuts.push_back(std::move(cut));
    }
    out.placements.push_back(std::move(placement));
    return out;
  }

  const Module &sharded_, &local_;
};

}  // namespace

RankDigits digits_of(const Mesh& mesh, const Axes& axes) {
  RankDigits out;
  for (const AxisRef& a : axes) {
    int64_t stride = 1, whole = mesh.size_of(a.name), size = shards(mesh, {a});
    for (size_t i = mesh.axes.size(); mesh.axes[--i].name != a.name;) stride *= mesh.axes[i].size;
    stride *= whole / (a.before * size);
    if (size > 1) out.push_back({stride, size});
  }
  return out;
}

ProgramSet set_of(const Module& sharded, Module local) {
  ProgramSet out;
  if (const Mesh* mesh = sharded.mesh()) out.ranks = mesh->ranks(), out.meshes.push_back(*mesh);
  Table(sharded, local).fill(out);
  RankClass all{kClassOfAll, 0, {}, {}, std::move(local)};
  if (out.ranks > 1) all.digits = {{1, out.ranks}};
  out.classes.push_back(std::move(all));
  return out;
}

void set_groups(ProgramSet& set, size_t of_class, const std::vector<Axes>& groups) {
  RankClass& c = set.classes[of_class];
  c.groups.clear();
  for (const Axes& axes : groups) {
    RankGroup group{axes.size() == 1 ? axes[0].str() : str(axes), digits_of(set.meshes[0], axes)};
    c.groups.push_back(static_cast<int>(set.groups.size()));
    set.groups.push_back(std::move(group));
  }
}

}  // namespace nabla::ir

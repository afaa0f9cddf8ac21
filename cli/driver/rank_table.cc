#include "cli/driver/rank_table.h"

#include <algorithm>

#include "runtime/format/ranks_generated.h"

namespace nabla::driver {
namespace {

class Table {
 public:
  Table(const ir::Module& sharded, const ir::Module& planned)
      : sharded_(sharded), planned_(planned), mesh_(*sharded.mesh()) {}

  format::RanksT run(const std::vector<ir::Axes>& groups) {
    out_.count = static_cast<uint32_t>(mesh_.ranks());
    add_mesh();
    auto all = std::make_unique<format::ClassT>();
    all->name = kClassOfAll, all->digits = {format::Digit(1, out_.count)};
    for (const ir::Axes& axes : groups) {
      all->groups.push_back(static_cast<uint32_t>(out_.groups.size()));
      out_.groups.push_back(std::make_unique<format::GroupT>());
      out_.groups.back()->name = axes.size() == 1 ? axes[0].str() : ir::str(axes);
      out_.groups.back()->digits = digits(axes);
    }
    out_.classes.push_back(std::move(all));
    for (size_t i = 0; i < planned_.state.size(); ++i)
      out_.state.push_back(whole("", planned_.state[i].name, i, planned_.state[i].type, sharded_.state[i].type,
                                 sharded_.state[i].sharding));
    for (const ir::Entry& e : planned_.entries)
      if (e.variant_of.empty()) add_entry(e);
    return std::move(out_);
  }

 private:
  void add_mesh() {
    out_.meshes.push_back(std::make_unique<format::MeshT>());
    out_.meshes[0]->name = mesh_.name;
    for (const ir::MeshAxis& a : mesh_.axes) {
      out_.meshes[0]->axes.push_back(std::make_unique<format::MeshAxisT>());
      out_.meshes[0]->axes.back()->name = a.name;
      out_.meshes[0]->axes.back()->size = static_cast<uint32_t>(a.size);
    }
  }

  void add_entry(const ir::Entry& e) {
    auto from =
        std::find_if(sharded_.entries.begin(), sharded_.entries.end(), [&](const auto& s) { return s.name == e.name; });
    NABLA_CHECK(from != sharded_.entries.end(), "entry {} was not there before partition", e.name);
    const ir::Function &part = *planned_.find(e.function), &all = *sharded_.find(from->function);
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      size_t at = e.reads.size() + i;
      out_.inputs.push_back(whole(e.name, e.inputs[i], i, part.type(part.params[at]), all.type(all.params[at]),
                                  all.values[all.params[at]].sharding));
    }
    for (size_t i = 0; i < e.outputs.size(); ++i) {
      size_t at = e.writes.size() + i;
      out_.outputs.push_back(whole(e.name, e.outputs[i], i, part.type(part.results[at]), all.type(all.results[at]),
                                   all.values[all.results[at]].sharding));
    }
  }

  // `part` is the type of what one rank has, `all` that of the whole.
  std::unique_ptr<format::WholeT> whole(const std::string& entry, const std::string& name, size_t index,
                                        const ir::Type& part, const ir::Type& all,
                                        const ir::ShardingRef& layout) const {
    auto out = std::make_unique<format::WholeT>();
    out->entry = entry, out->name = name, out->dtype = static_cast<format::DType>(part.dtype);
    auto placement = std::make_unique<format::PlacementT>();
    placement->index = static_cast<uint32_t>(index);
    for (size_t d = 0; d < part.shape.size(); ++d) {
      auto cut = std::make_unique<format::CutT>();
      int64_t parts = 1;
      if (layout) cut->digits = digits(layout->dims[d].axes), parts = ir::shards(mesh_, layout->dims[d].axes);
      out->shape.push_back(part.shape[d].bounds().max * parts);
      out->symbols.push_back(all.shape[d].is_static() ? "" : all.shape[d].str());
      placement->cuts.push_back(std::move(cut));
    }
    if (all.is_static()) out->symbols.clear();
    out->placements.push_back(std::move(placement));
    return out;
  }

  // Major first, as axes are.
  std::vector<format::Digit> digits(const ir::Axes& axes) const {
    std::vector<format::Digit> out;
    for (const ir::AxisRef& a : axes) {
      int64_t stride = 1, whole = mesh_.size_of(a.name), size = ir::shards(mesh_, {a});
      for (size_t i = mesh_.axes.size(); mesh_.axes[--i].name != a.name;) stride *= mesh_.axes[i].size;
      stride *= whole / (a.before * size);
      if (size > 1) out.emplace_back(static_cast<uint32_t>(stride), static_cast<uint32_t>(size));
    }
    return out;
  }

  const ir::Module &sharded_, &planned_;
  const ir::Mesh& mesh_;
  format::RanksT out_;
};

}  // namespace

format::RanksT rank_table(const ir::Module& sharded, const ir::Module& planned, const std::vector<ir::Axes>& groups) {
  return Table(sharded, planned).run(groups);
}

}  // namespace nabla::driver

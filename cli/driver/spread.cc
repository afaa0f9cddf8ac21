#include "cli/driver/spread.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <sstream>

#include "ir/verifier.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"
#include "runtime/base/text.h"

namespace nabla::driver {
namespace {

std::string mesh_help() { return fmt::format("give every axis once, with its number of ranks: {}", OptionName{"mesh", "dp=2,tp=4"}); }

// "dp=4,tp=2", in this order.
Result<std::vector<ir::MeshAxis>> axes_of(const std::vector<std::string>& texts) {
  std::vector<ir::MeshAxis> out;
  for (const std::string& text : texts) {
    if (text.empty() || text.ends_with(','))
      return option_error(mesh_help(), "{} takes a size for every axis; `{}` {}", OptionName{"mesh"}, text,
                          text.empty() ? "has none" : "ends with a comma");
    std::istringstream pieces(text);
    for (std::string piece; std::getline(pieces, piece, ',');) {
      size_t equals = piece.find('=');
      int64_t size = 0;
      const char* end = piece.data() + piece.size();
      auto [stop, problem] = std::from_chars(piece.data() + std::min(equals, piece.size() - 1) + 1, end, size);
      if (equals == 0 || equals == piece.npos || problem != std::errc() || stop != end)
        return option_error(mesh_help(), "{} takes a size for every axis, not `{}`", OptionName{"mesh"}, text);
      out.push_back({piece.substr(0, equals), size});
      for (size_t i = 0; i + 1 < out.size(); ++i)
        if (out[i].name == out.back().name) return option_error(mesh_help(), "{}: axis {} is given twice", OptionName{"mesh"}, out[i].name);
    }
  }
  return out;
}

bool names(const passes::Names& list, const std::string& axis) { return std::find(list.begin(), list.end(), axis) != list.end(); }

// The temporal axis of the mesh, or a new one, along which the batch is cut as well.
Status set_microbatches(ir::Module& module, CompileOptions& options) {
  if (options.microbatches > ir::kMaxRanks)
    return option_error("cut the batch into fewer parts", "{}: {} parts of the batch; there may be {} at most",
                        OptionName{"microbatches"}, options.microbatches, ir::kMaxRanks);
  passes::Names& data = options.pass_options.apply_strategy.data_axes;
  if (module.meshes.empty()) module.meshes.push_back({"ranks", {}, nullptr});
  std::vector<ir::MeshAxis>& axes = module.meshes[0].axes;
  auto axis = std::find_if(axes.begin(), axes.end(), [](const ir::MeshAxis& a) { return a.temporal; });
  if (axis != axes.end()) {
    axis->size = options.microbatches;
    if (!lies_along(module, axis->name) && !names(data, axis->name)) {
      Diagnostic d = error(Code::kBadOption, "{}: nothing in the module is laid out along its temporal axis {}",
                           OptionName{"microbatches"}, axis->name);
      d.help = fmt::format("name it among the axes of the batch: {}", OptionName{"data-axes", axis->name});
      return d;
    }
  } else {
    auto taken = std::find_if(axes.begin(), axes.end(), [](const ir::MeshAxis& a) { return a.name == "mb"; });
    if (taken != axes.end())
      return option_error("give that axis another name", "{} makes an axis mb, and mesh {} has one", OptionName{"microbatches"},
                          module.meshes[0].name);
    axes.push_back({"mb", options.microbatches, true});
    if (!names(data, "mb")) data.push_back("mb");
  }
  return ir::verify(module);
}

// A module without a mesh gets one if the axes of the batch are named.
Status check_batch_lies(const CompileOptions& options) {
  const std::string axis = options.mesh[0].substr(0, options.mesh[0].find('='));
  const passes::ApplyStrategyOptions& strategy = options.pass_options.apply_strategy;
  if (strategy.zero == 0 && strategy.zero_axes.empty()) return Ok{};
  return option_error(fmt::format("name those of the batch: {}", OptionName{"data-axes", axis}),
                      "{}: the module has no mesh, and of the axes of {} none is named along which the batch lies",
                      OptionName{strategy.zero > 0 ? "zero" : "zero-axes"},
                      OptionName{"mesh", fmt::format("{}", fmt::join(options.mesh, ","))});
}

}  // namespace

bool lies_along(const ir::Module& module, const std::string& axis) {
  auto uses = [&](const ir::Sharding& s) {
    ir::Axes axes = ir::axes_of(s);
    return std::any_of(axes.begin(), axes.end(), [&](const ir::AxisRef& a) { return a.name == axis; });
  };
  for (const ir::StateLeaf& leaf : module.state)
    if (leaf.sharding && uses(*leaf.sharding)) return true;
  for (const ir::FunctionPtr& f : module.functions) {
    for (const ir::Value& v : f->values)
      if (v.sharding && uses(*v.sharding)) return true;
    for (const ir::Node& n : f->nodes)
      if (const ir::Attr* s = n.attrs.find("sharding"); s && uses(std::get<ir::Sharding>(*s))) return true;
  }
  return false;
}

Result<ir::Module> with_mesh(const ir::Module& module, const std::vector<std::string>& mesh, bool make) {
  ir::Module out = module;
  if (mesh.empty()) return out;
  std::vector<ir::MeshAxis> given = NABLA_TRY(axes_of(mesh));
  if (!module.mesh() && !make) {
    return option_error(fmt::format("name the axes of the batch by {}, shard the state by {}, or let {} choose; or declare a mesh in the "
                                    "program", OptionName{"data-axes"}, OptionName{"layout"}, OptionName{"auto-shard"}),
                        "{}: the module has no mesh", OptionName{"mesh"});
  }
  if (!module.mesh()) out.meshes.push_back({"ranks", std::move(given), nullptr}), given.clear();
  for (const ir::MeshAxis& a : given) {
    std::vector<ir::MeshAxis>& axes = out.meshes[0].axes;
    auto axis = std::find_if(axes.begin(), axes.end(), [&](const ir::MeshAxis& b) { return b.name == a.name; });
    if (axis == axes.end())
      return error(Code::kBadSharding, "{}: {}", OptionName{"mesh"}, out.meshes[0].lacks(a.name));
    axis->size = a.size;
  }
  (void)NABLA_TRY(ir::verify(out));
  return out;
}

Result<ir::Module> spread_over_mesh(const ir::Module& given, CompileOptions& options) {
  passes::ApplyStrategyOptions& strategy = options.pass_options.apply_strategy;
  passes::AutoShardOptions& search = options.pass_options.auto_shard;
  const bool spreads = !strategy.data_axes.empty() || !strategy.layouts.empty() || search.search;
  // All targets lie over the ranks as the first one does.
  if (search.search && search.target.empty()) search.target = options.target.substr(0, options.target.find(','));
  if (!given.mesh() && !options.mesh.empty() && !spreads) (void)NABLA_TRY(check_batch_lies(options));
  ir::Module module = NABLA_TRY(with_mesh(given, options.mesh, spreads));
  if (options.microbatches > 0) (void)NABLA_TRY(set_microbatches(module, options));
  // Where nobody says along which ranks the batch lies, the search may.
  if (search.search && module.mesh() && module.mesh()->temporal() &&
      strategy.data_axes == passes::Names{module.mesh()->temporal()->name})
    strategy.open_batch = true;
  return module;
}

namespace {

// Copies of state that lives in the host's memory overlap as exchanges do.
bool copies_state(const ir::Module& module, const CompileOptions& options) {
  return options.pass_options.apply_strategy.offload != passes::Offload::kNone ||
         std::any_of(module.state.begin(), module.state.end(),
                     [](const ir::StateLeaf& l) { return l.memory == ir::MemorySpace::kHost; });
}

}  // namespace

Status check_spread(const ir::Module& module, const CompileOptions& options, const std::vector<std::string>& given) {
  const bool mesh = module.mesh() || !options.mesh.empty();
  auto is_given = [&](const char* option) { return std::find(given.begin(), given.end(), option) != given.end(); };
  if (!mesh && options.pass_options.auto_shard.search)
    return option_error(fmt::format("give one: {}", OptionName{"mesh", "dp=2,tp=4"}),
                        "{}: the module has no mesh over which it could be laid out", OptionName{"auto-shard"});
  const bool temporal = options.microbatches > 0 || (module.mesh() && module.mesh()->temporal());
  if (!temporal && options.pass_options.partition.grad_sync)
    return option_error(fmt::format("say into how many: {}", OptionName{"microbatches", "4"}), "{}: the batch is not cut into microbatches",
                        OptionName{"grad-sync"});
  for (const std::string& option : given)
    if (!mesh && !((option == "no-overlap" || option == "overlap-bytes") && copies_state(module, options)))
      return option_error("say how many ranks there are, and along which axes the batch lies: " +
                              spelled_together({{"mesh", "dp=4"}, {"data-axes", "dp"}}),
                          "{}: the module has no mesh, so that one rank runs it, which exchanges nothing", OptionName{option});
  if (options.pass_options.bucket_collectives.bucket_bytes.count == 0 && is_given("first-bucket-bytes"))
    return option_error(fmt::format("give {} more than 0, or leave {} out", OptionName{"bucket-bytes"}, OptionName{"first-bucket-bytes"}),
                        "{}: with {} there are no buckets, nor a first one", OptionName{"first-bucket-bytes"},
                        OptionName{"bucket-bytes", "0"});
  return Ok{};
}

}  // namespace nabla::driver

#include "cli/driver/report_mesh.h"

#include "ir/type.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

// The axis to whose coordinate the digit belongs.
std::string axis_of(const std::vector<ir::Mesh>& meshes, const ir::RankDigit& digit) {
  for (const ir::Mesh& mesh : meshes) {
    int64_t stride = 1;
    for (size_t i = mesh.axes.size(); i-- > 0; stride *= mesh.axes[i].size)
      if (digit.stride >= stride && digit.stride < stride * mesh.axes[i].size) return mesh.axes[i].name;
  }
  return "";
}

std::string type_text(const ir::WholeTensor& t) {
  std::string out = std::string(name_of(t.dtype)) + "[";
  for (size_t d = 0; d < t.shape.size(); ++d)
    out += (d ? "," : "") + (d < t.formulas.size() && !t.formulas[d].empty() ? t.formulas[d] : std::to_string(t.shape[d]));
  return out + "]";
}

void add_wholes(const ir::ProgramSet& set, size_t of_class, const char* kind, const std::vector<ir::WholeTensor>& wholes, Json& out) {
  for (const ir::WholeTensor& t : wholes)
    for (const ir::ClassPlacement& p : t.placements) {
      if (p.of_class != static_cast<int>(of_class)) continue;
      int64_t parts = 1, elements = 1, with_padding = 1;
      Json cuts = Json::array();
      for (size_t d = 0; d < t.shape.size(); ++d) {
        int64_t along = 1;
        if (d < p.cuts.size()) {
          Json digits = Json::array();
          for (const ir::RankDigit& r : p.cuts[d].digits) digits.push_back({r.stride, r.count, axis_of(set.meshes, r)}), along *= r.count;
          cuts.push_back({p.cuts[d].begin, std::move(digits)});
        }
        parts *= along, elements *= t.shape[d], with_padding *= (t.shape[d] + along - 1) / along * along;
      }
      out.push_back({{"kind", kind}, {"entry", t.entry}, {"name", t.name}, {"type", type_text(t)}, {"shape", t.shape}, {"cuts", cuts},
                     {"copies", set.ranks / parts}, {"padding", with_padding - elements}});
    }
}

}  // namespace

void add_mesh(const ir::ProgramSet& set, size_t of_class, Json& report) {
  if (set.ranks == 1 || set.meshes.empty()) return;
  Json axes = Json::array();
  for (const ir::MeshAxis& a : set.meshes[0].axes) axes.push_back({a.name, a.size});
  report["mesh"] = {{"name", set.meshes[0].name}, {"ranks", set.ranks}, {"axes", std::move(axes)}};
  Json& wholes = report["wholes"] = Json::array();
  add_wholes(set, of_class, "state", set.state, wholes);
  add_wholes(set, of_class, "input", set.inputs, wholes);
  add_wholes(set, of_class, "output", set.outputs, wholes);
}

}  // namespace nabla::driver

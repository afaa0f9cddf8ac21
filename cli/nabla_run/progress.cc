#include "cli/nabla_run/progress.h"

#include <nlohmann/json.hpp>

namespace nabla::cli {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kKey = "nabla.progress.";

}  // namespace

format::Metadata progress_metadata(const ProgressOf& progress) {
  format::Metadata out;
  for (const auto& [entry, p] : progress)
    out[std::string(kKey) + entry] = Json{{"seed", p.seed},         {"step", p.step},       {"epoch", p.epoch},
                                          {"position", p.position}, {"samples", p.samples}, {"batch", p.batch}}
                                         .dump();
  return out;
}

Result<ProgressOf> read_progress(const format::Metadata& metadata, const std::string& what) {
  ProgressOf out;
  for (const auto& [key, text] : metadata) {
    if (!key.starts_with(kKey)) continue;
    auto damaged = [&] {
      Diagnostic d = error(Code::kStateMismatch, "{}: `{}` of its metadata is damaged: {}", what, key, text);
      d.help = "save the state again; without this key training begins anew";
      return d;
    };
    Json json = Json::parse(text, nullptr, false);
    if (!json.is_object() || json.size() != 6) return damaged();
    Progress p;
    auto take = [&](const char* name, auto& to) {
      auto found = json.find(name);
      if (found == json.end() || !found->is_number_unsigned()) return false;
      auto value = found->template get<uint64_t>();
      to = static_cast<std::decay_t<decltype(to)>>(value);
      return to >= 0 && static_cast<uint64_t>(to) == value;
    };
    if (!take("seed", p.seed) || !take("step", p.step) || !take("epoch", p.epoch) || !take("position", p.position) ||
        !take("samples", p.samples) || !take("batch", p.batch))
      return damaged();
    // A position in data is within an epoch, and the count of batches does not overflow.
    int64_t batches = p.batch > 0 ? p.samples / p.batch : 0;
    if (p.position > batches || (batches > 0 && p.epoch >= INT64_MAX / batches - 1)) return damaged();
    out[key.substr(kKey.size())] = p;
  }
  return out;
}

}  // namespace nabla::cli

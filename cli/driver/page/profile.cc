// The profile of a trace, checked: the page takes its fields for granted.
#include <nlohmann/json.hpp>

#include "cli/driver/page/page.h"
#include "runtime/format/file.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

bool has(const Json& object, std::initializer_list<const char*> texts, std::initializer_list<const char*> numbers) {
  if (!object.is_object()) return false;
  for (const char* name : texts)
    if (!object.contains(name) || !object[name].is_string()) return false;
  for (const char* name : numbers)
    if (!object.contains(name) || !object[name].is_number()) return false;
  return true;
}

bool is_profile(const Json& profile) {
  if (!profile.is_array()) return false;
  for (const Json& entry : profile) {
    if (!has(entry, {"entry"}, {"runs", "seconds"}) || !entry.contains("rows") || !entry["rows"].is_array())
      return false;
    for (const Json& row : entry["rows"])
      if (!has(row, {"name", "kind", "problem", "source"}, {"calls", "seconds", "flops", "bytes", "of_peak"}))
        return false;
  }
  return true;
}

}  // namespace

Result<std::string> profile_in(const std::string& path) {
  std::shared_ptr<const format::FileBytes> file = NABLA_TRY(format::FileBytes::map(path));
  Json trace = Json::parse(format::as_text(file->bytes()), nullptr, false);
  if (!trace.is_object() || !trace.contains("profile") || !is_profile(trace["profile"])) {
    Diagnostic d = error(Code::kCorrupt, "{} has no profile", path);
    d.help = "it is written by `nabla-run BUNDLE --entry NAME --profile --trace FILE`";
    return d;
  }
  if (trace["profile"].empty()) return error(Code::kCorrupt, "the profile in {} has no run", path);
  return trace["profile"].dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace nabla::driver

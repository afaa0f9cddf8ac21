#include "cli/driver/report_json.h"

#include "ir/symbols.h"

namespace nabla::driver {

using Json = nlohmann::ordered_json;

Result<Json> parse_report(const std::string& text, const std::string& name) {
  Json json;
  try {
    json = Json::parse(text);
  } catch (const Json::parse_error& e) {
    return error(Code::kCorrupt, "{} is damaged: no JSON from byte {} of {} on", name, e.byte, text.size());
  } catch (const Json::exception&) {
    return error(Code::kCorrupt, "{} is damaged: a number in it is too large", name);
  }
  if (!json.is_object() || !json.contains("report_version") || !json["report_version"].is_number_integer())
    return error(Code::kCorrupt, "{} is no report: it has no report_version", name);
  int64_t version = json["report_version"];
  if (version > kReportVersion)
    return error(Code::kNewerVersion, "{} is of version {}; this nablac reads version {}", name, version, kReportVersion);
  if (version < kReportVersion) {
    Diagnostic d = error(Code::kForeignFile, "{} is of version {}; this nablac reads version {}", name, version, kReportVersion);
    d.help = "compile the model again";
    return d;
  }
  return json;
}

Status check_sizes(const Json& report, const SizeLists& sizes) {
  std::vector<ir::SymbolRef> symbols;
  for (const Json& s : report.value("symbols", Json::array())) {
    ir::Symbol symbol{s.at("name").get<std::string>(), s.at("min"), s.at("max"), s.at("multiple")};
    if (symbol.multiple < 1) return error(Code::kCorrupt, "report.json: `{}` is a multiple of {}", symbol.name, symbol.multiple);
    symbols.push_back(std::make_shared<const ir::Symbol>(std::move(symbol)));
  }
  for (const auto& [name, values] : sizes)
    for (int64_t value : values) NABLA_TRY(ir::check_size(symbols, name, value, spelled(kAtOption)));
  return Ok{};
}

std::string target_of_report(const std::string& json) {
  Json report = Json::parse(json, nullptr, false);
  if (!report.is_object() || !report.contains("target") || !report["target"].is_string()) return "";
  return report["target"].get<std::string>();
}

}  // namespace nabla::driver

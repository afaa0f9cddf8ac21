#include "cli/driver/page/page.h"

#include "cli/driver/report_json.h"
#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"
#include "runtime/format/program_generated.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kTemplate =
#include "cli/driver/page/template_text.inc"
    ;
constexpr const char* kStyle =
#include "cli/driver/page/style_text.inc"
    ;
constexpr const char* kScript =
#include "cli/driver/page/script_text.inc"
    ;

std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string out;
  for (size_t at = 0;;) {
    size_t next = text.find(from, at);
    out += text.substr(at, next - at);
    if (next == std::string_view::npos) return out;
    out += to;
    at = next + from.size();
  }
}

// JSON inside <script>: its strings must not end the element, nor open a comment.
std::string embedded(std::string_view json) { return replaced(json, "<", "\\u003c"); }
std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string escaped(std::string_view text) {
  return replaced(replaced(replaced(text, "&", "&amp;"), "<", "&lt;"), "\"", "&quot;");
}

// The extern "C" function of that name, or "".
std::string function_text(const std::string& all, const std::string& symbol) {
  constexpr std::string_view kHead = "\nextern \"C\" ";
  for (size_t at = all.find(" " + symbol + "("); at != std::string::npos; at = all.find(" " + symbol + "(", at + 1)) {
    size_t begin = all.rfind('\n', at);
    if (begin == std::string::npos || all.compare(begin, kHead.size(), kHead) != 0) continue;
    size_t end = all.find("\n}\n", begin);
    return all.substr(begin + 1, end == std::string::npos ? end : end + 2 - begin);
  }
  return "";
}

}  // namespace

// "sm_80_0.cu" of a GPU; a class has one program for CPUs, to which all other sources belong.
bool is_source_of(std::string_view member, const format::BundleClass& of, const ir::Target& target) {
  std::string folder = of.folder + "source/";
  if (!member.starts_with(folder)) return false;
  member.remove_prefix(folder.size());
  return target.is_cuda() ? member.starts_with(target.name + "_") && member.ends_with(".cu") : !member.ends_with(".cu");
}

std::map<std::string, std::string> kernel_texts(const format::Bundle& bundle, const format::BundleClass& of,
                                                const std::string& report) {
  std::map<std::string, std::string> out;
  Result<ir::Target> target = ir::find_target(target_of_report(report));
  if (!target.ok()) return out;
  std::string all;
  for (const format::ZipMember& m : bundle.members())
    if (is_source_of(m.name, of, *target)) all += format::as_text(bundle.member(m.name));
  for (const format::Program* p : of.programs) {
    if (!p->kernels() || !p->target() || p->target()->str() != target->name) continue;
    for (const format::Kernel* k : *p->kernels()) {
      if (!k->name() || !k->symbol()) continue;
      std::string& text = out[k->name()->str()];
      if (!target->is_cuda()) text = function_text(all, k->symbol()->str());
      if (!k->grids()) continue;
      for (const format::Grid* g : *k->grids())
        if (g->symbol()) text += (text.empty() ? "" : "\n") + function_text(all, g->symbol()->str());
    }
  }
  std::erase_if(out, [](const auto& kernel) { return kernel.second.empty(); });
  return out;
}

Result<std::string> make_page(const PageInput& input) {
  Json report = NABLA_TRY(parse_report(input.report));
  try {
    NABLA_TRY(check_sizes(report, input.sizes));
  } catch (const nlohmann::json::exception& e) {
    return error(Code::kCorrupt, "report.json is damaged: {}", e.what());
  }
  Json chosen = Json::object(), texts = Json::object();
  for (const auto& [name, values] : input.sizes) {
    if (values.size() != 1)
      return option_error(fmt::format("give one: {}={}", name, values.empty() ? 1 : values[0]),
                          "{} starts at one value of each size; {} has {}", OptionName{"html"}, name, values.size());
    chosen[name] = values[0];
  }
  for (const auto& [name, text] : input.texts) texts[name] = text;
  const std::map<std::string, std::string> parts = {{"title", escaped(input.title)},
                                                    {"style", kStyle},
                                                    {"script", kScript},
                                                    {"report", embedded(input.report)},
                                                    {"texts", embedded(text_of(texts))},
                                                    {"profile", input.profile.empty() ? "[]" : embedded(input.profile)},
                                                    {"chosen", embedded(text_of(chosen))}};
  const std::string page = kTemplate;
  std::string out;
  for (size_t at = 0;;) {
    size_t open = page.find("{{", at);
    out += page.substr(at, open - at);
    if (open == std::string::npos) return out;
    size_t close = page.find("}}", open);
    out += parts.at(page.substr(open + 2, close - open - 2));
    at = close + 2;
  }
}

}  // namespace nabla::driver

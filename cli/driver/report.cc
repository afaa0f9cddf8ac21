#include "cli/driver/report.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/driver/specialise.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/plan.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

std::string place_of(const LocationRef& at) {
  return at && !at->file.empty() ? fmt::format("{}:{}", at->file, at->line) : "";
}

// A size as text for people, and in postfix for evaluation: {"text": "8*n+1", "postfix": "8 n * 1 +"}.
Json formula(const ir::Dim& size) {
  static constexpr const char* kNames[] = {"", "", "+", "*", "floordiv", "mod", "min", "max"};  // by SizeStep::Op
  std::string postfix;
  for (const ir::SizeStep& step : size.steps())
    postfix += (postfix.empty() ? "" : " ") + (step.op == ir::SizeStep::Op::kConstant ? std::to_string(step.value)
                                               : step.symbol                          ? step.symbol->name
                                                             : kNames[static_cast<int>(step.op)]);
  return {{"text", size.str()}, {"postfix", postfix}};
}

class Reporter {
 public:
  Reporter(const ir::Module& flat, const ir::Module& planned, const ir::Target& target)
      : flat_(flat), planned_(planned), target_(target) {}

  Json run() {
    Json out;
    out["report_version"] = 1;
    out["target"] = target_.name;
    int64_t state_elements = 0;
    for (const ir::StateLeaf& l : flat_.state) {
      out["state"].push_back({{"name", l.name},
                              {"type", l.type.str()},
                              {"bytes", l.type.bytes().value()},
                              {"source", place_of(l.location)}});
      state_elements += l.type.count().value();
    }
    out["state_elements"] = state_elements;
    out["state_bytes"] = planned_.plan->state_bytes;
    out["arena_bytes"] = planned_.plan->arena_bytes;
    out["constants_bytes"] = planned_.plan->constants_bytes;
    for (const ir::SymbolRef& s : flat_.symbols)
      out["symbols"].push_back({{"name", s->name}, {"min", s->min}, {"max", s->max}, {"multiple", s->multiple}});
    for (const ir::Entry& e : flat_.entries) out["entries"].push_back(entry(e));
    for (const auto& k : planned_.kernels) out["kernels"].push_back(kernel(*k));
    return out;
  }

 private:
  static Json tensors(const std::vector<std::string>& names, const std::vector<ir::Type>& types, size_t skip) {
    Json out = Json::array();
    for (size_t i = 0; i < names.size(); ++i) out.push_back({{"name", names[i]}, {"type", types[skip + i].str()}});
    return out;
  }

  Json entry(const ir::Entry& e) {
    const ir::Function &f = *flat_.find(e.function), &p = *planned_.find(e.function);
    Json out;
    out["name"] = e.name;
    out["inputs"] = tensors(e.inputs, f.types(f.params), e.reads.size());
    out["outputs"] = tensors(e.outputs, f.types(f.results), e.writes.size());
    for (const char* which : {"reads", "writes"}) {
      out[which] = Json::array();
      for (int leaf : which[0] == 'r' ? e.reads : e.writes) out[which].push_back(flat_.state[leaf].name);
    }
    std::map<std::string, int> ops;
    ir::Dim flops(0);
    for (const ir::Node& n : f.nodes) {
      ++ops[n.op->name];
      ir::TypedOp typed{*n.op, f.types(n.operands), n.attrs, f.types(n.results)};
      flops = flops + n.op->cost(typed).flops;
    }
    out["flops"] = flops.bounds().max;
    for (const auto& [op, count] : ops) out["ops"][op] = count;
    memory(p, out);
    if (!flops.is_static() || out.contains("formulas")) {
      for (const char* which : {"bytes_moved", "temporary_bytes"})
        if (!out["formulas"].contains(which)) out["formulas"][which] = formula(out[which].get<int64_t>());
      out["formulas"]["flops"] = formula(flops);
    }
    return out;
  }

  void memory(const ir::Function& p, Json& out) {
    const ir::FunctionPlan& plan = planned_.plan->functions.at(p.name);
    int64_t moved = 0, instructions = 0;
    ir::Dim moved_formula = 0, live_formula = 0;
    for (const ir::Node& n : p.nodes) {
      if (n.op->lower == ir::Lowering::kView || n.op->lower == ir::Lowering::kConstant) continue;
      ++instructions;
      for (const std::vector<ir::ValueId>* ids : {&n.operands, &n.results})
        for (ir::ValueId id : *ids) {
          moved += plan.values[id].bytes;
          moved_formula = moved_formula + p.type(id).bytes();
        }
    }
    for (const auto& live : plan.at_peak) live_formula = live_formula + p.type(live.value).bytes();
    if (!moved_formula.is_static())
      out["formulas"] = {{"bytes_moved", formula(moved_formula)}, {"temporary_bytes", formula(live_formula)}};
    out["instructions"] = instructions;
    out["bytes_moved"] = moved;
    out["temporary_bytes"] = plan.temporary_bytes;
    out["peak_bytes"] = planned_.plan->state_bytes + plan.temporary_bytes;
    out["top_buffers"] = Json::array();
    std::vector<int> producer = ir::producers(p);
    size_t shown = 0;
    for (const auto& live : plan.at_peak) {
      if (++shown > 8) break;
      const ir::Node& n = p.nodes[producer[live.value]];
      out["top_buffers"].push_back({{"value", ir::value_name(p, live.value)},
                                    {"type", p.type(live.value).str()},
                                    {"bytes", live.bytes},
                                    {"made_by", made_by(n)},
                                    {"source", place_of(n.location)}});
    }
    out["calls"] = Json::array();
    for (const ir::Node& n : p.nodes)
      if (n.op->lower != ir::Lowering::kView && n.op->lower != ir::Lowering::kConstant)
        out["calls"].push_back(
            {{"what", made_by(n)}, {"library", n.op->lower != ir::Lowering::kCall}, {"source", place_of(n.location)}});
  }
  static std::string made_by(const ir::Node& n) {
    const ir::Attr* kernel = n.attrs.find("kernel");
    return kernel ? std::get<std::string>(*kernel) : n.op->name;
  }

  Json kernel(const kernel_ir::Kernel& k) {
    int64_t launches = 0, bytes = 0;
    for (const ir::FunctionPtr& f : planned_.functions)
      for (const ir::Node& n : f->nodes) launches += made_by(n) == k.name;
    for (const auto& b : k.buffers) bytes += ir::Type(b.dtype, b.shape).bytes().bounds().max;
    return {{"name", k.name},
            {"launches", launches},
            {"buffer_bytes", bytes},
            {"units", k.schedule.units.bounds().max},
            {"threads", k.schedule.max_threads}};
  }

  const ir::Module &flat_, &planned_;
  const ir::Target& target_;
};

std::string bytes_text(int64_t n) {
  if (n < 10'000) return fmt::format("{} B", n);
  if (n < 10'000'000) return fmt::format("{:.1f} KB", n / 1e3);
  return n < 10'000'000'000 ? fmt::format("{:.1f} MB", n / 1e6) : fmt::format("{:.2f} GB", n / 1e9);
}

std::string flops_text(const Json& flops) {
  double n = flops.get<double>();
  if (n < 1e4) return fmt::format("{:.0f} FLOP", n);
  return n < 1e6   ? fmt::format("{:.1f} kFLOP", n / 1e3)
         : n < 1e9 ? fmt::format("{:.2f} MFLOP", n / 1e6)
                   : fmt::format("{:.2f} GFLOP", n / 1e9);
}

std::string list_tensors(const Json& tensors) {
  std::string out;
  for (const Json& t : tensors)
    out += (out.empty() ? "" : ", ") + t["name"].get<std::string>() + ": " + t["type"].get<std::string>();
  return out.empty() ? "nothing" : out;
}

using Sizes = std::map<std::string, int64_t>;

// NaN where a symbol has no value.
double evaluate(const Json& formula, const Sizes& sizes) {
  std::istringstream words(formula["postfix"].get<std::string>());
  std::vector<double> stack;
  for (std::string word; words >> word;) {
    static const std::map<std::string, double (*)(double, double)> kOps = {
        {"+", [](double a, double b) { return a + b; }},
        {"*", [](double a, double b) { return a * b; }},
        {"floordiv", [](double a, double b) { return std::floor(a / b); }},
        {"mod", [](double a, double b) { return a - b * std::floor(a / b); }},
        {"min", [](double a, double b) { return std::min(a, b); }},
        {"max", [](double a, double b) { return std::max(a, b); }}};
    if (auto op = kOps.find(word); op != kOps.end() && stack.size() >= 2) {
      double b = stack.back();
      stack.pop_back();
      stack.back() = op->second(stack.back(), b);
    } else if (auto symbol = sizes.find(word); symbol != sizes.end()) {
      stack.push_back(static_cast<double>(symbol->second));
    } else {
      char* end = nullptr;
      double number = std::strtod(word.c_str(), &end);
      stack.push_back(*end == 0 ? number : std::nan(""));
    }
  }
  return stack.size() == 1 ? stack[0] : std::nan("");
}

// The formulas of a symbolic entry, and what they give at chosen sizes.
std::string formulas_text(const Json& e, const std::vector<Sizes>& points) {
  if (!e.contains("formulas")) return "";
  const Json& f = e["formulas"];
  std::string out;
  for (const char* which : {"flops", "bytes_moved", "temporary_bytes"})
    out += fmt::format("  {:<16} {}\n", which, f[which]["text"].get<std::string>());
  for (const Sizes& point : points) {
    std::string name;
    for (const auto& [symbol, value] : point) name += fmt::format("{}{}={}", name.empty() ? "" : ",", symbol, value);
    double flops = evaluate(f["flops"], point);
    if (std::isnan(flops) || std::isnan(evaluate(f["bytes_moved"], point))) continue;
    out += fmt::format("  at {}: {}, {} moved, {} temporary\n", name, flops_text(flops),
                       bytes_text(static_cast<int64_t>(evaluate(f["bytes_moved"], point))),
                       bytes_text(static_cast<int64_t>(evaluate(f["temporary_bytes"], point))));
  }
  return out;
}

std::string entry_text(const Json& e, const std::vector<Sizes>& points) {
  std::string out = fmt::format("entry {}({}) -> {}\n", e["name"].get<std::string>(), list_tensors(e["inputs"]),
                                list_tensors(e["outputs"]));
  out += fmt::format("  state      reads {} leaves, writes {}\n", e["reads"].size(), e["writes"].size());
  out += fmt::format("  work       {}, {} instructions, {} moved\n", flops_text(e["flops"]),
                     e["instructions"].get<int64_t>(), bytes_text(e["bytes_moved"]));
  out += fmt::format("  memory     {} at the peak, {} of it temporary\n", bytes_text(e["peak_bytes"]),
                     bytes_text(e["temporary_bytes"]));
  for (const Json& b : e["top_buffers"])
    out += fmt::format("    {:>10}  {:<24} {:<32} {}\n", bytes_text(b["bytes"]), b["type"].get<std::string>(),
                       b["made_by"].get<std::string>(), b["source"].get<std::string>());
  out += formulas_text(e, points);
  std::string ops;
  const Json counts = e.value("ops", Json::object());
  for (const auto& [op, count] : counts.items())
    ops += (ops.empty() ? "" : ", ") + op + (count == 1 ? "" : fmt::format(" x{}", count.get<int>()));
  return out + "  ops        " + (ops.empty() ? "none" : ops) + "\n";
}

Result<Json> parse(const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded() || !json.is_object() || json.value("report_version", 0) != 1)
    return error(Code::kCorrupt, "the bundle's report.json is no report of this version");
  return json;
}

// Every combination of the values.
std::vector<Sizes> points_of(const SizeLists& lists) {
  std::vector<Sizes> points(lists.empty() ? 0 : 1);
  for (const auto& [name, values] : lists) {
    std::vector<Sizes> longer;
    for (int64_t value : values)
      for (const Sizes& p : points) longer.push_back(p), longer.back()[name] = value;
    points = std::move(longer);
  }
  return points;
}

}  // namespace

std::string make_report(const ir::Module& flat, const ir::Module& planned, const ir::Target& target) {
  return Reporter(flat, planned, target).run().dump(1);
}

Result<std::string> report_text(const std::string& text, const std::vector<SizeLists>& sizes) {
  Json r = NABLA_TRY(parse(text));
  try {
    std::vector<ir::SymbolRef> symbols;
    for (const Json& s : r.value("symbols", Json::array()))
      symbols.push_back(std::make_shared<const ir::Symbol>(
          ir::Symbol{s["name"].get<std::string>(), s["min"], s["max"], s["multiple"]}));
    std::vector<Sizes> points;
    for (const SizeLists& lists : sizes) {
      for (const auto& [name, values] : lists)
        for (int64_t value : values) NABLA_TRY(check_size(symbols, name, value));
      for (Sizes& point : points_of(lists)) points.push_back(std::move(point));
    }
    std::string out =
        fmt::format("target {}   parameters and other state: {} elements, {}   arena {}   constants {}\n\n",
                    r["target"].get<std::string>(), r["state_elements"].get<int64_t>(), bytes_text(r["state_bytes"]),
                    bytes_text(r["arena_bytes"]), bytes_text(r["constants_bytes"]));
    for (const ir::SymbolRef& s : symbols)
      out += fmt::format("size {} in [{}, {}]{}\n", s->name, s->min, s->max,
                         s->multiple > 1 ? fmt::format(", a multiple of {}", s->multiple) : "");
    if (!symbols.empty()) out += "numbers of symbolic entries are those of the largest sizes\n\n";
    for (const Json& l : r.value("state", Json::array()))
      out += fmt::format("state {:<24} {:<20} {:>10}  {}\n", l["name"].get<std::string>(), l["type"].get<std::string>(),
                         bytes_text(l["bytes"]), l["source"].get<std::string>());
    for (const Json& e : r.value("entries", Json::array())) out += "\n" + entry_text(e, points);
    out += fmt::format("\n{} kernels\n", r.value("kernels", Json::array()).size());
    for (const Json& k : r.value("kernels", Json::array()))
      out +=
          fmt::format("  {:<44} {} launch{}, {} buffers, {} units, at most {} thread{}\n", k["name"].get<std::string>(),
                      k["launches"].get<int64_t>(), k["launches"] == 1 ? "" : "es", bytes_text(k["buffer_bytes"]),
                      k["units"].get<int64_t>(), k["threads"].get<int64_t>(), k["threads"] == 1 ? "" : "s");
    return out;
  } catch (const nlohmann::json::exception& e) {
    return error(Code::kCorrupt, "the bundle's report.json is damaged: {}", e.what());
  }
}

Result<std::string> report_html(const std::string& text) {
  std::string body = NABLA_TRY(report_text(text)), escaped;
  for (char c : body) escaped += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  Json r = NABLA_TRY(parse(text));
  // Bars: the peak of each entry beside the others.
  std::string bars;
  int64_t most = 1;
  for (const Json& e : r.value("entries", Json::array())) most = std::max(most, e["peak_bytes"].get<int64_t>());
  int y = 0;
  for (const Json& e : r.value("entries", Json::array())) {
    int64_t peak = e["peak_bytes"], temporary = e["temporary_bytes"];
    double scale = 480.0 / static_cast<double>(most);
    bars += fmt::format(
        "<text x='0' y='{}'>{}</text><rect x='110' y='{}' width='{:.1f}' height='14' fill='#9bb7d4'/>"
        "<rect x='{:.1f}' y='{}' width='{:.1f}' height='14' fill='#d98e5f'/><text x='{:.1f}' y='{}'>{}</text>",
        y + 12, e["name"].get<std::string>(), y, (peak - temporary) * scale, 110 + (peak - temporary) * scale, y,
        temporary * scale, 116 + peak * scale, y + 12, bytes_text(peak));
    y += 24;
  }
  return fmt::format(
      "<!doctype html><meta charset='utf-8'><title>Nabla report</title><style>body{{font:14px sans-serif;margin:2em}}"
      "pre{{font:12px monospace;background:#f6f6f6;padding:1em;overflow:auto}}svg text{{font:12px sans-serif}}</style>"
      "<h1>Program report</h1><h2>Peak memory by entry</h2><p>Blue: state. Orange: temporaries.</p>"
      "<svg width='760' height='{}'>{}</svg><h2>Details</h2><pre>{}</pre>\n",
      y + 4, bars, escaped);
}

}  // namespace nabla::driver

// The report for people.
#include "cli/driver/report_text.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "cli/driver/report_json.h"
#include "ir/gpus.h"
#include "runtime/base/option_name.h"

namespace nabla::driver {

std::string bytes_text(int64_t n) {
  if (n < 10'000) return fmt::format("{} B", n);
  if (n < 10'000'000) return fmt::format("{:.1f} KB", n / 1e3);
  return n < 10'000'000'000 ? fmt::format("{:.1f} MB", n / 1e6) : fmt::format("{:.2f} GB", n / 1e9);
}

std::string time_text(double us) {
  const char* unit = us < 0.9995 ? "ns" : us < 999.5 ? "us" : "ms";
  double n = us < 0.9995 ? us * 1e3 : us < 999.5 ? us : us / 1e3;
  return n < 9.995   ? fmt::format("{:.2f} {}", n, unit)
         : n < 99.95 ? fmt::format("{:.1f} {}", n, unit)
                     : fmt::format("{:.0f} {}", n, unit);
}

namespace {

using Json = nlohmann::ordered_json;

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
    out += (out.empty() ? "" : ", ") + t.at("name").get<std::string>() + ": " + t.at("type").get<std::string>();
  return out.empty() ? "nothing" : out;
}

using Sizes = std::map<std::string, int64_t>;

// NaN where a symbol has no value.
double evaluate(const Json& formula, const Sizes& sizes) {
  std::istringstream words(formula.at("postfix").get<std::string>());
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
  const Json& f = e.at("formulas");
  std::string out;
  for (const char* which : {"flops", "bytes_moved", "temporary_bytes"})
    out += fmt::format("  {:<16} {}\n", which, f.at(which).at("text").get<std::string>());
  for (const Sizes& point : points) {
    std::string name;
    for (const auto& [symbol, value] : point) name += fmt::format("{}{}={}", name.empty() ? "" : ",", symbol, value);
    double flops = evaluate(f.at("flops"), point);
    if (std::isnan(flops) || std::isnan(evaluate(f.at("bytes_moved"), point))) {
      out += fmt::format("  at {}: a size that the formulas hold has no value\n", name);
      continue;
    }
    out += fmt::format("  at {}: {}, {} moved, {} temporary{}\n", name, flops_text(flops),
                       bytes_text(static_cast<int64_t>(evaluate(f.at("bytes_moved"), point))),
                       bytes_text(static_cast<int64_t>(evaluate(f.at("temporary_bytes"), point))),
                       f.contains("least_us") ? ", at least " + time_text(evaluate(f.at("least_us"), point)) : "");
  }
  return out;
}

// What lies in a bucket: equal ones once, the rest of many by their number. Reports of earlier versions do not say.
std::string bucket_text(const Json& row) {
  constexpr size_t kMost = 6;
  std::vector<std::pair<std::string, int>> parts;
  for (const Json& v : row.value("values", Json::array())) {
    const std::string source = v.at("source"), part = v.at("of").get<std::string>() + (source.empty() ? "" : " at " + source);
    auto known = std::find_if(parts.begin(), parts.end(), [&](const auto& p) { return p.first == part; });
    known == parts.end() ? void(parts.emplace_back(part, 1)) : void(++known->second);
  }
  if (parts.empty()) return "";
  std::string out;
  int rest = 0;
  for (size_t i = 0; i < parts.size(); ++i)
    if (i < kMost)
      out += fmt::format("{}{}{}", i ? ", " : "", parts[i].first, parts[i].second == 1 ? "" : fmt::format(" x{}", parts[i].second));
    else
      rest += parts[i].second;
  return fmt::format("                they are {}{}\n", out, rest == 0 ? "" : fmt::format(" and {} more", rest));
}

// Equal ones once.
std::string exchanges_text(const Json& e) {
  if (!e.contains("collectives")) return "";
  std::vector<std::pair<Json, int64_t>> rows;
  int64_t count = 0;
  for (Json r : e.at("collectives")) {
    int64_t times = r.at("times").get<int64_t>();
    r.erase("times"), count += times;
    auto known = std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.first == r; });
    known == rows.end() ? void(rows.emplace_back(r, times)) : void(known->second += times);
  }
  std::string out = fmt::format("  exchanged  {} sent by a rank in {}, {} of the links\n",
                                bytes_text(e.at("sent_bytes")), counted(count, "collective"), time_text(e.at("exchange_us")));
  for (const auto& [r, times] : rows) {
    out += fmt::format("    {:>10}  {:<24} {:<32} {}\n", bytes_text(r.at("payload_bytes")),
                       fmt::format("{}{}", r.at("op").get<std::string>(), times == 1 ? "" : fmt::format(" x{}", times)),
                       fmt::format("{} along {} of {}", r.at("of").get<std::string>(), r.at("axes").get<std::string>(),
                                   r.at("ranks").get<int64_t>()),
                       r.at("source").get<std::string>());
    const int64_t padding = r.at("padding_bytes").get<int64_t>();
    out += fmt::format("                {}; {} {}{}, {} sent in {}\n", r.at("reason").get<std::string>(), r.at("elements").get<int64_t>(),
                       r.at("dtype").get<std::string>(), padding ? fmt::format(" with {} of padding on average", bytes_text(padding)) : "",
                       bytes_text(r.at("sent_bytes")), time_text(r.at("us")));
    out += bucket_text(r);
  }
  return out;
}

// "parameters 35.9 KB, optimizer's state 36.1 KB": the classes of memory that have bytes.
std::string classes_text(const Json& memory) {
  static constexpr std::pair<const char*, const char*> kNames[] = {
      {"parameters", "parameters"}, {"optimizer", "optimizer's state"}, {"other_state", "other state"}, {"state", "state"},
      {"gradients", "gradients"},   {"temporaries", "temporaries"},     {"gaps", "gaps"},               {"inputs", "inputs"},
      {"outputs", "outputs"}};
  std::string out;
  for (const auto& [key, name] : kNames)
    if (int64_t bytes = memory.value(key, int64_t{0}); bytes != 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", name, bytes_text(bytes));
  return out.empty() ? "nothing" : out;
}

// What of an entry's memory is for what: bytes that add up.
std::string memory_text(const Json& memory) {
  int64_t all = 0;
  for (const auto& [key, bytes] : memory.items())
    if (key != "host") all += bytes.get<int64_t>();
  return fmt::format("  of it      {}: {} with the caller's\n", classes_text(memory), bytes_text(all));
}

// Of leaves that live in the host's memory, and what is copied for them.
std::string host_text(const Json& e) {
  std::string out;
  if (const Json& memory = e.at("memory"); memory.contains("host")) {
    int64_t all = 0;
    for (const auto& [key, bytes] : memory.at("host").items()) all += bytes.get<int64_t>();
    out += fmt::format("  of host    {}: {} of its pinned memory\n", classes_text(memory.at("host")), bytes_text(all));
  }
  const Json transfers = e.value("transfers", Json::object());
  for (const auto& [direction, t] : transfers.items()) {
    out += fmt::format("  copied     {} {} in {}, at least {} of the link\n", bytes_text(t.at("bytes")),
                       direction == "to_host" ? "to the host" : "to the GPU", counted(t.at("copies"), "copy"), time_text(t.at("us")));
    std::vector<Json> leaves = t.at("leaves");
    std::stable_sort(leaves.begin(), leaves.end(), [](const Json& a, const Json& b) { return a.at("bytes") > b.at("bytes"); });
    for (size_t i = 0; i < leaves.size() && i < 8; ++i) {
      std::string often = leaves[i].at("copies") == 1 ? "" : fmt::format(" x{}", leaves[i].at("copies").get<int64_t>());
      out += fmt::format("    {:>10}  {:<57} {}\n", bytes_text(leaves[i].at("bytes")), leaves[i].at("name").get<std::string>() + often,
                         leaves[i].at("source").get<std::string>());
    }
  }
  return out;
}

// What a run of a GPU's entry is expected to take, by what its kernels do.
std::string prediction_text(const Json& e) {
  const Json& p = e.at("predicted");
  std::string out = fmt::format("  predicted  {}", time_text(p.at("us")));
  if (p.at("library_us") > 0) out += fmt::format(", {} of it by libraries", time_text(p.at("library_us")));
  out += fmt::format(": {:.0f} launches, {:.4g} sectors", p.at("launches").get<double>(), p.at("sectors").get<double>());
  if (!p.at("counted").get<bool>()) return out + "; without machine code, by schedules alone\n";
  return out + fmt::format(", {:.4g} instructions of warps\n", p.at("warp_instructions").get<double>());
}

// How many operations there are for a byte, and what follows; what a run is predicted to take.
std::string roofline_text(const Json& e, const Json& machine) {
  const double moved = e.at("bytes_moved").get<double>(), ridge = machine.at("ridge").get<double>();
  const double intensity = moved > 0 ? e.at("flops").get<double>() / moved : 0;
  const std::string of = machine.value("ridge_factors", "f32");
  std::string out = fmt::format("  roofline   {:.3g} FLOP for a byte moved, {} the ridge of {:.3g}{}: {} decide\n", intensity,
                                intensity < ridge ? "under" : "over", ridge, of == "f32" ? "" : " for " + of,
                                intensity < ridge ? "bytes" : "products");
  if (e.contains("predicted") && !e.contains("timeline")) return out + prediction_text(e);
  out += fmt::format("  predicted  {} of computing", time_text(e.at("compute_us")));
  if (!e.contains("timeline")) return out + "\n";
  const Json& t = e.at("timeline");
  return out + fmt::format(", {} of exchanges, {} for all\n", time_text(t.at("exchange_us")), time_text(t.at("us")));
}

// "dp,tp" for a matrix that is cut along both dimensions, as --layout takes it; "whole".
std::string layout_text(const Json& whole) {
  std::string out;
  bool cut = false;
  for (const Json& dim : whole.at("cuts")) {
    std::string word;
    for (const Json& digit : dim.at(1)) word += (word.empty() ? "" : "+") + digit.at(2).get<std::string>();
    out += (&dim == &whole.at("cuts").front() ? "" : ",") + word, cut |= !word.empty();
  }
  if (int64_t padding = whole.at("padding").get<int64_t>(); padding > 0) out += fmt::format(" with {} elements of padding", padding);
  return cut ? "cut as " + out : "whole on every rank";
}

// How inputs and outputs of an entry lie over the ranks.
std::string wholes_text(const Json& report, const std::string& entry) {
  std::string out;
  for (const Json& w : report.value("wholes", Json::array()))
    if (w.at("kind") != "state" && w.at("entry") == entry)
      out += fmt::format("  {:<10} {}: {}, {}\n", w.at("kind").get<std::string>(), w.at("name").get<std::string>(),
                         w.at("type").get<std::string>(), layout_text(w));
  return out;
}

// Which part of a leaf a rank has.
std::string part_text(const Json& report, const std::string& leaf) {
  for (const Json& w : report.value("wholes", Json::array()))
    if (w.at("kind") == "state" && w.at("name") == leaf)
      return fmt::format("  of {:<18} {:<22}", w.at("type").get<std::string>(), layout_text(w));
  return "";
}

std::string mesh_text(const Json& report) {
  if (!report.contains("mesh")) return "";
  const Json& mesh = report.at("mesh");
  std::string axes;
  for (const Json& a : mesh.at("axes"))
    axes += fmt::format("{}{}={}", axes.empty() ? "" : ", ", a.at(0).get<std::string>(), a.at(1).get<int64_t>());
  return fmt::format("mesh {}: {}, {} ranks; numbers are those of one\n\n", mesh.at("name").get<std::string>(), axes,
                     mesh.at("ranks").get<int64_t>());
}

std::string entry_text(const Json& report, const Json& e, const std::vector<Sizes>& points) {
  std::string out = fmt::format("entry {}({}) -> {}\n", e.at("name").get<std::string>(), list_tensors(e.at("inputs")),
                                list_tensors(e.at("outputs")));
  out += wholes_text(report, e.at("name").get<std::string>());
  out += fmt::format("  state      reads {} leaves, writes {}\n", e.at("reads").size(), e.at("writes").size());
  const Json model = e.value("model_flops", e.at("flops"));
  const double again = e.at("flops").get<double>() - model.get<double>();
  out += fmt::format("  work       {}{}{}, {} instructions, {} moved\n", e.contains("at_least") ? "at least " : "",
                     flops_text(e.at("flops")), again > 0 ? fmt::format(" ({} of it computed again)", flops_text(again)) : "",
                     e.at("instructions").get<int64_t>(), bytes_text(e.at("bytes_moved")));
  if (e.contains("least_us")) out += fmt::format("  time       at least {}\n", time_text(e.at("least_us")));
  out += roofline_text(e, report.at("machine"));
  out += fmt::format("  memory     {} at the peak, {} of it temporary\n", bytes_text(e.at("peak_bytes")),
                     bytes_text(e.at("temporary_bytes")));
  out += memory_text(e.at("memory"));
  out += host_text(e);
  for (const Json& b : e.at("top_buffers"))
    out += fmt::format("    {:>10}  {:<24} {:<32} {}\n", bytes_text(b.at("bytes")), b.at("type").get<std::string>(),
                       b.at("made_by").get<std::string>(), b.at("source").get<std::string>());
  out += exchanges_text(e);
  out += formulas_text(e, points);
  std::string ops;
  const Json counts = e.value("ops", Json::object());
  for (const auto& [op, count] : counts.items())
    ops += (ops.empty() ? "" : ", ") + op + (count == 1 ? "" : fmt::format(" x{}", count.get<int>()));
  return out + "  ops        " + (ops.empty() ? "none" : ops) + "\n";
}

std::string kernel_text(const Json& k, const Json& machine) {
  std::string out = fmt::format("  {:<44} ", k.at("name").get<std::string>());
  if (k.at("launches") != 0)
    out += fmt::format("{} launch{}, ", k.at("launches").get<int64_t>(), k.at("launches") == 1 ? "" : "es");
  out += fmt::format("{} buffers", bytes_text(k.at("buffer_bytes")));
  if (const Json moved = k.value("bytes_moved", k.at("buffer_bytes")); moved < k.at("buffer_bytes"))
    out += fmt::format(", {} of them moved", bytes_text(moved));
  if (!k.contains("least_us"))
    return out + fmt::format(", {} units, at most {}\n", k.at("units").get<int64_t>(), counted(k.at("threads"), "thread"));
  out += fmt::format(", at least {}", time_text(k.at("least_us")));
  if (k.contains("predicted_us")) out += fmt::format(", predicted {}", time_text(k.at("predicted_us")));
  out += "\n";
  for (const Json& g : k.value("grids", Json::array())) {
    out += fmt::format("    {} x {} threads", g.at("blocks").get<int64_t>(), g.at("threads").get<int64_t>());
    if (g.contains("registers"))
      out += fmt::format(", {} registers, {} shared, {} local, {} of {} warps", g.at("registers").get<int64_t>(),
                         bytes_text(g.at("shared_bytes").get<int64_t>() + g.at("static_shared_bytes").get<int64_t>()),
                         bytes_text(g.at("local_bytes")), g.at("resident_warps").get<int64_t>(),
                         machine.at("resident_warps").get<int64_t>());
    out += "  " + g.at("symbol").get<std::string>() + "\n";
    for (const Json& warning : g.value("warnings", Json::array())) out += fmt::format("      {}\n", warning.get<std::string>());
  }
  return out;
}

std::string library_text(const Json& c) {
  std::string out = fmt::format("  {:<44} {} of {}", c.at("problem").get<std::string>(),
                                counted(c.at("calls"), "call"), c.at("library").get<std::string>());
  if (c.at("epilogue") != "") out += fmt::format(", with {}", c.at("epilogue").get<std::string>());
  std::string compute =
      c.at("compute") == "tf32" ? "factors in tf32, sums in f32" : "sums in " + c.at("compute").get<std::string>();
  out += fmt::format(", {} buffers, {}, {} workspace, at least {}", bytes_text(c.at("buffer_bytes")), compute,
                     bytes_text(c.at("workspace_bytes")), time_text(c.at("least_us")));
  out += c.contains("predicted_us") ? fmt::format(", predicted {}\n", time_text(c.at("predicted_us"))) : "\n";
  return out + fmt::format("    without the library  {}\n", c.at("fallback").get<std::string>());
}

std::string symbol_text(const Json& s) {
  std::string out = fmt::format("size {} in [{}, {}]", s.at("name").get<std::string>(), s.at("min").get<int64_t>(),
                                s.at("max").get<int64_t>());
  if (s.at("multiple") > 1) out += fmt::format(", a multiple of {}", s.at("multiple").get<int64_t>());
  const char* between = ", launched up to ";
  for (const Json& bound : s.value("buckets", Json::array()))
    out += fmt::format("{}{}", std::exchange(between, ", "), bound.get<int64_t>());
  return out + "\n";
}

std::string gpu_line(const std::string& target, const std::string& gpus, const std::string& gpu, int multiprocessors, double copy_gbs) {
  std::string out = fmt::format("times are predicted for {} ({} multiprocessors, {:.0f} GB/s of memory)", gpu, multiprocessors, copy_gbs);
  if (target.starts_with("sm_") && gpus != gpu)
    out += fmt::format("; the code runs on {}: compile with {} to name another", gpus, OptionName{"target", target + ":GPU"});
  return out;
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

std::string gpu_text(const Json& report) {
  const Json machine = report.value("machine", Json::object());
  if (!machine.contains("gpus")) return "";
  return gpu_line(report.at("target"), machine.at("gpus"), machine.value("gpu", "a GPU"), machine.at("multiprocessors"),
                  machine.at("copy_gbs"));
}

std::string gpu_text(const ir::Target& target) {
  if (!target.is_cuda()) return "";
  const ir::GpuModel* model = ir::predicted_gpu(target);
  return gpu_line(target.name, target.cuda.gpus, model ? model->name : "a GPU", target.cuda.multiprocessors, target.cuda.copy_gbs);
}

Result<std::string> report_text(const std::string& text, const std::vector<SizeLists>& sizes) {
  Json r = NABLA_TRY(parse_report(text));
  try {
    const Json symbols = r.value("symbols", Json::array());
    std::vector<Sizes> points;
    for (const SizeLists& lists : sizes) {
      NABLA_TRY(check_sizes(r, lists));
      for (Sizes& point : points_of(lists)) points.push_back(std::move(point));
    }
    std::string out =
        fmt::format("target {}   parameters and other state: {} elements, {}{}   arena {}   constants {}\n\n",
                    r.at("target").get<std::string>(), r.at("state_elements").get<int64_t>(), bytes_text(r.at("state_bytes")),
                    r.contains("host_bytes") ? fmt::format(" and {} of the host", bytes_text(r.at("host_bytes"))) : "",
                    bytes_text(r.at("arena_bytes")), bytes_text(r.at("constants_bytes")));
    if (const std::string gpu = gpu_text(r); !gpu.empty()) out += gpu + "\n\n";
    out += mesh_text(r);
    const std::vector<std::string> notes = r.value("notes", std::vector<std::string>());
    for (const std::string& note : notes) out += "note: " + note + "\n";
    if (!notes.empty()) out += "\n";
    for (const Json& s : symbols) out += symbol_text(s);
    if (!symbols.empty()) out += "numbers of symbolic entries are those of the largest sizes\n\n";
    for (const Json& l : r.value("state", Json::array()))
      out += fmt::format("state {:<24} {:<20} {:>10}{}  {}\n", l.at("name").get<std::string>(), l.at("type").get<std::string>(),
                         bytes_text(l.at("bytes")),
                         (l.contains("memory") ? "  in the host's memory" : "") + part_text(r, l.at("name").get<std::string>()),
                         l.at("source").get<std::string>());
    for (const Json& e : r.value("entries", Json::array())) out += "\n" + entry_text(r, e, points);
    std::string run, fallbacks;
    size_t running = 0;
    for (const Json& k : r.value("kernels", Json::array())) {
      running += k.at("launches") != 0;
      (k.at("launches") != 0 ? run : fallbacks) += kernel_text(k, r.at("machine"));
    }
    out += fmt::format("\n{}\n{}", counted(running, "kernel"), run);
    const Json calls = r.value("library_calls", Json::array());
    if (!calls.empty()) out += fmt::format("\n{} of library call\n", counted(calls.size(), "kind"));
    for (const Json& c : calls) out += library_text(c);
    if (!fallbacks.empty()) out += "\nfallbacks, which run where the library is missing\n" + fallbacks;
    return out;
  } catch (const nlohmann::json::exception& e) {
    return error(Code::kCorrupt, "report.json is damaged: {}", e.what());
  }
}

}  // namespace nabla::driver

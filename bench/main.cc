// bench [NAME...] [--json] --bin FOLDER: runs the benches of these names, or all. bench/run builds and starts it.
#include <fmt/core.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "bench/bench.h"

namespace nabla::bench {
namespace {

// Four significant digits; whole numbers in full.
std::string number(double v) { return v >= 10000 ? fmt::format("{:.0f}", v) : fmt::format("{:.4g}", v); }

void print_row(const Bench& bench, const Measurement& m) {
  std::string peer = m.peer.empty() ? "" : fmt::format("{} {}", m.peer, number(m.peer_value));
  fmt::print("{:29} {:>10} {:8} {:18} {:>7}  {}\n", bench.name, number(m.value), m.unit, peer,
             m.peer.empty() ? "" : fmt::format("{:.3f}", m.ratio), bench.what);
  std::fflush(stdout);
}

void print_json(const Bench& bench, const Measurement& m) {
  fmt::print("{{\"name\": \"{}\", \"value\": {:.6g}, \"unit\": \"{}\"", bench.name, m.value, m.unit);
  if (!m.peer.empty())
    fmt::print(", \"peer\": \"{}\", \"peer_value\": {:.6g}, \"ratio\": {:.4f}", m.peer, m.peer_value, m.ratio);
  fmt::print("}}\n");
  std::fflush(stdout);
}

bool run_one(const Bench& bench, const Paths& paths, bool json) {
  Result<Measurement> m = bench.run(paths);
  if (!m.ok()) {
    fmt::print(stderr, "{}: {}", bench.name, to_string(m.errors()));
    return false;
  }
  json ? print_json(bench, *m) : print_row(bench, *m);
  if (!m->is_share || m->ratio <= kMostShare) return true;
  fmt::print(stderr, "{}: {:.2f} times the {}: twice: that limit was measured wrongly\n", bench.name, m->ratio,
             m->peer);
  return false;
}

std::vector<Bench> all_benches() {
  std::vector<Bench> all;
  for (auto family :
       {machine_benches, kernel_benches, digits_benches, charlm_benches, shard_benches, rank_benches, scale_benches, checkpoint_benches,
        busy_benches, product_benches, predicted_benches, python_benches})
    for (Bench& b : family()) all.push_back(std::move(b));
  return all;
}

int run(const std::vector<std::string>& args) {
  std::vector<Bench> all = all_benches();
  std::vector<std::string> known, wanted;
  for (const Bench& b : all) known.push_back(b.name);
  bool json = false;
  Paths paths;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--json") {
      json = true;
    } else if (args[i] == "--bin" && i + 1 < args.size()) {
      paths.bin = args[++i];
    } else if (std::find(known.begin(), known.end(), args[i]) != known.end()) {
      wanted.push_back(args[i]);
    } else {
      fmt::print(stderr, "unknown bench or option `{}`{}\nusage: bench/run [NAME...] [--json]\nnames:\n", args[i],
                 did_you_mean(args[i], known));
      for (const Bench& b : all) fmt::print(stderr, "  {:26} {}\n", b.name, b.what);
      return 2;
    }
  }
  std::string pattern = (std::filesystem::temp_directory_path() / "nabla-bench-XXXXXX").string();
  if (!mkdtemp(pattern.data())) {
    fmt::print(stderr, "no folder can be made in {}\n", std::filesystem::temp_directory_path().string());
    return 1;
  }
  paths.scratch = pattern;
  if (!json) fmt::print("{:29} {:>10} {:8} {:18} {:>7}\n", "name", "value", "unit", "compared with", "ratio");
  bool ok = true;
  for (const Bench& b : all)
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), b.name) != wanted.end())
      ok = run_one(b, paths, json) && ok;
  std::error_code ignored;
  std::filesystem::remove_all(paths.scratch, ignored);
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace nabla::bench

int main(int argc, char** argv) { return nabla::bench::run({argv + 1, argv + argc}); }

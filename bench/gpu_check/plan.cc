#include "bench/gpu_check/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <span>

#include "bench/gpu_check/session.h"
#include "runtime/base/text.h"
#include "runtime/format/file.h"

namespace nabla::gpu_check {
namespace {

using nlohmann::json;

enum class Is { kText, kTexts, kCount, kCounts, kRanks, kTolerance, kRate, kLosses };
struct Field {
  const char* name;
  Is is;
};

constexpr int64_t kMostRanks = 64;  // each is a process of its own

constexpr Field kPlan[] = {{"target", Is::kText}, {"tensor_tflops", Is::kRate}};
constexpr Field kValues[] = {{"name", Is::kText},  {"bundle", Is::kText},          {"cpu", Is::kText},
                             {"entry", Is::kText}, {"tolerance", Is::kTolerance}, {"integers", Is::kCount}};
constexpr Field kBefore[] = {{"before", Is::kTexts}};
constexpr Field kCeilings[] = {{"name", Is::kText}, {"bundle", Is::kText}, {"entry", Is::kText},
                               {"unit", Is::kText}, {"work", Is::kRate},   {"datasheet", Is::kRate},
                               {"of", Is::kText},   {"launches", Is::kCount}, {"algorithms", Is::kTexts}};
constexpr Field kTraining[] = {{"name", Is::kText}, {"bundle", Is::kText}, {"tokens", Is::kCount}, {"vocabulary", Is::kCount},
                               {"flops", Is::kRate}, {"seed", Is::kCount}};
constexpr Field kCurve[] = {{"losses", Is::kLosses}, {"tolerance", Is::kTolerance}};
constexpr Field kRanks[] = {{"name", Is::kText}, {"ranks", Is::kRanks}};
constexpr Field kSuite[] = {{"suite", Is::kCounts}};
constexpr Field kTrained[] = {{"bundle", Is::kText}, {"steps", Is::kCount}};
constexpr Field kCompared[] = {{"cpu", Is::kText}, {"tolerance", Is::kTolerance}};

bool is_text(const json& v) { return v.is_string() && !v.get_ref<const std::string&>().empty(); }
bool is_count(const json& v, int64_t most = INT32_MAX) {
  return v.is_number_unsigned() && v.get<uint64_t>() >= 1 && v.get<uint64_t>() <= static_cast<uint64_t>(most);
}
template <class Each>
bool all(const json& v, Each each) {
  return v.is_array() && !v.empty() && std::all_of(v.begin(), v.end(), each);
}

// What a value should be; empty: it is.
std::string expected(const json& v, Is is) {
  switch (is) {
    case Is::kText: return is_text(v) ? "" : "a text";
    case Is::kTexts: return all(v, is_text) ? "" : "an array of texts";
    case Is::kCount: return is_count(v) ? "" : fmt::format("a whole number from 1 to {}", INT32_MAX);
    case Is::kCounts: return all(v, [](const json& one) { return is_count(one); }) ? "" : "an array of whole numbers from 1 on";
    case Is::kRanks: return is_count(v, kMostRanks) ? "" : fmt::format("a whole number from 1 to {}", kMostRanks);
    case Is::kTolerance: return v.is_number() && v.get<double>() >= 0 ? "" : "a number of at least 0";
    case Is::kRate: return v.is_number() && v.get<double>() > 0 ? "" : "a number above 0";
    case Is::kLosses: {
      const bool fits = v.size() == kSteps && all(v, [](const json& one) { return one.is_number(); });
      return fits ? "" : fmt::format("an array of {} numbers", kSteps);
    }
  }
  return "";
}

std::string shown(const json& v) {
  constexpr size_t kMost = 60;
  return shortened(v.dump(), kMost);
}

// Of an object that `where` names, "values[3]"; the plan itself has no name.
std::string problem_of(const json& row, const std::string& where, std::span<const Field> fields) {
  if (!row.is_object()) return fmt::format("{} is {}; expected an object", where.empty() ? "it" : where, shown(row));
  for (const Field& f : fields) {
    auto at = row.find(f.name);
    if (at == row.end()) return fmt::format("{} has no `{}`", where.empty() ? "it" : where, f.name);
    if (std::string want = expected(*at, f.is); !want.empty())
      return fmt::format("{}{}{} is {}; expected {}", where, where.empty() ? "" : ".", f.name, shown(*at), want);
  }
  return "";
}

std::string problem_of_value(const json& row, const std::string& where) {
  std::string problem = problem_of(row, where, kValues);
  return problem.empty() && row.contains("before") ? problem_of(row, where, kBefore) : problem;
}
std::string problem_of_ceiling(const json& row, const std::string& where) { return problem_of(row, where, kCeilings); }
std::string problem_of_training(const json& row, const std::string& where) {
  std::string problem = problem_of(row, where, kTraining);
  return problem.empty() && row.contains("losses") ? problem_of(row, where, kCurve) : problem;
}
std::string problem_of_ranks(const json& row, const std::string& where) {
  std::string problem = problem_of(row, where, kRanks);
  if (!problem.empty()) return problem;
  if (row.contains("suite")) return problem_of(row, where, kSuite);
  problem = problem_of(row, where, kTrained);
  if (!problem.empty()) return problem;
  if (!row.contains("killed")) return problem_of(row, where, kCompared);
  return row["ranks"] > 1 ? "" : fmt::format("{} kills rank 1, and has {} rank", where, shown(row["ranks"]));
}

}  // namespace

std::string plan_problem(const json& plan) {
  std::string problem = problem_of(plan, "", kPlan);
  const std::pair<const char*, std::string (*)(const json&, const std::string&)> parts[] = {
      {"values", problem_of_value}, {"ranks", problem_of_ranks}, {"ceilings", problem_of_ceiling}, {"training", problem_of_training}};
  for (const auto& [part, check] : parts) {
    if (!problem.empty()) return problem;
    auto rows = plan.find(part);
    if (rows == plan.end()) return fmt::format("it has no `{}`", part);
    if (!rows->is_array()) return fmt::format("{} is {}; expected an array", part, shown(*rows));
    for (size_t i = 0; i < rows->size() && problem.empty(); ++i) problem = check((*rows)[i], fmt::format("{}[{}]", part, i));
  }
  return problem;
}

Result<json> read_plan(const std::string& folder) {
  const std::string path = folder + "/plan.json";
  Result<std::shared_ptr<const format::FileBytes>> file = format::FileBytes::map(path);
  if (!file.ok()) {
    Diagnostic d = std::move(file.errors()[0]);
    d.help = "name a folder that gpu_check_pack has made: it writes plan.json last";
    return d;
  }
  std::string_view text = format::as_text((*file)->bytes());
  json plan;
  std::string problem;
  try {
    plan = json::parse(text);
    problem = plan_problem(plan);
  } catch (const json::parse_error& e) {
    problem = text.empty() ? "it is empty" : fmt::format("it is no JSON from byte {} of {} on", e.byte, text.size());
  } catch (const json::exception&) {
    problem = "a number in it is too large";
  }
  if (problem.empty()) return plan;
  Diagnostic d = error(Code::kCorrupt, "{} is not what gpu_check_pack writes: {}", path, problem);
  d.help = "make all of the folder again with gpu_check_pack, of the same version as gpu_check";
  return d;
}

}  // namespace nabla::gpu_check

#include "passes/auto_shard/cbc.h"

#include <coin/Cbc_C_Interface.h>
#include <dlfcn.h>

#include <memory>

#include "runtime/base/option_name.h"

namespace nabla::passes {
namespace {

// A tight limit of bytes can make a small search endless. What was found by then counts.
constexpr const char* kSeconds = "15";

// The functions of libCbcSolver that we call. It is opened, not linked: only a search for layouts needs it.
struct Cbc {
  decltype(&Cbc_newModel) make = nullptr;
  decltype(&Cbc_deleteModel) drop = nullptr;
  decltype(&Cbc_loadProblem) load = nullptr;
  decltype(&Cbc_setInteger) set_integer = nullptr;
  decltype(&Cbc_setParameter) set_parameter = nullptr;
  decltype(&Cbc_setLogLevel) set_log_level = nullptr;
  decltype(&Cbc_solve) solve = nullptr;
  decltype(&Cbc_isProvenInfeasible) is_infeasible = nullptr;
  decltype(&Cbc_bestSolution) best = nullptr;
  std::string problem;  ///< not empty: it cannot be used
};

template <class F>
void find(void* handle, const char* name, F& function, std::string& problem) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  if (!function && problem.empty()) problem = std::string("it lacks ") + name;
}

Cbc open() {
  Cbc out;
  void* handle = dlopen("libCbcSolver.so.3", RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    out.problem = dlerror();
    return out;
  }
  find(handle, "Cbc_newModel", out.make, out.problem), find(handle, "Cbc_deleteModel", out.drop, out.problem);
  find(handle, "Cbc_loadProblem", out.load, out.problem), find(handle, "Cbc_setInteger", out.set_integer, out.problem);
  find(handle, "Cbc_setParameter", out.set_parameter, out.problem);
  find(handle, "Cbc_setLogLevel", out.set_log_level, out.problem), find(handle, "Cbc_solve", out.solve, out.problem);
  find(handle, "Cbc_isProvenInfeasible", out.is_infeasible, out.problem);
  find(handle, "Cbc_bestSolution", out.best, out.problem);
  return out;
}

const Cbc& library() {
  static const Cbc out = open();
  return out;
}

Diagnostic missing(const std::string& problem) {
  Diagnostic d = error(Code::kMissingLibrary, "the search for layouts needs CBC, a solver of integer programs: {}", problem);
  d.help = fmt::format("install Debian's coinor-libcbc3, or give layouts by {}", OptionName{"layout"});
  return d;
}

}  // namespace

Result<std::vector<double>> solve(const IntegerProgram& program) {
  const Cbc& cbc = library();
  if (!cbc.problem.empty()) return missing(cbc.problem);
  // The library takes the matrix by columns.
  size_t columns = program.cost.size();
  std::vector<std::vector<std::pair<int, double>>> by_column(columns);
  std::vector<double> least, most, zeros(columns, 0), ones(columns, 1);
  for (size_t r = 0; r < program.rows.size(); ++r) {
    least.push_back(program.rows[r].least), most.push_back(program.rows[r].most);
    for (auto [column, factor] : program.rows[r].terms) by_column[static_cast<size_t>(column)].push_back({static_cast<int>(r), factor});
  }
  std::vector<CoinBigIndex> start{0};
  std::vector<int> rows;
  std::vector<double> factors;
  for (const auto& column : by_column) {
    for (auto [row, factor] : column) rows.push_back(row), factors.push_back(factor);
    start.push_back(static_cast<CoinBigIndex>(rows.size()));
  }
  std::unique_ptr<Cbc_Model, decltype(cbc.drop)> model(cbc.make(), cbc.drop);
  cbc.load(model.get(), static_cast<int>(columns), static_cast<int>(program.rows.size()), start.data(), rows.data(), factors.data(),
           zeros.data(), ones.data(), program.cost.data(), least.data(), most.data());
  for (size_t c = 0; c < columns; ++c)
    if (program.is_whole[c]) cbc.set_integer(model.get(), static_cast<int>(c));
  cbc.set_parameter(model.get(), "log", "0");
  cbc.set_parameter(model.get(), "ratioGap", "0.001");
  cbc.set_parameter(model.get(), "seconds", kSeconds);
  cbc.set_log_level(model.get(), 0);
  cbc.solve(model.get());
  if (cbc.is_infeasible(model.get())) return std::vector<double>();
  const double* best = cbc.best(model.get());
  if (!best) {
    Diagnostic d = error(Code::kOverBudget, "{}: CBC has found no layouts under the limit of bytes in {} s", OptionName{"auto-shard"},
                         kSeconds);
    d.help = fmt::format("allow some more bytes, or lay some values out by {}, which leaves fewer choices", OptionName{"layout"});
    return d;
  }
  return std::vector<double>(best, best + columns);
}

}  // namespace nabla::passes

// The Python package, as a user's interpreter sees it: bench/python/py_bench.py measures, with the Python that the
// extension module is built for.
#include <cstdio>
#include <cstdlib>

#include "bench/bench.h"
#include "runtime/base/text.h"

namespace nabla::bench {
namespace {

struct Printed {
  double value = 0, peer = 0;  // 0: no peer
  std::string peer_name;
};

// Lines "value NUMBER", "peer NUMBER NAME" and "note TEXT"; notes go to stderr.
Result<Printed> script(const Paths& paths, const std::string& name) {
  std::string tree = paths.bin + "/bench/bench.runfiles/nabla";
  std::string text = NABLA_TRY(output_of(fmt::format(
      "PYTHONPATH='{0}/frontend/python' '{1}' '{0}/bench/python/py_bench.py' {2}", tree, NABLA_BENCH_PYTHON, name)));
  Printed out;
  for (const std::string& line : first_lines(text, 100)) {
    if (line.starts_with("value ")) out.value = std::strtod(line.c_str() + 6, nullptr);
    if (line.starts_with("note ")) fmt::print(stderr, "{}: {}\n", name, line.substr(5));
    if (!line.starts_with("peer ")) continue;
    char* rest = nullptr;
    out.peer = std::strtod(line.c_str() + 5, &rest);
    out.peer_name = std::string(rest).substr(1);
  }
  if (out.value <= 0) return unexpected_output("py_bench.py printed no value of " + name, text);
  return out;
}

Result<Measurement> within(const Paths& paths, const std::string& name, std::string unit, double budget) {
  Printed p = NABLA_TRY(script(paths, name));
  return against_budget(p.value, std::move(unit), budget);
}

Result<Measurement> against_peer(const Paths& paths, const std::string& name, std::string unit) {
  Printed p = NABLA_TRY(script(paths, name));
  if (p.peer <= 0) return plain(p.value, std::move(unit));
  return Measurement{p.value, std::move(unit), p.peer_name, p.peer, p.peer / p.value, false};
}

}  // namespace

std::vector<Bench> python_benches() {
  return {
      {"py_mlp_step_vs_jax",
       "a compiled training step of an MLP of ten layers, 500 samples; $NABLA_JAX_PYTHON: a Python with JAX",
       [](const Paths& p) { return against_peer(p, "py_mlp_step_vs_jax", "us"); }},
      {"py_call_us", "a call of a compiled function of four arrays from Python",
       [](const Paths& p) { return within(p, "py_call_us", "us", 5); }},
      {"py_compile_2layer_s", "tracing and compiling the training step of a transformer of two layers, nothing cached",
       [](const Paths& p) { return within(p, "py_compile_2layer_s", "s", 1.5); }},
      {"chain_2000_compile_s", "tracing and compiling 2,000 elementwise steps as one function, nothing cached",
       [](const Paths& p) { return within(p, "chain_2000_compile_s", "s", 3); }},
      {"debug_print_off_us",
       "a compiled training step with debug prints in its ten layers that are switched off, beside the same without",
       [](const Paths& p) { return against_peer(p, "debug_print_off_us", "us"); }},
      {"eager_sharded_step_us", "a training step without a compile, laid out over 2 x 2 ranks, beside one rank's",
       [](const Paths& p) { return against_peer(p, "eager_sharded_step_us", "us"); }},
      {"py_import_ms", "import nabla, without NumPy",
       [](const Paths& p) { return within(p, "py_import_ms", "ms", 100); }},
      {"py_first_op_ms", "the first op of a process, answered",
       [](const Paths& p) { return within(p, "py_first_op_ms", "ms", 5); }},
  };
}

}  // namespace nabla::bench

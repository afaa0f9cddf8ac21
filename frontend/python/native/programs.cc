// Compiled functions, programs for nablac, and bundles that run.
#include <algorithm>
#include <fstream>

#include "cli/driver/compile.h"
#include "cli/driver/plan.h"
#include "cli/driver/report.h"
#include "cli/driver/report_ranks.h"
#include "cli/driver/sharded_text.h"
#include "cli/driver/spread.h"
#include "frontend/cpp/program.h"
#include "frontend/python/native/bind.h"
#include "frontend/python/native/bundle.h"
#include "frontend/python/native/eager_part.h"
#include "frontend/python/native/reproducer.h"
#include "frontend/python/native/spread.h"
#include "frontend/python/native/unlocked.h"
#include "ir/op_def.h"
#include "ir/ops/all_ops.h"
#include "ir/serialize.h"
#include "ir/target.h"
#include "ir/text.h"
#include "passes/pass_manager.h"
#include "passes/shard/propagate.h"
#include "runtime/base/option_error.h"
#include "runtime/base/text.h"
#include "runtime/exec/profile.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/content.h"
#include "runtime/format/sha256.h"

namespace nabla::python {
namespace {

std::vector<Value> run_values(Bundle& bundle, int entry, const std::vector<const Value*>& inputs) {
  std::vector<Literal> arrays;
  for (const Value* v : inputs) arrays.push_back(v->array("running a bundle"));
  std::vector<Literal> results = without_lock([&] { return bundle.run(entry, arrays); });
  std::vector<Value> out;
  out.reserve(results.size());
  for (size_t i = 0; i < results.size(); ++i)
    out.emplace_back(std::move(results[i]), i < bundle.placements.size() ? bundle.placements[i] : nullptr);
  return out;
}

// ---- Functions compiled in this process

// `names` are the caller's, of the parameters and then of the values that the function closes over.
ir::Module module_for(const TracedFunction& f, const std::string& name, const std::vector<std::string>& names) {
  ir::Module m = module_of(f);
  const ir::Function* function = m.functions.back().get();
  ir::Entry entry{name, function->name, {}, {}, {}, {}};
  for (size_t i = 0; i < function->params.size(); ++i) {
    std::string input = i < names.size() ? names[i] : fmt::format("input {}", i);
    // Both leaves of {"a.b": x, "a": {"b": y}} have the name a.b.
    auto is_taken = [&] { return std::find(entry.inputs.begin(), entry.inputs.end(), input) != entry.inputs.end(); };
    for (int n = 2; is_taken(); ++n) input = fmt::format("{} {}", names[i], n);
    entry.inputs.push_back(std::move(input));
  }
  for (size_t i = 0; i < function->results.size(); ++i) entry.outputs.push_back(fmt::format("out{}", i));
  m.entries.push_back(std::move(entry));
  return m;
}

using Strings = std::vector<std::string>;

driver::CompileOptions options_of(const std::string& target, bool library, const std::string& max_bytes) {
  driver::CompileOptions out;
  if (!target.empty()) out.target = target;
  out.library = library;
  if (!max_bytes.empty()) out.max_bytes = bytes_of(max_bytes, "max_bytes");
  return out;
}

driver::CompiledBundle compile_or_throw(const ir::Module& module, driver::CompileOptions options) {
  Reproducer reproducer(module, "nablac compile FILE -o out.nbundle --target " + options.target);
  options.passes = reproducer.manager();
  return reproducer.value_or_throw(driver::compile(module, options));
}

// Throws E0210 if an argument, a captured tensor or an intermediate value is sharded over another mesh than `wanted`. jit's `option` gave
// that mesh.
void check_mesh(const ir::Module& m, const ir::Mesh& wanted, const char* option) {
  if (!m.mesh() || (m.mesh()->name == wanted.name && m.mesh()->axes == wanted.axes)) return;
  const ir::Function& main = *m.find(m.entries[0].function);
  std::string what;
  for (size_t i = 0; what.empty() && i < main.params.size(); ++i)
    if (const std::string& name = m.entries[0].inputs[i]; main.values[main.params[i]].sharding)
      what = name.starts_with("closure ") ? "a tensor that the function closes over" : "argument " + name;
  LocationRef place = locate(python_site(), "");
  for (size_t f = 0; what.empty() && f < m.functions.size(); ++f)
    for (const ir::Node& node : m.functions[f]->nodes)
      if (what.empty() && node.op->layout_role == ir::LayoutRole::kShard) what = "a value", place = node.location;
  Diagnostic d = error(Code::kBadSharding, "jit: {} is mesh {}, and {} is laid out over mesh {}", option, wanted.str(),
                       what.empty() ? "what the function does" : what, m.mesh()->str());
  d.location = place;
  d.help = fmt::format("ranks of one program are all of one mesh: give {} that one, or lay the value out over it before the call", option);
  throw Error(std::move(d));
}

// Results of parts of unequal sizes stay with their ranks, as other parts do: without a layout they would leave whole. Gradients
// leave as what they are the gradients of lies.
void lay_out_results(ir::Module& m, const std::vector<ir::ShardingRef>& layouts) {
  ir::Function main = *m.find(m.entries[0].function);
  const std::vector<int> makers = ir::producers(main);
  for (size_t i = 0; i < layouts.size(); ++i) {
    ir::Value& v = main.values[main.results[i]];
    if (!layouts[i] || v.sharding) continue;
    if (layouts[i]->allow_padding || primal_of(main, makers, main.results[i])) v.sharding = layouts[i];
  }
  m.set(std::make_shared<const ir::Function>(std::move(main)));
}

/// The options of jit for several ranks.
struct JitSpread {
  const ir::Mesh* mesh = nullptr;  ///< null: the mesh of the function's layouts, if there is one
  bool search = false;             ///< auto_shard: the compiler chooses the shardings
  Spread options;
  std::vector<Update> updates;
};

// With check_nan every op gets its own kernel, so that the error names the op that made the NaN.
std::shared_ptr<Bundle> compile_function(const TracedFunction& f, const std::string& target, int threads, const Strings& names,
                                         bool check_nan, const JitSpread& spread, std::shared_ptr<Processes> processes) {
  ir::Module m = module_for(f, "main", names);
  if (spread.mesh) check_mesh(m, *spread.mesh, spread.search ? "auto_shard" : "mesh");
  if (spread.mesh && !m.mesh()) m.meshes.push_back(*spread.mesh);
  return without_lock([&] {
    std::vector<ir::ShardingRef> layouts = layouts_of_results(m);
    if (!spread.search) lay_out_results(m, layouts);
    driver::CompileOptions options = options_of(target, true, "");
    options.fuse = !check_nan;
    options.pass_options.auto_shard.search = spread.search;
    std::vector<ir::Remark> remarks;
    if (!spread.options.empty()) {
      set_spread(options, spread.options);
      m = with_strategy(m, f.function->params.size() - f.captures.size(), spread.updates, options, remarks);
    }
    driver::CompiledBundle compiled = compile_or_throw(m, options);
    auto out = Bundle::of_bytes(std::move(compiled.bytes), f.function->name, {.threads = threads, .check_nan = check_nan},
                                std::move(processes));
    for (ir::ShardingRef& layout : layouts)
      out->placements.push_back(layout ? std::make_shared<const Placement>(Placement{*m.mesh(), std::move(layout)}) : nullptr);
    for (ir::Remark& remark : passes::remarks_of(compiled.passes)) remarks.push_back(std::move(remark));
    if (m.mesh()) out->notes = ir::notes_of(remarks);
    if (m.mesh()) out->compiled = std::make_shared<const CompiledFunction>(CompiledFunction{std::move(m), spread.search});
    return out;
  });
}

// Explains the sharding of a value of a compiled function.
std::string why(const Bundle& bundle, const std::string& value) {
  if (!bundle.compiled)
    throw Error(option_error("lay an argument out, or give jit a mesh", "why: nothing of the function is laid out over ranks"));
  const CompiledFunction& of = *bundle.compiled;
  return without_lock([&] {
    const ir::Target cpu = value_or_throw(ir::find_target("cpu"));
    ir::Module named = of.module;
    const ir::Entry& entry = named.entries[0];
    ir::Function main = *named.find(entry.function);
    for (size_t i = 0; i < main.params.size(); ++i) main.values[main.params[i]].name = entry.inputs[i];
    named.set(std::make_shared<const ir::Function>(std::move(main)));
    ir::Module flat = value_or_throw(driver::simplify_module(named, cpu, {}, ir::Stage::kFlat));
    if (of.searched)
      flat = value_or_throw(passes::run_passes(flat, {{"auto-shard", {.auto_shard = {.search = true}}}}, ops::all_ops(), cpu)).module;
    passes::PassContext context{ops::all_ops(), cpu};
    return print(value_or_throw(passes::explain_layout(flat, flat.entries[0].function, value, context)));
  });
}

// The same program in a session of its own, which takes the time of every instruction.
std::shared_ptr<Bundle> profiled_bundle(const Bundle& bundle, const std::string& what, int threads, bool check_nan) {
  return Bundle::of_bytes(bundle.bytes(), what, {.threads = threads, .profile = true, .check_nan = check_nan});
}

// The profile of its runs as JSON and as text.
std::pair<std::string, std::string> profile_of(Bundle& bundle) {
  exec::Profile profile = bundle.session().profile();
  return {exec::json(profile), exec::str(profile)};
}

format::Bundle bundle_file(const Bundle& bundle) {
  return value_or_throw(format::Bundle::from_bytes(
      format::FileBytes::copy_of({reinterpret_cast<const uint8_t*>(bundle.bytes().data()), bundle.bytes().size()}),
      "the compiled function"));
}

std::string report_in(const format::Bundle& file) {
  const format::BundleClass& of = *value_or_throw(file.need_class(""));
  return std::string(format::as_text(file.member(of.folder + "report.json")));
}
std::string report_of(const Bundle& bundle) { return report_in(bundle_file(bundle)); }

// The report, and who the ranks are and what they exchange; empty: there is one.
std::pair<std::string, std::string> report_and_ranks(const Bundle& bundle) {
  format::Bundle file = bundle_file(bundle);
  return {report_in(file), file.ranks() ? driver::ranks_text(file) : ""};
}

// ---- Programs

using LayoutRef = std::shared_ptr<ir::Sharding>;  ///< null: nothing is said
using NamedType = std::tuple<std::string, DType, Sizes, LayoutRef>;

Spec tensor_spec(const std::string& name, DType dtype, const Sizes& shape, const LayoutRef& layout) {
  Spec out(name, dtype, shape_of(shape));
  out.sharding = layout;
  return out;
}

// `body` takes a Value per input and returns pairs of a name and a value.
void add_entry(Program& program, const std::string& name, const std::vector<NamedType>& inputs,
               const py::function& body) {
  std::vector<Spec> specs;
  for (const auto& [input, dtype, shape, layout] : inputs) specs.push_back(tensor_spec(input, dtype, shape, layout));
  auto traced = [&](const std::vector<nabla::Tensor>& args) -> Outputs {
    py::list values;
    for (const nabla::Tensor& t : args) values.append(Value(t));
    Outputs out;
    for (const auto& [output, value] : body(*values).cast<std::vector<std::pair<std::string, Operand>>>())
      out.push_back({output, tensor_of(value, python_site())});
    return out;
  };
  Site site = python_site();
  program.entry(name, specs, traced, site);
}

void bind_program(py::module_& m) {
  py::class_<State>(m, "State")
      .def("get", [](const State& s) { return Value(s.get(python_site())); })
      .def("set", [](const State& s, const Operand& v) { s.set(arg_of(v, python_site())); })
      .def_property_readonly("name", &State::name);
  py::class_<Program>(m, "Program")
      .def(py::init<>())
      .def("symbol", [](Program& p, const std::string& name, int64_t min, int64_t max,
                        int64_t multiple) { return Size{p.symbol(name, min, max, multiple, python_site())}; })
      .def("require_equal",
           [](Program& p, const Size& a, const Size& b) { p.require_equal(a.dim, b.dim, python_site()); })
      .def("require_less_equal",
           [](Program& p, const Size& a, const Size& b) {
             p.require({a.dim, ir::SizeRelation::Kind::kLessEqual, b.dim}, python_site());
           })
      .def("mesh", [](Program& p, const ir::Mesh& mesh) { p.mesh(mesh.name, mesh.axes, python_site()); })
      .def("state", [](Program& p, const std::string& name, DType dtype, const Sizes& shape,
                       const LayoutRef& layout, const std::string& memory) {
             Spec leaf = tensor_spec(name, dtype, shape, layout);
             leaf.memory = value_or_throw(ir::memory_space(memory));
             return p.state(leaf, python_site());
           })
      .def("entry", &add_entry)
      .def("text", [](const Program& p) { return ir::print(p.module()); })
      .def("save", &Program::save)
      .def("compile", [](const Program& p, const std::string& path, const std::string& target, bool library,
                         const std::string& max_bytes, bool tf32, const std::string& tuning, const Strings& buckets,
                         const Strings& specialise, const Spread& spread) {
        ir::Module module = p.module();
        return without_lock([&] {
          driver::CompileOptions options = options_of(target, library, max_bytes);
          options.tf32 = tf32, options.tuning_file = tuning;
          options.buckets = buckets, options.specialise = specialise;
          set_spread(options, spread), check_spread(module, options, spread);
          driver::CompiledBundle compiled = compile_or_throw(module, options);
          if (Status written = format::write_file(path, compiled.bytes); !written.ok()) throw Error(written.errors());
          return compiled.report;
        });
      })
      .def("plan", [](const Program& p, int64_t ranks, const std::string& axes, const std::string& data_axis,
                      const std::string& entry, const std::string& target, const Spread& spread, const std::string& max_bytes,
                      const std::string& tuning) {
        ir::Module module = p.module();
        return without_lock([&] {
          driver::PlanOptions options{.ranks = ranks, .entry = entry, .axes = axes};
          check(passes::find_option("data-axes")->set(options.compile.pass_options, data_axis, "data_axes"));
          options.data_axes = std::exchange(options.compile.pass_options.apply_strategy.data_axes, {});
          options.compile.target = target, options.compile.tuning_file = tuning;
          if (!max_bytes.empty()) options.max_bytes = bytes_of(max_bytes, "max_bytes");
          set_spread(options.compile, spread);
          const std::vector<driver::PlanRow> rows = value_or_throw(driver::plan_of(module, options));
          const int64_t most = options.max_bytes ? options.max_bytes->count : driver::kNoLimit;
          return std::make_pair(driver::plan_json(rows), driver::plan_text(rows, most));
        });
      });
}

py::list info_list(const std::vector<exec::TensorInfo>& infos) {
  py::list out;
  for (const exec::TensorInfo& i : infos) out.append(py::make_tuple(i.name, i.dtype, py::cast(i.shape), i.type_str()));
  return out;
}

void bind_bundle(py::module_& m) {
  py::class_<Bundle, std::shared_ptr<Bundle>>(m, "Bundle")
      .def_static("open", &Bundle::open)
      .def("entry_names",
           [](Bundle& b) {
             std::vector<std::string> out;
             for (const exec::EntryInfo& e : b.session().entries()) out.push_back(e.name);
             return out;
           })
      .def("entry", &Bundle::entry)
      .def("inputs", [](Bundle& b, int entry) { return info_list(b.session().entries().at(entry).inputs); })
      .def("outputs", [](Bundle& b, int entry) { return info_list(b.session().entries().at(entry).outputs); })
      .def("state", [](Bundle& b) { return info_list(b.session().state_leaves()); })
      .def("run", &run_values)
      .def("profiled", &profiled_bundle)
      .def("profile", &profile_of)
      .def_property_readonly("report", &report_of)
      .def("report_and_ranks", &report_and_ranks)
      .def_readonly("notes", &Bundle::notes)
      .def("why", &why)
      .def_property_readonly("lays_out", [](const Bundle& b) {
        return std::any_of(b.placements.begin(), b.placements.end(), [](const PlacementRef& p) { return p != nullptr; });
      })
      .def("state_get", [](Bundle& b, int leaf) { return Value(b.state(leaf)); })
      .def("state_set",
           [](Bundle& b, int leaf, const Value& v) {
             const exec::TensorInfo& info = b.session().state_leaves().at(leaf);
             const Literal& array = v.array("state");
             if (!fits(info, array))
               throw Error(error(Code::kShapeMismatch, "state leaf \"{}\" is {}, got {}", info.name, info.type_str(),
                                 v.type().str()));
             check(b.session().set_state(leaf, array.data()));
             b.wrote("set_state(\"" + info.name + "\")", [&] {
               return format::content_of({static_cast<const uint8_t*>(array.data()), static_cast<size_t>(array.size_bytes())});
             });
           })
      .def("load_state",
           [](Bundle& b, const std::string& path) {
             check(b.session().load_state(path));
             b.wrote("load_state", [&] { return format::content_of_file(path); });
           })
      .def("save_state", &Bundle::save_state)
      .def_property_readonly("spread", &Bundle::spread)
      .def("agree", &Bundle::agree)
      .def("load_weights",
           [](Bundle& b, const std::string& path, const std::vector<std::string>& maps, bool partial) {
             auto report = value_or_throw(b.session().load_weights({path, maps, partial}));
             b.wrote("load_weights", [&] { return format::content_of_file(path); });
             return report;
           })
      .def_property_readonly("target", [](Bundle& b) { return std::string(b.session().target()); })
      .def_property_readonly("sha256", [](Bundle& b) { return format::sha256_hex(format::as_bytes(b.bytes())); },
                             "Of what was compiled in this process.")
      .def_property_readonly("arena_bytes", [](Bundle& b) { return b.session().arena_bytes(); });
}

}  // namespace

void bind_programs(py::module_& m) {
  bind_bundle(m);
  py::class_<JitSpread>(m, "JitSpread")
      .def(py::init([](const ir::Mesh* mesh, bool search, Spread options, std::vector<Update> updates) {
             return JitSpread{mesh, search, std::move(options), std::move(updates)};
           }),
           py::arg("mesh"), py::arg("search"), py::arg("options"), py::arg("updates"), py::keep_alive<1, 2>());
  bind_program(m);
  m.def("compile_function", &compile_function, py::arg("function"), py::arg("target") = "", py::arg("threads") = 0,
        py::arg("names") = Strings(), py::arg("check_nan") = false, py::arg("spread") = JitSpread(), py::arg("processes") = py::none());
  m.def("report_text", [](const std::string& json) { return value_or_throw(driver::report_text(json)); });
  m.def("simplified_text", [](const TracedFunction& f, bool sharded) {
    ir::Module module = module_for(f, f.function->name, {});
    Reproducer reproducer(module, "nablac opt FILE");
    ir::Target cpu = value_or_throw(ir::find_target("cpu"));
    ir::Stage to = sharded ? ir::Stage::kSharded : ir::Stage::kFlat;
    ir::Module made = reproducer.value_or_throw(driver::simplify_module(module, cpu, reproducer.manager(), to));
    made.entries.clear();  // it is a function, and no program
    return value_or_throw(driver::sharded_text(made, cpu));
  });
  // For tests: what a mistake of ours does while the function is compiled.
  m.def("fail_check", [](const TracedFunction& f) {
    ir::Module module = module_for(f, f.function->name, {});
    without_lock([&] {
      Reproducer reproducer(module, "nablac compile FILE");
      ScopedActivity activity("fail_check on @" + f.function->name);
      NABLA_CHECK(f.function->params.empty() && !f.function->params.empty(), "asked for");
    });
  });
}

}  // namespace nabla::python

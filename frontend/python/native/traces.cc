// Functions traced from Python, and the ops that take them: calls, derivatives, batches, branches and loops.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "frontend/cpp/control_flow.h"
#include "frontend/cpp/custom_rules.h"
#include "frontend/cpp/transforms.h"
#include "frontend/cpp/user_kernel.h"
#include "frontend/python/native/bind.h"
#include "ir/op_def.h"
#include "ir/text.h"

namespace nabla::python {
namespace {

// A function while Python runs its body. The eager function is its outermost one, unless a program's entry is.
class Trace {
 public:
  explicit Trace(const std::string& name)
      : recording_(std::in_place), tracing_(std::in_place, name, python_site()), name_(name) {}

  // `like`: a tensor whose layout the parameter has, too; `without`: the dimension of it that the parameter lacks.
  // Errors about its mesh say `called`.
  Value param(const std::string& name, DType dtype, const Sizes& shape, const Value* like, std::optional<int64_t> without,
              const std::string& called) {
    need_open();
    Value out(tracing_->param(name, {dtype, shape_of(shape)}));
    const int number = params_++;
    PlacementRef placement = like ? like->placement() : nullptr;
    if (!placement) return out;
    const std::string own = !called.empty() ? called : name.empty() ? std::to_string(number) : name;
    const std::string what = fmt::format("argument {} of {} ({})", own, name_, out.type().str());
    if (!without) return out.lay_out(placement, what), out;
    ir::Sharding example = *placement->sharding;
    int64_t rank = static_cast<int64_t>(example.dims.size());
    example.dims.erase(example.dims.begin() + (*without < 0 ? *without + rank : *without));
    out.lay_out(std::make_shared<const Placement>(Placement{placement->mesh, std::make_shared<const ir::Sharding>(std::move(example))}),
                what);
    return out;
  }
  // The function is that of one example of a batch.
  void enter_batch() { Frame::current()->batched = true; }
  TracedFunction finish(const std::vector<Operand>& results) {
    need_open();
    Site site = python_site();
    AtSite at(site);
    TracedFunction out = tracing_->finish(tensors_of(results, site));
    cancel();
    return out;
  }
  // Ends the trace where the body failed.
  void cancel() {
    tracing_.reset();
    recording_.reset();
  }

 private:
  void need_open() const {
    if (!tracing_) throw py::value_error("this trace has ended");
  }
  std::optional<Recording> recording_;
  std::optional<Tracing> tracing_;
  std::string name_;
  int params_ = 0;
};

using Function = TracedFunction;
using Operands = std::vector<Operand>;

// The nodes of the thread's eager function from `first` on: does one print, or call back?
bool has_effects(size_t first) {
  const Frame& frame = *Eager::of_thread().frame();
  const std::vector<ir::Node>& nodes = frame.builder.function().nodes;
  return std::any_of(nodes.begin() + static_cast<std::ptrdiff_t>(first), nodes.end(),
                     [&](const ir::Node& n) { return ir::has_effect(n, frame.context->module); });
}

// Records a call of traced functions. Outside of every trace one with effects runs at once: results that nobody looks
// at are never computed. Errors about meshes name the `op`.
template <class F>
std::vector<Value> recorded_call(const std::string& op, const std::vector<const TracedFunction*>& functions, F body) {
  bool bound = std::any_of(functions.begin(), functions.end(), [](const TracedFunction* f) { return !f->captures.empty(); });
  bool effects = false;
  auto call = [&](const Site& site) {
    if (is_tracing()) return body(site);
    size_t before = Eager::of_thread().frame()->builder.function().nodes.size();
    std::vector<Value> called = body(site);
    effects = has_effects(before);
    return called;
  };
  std::vector<Value> out = naming_op(op, [] { return std::vector<const Operand*>(); }, [&] { return recorded(call, bound); });
  if (!effects) return out;
  for (const Value& v : out)
    if (!v.type().is_residual()) (void)v.array("a debug print");
  return out;
}

std::vector<Value> call(const std::string& op, const Function& f, const Operands& operands,
                        const std::optional<Ints>& wrt) {
  return recorded_call(op, {&f}, [&](const Site& site) {
    return given_back(emit_call(op.c_str(), f, tensors_of(operands, site), wrt ? &*wrt : nullptr, site));
  });
}

void bind_derivatives(py::module_& m) {
  m.def("call", &call, py::arg("op"), py::arg("function"), py::arg("operands"), py::arg("wrt") = py::none());
  m.def("jvp", [](const Function& f, const Operands& operands, const Operands& tangents) {
    return recorded_call("jvp", {&f}, [&](const Site& site) {
      return given_back(emit_jvp(f, tensors_of(operands, site), tensors_of(tangents, site), site));
    });
  });
  m.def("pullback", [](const Function& f, const Operand& residual, const Operands& cotangents, size_t operands) {
    return recorded_call("pullback", {}, [&](const Site& site) {
      return given_back(emit_pullback(f, tensor_of(residual, site), tensors_of(cotangents, site), operands, site));
    });
  });
  m.def("remat", [](const Function& f, const Operands& operands, const std::string& policy, const std::string& names) {
    return recorded_call("remat", {&f}, [&](const Site& site) {
      ir::Attrs attrs{{"policy", policy}, {"names", names}};
      return given_back(emit_transform("remat", f, tensors_of(operands, site), std::move(attrs), site));
    });
  });
  m.def("autocast", [](const Function& f, const Operands& operands, DType dtype) {
    return recorded_call("autocast", {&f}, [&](const Site& site) {
      return given_back(emit_transform("autocast", f, tensors_of(operands, site), {{"dtype", dtype}}, site));
    });
  });
  m.def("custom_vjp", [](const Function& f, const Function& forward, const Function& backward, const Operands& args) {
    return recorded_call("custom_vjp", {&f, &forward, &backward}, [&](const Site& site) {
      return given_back(emit_custom_vjp(f, forward, backward, tensors_of(args, site), site));
    });
  });
  m.def("custom_jvp", [](const Function& f, const Function& rule, const Operands& args) {
    return recorded_call("custom_jvp", {&f, &rule}, [&](const Site& site) {
      return given_back(emit_custom_jvp(f, rule, tensors_of(args, site), site));
    });
  });
  m.def("unit_vectors", [](const Operand& x) {
    return recorded([&](const Site& site) { return given_back(unit_vectors(tensor_of(x, site))); });
  });
  m.def("unflattened", [](const Operand& x, int from, const Sizes& shape) {
    return recorded(
        [&](const Site& site) { return given_back(unflattened(tensor_of(x, site), from, shape_of(shape))); });
  });
}

// Axes: one per operand, and one per result; None: not mapped.
VmapOptions vmap_options(const std::vector<Axis>& in_axes, const std::vector<Axis>& out_axes,
                         const std::optional<Size>& axis_size, const std::string& spmd_axis_name) {
  VmapOptions out{in_axes, out_axes, {}, spmd_axis_name};
  if (axis_size) out.axis_size = axis_size->dim;
  return out;
}

void bind_batching(py::module_& m) {
  m.def("vmap_examples", [](const std::vector<Axis>& in_axes, const std::optional<Size>& axis_size,
                            const std::string& spmd_axis_name, const Operands& operands) {
    return recorded([&](const Site& site) {
      std::vector<nabla::Tensor> tensors = tensors_of(operands, site);
      Mapped mapped(vmap_options(in_axes, {0}, axis_size, spmd_axis_name), tensors,
                    std::vector<size_t>(tensors.size(), 1), site);
      std::vector<std::pair<DType, py::tuple>> out;
      for (size_t i = 0; i < tensors.size(); ++i)
        out.emplace_back(mapped.example(i).dtype, shape_tuple(mapped.example(i).shape));
      return out;
    });
  });
  m.def("vmap_call",
        [](const Function& f, const std::vector<Axis>& in_axes, const std::vector<Axis>& out_axes,
           const std::optional<Size>& axis_size, const std::string& spmd_axis_name, const ir::Mesh* mesh,
           const Operands& operands) {
          return recorded_call("vmap", {&f}, [&](const Site& site) {
            std::vector<nabla::Tensor> tensors = tensors_of(operands, site);
            if (mesh) Frame::current()->context->need_mesh(*mesh, "what vmap maps", site);  // where nothing is mapped, no operand names it
            Mapped mapped(vmap_options(in_axes, out_axes, axis_size, spmd_axis_name), tensors,
                          std::vector<size_t>(tensors.size(), 1), site);
            return given_back(mapped.call(f));
          });
        });
  m.def("batch_symbol", [] { return recorded([](const Site& site) { return Size{batch_symbol(site)}; }); });
  m.def("custom_vmap", [](const Function& f, const Function& rule, const Operands& args, const Size& size) {
    return recorded_call("custom_vmap", {&f, &rule}, [&](const Site& site) {
      return given_back(emit_custom_vmap(f, rule, tensors_of(args, site), size.dim, site));
    });
  });
}

void bind_control(py::module_& m) {
  m.def("cond", [](const Operand& pred, const Function& then, const Function& otherwise, const Operands& args) {
    return recorded_call("cond", {&then, &otherwise}, [&](const Site& site) {
      return given_back(emit_cond(arg_of(pred, site), {then, otherwise}, tensors_of(args, site), site));
    });
  });
  m.def("switch", [](const Operand& index, const std::vector<Function>& branches, const Operands& args) {
    std::vector<const Function*> functions;
    for (const Function& f : branches) functions.push_back(&f);
    return recorded_call("switch", functions, [&](const Site& site) {
      return given_back(emit_switch(arg_of(index, site), branches, tensors_of(args, site), site));
    });
  });
  m.def("while_loop", [](const Function& cond, const Function& body, const Operands& init, int64_t trip_count) {
    return recorded_call("while_loop", {&cond, &body}, [&](const Site& site) {
      return given_back(emit_while(cond, body, tensors_of(init, site), trip_count, site));
    });
  });
  m.def("scan", [](const Function& body, const Operands& init, const Operands& xs, const std::optional<Size>& length,
                   bool reverse) {
    return recorded_call("scan", {&body}, [&](const Site& site) {
      std::vector<nabla::Tensor> sequences = tensors_of(xs, site);
      std::optional<ir::Dim> given = length ? std::optional(length->dim) : std::nullopt;
      ir::Dim trips = length_of(sequences, given, site);
      return given_back(emit_scan(body, tensors_of(init, site), sequences, trips, reverse, site));
    });
  });
}

// A Python function of tensors, which returns a sequence of them.
TensorFunction tensor_function_of(const py::function& f) {
  return [f](const std::vector<nabla::Tensor>& args) {
    py::list values;
    for (const nabla::Tensor& t : args) values.append(Value(t));
    return tensors_of(f(*values).cast<Operands>(), python_site());
  };
}

// The place of a source that stands in `file` from line `line` on; the caller's line of Python where `file` is empty.
Site source_site(const std::string& file, int line) {
  Site site = python_site();
  if (file.empty()) return site;
  static auto* files = new std::set<std::string>;  // sites keep names for the life of the process
  site.file = files->insert(file).first->c_str();
  site.line = line;
  return site;
}

UserKernel with_cuda(const UserKernel& k, const std::string& source, int threads, const std::string& blocks, int shared,
                     const std::string& file, int line) {
  return k.cuda(source, {threads, blocks, shared}, source_site(file, line));
}

void bind_kernels(py::module_& m) {
  py::class_<UserKernel>(m, "UserKernel")
      .def_property_readonly("name", &UserKernel::name)
      .def("cuda", &with_cuda, py::arg("source"), py::arg("threads"), py::arg("blocks"), py::arg("shared"),
           py::arg("file") = "", py::arg("line") = 1)
      .def("reference",
           [](const UserKernel& k, const py::function& f) { return k.with_reference(tensor_function_of(f)); })
      .def("vjp", [](const UserKernel& k, const py::function& f) { return k.with_vjp(tensor_function_of(f)); })
      .def("factors", &UserKernel::factors)
      .def("batching", [](const UserKernel& k,
                          bool leading) { return k.batching(leading ? Batching::kLeading : Batching::kSequential); })
      .def("results", [](const UserKernel& k, const Operands& operands) {
        return recorded([&](const Site& site) { return given_back(k.results(tensors_of(operands, site), site)); });
      });
  m.def(
      "cpp_kernel",
      [](const std::string& name, const std::string& signature, const std::string& source, const std::string& file,
         int line) { return cpp_kernel(name, signature, source, source_site(file, line)); },
      py::arg("name"), py::arg("signature"), py::arg("source"), py::arg("file") = "", py::arg("line") = 1);
  m.def(
      "cuda_kernel",
      [](const std::string& name, const std::string& signature, const std::string& source, int threads,
         const std::string& blocks, int shared, const std::string& file, int line) {
        return cuda_kernel(name, signature, source, {threads, blocks, shared}, source_site(file, line));
      },
      py::arg("name"), py::arg("signature"), py::arg("source"), py::arg("threads") = 256, py::arg("blocks") = "",
      py::arg("shared") = 0, py::arg("file") = "", py::arg("line") = 1);
}

}  // namespace

void bind_traces(py::module_& m) {
  py::class_<Function>(m, "Function", "A function that was traced.")
      .def_property_readonly("name", [](const Function& f) { return f.function->name; })
      .def_property_readonly(
          "captures", [](const Function& f) { return std::vector<Value>(f.captures.begin(), f.captures.end()); },
          "The values of enclosing functions that it uses; its last parameters stand for them.")
      .def_property_readonly("result_types",
                             [](const Function& f) {
                               std::vector<std::pair<DType, py::tuple>> out;
                               for (ir::ValueId id : f.function->results)
                                 out.emplace_back(f.function->type(id).dtype, shape_tuple(f.function->type(id).shape));
                               return out;
                             })
      .def("text", [](const Function& f) { return ir::print(module_of(f)); })
      .def_property_readonly("has_mesh", [](const Function& f) { return module_of(f).mesh() != nullptr; });
  py::class_<Trace>(m, "Trace")
      .def(py::init<const std::string&>())
      .def("param", &Trace::param, py::arg("name"), py::arg("dtype"), py::arg("shape"), py::arg("like") = nullptr,
           py::arg("without") = py::none(), py::arg("called") = "")
      .def("enter_batch", &Trace::enter_batch)
      .def("finish", &Trace::finish)
      .def("cancel", &Trace::cancel);
  bind_derivatives(m);
  bind_batching(m);
  bind_control(m);
  bind_kernels(m);
}

}  // namespace nabla::python

// nabla._nabla: the C++ tracer, compiler and runtime for Python. The package around it is nabla/*.py.
#include <cctype>
#include <cstring>
#include <string>
#include <unordered_map>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/eager_kernels.h"
#include "frontend/python/native/reproducer.h"
#include "frontend/python/native/unlocked.h"
#include "runtime/base/version.h"

namespace nabla::python {

void bind_distributed(py::module_& m);

namespace {

// The folder of the package: lines of its own files are not the user's.
std::string& package_folder() {
  static auto* folder = new std::string;
  return *folder;
}

// What is known of a code object's file. The keys are kept alive.
struct File {
  const char* name;
  bool own;
};
const File& file_of(PyObject* filename) {
  static auto* known = new std::unordered_map<PyObject*, File>;
  auto it = known->find(filename);
  if (it != known->end()) return it->second;
  Py_INCREF(filename);
  const char* text = PyUnicode_AsUTF8(filename);
  if (!text) PyErr_Clear(), text = "?";
  bool own = !package_folder().empty() && std::strncmp(text, package_folder().c_str(), package_folder().size()) == 0;
  return known->emplace(filename, File{text, own}).first->second;
}

const char* kept_text(PyObject* name) {
  static auto* known = new std::unordered_map<PyObject*, const char*>;
  auto it = known->find(name);
  if (it != known->end()) return it->second;
  Py_INCREF(name);
  const char* text = PyUnicode_AsUTF8(name);
  if (!text) PyErr_Clear(), text = "?";
  return known->emplace(name, text).first->second;
}

PyObject*& error_type() {
  static PyObject* type = nullptr;
  return type;
}

}  // namespace

namespace {

// Without a constructor's call the methods of an object would read what was never written. Python refuses T.__new__(T),
// which makes such an object, of a type whose own tp_new is not that of its base.
PyObject* new_for_constructor(PyTypeObject* type, PyObject*, PyObject*) { return py::detail::make_new_instance(type); }
PyObject* refuse_new(PyTypeObject* type, PyObject*, PyObject*) {
  PyErr_Format(PyExc_TypeError, "%s has no constructor: functions of nabla make it", type->tp_name);
  return nullptr;
}

void guard_new(const py::module_& m) {
  auto* error = reinterpret_cast<PyTypeObject*>(PyExc_Exception);
  for (auto [name, value] : m.attr("__dict__").cast<py::dict>()) {
    auto* type = reinterpret_cast<PyTypeObject*>(value.ptr());
    if (!PyType_Check(value.ptr()) || PyType_IsSubtype(type, error)) continue;
    bool constructed = type->tp_init != type->tp_base->tp_init;
    type->tp_new = constructed ? &new_for_constructor : &refuse_new;
  }
}

// What nablac and nabla-run call their options, and functions of the package their arguments. Of two that begin alike the longer
// one comes first.
constexpr std::pair<std::string_view, std::string_view> kArguments[] = {
    {"see --help", "help(nabla.compile_bundle) says what its arguments are"},
    {"--mesh dp=2,tp=4", "mesh={\"dp\": 2, \"tp\": 4}"},
    {"--mesh dp=4 --data-axes dp", "mesh={\"dp\": 4}, data_axes=\"dp\""},
    {"such as dp=4,tp=2", "such as {\"dp\": 4, \"tp\": 2}"},
    {"pass --input NAME=FILE", "pass it by its name"},
    {"or pass --state", "or load_state"},
    {"--mesh", "mesh"},
    {"--data-axes", "data_axes"},
    {"data-axes", "data_axes"},
    {"--zero-axes", "zero_axes"},
    {"zero-axes", "zero_axes"},
    {"--zero", "zero"},
    {"--layout", "layouts"},
    {"--microbatches", "microbatches"},
    {"--grad-sync", "grad_sync"},
    {"grad-sync", "grad_sync"},
    {"--reduce-dtype", "reduce_dtype"},
    {"reduce-dtype=f32", "reduce_dtype=\"float32\""},
    {"--allow-idle-axes", "allow_idle_axes=True"},
    {"--auto-shard", "auto_shard"},
    {"auto-shard", "auto_shard"},
    {"--max-comm-bytes", "max_comm_bytes"},
    {"max-comm-bytes", "max_comm_bytes"},
    {"--reshard-after-forward", "reshard_after_forward"},
    {"--prefetch", "prefetch"},
    {"--remat-bytes", "remat_bytes"},
    {"remat-bytes", "remat_bytes"},
    {"--max-gather-bytes", "max_gather_bytes"},
    {"max-gather-bytes", "max_gather_bytes"},
    {"--max-bytes", "max_bytes"},
    {"max-bytes", "max_bytes"},
    {"--specialize", "specialize"},
    {"--buckets", "buckets"},
    {"--target", "target"},
    {"--no-library", "library=False"},
    {"--class", "rank_class"},
    {"--axes", "axes"},
    {"--entry", "entry"},
    {"--weights-map", "maps"},
    {"--weights-partial", "partial=True"},
};

}  // namespace

std::string with_arguments(std::string text) {
  auto of_word = [&](size_t i) { return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) || text[i] == '-'); };
  for (const auto& [option, argument] : kArguments)
    for (size_t at = text.find(option); at != text.npos; at = text.find(option, at)) {
      bool alone = (at == 0 || !of_word(at - 1)) && !of_word(at + option.size());
      if (alone) text.replace(at, option.size(), argument);
      at += alone ? argument.size() : option.size();
    }
  return text;
}

namespace {

// The diagnostic in the words of a Python program.
Diagnostic for_python(Diagnostic d) {
  d.message = with_arguments(std::move(d.message)), d.help = with_arguments(std::move(d.help));
  if (std::string own(code_info(d.code).help); d.help.empty() && with_arguments(own) != own) d.help = with_arguments(own);
  constexpr std::string_view doc = "`nablac doc op ", declare = "declare the constraint ";
  if (d.location && d.location->function == kEagerName) {  // which is no function of the user's, nor are its values
    Location at = *d.location;
    at.function.clear();
    d.location = std::make_shared<const Location>(std::move(at));
    d.notes.clear();
  }
  constexpr std::string_view symbol = "declare symbol ", times = " as a multiple of ";
  if (size_t at = d.help.find(times); d.help.starts_with(symbol) && at != std::string::npos)
    d.help += fmt::format(": nabla.symbol(\"{}\", ..., multiple={})", d.help.substr(symbol.size(), at - symbol.size()),
                          d.help.substr(at + times.size()));
  if (d.help.starts_with(declare)) d.help += "; sizes that are equal have one name in `dynamic_dims`";
  if (!d.help.starts_with(doc) && !(d.help.empty() && d.code == Code::kBadAttribute)) return d;
  // The message begins with the name of the op, or of a function of the package.
  std::string name = d.message.substr(0, d.message.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_"));
  bool known = !name.empty() && py::hasattr(py::module_::import("nabla"), name.c_str());
  d.help = known ? fmt::format("help(nabla.{}) says what it takes", name) : "";
  return d;
}

}  // namespace

void set_error(const Error& e) {
  Diagnostics shown = e.diagnostics();
  for (Diagnostic& d : shown) d = for_python(std::move(d));
  py::object value = py::handle(error_type())(shown.empty() ? e.what() : to_string(shown));
  if (!shown.empty()) {
    value.attr("code") = code_name(shown[0].code);
    value.attr("_message") = shown[0].message, value.attr("_help") = shown[0].help;
  }
  if (dynamic_cast<const OtherMesh*>(&e) != nullptr) value.attr("_of_another_mesh") = true;
  PyErr_SetObject(error_type(), value.ptr());
}

Site python_site() {
  Site site;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    const File& file = file_of(code->co_filename);
    bool found = !file.own;
    if (found) {
      site.file = file.name;
      site.line = PyFrame_GetLineNumber(frame);
      // "<lambda>" and "<module>" say nothing.
      const char* name = kept_text(code->co_name);
      site.function = name[0] == '<' ? "" : name;
    }
    Py_DECREF(code);
    PyFrameObject* outer = found ? nullptr : PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  return site;
}

}  // namespace nabla::python

PYBIND11_MODULE(_nabla, m) {
  using namespace nabla::python;
  m.attr("__version__") = std::string(nabla::kVersion);
  m.def("set_folders", [](const std::string& package, const std::string& kernels) {
    package_folder() = package;
    set_kernel_folder(kernels);
  });
  error_type() = PyErr_NewExceptionWithDoc(
      "nabla.Error", "What is wrong with a program, with the line it is wrong at; `nablac doc errors` lists the codes.",
      PyExc_ValueError, nullptr);
  m.add_object("Error", py::handle(error_type()).inc_ref());
  py::register_exception_translator([](std::exception_ptr p) {
    try {
      if (p) std::rethrow_exception(p);
    } catch (const nabla::Error& e) {
      if (work_has_ended()) return PyErr_SetNone(PyExc_SystemExit);  // of which threads say nothing
      // Python's own handler of the signal says what the user is told: KeyboardInterrupt.
      bool stopped = !e.diagnostics().empty() && e.diagnostics()[0].code == nabla::Code::kInterrupted;
      if (!stopped || PyErr_CheckSignals() == 0) set_error(e);
    }
  });
  raise_failed_checks();
  m.def("end_work", &end_work);
  m.def("forget_work", &forget_work);
  m.def(
      "fail",
      [](int code, const std::string& message, const std::string& help) {
        nabla::Diagnostic d = nabla::error(static_cast<nabla::Code>(code), "{}", message);
        d.location = nabla::locate(python_site(), "");
        d.help = help;
        throw nabla::Error(std::move(d));
      },
      py::arg("code"), py::arg("message"), py::arg("help") = "");
  bind_values(m);
  bind_ops(m);
  bind_traces(m);
  bind_programs(m);
  bind_sharding(m);
  bind_distributed(m);
  bind_calls(m);
  bind_debugging(m);
  guard_new(m);
}

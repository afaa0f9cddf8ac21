// nabla._nabla: the C++ tracer, compiler and runtime for Python. The package around it is nabla/*.py.
#include <cstring>
#include <string>
#include <unordered_map>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/eager_kernels.h"
#include "frontend/python/native/option_spelling.h"
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

// The diagnostic in the words of a Python program.
Diagnostic for_python(Diagnostic d) {
  if (d.help.empty()) d.help = help_for_python(d.code);
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
  nabla::set_option_spelling({spelled_for_python, ", "});
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

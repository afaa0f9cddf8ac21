// What programs hand out while they run: debug prints and callbacks of Python.
#include "runtime/base/debug.h"

#include "frontend/python/native/bind.h"

namespace nabla::python {
namespace {

// Ops of the handler go to a function of their own: the thread's may be computed right now.
struct OwnEager {
  OwnEager() { Eager::begin_no_grad(); }
  ~OwnEager() { Eager::end_no_grad(); }
};

Status deliver(const py::function& handler, const DebugEvent& event) {
  py::gil_scoped_acquire locked;
  try {
    OwnEager own;
    py::list values;
    for (const Literal& operand : event.operands) values.append(Value(operand));
    handler(debug_line(event), std::string(event.callback), values);
    return Ok{};
  } catch (const py::error_already_set& raised) {
    if (raised.matches(PyExc_KeyboardInterrupt)) {
      PyErr_SetInterrupt();  // for where the run ends, which is Python's again
      return error(Code::kInterrupted, "stopped in the debug callback `{}`", event.callback);
    }
    return error(Code::kCallbackFailed, "debug callback `{}` raised {}", event.callback, raised.what());
  }
}

}  // namespace

void bind_debugging(py::module_& m) {
  m.def(
      "set_debug_handler",
      [](const py::function& handler) {
        // Runs of other threads may end after the interpreter's modules: the handler is never freed.
        auto* kept = new py::function(handler);
        set_debug_sink([kept](const DebugEvent& event) { return deliver(*kept, event); });
      },
      "What gets (line, callback's name, operands) of every event; the line is the text with the operands in it.");
  m.def("debug_line", [](const std::string& text, const std::vector<const Value*>& values) {
    std::vector<Literal> arrays;
    std::vector<DType> dtypes;
    for (const Value* v : values) arrays.push_back(v->array("debug.print")), dtypes.push_back(v->dtype());
    if (Status fits = check_debug_text(text, dtypes); !fits.ok()) throw Error(fits.errors());
    return debug_line({.text = text, .operands = arrays});
  });
}

}  // namespace nabla::python

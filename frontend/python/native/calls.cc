// Calls of compiled functions that came before: Python's objects are compared with the tree that they had then, and
// what the program returns is put into the tree that the function returned then. Neither is flattened by Python again.
#include <chrono>
#include <deque>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/bundle.h"
#include "frontend/python/native/unlocked.h"

namespace nabla::python {
namespace {

// As many forms of one function are looked through; what is called with more takes Python's way.
constexpr size_t kForms = 8;

PyTypeObject* value_type() {
  static PyTypeObject* type = reinterpret_cast<PyTypeObject*>(py::type::of<Value>().ptr());
  return type;
}
// Of an object whose type is exactly Tensor.
Value* value_of(PyObject* o) {
  return static_cast<Value*>(reinterpret_cast<py::detail::instance*>(o)->simple_value_holder[0]);
}

// A tree, of arguments or of results.
struct Form {
  enum Kind { kTensor, kConstant, kNone, kTuple, kList, kDict, kNamedTuple, kNode };
  Kind kind = kNone;
  py::object type;  // exactly
  // Of a constant its value, of a dict the tuple of its keys, of a node what stands beside the children.
  py::object data;
  py::object function;  // of a node: of arguments flatten(x), of results unflatten(data, children)
  std::vector<Form> children;
  DType dtype = DType::kF32;  // of a tensor
  std::vector<int64_t> shape;
  bool donated = false;
};

// What nabla.tree.PyTreeDef says of a tree, with the functions of registered classes.
struct Reader {
  py::object registration;  // (class) -> (flatten, unflatten), or None
  bool arguments;
  int next = 0;  // leaf

  Form container(py::handle treedef) const {
    Form out;
    out.type = treedef.attr("kind");
    PyObject* kind = out.type.ptr();
    out.data = treedef.attr("data");
    if (kind == reinterpret_cast<PyObject*>(&PyTuple_Type)) {
      out.kind = Form::kTuple;
    } else if (kind == reinterpret_cast<PyObject*>(&PyList_Type)) {
      out.kind = Form::kList;
    } else if (kind == reinterpret_cast<PyObject*>(&PyDict_Type)) {
      out.kind = Form::kDict;
    } else if (py::object functions = registration(out.type); !functions.is_none()) {
      out.kind = Form::kNode;
      out.function = functions[py::int_(arguments ? 0 : 1)];
    } else {
      out.kind = Form::kNamedTuple;
    }
    return out;
  }
};

bool is_leaf(py::handle treedef) { return py::isinstance<py::str>(treedef.attr("kind")); }

// Whether such an object is taken without Python's help: a Tensor, a number, NumPy's array of a type that buffers know.
bool is_simple_array(PyObject* o) {
  if (Py_TYPE(o) == value_type() || PyBool_Check(o) || PyLong_CheckExact(o) || PyFloat_CheckExact(o)) return true;
  return std::string_view(Py_TYPE(o)->tp_name) == "numpy.ndarray" &&
         py::reinterpret_borrow<py::object>(o).attr("dtype").attr("name").cast<std::string>() != "bfloat16";
}

// The form of arguments: `x` was flattened into `treedef`; leaf number i is a tensor where `tensors` has it. False
// where a leaf needs Python to become a tensor, or is laid out over a mesh.
bool read_arguments(Reader& reader, py::handle treedef, const py::object& x, const py::dict& tensors, Form& out) {
  if (is_leaf(treedef)) {
    py::int_ place(reader.next++);
    out.type = py::type::of(x);
    if (!tensors.contains(place)) {
      out.kind = Form::kConstant, out.data = x;
      return true;
    }
    const Value& v = tensors[place].cast<const Value&>();
    out.kind = Form::kTensor;
    out.dtype = v.dtype();
    out.shape = v.array("a call").shape();
    return is_simple_array(x.ptr()) && !v.placement();
  }
  if (treedef.attr("kind").is_none()) return true;
  out = reader.container(treedef);
  py::object parts = x;
  if (out.kind == Form::kNode) parts = out.function(x)[py::int_(0)];
  py::sequence keys = out.kind == Form::kDict ? py::sequence(out.data) : py::sequence(py::tuple(py::list(parts)));
  py::sequence children = treedef.attr("children");
  for (size_t i = 0; i < children.size(); ++i) {
    py::object part = out.kind == Form::kDict ? py::object(parts[keys[i]]) : py::object(keys[i]);
    if (!read_arguments(reader, children[i], part, tensors, out.children.emplace_back())) return false;
  }
  return true;
}

// The form of results: leaves are tensors where `places` has them, else what `others` has.
Form read_results(Reader& reader, py::handle treedef, const py::set& places, const py::list& others) {
  Form out;
  if (is_leaf(treedef)) {
    int place = reader.next++;
    out.kind = places.contains(py::int_(place)) ? Form::kTensor : Form::kConstant;
    if (out.kind == Form::kConstant) out.data = others[place];
    return out;
  }
  if (treedef.attr("kind").is_none()) return out;
  out = reader.container(treedef);
  for (py::handle child : treedef.attr("children")) out.children.push_back(read_results(reader, child, places, others));
  return out;
}

void donate_all(Form& form) {
  form.donated = true;
  for (Form& child : form.children) donate_all(child);
}

// ---- Matching
struct Match {
  py::handle same;  // nabla.tree.same
  std::vector<Literal> arrays;
  std::vector<Value*> donated;
};

// Whether a program that was compiled for one static value is that of the other: 1, 1.0 and True are equal and not alike.
bool alike(const Match& match, PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (PyUnicode_CheckExact(a) && PyUnicode_CheckExact(b)) return PyUnicode_Compare(a, b) == 0;
  try {
    return py::cast<bool>(match.same(py::handle(a), py::handle(b)));
  } catch (const py::error_already_set&) {
    return false;  // Python's way says what is wrong
  }
}

bool match_tensor(const Form& form, PyObject* o, Match& out) {
  if (Py_TYPE(o) == value_type()) {
    Value* v = value_of(o);
    if (v->is_traced() || v->dtype() != form.dtype || v->rank() != static_cast<int>(form.shape.size())) return false;
    const Literal& a = v->array("a call");  // computed now, with all others that wait
    if (a.shape() != form.shape || v->placement()) return false;
    out.arrays.push_back(a);
    if (form.donated) out.donated.push_back(v);
    return true;
  }
  try {
    py::object x = py::reinterpret_borrow<py::object>(o);
    // Ints that do not fit are for Python's way, which refuses them.
    auto number = [&] { return from_numbers(x, PyFloat_CheckExact(o) ? std::optional(form.dtype) : std::nullopt); };
    Value v = PyObject_CheckBuffer(o) ? from_buffer(py::buffer(x)) : number();
    const Literal& a = v.array("a call");
    if (a.dtype() != form.dtype || a.shape() != form.shape) return false;
    out.arrays.push_back(a);
    return true;
  } catch (const std::exception&) {
    return false;  // Python's way says what is wrong
  }
}

bool match(const Form& form, PyObject* o, Match& out);

bool match_items(const Form& form, PyObject* items, Match& out) {
  size_t n = form.children.size();
  for (size_t i = 0; i < n; ++i) {
    // A comparison may run Python's code, which may change a list.
    if (static_cast<size_t>(PySequence_Fast_GET_SIZE(items)) != n) return false;
    if (!match(form.children[i], PySequence_Fast_GET_ITEM(items, static_cast<Py_ssize_t>(i)), out)) return false;
  }
  return static_cast<size_t>(PySequence_Fast_GET_SIZE(items)) == n;
}

bool match_dict(const Form& form, PyObject* o, Match& out) {
  if (static_cast<size_t>(PyDict_GET_SIZE(o)) != form.children.size()) return false;
  for (size_t i = 0; i < form.children.size(); ++i) {
    PyObject* value = PyDict_GetItemWithError(o, PyTuple_GET_ITEM(form.data.ptr(), static_cast<Py_ssize_t>(i)));
    if (!value) PyErr_Clear();
    if (!value || !match(form.children[i], value, out)) return false;
  }
  return true;
}

bool match_node(const Form& form, PyObject* o, Match& out) {
  py::tuple flat = form.function(py::reinterpret_borrow<py::object>(o));
  if (!alike(out, form.data.ptr(), PyTuple_GET_ITEM(flat.ptr(), 1))) return false;
  py::object items = py::reinterpret_steal<py::object>(PySequence_Fast(PyTuple_GET_ITEM(flat.ptr(), 0), "children"));
  if (!items) throw py::error_already_set();
  return match_items(form, items.ptr(), out);
}

bool match(const Form& form, PyObject* o, Match& out) {
  if (form.kind == Form::kNone) return o == Py_None;
  if (reinterpret_cast<PyObject*>(Py_TYPE(o)) != form.type.ptr()) return false;
  switch (form.kind) {
    case Form::kTensor:
      return match_tensor(form, o, out);
    case Form::kConstant:
      return alike(out, form.data.ptr(), o);
    case Form::kDict:
      return match_dict(form, o, out);
    case Form::kNode:
      return match_node(form, o, out);
    default:
      return match_items(form, o, out);
  }
}

// ---- Building
py::object build(const Form& form, std::vector<Literal>& arrays, size_t& next) {
  if (form.kind == Form::kTensor) return py::cast(Value(std::move(arrays[next++])));
  if (form.kind == Form::kConstant) return form.data;
  if (form.kind == Form::kNone) return py::none();
  py::tuple parts(form.children.size());
  for (size_t i = 0; i < parts.size(); ++i) parts[i] = build(form.children[i], arrays, next);
  switch (form.kind) {
    case Form::kTuple:
      return parts;
    case Form::kList:
      return py::list(parts);
    case Form::kNamedTuple:
      return form.type(*parts);
    case Form::kNode:
      return form.function(form.data, py::list(parts));
    default:
      break;
  }
  py::dict out;
  for (size_t i = 0; i < parts.size(); ++i) out[py::object(form.data[py::int_(i)])] = parts[i];
  return out;
}

// ---- The calls of one function
struct CompiledCall {
  std::shared_ptr<Bundle> bundle;
  int entry = 0;
  std::vector<Literal> captures;
  Form args, kwargs, results;
};

class KnownCalls {
 public:
  /// `registration` and `same` are functions of nabla.tree.
  KnownCalls(py::object registration, py::object same, std::string name)
      : registration_(std::move(registration)), same_(std::move(same)), name_(std::move(name)) {}

  // Remembers a call. `arguments` and `result` are nabla._trace.Arguments and Result; `fixed` are the static arguments,
  // by position or name, in whose places `args` has None.
  void add(std::shared_ptr<Bundle> bundle, int entry, const std::vector<const Value*>& captures, const py::tuple& args,
           const py::dict& kwargs, py::handle arguments, py::handle result,
           const std::vector<std::pair<py::object, py::object>>& fixed, const std::vector<int>& donated) {
    auto call = std::make_shared<CompiledCall>();
    call->bundle = std::move(bundle);
    call->entry = entry;
    for (const Value* v : captures) call->captures.push_back(v->array("a call"));
    Form both;
    py::dict tensors;
    py::list places = arguments.attr("places"), values = arguments.attr("tensors");
    for (size_t i = 0; i < places.size(); ++i) tensors[places[i]] = values[i];
    Reader reader{registration_, true};
    if (!read_arguments(reader, arguments.attr("treedef"), py::make_tuple(args, kwargs), tensors, both)) return;
    call->args = std::move(both.children[0]), call->kwargs = std::move(both.children[1]);
    for (int n : donated) donate_all(call->args.children.at(n < 0 ? n + args.size() : n));
    for (const auto& [where, value] : fixed) fix(*call, where, value);
    Reader results{registration_, false};
    call->results =
        read_results(results, result.attr("treedef"), py::set(result.attr("places")), result.attr("others"));
    if (calls_.size() == kForms) calls_.pop_back();
    calls_.push_front(std::move(call));
  }

  // What the function returns; NotImplemented where no call was like this one.
  py::object call(const py::tuple& args, const py::dict& kwargs) {
    if (is_tracing()) return unknown();
    for (size_t i = 0; i < calls_.size(); ++i) {
      std::shared_ptr<CompiledCall> c = calls_[i];  // others may come while Python is not locked
      Match m{.same = same_};
      m.arrays.reserve(c->captures.size() + 8);
      if (!match(c->args, args.ptr(), m) || !match(c->kwargs, kwargs.ptr(), m)) continue;
      if (i > 0 && i < calls_.size()) std::swap(calls_[i], calls_[0]);
      return run(*c, m);
    }
    return unknown();
  }

  void clear() { calls_.clear(), last = nullptr; }
  /// The bundle of the last call that was found here. Null if a later call was not found.
  std::shared_ptr<Bundle> last;
  int64_t hits() const { return hits_; }
  double seconds() const { return std::chrono::duration<double>(spent_).count(); }

 private:
  static py::object unknown() { return py::reinterpret_borrow<py::object>(Py_NotImplemented); }

  static void fix(CompiledCall& call, const py::object& where, const py::object& value) {
    Form constant;
    constant.kind = Form::kConstant;
    constant.type = py::type::of(value);
    constant.data = value;
    if (py::isinstance<py::int_>(where)) {
      call.args.children.at(where.cast<size_t>()) = std::move(constant);
    } else {
      call.kwargs.data = py::tuple(call.kwargs.data + py::make_tuple(where));
      call.kwargs.children.push_back(std::move(constant));
    }
  }

  py::object run(const CompiledCall& c, Match& m) {
    for (const Literal& a : c.captures) m.arrays.push_back(a);
    auto begin = std::chrono::steady_clock::now();
    std::vector<Literal> out = without_lock([&] { return c.bundle->run(c.entry, m.arrays); });
    spent_ += std::chrono::steady_clock::now() - begin;
    ++hits_, last = c.bundle;
    for (Value* v : m.donated) v->donate(name_);
    size_t next = 0;
    return build(c.results, out, next);
  }

  py::object registration_, same_;
  std::string name_;
  std::deque<std::shared_ptr<CompiledCall>> calls_;  // the last one that fitted first
  int64_t hits_ = 0;
  std::chrono::steady_clock::duration spent_{};
};

}  // namespace

void bind_calls(py::module_& m) {
  py::class_<KnownCalls>(m, "KnownCalls")
      .def(py::init<py::object, py::object, std::string>())
      .def("add", &KnownCalls::add)
      .def("call", &KnownCalls::call)
      .def("clear", &KnownCalls::clear)
      .def_readwrite("last", &KnownCalls::last)
      .def_property_readonly("hits", &KnownCalls::hits)
      .def_property_readonly("seconds", &KnownCalls::seconds);
}

}  // namespace nabla::python

// nabla.Tensor: arrays in and out of Python, element types and sizes.
#include <cstring>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/dlpack.h"

namespace nabla::python {
namespace {

// ---- Element types and the format characters of Python's buffers (PEP 3118)
struct Format {
  DType dtype;
  const char* text;
};
constexpr Format kFormats[] = {{DType::kBool, "?"}, {DType::kI8, "b"},  {DType::kI16, "h"}, {DType::kI32, "i"},
                               {DType::kI64, "q"},  {DType::kU8, "B"},  {DType::kU16, "H"}, {DType::kU32, "I"},
                               {DType::kU64, "Q"},  {DType::kF16, "e"}, {DType::kF32, "f"}, {DType::kF64, "d"}};

const char* format_of(DType dtype) {
  for (const Format& f : kFormats)
    if (f.dtype == dtype) return f.text;
  return nullptr;
}

std::optional<DType> dtype_of(const py::buffer_info& info) {
  std::string f = info.format;
  if (!f.empty() && (f[0] == '@' || f[0] == '=' || f[0] == '<' || f[0] == '|')) f.erase(0, 1);
  if (f == "l") f = "q";
  if (f == "L") f = "Q";
  for (const Format& known : kFormats)
    if (f == known.text && info.itemsize == bytes_of(known.dtype)) return known.dtype;
  return std::nullopt;
}

// Copies a strided array into rows, dimension by dimension.
void copy_rows(const py::buffer_info& from, size_t dimension, const char* at, char*& to) {
  if (dimension == from.shape.size()) {
    std::memcpy(to, at, from.itemsize);
    to += from.itemsize;
    return;
  }
  py::ssize_t n = from.shape[dimension];
  if (dimension + 1 == from.shape.size() && from.strides[dimension] == from.itemsize) {
    std::memcpy(to, at, n * from.itemsize);
    to += n * from.itemsize;
    return;
  }
  for (py::ssize_t i = 0; i < n; ++i) copy_rows(from, dimension + 1, at + i * from.strides[dimension], to);
}

}  // namespace

Value from_buffer(const py::buffer& source) {
  py::buffer_info info = source.request();
  std::optional<DType> dtype = dtype_of(info);
  if (!dtype) {
    const char* help = "; x.astype(x.dtype.newbyteorder('=')) has its bytes in this machine's order";
    throw py::type_error("arrays of format `" + info.format + "` have no element type of nabla's" +
                         (info.format.starts_with(">") ? help : ""));
  }
  Literal array(*dtype, {info.shape.begin(), info.shape.end()});
  char* to = static_cast<char*>(array.mutable_data());
  if (array.size() > 0) copy_rows(info, 0, static_cast<const char*>(info.ptr), to);
  return Value(std::move(array));
}

namespace {

// ---- Nested lists of numbers
struct Nested {
  std::vector<int64_t> shape;
  std::vector<PyObject*> leaves;
};
void collect(PyObject* o, size_t depth, Nested& out) {
  bool list = PyList_Check(o) || PyTuple_Check(o);
  if (!list) {
    if (depth != out.shape.size()) throw py::value_error("nested lists of different depth make no tensor");
    out.leaves.push_back(o);
    return;
  }
  int64_t n = static_cast<int64_t>(PySequence_Fast_GET_SIZE(o));
  if (depth == out.shape.size() && out.leaves.empty())
    out.shape.push_back(n);
  else if (depth >= out.shape.size() || out.shape[depth] != n)
    throw py::value_error("nested lists of different lengths make no tensor: " + std::to_string(n) + " instead of " +
                          (depth < out.shape.size() ? std::to_string(out.shape[depth]) : "a number"));
  for (int64_t i = 0; i < n; ++i) collect(PySequence_Fast_GET_ITEM(o, i), depth + 1, out);
}

double number_of(PyObject* o) {
  double v = PyFloat_AsDouble(o);
  if (v == -1 && PyErr_Occurred()) throw py::error_already_set();
  return v;
}

// An int from -2^63 to 2^64 - 1 modulo 2^64. `signed_too`: whether an int64 holds it.
struct Bits {
  int64_t bits;
  bool signed_too;
};
Bits bits_of(PyObject* o) {
  py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(o));
  if (!index) throw py::error_already_set();
  int overflow = 0;
  long long v = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (overflow == 0) return {v, true};
  unsigned long long large = overflow > 0 ? PyLong_AsUnsignedLongLong(index.ptr()) : 0;
  if (overflow < 0 || PyErr_Occurred()) {
    PyErr_Clear();
    throw py::value_error(py::str(index).cast<std::string>() + " does not fit into 64 bits");
  }
  return {static_cast<int64_t>(large), false};
}

}  // namespace

Value from_numbers(const py::object& source, std::optional<DType> wanted) {
  Nested nested;
  collect(source.ptr(), 0, nested);
  bool all_bool = !nested.leaves.empty(), any_float = nested.leaves.empty();
  for (PyObject* o : nested.leaves) {
    all_bool &= PyBool_Check(o) != 0;
    any_float |= !PyBool_Check(o) && !PyIndex_Check(o);
  }
  DType dtype = wanted ? *wanted : all_bool ? DType::kBool : any_float ? DType::kF32 : DType::kI32;
  Literal array(dtype, nested.shape);
  for (size_t i = 0; i < nested.leaves.size(); ++i) {
    PyObject* o = nested.leaves[i];
    auto at = static_cast<int64_t>(i);
    if (is_float(dtype) || !(PyIndex_Check(o) || PyBool_Check(o))) {
      array.set(at, number_of(o));
      continue;
    }
    auto [bits, signed_too] = bits_of(o);
    array.set_i(at, bits);
    const bool as_unsigned = dtype == DType::kU64 && (!signed_too || bits >= 0);
    const bool fits = as_unsigned || (dtype != DType::kU64 && signed_too && array.get_i(at) == bits);
    if (fits || dtype == DType::kBool) continue;
    const std::string number = py::str(py::handle(o)).cast<std::string>();
    if (!wanted) throw py::value_error(number + " does not fit into int32, the dtype of ints: give a dtype, such as int64");
    const std::string name = py::cast(dtype).attr("name").cast<std::string>();
    PyErr_Format(PyExc_OverflowError, "the number %s does not fit into %s, the dtype that is given", number.c_str(), name.c_str());
    throw py::error_already_set();
  }
  return Value(std::move(array));
}

namespace {

// ---- Out
// What one of Python's views of an array holds: its bytes stay as long as it does, whatever happens to the tensor.
struct Exported {
  Literal array;
  std::vector<Py_ssize_t> shape, strides;
};

int get_buffer(PyObject* object, Py_buffer* view, int flags) {
  view->obj = nullptr;
  try {
    const Literal& array = py::cast<const Value&>(py::handle(object)).array("a NumPy array or a memoryview");
    const char* format = format_of(array.dtype());
    if (!format) {
      PyErr_Format(PyExc_BufferError, "%s has no NumPy element type: convert it, x.astype(nb.float32)",
                   std::string(name_of(array.dtype())).c_str());
      return -1;
    }
    if (flags & PyBUF_WRITABLE) {
      PyErr_SetString(PyExc_BufferError, "the elements of a tensor are read-only");
      return -1;
    }
    auto* out = new Exported{array, {array.shape().begin(), array.shape().end()}, {}};
    for (int64_t s : strides_of(array.shape())) out->strides.push_back(s * bytes_of(array.dtype()));
    view->buf = const_cast<void*>(out->array.data());
    view->len = array.size_bytes();
    view->readonly = 1;
    view->itemsize = bytes_of(array.dtype());
    view->format = flags & PyBUF_FORMAT ? const_cast<char*>(format) : nullptr;
    view->ndim = array.rank();
    view->shape = flags & PyBUF_ND ? out->shape.data() : nullptr;
    view->strides = (flags & PyBUF_STRIDES) == PyBUF_STRIDES ? out->strides.data() : nullptr;
    view->suboffsets = nullptr;
    view->internal = out;
    view->obj = object;
    Py_INCREF(object);
    return 0;
  } catch (const Error& e) {
    set_error(e);
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  }
  return -1;
}

void release_buffer(PyObject*, Py_buffer* view) { delete static_cast<Exported*>(view->internal); }

py::object element(const Literal& a, int64_t i) {
  if (a.dtype() == DType::kBool) return py::bool_(a.get_i(i) != 0);
  if (is_float(a.dtype())) return py::float_(a.get(i));
  if (a.dtype() == DType::kU64) return py::int_(static_cast<uint64_t>(a.get_i(i)));
  return py::int_(a.get_i(i));
}

py::object nested_list(const Literal& a, size_t dimension, int64_t& next) {
  if (dimension == a.shape().size()) return element(a, next++);
  py::list out;
  for (int64_t i = 0; i < a.shape()[dimension]; ++i) out.append(nested_list(a, dimension + 1, next));
  return out;
}

py::object item(const Value& v) {
  const Literal& a = v.array("item()");
  if (a.size() != 1) throw py::value_error("item() is for one element, got " + v.type().str());
  return element(a, 0);
}

void bind_dtype(py::module_& m) {
  py::enum_<DType>(m, "DType", "Element types.")
      .value("bool", DType::kBool)
      .value("int8", DType::kI8)
      .value("int16", DType::kI16)
      .value("int32", DType::kI32)
      .value("int64", DType::kI64)
      .value("uint8", DType::kU8)
      .value("uint16", DType::kU16)
      .value("uint32", DType::kU32)
      .value("uint64", DType::kU64)
      .value("float16", DType::kF16)
      .value("bfloat16", DType::kBF16)
      .value("float32", DType::kF32)
      .value("float64", DType::kF64)
      .def("__reduce_ex__",
           [](const py::object& self, int) { return py::make_tuple(py::type::of(self), py::make_tuple(py::int_(self))); })
      .def_property_readonly("itemsize", [](DType d) { return bytes_of(d); })
      .def("is_float", [](DType d) { return is_float(d); })
      .def("is_integer", [](DType d) { return is_integer(d); });
}

const ir::Dim& divisor(const Size& size) {
  if (size.dim.bounds().min <= 0) throw py::value_error("a size is divided by " + size.dim.str() + ", which may be 0 or less");
  return size.dim;
}

void bind_dim(py::module_& m) {
  py::class_<ir::Dim>(m, "Dim", "A size that is known only at run time: a sum of products of symbols.")
      .def("__add__", [](const ir::Dim& a, const Size& b) { return Size{a + b.dim}; }, py::is_operator())
      .def("__radd__", [](const ir::Dim& a, const Size& b) { return Size{b.dim + a}; }, py::is_operator())
      .def("__sub__", [](const ir::Dim& a, const Size& b) { return Size{a - b.dim}; }, py::is_operator())
      .def("__rsub__", [](const ir::Dim& a, const Size& b) { return Size{b.dim - a}; }, py::is_operator())
      .def("__mul__", [](const ir::Dim& a, const Size& b) { return Size{a * b.dim}; }, py::is_operator())
      .def("__rmul__", [](const ir::Dim& a, const Size& b) { return Size{b.dim * a}; }, py::is_operator())
      .def("__floordiv__", [](const ir::Dim& a, const Size& b) { return Size{ir::Dim::floordiv(a, divisor(b))}; }, py::is_operator())
      .def("__rfloordiv__", [](const ir::Dim& a, const Size& b) { return Size{ir::Dim::floordiv(b.dim, divisor({a}))}; }, py::is_operator())
      .def("__mod__", [](const ir::Dim& a, const Size& b) { return Size{ir::Dim::mod(a, divisor(b))}; }, py::is_operator())
      .def("__rmod__", [](const ir::Dim& a, const Size& b) { return Size{ir::Dim::mod(b.dim, divisor({a}))}; }, py::is_operator())
      .def("__eq__", [](const ir::Dim& a, const Size& b) { return a == b.dim; }, py::is_operator())
      .def("__hash__", [](const ir::Dim& a) { return std::hash<std::string>{}(a.str()); })
      .def("__repr__", &ir::Dim::str)
      .def_property_readonly("bounds",
                             [](const ir::Dim& a) { return std::pair(a.bounds().min, a.bounds().max); },
                             "The least and the largest value that the symbols' ranges allow.")
      .def("__index__", [](const ir::Dim& d) -> int64_t {
        throw py::type_error("size " + d.str() + " is known only at run time: it has no value in Python");
      });
}

// __dlpack__ of the array API's standard: neither the stream nor the version matters to arrays in the host's memory.
py::capsule exported_to_dlpack(const Value& v, const py::object&, const py::object&,
                               const std::optional<std::pair<int, int>>& device, const std::optional<bool>& copy) {
  if (device && *device != std::pair(kDlCpu, 0))
    throw py::buffer_error(fmt::format("a tensor lies in the host's memory, device (1, 0), and is not moved to ({}, {})",
                                       device->first, device->second));
  return to_dlpack(v, copy.value_or(false));
}

}  // namespace

Shape shape_of(const Sizes& sizes) {
  Shape out;
  for (const Size& s : sizes) out.push_back(s.dim);
  return out;
}

py::tuple shape_tuple(const Shape& shape) {
  py::tuple out(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) out[i] = py::cast(Size{shape[i]});
  return out;
}

void bind_values(py::module_& m) {
  bind_dtype(m);
  bind_dim(m);
  py::class_<Value> tensor(m, "Tensor", py::buffer_protocol(), py::dynamic_attr(),
                           "An array, or a value that is still to be computed. Immutable.");
  tensor.def_property_readonly("dtype", &Value::dtype)
      .def_property_readonly("shape", [](const Value& v) { return shape_tuple(v.type().shape); })
      .def_property_readonly("ndim", &Value::rank)
      .def_property_readonly("is_traced", &Value::is_traced,
                             "Whether it is a value of a function that is being traced: it has no elements yet.")
      .def_property_readonly("has_array", &Value::has_array, "Whether its elements are computed.")
      .def("type_str", [](const Value& v) { return v.type().str(); })
      .def("item", &item, "The only element as a Python number. Raises ValueError where there are several.")
      .def("tolist",
           [](const Value& v) {
             int64_t next = 0;
             return nested_list(v.array("tolist()"), 0, next);
           })
      .def("realize",
           [](const py::object& v) {
             v.cast<Value&>().array("realize()");
             return v;
           })
      .def_property("requires_grad", &Value::requires_grad, &Value::set_requires_grad,
                    "Whether backward() gives this tensor a gradient.")
      .def("_set_parameter", &Value::set_parameter)
      .def_property_readonly("_is_gradient_leaf", &Value::is_gradient_leaf)
      .def("_donate", &Value::donate)
      .def("_rebind", &Value::rebind)
      .def("named",
           [](Value& v, const std::string& name) {
             if (v.is_traced()) v.operand().named(name);
           })
      .def(
          "__dlpack__", &exported_to_dlpack, py::arg("stream") = py::none(), py::kw_only(),
          py::arg("max_version") = py::none(), py::arg("dl_device") = py::none(), py::arg("copy") = py::none())
      .def("__dlpack_device__", [](const Value&) { return py::make_tuple(kDlCpu, 0); })
      .def("_same", &Value::same, "Whether both are one value of a function, or one array.")
      .def("_batch_dims", &Value::batch_dims, "How many functions of one example of a batch its function is in.")
      .def("_copied", [](const Value& v) { return v.copied(); });
  PyBufferProcs& buffers = reinterpret_cast<PyHeapTypeObject*>(tensor.ptr())->as_buffer;
  buffers.bf_getbuffer = &get_buffer;
  buffers.bf_releasebuffer = &release_buffer;
  m.def("from_buffer", &from_buffer);
  m.def("from_numbers", &from_numbers);
  m.def("from_dlpack", &from_dlpack);
  m.def("realize", [](const std::vector<Value*>& values) { realize(values); });
  m.def("is_tracing", &is_tracing);
  m.def("symbol", [](const std::string& name, int64_t min, int64_t max, int64_t multiple) {
    return Size{ir::Dim::symbol(std::make_shared<const ir::Symbol>(ir::Symbol{name, min, max, multiple}))};
  });
  m.def("symbols_of", [](const Sizes& sizes) {
    std::vector<std::tuple<std::string, int64_t, int64_t, int64_t>> out;
    for (const Size& s : sizes)
      for (const ir::SymbolRef& y : s.dim.symbols()) out.emplace_back(y->name, y->min, y->max, y->multiple);
    return out;
  });
  m.def("backward_gradients",
        [](const Value& result, const std::optional<Operand>& cotangent, const std::vector<const Value*>& leaves) {
          Eager::resume(result.eager());
          return recorded([&](const Site& site) {
            Eager& eager = Eager::of_thread();
            std::optional<nabla::Tensor> ct;
            if (cotangent) ct = tensor_of(*cotangent, site);
            std::vector<std::optional<Value>> out;
            for (std::optional<nabla::Tensor>& g : eager.gradients(result, ct, leaves))
              out.push_back(g ? std::optional<Value>(Value(*g)) : std::nullopt);
            return out;
          });
        });
  m.def("gradient_leaves", [] {
    py::list out;
    for (Value* v : Value::gradient_leaves()) out.append(py::cast(v, py::return_value_policy::reference));
    return out;
  });
  m.def("begin_no_grad", &Eager::begin_no_grad);
  m.def("end_no_grad", &Eager::end_no_grad);
  m.def("tracks_gradients", [] { return Eager::of_thread().tracks_gradients(); });
  m.def("forget_graph", [] { Eager::of_thread().forget_gradients(); });
}

}  // namespace nabla::python

namespace pybind11::detail {
bool type_caster<nabla::python::Size>::load(handle src, bool convert) {
  if (isinstance<nabla::ir::Dim>(src)) {
    value.dim = src.cast<const nabla::ir::Dim&>();
    return true;
  }
  if (!PyIndex_Check(src.ptr())) return false;
  make_caster<int64_t> number;
  if (!number.load(src, convert)) return false;
  value.dim = nabla::ir::Dim(cast_op<int64_t>(number));
  return true;
}
handle type_caster<nabla::python::Size>::cast(const nabla::python::Size& size, return_value_policy, handle parent) {
  if (size.dim.is_static()) return PyLong_FromLongLong(size.dim.value());
  return make_caster<nabla::ir::Dim>::cast(size.dim, return_value_policy::copy, parent);
}
}  // namespace pybind11::detail

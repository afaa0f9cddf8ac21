// How functions of the C++ frontend become functions of the module: operands are converted while a Recording lives, so
// that arrays find the function they belong to, and nodes carry the caller's line of Python.
#pragma once

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "frontend/cpp/emit.h"
#include "frontend/cpp/tensor.h"
#include "frontend/python/native/value.h"

namespace nabla::python {

namespace py = pybind11;

/// What Python passes for a tensor: a Value, or a number. Converted by `arg_of` in the body.
struct Operand {
  py::object object;
};
/// Throws py::type_error for anything but a Value, a bool, an int or a float.
Arg arg_of(const Operand& operand, const Site& site);
/// As a tensor: numbers become constants.
nabla::Tensor tensor_of(const Operand& operand, const Site& site);
std::vector<nabla::Tensor> tensors_of(const std::vector<Operand>& operands, const Site& site);

/// A size that Python writes: an int, or a Dim.
struct Size {
  ir::Dim dim;
};
using Sizes = std::vector<Size>;
Shape shape_of(const Sizes& sizes);
py::tuple shape_tuple(const Shape& shape);

// ---- What stands in Python for a type of the C++ frontend
template <class T>
struct Given {
  using type = T;
  static const T& to(const T& v, const Site&) { return v; }
};
template <>
struct Given<Arg> {
  using type = Operand;
  static Arg to(const Operand& v, const Site& site) { return arg_of(v, site); }
};
template <>
struct Given<nabla::Tensor> {
  using type = Operand;
  static nabla::Tensor to(const Operand& v, const Site& site) { return tensor_of(v, site); }
};
template <>
struct Given<std::vector<nabla::Tensor>> {
  using type = std::vector<Operand>;
  static std::vector<nabla::Tensor> to(const type& v, const Site& site) { return tensors_of(v, site); }
};
template <>
struct Given<Args> {
  using type = std::vector<Operand>;
  static Args to(const type& v, const Site& site) { return Args(tensors_of(v, site), site); }
};
template <>
struct Given<Shape> {
  using type = Sizes;
  static Shape to(const type& v, const Site&) { return shape_of(v); }
};

inline Value given_back(nabla::Tensor t) { return Value(std::move(t)); }
inline std::vector<Value> given_back(const std::vector<nabla::Tensor>& ts) { return {ts.begin(), ts.end()}; }
inline std::pair<Value, Value> given_back(const std::pair<nabla::Tensor, nabla::Tensor>& ts) {
  return {Value(ts.first), Value(ts.second)};
}

/// Calls `body` with the place in Python, while ops are recorded. Where it uses tensors of another mesh than the eager
/// function's, it is called again in another one, unless it is `bound` to this one, whose values a traced function captured.
template <class F>
auto recorded(F body, bool bound = false) {
  auto once = [&] {
    Recording recording;
    Site site = python_site();
    AtSite at(site);
    return body(site);
  };
  try {
    return once();
  } catch (const OtherMesh&) {
    if (bound || !Eager::leave_mesh()) throw;
  } catch (const OtherEager& other) {
    Eager::resume(other.eager);
  }
  return once();
}

/// The error with the name of the op, and its operands that are laid out over different meshes.
OtherMesh of_op(const OtherMesh& e, const std::string& op, const std::vector<const Operand*>& operands);

/// What `body` gives; where it uses tensors of two meshes, the error says the op and its `operands()`.
template <class O, class F>
auto naming_op(const std::string& op, O operands, F body) {
  try {
    return body();
  } catch (const OtherMesh& e) {
    throw of_op(e, op, operands());
  }
}

inline std::vector<const Operand*> pointers_to(const std::vector<Operand>& operands) {
  std::vector<const Operand*> out;
  for (const Operand& x : operands) out.push_back(&x);
  return out;
}
inline void add_operand(std::vector<const Operand*>& to, const Operand& x) { to.push_back(&x); }
inline void add_operand(std::vector<const Operand*>& to, const std::vector<Operand>& xs) {
  for (const Operand* x : pointers_to(xs)) to.push_back(x);
}
template <class T>
void add_operand(std::vector<const Operand*>&, const T&) {}

template <class R, class... A, size_t... I>
void define(py::module_& m, const char* name, R (*f)(A...), std::index_sequence<I...>) {
  using All = std::tuple<std::decay_t<A>...>;
  m.def(name, [f, name](const typename Given<std::tuple_element_t<I, All>>::type&... args) {
    auto operands = [&] {
      std::vector<const Operand*> out;
      (add_operand(out, args), ...);
      return out;
    };
    auto body = [&](const Site& site) {
      if constexpr (sizeof...(I) == sizeof...(A))
        return given_back(f(Given<std::tuple_element_t<I, All>>::to(args, site)...));
      else
        return given_back(f(Given<std::tuple_element_t<I, All>>::to(args, site)..., site));
    };
    return naming_op(name, operands, [&] { return recorded(body); });
  });
}
/// Defines a function of the C++ frontend. A last parameter of type Site is filled in.
template <class R, class... A>
void define(py::module_& m, const char* name, R (*f)(A...)) {
  constexpr size_t n = sizeof...(A);
  if constexpr (std::is_same_v<std::tuple_element_t<n - 1, std::tuple<std::decay_t<A>...>>, Site>)
    define(m, name, f, std::make_index_sequence<n - 1>{});
  else
    define(m, name, f, std::make_index_sequence<n>{});
}

/// Sets Python's error to a nabla.Error.
void set_error(const Error& e);

/// A copy of an array of Python's buffer protocol, of any strides. Throws py::type_error for other element types.
Value from_buffer(const py::buffer& source);
/// Numbers and nested lists of numbers: bool, int32 and float32 where no dtype is asked for.
Value from_numbers(const py::object& source, std::optional<DType> wanted);

void bind_calls(py::module_& m);
void bind_debugging(py::module_& m);
void bind_values(py::module_& m);
void bind_ops(py::module_& m);
void bind_traces(py::module_& m);
void bind_programs(py::module_& m);
void bind_sharding(py::module_& m);

}  // namespace nabla::python

namespace pybind11::detail {
template <>
struct type_caster<nabla::python::Operand> {
  PYBIND11_TYPE_CASTER(nabla::python::Operand, const_name("Tensor | float"));
  bool load(handle src, bool) {
    if (src.is_none()) return false;
    value.object = reinterpret_borrow<object>(src);
    return true;
  }
};
template <>
struct type_caster<nabla::python::Size> {
  PYBIND11_TYPE_CASTER(nabla::python::Size, const_name("int | Dim"));
  bool load(handle src, bool);
  static handle cast(const nabla::python::Size& size, return_value_policy, handle);
};
}  // namespace pybind11::detail

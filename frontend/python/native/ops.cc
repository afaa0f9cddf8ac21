// Ops, and the functions of the C++ frontend that are made of several.
#include "frontend/cpp/array.h"
#include "frontend/cpp/convenience.h"
#include "frontend/cpp/fft.h"
#include "frontend/cpp/indexing.h"
#include "frontend/cpp/layers.h"
#include "frontend/cpp/linalg.h"
#include "frontend/cpp/losses.h"
#include "frontend/cpp/optimizers.h"
#include "frontend/cpp/quantize.h"
#include "frontend/cpp/transformer.h"
#include "frontend/cpp/windows.h"
#include "frontend/python/native/bind.h"
#include "ir/op_def.h"
#include "ir/ops/all_ops.h"

namespace nabla::python {
namespace {

template <class T>
T cast_to(const std::string& name, const py::handle& v, const char* wanted) {
  try {
    return v.cast<T>();
  } catch (const py::cast_error&) {
    throw py::type_error(fmt::format("`{}` is {}, got {}", name, wanted, py::repr(v).cast<std::string>().substr(0, 200)));
  }
}

ir::Attr attr_of(const ir::AttrDef& def, const py::handle& v) {
  switch (def.kind) {
    case ir::AttrKind::kBool:
      return cast_to<bool>(def.name, v, "a bool");
    case ir::AttrKind::kInt:
      return cast_to<int64_t>(def.name, v, "an int of 64 bits");
    case ir::AttrKind::kFloat:
      return cast_to<double>(def.name, v, "a number");
    case ir::AttrKind::kString:
      return cast_to<std::string>(def.name, v, "a str");
    case ir::AttrKind::kDType:
      return cast_to<DType>(def.name, v, "an element type");
    case ir::AttrKind::kInts:
      return cast_to<ir::Ints>(def.name, v, "a list of ints of 64 bits");
    case ir::AttrKind::kShape:
      return shape_of(cast_to<Sizes>(def.name, v, "a list of sizes, ints of 64 bits and Dims"));
    case ir::AttrKind::kLiteral:
      return v.cast<const Value&>().array("a constant");
    case ir::AttrKind::kFunction:
    case ir::AttrKind::kFunctions:
      throw py::type_error("attribute `" + def.name + "` names a function");
    case ir::AttrKind::kAxes:
    case ir::AttrKind::kSharding:
    case ir::AttrKind::kShardings:
      break;
  }
  throw py::type_error("attribute `" + def.name + "` speaks of a mesh, which Python has not yet");
}

// One op by its name. Operands: values and numbers; attributes by their names in the op's record.
std::vector<Value> emit_op(const std::string& name, const std::vector<Operand>& operands, const py::dict& attributes) {
  const ir::OpDef* op = ops::all_ops().find(name);
  ir::Attrs attrs;
  for (auto [key, v] : attributes) {
    std::string k = key.cast<std::string>();
    const ir::AttrDef* def = nullptr;
    if (op)
      for (const ir::AttrDef& a : op->attrs)
        if (a.name == k) def = &a;
    if (!def) throw py::type_error(name + " has no attribute `" + k + "`");
    attrs.set(k, attr_of(*def, v));
  }
  auto body = [&](const Site& site) {
    std::vector<Arg> args;
    for (const Operand& o : operands) args.push_back(arg_of(o, site));
    std::vector<nabla::Tensor> out = emit(name, args, std::move(attrs), site);
    // Auxiliary results are for derivatives alone.
    if (op)
      for (size_t i = op->results.size(); i-- > 0;)
        if (op->results[i].auxiliary && i + 1 == out.size()) out.pop_back();
    return given_back(out);
  };
  return naming_op(name, [&] { return pointers_to(operands); }, [&] { return recorded(body); });
}

void bind_array(py::module_& m) {
  define(m, "clip", &nabla::clip);
  define(m, "floor_divide", &nabla::floor_divide);
  define(m, "mod", &nabla::mod);
  define(m, "square", &nabla::square);
  define(m, "softplus", &nabla::softplus);
  define(m, "log_sigmoid", &nabla::log_sigmoid);
  define(m, "leaky_relu", &nabla::leaky_relu);
  define(m, "elu", &nabla::elu);
  define(m, "selu", &nabla::selu);
  define(m, "mish", &nabla::mish);
  define(m, "hard_sigmoid", &nabla::hard_sigmoid);
  define(m, "hard_swish", &nabla::hard_swish);
  define(m, "digamma", &nabla::digamma);
  define(m, "zeta", &nabla::zeta);
  define(m, "bessel_i0", &nabla::bessel_i0);
  define(m, "bessel_i1", &nabla::bessel_i1);
  define(m, "var", &nabla::var);
  define(m, "stddev", &nabla::stddev);
  define(m, "prod", &nabla::prod);
  define(m, "all", &nabla::all);
  define(m, "any", &nabla::any);
  define(m, "unsqueeze", &nabla::unsqueeze);
  define(m, "squeeze", &nabla::squeeze);
  define(m, "moveaxis", &nabla::moveaxis);
  define(m, "flatten", &nabla::flatten);
  define(m, "stack", &nabla::stack);
  define(m, "split", &nabla::split);
  define(m, "unbind", &nabla::unbind);
  define(m, "slice_axis", &nabla::slice_axis);
  define(m, "tile", &nabla::tile);
  define(m, "repeat", &nabla::repeat);
  define(m, "arange", &nabla::arange);
  define(m, "hann_window", &nabla::hann_window);
  define(m, "tril", &nabla::tril);
  define(m, "triu", &nabla::triu);
  define(m, "tril_mask", &nabla::tril_mask);
  define(m, "sort", static_cast<nabla::Tensor (*)(const Arg&, int64_t, bool)>(&nabla::sort));
  define(m, "sort_by",
         static_cast<std::vector<nabla::Tensor> (*)(const std::vector<nabla::Tensor>&, int, int64_t, bool, Site)>(
             &nabla::sort));
  define(m, "take_along_axis", &nabla::take_along_axis);
  define(m, "add_along_axis", &nabla::add_along_axis);
  define(m, "take", &nabla::take);
  define(m, "nonzero", &nabla::nonzero);
  define(m, "masked_select", &nabla::masked_select);
  define(m, "dropout", &nabla::dropout);
  define(m, "bernoulli", &nabla::bernoulli);
  define(m, "randint", &nabla::randint);
  define(m, "einsum", &nabla::einsum);
}

void bind_convenience(py::module_& m) {
  define(m, "matmul", &nabla::matmul);
  define(m, "sum", &nabla::sum);
  define(m, "mean", &nabla::mean);
  define(m, "amax", &nabla::amax);
  define(m, "amin", &nabla::amin);
  define(m, "slice", static_cast<nabla::Tensor (*)(const Arg&, const Shape&, const Shape&)>(&nabla::slice));
  define(m, "pad", static_cast<nabla::Tensor (*)(const Arg&, const Arg&, const Shape&, const Shape&)>(&nabla::pad));
  define(m, "broadcast_to", &nabla::broadcast_to);
  define(m, "matrix_transpose", static_cast<nabla::Tensor (*)(const Arg&)>(&nabla::transpose));
  define(m, "one_hot", &nabla::one_hot);
  define(m, "full", &nabla::full);
  define(m, "fold_in", static_cast<nabla::Tensor (*)(const Arg&, const nabla::Tensor&)>(&nabla::fold_in));
  define(m, "searchsorted", &nabla::searchsorted);
  define(m, "gather_nd", &nabla::gather_nd);
  define(m, "scatter_nd", &nabla::scatter_nd);
  define(m, "scatter_nd_add", &nabla::scatter_nd_add);
  define(m, "masked_scatter", &nabla::masked_scatter);
  define(m, "gumbel", &nabla::gumbel);
  define(m, "categorical", &nabla::categorical);
  define(m, "permutation", &nabla::permutation);
}

void bind_linalg(py::module_& m) {
  define(m, "solve", &nabla::solve);
  define(m, "cholesky_solve", &nabla::cholesky_solve);
  define(m, "inv", &nabla::inv);
  define(m, "det", &nabla::det);
  define(m, "slogdet", &nabla::slogdet);
  define(m, "lstsq", &nabla::lstsq);
  define(m, "pinv", &nabla::pinv);
  define(m, "matrix_norm", &nabla::matrix_norm);
  define(m, "trace_of", &nabla::trace_of);
  define(m, "diagonal", &nabla::diagonal);
  define(m, "diag_embed", &nabla::diag_embed);
  define(m, "eye", &nabla::eye);
  define(m, "band_part", &nabla::band_part);
}

void bind_nn(py::module_& m) {
  define(m, "mse", &nn::mse);
  define(m, "l1", &nn::l1);
  define(m, "huber", &nn::huber);
  define(m, "bce_with_logits", &nn::bce_with_logits);
  define(m, "bce", &nn::bce);
  define(m, "kl_divergence", &nn::kl_divergence);
  define(m, "smooth_cross_entropy", &nn::smooth_cross_entropy);
  define(m, "soft_cross_entropy", &nn::soft_cross_entropy);
  define(m, "cosine_similarity", &nn::cosine_similarity);
  define(m, "cosine_embedding", &nn::cosine_embedding);
  define(m, "hinge", &nn::hinge);
  define(m, "triplet", &nn::triplet);
  define(m, "group_norm", &nn::group_norm);
  define(m, "batch_norm", &nn::batch_norm);
  define(m, "cache_append", &nn::cache_append);
  define(m, "cache_mask", &nn::cache_mask);
  define(m, "positions_from", &nn::positions_from);
  define(m, "global_norm", &nn::global_norm);
  define(m, "clip_factor", &nn::clip_factor);
  define(m, "conv1d", &nabla::conv1d);
  define(m, "conv3d", &nabla::conv3d);
  m.def("batch_norm_train", [](const Operand& x, const Operand& gamma, const Operand& beta, double eps, int64_t parts) {
    return recorded([&](const Site& site) {
      nn::BatchNormResult r = nn::batch_norm_train(arg_of(x, site), arg_of(gamma, site), arg_of(beta, site), eps, parts);
      return given_back(std::vector{r.out, r.mean, r.variance});
    });
  });
  using Two = std::array<int64_t, 2>;
  m.def("max_pool2d", [](const Operand& x, Two window, Two stride, Two padding, Two dilation, bool ceil_mode) {
    return recorded([&](const Site& site) {
      return given_back(nn::max_pool2d(arg_of(x, site), {window, stride, padding, dilation, ceil_mode}));
    });
  });
  m.def("avg_pool2d", [](const Operand& x, Two window, Two stride, Two padding, bool ceil_mode, bool include_pad) {
    return recorded([&](const Site& site) {
      return given_back(nn::avg_pool2d(arg_of(x, site), {window, stride, padding, {1, 1}, ceil_mode, include_pad}));
    });
  });
  m.def("conv2d_transpose", [](const Operand& x, const Operand& filter, Two stride, Two padding, Two output_padding,
                               Two dilation, int64_t groups) {
    return recorded([&](const Site& site) {
      return given_back(nn::conv2d_transpose(arg_of(x, site), arg_of(filter, site),
                                             {stride, padding, output_padding, dilation, groups}));
    });
  });
  m.def("resize", [](const Operand& x, const Ints& axes, const Ints& sizes, const std::string& method, bool corners) {
    return recorded([&](const Site& site) {
      return given_back(nabla::resize(arg_of(x, site), axes, sizes, {method, corners}));
    });
  });
  auto patches = [](Two window, Two stride, Two padding, Two dilation) {
    return Patches{window, stride, padding, dilation};
  };
  m.def("unfold", [patches](const Operand& x, Two window, Two stride, Two padding, Two dilation) {
    return recorded([&](const Site& site) {
      return given_back(nabla::unfold(arg_of(x, site), patches(window, stride, padding, dilation)));
    });
  });
  m.def("fold",
        [patches](const Operand& x, int64_t height, int64_t width, Two window, Two stride, Two padding, Two dilation) {
          return recorded([&](const Site& site) {
            return given_back(nabla::fold(arg_of(x, site), height, width, patches(window, stride, padding, dilation)));
          });
        });
  m.def("quantize_nf4", [](const Operand& w, int64_t block) {
    return recorded([&](const Site& site) {
      Quantized q = nabla::quantize_nf4(arg_of(w, site), block);
      return std::pair(given_back(q.values), given_back(q.scales));
    });
  });
  m.def("dequantize_nf4", [](const Operand& values, const Operand& scales, const Sizes& shape) {
    return recorded([&](const Site& site) {
      return given_back(nabla::dequantize_nf4({tensor_of(values, site), tensor_of(scales, site)}, shape_of(shape)));
    });
  });
}

}  // namespace

Arg arg_of(const Operand& operand, const Site& site) {
  PyObject* o = operand.object.ptr();
  if (PyBool_Check(o)) return Arg(o == Py_True, site);
  if (PyLong_CheckExact(o)) return Arg(operand.object.cast<int64_t>(), site);
  if (PyFloat_Check(o)) return Arg(PyFloat_AS_DOUBLE(o), site);
  if (py::isinstance<Value>(operand.object)) return Arg(operand.object.cast<const Value&>().operand(), site);
  throw py::type_error("expected a Tensor or a number, got " + std::string(Py_TYPE(o)->tp_name));
}

nabla::Tensor tensor_of(const Operand& operand, const Site& site) {
  Arg arg = arg_of(operand, site);
  if (arg.is_tensor()) return arg.tensor();
  DType dtype = arg.kind() == Arg::Kind::kBool ? DType::kBool : arg.kind() == Arg::Kind::kInt ? i32 : f32;
  return nabla::full({}, arg.number(), dtype, site);
}

std::vector<nabla::Tensor> tensors_of(const std::vector<Operand>& operands, const Site& site) {
  std::vector<nabla::Tensor> out;
  for (const Operand& o : operands) out.push_back(tensor_of(o, site));
  return out;
}

void bind_ops(py::module_& m) {
  m.def("emit", &emit_op);
  m.def("op_names", [] { return ops::all_ops().names(); });
  m.def("elementwise_ops", [] {
    std::vector<std::pair<std::string, size_t>> out;
    for (const ir::OpDef& op : ops::all_ops().all())
      if (op.traits.elementwise && op.results.size() == 1) out.emplace_back(op.name, op.operands.size());
    return out;
  });
  bind_array(m);
  bind_convenience(m);
  bind_linalg(m);
  bind_nn(m);
}

}  // namespace nabla::python

// What tests of frontend functions share: literals from numbers, and a function's values by the reference interpreter.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontend/cpp/program.h"
#include "ir/reference/interpreter.h"

namespace nabla {

using Values = std::vector<double>;

inline Literal vec(const Values& values, std::vector<int64_t> shape = {}, DType dtype = DType::kF32) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  Literal out(dtype, shape);
  for (size_t i = 0; i < values.size(); ++i)
    is_float(dtype) ? out.set(static_cast<int64_t>(i), values[i])
                    : out.set_i(static_cast<int64_t>(i), static_cast<int64_t>(values[i]));
  return out;
}

inline Values elements(const Literal& y) {
  Values values;
  for (int64_t i = 0; i < y.size(); ++i)
    values.push_back(is_float(y.dtype()) ? y.get(i) : static_cast<double>(y.get_i(i)));
  return values;
}

/// The results of a function of the module, which is flat whatever it says.
inline std::vector<Literal> interpreted(ir::Module module, const std::string& name, std::vector<Literal> args) {
  module.stage = ir::Stage::kFlat;
  Result<std::vector<Literal>> out = ir::interpret(module, name, std::move(args));
  if (out.ok()) return *out;
  ADD_FAILURE() << to_string(out.errors());
  return {};
}

/// The elements of f's result, which is one tensor.
template <class F, class... L>
Values eval(F f, const L&... args) {
  auto traced = trace("f", f, Spec(args.dtype(), ir::static_shape(args.shape()))...);
  std::vector<Literal> out = interpreted(traced.module(), "f", {args...});
  return out.empty() ? Values{} : elements(out[0]);
}

template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

inline void expect_near(const Values& got, const Values& want, double tolerance = 2e-5) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance) << "element " << i;
}

}  // namespace nabla

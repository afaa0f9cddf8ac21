// Conversions to floats whose result two roundings would miss: values at, just above and just below the middle of two
// neighbours, in every dtype that has more bits; and what one rounding gives, by comparing distances.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "ir/module.h"
#include "runtime/base/literal.h"

namespace nabla::conformance {

struct Conversion {
  DType from, to;
};
/// From every number to every float.
std::vector<Conversion> float_conversions();

/// Of the values of `from` those next to a middle of two neighbours in `to`, those neighbours, the ends and what is no
/// number.
Literal values_near_ties(Conversion c);
/// x rounded to nearest even.
Literal rounded_once(const Literal& x, DType to);
/// What is wrong first: "f64 0x1.002p+0 to f16: ..."; empty where nothing is.
std::string rounding_difference(const Literal& x, const Literal& want, const Literal& got);

/// An entry "f64_f16" per conversion, of as many elements as `values_near_ties` has, or of one without dimensions.
ir::Module conversions_module(const std::vector<Conversion>& conversions, bool scalars);

}  // namespace nabla::conformance

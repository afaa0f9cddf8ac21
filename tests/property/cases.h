// Inputs for the generated tests: examples and draws of an op's record, in every dtype that it names.
#pragma once

#include <string>
#include <vector>

#include "ir/op_def.h"

namespace nabla::property {

struct Case {
  const ir::OpDef* op;
  std::string label;  ///< "example 1 as bf16", "draw 3"
  std::vector<ir::Operand> operands;
  ir::Attrs attrs;                ///< completed
  ir::Module module;              ///< flat: the functions that the attributes name
  std::vector<ir::Type> results;  ///< inferred
  uint64_t seed;                  ///< of its values

  std::vector<ir::Type> types() const;
  ir::TypedOp typed() const { return {*op, types(), attrs, results}; }
  /// One literal per operand; awkward values only where the operand admits them and `awkward` is set.
  std::vector<Literal> values(bool awkward) const;
  std::string str() const;  ///< label, types and attributes, for messages
};

/// Which dtypes to make cases in. kSome: all of them for the first example, f32 and another one for each further example.
enum class Precision : uint8_t { kAll, kSome, kF64Only };

/// Every example in these dtypes, then `draws` random ones. Reports a test failure where `infer` refuses one (in f64
/// only where the op's dtypes vary).
std::vector<Case> cases_of(const ir::OpDef& op, int draws, Precision precision);

/// One example's operands in random values.
Literal draw_literal(const ir::Operand& operand, ir::Rng& rng, bool awkward);
/// Whether an attribute names functions. Such an op is covered when its examples hold them; calls have their own tests.
bool takes_function(const ir::OpDef& op);
/// The part of a node that is all of it, to be made smaller. The node and its factors outlive it.
ir::Shard whole_shard(const ir::TypedOp& op, const ir::Factors& factors);
/// Is an operand a float of fewer than 32 bits?
bool is_narrow(const Case& c);
/// Copies element j of `from` to element i of `to` exactly.
void copy_element(Literal& to, int64_t i, const Literal& from, int64_t j);
/// The functions of an example, as a module; a test failure and an empty one when the text does not parse.
ir::Module module_of(const std::string& functions);
ir::FunctionLookup lookup_in(const ir::Module& module);
/// "[2,3] attrs" for messages.
std::string describe(const ir::Attrs& attrs);

}  // namespace nabla::property

// What a record says of its op for passes that have to tell ops apart: the rule by which ranks compute it, and its form.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "ir/attr.h"

namespace nabla::ir {

/// How ranks compute a node together if it is sharded along a dimension that its factors do not split. passes/shard/rules has the code of
/// each rule, and a text about it.
enum class RankRule : uint8_t {
  kNone,  ///< no rule: the operand is gathered
  kArgmax,
  kArgmin,
  kRunningSum,  ///< and the running product
  kRunningExtreme,
  kRunningArgmax,
  kRunningArgmin,
  kTopK,
  kSlice,
  kSection,
  kPad,
  kConcatenate,
  kReverse,
  kConvolution,
  kInputGrad,
  kFilterGrad,
  kPoolSum,
  kPoolMax,
  kPoolGrad,
  kAttention,
  kAttentionGrad,
  kEmbedding,
  kGather,
  kScatterAdd,
  kScatterInto,
  kDynamicSlice,
  kDynamicUpdate,
};

/// The ops that passes have to recognise because of what they do to elements. Passes know all other ops by their rules and traits.
enum class OpForm : uint8_t {
  kOther,
  kAdd,
  kConvert,
  kCopy,
  kIota,
  kReshape,
  kBroadcast,
  kSlice,
  kSection,
  kPad,
  kConcatenate,
  kCustomCall,
};

/// A node of index arithmetic: its operands are integer scalars, or booleans as 0 and 1.
struct SizeContext {
  const Attrs& attrs;
  std::vector<std::optional<Dim>> operands;      ///< nothing: the operand is not known as a size
  std::function<Dim(const Axes&)> coordinate;  ///< of this rank along mesh axes
};

}  // namespace nabla::ir

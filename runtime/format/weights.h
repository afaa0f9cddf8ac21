// Pretrained tensors into state: which tensor of a file goes to which leaf, and what a user is told about it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"
#include "runtime/format/file.h"

namespace nabla::format {

struct TensorType {
  std::string name;
  nabla::DType dtype = nabla::DType::kF32;
  std::vector<int64_t> shape;
  std::optional<Diagnostic> problem = std::nullopt;  ///< of a tensor that cannot be taken; it may be in a file unused
  int64_t bytes() const { return nabla::count_of(shape) * nabla::bytes_of(dtype); }
  std::string str() const;  ///< "f32[2,3]", or "cannot be read"
};

/// The tensors of a .safetensors or .npz file, found but not read: bytes come from the file's map. Members of an
/// .npz that are compressed or in Fortran order are unpacked when the file is opened.
class WeightFile {
 public:
  /// E0105 when the path ends in neither; otherwise the errors of view_safetensors and each_of_npz.
  static Result<WeightFile> open(const std::string& path);
  const std::string& path() const { return path_; }
  const std::vector<TensorType>& tensors() const { return tensors_; }
  /// The elements of a tensor, row-major, at any alignment.
  const uint8_t* data(int tensor) const { return data_[static_cast<size_t>(tensor)]; }

 private:
  std::string path_;
  std::shared_ptr<const FileBytes> file_;
  std::vector<TensorType> tensors_;
  std::vector<const uint8_t*> data_;
  std::vector<Literal> unpacked_;
};

/// A row of the mapping: tensors whose name matches `pattern` go to the leaf `target`. Each `*` of the pattern stands
/// for at least one character, as few as fit, and fills the `*` of the target in the same place.
struct WeightRule {
  std::string pattern, target;
  bool transpose = false;  ///< the two dimensions of a matrix change places
  bool reshape = false;    ///< the elements stay in their order
  std::string text;        ///< as the user wrote it
};
/// "PATTERN=TARGET", "PATTERN=TARGET:transpose" or ":reshape". E0901 otherwise.
Result<WeightRule> parse_weight_rule(const std::string& text);

/// What goes where. Indices are into the leaves and the tensors.
struct WeightPlan {
  struct Load {
    int leaf, tensor;
    bool transpose = false;
  };
  std::vector<Load> loads;       ///< by leaf
  std::vector<Load> misfits;     ///< shapes or dtypes that cannot be made to fit
  std::vector<int> left_leaves;  ///< no tensor for them
  std::vector<int> unused;       ///< tensors
};
/// Of the rules that match a tensor the last one counts; without one a tensor goes to the leaf of its name, unless a
/// rule sends another one there. E0704 where a leaf asks for a tensor that cannot be taken, E0706 where a rule matches
/// nothing or names no leaf, or two tensors meet at one leaf.
Result<WeightPlan> plan_weights(const std::vector<TensorType>& leaves, const std::vector<TensorType>& tensors,
                                const std::vector<WeightRule>& rules, const std::string& what);

/// E0706 that lists, at most 20 of each, tensors of other shapes, and leaves that would have no value. `has_value`: per
/// leaf. With `partial` these may stay without.
Status check_weights(const WeightPlan& plan, const std::vector<TensorType>& leaves,
                     const std::vector<TensorType>& tensors, const std::vector<bool>& has_value, bool partial,
                     const std::string& what);

/// What was done, in lines: how many leaves were loaded, conversions, leaves that keep their value, tensors not used.
/// `lost` counts finite numbers of each load that became infinite.
std::string weights_report(const WeightPlan& plan, const std::vector<TensorType>& leaves, const WeightFile& file,
                           const std::vector<int64_t>& lost);

/// May numbers of one be stored as the other? Floats as floats, integers as integers or floats, bool as bool.
bool can_convert(nabla::DType from, nabla::DType to);
/// Does `to` hold fewer numbers than `from`?
bool narrows(nabla::DType from, nabla::DType to);
/// E0706 naming the first integer that the leaf's dtype cannot hold.
Status check_range(const WeightFile& file, const WeightPlan::Load& load, const TensorType& leaf);
/// Writes the leaf's bytes. Returns how many finite numbers became infinite.
int64_t convert_weights(const WeightFile& file, const WeightPlan::Load& load, const TensorType& leaf, void* to);

}  // namespace nabla::format

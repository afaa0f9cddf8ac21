// The part of Session that copies state in and out.
#include <algorithm>
#include <map>

#include "runtime/exec/parts.h"
#include "runtime/base/option_name.h"
#include "runtime/exec/session_impl.h"
#include "runtime/format/safetensors.h"
#include "runtime/format/weights.h"

namespace nabla::exec {
namespace {

size_t leaf_bytes(const TensorInfo& leaf) {
  return static_cast<size_t>(count_of(leaf.shape)) * nabla::bytes_of(leaf.dtype);
}

}  // namespace

Status Session::get_state(int leaf, void* to) const {
  if (!has_value_[leaf]) return error(Code::kStateMissing, "state `{}` has no value yet", leaves_[leaf].name);
  if (impl_->team) return impl_->team->get_leaf(leaf, to);
  return impl_->alone->engine().download(to, impl_->alone->leaf_data(leaf), leaf_bytes(leaves_[leaf]));
}

StatePiece whole_piece(int index, const TensorInfo& leaf) {
  return {index, 0, std::vector<int64_t>(leaf.shape.size(), 0), leaf.shape, leaf_bytes(leaf)};
}

Status Session::get_piece(const StatePiece& piece, void* to) const {
  if (impl_->team) return impl_->team->get_piece(piece, to);
  return impl_->alone->engine().download(to, impl_->alone->leaf_data(piece.leaf), piece.bytes);
}

Status Session::set_state(int leaf, const void* from) {
  StatePiece whole = whole_piece(leaf, leaves_[leaf]);
  StateView view{leaf, std::move(whole.begin), std::move(whole.extent), from};
  return set_leaf(leaf, {&view, 1});
}

Status Session::set_leaf(int leaf, std::span<const StateView> pieces) {
  StatePiece whole = whole_piece(leaf, leaves_[leaf]);
  (void)NABLA_TRY(impl_->team ? impl_->team->set_leaf(leaf, pieces)
                              : fill_leaf(*impl_->alone, leaf, {whole.begin, whole.extent}, pieces));
  has_value_[leaf] = 1;
  return Ok{};
}

Status Session::set_pieces(std::span<const StateView> pieces) {
  std::vector<std::vector<StateView>> by_leaf(leaves_.size());
  for (const StateView& piece : pieces) by_leaf[static_cast<size_t>(piece.leaf)].push_back(piece);
  for (size_t i = 0; i < leaves_.size(); ++i) (void)NABLA_TRY(set_leaf(static_cast<int>(i), by_leaf[i]));
  return Ok{};
}

namespace {

Diagnostic no_state(const std::string& path, const OptionName& option) {
  Diagnostic d = error(Code::kStateMismatch, "{}: the program has no state that it could go to", path);
  d.help = fmt::format("run the program without {}", option);
  return d;
}

// Of a file that save_state has not written for this program.
Diagnostic saved_by_another(Diagnostic d) {
  d.help = "pass a file saved by this program; `nablac inspect` lists its state";
  return d;
}

}  // namespace

Status Session::load_state(const std::string& path, format::Metadata* metadata) {
  if (leaves_.empty()) return no_state(path, {"state"});
  std::shared_ptr<const format::FileBytes> file = NABLA_TRY(format::FileBytes::map(path));
  // What a rank does not need is not read.
  std::vector<format::ArrayView> arrays = NABLA_TRY(format::view_safetensors(file->bytes(), path));
  if (metadata != nullptr) *metadata = NABLA_TRY(format::safetensors_metadata(file->bytes(), path));
  std::map<std::string, const format::ArrayView*> by_name;
  for (const format::ArrayView& array : arrays) {
    if (array.problem) return *array.problem;
    by_name[array.name] = &array;
  }
  std::vector<std::string> known;
  for (const TensorInfo& leaf : leaves_) {
    known.push_back(leaf.name);
    auto found = by_name.find(leaf.name);
    if (found == by_name.end())
      return saved_by_another(
          error(Code::kStateMismatch, "{}: state `{}` ({}) is not in the file", path, leaf.name, leaf.type_str()));
    TensorInfo got{leaf.name, found->second->dtype, found->second->shape, {}};
    if (got.dtype != leaf.dtype || got.shape != leaf.shape)
      return saved_by_another(error(Code::kStateMismatch, "{}: state `{}` is {}; the file has {}", path, leaf.name,
                                    leaf.type_str(), got.type_str()));
  }
  for (const format::ArrayView& array : arrays)
    if (std::find(known.begin(), known.end(), array.name) == known.end())
      return saved_by_another(error(Code::kStateMismatch, "{}: the program has no state `{}`{}", path, array.name,
                                    did_you_mean(array.name, known)));
  for (size_t i = 0; i < leaves_.size(); ++i)
    (void)NABLA_TRY(set_state(static_cast<int>(i), by_name[leaves_[i].name]->data));
  return Ok{};
}

Result<std::string> Session::load_weights(const WeightOptions& options) {
  if (leaves_.empty()) return no_state(options.path, {"weights"});
  std::vector<format::WeightRule> rules;
  for (const std::string& text : options.maps) rules.push_back(NABLA_TRY(format::parse_weight_rule(text)));
  format::WeightFile file = NABLA_TRY(format::WeightFile::open(options.path));
  std::vector<format::TensorType> leaves;
  for (const TensorInfo& leaf : leaves_) leaves.push_back({leaf.name, leaf.dtype, leaf.shape});
  format::WeightPlan plan = NABLA_TRY(format::plan_weights(leaves, file.tensors(), rules, options.path));
  std::vector<bool> valued(has_value_.begin(), has_value_.end());
  NABLA_TRY(format::check_weights(plan, leaves, file.tensors(), valued, options.partial, options.path));
  for (const format::WeightPlan::Load& load : plan.loads)
    NABLA_TRY(format::check_range(file, load, leaves[static_cast<size_t>(load.leaf)]));
  bool missing = std::any_of(plan.left_leaves.begin(), plan.left_leaves.end(), [&](int i) { return !has_value_[i]; });
  if (missing && options.init) NABLA_TRY(options.init());
  std::vector<int64_t> lost;
  for (const format::WeightPlan::Load& load : plan.loads) {
    const format::TensorType& leaf = leaves[static_cast<size_t>(load.leaf)];
    if (impl_->alone && impl_->alone->engine().host_memory()) {
      lost.push_back(format::convert_weights(file, load, leaf, impl_->alone->leaf_data(load.leaf)));
      has_value_[load.leaf] = 1;
      continue;
    }
    Literal value(leaves_[load.leaf].dtype, leaves_[load.leaf].shape);
    lost.push_back(format::convert_weights(file, load, leaf, value.mutable_data()));
    (void)NABLA_TRY(set_state(load.leaf, value.data()));
  }
  return format::weights_report(plan, leaves, file, lost);
}

Status Session::save_state(const std::string& path, const format::Metadata& metadata) const {
  format::NamedArrays arrays;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    if (!first()) {
      (void)NABLA_TRY(get_state(static_cast<int>(i), nullptr));
      continue;
    }
    Literal value(leaves_[i].dtype, leaves_[i].shape);
    (void)NABLA_TRY(get_state(static_cast<int>(i), value.mutable_data()));
    arrays.emplace_back(leaves_[i].name, std::move(value));
  }
  return first() ? format::write_safetensors(path, arrays, metadata) : Ok{};
}

}  // namespace nabla::exec

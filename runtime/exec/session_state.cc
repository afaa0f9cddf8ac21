// The part of Session that copies state in and out.
#include <algorithm>
#include <cstring>
#include <map>

#include "runtime/exec/session_impl.h"
#include "runtime/format/safetensors.h"

namespace nabla::exec {
namespace {

size_t bytes_of(const TensorInfo& leaf) {
  return static_cast<size_t>(count_of(leaf.shape)) * nabla::bytes_of(leaf.dtype);
}

}  // namespace

Status Session::get_state(int leaf, void* to) const {
  if (!has_value_[leaf]) return error(Code::kStateMissing, "state `{}` has no value yet", leaves_[leaf].name);
  std::memcpy(to, impl_->leaf_data(leaf), bytes_of(leaves_[leaf]));
  return Ok{};
}

void Session::set_state(int leaf, const void* from) {
  std::memcpy(impl_->leaf_data(leaf), from, bytes_of(leaves_[leaf]));
  has_value_[leaf] = 1;
}

Status Session::load_state(const std::string& path) {
  format::NamedArrays arrays = NABLA_TRY(format::read_safetensors(path));
  std::map<std::string, const Literal*> by_name;
  for (const auto& [name, array] : arrays) by_name[name] = &array;
  std::vector<std::string> known;
  for (const TensorInfo& leaf : leaves_) {
    known.push_back(leaf.name);
    auto found = by_name.find(leaf.name);
    if (found == by_name.end())
      return error(Code::kStateMismatch, "{}: state `{}` ({}) is not in the file", path, leaf.name, leaf.type_str());
    TensorInfo got{leaf.name, found->second->dtype(), found->second->shape(), {}};
    if (got.dtype != leaf.dtype || got.shape != leaf.shape)
      return error(Code::kStateMismatch, "{}: state `{}` is {}; the file has {}", path, leaf.name, leaf.type_str(),
                   got.type_str());
  }
  for (const auto& [name, array] : arrays)
    if (std::find(known.begin(), known.end(), name) == known.end())
      return error(Code::kStateMismatch, "{}: the program has no state `{}`{}", path, name, did_you_mean(name, known));
  for (size_t i = 0; i < leaves_.size(); ++i) set_state(static_cast<int>(i), by_name[leaves_[i].name]->data());
  return Ok{};
}

Status Session::save_state(const std::string& path) const {
  format::NamedArrays arrays;
  for (size_t i = 0; i < leaves_.size(); ++i) {
    Literal value(leaves_[i].dtype, leaves_[i].shape);
    (void)NABLA_TRY(get_state(static_cast<int>(i), value.mutable_data()));
    arrays.emplace_back(leaves_[i].name, std::move(value));
  }
  return format::write_safetensors(path, arrays);
}

}  // namespace nabla::exec

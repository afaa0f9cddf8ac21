#include "cli/nabla_run/data.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <numeric>
#include <utility>

#include "runtime/base/option_error.h"
#include "runtime/format/safetensors.h"

namespace nabla::cli {
namespace {

using exec::EntryInfo;
using exec::TensorInfo;

bool ends_with(const std::string& text, std::string_view end) { return text.ends_with(end); }

Result<format::ArrayResults> read_archive(const std::string& path) {
  bool npz = ends_with(path, ".npz");
  if (!npz && !ends_with(path, ".safetensors"))
    return option_error("arrays by name are in files of these kinds", "`{}` does not end in .npz or .safetensors", path);
  std::shared_ptr<const format::FileBytes> file = NABLA_TRY(format::FileBytes::map(path));
  return npz ? format::each_of_npz(file->bytes(), path) : format::each_of_safetensors(file->bytes(), path);
}

std::vector<std::string> array_names(const format::ArrayResults& arrays) {
  std::vector<std::string> out;
  for (const auto& [name, array] : arrays) out.push_back(name);
  return out;
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += fmt::format("{}`{}`", out.empty() ? "" : ", ", name);
  return out.empty() ? "none" : out;
}

Result<Literal> pick(const format::ArrayResults& arrays, const std::string& name, const std::string& path) {
  for (const auto& [key, array] : arrays)
    if (key == name) return array;
  std::vector<std::string> names = array_names(arrays);
  return error(Code::kUnknownInput, "{} has no array `{}`; its arrays are {}{}", path, name, listed(names),
               did_you_mean(name, names));
}

/// "file.npz:images" gives the file and the array's name, which is empty when none is stated.
std::pair<std::string, std::string> split_array(const std::string& value) {
  for (std::string_view ending : {".npz:", ".safetensors:"}) {
    size_t at = value.rfind(ending);
    if (at != value.npos) return {value.substr(0, at + ending.size() - 1), value.substr(at + ending.size())};
  }
  return {value, ""};
}

Result<Literal> read_file(const std::string& value, const std::string& name, ArrayFiles& files) {
  auto [path, array] = split_array(value);
  if (ends_with(path, ".npy")) return files.npy(path);
  const format::ArrayResults* arrays = NABLA_TRY(files.archive(path));
  if (array.empty() && arrays->size() == 1) return arrays->front().second;
  return pick(*arrays, array.empty() ? name : array, path);
}

/// A scalar's value when the whole text is a number that the dtype holds.
Result<Literal> read_number(const std::string& text, const TensorInfo& input) {
  const char* end = text.data() + text.size();
  auto unusable = [&] {
    return error(Code::kInputDType, "input `{}` is {}; `{}` is not such a number", input.name, input.type_str(), text);
  };
  if (is_float(input.dtype)) {
    double value = 0;
    auto [stop, problem] = std::from_chars(text.data(), end, value);
    if (problem != std::errc() || stop != end) return unusable();
    return Literal::scalar(input.dtype, value);
  }
  int64_t value = 0;
  auto [stop, problem] = std::from_chars(text.data(), end, value);
  if (problem != std::errc() || stop != end) return unusable();
  Literal out = Literal::scalar_int(input.dtype, value);
  if (out.get_i(0) != value) return unusable();
  return out;
}

/// Converts what loses nothing and is common in data files; anything else is the user's decision.
Result<Literal> fit_dtype(const Literal& value, const TensorInfo& input, const std::string& what,
                          std::vector<std::string>& notes) {
  DType from = value.dtype(), to = input.dtype;
  if (from == to) return value;
  bool widening = from == DType::kU8 && to == DType::kF32;
  bool integer = (from == DType::kI32 || from == DType::kI64) && (to == DType::kI32 || to == DType::kI64);
  if (!widening && !integer)
    return error(Code::kInputDType, "input `{}` is {}; {} holds {}", input.name, input.type_str(), what, name_of(from));
  Literal out = value.converted(to);
  if (integer)
    for (int64_t i = 0; i < out.size(); ++i)
      if (out.get_i(i) != value.get_i(i))
        return error(Code::kInputDType, "input `{}` is {}; {} holds {}, which does not fit", input.name,
                     input.type_str(), what, value.get_i(i));
  notes.push_back(
      fmt::format("{} is converted from {} to {} for input `{}`", what, name_of(from), name_of(to), input.name));
  return out;
}

/// From dimension `first` on, the shape is the input's wherever that is static.
bool fits(const std::vector<int64_t>& shape, const TensorInfo& input, size_t first) {
  if (shape.size() != input.shape.size()) return false;
  for (size_t d = first; d < shape.size(); ++d)
    if (shape[d] != input.shape[d] && (input.is_static() || input.sizes[d].empty())) return false;
  return true;
}

}  // namespace

Result<const format::ArrayResults*> ArrayFiles::archive(const std::string& path) {
  auto it = files_.find(path);
  if (it == files_.end()) {
    format::ArrayResults arrays = NABLA_TRY(read_archive(path));
    it = files_.emplace(path, std::move(arrays)).first;
  }
  return &it->second;
}

Result<Literal> ArrayFiles::npy(const std::string& path) {
  auto it = files_.find(path);
  if (it == files_.end()) {
    Literal array = NABLA_TRY(format::read_npy(path));
    it = files_.emplace(path, format::ArrayResults{{"", std::move(array)}}).first;
  }
  return it->second.front().second;
}

std::string file_of(const Assignment& input) {
  const std::string& value = input.value;
  bool file = ends_with(value, ".npy") || value.find(".npz") != value.npos || value.find(".safetensors") != value.npos;
  return file ? split_array(value).first : "";
}

Status check_output_name(const Assignment& output) {
  if (ends_with(output.value, ".npy") || ends_with(output.value, ".safetensors")) return Ok{};
  return option_error(fmt::format("such as --output {}={}.npy", output.name, output.name),
                      "--output {}={}: the file name must end in .npy or .safetensors", output.name, output.value);
}

Result<Literal> read_input(const Assignment& assignment, const TensorInfo& input, ArrayFiles& files) {
  const std::string& value = assignment.value;
  bool file = !file_of(assignment).empty();
  if (size_t at = value.rfind(".npy:"); !file && at != value.npos)
    return option_error(fmt::format("without it: --input {}={}", assignment.name, value.substr(0, at + 4)),
                        "--input {}={}: `{}` names no array: a .npy file holds one, without a name", assignment.name, value,
                        value.substr(at + 4));
  if (!file && input.shape.empty()) return read_number(value, input);
  if (!file)
    return option_error(fmt::format("such as --input {}={}.npy", assignment.name, assignment.name),
                        "--input {}={}: a file name ends in .npy, .npz or .safetensors", assignment.name, value);
  Literal array = NABLA_TRY(read_file(value, assignment.name, files));
  TensorInfo got{input.name, array.dtype(), array.shape(), {}};
  if (!fits(got.shape, input, 0))
    return error(Code::kInputShape, "input `{}` is {}; {} holds {}", input.name, input.type_str(), value,
                 got.type_str());
  if (got.dtype != input.dtype)
    return error(Code::kInputDType, "input `{}` is {}; {} holds {}", input.name, input.type_str(), value,
                 got.type_str());
  return array;
}

Status write_output(const std::string& path, const std::string& name, const Literal& value) {
  if (ends_with(path, ".npy")) return format::write_npy(path, value);
  return format::write_safetensors(path, {{name, value}});
}

Result<Dataset> Dataset::load(const JobOptions& job, const EntryInfo& entry, const std::vector<bool>& taken,
                              ArrayFiles& files, std::vector<std::string>& notes) {
  const std::string& path = job.data;
  const std::vector<Assignment>& maps = job.maps;
  const format::ArrayResults& arrays = *NABLA_TRY(files.archive(path));
  std::vector<std::string> input_names;
  for (const TensorInfo& input : entry.inputs) input_names.push_back(input.name);
  for (const Assignment& map : maps)
    if (std::find(input_names.begin(), input_names.end(), map.name) == input_names.end())
      return error(Code::kUnknownInput, "--map: entry `{}` has no input `{}`; its inputs are {}{}", entry.name,
                   map.name, listed(input_names), did_you_mean(map.name, input_names));
  Dataset data;
  for (size_t i = 0; i < entry.inputs.size(); ++i) {
    const std::string& name = entry.inputs[i].name;
    std::string array = name;
    bool mapped = false;
    for (const Assignment& map : maps)
      if (map.name == name) array = map.value, mapped = true;
    if (taken[i]) {
      if (mapped) return option_error("leave one out", "input `{}` has both --input and --map", name);
      continue;
    }
    std::vector<std::string> names = array_names(arrays);
    if (!mapped && std::find(names.begin(), names.end(), array) == names.end()) continue;
    Literal value = NABLA_TRY(pick(arrays, array, path));
    std::string what = fmt::format("array `{}` of {}", array, path);
    (void)NABLA_TRY(data.add(static_cast<int>(i), what, value, entry, job.batch, notes));
  }
  if (data.inputs_.empty())
    return error(Code::kUnknownInput, "no array of {} feeds an input of entry `{}`: the arrays are {}, the inputs {}",
                 path, entry.name, listed(array_names(arrays)), listed(input_names));
  return data;
}

Status Dataset::add(int input, const std::string& what, const Literal& value, const EntryInfo& entry,
                    std::optional<int64_t> wanted, std::vector<std::string>& notes) {
  const TensorInfo& want = entry.inputs[input];
  if (want.shape.empty() || value.rank() == 0)
    return error(Code::kInputShape, "input `{}` is {}; {} cannot be cut into batches for it", want.name,
                 want.type_str(), what);
  if (!fits(value.shape(), want, 1))
    return error(Code::kInputShape, "input `{}` is {}; {} has samples of another shape: {}", want.name, want.type_str(),
                 what, shape_str(value.shape()));
  if (!inputs_.empty() && value.shape()[0] != samples_)
    return error(Code::kInputShape, "{} has {} samples, `{}` has {}", what, value.shape()[0],
                 entry.inputs[inputs_[0]].name, samples_);
  bool open = !want.is_static() && !want.sizes[0].empty();
  if (wanted && (open ? *wanted > want.shape[0] : *wanted != want.shape[0]))
    return option_error("leave --batch out, or compile the program for other batches",
                        "--batch {}: input `{}` is {}, which takes {}{} samples a run", *wanted, want.name, want.type_str(),
                        open ? "at most " : "", want.shape[0]);
  int64_t batch = open ? std::min(wanted.value_or(want.shape[0]), value.shape()[0]) : want.shape[0];
  if (!inputs_.empty() && batch != batch_)
    return error(Code::kInputShape, "inputs `{}` and `{}` have different batch sizes, {} and {}",
                 entry.inputs[inputs_[0]].name, want.name, batch_, batch);
  samples_ = value.shape()[0];
  batch_ = batch;
  open_ = open;
  if (samples_ == 0 || batch_ == 0) return error(Code::kInputShape, "{} or its input `{}` is empty", what, want.name);
  arrays_.push_back(NABLA_TRY(fit_dtype(value, want, what, notes)));
  inputs_.push_back(input);
  return Ok{};
}

uint64_t next_random(uint64_t& state) {
  state += 0x9E3779B97F4A7C15u;
  uint64_t z = state;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

Order::Order(int64_t samples, uint64_t seed, int64_t epoch) : samples_(samples) {
  uint64_t state = seed;
  state = next_random(state) + static_cast<uint64_t>(epoch);
  if (samples > kMostTable) {
    half_ = (static_cast<int>(std::bit_width(static_cast<uint64_t>(samples - 1))) + 1) / 2;
    for (uint64_t& key : keys_) key = next_random(state);
    return;
  }
  table_.resize(static_cast<size_t>(samples));
  std::iota(table_.begin(), table_.end(), uint16_t{0});
  for (int64_t i = samples - 1; i > 0; --i) {
    auto range = static_cast<unsigned __int128>(i + 1);
    auto j = static_cast<int64_t>(range * next_random(state) >> 64);
    std::swap(table_[static_cast<size_t>(i)], table_[static_cast<size_t>(j)]);
  }
}

// A Feistel network permutes the numbers of 2 * half_ bits, of which at most three in four are no samples: it is applied again until
// the number is one, which permutes the samples.
int64_t Order::operator[](int64_t place) const {
  if (!table_.empty()) return table_[static_cast<size_t>(place)];
  auto at = static_cast<uint64_t>(place);
  const uint64_t mask = (uint64_t{1} << half_) - 1;
  do {
    uint64_t left = at >> half_, right = at & mask;
    for (int r = 0; half_ > 0 && r < kRounds; ++r) {
      uint64_t state = keys_[r] + right;
      left = std::exchange(right, left ^ (next_random(state) & mask));
    }
    at = left << half_ | right;
  } while (at >= static_cast<uint64_t>(samples_));
  return static_cast<int64_t>(at);
}

std::vector<int64_t> Dataset::batch_shape(size_t i, int64_t rows) const {
  std::vector<int64_t> shape = arrays_[i].shape();
  shape[0] = rows;
  return shape;
}

void Dataset::fill(const Order& order, int64_t begin, const std::vector<std::pair<int64_t, int64_t>>& rows,
                      std::vector<Literal>& arrays) const {
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const Literal& source = arrays_[i];
    int64_t bytes = source.size_bytes() / samples_;
    auto* to = static_cast<char*>(arrays[inputs_[i]].mutable_data());
    const auto* from = static_cast<const char*>(source.data());
    for (int64_t b = rows[i].first; b < std::min(rows[i].second, batch_); ++b)
      std::memcpy(to + (b - rows[i].first) * bytes, from + order[(begin + b) % samples_] * bytes, static_cast<size_t>(bytes));
  }
}

}  // namespace nabla::cli

// The C API over exec::Session. No C++ exception leaves it: the runtime throws none, and running out of memory in the
// standard library ends the process with a message.
#include "runtime/nabla_run.h"

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "runtime/nabla_run_internal.h"

namespace {

using nabla::Code;
using nabla::DType;
using nabla::error;
using nabla::Status;
using nabla::exec::EntryInfo;
using nabla::exec::TensorInfo;

using nabla::api::failed;

nabla_status* done(const Status& status) { return status.ok() ? nullptr : failed(status.errors()); }

nabla_dtype to_dlpack(DType dtype) {
  auto bits = static_cast<uint8_t>(nabla::bytes_of(dtype) * 8);
  switch (dtype) {
    case DType::kBool:
      return {6, 8, 1};
    case DType::kBF16:
      return {4, 16, 1};
    case DType::kF8E4M3:
      return {10, 8, 1};
    case DType::kF8E5M2:
      return {12, 8, 1};
    default:
      break;
  }
  uint8_t code = nabla::is_float(dtype) ? 2 : nabla::is_unsigned(dtype) ? 1 : 0;
  return {code, bits, 1};
}

std::string dlpack_str(nabla_dtype d) {
  for (int i = 0; i < nabla::kDTypeCount; ++i) {
    nabla_dtype known = to_dlpack(static_cast<DType>(i));
    if (known.code == d.code && known.bits == d.bits && d.lanes == 1)
      return std::string(nabla::name_of(static_cast<DType>(i)));
  }
  return fmt::format("(code {}, {} bits, {} lanes)", d.code, d.bits, d.lanes);
}

nabla_tensor_info info_of(const TensorInfo& tensor) {
  return {tensor.name.c_str(), to_dlpack(tensor.dtype), static_cast<int32_t>(tensor.shape.size()), tensor.shape.data()};
}

/// The tensor at `index`, or one with a null name.
nabla_tensor_info info_at(const std::vector<TensorInfo>& tensors, int32_t index) {
  if (index < 0 || static_cast<size_t>(index) >= tensors.size()) return {nullptr, {0, 0, 0}, 0, nullptr};
  return info_of(tensors[index]);
}

const char* size_of(const std::vector<TensorInfo>& tensors, int32_t index, int32_t dimension) {
  if (index < 0 || static_cast<size_t>(index) >= tensors.size()) return nullptr;
  const TensorInfo& t = tensors[index];
  if (dimension < 0 || static_cast<size_t>(dimension) >= t.shape.size()) return nullptr;
  return t.is_static() ? "" : t.sizes[dimension].c_str();
}

const EntryInfo* entry_at(const nabla_session* session, int32_t entry) {
  const auto& entries = session->session->entries();
  return entry < 0 || static_cast<size_t>(entry) >= entries.size() ? nullptr : &entries[entry];
}

/// True when `strides` walk the array row by row without gaps.
bool row_major(const nabla_tensor& t) {
  if (t.strides == nullptr) return true;
  int64_t expected = 1;
  for (int d = t.ndim - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.shape[d];
  }
  return true;
}

/// Checks a caller's array against what the program wants. `what` is as "input `x` of entry `step`".
/// Symbolic extents are checked later: those of inputs by the session, those of outputs against the solved ones.
template <class What>
Status check_tensor(const nabla_tensor& t, const TensorInfo& want, const What& what) {
  nabla_dtype dtype = to_dlpack(want.dtype);
  bool same_shape = t.ndim == static_cast<int32_t>(want.shape.size()) && (t.ndim == 0 || t.shape != nullptr);
  for (int d = 0; same_shape && d < t.ndim; ++d)
    same_shape = t.shape[d] == want.shape[d] || (!want.is_static() && !want.sizes[d].empty() && t.shape[d] >= 0);
  if (!same_shape) {
    std::vector<int64_t> shape;
    if (t.ndim > 0 && t.ndim <= 64 && t.shape != nullptr) shape.assign(t.shape, t.shape + t.ndim);
    return error(Code::kInputShape, "{} is {}; an array of shape {} was given", what(), want.type_str(),
                 nabla::shape_str(shape));
  }
  if (t.dtype.code != dtype.code || t.dtype.bits != dtype.bits || t.dtype.lanes != 1)
    return error(Code::kInputDType, "{} is {}; an array of {} was given", what(), want.type_str(), dlpack_str(t.dtype));
  if (t.device_type != 1) return error(Code::kMisuse, "{}: device type {}, not 1 (CPU)", what(), t.device_type);
  if (!row_major(t)) return error(Code::kMisuse, "{}: the array is not row-major and contiguous", what());
  auto address = reinterpret_cast<uintptr_t>(t.data) + t.byte_offset;
  if (t.data == nullptr && nabla::count_of({t.shape, static_cast<size_t>(t.ndim)}) > 0)
    return error(Code::kInputMissing, "{}: the array's data pointer is NULL", what());
  if (address % static_cast<uintptr_t>(nabla::bytes_of(want.dtype)) != 0)
    return error(Code::kMisuse, "{}: the array is not aligned to its elements", what());
  return nabla::Ok{};
}

void* data_of(const nabla_tensor& t) { return static_cast<char*>(t.data) + t.byte_offset; }

Status check_leaf(const nabla_session* session, int32_t leaf, const nabla_tensor* tensor) {
  const auto& leaves = session->session->state_leaves();
  if (leaf < 0 || static_cast<size_t>(leaf) >= leaves.size())
    return error(Code::kMisuse, "state leaf {} of {}", leaf, leaves.size());
  if (tensor == nullptr) return error(Code::kMisuse, "state `{}`: no array was given", leaves[leaf].name);
  return check_tensor(*tensor, leaves[leaf], [&] { return fmt::format("state `{}`", leaves[leaf].name); });
}

Status run_entry(nabla_session* s, int32_t index, const nabla_tensor* inputs, int32_t input_count,
                 const nabla_tensor* outputs, int32_t output_count) {
  const EntryInfo* entry = entry_at(s, index);
  if (entry == nullptr) return error(Code::kUnknownEntry, "entry {} of {}", index, s->session->entries().size());
  if (input_count != static_cast<int32_t>(entry->inputs.size()) ||
      output_count != static_cast<int32_t>(entry->outputs.size()))
    return error(Code::kInputMissing, "entry `{}` takes {} inputs and {} outputs; {} and {} were given", entry->name,
                 entry->inputs.size(), entry->outputs.size(), input_count, output_count);
  if ((input_count > 0 && inputs == nullptr) || (output_count > 0 && outputs == nullptr))
    return error(Code::kMisuse, "entry `{}`: {} is NULL", entry->name, inputs == nullptr && input_count > 0 ? "inputs" : "outputs");
  s->inputs.clear();
  s->outputs.clear();
  s->shapes.clear();
  for (int32_t i = 0; i < input_count; ++i) {
    auto what = [&] { return fmt::format("input `{}` of entry `{}`", entry->inputs[i].name, entry->name); };
    Status status = check_tensor(inputs[i], entry->inputs[i], what);
    if (!status.ok()) return status;
    s->inputs.push_back(data_of(inputs[i]));
    s->shapes.push_back(inputs[i].shape);
  }
  if (!entry->symbols.empty())
    if (Status status = s->session->set_shapes(index, s->shapes); !status.ok()) return status;
  for (int32_t i = 0; i < output_count; ++i) {
    auto what = [&] { return fmt::format("output `{}` of entry `{}`", entry->outputs[i].name, entry->name); };
    Status status = check_tensor(outputs[i], entry->outputs[i], what);
    if (!status.ok()) return status;
    const std::vector<int64_t>& shape = s->session->output_shape(index, i);
    for (int d = 0; d < outputs[i].ndim; ++d)
      if (outputs[i].shape[d] < shape[d])
        return error(Code::kInputShape, "{} needs room for {}; dimension {} has {}", what(), nabla::shape_str(shape), d,
                     outputs[i].shape[d]);
    s->outputs.push_back(data_of(outputs[i]));
  }
  (void)NABLA_TRY(s->session->run(index, s->inputs, s->outputs));
  return s->ranks == 1 ? Status(nabla::Ok{}) : s->session->collect(index, s->outputs);
}

}  // namespace

namespace nabla::api {

nabla_status* failed(const Diagnostics& errors) { return new nabla_status{errors.front().code, to_string(errors)}; }

exec::SessionOptions settings_of(const nabla_options* options) {
  exec::SessionOptions settings;
  if (options == nullptr) return settings;
  settings.threads = options->threads;
  if (options->trace != nullptr) settings.trace = options->trace;
  if (options->target != nullptr) settings.target = options->target;
  settings.check_nan = options->check_nan != 0;
  if (options->rank_class != nullptr) settings.rank_class = options->rank_class;
  settings.sync_debug = options->sync_debug != 0;
  return settings;
}

}  // namespace nabla::api

extern "C" {

uint32_t nabla_run_version(void) { return NABLA_RUN_VERSION; }

int32_t nabla_status_code(const nabla_status* status) {
  return status == nullptr ? 0 : static_cast<int32_t>(status->code);
}
const char* nabla_status_message(const nabla_status* status) {
  return status == nullptr ? "" : status->message.c_str();
}
void nabla_status_free(nabla_status* status) { delete status; }

nabla_status* nabla_session_open(const char* path, const nabla_options* options, nabla_session** out) {
  if (path == nullptr || out == nullptr)
    return failed({error(Code::kMisuse, "nabla_session_open: path and out must not be NULL")});
  *out = nullptr;
  auto session = nabla::exec::Session::open(path, nabla::api::settings_of(options));
  if (!session.ok()) return failed(session.errors());
  *out = new nabla_session{std::move(session).value()};
  return nullptr;
}

void nabla_session_close(nabla_session* session) {
  if (session == nullptr) return;
  std::function<void()> end = std::move(session->end);
  delete session;
  if (end) end();
}

int32_t nabla_rank(const nabla_session* s) { return s->rank; }
int32_t nabla_rank_count(const nabla_session* s) { return s->ranks; }

int32_t nabla_entry_count(const nabla_session* s) { return static_cast<int32_t>(s->session->entries().size()); }
const char* nabla_entry_name(const nabla_session* s, int32_t entry) {
  const EntryInfo* e = entry_at(s, entry);
  return e == nullptr ? nullptr : e->name.c_str();
}
int32_t nabla_find_entry(const nabla_session* s, const char* name) {
  return name == nullptr ? -1 : s->session->find_entry(name);
}
int32_t nabla_input_count(const nabla_session* s, int32_t entry) {
  const EntryInfo* e = entry_at(s, entry);
  return e == nullptr ? 0 : static_cast<int32_t>(e->inputs.size());
}
int32_t nabla_output_count(const nabla_session* s, int32_t entry) {
  const EntryInfo* e = entry_at(s, entry);
  return e == nullptr ? 0 : static_cast<int32_t>(e->outputs.size());
}
nabla_tensor_info nabla_input_info(const nabla_session* s, int32_t entry, int32_t input) {
  const EntryInfo* e = entry_at(s, entry);
  return e == nullptr ? nabla_tensor_info{nullptr, {0, 0, 0}, 0, nullptr} : info_at(e->inputs, input);
}
nabla_tensor_info nabla_output_info(const nabla_session* s, int32_t entry, int32_t output) {
  const EntryInfo* e = entry_at(s, entry);
  return e == nullptr ? nabla_tensor_info{nullptr, {0, 0, 0}, 0, nullptr} : info_at(e->outputs, output);
}

const char* nabla_input_size(const nabla_session* s, int32_t entry, int32_t input, int32_t dimension) {
  const EntryInfo* e = entry_at(s, entry);
  return e == nullptr ? nullptr : size_of(e->inputs, input, dimension);
}
const char* nabla_output_size(const nabla_session* s, int32_t entry, int32_t output, int32_t dimension) {
  const EntryInfo* e = entry_at(s, entry);
  return e == nullptr ? nullptr : size_of(e->outputs, output, dimension);
}
const int64_t* nabla_output_shape(const nabla_session* s, int32_t entry, int32_t output) {
  const EntryInfo* e = entry_at(s, entry);
  if (e == nullptr || output < 0 || static_cast<size_t>(output) >= e->outputs.size()) return nullptr;
  return s->session->output_shape(entry, output).data();
}

int32_t nabla_state_count(const nabla_session* s) { return static_cast<int32_t>(s->session->state_leaves().size()); }
nabla_tensor_info nabla_state_info(const nabla_session* s, int32_t leaf) {
  return info_at(s->session->state_leaves(), leaf);
}
nabla_status* nabla_state_get(nabla_session* s, int32_t leaf, const nabla_tensor* to) {
  if (Status status = check_leaf(s, leaf, to); !status.ok()) return done(status);
  return done(s->session->get_state(leaf, data_of(*to)));
}
nabla_status* nabla_state_set(nabla_session* s, int32_t leaf, const nabla_tensor* from) {
  if (Status status = check_leaf(s, leaf, from); !status.ok()) return done(status);
  return done(s->session->set_state(leaf, data_of(*from)));
}
nabla_status* nabla_state_load(nabla_session* s, const char* path) {
  if (path == nullptr) return failed({error(Code::kMisuse, "nabla_state_load: path is NULL")});
  return done(s->session->load_state(path));
}
nabla_status* nabla_state_save(nabla_session* s, const char* path) {
  if (path == nullptr) return failed({error(Code::kMisuse, "nabla_state_save: path is NULL")});
  return done(s->session->save_state(path));
}

nabla_status* nabla_load_weights(nabla_session* s, const char* path, const nabla_weight_options* options,
                                 const char** report) {
  if (path == nullptr) return failed({error(Code::kMisuse, "nabla_load_weights: path is NULL")});
  nabla::exec::WeightOptions own{.path = path, .maps = {}};
  for (int32_t i = 0; options != nullptr && i < options->map_count; ++i) {
    if (options->maps == nullptr || options->maps[i] == nullptr)
      return failed({error(Code::kMisuse, "nabla_load_weights: row {} of maps is NULL", i)});
    own.maps.emplace_back(options->maps[i]);
  }
  own.partial = options != nullptr && options->partial != 0;
  nabla::Result<std::string> lines = s->session->load_weights(own);
  if (!lines.ok()) return failed(lines.errors());
  s->weights_report = std::move(*lines);
  if (report != nullptr) *report = s->weights_report.c_str();
  return nullptr;
}

nabla_status* nabla_run(nabla_session* session, int32_t entry, const nabla_tensor* inputs, int32_t input_count,
                        const nabla_tensor* outputs, int32_t output_count) {
  return done(run_entry(session, entry, inputs, input_count, outputs, output_count));
}

}  // extern "C"

#include "runtime/format/safetensors.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace nabla::format {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxHeader = 100'000'000;
constexpr size_t kMaxRank = 32;

struct Entry {
  std::string name;
  DType dtype;
  std::vector<int64_t> shape;
  uint64_t begin = 0;
  uint64_t end = 0;
  std::string foreign;  ///< a dtype that Nabla lacks
};

/// A non-negative integer below 2^62, or nothing.
std::optional<int64_t> natural(const Json& value) {
  if (!value.is_number_unsigned()) return std::nullopt;
  auto n = value.get<uint64_t>();
  return n < (uint64_t{1} << 62) ? std::optional<int64_t>(n) : std::nullopt;
}

Result<Entry> parse_entry(const std::string& name, const Json& value, uint64_t data_size, const std::string& what) {
  auto damaged = [&](std::string_view why) {
    return error(Code::kCorrupt, "{}: damaged safetensors entry `{}`: {}", what, name, why);
  };
  if (!value.is_object() || value.size() != 3 || !value.contains("dtype") || !value.contains("shape") ||
      !value.contains("data_offsets"))
    return damaged("it needs exactly dtype, shape and data_offsets");
  const Json& dtype = value["dtype"];
  const Json& shape = value["shape"];
  const Json& offsets = value["data_offsets"];
  if (!dtype.is_string() || !shape.is_array() || shape.size() > kMaxRank || !offsets.is_array() || offsets.size() != 2)
    return damaged("a field has the wrong type");
  Entry entry{.name = name};
  std::optional<DType> known = dtype_from_safetensors(dtype.get_ref<const std::string&>());
  if (!known) entry.foreign = dtype.get_ref<const std::string&>();
  entry.dtype = known.value_or(DType::kU8);
  unsigned __int128 bytes = known ? bytes_of(*known) : 0;
  bool empty = std::any_of(shape.begin(), shape.end(), [](const Json& d) { return d == 0; });
  for (const Json& extent : shape) {
    std::optional<int64_t> n = natural(extent);
    if (!n) return damaged("an extent is not a natural number");
    entry.shape.push_back(*n);
    if (!empty && (bytes *= static_cast<uint64_t>(*n)) > data_size)
      return damaged("its shape needs more bytes than there are");
  }
  if (empty) bytes = 0;
  std::optional<int64_t> begin = natural(offsets[0]);
  std::optional<int64_t> end = natural(offsets[1]);
  if (!begin || !end || *begin > *end || static_cast<uint64_t>(*end) > data_size)
    return damaged(fmt::format("its offsets lie outside the {} bytes of data", data_size));
  entry.begin = static_cast<uint64_t>(*begin);
  entry.end = static_cast<uint64_t>(*end);
  if (known && entry.end - entry.begin != bytes) return damaged("its offsets do not fit its dtype and shape");
  return entry;
}

/// The entries must tile the data: no overlap, no gap, nothing left over.
Status check_tiling(std::vector<Entry>& entries, uint64_t data_size, const std::string& what) {
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at)
      return error(Code::kCorrupt, "{}: damaged safetensors: `{}` starts at byte {}, not at {}", what, entry.name,
                   entry.begin, at);
    at = entry.end;
  }
  if (at != data_size)
    return error(Code::kCorrupt, "{}: damaged safetensors: {} bytes of data, but the header names {}", what, data_size,
                 at);
  return Ok{};
}

/// Parses the header and refuses a key that occurs twice, which the JSON library would drop silently.
Result<Json> parse_header(std::string_view text, const std::string& what) {
  std::vector<std::set<std::string>> keys;
  std::string twice;
  Json::parser_callback_t callback = [&](int, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.empty() && value.is_string() &&
        !keys.back().insert(value.get_ref<const std::string&>()).second)
      twice = value.get_ref<const std::string&>();
    return true;
  };
  Json header = Json::parse(text, callback, false);
  if (header.is_discarded() || !header.is_object())
    return error(Code::kCorrupt, "{}: damaged safetensors: the header is not a JSON object", what);
  if (!twice.empty()) return error(Code::kCorrupt, "{}: damaged safetensors: `{}` occurs twice", what, twice);
  return header;
}

struct Parts {
  Json header;
  Bytes data;
};

Result<Parts> split(Bytes bytes, const std::string& what) {
  if (bytes.size() < 8) return error(Code::kForeignFile, "{}: not a safetensors file ({} bytes)", what, bytes.size());
  uint64_t length;
  std::memcpy(&length, bytes.data(), 8);
  if (bytes.size() == 8 || bytes[8] != '{') return error(Code::kForeignFile, "{}: not a safetensors file", what);
  if (length > kMaxHeader)
    return error(Code::kTooLarge, "{}: a safetensors header of {} bytes; at most {}", what, length, kMaxHeader);
  if (length > bytes.size() - 8)
    return error(Code::kCorrupt, "{}: cut short: the header takes {} of {} bytes", what, length, bytes.size() - 8);
  Json header = NABLA_TRY(parse_header(as_text(bytes.subspan(8, length)), what));
  return Parts{std::move(header), bytes.subspan(8 + length)};
}

}  // namespace

Result<Metadata> safetensors_metadata(Bytes bytes, const std::string& what) {
  Parts parts = NABLA_TRY(split(bytes, what));
  Metadata out;
  auto found = parts.header.find("__metadata__");
  if (found == parts.header.end()) return out;
  if (!found->is_object()) return error(Code::kCorrupt, "{}: `__metadata__` is no map of texts", what);
  for (const auto& [key, value] : found->items()) {
    if (!value.is_string()) return error(Code::kCorrupt, "{}: `{}` of `__metadata__` is no text", what, key);
    out[key] = value.get<std::string>();
  }
  return out;
}

Result<std::vector<ArrayView>> view_safetensors(Bytes bytes, const std::string& what) {
  auto [header, data] = NABLA_TRY(split(bytes, what));
  std::vector<Entry> entries;
  for (const auto& [name, value] : header.items()) {
    if (name == "__metadata__") continue;
    entries.push_back(NABLA_TRY(parse_entry(name, value, data.size(), what)));
  }
  (void)NABLA_TRY(check_tiling(entries, data.size(), what));
  std::vector<ArrayView> out;
  for (Entry& entry : entries) {
    const uint8_t* at = data.data() + entry.begin;
    std::optional<Diagnostic> problem;
    if (entry.dtype == DType::kBool)
      problem = bad_bool(at, static_cast<int64_t>(entry.end - entry.begin), fmt::format("{}: `{}`", what, entry.name));
    if (!entry.foreign.empty())
      problem = error(Code::kInputDType, "{}: `{}` has element type `{}`, which is not supported", what, entry.name,
                      entry.foreign);
    out.push_back({std::move(entry.name), entry.dtype, std::move(entry.shape), at, std::move(problem)});
  }
  return out;
}

Result<ArrayResults> each_of_safetensors(Bytes bytes, const std::string& what) {
  std::vector<ArrayView> views = NABLA_TRY(view_safetensors(bytes, what));
  ArrayResults out;
  for (ArrayView& v : views)
    out.emplace_back(v.name, v.problem ? Result<Literal>(std::move(*v.problem))
                                       : Literal::from_bytes(v.dtype, std::move(v.shape), v.data));
  return out;
}

Result<NamedArrays> parse_safetensors(Bytes bytes, const std::string& what) {
  ArrayResults arrays = NABLA_TRY(each_of_safetensors(bytes, what));
  return all_or_error(std::move(arrays));
}

Result<NamedArrays> read_safetensors(const std::string& path) {
  std::shared_ptr<const FileBytes> file = NABLA_TRY(FileBytes::map(path));
  return parse_safetensors(file->bytes(), path);
}

std::string safetensors_header(const std::vector<SafetensorsEntry>& arrays, const Metadata& metadata) {
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  int64_t at = 0;
  for (const SafetensorsEntry& array : arrays) {
    int64_t end = at + count_of(array.shape) * bytes_of(array.dtype);
    header[array.name] = {{"dtype", info(array.dtype).safetensors}, {"shape", array.shape}, {"data_offsets", {at, end}}};
    at = end;
  }
  std::string text = header.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), 8) + text;
}

std::string safetensors_bytes(const NamedArrays& arrays, const Metadata& metadata) {
  std::vector<SafetensorsEntry> entries;
  size_t bytes = 0;
  for (const auto& [name, array] : arrays) {
    entries.push_back({name, array.dtype(), array.shape()});
    bytes += static_cast<size_t>(array.size_bytes());
  }
  std::string out = safetensors_header(entries, metadata);
  out.reserve(out.size() + bytes);
  for (const auto& [name, array] : arrays) out.append(static_cast<const char*>(array.data()), array.size_bytes());
  return out;
}

Status write_safetensors(const std::string& path, const NamedArrays& arrays, const Metadata& metadata) {
  return write_file(path, safetensors_bytes(arrays, metadata));
}

}  // namespace nabla::format

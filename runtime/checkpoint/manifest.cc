#include "runtime/checkpoint/manifest.h"

#include <algorithm>
#include <map>
#include <optional>

#include <nlohmann/json.hpp>

#include "runtime/format/sha256.h"

namespace nabla::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr const char* kFormat = "nabla checkpoint";
constexpr size_t kMostText = 256 << 20;
constexpr size_t kMostRank = 32;
constexpr int kMostDepth = 8;
constexpr uint64_t kMostNumber = uint64_t{1} << 62;

std::string dump(const Json& json) { return json.dump(1, ' ', false, Json::error_handler_t::replace); }
std::string digest_of(const Json& json) { return format::sha256_hex(format::as_bytes(dump(json))); }

/// Reads fields, and keeps the first thing that is wrong.
class Reader {
 public:
  const std::string& problem() const { return problem_; }
  bool fail(const std::string& why) {
    if (problem_.empty()) problem_ = why;
    return false;
  }

  const Json* field(const Json& of, const char* name) {
    auto found = of.is_object() ? of.find(name) : of.end();
    if (!of.is_object() || found == of.end()) {
      fail(fmt::format("`{}` is missing", name));
      return nullptr;
    }
    return &*found;
  }
  bool text(const Json& of, const char* name, std::string& to) {
    const Json* value = field(of, name);
    if (value == nullptr || !value->is_string()) return fail(fmt::format("`{}` is no text", name));
    to = value->get<std::string>();
    return true;
  }
  template <class T>
  bool number(const Json& of, const char* name, T& to, uint64_t limit = kMostNumber) {
    const Json* value = field(of, name);
    return value != nullptr && number_in(*value, name, to, limit);
  }
  template <class T>
  bool number_in(const Json& value, const char* name, T& to, uint64_t limit = kMostNumber) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= limit)
      return fail(fmt::format("`{}` is no whole number below {}", name, limit));
    to = static_cast<T>(value.get<uint64_t>());
    return true;
  }
  bool numbers(const Json& of, const char* name, std::vector<int64_t>& to) {
    const Json* value = list(of, name);
    if (value == nullptr) return false;
    if (value->size() > kMostRank) return fail(fmt::format("`{}` has {} numbers", name, value->size()));
    for (const Json& n : *value)
      if (!number_in(n, name, to.emplace_back())) return false;
    return true;
  }
  const Json* list(const Json& of, const char* name) {
    const Json* value = field(of, name);
    if (value == nullptr || value->is_array()) return value;
    fail(fmt::format("`{}` is no list", name));
    return nullptr;
  }

 private:
  std::string problem_;
};

/// Bytes of so many elements; nothing above the limit.
std::optional<uint64_t> bytes_of_shape(const std::vector<int64_t>& shape, DType dtype) {
  unsigned __int128 out = static_cast<uint64_t>(bytes_of(dtype));
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return 0;
  for (int64_t n : shape)
    if ((out *= static_cast<uint64_t>(n)) >= kMostNumber) return std::nullopt;
  return static_cast<uint64_t>(out);
}

bool read_leaf(Reader& r, const Json& json, Leaf& to) {
  std::string dtype;
  if (!r.text(json, "name", to.name) || !r.text(json, "dtype", dtype) || !r.numbers(json, "shape", to.shape)) return false;
  std::optional<DType> known = dtype_from_safetensors(dtype);
  if (!known) return r.fail(fmt::format("leaf `{}` has the unknown dtype `{}`", to.name, dtype));
  to.dtype = *known;
  return bytes_of_shape(to.shape, to.dtype) || r.fail(fmt::format("leaf `{}` is too large", to.name));
}

/// Of the folder itself, whatever else is beside it.
bool plain_name(const std::string& name) {
  return name.starts_with("rank-") && name.ends_with(".safetensors") && name.size() < 64 &&
         name.find_first_not_of("0123456789", 5) == name.size() - 12 && name.size() > 17;
}

bool read_file(Reader& r, const Json& json, File& to) {
  if (!r.text(json, "name", to.name) || !r.number(json, "size", to.size) || !r.number(json, "crc32", to.checksum, uint64_t{1} << 32))
    return false;
  return plain_name(to.name) || r.fail(fmt::format("`{}` is no name of a checkpoint's file", to.name));
}

/// A list of [stride, count].
bool read_digits(Reader& r, const Json& json, const char* name, Digits& to) {
  if (!json.is_array() || json.size() > kMostRank) return r.fail(fmt::format("`{}` is no list of lists", name));
  for (const Json& digit : json) {
    Digit& to_digit = to.emplace_back();
    if (!digit.is_array() || digit.size() != 2) return r.fail(fmt::format("`{}` has what is no [stride, count]", name));
    for (auto [value, number] : {std::pair(&digit[0], &to_digit.stride), {&digit[1], &to_digit.count}})
      if (!r.number_in(*value, name, *number, uint64_t{1} << 32)) return false;
  }
  return true;
}

/// "over": the digits of every dimension. "copies" and "copy" may be missing.
bool read_all_digits(Reader& r, const Json& json, Placement& to) {
  const Json* over = r.list(json, "over");
  if (over == nullptr) return false;
  if (over->size() != to.cuts.size()) return r.fail(fmt::format("`over` has {} lists for {} dimensions", over->size(), to.cuts.size()));
  for (size_t d = 0; d < to.cuts.size(); ++d)
    if (!read_digits(r, (*over)[d], "over", to.cuts[d].digits)) return false;
  if (auto copies = json.find("copies"); copies != json.end() && !read_digits(r, *copies, "copies", to.copies)) return false;
  if (auto copy = json.find("copy"); copy != json.end()) {
    if (!copy->is_boolean()) return r.fail("`copy` is neither true nor false");
    to.copy = copy->get<bool>();
  }
  return true;
}

/// A `piece` of version 1 is one shard in one file. Its cuts have no digits, and it has its offset in the file.
bool read_placement(Reader& r, const Json& json, const Manifest& of, bool piece, Placement& to) {
  std::vector<int64_t> begin, extent;
  if (!r.number(json, "leaf", to.leaf, of.leaves.size()) || !r.number(json, piece ? "file" : "first", to.first, of.files.size()) ||
      !r.numbers(json, "begin", begin) || !r.numbers(json, "extent", extent))
    return false;
  if (piece && !r.number(json, "offset", to.offset.emplace())) return false;
  const Leaf& leaf = of.leaves[static_cast<size_t>(to.leaf)];
  auto outside = [&] { return r.fail(fmt::format("a piece lies outside of leaf `{}`, which is {}", leaf.name, leaf.str())); };
  if (begin.size() != leaf.shape.size() || extent.size() != leaf.shape.size()) return outside();
  for (size_t d = 0; d < begin.size(); ++d) {
    if (begin[d] > leaf.shape[d] || (piece && extent[d] > leaf.shape[d] - begin[d])) return outside();
    to.cuts.push_back({begin[d], extent[d], {}});
  }
  if (!piece && !read_all_digits(r, json, to)) return false;
  if (!to.is_sound(static_cast<uint32_t>(of.files.size())))
    return r.fail(fmt::format("a placement of leaf `{}` is not over {} files", leaf.name, of.files.size()));
  if (!piece) return true;
  uint64_t size = of.files[to.first].size, bytes = *bytes_of_shape(extent, leaf.dtype);
  if (*to.offset <= size && bytes <= size - *to.offset) return true;
  return r.fail(fmt::format("a piece of `{}` lies outside of {}, which has {} bytes", leaf.name, of.files[to.first].name, size));
}

bool disjoint(const exec::Box& a, const exec::Box& b) {
  for (size_t d = 0; d < a.begin.size(); ++d)
    if (a.begin[d] + a.size[d] <= b.begin[d] || b.begin[d] + b.size[d] <= a.begin[d]) return true;
  return false;
}

/// Placements that do not overlap, and have as many elements as the leaf, have all of it. The parts of one are as many boxes side by
/// side. Copies do not count.
bool check_cover(Reader& r, const Manifest& m) {
  std::vector<std::vector<exec::Box>> by_leaf(m.leaves.size());
  for (const Placement& p : m.placements) {
    if (p.copy) continue;
    auto leaf = static_cast<size_t>(p.leaf);
    by_leaf[leaf].push_back(p.hull(m.leaves[leaf].shape));
  }
  for (size_t i = 0; i < m.leaves.size(); ++i) {
    std::vector<exec::Box>& boxes = by_leaf[i];
    std::erase_if(boxes, [](const exec::Box& b) { return std::find(b.size.begin(), b.size.end(), 0) != b.size.end(); });
    std::sort(boxes.begin(), boxes.end(), [](const exec::Box& a, const exec::Box& b) { return a.begin < b.begin; });
    uint64_t bytes = 0, whole = *bytes_of_shape(m.leaves[i].shape, m.leaves[i].dtype);
    for (size_t k = 0; k < boxes.size(); ++k) {
      bytes += *bytes_of_shape(boxes[k].size, m.leaves[i].dtype);
      if (bytes > whole) break;
      for (size_t l = k + 1; l < boxes.size(); ++l) {
        if (!boxes[k].begin.empty() && boxes[l].begin[0] >= boxes[k].begin[0] + boxes[k].size[0]) break;
        if (!disjoint(boxes[k], boxes[l])) return r.fail(fmt::format("pieces of leaf `{}` overlap", m.leaves[i].name));
      }
    }
    if (bytes != whole) return r.fail(fmt::format("the pieces of leaf `{}` have not the {} bytes of the leaf", m.leaves[i].name, whole));
  }
  return true;
}

Json json_of(const Digits& digits) {
  Json out = Json::array();
  for (const Digit& d : digits) out.push_back(Json::array({d.stride, d.count}));
  return out;
}

template <class T, class F>
bool read_all(Reader& r, const Json& json, const char* name, std::vector<T>& to, F read) {
  const Json* list = r.list(json, name);
  if (list == nullptr) return false;
  for (const Json& item : *list)
    if (T value; read(item, value))
      to.push_back(std::move(value));
    else
      return false;
  return true;
}

bool read_manifest(Reader& r, const Json& json, int64_t version, Manifest& to) {
  if (!r.number(json, "step", to.step) || !r.number(json, "epoch", to.epoch, uint64_t{1} << 32) ||
      !r.text(json, "written_by", to.written_by))
    return false;
  const Json* metadata = r.field(json, "metadata");
  if (metadata == nullptr || !metadata->is_object()) return r.fail("`metadata` is no map of texts");
  for (const auto& [key, value] : metadata->items()) {
    if (!value.is_string()) return r.fail("`metadata` is no map of texts");
    to.metadata[key] = value.get<std::string>();
  }
  if (!read_all(r, json, "leaves", to.leaves, [&](const Json& j, Leaf& l) { return read_leaf(r, j, l); })) return false;
  if (!read_all(r, json, "files", to.files, [&](const Json& j, File& f) { return read_file(r, j, f); })) return false;
  const bool pieces = version == 1;
  auto read = [&](const Json& j, Placement& p) { return read_placement(r, j, to, pieces, p); };
  if (!read_all(r, json, pieces ? "pieces" : "placements", to.placements, read)) return false;
  return check_cover(r, to);
}

}  // namespace

std::string Leaf::str() const { return exec::TensorInfo{name, dtype, shape, {}}.type_str(); }

std::string Manifest::text() const {
  bool copies = std::any_of(placements.begin(), placements.end(), [](const Placement& p) { return p.copy || !p.copies.empty(); });
  Json json{{"format", kFormat}, {"version", copies ? 3 : 2}, {"step", step}, {"epoch", epoch}, {"written_by", written_by}};
  json["metadata"] = metadata;
  json["leaves"] = Json::array(), json["files"] = Json::array(), json["placements"] = Json::array();
  for (const Leaf& l : leaves) json["leaves"].push_back({{"name", l.name}, {"dtype", info(l.dtype).safetensors}, {"shape", l.shape}});
  for (const File& f : files) json["files"].push_back({{"name", f.name}, {"size", f.size}, {"crc32", f.checksum}});
  for (const Placement& p : placements) {
    Json begin = Json::array(), extent = Json::array(), over = Json::array();
    for (const Cut& c : p.cuts) {
      begin.push_back(c.begin), extent.push_back(c.extent), over.push_back(json_of(c.digits));
    }
    Json& placement = json["placements"].emplace_back();
    placement = {{"leaf", p.leaf}, {"first", p.first}, {"begin", begin}, {"extent", extent}, {"over", over}};
    if (!p.copies.empty()) placement["copies"] = json_of(p.copies);
    if (p.copy) placement["copy"] = true;
  }
  json["sha256"] = digest_of(json);
  return dump(json) + "\n";
}

Result<Manifest> Manifest::parse(std::string_view text, const std::string& what) {
  auto damaged = [&](const std::string& why) { return error(Code::kCorrupt, "{}: damaged: {}", what, why); };
  if (text.size() > kMostText) return error(Code::kTooLarge, "{}: {} bytes; at most {}", what, text.size(), kMostText);
  bool deep = false;
  auto shallow = [&](int depth, Json::parse_event_t, Json&) { return depth <= kMostDepth || ((deep = true), false); };
  Json json = Json::parse(text, shallow, false);
  if (deep || !json.is_object()) return damaged("not a JSON object");
  auto name = json.find("format");
  if (name == json.end() || *name != kFormat) return error(Code::kForeignFile, "{}: not the manifest of a checkpoint", what);
  Reader r;
  int64_t version = 0;
  if (!r.number(json, "version", version) || version == 0) return damaged(r.problem().empty() ? "version 0" : r.problem());
  if (version > kVersion)
    return error(Code::kNewerVersion, "{}: a checkpoint of format version {}; this nabla-run reads up to {}", what, version, kVersion);
  std::string digest;
  if (!r.text(json, "sha256", digest)) return damaged(r.problem());
  json.erase("sha256");
  if (digest != digest_of(json)) return damaged("its own sha256 is not that of its contents");
  Manifest out;
  if (!read_manifest(r, json, version, out)) return damaged(r.problem());
  return out;
}

std::vector<Piece> pieces_in(uint32_t file, const std::vector<Leaf>& leaves, const std::vector<Placement>& placements) {
  std::vector<Piece> out;
  for (const Placement& p : placements) {
    std::optional<exec::Box> box = p.part_of(file);
    if (!box) continue;
    const Leaf& leaf = leaves[static_cast<size_t>(p.leaf)];
    for (size_t d = 0; d < leaf.shape.size(); ++d)
      box->size[d] = std::clamp<int64_t>(leaf.shape[d] - box->begin[d], 0, box->size[d]);
    uint64_t bytes = *bytes_of_shape(box->size, leaf.dtype);
    if (bytes > 0) out.push_back({p.leaf, std::move(box->begin), std::move(box->size), file, p.offset, bytes});
  }
  return out;
}

Result<std::vector<Piece>> Manifest::pieces_of(uint32_t file) const {
  std::vector<Piece> out = pieces_in(file, leaves, placements);
  uint64_t left = files[file].size;
  // From the last one to the first, which end where those after them begin.
  for (auto p = out.rbegin(); p != out.rend(); ++p) {
    if (p->offset) continue;
    if (p->bytes > left)
      return error(Code::kCorrupt, "{}: damaged: its {} bytes have no room for its pieces of the leaves", files[file].name,
                   files[file].size);
    p->offset = left -= p->bytes;
  }
  return out;
}

std::vector<Leaf> leaves_of(const exec::Session& session) {
  std::vector<Leaf> out;
  for (const exec::TensorInfo& leaf : session.state_leaves()) out.push_back({leaf.name, leaf.dtype, leaf.shape});
  return out;
}

Status check_model(const Manifest& manifest, const std::vector<Leaf>& leaves, const std::string& what) {
  auto misfit = [&](const std::string& why) {
    Diagnostic d = error(Code::kStateMismatch, "{}: a checkpoint of another model: {}", what, why);
    d.help = "resume with the program that wrote it, on any mesh, or use another --checkpoint-dir";
    return d;
  };
  std::map<std::string, const Leaf*> saved;
  for (const Leaf& leaf : manifest.leaves) saved[leaf.name] = &leaf;
  for (const Leaf& leaf : leaves) {
    auto found = saved.find(leaf.name);
    if (found == saved.end()) return misfit(fmt::format("it has no state `{}` ({})", leaf.name, leaf.str()));
    if (found->second->dtype != leaf.dtype || found->second->shape != leaf.shape)
      return misfit(fmt::format("state `{}` is {}; the checkpoint has {}", leaf.name, leaf.str(), found->second->str()));
    saved.erase(found);
  }
  if (!saved.empty()) return misfit(fmt::format("the program has no state `{}`", saved.begin()->first));
  return Ok{};
}

}  // namespace nabla::checkpoint

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

bool read_piece(Reader& r, const Json& json, const Manifest& of, Piece& to) {
  if (!r.number(json, "leaf", to.leaf, of.leaves.size()) || !r.number(json, "file", to.file, of.files.size()) ||
      !r.numbers(json, "begin", to.begin) || !r.numbers(json, "extent", to.extent) || !r.number(json, "offset", to.offset))
    return false;
  const Leaf& leaf = of.leaves[static_cast<size_t>(to.leaf)];
  auto outside = [&] { return r.fail(fmt::format("a piece lies outside of leaf `{}`, which is {}", leaf.name, leaf.str())); };
  if (to.begin.size() != leaf.shape.size() || to.extent.size() != leaf.shape.size()) return outside();
  for (size_t d = 0; d < leaf.shape.size(); ++d)
    if (to.extent[d] > leaf.shape[d] || to.begin[d] > leaf.shape[d] - to.extent[d]) return outside();
  to.bytes = *bytes_of_shape(to.extent, leaf.dtype);
  uint64_t size = of.files[to.file].size;
  if (to.offset > size || to.bytes > size - to.offset)
    return r.fail(fmt::format("a piece of `{}` lies outside of {}, which has {} bytes", leaf.name, of.files[to.file].name, size));
  return true;
}

bool disjoint(const Piece& a, const Piece& b) {
  for (size_t d = 0; d < a.begin.size(); ++d)
    if (a.begin[d] + a.extent[d] <= b.begin[d] || b.begin[d] + b.extent[d] <= a.begin[d]) return true;
  return false;
}

/// Pieces that do not overlap, and have as many elements as the leaf, have all of it.
bool check_cover(Reader& r, const Manifest& m) {
  std::vector<std::vector<const Piece*>> by_leaf(m.leaves.size());
  for (const Piece& p : m.pieces)
    if (p.bytes > 0) by_leaf[static_cast<size_t>(p.leaf)].push_back(&p);
  for (size_t i = 0; i < m.leaves.size(); ++i) {
    std::vector<const Piece*>& pieces = by_leaf[i];
    std::sort(pieces.begin(), pieces.end(), [](const Piece* a, const Piece* b) { return a->begin < b->begin; });
    uint64_t bytes = 0, whole = *bytes_of_shape(m.leaves[i].shape, m.leaves[i].dtype);
    for (size_t k = 0; k < pieces.size(); ++k) {
      bytes += pieces[k]->bytes;
      if (bytes > whole) break;
      for (size_t l = k + 1; l < pieces.size(); ++l) {
        if (!pieces[k]->begin.empty() && pieces[l]->begin[0] >= pieces[k]->begin[0] + pieces[k]->extent[0]) break;
        if (!disjoint(*pieces[k], *pieces[l])) return r.fail(fmt::format("pieces of leaf `{}` overlap", m.leaves[i].name));
      }
    }
    if (bytes != whole) return r.fail(fmt::format("the pieces of leaf `{}` have not the {} bytes of the leaf", m.leaves[i].name, whole));
  }
  return true;
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

bool read_manifest(Reader& r, const Json& json, Manifest& to) {
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
  if (!read_all(r, json, "pieces", to.pieces, [&](const Json& j, Piece& p) { return read_piece(r, j, to, p); })) return false;
  return check_cover(r, to);
}

}  // namespace

std::string Leaf::str() const { return exec::TensorInfo{name, dtype, shape, {}}.type_str(); }

std::string Manifest::text() const {
  Json json{{"format", kFormat}, {"version", kVersion}, {"step", step}, {"epoch", epoch}, {"written_by", written_by}};
  json["metadata"] = metadata;
  json["leaves"] = Json::array(), json["files"] = Json::array(), json["pieces"] = Json::array();
  for (const Leaf& l : leaves) json["leaves"].push_back({{"name", l.name}, {"dtype", info(l.dtype).safetensors}, {"shape", l.shape}});
  for (const File& f : files) json["files"].push_back({{"name", f.name}, {"size", f.size}, {"crc32", f.checksum}});
  for (const Piece& p : pieces)
    json["pieces"].push_back({{"leaf", p.leaf}, {"begin", p.begin}, {"extent", p.extent}, {"file", p.file}, {"offset", p.offset}});
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
  if (!read_manifest(r, json, out)) return damaged(r.problem());
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

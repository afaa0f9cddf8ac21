#include "runtime/format/npy.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "runtime/format/zip.h"

namespace nabla::format {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kMaxNpyRank = 32;

struct Header {
  std::string descr;
  std::vector<std::string> fields;  ///< of a structured element type; `descr` is then all of it
  bool fortran = false;
  std::vector<int64_t> shape;
};

/// Reads the header's Python dictionary: three keys, each with a string (or a list of fields), a boolean or a tuple of
/// integers.
class HeaderParser {
 public:
  explicit HeaderParser(std::string_view text) : text_(text) {}

  std::optional<Header> parse() {
    Header header;
    bool seen[3] = {};
    if (!take('{')) return std::nullopt;
    while (!take('}')) {
      std::optional<std::string> key = quoted();
      if (!key || !take(':')) return std::nullopt;
      if (*key == "descr" && !seen[0]) {
        std::optional<std::string> descr = peek() == '[' ? structured(header.fields) : quoted();
        if (!descr) return std::nullopt;
        header.descr = *descr;
        seen[0] = true;
      } else if (*key == "fortran_order" && !seen[1]) {
        if (word("True")) {
          header.fortran = true;
        } else if (!word("False")) {
          return std::nullopt;
        }
        seen[1] = true;
      } else if (*key == "shape" && !seen[2]) {
        if (!tuple(header.shape)) return std::nullopt;
        seen[2] = true;
      } else {
        return std::nullopt;
      }
      if (!take(',') && peek() != '}') return std::nullopt;
    }
    if (peek() != '\0' || !seen[0] || !seen[1] || !seen[2]) return std::nullopt;
    return header;
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char c) { return peek() == c && (++at_, true); }
  bool word(std::string_view w) {
    (void)peek();
    if (text_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }
  std::optional<std::string> quoted() {
    char quote = peek();
    if (quote != '\'' && quote != '"') return std::nullopt;
    size_t end = text_.find(quote, at_ + 1);
    if (end == text_.npos) return std::nullopt;
    std::string out(text_.substr(at_ + 1, end - at_ - 1));
    at_ = end + 1;
    return out;
  }
  /// "[('a', '<f4'), ('b', '<i4', (2,))]": its text and the names of the outermost fields, which are the first strings
  /// in its tuples (of a field with a title: the title).
  std::optional<std::string> structured(std::vector<std::string>& fields) {
    size_t begin = at_;
    bool first = false;
    for (int depth = 0;;) {
      char c = peek();
      if (c == '\'' || c == '"') {
        std::optional<std::string> name = quoted();
        if (!name) return std::nullopt;
        if (first) fields.push_back(*name);
        first = false;
        continue;
      }
      if (c == '\0') return std::nullopt;
      ++at_;
      if (c == '[' || c == '(') ++depth;
      if (c == '(' && depth == 2) first = true;
      if ((c == ']' || c == ')') && --depth == 0) return std::string(text_.substr(begin, at_ - begin));
    }
  }
  bool tuple(std::vector<int64_t>& shape) {
    if (!take('(')) return false;
    while (!take(')')) {
      (void)peek();
      int64_t value = 0;
      auto [end, problem] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      if (problem != std::errc() || value < 0 || shape.size() >= kMaxNpyRank) return false;
      at_ = static_cast<size_t>(end - text_.data());
      if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 writes long integers so
      shape.push_back(value);
      if (!take(',') && peek() != ')') return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

/// The dtype that a header's text means. numpy.load takes `<`, `|` and `=` before types of one byte alike, and `=` as the
/// machine's order, which is little-endian (C++'s cnpy writes `<u1`).
std::optional<nabla::DType> dtype_of(std::string_view descr) {
  if (std::optional<nabla::DType> exact = dtype_from_numpy(descr)) return exact;
  if (descr.empty() || std::string_view("<>=|").find(descr[0]) == std::string_view::npos) return std::nullopt;
  std::string_view type = descr.substr(1);
  std::optional<nabla::DType> one_byte = dtype_from_numpy(fmt::format("|{}", type));
  if (one_byte) return one_byte;
  return descr[0] == '=' ? dtype_from_numpy(fmt::format("<{}", type)) : std::nullopt;
}

/// Moves column-major elements to row-major places.
Literal from_fortran(const Literal& columns, std::vector<int64_t> shape) {
  Literal out(columns.dtype(), shape);
  int bytes = bytes_of(columns.dtype());
  auto* to = static_cast<char*>(out.mutable_data());
  const auto* from = static_cast<const char*>(columns.data());
  std::vector<int64_t> strides = strides_of(shape);
  std::vector<int64_t> index(shape.size(), 0);
  int64_t target = 0;
  for (int64_t i = 0; i < out.size(); ++i) {
    std::memcpy(to + target * bytes, from + i * bytes, bytes);
    for (size_t d = 0; d < shape.size(); ++d) {
      target += strides[d];
      if (++index[d] < shape[d]) break;
      target -= strides[d] * shape[d];
      index[d] = 0;
    }
  }
  return out;
}

/// Bytes of an array of this shape, or nothing when that is more than `limit`.
std::optional<uint64_t> bytes_within(const Header& header, nabla::DType dtype, uint64_t limit) {
  if (std::find(header.shape.begin(), header.shape.end(), 0) != header.shape.end()) return 0;
  unsigned __int128 total = bytes_of(dtype);
  for (int64_t extent : header.shape)
    if ((total *= static_cast<uint64_t>(extent)) > limit) return std::nullopt;
  return static_cast<uint64_t>(total);
}

std::string stem_of(const std::string& member) {
  return member.ends_with(".npy") ? member.substr(0, member.size() - 4) : member;
}

Diagnostic structured_array(const Header& header, const std::string& what) {
  std::string names;
  for (const std::string& field : header.fields) names += fmt::format("{}`{}`", names.empty() ? "" : ", ", field);
  Diagnostic d =
      error(Code::kInputDType, "{}: a structured array of {}, with the fields {}; structured arrays are not read", what,
            header.descr, names);
  d.help = "save each field as an array of its own";
  return d;
}

/// What a header says, and where the elements begin.
struct Parsed {
  Header header;
  nabla::DType dtype;
  const uint8_t* data;
};

Result<Parsed> parse_npy_header(Bytes bytes, const std::string& what) {
  std::string_view text = as_text(bytes);
  if (!text.starts_with(kMagic)) return error(Code::kForeignFile, "{}: not a .npy file", what);
  auto damaged = [&](std::string_view why) { return error(Code::kCorrupt, "{}: damaged .npy: {}", what, why); };
  if (text.size() < 10) return damaged("cut short in the header");
  int version = bytes[6];
  if (version < 1 || version > 3) return error(Code::kNewerVersion, "{}: .npy version {}", what, version);
  size_t prefix = version == 1 ? 10 : 12;
  if (text.size() < prefix) return damaged("cut short in the header");
  size_t length = bytes[8] | size_t{bytes[9]} << 8;
  if (version > 1) length |= size_t{bytes[10]} << 16 | size_t{bytes[11]} << 24;
  if (length > text.size() - prefix) return damaged("cut short in the header");
  std::optional<Header> header = HeaderParser(text.substr(prefix, length)).parse();
  if (!header) return damaged("the header does not parse");
  if (!header->fields.empty()) return structured_array(*header, what);
  std::optional<nabla::DType> dtype = dtype_of(header->descr);
  if (!dtype) return error(Code::kInputDType, "{}: element type `{}` is not supported", what, header->descr);
  Bytes data = bytes.subspan(prefix + length);
  std::optional<uint64_t> size = bytes_within(*header, *dtype, data.size());
  if (!size)
    return damaged(
        fmt::format("{}{} needs more than the {} bytes there", name_of(*dtype), shape_str(header->shape), data.size()));
  if (*size < data.size())
    return damaged(fmt::format("{} bytes stand after the {} of {}{}", data.size() - *size, *size, name_of(*dtype),
                               shape_str(header->shape)));
  if (*dtype == nabla::DType::kBool)
    if (std::optional<Diagnostic> bad = bad_bool(data.data(), static_cast<int64_t>(data.size()), what)) return *bad;
  return Parsed{std::move(*header), *dtype, data.data()};
}

}  // namespace

Result<std::optional<ArrayView>> view_npy(Bytes bytes, const std::string& what) {
  Parsed p = NABLA_TRY(parse_npy_header(bytes, what));
  if (p.header.fortran && p.header.shape.size() > 1) return std::optional<ArrayView>();
  return std::optional<ArrayView>(ArrayView{"", p.dtype, std::move(p.header.shape), p.data});
}

Result<Literal> parse_npy(Bytes bytes, const std::string& what) {
  Parsed p = NABLA_TRY(parse_npy_header(bytes, what));
  if (p.header.fortran && p.header.shape.size() > 1) {
    std::vector<int64_t> reversed(p.header.shape.rbegin(), p.header.shape.rend());
    return from_fortran(Literal::from_bytes(p.dtype, std::move(reversed), p.data), p.header.shape);
  }
  return Literal::from_bytes(p.dtype, p.header.shape, p.data);
}

Result<Literal> read_npy(const std::string& path) {
  std::shared_ptr<const FileBytes> file = NABLA_TRY(FileBytes::map(path));
  return parse_npy(file->bytes(), path);
}

Result<std::string> npy_bytes(const Literal& array) {
  std::string_view descr = info(array.dtype()).numpy;
  if (descr.empty())
    return error(Code::kInputDType, "NumPy has no element type {}; write a .safetensors file", name_of(array.dtype()));
  std::string shape;
  for (int64_t extent : array.shape()) shape += fmt::format("{}{}", shape.empty() ? "" : ", ", extent);
  if (array.rank() == 1) shape += ",";
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  size_t length = (10 + dictionary.size() + 1 + 63) / 64 * 64 - 10;
  dictionary.resize(length - 1, ' ');
  dictionary += '\n';
  std::string out(kMagic);
  out += '\x01';
  out += '\0';
  out += static_cast<char>(length & 255);
  out += static_cast<char>(length >> 8);
  out += dictionary;
  out.append(static_cast<const char*>(array.data()), array.size_bytes());
  return out;
}

Status write_npy(const std::string& path, const Literal& array) {
  return write_file(path, NABLA_TRY(npy_bytes(array)));
}

std::optional<Diagnostic> bad_bool(const uint8_t* data, int64_t count, const std::string& what) {
  const uint8_t* end = data + count;
  const uint8_t* bad = std::find_if(data, end, [](uint8_t b) { return b > 1; });
  if (bad == end) return std::nullopt;
  Diagnostic d = error(Code::kInputDType, "{}: element {} of the bools in the file is {}, expected 0 or 1", what,
                       bad - data, *bad);
  d.help = "write bools as 0 and 1, or save the array as u8";
  return d;
}

Result<NamedArrays> all_or_error(ArrayResults arrays) {
  NamedArrays out;
  for (auto& [name, array] : arrays) {
    if (!array.ok()) return std::move(array.errors());
    out.emplace_back(std::move(name), std::move(*array));
  }
  return out;
}

bool concerns_one_array(const Diagnostic& problem) {
  return problem.code == Code::kInputDType || problem.code == Code::kForeignFile || problem.code == Code::kNewerVersion;
}

Result<ArrayResults> each_of_npz(Bytes bytes, const std::string& what) {
  ZipReader zip = NABLA_TRY(ZipReader::open(bytes, what));
  ArrayResults out;
  for (const ZipMember& member : zip.members()) {
    if (member.name.ends_with('/')) continue;  // a folder
    std::string contents = NABLA_TRY(zip.read(member)), name = stem_of(member.name);
    Result<Literal> array = parse_npy(as_bytes(contents), fmt::format("{}: array `{}`", what, name));
    if (!array.ok() && !concerns_one_array(array.errors()[0])) return std::move(array.errors());
    out.emplace_back(std::move(name), std::move(array));
  }
  return out;
}

Result<NamedArrays> parse_npz(Bytes bytes, const std::string& what) {
  ArrayResults arrays = NABLA_TRY(each_of_npz(bytes, what));
  return all_or_error(std::move(arrays));
}

Result<NamedArrays> read_npz(const std::string& path) {
  std::shared_ptr<const FileBytes> file = NABLA_TRY(FileBytes::map(path));
  return parse_npz(file->bytes(), path);
}

Status write_npz(const std::string& path, const NamedArrays& arrays, bool deflate) {
  ZipWriter zip;
  for (const auto& [name, array] : arrays) {
    std::string bytes = NABLA_TRY(npy_bytes(array));
    if (deflate) {
      zip.add_deflated(name + ".npy", as_bytes(bytes));
    } else {
      zip.add(name + ".npy", as_bytes(bytes));
    }
  }
  return write_file(path, NABLA_TRY(std::move(zip).finish()));
}

}  // namespace nabla::format

#include "runtime/format/zip.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace nabla::format {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50;
constexpr uint32_t kCentralMagic = 0x02014b50;
constexpr uint32_t kEndMagic = 0x06054b50;
constexpr size_t kLocalSize = 30;
constexpr size_t kCentralSize = 46;
constexpr size_t kEndSize = 22;
constexpr uint16_t kPaddingId = 0xD935;  // the extra field that aligning zip tools use
constexpr uint16_t kFixedDate = 0x0021;  // 1980-01-01, the format's first day
constexpr size_t kAlignment = 64;
constexpr size_t kMaxMembers = 65534;
constexpr uint64_t kMaxArchive = 0xFFFFFFFEu;

void put16(std::string& out, uint64_t v) {
  for (int i = 0; i < 2; ++i) out += static_cast<char>(v >> (8 * i));
}
void put32(std::string& out, uint64_t v) {
  for (int i = 0; i < 4; ++i) out += static_cast<char>(v >> (8 * i));
}
uint16_t get16(const uint8_t* p) { return static_cast<uint16_t>(p[0] | p[1] << 8); }
uint32_t get32(const uint8_t* p) { return get16(p) | static_cast<uint32_t>(get16(p + 2)) << 16; }

bool safe_name(std::string_view name) {
  if (name.empty() || name.size() > 512 || name.front() == '/') return false;
  if (name.find('\0') != name.npos || name.find('\\') != name.npos) return false;
  for (size_t begin = 0; begin <= name.size();) {
    size_t end = std::min(name.find('/', begin), name.size());
    if (name.substr(begin, end - begin) == "..") return false;
    begin = end + 1;
  }
  return true;
}

/// Offset of the end record, or npos.
size_t find_end_record(Bytes bytes) {
  if (bytes.size() < kEndSize) return std::string::npos;
  size_t last = bytes.size() - kEndSize;
  size_t first = last > 0xFFFF ? last - 0xFFFF : 0;
  for (size_t at = last + 1; at-- > first;)
    if (get32(bytes.data() + at) == kEndMagic && get16(bytes.data() + at + 20) == last - at) return at;
  return std::string::npos;
}

struct Directory {
  Bytes before, all;  ///< what stands in front of the archive; the archive with its end record
  Bytes archive;      ///< from the first local header to the end of the directory
  Bytes entries;
  size_t count = 0;
};

Result<Directory> find_directory(Bytes bytes, const std::string& what) {
  if (bytes.empty()) return error(Code::kCorrupt, "{}: the file is empty", what);
  size_t end = find_end_record(bytes);
  if (end == std::string::npos) {
    bool zip = bytes.size() >= 4 && get32(bytes.data()) == kLocalMagic;
    if (zip) return error(Code::kCorrupt, "{}: the zip archive is cut short: its end record is missing", what);
    return error(Code::kForeignFile, "{}: not a zip archive ({} bytes)", what, bytes.size());
  }
  const uint8_t* p = bytes.data() + end;
  uint32_t size = get32(p + 12);
  uint32_t offset = get32(p + 16);
  if (get16(p + 4) != 0 || get16(p + 6) != 0 || get16(p + 8) != get16(p + 10))
    return error(Code::kCorrupt, "{}: the zip archive is split over several files", what);
  if (get16(p + 10) == 0xFFFF || size == 0xFFFFFFFF || offset == 0xFFFFFFFF)
    return error(Code::kTooLarge, "{}: zip archives above 4 GiB are not supported", what);
  if (size > end || offset > end - size)
    return error(Code::kCorrupt, "{}: the zip directory ({} bytes at {}) lies outside the file", what, size, offset);
  Directory d;
  d.before = bytes.first(end - size - offset);
  d.all = bytes.subspan(d.before.size());
  d.archive = bytes.subspan(end - size - offset, size_t{offset} + size);
  d.entries = d.archive.subspan(offset);
  d.count = get16(p + 10);
  return d;
}

/// The data of the member whose directory entry is `p`, found through its local header.
Result<Bytes> member_data(const Directory& d, const uint8_t* p, std::string_view name, const std::string& what) {
  uint32_t size = get32(p + 20);
  uint32_t local = get32(p + 42);
  size_t limit = d.archive.size() - d.entries.size();  // data stand before the directory
  auto damaged = [&] { return error(Code::kCorrupt, "{}: member `{}` lies outside the archive", what, name); };
  if (local > limit || limit - local < kLocalSize) return damaged();
  const uint8_t* q = d.archive.data() + local;
  if (get32(q) != kLocalMagic || get16(q + 8) != get16(p + 10) || get16(q + 26) != name.size())
    return error(Code::kCorrupt, "{}: the two headers of member `{}` disagree", what, name);
  size_t rest = limit - local - kLocalSize;
  size_t variable = size_t{get16(q + 26)} + get16(q + 28);
  if (variable > rest || size > rest - variable) return damaged();
  if (std::memcmp(q + kLocalSize, name.data(), name.size()) != 0)
    return error(Code::kCorrupt, "{}: the two headers of member `{}` disagree", what, name);
  return d.archive.subspan(local + kLocalSize + variable, size);
}

Status check_entry(const uint8_t* p, const ZipMember& member, const std::string& what) {
  if (!safe_name(member.name)) return error(Code::kCorrupt, "{}: unsafe member name `{}`", what, member.name);
  if (get16(p + 8) & 1) return error(Code::kCorrupt, "{}: member `{}` is encrypted", what, member.name);
  if (member.method != 0 && member.method != 8)
    return error(Code::kCorrupt, "{}: member `{}` uses compression method {}, not 0 or 8", what, member.name,
                 member.method);
  return Ok{};
}

}  // namespace

uint32_t crc32_of(Bytes bytes, uint32_t before) {
  if (bytes.empty()) return before;  // which zlib forgets for a null pointer
  return static_cast<uint32_t>(::crc32_z(before, bytes.data(), bytes.size()));
}

bool ends_with_zip(Bytes bytes) {
  return bytes.size() >= kEndSize && get32(bytes.data() + bytes.size() - kEndSize) == kEndMagic &&
         get16(bytes.data() + bytes.size() - 2) == 0;
}

namespace {

struct Headers {
  std::string local;      ///< all that stands before the data
  std::string directory;  ///< the member's entry
};

/// As ZipWriter writes them for a member whose local header stands at `at`.
Headers headers_of(const ZipMember& member, size_t at) {
  size_t padding = 0;
  if (member.method == 0) {
    constexpr size_t kExtraHeader = 6;
    size_t start = at + kLocalSize + member.name.size() + kExtraHeader;
    padding = kExtraHeader + (kAlignment - start % kAlignment) % kAlignment;
  }
  auto common = [&](std::string& out) {
    put16(out, 20);      // version needed
    put16(out, 0x0800);  // names are UTF-8
    put16(out, member.method);
    put16(out, 0);
    put16(out, kFixedDate);
    put32(out, member.crc);
    put32(out, member.data.size());
    put32(out, member.size);
    put16(out, member.name.size());
  };
  Headers h;
  put32(h.local, kLocalMagic);
  common(h.local);
  put16(h.local, padding);
  h.local += member.name;
  if (padding > 0) {
    put16(h.local, kPaddingId);
    put16(h.local, padding - 4);
    put16(h.local, kAlignment);
    h.local.append(padding - 6, '\0');
  }
  put32(h.directory, kCentralMagic);
  put16(h.directory, 0x0314);  // made on Unix, so that the mode below counts
  common(h.directory);
  put16(h.directory, 0);  // extra
  put16(h.directory, 0);  // comment
  put16(h.directory, 0);  // disk
  put16(h.directory, 0);  // internal attributes
  put32(h.directory, uint64_t{0100644} << 16);
  put32(h.directory, at);
  h.directory += member.name;
  return h;
}

std::string end_record(size_t count, size_t directory_size, size_t offset) {
  std::string out;
  put32(out, kEndMagic);
  put32(out, 0);
  put16(out, count);
  put16(out, count);
  put32(out, directory_size);
  put32(out, offset);
  put16(out, 0);
  return out;
}

}  // namespace

void ZipWriter::append(const std::string& name, Bytes data, uint64_t raw_size, uint32_t crc, uint16_t method) {
  NABLA_CHECK(safe_name(name), "unsafe member name `{}`", name);
  ++count_;
  Headers h = headers_of({name, method, crc, raw_size, data}, archive_.size());
  archive_ += h.local;
  archive_ += as_text(data);
  directory_ += h.directory;
}

void ZipWriter::add(const std::string& name, Bytes data) { append(name, data, data.size(), crc32_of(data), 0); }

void ZipWriter::add_deflated(const std::string& name, Bytes data) {
  z_stream stream{};
  int rc = ::deflateInit2(&stream, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  NABLA_CHECK(rc == Z_OK, "deflateInit2 returned {}", rc);
  std::string packed(::deflateBound(&stream, data.size()), '\0');
  stream.next_in = const_cast<Bytef*>(data.data());
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  rc = ::deflate(&stream, Z_FINISH);
  ::deflateEnd(&stream);
  NABLA_CHECK(rc == Z_STREAM_END, "deflate returned {}", rc);
  packed.resize(stream.total_out);
  append(name, as_bytes(packed), data.size(), crc32_of(data), 8);
}

Result<std::string> ZipWriter::finish() && {
  if (count_ > kMaxMembers || archive_.size() + directory_.size() > kMaxArchive)
    return error(Code::kTooLarge, "a zip archive of {} members and {} bytes is above the format's 4 GiB", count_,
                 archive_.size() + directory_.size());
  size_t offset = archive_.size();
  archive_ += directory_ + end_record(count_, directory_.size(), offset);
  return std::move(archive_);
}

Result<ZipReader> ZipReader::open(Bytes bytes, std::string what) {
  Directory d = NABLA_TRY(find_directory(bytes, what));
  ZipReader reader;
  std::set<std::string_view> names;
  reader.members_.reserve(std::min(d.count, d.entries.size() / kCentralSize));
  size_t at = 0;
  for (size_t i = 0; i < d.count; ++i) {
    Bytes rest = d.entries.subspan(at);
    auto cut = [&] { return error(Code::kCorrupt, "{}: the zip directory ends within entry {}", what, i); };
    if (rest.size() < kCentralSize) return cut();
    const uint8_t* p = rest.data();
    if (get32(p) != kCentralMagic) return error(Code::kCorrupt, "{}: zip directory entry {} is damaged", what, i);
    size_t name_size = get16(p + 28);
    size_t variable = name_size + get16(p + 30) + get16(p + 32);
    if (variable > rest.size() - kCentralSize) return cut();
    ZipMember member;
    member.name.assign(as_text(rest.subspan(kCentralSize, name_size)));
    member.method = get16(p + 10);
    member.crc = get32(p + 16);
    member.size = get32(p + 24);
    (void)NABLA_TRY(check_entry(p, member, what));
    member.data = NABLA_TRY(member_data(d, p, member.name, what));
    if (member.method == 0 && member.data.size() != member.size)
      return error(Code::kCorrupt, "{}: stored member `{}` has two sizes, {} and {}", what, member.name,
                   member.data.size(), member.size);
    reader.members_.push_back(std::move(member));
    at += kCentralSize + variable;
  }
  for (const ZipMember& member : reader.members_)
    if (!names.insert(member.name).second)
      return error(Code::kCorrupt, "{}: two members are named `{}`", what, member.name);
  reader.what_ = std::move(what);
  reader.before_ = d.before;
  reader.all_ = d.all;
  return reader;
}

Status ZipReader::check_every_byte() const {
  constexpr std::string_view kElf = "\177ELF";
  if (!before_.empty() && !as_text(before_).starts_with(kElf))
    return error(Code::kCorrupt, "{}: {} bytes stand in front of the archive", what_, before_.size());
  size_t at = 0;
  auto stands_here = [&](std::string_view text) {
    if (as_text(all_.subspan(std::min(at, all_.size()))).substr(0, text.size()) != text) return false;
    at += text.size();
    return true;
  };
  std::string directory;
  for (const ZipMember& member : members_) {
    Headers h = headers_of(member, at);
    size_t data = at + h.local.size();
    if (!stands_here(h.local) || member.data.data() != all_.data() + data)
      return error(Code::kCorrupt, "{}: the bytes in front of member `{}` are not those that belong there", what_,
                   member.name);
    at += member.data.size();
    directory += h.directory;
  }
  size_t offset = at;
  if (!stands_here(directory) || !stands_here(end_record(members_.size(), directory.size(), offset)) ||
      at != all_.size())
    return error(Code::kCorrupt, "{}: the bytes after the last member are not those that belong there", what_);
  return Ok{};
}

const ZipMember* ZipReader::find(std::string_view name) const {
  for (const ZipMember& member : members_)
    if (member.name == name) return &member;
  return nullptr;
}

Result<std::string> ZipReader::read(const ZipMember& member) const {
  std::string out;
  if (member.method == 0) {
    out.assign(as_text(member.data));
  } else {
    // Deflate cannot expand more than 1032 times, so a larger claim is a lie: refused before the allocation.
    if (member.size / 1032 > member.data.size() + 64)
      return error(Code::kTooLarge, "{}: member `{}` claims {} bytes from {}", what_, member.name, member.size,
                   member.data.size());
    out.resize(member.size);
    z_stream stream{};
    int rc = ::inflateInit2(&stream, -MAX_WBITS);
    NABLA_CHECK(rc == Z_OK, "inflateInit2 returned {}", rc);
    stream.next_in = const_cast<Bytef*>(member.data.data());
    stream.avail_in = static_cast<uInt>(member.data.size());
    stream.next_out = reinterpret_cast<Bytef*>(out.data());
    stream.avail_out = static_cast<uInt>(out.size());
    rc = ::inflate(&stream, Z_FINISH);
    ::inflateEnd(&stream);
    if (rc != Z_STREAM_END || stream.total_out != member.size)
      return error(Code::kCorrupt, "{}: member `{}` does not inflate to its {} bytes", what_, member.name, member.size);
  }
  if (crc32_of(as_bytes(out)) != member.crc)
    return error(Code::kCorrupt, "{}: the checksum of member `{}` is wrong", what_, member.name);
  return out;
}

}  // namespace nabla::format

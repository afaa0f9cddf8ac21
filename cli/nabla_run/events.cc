#include "cli/nabla_run/events.h"

#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <bit>
#include <cerrno>

#include "runtime/format/file.h"

namespace nabla::cli {
namespace {

template <class T>
void add_fixed(std::string& to, T value) {
  for (size_t i = 0; i < sizeof value; ++i) to += static_cast<char>(value >> (8 * i) & 0xFF);
}
void add_varint(std::string& to, uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>((value & 0x7F) | 0x80);
  to += static_cast<char>(value);
}

// Kinds of protobuf fields.
enum Wire : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
void add_key(std::string& to, uint32_t field, Wire wire) { add_varint(to, field << 3 | wire); }
void add_bytes(std::string& to, uint32_t field, std::string_view bytes) {
  add_key(to, field, kBytes);
  add_varint(to, bytes.size());
  to += bytes;
}

std::string event_at(double wall_s) {
  std::string event;
  add_key(event, 1, kFixed64);
  add_fixed(event, std::bit_cast<uint64_t>(wall_s));
  return event;
}

uint32_t masked(uint32_t crc) { return (crc >> 15 | crc << 17) + 0xA282EAD8u; }

double wall_s() {
  timespec t{};
  ::clock_gettime(CLOCK_REALTIME, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

}  // namespace

uint32_t crc32c(std::string_view bytes) {
  uint32_t crc = ~0u;
  for (char c : bytes) {
    crc ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (0x82F63B78u & (0u - (crc & 1)));
  }
  return ~crc;
}

std::string tf_record(std::string_view bytes) {
  std::string out;
  add_fixed(out, static_cast<uint64_t>(bytes.size()));
  add_fixed(out, masked(crc32c(out)));
  out += bytes;
  add_fixed(out, masked(crc32c(bytes)));
  return out;
}

std::string scalar_event(double wall_s, int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  std::string summary;
  for (const auto& [tag, scalar] : scalars) {
    std::string value;
    add_bytes(value, 1, tag);
    add_key(value, 2, kFixed32);
    add_fixed(value, std::bit_cast<uint32_t>(static_cast<float>(scalar)));
    add_bytes(summary, 1, value);
  }
  std::string event = event_at(wall_s);
  add_key(event, 2, kVarint);
  add_varint(event, static_cast<uint64_t>(step));
  add_bytes(event, 5, summary);
  return event;
}

Result<std::unique_ptr<EventFile>> EventFile::create(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST) return format::write_failure(folder, errno);
  char host[256] = "";
  ::gethostname(host, sizeof host - 1);
  double now = wall_s();
  std::string path = fmt::format("{}/events.out.tfevents.{:010}.{}.{}", folder, static_cast<int64_t>(now), host, ::getpid());
  // TensorBoard takes the files of a folder in the order of their names; two runs of one process must not share one.
  std::FILE* file = std::fopen(path.c_str(), "wxe");
  for (int again = 1; file == nullptr && errno == EEXIST && again < 1000; ++again)
    file = std::fopen(fmt::format("{}.{}", path, again).c_str(), "wxe");
  if (file == nullptr) return format::write_failure(path, errno);
  std::unique_ptr<EventFile> out(new EventFile(file, path));
  std::string first = event_at(now);
  add_bytes(first, 3, "brain.Event:2");
  out->write(first);
  return out;
}

EventFile::~EventFile() {
  if (file_ != nullptr) std::fclose(file_);
}

void EventFile::write(const std::string& event) {
  std::string record = tf_record(event);
  if (std::fwrite(record.data(), 1, record.size(), file_) != record.size() && problem_ == 0) problem_ = errno;
}

void EventFile::add(int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  double now = wall_s();
  write(scalar_event(now, step, scalars));
  if (now - flushed_s_ < 1 && now >= flushed_s_) return;
  flushed_s_ = now;
  if (std::fflush(file_) != 0 && problem_ == 0) problem_ = errno;
}

Status EventFile::written() const {
  if (problem_ == 0) return Ok{};
  return format::write_failure(path_, problem_);
}

Status EventFile::close() {
  if (file_ == nullptr) return written();
  if (std::fclose(file_) != 0 && problem_ == 0) problem_ = errno;
  file_ = nullptr;
  return written();
}

}  // namespace nabla::cli

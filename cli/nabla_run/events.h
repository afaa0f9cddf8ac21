// Event files of TensorBoard: scalars by step, written by hand, since the format needs three kinds of protobuf fields.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::cli {

/// CRC-32C (Castagnoli), as RFC 3720 has it.
uint32_t crc32c(std::string_view bytes);
/// A record of a TFRecord file: size, masked CRC of the size, bytes, masked CRC of the bytes.
std::string tf_record(std::string_view bytes);
/// The protobuf message tensorflow.Event with one simple value for each scalar. `wall_s`: seconds since 1970.
std::string scalar_event(double wall_s, int64_t step, const std::vector<std::pair<std::string, double>>& scalars);

class EventFile {
 public:
  /// Makes `folder` when it is not there, and in it a file that TensorBoard finds. E0803 when that fails.
  static Result<std::unique_ptr<EventFile>> create(const std::string& folder);
  ~EventFile();
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  /// Reaches the file within a second of the next call, or with close().
  void add(int64_t step, const std::vector<std::pair<std::string, double>>& scalars);
  /// E0803 when something could not be written so far.
  Status written() const;
  /// E0803 when not all could be written.
  Status close();

 private:
  EventFile(std::FILE* file, std::string path) : file_(file), path_(std::move(path)) {}
  void write(const std::string& event);

  std::FILE* file_;
  std::string path_;
  int problem_ = 0;  ///< errno of what could not be written
  double flushed_s_ = 0;
};

}  // namespace nabla::cli

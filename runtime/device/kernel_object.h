// Native code from a bundle, loaded without touching a disk.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::device {

/// Units [begin, end) of one kernel; see Kernel in runtime/format/program.fbs.
using KernelFunction = void (*)(void* const* args, const long* extents, long begin, long end);

/// A loaded shared object; its functions live as long as it does.
class KernelObject {
 public:
  /// Loads `bytes` as a shared object; `name` stands in messages and debuggers. E0604 with the linker's reason.
  static Result<std::unique_ptr<KernelObject>> load(std::span<const uint8_t> bytes, const std::string& name);
  ~KernelObject();
  KernelObject(const KernelObject&) = delete;
  KernelObject& operator=(const KernelObject&) = delete;

  /// E0604 when the object has no such symbol.
  Result<KernelFunction> find(const std::string& symbol) const;

 private:
  KernelObject(void* handle, std::string name) : handle_(handle), name_(std::move(name)) {}
  void* handle_;
  std::string name_;
};

}  // namespace nabla::device

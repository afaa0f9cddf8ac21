// GEMM and convolution by oneDNN, opened at run time. Its primitives are made for one thread each; the work is
// partitioned over our own pool, so that no second pool of threads exists.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/dtype.h"
#include "runtime/device/library_call.h"
#include "runtime/device/pool.h"

namespace nabla::device {

class OneDnn {
 public:
  /// Opens `soname`. E0602 when it is not there, lacks a function or is older than `min_version` ("2.6", may be
  /// empty). The pool must outlive the object.
  static Result<std::unique_ptr<OneDnn>> open(const std::string& soname, const std::string& min_version,
                                              ThreadPool& pool);
  ~OneDnn();
  OneDnn(const OneDnn&) = delete;
  OneDnn& operator=(const OneDnn&) = delete;

  /// Equal specs share one call, which belongs to this object. E0602 when the library cannot do it here, E0103 for
  /// an unknown implementation.
  Result<LibraryCall*> gemm(const GemmSpec& spec);
  Result<LibraryCall*> convolution(const ConvolutionSpec& spec);

  /// "2.6.3"
  std::string version() const;

  struct Library;

 private:
  OneDnn() = default;
  std::unique_ptr<Library> library_;
};

}  // namespace nabla::device

// Arrays shared with other libraries without a copy, by the protocol of DLPack (dmlc/dlpack, version 0.8).
#pragma once

#include <pybind11/pybind11.h>

#include "frontend/python/native/value.h"

namespace nabla::python {

/// DLPack's number of the devices whose memory is the host's.
inline constexpr int kDlCpu = 1;

/// A capsule that keeps the array alive, or a `copy` of it. Raises BufferError for a traced value.
pybind11::capsule to_dlpack(const Value& v, bool copy);
/// The array of another library's object, not copied where it is row-major. Raises BufferError for what lies on a GPU,
/// for lanes, and for element types that nabla has not.
Value from_dlpack(const pybind11::object& source);

}  // namespace nabla::python

#include "frontend/python/native/dlpack.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace nabla::python {
namespace {

namespace py = pybind11;

// The structures of DLPack's C header.
struct DlDevice {
  int32_t type, id;
};
struct DlDataType {
  uint8_t code, bits;
  uint16_t lanes;
};
struct DlTensor {
  void* data;
  DlDevice device;
  int32_t ndim;
  DlDataType dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
};
struct DlManagedTensor {
  DlTensor tensor;
  void* manager;
  void (*deleter)(DlManagedTensor*);
};
constexpr const char *kFresh = "dltensor", *kUsed = "used_dltensor";

struct DlCode {
  DType dtype;
  uint8_t code, bits;
};
constexpr DlCode kCodes[] = {{DType::kBool, 6, 8}, {DType::kI8, 0, 8},   {DType::kI16, 0, 16}, {DType::kI32, 0, 32},
                             {DType::kI64, 0, 64}, {DType::kU8, 1, 8},   {DType::kU16, 1, 16}, {DType::kU32, 1, 32},
                             {DType::kU64, 1, 64}, {DType::kF16, 2, 16}, {DType::kF32, 2, 32}, {DType::kF64, 2, 64},
                             {DType::kBF16, 4, 16}};

// What a capsule owns.
struct ExportedTensor {
  DlManagedTensor managed;
  Literal array;
  std::vector<int64_t> shape, strides;
};

void free_unused(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kFresh)) return;
  auto* managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule, kFresh));
  if (managed->deleter) managed->deleter(managed);
}

bool row_major(const DlTensor& t) {
  if (!t.strides) return true;
  // Where there are no elements, strides say nothing.
  if (std::count(t.shape, t.shape + t.ndim, 0) > 0) return true;
  int64_t expected = 1;
  for (int32_t d = t.ndim - 1; d >= 0; --d) {
    if (t.shape[d] != 1 && t.strides[d] != expected) return false;
    expected *= t.shape[d];
  }
  return true;
}

}  // namespace

py::capsule to_dlpack(const Value& v, bool copy) {
  Literal array = v.array("__dlpack__()");
  if (copy) array = Literal::from_bytes(array.dtype(), array.shape(), array.data());
  auto* out = new ExportedTensor{{}, std::move(array), {}, {}};
  out->shape = out->array.shape();
  out->strides = strides_of(out->shape);
  DlTensor& t = out->managed.tensor;
  t = {const_cast<void*>(out->array.data()),
       {kDlCpu, 0},
       out->array.rank(),
       {},
       out->shape.data(),
       out->strides.data(),
       0};
  for (const DlCode& c : kCodes)
    if (c.dtype == out->array.dtype()) t.dtype = {c.code, c.bits, 1};
  out->managed.manager = out;
  out->managed.deleter = [](DlManagedTensor* m) { delete static_cast<ExportedTensor*>(m->manager); };
  if (t.dtype.lanes == 0) {
    std::string name(name_of(out->array.dtype()));
    delete out;
    throw py::buffer_error(name + " has no DLPack type");
  }
  return py::capsule(&out->managed, kFresh, &free_unused);
}

Value from_dlpack(const py::object& source) {
  py::object capsule = py::isinstance<py::capsule>(source) ? source : source.attr("__dlpack__")();
  if (!PyCapsule_IsValid(capsule.ptr(), kFresh)) throw py::buffer_error("not a DLPack capsule, or one that was used");
  auto* managed = static_cast<DlManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), kFresh));
  const DlTensor& t = managed->tensor;
  if (t.device.type != kDlCpu)
    throw py::buffer_error("the array lies on device type " + std::to_string(t.device.type) + ", not on a CPU");
  const DlCode* code = nullptr;
  for (const DlCode& c : kCodes)
    if (c.code == t.dtype.code && c.bits == t.dtype.bits && t.dtype.lanes == 1) code = &c;
  if (!code)
    throw py::buffer_error("DLPack type (" + std::to_string(t.dtype.code) + ", " + std::to_string(t.dtype.bits) +
                           " bits) is none of nabla's");
  if (!row_major(t)) throw py::buffer_error("the array is not row-major: make it contiguous, or use nabla.asarray");
  PyCapsule_SetName(capsule.ptr(), kUsed);
  std::shared_ptr<char> bytes(static_cast<char*>(t.data) + t.byte_offset, [managed](char*) {
    if (managed->deleter) managed->deleter(managed);
  });
  return Value(Literal::shared(code->dtype, {t.shape, t.shape + t.ndim}, std::move(bytes)));
}

}  // namespace nabla::python

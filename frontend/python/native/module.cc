// The extension module nabla._nabla.
#include <pybind11/pybind11.h>

#include <string>

#include "runtime/base/version.h"

PYBIND11_MODULE(_nabla, m) {
  m.def("version", [] { return std::string(nabla::kVersion); });
}

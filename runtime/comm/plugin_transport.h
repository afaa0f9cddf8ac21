// Transports that are shared objects beside the executable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/comm/transport.h"

namespace nabla::comm {

/// Opens `libnabla_NAME.so`: in the folder $NABLA_PLUGINS, in `folder` ("" or ending in /), beside the
/// executable, or where the system finds libraries.
/// E0602 names the places, and what the dynamic linker said; E0610 when the transport does not start.
Result<std::unique_ptr<Transport>> open_transport(const std::string& name, const std::string& folder = "");

/// Which of its machine's ranks this process is, and how many these are, as mpirun says; `otherwise` where it has started none.
uint32_t rank_of_mpirun(uint32_t otherwise);
uint32_t ranks_of_mpirun(uint32_t otherwise);

}  // namespace nabla::comm

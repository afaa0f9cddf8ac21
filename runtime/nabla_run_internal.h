// What the parts of the C API share.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/session.h"
#include "runtime/nabla_run.h"

struct nabla_status {
  nabla::Code code;
  std::string message;
};

struct nabla_session {
  std::unique_ptr<nabla::exec::Session> session;
  std::string weights_report;
  // Of the running call; kept, so that a step allocates nothing.
  std::vector<const void*> inputs;
  std::vector<void*> outputs;
  std::vector<const int64_t*> shapes;
  int32_t rank = 0, ranks = 1;   ///< of several processes
  std::function<void()> end;     ///< after the session; may be null
};

namespace nabla::api {

nabla_status* failed(const Diagnostics& errors);
exec::SessionOptions settings_of(const nabla_options* options);

}  // namespace nabla::api

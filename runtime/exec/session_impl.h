// What the files of Session share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/arena.h"
#include "runtime/exec/plan.h"
#include "runtime/exec/session.h"

namespace nabla::exec {

struct Session::Impl {
  Impl(format::Bundle b, const SessionOptions& o) : bundle(std::move(b)), options(o), pool(o.threads, o.pin_caller) {}

  const format::Program& program() const { return bundle.program(); }
  char* leaf_data(int leaf) const { return arena.data() + program().state()->Get(leaf)->offset(); }

  format::Bundle bundle;
  SessionOptions options;
  device::ThreadPool pool;
  std::unique_ptr<TraceRecorder> trace;  ///< null: not asked for, or already written
  Arena arena;
  std::vector<std::unique_ptr<device::KernelObject>> objects;
  std::vector<device::KernelFunction> kernels;
  std::unique_ptr<device::OneDnn> onednn;
  std::vector<Plan> plans;  ///< one per entry
};

}  // namespace nabla::exec

// What the files of Session share.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/exec/arena.h"
#include "runtime/exec/plan.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_writer.h"

namespace nabla::exec {

struct Session::Impl {
  Impl(format::Bundle b, const SessionOptions& o) : bundle(std::move(b)), options(o), pool(o.threads, o.pin_caller) {}

  const format::Program& program() const { return bundle.program(); }
  char* leaf_data(int leaf) const { return arena.data() + program().state()->Get(leaf)->offset(); }

  format::Bundle bundle;
  SessionOptions options;
  device::ThreadPool pool;
  std::unique_ptr<TraceRecorder> trace;  ///< null: not asked for, or already written
  std::unique_ptr<NanCheck> check;       ///< null: not asked for
  Arena arena;
  std::vector<std::unique_ptr<device::KernelObject>> objects;
  std::vector<device::KernelFunction> kernels;
  std::unique_ptr<device::OneDnn> onednn;
  Binder binder() {
    return {.arena = arena.data(),
            .constants = reinterpret_cast<const char*>(bundle.member(format::kConstantsMember).data()),
            .kernels = kernels,
            .onednn = [this] { return open_onednn(); },
            .trace = trace.get(),
            .check_nan = check != nullptr};
  }
  Result<device::OneDnn*> open_onednn();

  std::vector<EntryPlan> plans;  ///< one per entry
  std::vector<int64_t> values;   ///< of the symbols being solved; kept, so that a step allocates nothing
};

}  // namespace nabla::exec

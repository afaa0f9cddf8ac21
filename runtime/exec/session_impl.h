// What the files of Session share.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/exec/engine.h"
#include "runtime/exec/plan.h"
#include "runtime/exec/profile.h"
#include "runtime/exec/session.h"

namespace nabla::exec {

struct Session::Impl {
  Impl(format::Bundle b, const SessionOptions& o) : bundle(std::move(b)), options(o) {}

  char* leaf_data(int leaf) const { return engine->arena() + program->state()->Get(leaf)->offset(); }
  Binder binder() { return {.engine = *engine, .trace = trace.get(), .check_nan = check != nullptr}; }

  /// The limits of this machine, measured once.
  const device::Limits& measured() {
    if (!limits) limits = engine->limits();
    return *limits;
  }

  format::Bundle bundle;
  SessionOptions options;
  const format::Program* program = nullptr;  ///< the one of the bundle that runs
  std::unique_ptr<Engine> engine;
  std::unique_ptr<TraceRecorder> trace;  ///< null: not asked for, or already written
  std::optional<device::Limits> limits;
  std::unique_ptr<NanCheck> check;       ///< null: not asked for
  std::vector<EntryPlan> plans;          ///< one per entry
  std::vector<int64_t> values;           ///< of the symbols being solved; kept, so that a step allocates nothing
};

}  // namespace nabla::exec

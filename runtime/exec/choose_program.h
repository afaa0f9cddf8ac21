// Which program of a bundle runs on this machine.
#pragma once

#include <optional>
#include <string>

#include "runtime/base/diagnostic.h"
#include "runtime/device/cuda_driver.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {

struct Chosen {
  const format::Program* program = nullptr;
  std::optional<device::CudaDevice> gpu;  ///< of a GPU program
  std::string skipped;                    ///< one line: which earlier programs do not run here, and why; may be empty
};

/// Of the programs of a class the one for `target` ("cpu" is the first for CPUs), or for "" the first that this machine
/// can run, of whose GPUs it is to be number `gpu`. E0404 for a target that the class does not have; E0601, E0605 or E0606
/// when nothing runs.
Result<Chosen> choose_program(const format::Bundle& bundle, const format::BundleClass& of, const std::string& target, int gpu = 0);
/// The GPU that the `turn`-th of several ranks on a machine takes, modulo how many there are; it has to run what was chosen.
Result<std::optional<device::CudaDevice>> gpu_of(const format::Bundle& bundle, const format::BundleClass& of, const Chosen& chosen,
                                                 uint32_t turn);

}  // namespace nabla::exec

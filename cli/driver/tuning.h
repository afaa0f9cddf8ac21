// Tuning files: which implementation measured fastest for a problem on one machine. A tuning file is an input of
// the compile, so that bundles stay reproducible. Its lines:
//   nabla-tuning 3                          first; 2 had no `machine`, 1 no `target` and no `record` either
//   target cpu:x86-64-v3                    for which the choices below hold; those above hold for every CPU
//   gemm f32 1x64x128x64 nn = sgemm         a choice; `gemm` alone stands for all without one
//   machine step = 0.09                     a rate of its CPUs (machine.h), by which work for this target is predicted
//   record NVIDIA H200 | 13.1.0 | ... = ..  an algorithm of a GPU's library, which the runtime measured
// and # starts a comment.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "ir/op_def.h"
#include "ir/target.h"

namespace nabla::driver {

struct Tuning {
  std::map<std::string, std::map<std::string, std::string>> choices;  ///< by target; "": for every CPU
  std::map<std::string, ir::CpuRates> rates;  ///< by target
  std::vector<GemmRecord> records;

  /// Does anything in it concern the target? True when nothing in it concerns any.
  bool concerns(const ir::Target& target) const;
  /// Puts what concerns the target into it.
  void apply(ir::Target& target) const;
  /// "cpu:x86-64-v4, sm_90a"
  std::string targets() const;
};

/// E0503 with the line.
Result<Tuning> read_tuning(const std::string& path);

/// The text of a tuning file with these records, in the place of those that they replace.
std::string with_records(const std::string& text, const std::vector<GemmRecord>& records);
/// A tuning file without choices.
std::string empty_tuning();

/// Measures the rates of this machine's CPUs, and every matrix product of the module, generated code against each library path, and
/// returns the file's text. `progress` gets a line per problem.
Result<std::string> tune(const ir::Module& flat, const ir::OpTable& ops, const ir::Target& target, int threads,
                         const std::function<void(const std::string&)>& progress);

}  // namespace nabla::driver

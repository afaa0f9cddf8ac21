// Functions whose matrix products and convolutions run in 16-bit floats. Nothing here knows an op by name.
#pragma once

#include <map>
#include <string>
#include <utility>

#include "ir/op_def.h"

namespace nabla::passes {

/// Makes functions with the same types and lower precision inside, on demand, and adds them to a module, each once.
/// Contractions and convolutions, also those of composites, take and give `dtype` where they had f32. Ops that only
/// move elements follow what they move, so that a value that was stored in 16 bits stays so. All other ops are
/// computed in f32: where they fuse with a product that costs nothing. (Micikevicius et al., Mixed Precision Training,
/// 2018: parameters, their gradients and sums stay f32.)
class Autocaster {
 public:
  /// Both outlive it. Functions must be free of transforms.
  Autocaster(ir::Module& module, const ir::OpTable& ops) : module_(module), ops_(ops) {}
  Autocaster(const Autocaster&) = delete;

  /// The name of `function` in this precision: of the same type, functions that it calls included.
  std::string cast(const std::string& function, DType dtype);

 private:
  ir::Module& module_;
  const ir::OpTable& ops_;
  std::map<std::pair<std::string, DType>, std::string> made_;
};

}  // namespace nabla::passes

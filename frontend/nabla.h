// The C++ frontend: trace functions, differentiate them, and save programs for nablac. It holds no maths: every
// function below adds a node.
//
//   nabla::Program program;
//   nabla::State w = program.state("w", nabla::f32, {3});
//   program.entry("step", {{"x", nabla::f32, {3}}}, [&](nabla::Tensor x) -> nabla::Outputs {
//     auto loss = [&](nabla::Tensor p) { return nabla::sum(p * x); };
//     auto [value, g] = nabla::value_and_grad(loss)(w.get());
//     w.set(w.get() - 0.1 * g);
//     return {{"loss", value}};
//   });
//   program.save("model.nir");
#pragma once

#include "frontend/cpp/array.h"            // IWYU pragma: export
#include "frontend/cpp/control_flow.h"     // IWYU pragma: export
#include "frontend/cpp/convenience.h"      // IWYU pragma: export
#include "frontend/cpp/custom_rules.h"     // IWYU pragma: export
#include "frontend/cpp/debug.h"            // IWYU pragma: export
#include "frontend/cpp/fft.h"              // IWYU pragma: export
#include "frontend/cpp/indexing.h"         // IWYU pragma: export
#include "frontend/cpp/layers.h"           // IWYU pragma: export
#include "frontend/cpp/linalg.h"           // IWYU pragma: export
#include "frontend/cpp/lora.h"             // IWYU pragma: export
#include "frontend/cpp/losses.h"           // IWYU pragma: export
#include "frontend/cpp/manual.h"           // IWYU pragma: export
#include "frontend/cpp/mixed_precision.h"  // IWYU pragma: export
#include "frontend/cpp/nn.h"               // IWYU pragma: export
#include "frontend/cpp/ops.h"              // IWYU pragma: export
#include "frontend/cpp/optimizers.h"       // IWYU pragma: export
#include "frontend/cpp/program.h"          // IWYU pragma: export
#include "frontend/cpp/quantize.h"         // IWYU pragma: export
#include "frontend/cpp/rnn.h"              // IWYU pragma: export
#include "frontend/cpp/sharding.h"         // IWYU pragma: export
#include "frontend/cpp/tensor.h"           // IWYU pragma: export
#include "frontend/cpp/trace.h"            // IWYU pragma: export
#include "frontend/cpp/transformer.h"      // IWYU pragma: export
#include "frontend/cpp/transforms.h"       // IWYU pragma: export
#include "frontend/cpp/user_kernel.h"      // IWYU pragma: export
#include "frontend/cpp/windows.h"          // IWYU pragma: export

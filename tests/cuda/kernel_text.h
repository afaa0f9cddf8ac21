// Kernels of kernel_ir, as they stand in a test's text: printed for a GPU and run thread by thread.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::kernel_ir {

inline ir::Target gpu() { return ir::find_target("sm_90a").value(); }

/// Test failures, with the printed code, unless emulator::expect_right holds on drawn operands: of the code that asks where arrays lie,
/// and, where the copy engine brings tiles of arrays that begin at packs, of that.
inline void expect_kernel(const Kernel& k, const ir::Target& target = gpu(), const emulator::Expectation& e = {}) {
  for (bool at_packs : {false, true}) {
    auto code = print_for_gpu(k, "nk_" + k.name, target, at_packs);
    ASSERT_TRUE(code.ok()) << to_string(code.errors());
    if (at_packs && code->grids.back().maps.empty()) return;
    emulator::expect_right(k, *code, draw_buffers(k), e);
    if (testing::Test::HasFailure()) ADD_FAILURE() << code->text;
  }
}
inline void expect_text(const std::string& text, const ir::Target& target = gpu(),
                        const emulator::Expectation& e = {}) {
  auto k = parse_kernel(text, "kernel");
  ASSERT_TRUE(k.ok()) << to_string(k.errors());
  expect_kernel(*k, target, e);
}

}  // namespace nabla::kernel_ir

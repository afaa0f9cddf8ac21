// Which kernels of a planned module need not ask where their arrays lie.
#include "codegen/cuda/alignment.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/driver/compile.h"
#include "codegen/cuda/backend.h"
#include "frontend/nabla.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::codegen {
namespace {

struct Found {
  std::vector<bool> at_packs;
  bool asks;  // in the printed code
};

// A loop over the rows of an array, and a kernel beside it.
Found rows_of(int64_t columns) {
  Program p;
  p.entry("f", {{"x", f32, {16, columns}}, {"y", f32, {4096}}}, [](const std::vector<Tensor>& in) -> Outputs {
    auto [last, all] = scan(
        [](Tensor carry, Tensor row) { return std::pair(carry * 0.5 + row, exp(row) * 2.0); }, zeros({in[0].shape()[1]}), in[0]);
    return {{"last", last}, {"all", all}, {"y", in[1] * 2.0}};
  });
  Result<driver::CompiledModule> lowered = driver::lower_module(p.module(), {.target = "sm_90a", .library = false});
  if (!lowered.ok()) return ADD_FAILURE() << to_string(lowered.errors()), Found{};
  Found out{kernels_at_packs(lowered->planned), false};
  CudaCode code = print_cuda(lowered->planned, lowered->target).value();
  for (const SourceFile& s : code.sources) out.asks |= s.text.find("if (nb_is_aligned(") != std::string::npos;
  return out;
}

TEST(Alignment, RowsOfWholePacksBeginAtPacks) {
  Found found = rows_of(64);
  EXPECT_TRUE(std::ranges::all_of(found.at_packs, [](bool at) { return at; }));
  EXPECT_FALSE(found.asks);
}

// Factors and results of products of all kinds: f32 by multiply-adds, rounded to tf32, bf16 by warps and by warpgroups.
TEST(Alignment, ProductsOfWholeArraysAskNothing) {
  struct Case {
    const char* target;
    const char* dtype;
    bool tf32;
  };
  for (const Case& c : {Case{"sm_90a", "f32", false}, {"sm_90a", "f32", true}, {"sm_80", "bf16", false}, {"sm_90a", "bf16", false}}) {
    const std::string text = fmt::format(R"(nabla 1 flat
entry main calls @main {{
  inputs x, w, b
  outputs y
}}
func @main(%x: {0}[128,256], %w: {0}[256,128], %b: {0}[128]) {{
  %p = dot_general(%x, %w) {{lhs_contract=[1], rhs_contract=[0]}}
  %r = broadcast_in_dim(%b) {{dims=[1], shape=[128,128]}}
  %y = add(%p, %r)
  return %y
}}
)", c.dtype);
    Result<ir::Module> m = ir::parse_module(text, "m.nbl", ops::all_ops());
    ASSERT_TRUE(m.ok()) << to_string(m.errors());
    Result<driver::CompiledModule> lowered = driver::lower_module(*m, {.target = c.target, .library = false, .tf32 = c.tf32});
    ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
    CudaCode code = print_cuda(lowered->planned, lowered->target).value();
    for (const SourceFile& s : code.sources) {
      EXPECT_NE(s.text.find("float acc_["), std::string::npos) << c.dtype;
      EXPECT_EQ(s.text.find("if (nb_is_aligned("), std::string::npos) << c.target << " " << c.dtype;
    }
  }
}

// Rows of 24 bytes: the second one begins where no pack does. The kernel beside the loop asks nothing.
TEST(Alignment, RowsBetweenPacksAreAskedFor) {
  Found found = rows_of(6);
  EXPECT_GE(std::ranges::count(found.at_packs, false), 1);
  EXPECT_GE(std::ranges::count(found.at_packs, true), 1);
}

// The function of an entry that is the body of another one's loop, too, finds rows of 24 bytes there.
TEST(Alignment, EntriesThatLoopsRunFindRows) {
  const char* const text = R"(nabla 1 traced
entry row calls @row {
  inputs h, x
  outputs last, all
}
{}func @row(%h: f32[6], %x: f32[6]) {
  %p = mul(%h, %x)
  %q = add(%p, %x)
  return %q, %p
}
func @rows(%h: f32[6], %xs: f32[16,6]) {
  %c, %all = scan(%h, %xs) {body=@row, consts=0, carries=1, length=[16]}
  return %c, %all
}
)";
  auto at_packs = [&](const std::string& more) {
    std::string whole = text;
    whole.replace(whole.find("{}"), 2, more);
    ir::Module m = ir::parse_module(whole, "rows.nbl", ops::all_ops()).value();
    Result<driver::CompiledModule> lowered = driver::lower_module(m, {.target = "sm_90a", .library = false});
    if (!lowered.ok()) return ADD_FAILURE() << to_string(lowered.errors()), false;
    return std::ranges::all_of(kernels_at_packs(lowered->planned), [](bool at) { return at; });
  };
  EXPECT_TRUE(at_packs(""));
  EXPECT_FALSE(at_packs("entry rows calls @rows {\n  inputs h, xs\n  outputs last, all\n}\n"));
}

}  // namespace
}  // namespace nabla::codegen

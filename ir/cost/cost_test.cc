#include "ir/cost/time.h"

#include <gtest/gtest.h>

#include "ir/cost/exchange.h"
#include "ir/kernel_ir/text.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"

namespace nabla::ir {
namespace {

Module parsed(const std::string& text) {
  Result<Module> m = parse_module(text, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << (m.ok() ? "" : m.errors()[0].message);
  return *m;
}

TEST(Work, OfANodeIsWhatItsRecordAndItsTypesSay) {
  Module m = parsed(R"(nabla 1 flat
symbol n in [1, 64]
entry main calls @main {
  inputs x, w
  outputs y, z
}
func @main(%x: f32[n,8], %w: f32[8,4]) {
  %y = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %z = mul(%x, %x)
  return %y, %z
}
)");
  const Function& f = *m.find("main");
  const Node &product = f.nodes[0], &square = f.nodes[1];
  Dim n = f.type(f.params[0]).shape[0];
  EXPECT_EQ(node_flops(f, product).str(), (Dim(2 * 8 * 4) * n).str());
  EXPECT_EQ(operand_bytes(f, product).str(), (Dim(4 * (8 + 4)) * n + Dim(4 * 8 * 4)).str());
  // An operand that stands there twice is read once.
  EXPECT_EQ(operand_bytes(f, square).str(), (Dim(2 * 4 * 8) * n).str());
}

TEST(Work, OfAKernelCountsWhatItCanReach) {
  Module m = parsed(R"(nabla 1 kernels
kernel @product(in a: f32[16,32], in b: f32[32,8], out c: f32[16,8]) {
  axes i = 16, j = 8, r0 = 32
  schedule unit 1 units 128 threads 1
  for i, j {
    let sum: f32 = sum(r0) a[i, r0] * b[r0, j]
    store c[i, j] = sum
  }
}
)");
  Work work = kernel_work(*m.kernels[0]);
  EXPECT_EQ(work.flops.str(), std::to_string(2 * 16 * 8 * 32));
  EXPECT_EQ(work.bytes.str(), std::to_string(4 * (16 * 32 + 32 * 8 + 16 * 8)));
  EXPECT_EQ(work.factors, DType::kF32);
}

TEST(Work, ArithmeticIsTheSumOfTheScalarsOwnCosts) {
  const kernel_ir::ScalarFn &exp = *kernel_ir::find_scalar("exp"), &add = *kernel_ir::find_scalar("add");
  EXPECT_GT(exp.cost, add.cost);
  EXPECT_EQ(kernel_ir::find_scalar("convert")->cost, 0);
  for (const kernel_ir::ScalarFn& f : kernel_ir::all_scalars()) EXPECT_GE(f.cost, f.name == "convert" ? 0 : 1) << f.name;
}

TEST(Time, OfAGpuIsThatOfWhatTakesLonger) {
  Target gpu = *find_target("sm_90");
  double moved = 1e6 / bytes_per_us(gpu), multiplied = 1e9 / product_rate(DType::kF32, gpu).flops_per_us;
  EXPECT_DOUBLE_EQ(least_us({1000000, 0, DType::kF32}, gpu), moved);
  EXPECT_DOUBLE_EQ(least_us({1000000, 1000000000, DType::kF32}, gpu), std::max(moved, multiplied));
  EXPECT_GT(multiplied, moved);
  EXPECT_GT(product_rate(DType::kBF16, gpu).flops_per_us, product_rate(DType::kF32, gpu).flops_per_us);
  EXPECT_EQ(product_rate(DType::kF32, gpu).compute, "f32");
  gpu.tf32 = true;
  EXPECT_EQ(product_rate(DType::kF32, gpu).compute, "tf32");
}

TEST(Time, OfAThreadGrowsWithWorkAndShrinksWithLanes) {
  EXPECT_DOUBLE_EQ(thread_ns(2000, 16, 4, 8), 2 * thread_ns(1000, 16, 4, 8));
  EXPECT_DOUBLE_EQ(thread_ns(1000, 16, 4, 8), 2 * thread_ns(1000, 16, 4, 16));
  EXPECT_GT(thread_ns(1000, 60, 4, 8), thread_ns(1000, 1, 4, 8));
  EXPECT_DOUBLE_EQ(thread_ns_of_products(1e6, 8), 2 * thread_ns_of_products(1e6, 16));
}

TEST(Exchange, CountsMessagesAndBytes) {
  Mesh mesh{"m", {{"far", 4}, {"near", 4}}, nullptr};
  EXPECT_EQ(sent_bytes("all_gather", 4, 100), 300);
  EXPECT_EQ(sent_bytes("reduce_scatter", 4, 100), 75);
  EXPECT_EQ(sent_bytes("all_reduce", 4, 100), 150);
  EXPECT_EQ(sent_bytes("all_to_all", 4, 100), 75);
  EXPECT_EQ(sent_bytes("permute", 4, 100), 100);
  Link link = link_along(mesh, {{"near"}});
  EXPECT_DOUBLE_EQ(exchange_us("all_reduce", mesh, {{"near"}}, 100), 4 * link.message_us + 150 / link.bytes_per_us);
  EXPECT_EQ(exchange_us("all_reduce", mesh, {}, 100), 0);
}

// Ranks 0 to 7 share a machine: a part of `far` that reaches over eight of them is near.
TEST(Exchange, SlowestAxisCounts) {
  Mesh mesh{"m", {{"far", 4}, {"near", 4}}, nullptr};
  double near = link_along(mesh, {{"near"}}).bytes_per_us, far = link_along(mesh, {{"far"}}).bytes_per_us;
  EXPECT_GT(near, far);
  EXPECT_EQ(link_along(mesh, {{"near"}, {"far"}}).bytes_per_us, far);
  EXPECT_EQ(link_along(mesh, {{"far", 2, 2}}).bytes_per_us, near);
}

}  // namespace
}  // namespace nabla::ir

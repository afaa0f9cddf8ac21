// The kernels that settle kernel_ir, each written by hand in its text form: they must read back as they print, and
// the code printed for them must agree with the interpreter.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>

#include "codegen/cpu/backend.h"
#include "ir/kernel_ir/kernel.h"

namespace nabla {
namespace {

using kernel_ir::BufferRole;

kernel_ir::Kernel read(const std::string& name) {
  std::string path = "tests/golden/kernel_ir/" + name + ".nbk";
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return kernel_ir::parse_kernel(text.str(), path).value();
}

std::vector<Literal> draw(const kernel_ir::Kernel& k) {
  std::mt19937 rng(7);
  std::vector<Literal> out;
  for (const auto& b : k.buffers) {
    Literal t(b.dtype, ir::Type(b.dtype, b.shape).extents());
    for (int64_t i = 0; i < t.size(); ++i) {
      if (is_float(b.dtype)) t.set(i, std::uniform_real_distribution<double>(0.25, 2)(rng));
      else t.set_i(i, static_cast<int64_t>(rng() % 14) - 2);
    }
    if (b.role == BufferRole::kOut)
      for (int64_t i = 0; i < t.size(); ++i) t.set(i, std::nan(""));  // every element must be written
    out.push_back(std::move(t));
  }
  return out;
}

using KernelFn = void (*)(void* const*, const long*, long, long);

void run_compiled(const kernel_ir::Kernel& k, const std::string& target_name, std::vector<Literal>& buffers) {
  ir::Target target = ir::find_target(target_name).value();
  auto shared = std::make_shared<kernel_ir::Kernel>(k);
  codegen::CpuCode code = codegen::print_cpu({shared}, target, 1);
  std::string object = codegen::compile_shared_object(code.sources, target, {1, ""}).value();
  int fd = memfd_create("kernels", 0);
  ASSERT_EQ(write(fd, object.data(), object.size()), static_cast<ssize_t>(object.size()));
  void* library = dlopen(fmt::format("/proc/self/fd/{}", fd).c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  auto fn = reinterpret_cast<KernelFn>(dlsym(library, code.symbols[0].c_str()));
  ASSERT_NE(fn, nullptr);
  std::vector<void*> args;
  for (Literal& b : buffers) args.push_back(b.mutable_data());
  for (int64_t u = 0; u < k.schedule.units; ++u) fn(args.data(), nullptr, u, u + 1);  // units in any cut
  dlclose(library);
  close(fd);
}

class NineKernels : public testing::TestWithParam<const char*> {};

TEST_P(NineKernels, PrintsAndParsesBack) {
  kernel_ir::Kernel k = read(GetParam());
  std::string text = kernel_ir::print(k);
  kernel_ir::Kernel again = kernel_ir::parse_kernel(text, "printed").value();
  EXPECT_EQ(kernel_ir::print(again), text);
}

TEST_P(NineKernels, GeneratedCodeAgreesWithTheInterpreter) {
  kernel_ir::Kernel k = read(GetParam());
  for (const char* target : {"cpu:x86-64-v3", "cpu:native"}) {
    std::vector<Literal> want = draw(k), got = draw(k);
    std::vector<Literal*> pointers;
    for (Literal& b : want) pointers.push_back(&b);
    kernel_ir::interpret(k, pointers);
    run_compiled(k, target, got);
    for (size_t b = 0; b < want.size(); ++b) {
      double scale = 1;  // sums of terms that cancel are right to the size of the terms
      for (int64_t i = 0; i < want[b].size(); ++i) scale = std::max(scale, std::fabs(want[b].get(i)));
      for (int64_t i = 0; i < want[b].size(); ++i)
        ASSERT_NEAR(got[b].get(i), want[b].get(i), 2e-5 * scale) << target << " " << k.buffers[b].name << "[" << i << "]";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, NineKernels,
                         testing::Values("matmul_gelu", "softmax", "norm_backward", "attention_forward", "attention_backward",
                                         "cumsum", "scatter_add", "max_pool_grad", "adamw_group"),
                         [](const auto& info) { return std::string(info.param); });

TEST(KernelText, ErrorsShowThePlace) {
  Result<kernel_ir::Kernel> k = kernel_ir::parse_kernel("kernel @f(in x: f32[4], out y: f32[4]) {\n  axes i = 4\n  for i {\n    store y[i] = ex(x[i])\n  }\n}\n", "f.nbk");
  ASSERT_FALSE(k.ok());
  EXPECT_EQ(k.errors()[0].str(),
            "error[E0101]: `ex` is no axis, value, buffer or function\n  --> f.nbk:4:20\n   |     store y[i] = ex(x[i])\n"
            "   |                    ^\n   = help: correct the text at the place shown\n");
}

}  // namespace
}  // namespace nabla

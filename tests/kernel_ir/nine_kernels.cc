#include "tests/kernel_ir/nine_kernels.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <random>
#include <sstream>

#include "codegen/cpu/backend.h"
#include "passes/lower/schedule_kernels.h"

namespace nabla::kernel_ir {

std::vector<std::string> nine_kernels() {
  return {"matmul_gelu", "softmax",     "norm_backward", "attention_forward", "attention_backward",
          "cumsum",      "scatter_add", "max_pool_grad", "adamw_group"};
}

Kernel read_kernel(const std::string& name) {
  std::string path = "tests/golden/kernel_ir/" + name + ".nbk";
  std::ifstream in(path);
  std::ostringstream text;
  text << in.rdbuf();
  return parse_kernel(text.str(), path).value();
}

std::vector<Literal> draw_buffers(const Kernel& k) {
  std::mt19937 rng(7);
  std::vector<Literal> out;
  for (const Buffer& b : k.buffers) {
    Literal t(b.dtype, ir::Type(b.dtype, b.shape).extents());
    for (int64_t i = 0; i < t.size(); ++i) {
      if (is_float(b.dtype))
        t.set(i, std::uniform_real_distribution<double>(0.25, 2)(rng));
      else
        t.set_i(i, static_cast<int64_t>(rng() % 14) - 2);
    }
    if (b.role == BufferRole::kOut)
      for (int64_t i = 0; i < t.size(); ++i) is_float(b.dtype) ? t.set(i, std::nan("")) : t.set_i(i, 99);
    out.push_back(std::move(t));
  }
  return out;
}

Result<Kernel> scheduled_for_gpu(Kernel k, const ir::Target& target) {
  const int64_t unit = cpu_schedule_of(k).unit;
  std::vector<Buffer> buffers = k.buffers;
  NABLA_TRY(passes::schedule_cuda(k, target));
  Status sound = check_schedule(k);
  EXPECT_TRUE(sound.ok()) << to_string(sound.errors()) << print(k);
  k.buffers = std::move(buffers);
  CudaSchedule& s = std::get<CudaSchedule>(*k.schedule);
  if (s.procedure_template == TemplateKind::kBlockPerRow || s.procedure_template == TemplateKind::kThreadPerRow)
    std::get<TemplateMapping>(s.grids[0].mapping).tile_rows = unit;
  if (symbols_of(k).empty()) {
    EXPECT_EQ(print(parse_kernel(print(k), "scheduled").value()), print(k));
  }
  return k;
}

Result<codegen::CudaKernel> print_for_gpu(Kernel k, const std::string& symbol, const ir::Target& target, bool at_packs) {
  return codegen::print_cuda(NABLA_TRY(scheduled_for_gpu(std::move(k), target)), symbol, at_packs);
}

std::vector<Literal> interpreted(const Kernel& k) {
  std::vector<Literal> out = draw_buffers(k);
  std::vector<Literal*> pointers;
  for (Literal& b : out) pointers.push_back(&b);
  interpret(k, pointers);
  return out;
}

void expect_near(const Kernel& k, const std::vector<Literal>& want, const std::vector<Literal>& got) {
  for (size_t b = 0; b < want.size(); ++b) {
    double scale = 1;  // sums of terms that cancel are right to the size of the terms
    for (int64_t i = 0; i < want[b].size(); ++i) scale = std::max(scale, std::fabs(want[b].get(i)));
    for (int64_t i = 0; i < want[b].size(); ++i)
      ASSERT_NEAR(got[b].get(i), want[b].get(i), 2e-5 * scale) << k.name << " " << k.buffers[b].name << "[" << i << "]";
  }
}

Library::Library(const std::string& object) : fd_(memfd_create("kernels", 0)) {
  EXPECT_EQ(write(fd_, object.data(), object.size()), static_cast<ssize_t>(object.size()));
  handle_ = dlopen(fmt::format("/proc/self/fd/{}", fd_).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(handle_, nullptr) << dlerror();
}

Library::~Library() {
  if (handle_) dlclose(handle_);
  close(fd_);
}

void* Library::find(const std::string& symbol) const {
  void* found = handle_ ? dlsym(handle_, symbol.c_str()) : nullptr;
  EXPECT_NE(found, nullptr) << symbol;
  return found;
}

CompiledKernels::CompiledKernels(const std::vector<Kernel>& kernels, const ir::Target& target) {
  std::vector<KernelPtr> pointers;
  for (const Kernel& k : kernels) {
    auto own = std::make_shared<Kernel>(k);
    own->name = fmt::format("{}_{}", k.name, pointers.size());  // kernels of one program have names of their own
    pointers.push_back(std::move(own));
    units_.push_back(cpu_schedule_of(k).units.value());
  }
  codegen::CpuCode code = codegen::print_cpu(pointers, target, 2);
  library_ = std::make_unique<Library>(codegen::compile_shared_object(code.sources, target, {2, ""}).value());
  for (const std::string& symbol : code.symbols) functions_.push_back(reinterpret_cast<Function>(library_->find(symbol)));
}

void CompiledKernels::run(size_t kernel, const std::vector<void*>& args) const {
  for (int64_t u = 0; u < units_[kernel]; ++u) functions_[kernel](args.data(), nullptr, u, u + 1);  // units in any cut
}

}  // namespace nabla::kernel_ir

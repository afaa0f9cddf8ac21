#include "runtime/exec/test_gpu.h"

#include <dlfcn.h>
#include <elf.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "runtime/exec/test_bundle.h"
#include "runtime/format/sha256.h"

namespace nabla::exec {
namespace {

using namespace nabla::format;  // NOLINT: a table of schema objects

constexpr const char* kObject = "kernels/sm_90a_0.cubin";

std::string runfile(const std::string& path) {
  const char* source = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  return fmt::format("{}/{}/{}", source, workspace != nullptr ? workspace : "nabla", path);
}

}  // namespace

std::string toy_cubin() {
  const std::string payload = "toy kernels, which test_gpu_kernels.cc holds";
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_machine = 190;
  header.e_phoff = sizeof header, header.e_phnum = 1, header.e_phentsize = sizeof(Elf64_Phdr);
  Elf64_Phdr segment{};
  segment.p_filesz = sizeof header + sizeof segment + payload.size();
  std::string out(reinterpret_cast<const char*>(&header), sizeof header);
  return out.append(reinterpret_cast<const char*>(&segment), sizeof segment) + payload;
}

FakeGpu::FakeGpu(const std::string& variable, const std::string& value) {
  if (!variable.empty()) environment_[variable] = value;
  std::string folder = fmt::format("{}/fake_cuda", std::getenv("TEST_TMPDIR"));
  std::filesystem::create_directories(folder);
  std::string object = fmt::format("{}/{}.so", folder, sha256_hex(as_bytes(toy_cubin())));
  if (!std::filesystem::exists(object))
    std::filesystem::create_symlink(runfile("runtime/exec/libtest_gpu_kernels.so"), object);
  std::string driver = runfile("tests/cuda/fake_driver/libfake_cuda.so");
  environment_.insert({{"NABLA_CUDA_DRIVER", driver}, {"NABLA_FAKE_CUDA", folder}});
  for (const auto& [name, text] : environment_) setenv(name.c_str(), text.c_str(), 1);
  library_ = ::dlopen(driver.c_str(), RTLD_NOW | RTLD_LOCAL);
  NABLA_CHECK(library_ != nullptr, "{}", ::dlerror());
  reinterpret_cast<void (*)()>(::dlsym(library_, "nb_fake_cuda_reset"))();
}

FakeGpu::~FakeGpu() {
  for (const auto& [name, value] : environment_) unsetenv(name.c_str());
}

int FakeGpu::count(const std::string& name) const {
  return reinterpret_cast<int (*)(const char*)>(::dlsym(library_, "nb_fake_cuda_count"))(name.c_str());
}
int64_t FakeGpu::pinned() const { return reinterpret_cast<int64_t (*)()>(::dlsym(library_, "nb_fake_cuda_pinned"))(); }
int FakeGpu::live() const { return reinterpret_cast<int (*)()>(::dlsym(library_, "nb_fake_cuda_live"))(); }

uint32_t add_kernel(ProgramT& program, const std::vector<std::string>& symbols, int64_t blocks, uint32_t threads) {
  auto kernel = std::make_unique<KernelT>();
  kernel->symbol = kernel->name = symbols[0];
  kernel->object = kObject;
  for (const std::string& symbol : symbols) {
    kernel->grids.push_back(std::make_unique<GridT>());
    GridT& grid = *kernel->grids.back();
    grid.symbol = symbol, grid.blocks = blocks, grid.threads = threads;
  }
  program.kernels.push_back(std::move(kernel));
  return static_cast<uint32_t>(program.kernels.size() - 1);
}

std::unique_ptr<ProgramT> toy_gpu_program(const ProgramChange& change) {
  std::unique_ptr<ProgramT> out = toy_program();
  out->target = "sm_90a";
  out->compute = 90, out->specific = true;
  out->cpu_features.clear();
  out->kernels.clear();
  add_kernel(*out, {"toy_init"}, 1, 4);
  add_kernel(*out, {"toy_step"}, 1, 1);
  add_kernel(*out, {"toy_eval"}, 1, 1);
  add_kernel(*out, {"toy_predict"}, 2, 4);
  if (change) change(*out);
  return out;
}

std::string toy_gpu_bundle(const ProgramT& program, bool with_cpu) {
  std::unique_ptr<ProgramT> cpu = toy_program();
  std::vector<const ProgramT*> programs = {&program};
  if (with_cpu) programs.push_back(cpu.get());
  return bundle_of(programs, {{kObject, toy_cubin()}});
}

Result<std::unique_ptr<Session>> open_bytes(const std::string& bytes, const SessionOptions& options) {
  auto bundle = Bundle::from_bytes(FileBytes::copy_of(as_bytes(bytes)), "toy.nbundle");
  if (!bundle.ok()) return bundle.errors();
  return Session::create(std::move(*bundle), options);
}

Result<std::unique_ptr<Session>> open_gpu(const ProgramChange& change, const SessionOptions& options) {
  return open_bytes(toy_gpu_bundle(*toy_gpu_program(change)), options);
}

std::unique_ptr<AddressT> at(BaseKind base, uint16_t index, uint64_t offset, uint64_t bytes,
                             std::vector<RegisterTerm> terms) {
  auto out = std::make_unique<AddressT>();
  out->base = base, out->index = index, out->offset = offset, out->bytes = bytes;
  out->terms = std::move(terms);
  return out;
}

std::unique_ptr<TensorT> tensor(const char* name, std::vector<int64_t> shape, format::DType dtype) {
  auto out = std::make_unique<TensorT>();
  out->name = name, out->dtype = dtype, out->shape = std::move(shape);
  return out;
}

EntryT& add_entry(ProgramT& program, const char* name) {
  program.entries.push_back(std::make_unique<EntryT>());
  program.entries.back()->name = name;
  return *program.entries.back();
}

std::unique_ptr<InstructionT> copy(std::unique_ptr<AddressT> from, std::unique_ptr<AddressT> to) {
  CopyT out;
  out.bytes = from->bytes;
  out.from = std::move(from), out.to = std::move(to);
  return instruction("copy", std::move(out));
}

uint32_t add_block(ProgramT& program, std::vector<std::unique_ptr<InstructionT>> list) {
  program.blocks.push_back(std::make_unique<BlockT>());
  program.blocks.back()->instructions = std::move(list);
  return static_cast<uint32_t>(program.blocks.size() - 1);
}

}  // namespace nabla::exec

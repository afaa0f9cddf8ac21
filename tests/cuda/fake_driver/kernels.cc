#include "tests/cuda/fake_driver/kernels.h"

#include <dlfcn.h>

#include <cstdio>
#include <fstream>
#include <iterator>

#include "tests/cuda/emulator/emulator.h"

namespace nabla::fake_cuda {
namespace {

class HandWritten final : public Kernels {
 public:
  HandWritten(void* handle, const nb_fake_kernel* rows, nb_fake_launch_function run)
      : handle_(handle), rows_(rows), run_(run) {}
  ~HandWritten() override { ::dlclose(handle_); }
  std::optional<std::vector<size_t>> parameters(const std::string& symbol) const override {
    const nb_fake_kernel* row = find(symbol);
    if (row == nullptr) return std::nullopt;
    return std::vector<size_t>(static_cast<size_t>(row->arg_count), sizeof(void*));
  }
  unsigned static_shared(const std::string& symbol) const override { return find(symbol)->static_shared; }
  bool launch(const std::string& symbol, unsigned blocks, unsigned threads, unsigned, std::vector<void*> args,
              emulator::Machine&) const override {
    run_(find(symbol), blocks, threads, args.data());
    return true;
  }

 private:
  const nb_fake_kernel* find(const std::string& symbol) const {
    for (const nb_fake_kernel* row = rows_; row->symbol != nullptr; ++row)
      if (symbol == row->symbol) return row;
    return nullptr;
  }
  void* handle_;
  const nb_fake_kernel* rows_;
  nb_fake_launch_function run_;
};

class Emulated final : public Kernels {
 public:
  explicit Emulated(std::shared_ptr<emulator::Object> object) : object_(std::move(object)) {}
  std::optional<std::vector<size_t>> parameters(const std::string& symbol) const override {
    const NbEmuKernel* kernel = object_->find(symbol);
    if (kernel == nullptr) return std::nullopt;
    return std::vector<size_t>(kernel->bytes, kernel->bytes + kernel->args);
  }
  unsigned static_shared(const std::string&) const override {
    const NbEmuObject& object = object_->table();
    return object.count == 1 ? static_cast<unsigned>(object.shared_end - object.shared_begin) : 0;
  }
  bool launch(const std::string& symbol, unsigned blocks, unsigned threads, unsigned shared_bytes,
              std::vector<void*> args, emulator::Machine& machine) const override {
    emulator::Report report = machine.launch(*object_, symbol, {blocks, threads, shared_bytes}, args, {});
    if (!report.clean()) std::fprintf(stderr, "fake libcuda: kernel %s: %s", symbol.c_str(), report.str().c_str());
    return report.clean();
  }

 private:
  std::shared_ptr<emulator::Object> object_;
};

}  // namespace

std::unique_ptr<Kernels> Kernels::open(const std::string& file) {
  void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    std::fprintf(stderr, "fake libcuda: %s\n", ::dlerror());
    return nullptr;
  }
  const auto* rows = static_cast<const nb_fake_kernel*>(::dlsym(handle, "nb_fake_kernels"));
  auto run = reinterpret_cast<nb_fake_launch_function>(::dlsym(handle, "nb_fake_launch"));
  if (rows != nullptr && run != nullptr) return std::make_unique<HandWritten>(handle, rows, run);
  ::dlclose(handle);
  std::ifstream in(file, std::ios::binary);
  auto object = emulator::Object::load(std::string(std::istreambuf_iterator<char>(in), {}), "");
  if (object.ok()) return std::make_unique<Emulated>(std::move(*object));
  std::fprintf(stderr, "fake libcuda: %s: %s", file.c_str(), to_string(object.errors()).c_str());
  return nullptr;
}

}  // namespace nabla::fake_cuda

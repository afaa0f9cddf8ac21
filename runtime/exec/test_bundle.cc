#include "runtime/exec/test_bundle.h"

#include <cstdlib>
#include <cstring>

#include "runtime/base/diagnostic.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/program_generated.h"

namespace nabla::exec {
namespace {

using namespace nabla::format;  // NOLINT: a table of schema objects

constexpr const char* kObject = "kernels/cpu.so";

std::unique_ptr<TensorT> tensor(const char* name, std::vector<int64_t> shape,
                                format::DType dtype = format::DType::F32) {
  auto out = std::make_unique<TensorT>();
  out->name = name;
  out->dtype = dtype;
  out->shape = std::move(shape);
  return out;
}

std::unique_ptr<AddressT> at(BaseKind base, uint16_t index, uint64_t bytes, uint64_t offset = 0) {
  auto out = std::make_unique<AddressT>();
  out->base = base;
  out->index = index;
  out->bytes = bytes;
  out->offset = offset;
  return out;
}

template <class ActionT>
void add(EntryT& entry, const char* label, ActionT action) {
  auto instruction = std::make_unique<InstructionT>();
  instruction->label = label;
  instruction->location = 1;
  instruction->action.Set(std::move(action));
  entry.instructions.push_back(std::move(instruction));
}

template <class... Args>
LaunchT launch(uint32_t kernel, int64_t units, Args... args) {
  LaunchT out;
  out.kernel = kernel;
  out.units = units;
  (out.args.push_back(std::move(args)), ...);
  return out;
}

EntryT& entry(ProgramT& program, const char* name, std::vector<uint32_t> reads, std::vector<uint32_t> writes) {
  program.entries.push_back(std::make_unique<EntryT>());
  EntryT& out = *program.entries.back();
  out.name = name;
  out.reads = std::move(reads);
  out.writes = std::move(writes);
  return out;
}

void add_entries(ProgramT& program) {
  EntryT& init = entry(program, "init", {}, {0});
  init.inputs.push_back(tensor("seed", {}, format::DType::U32));
  add(init, "toy_init", launch(0, 1, at(BaseKind::Input, 0, 4), at(BaseKind::Arena, 0, 16)));

  EntryT& step = entry(program, "step", {0}, {0});
  step.inputs.push_back(tensor("x", {2, 4}));
  step.outputs.push_back(tensor("loss", {}));
  // Through a temporary, so that the copy and the arena after the state are used.
  add(step, "copy", [] {
    CopyT copy;
    copy.from = at(BaseKind::Input, 0, 32);
    copy.to = at(BaseKind::Arena, 0, 32, 64);
    copy.bytes = 32;
    return copy;
  }());
  add(step, "toy_step",
      launch(1, 1, at(BaseKind::Arena, 0, 32, 64), at(BaseKind::Arena, 0, 16), at(BaseKind::Output, 0, 4)));

  EntryT& eval = entry(program, "eval", {}, {});
  eval.inputs.push_back(tensor("x", {2, 4}));
  eval.inputs.push_back(tensor("mask", {2}));
  eval.outputs.push_back(tensor("mean", {}));
  add(eval, "toy_eval",
      launch(2, 1, at(BaseKind::Input, 0, 32), at(BaseKind::Input, 1, 8), at(BaseKind::Output, 0, 4)));

  EntryT& predict = entry(program, "predict", {0}, {});
  predict.inputs.push_back(tensor("x", {2, 4}));
  predict.outputs.push_back(tensor("y", {2, 4}));
  add(predict, "toy_predict",
      launch(3, 2, at(BaseKind::Input, 0, 32), at(BaseKind::Arena, 0, 16), at(BaseKind::Output, 0, 32)));
}

std::string read_kernels() {
  const char* source = std::getenv("TEST_SRCDIR");
  const char* workspace = std::getenv("TEST_WORKSPACE");
  std::string root = source != nullptr ? fmt::format("{}/{}/", source, workspace != nullptr ? workspace : "nabla") : "";
  auto file = FileBytes::map(root + "runtime/exec/libtest_kernels.so");
  NABLA_CHECK(file.ok(), "{}", to_string(file.errors()));
  return std::string(as_text((*file)->bytes()));
}

std::string ones(uint64_t bytes) {
  std::string out(bytes, '\0');
  for (uint64_t i = 0; i < bytes / 4; ++i) std::memcpy(out.data() + i * 4, "\0\0\x80\x3f", 4);
  return out;
}

}  // namespace

void with_dense(ProgramT& program, const std::string& soname) {
  auto library = std::make_unique<LibraryT>();
  library->name = "onednn";
  library->soname = soname;
  library->min_version = "2.6";
  program.libraries.push_back(std::move(library));
  program.constants_bytes = 32 * 16 * 4;
  EntryT& dense = entry(program, "dense", {}, {});
  dense.inputs.push_back(tensor("a", {64, 32}));
  dense.outputs.push_back(tensor("c", {64, 16}));
  GemmT gemm;
  gemm.dtype = format::DType::F32;
  gemm.m = 64, gemm.n = 16, gemm.k = 32;
  gemm.lda = 32, gemm.ldb = 16, gemm.ldc = 16;
  gemm.implementation = "matmul";
  gemm.a = at(BaseKind::Input, 0, 64 * 32 * 4);
  gemm.b = at(BaseKind::Constants, 0, 32 * 16 * 4);
  gemm.c = at(BaseKind::Output, 0, 64 * 16 * 4);
  add(dense, "dot_general", std::move(gemm));
}

std::unique_ptr<ProgramT> toy_program() {
  auto out = std::make_unique<ProgramT>();
  ProgramT& program = *out;
  program.target = "cpu:x86-64";
  program.cpu_features = {"sse2"};
  program.arena_bytes = 256;
  program.state_bytes = 64;
  program.state.push_back(std::make_unique<StateLeafT>());
  program.state[0]->tensor = tensor("w", {4});
  for (const char* symbol : {"toy_init", "toy_step", "toy_eval", "toy_predict", "toy_nothing"}) {
    program.kernels.push_back(std::make_unique<KernelT>());
    program.kernels.back()->symbol = symbol;
    program.kernels.back()->object = kObject;
    program.kernels.back()->name = symbol;
  }
  program.locations.push_back(std::make_unique<LocationT>());
  program.locations.push_back(std::make_unique<LocationT>());
  program.locations[1]->file = "toy.cc";
  program.locations[1]->line = 12;
  program.locations[1]->text = "auto \"loss\" = sum(w);";
  add_entries(program);
  return out;
}

std::string bundle_of(const std::vector<const ProgramT*>& programs, std::vector<BundleMember> members) {
  members.push_back({kObject, read_kernels()});
  if (programs[0]->constants_bytes > 0) members.push_back({"constants.bin", ones(programs[0]->constants_bytes)});
  auto bytes = bundle_bytes(programs, members);
  NABLA_CHECK(bytes.ok(), "{}", to_string(bytes.errors()));
  return *bytes;
}

std::string toy_bundle(const std::function<void(ProgramT&)>& change) {
  std::unique_ptr<ProgramT> program = toy_program();
  if (change) change(*program);
  return bundle_of({program.get()}, {});
}

std::string write_toy_bundle(const std::string& name, const std::function<void(ProgramT&)>& change) {
  const char* folder = std::getenv("TEST_TMPDIR");
  std::string path = fmt::format("{}/{}", folder != nullptr ? folder : "/tmp", name);
  Status status = write_file(path, toy_bundle(change));
  NABLA_CHECK(status.ok(), "{}", to_string(status.errors()));
  return path;
}

}  // namespace nabla::exec

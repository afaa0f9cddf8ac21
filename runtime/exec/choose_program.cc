#include "runtime/exec/choose_program.h"

#include <algorithm>
#include <charconv>

#include "runtime/base/option_name.h"
#include "runtime/device/cpu.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

using device::CudaDevice;
using format::Program;
using format::view;

/// Does code of the program run on GPUs of this compute capability?
bool fits(const Program& program, int capability) {
  if (program.ptx()) return capability >= program.compute();
  if (program.specific()) return capability == program.compute();
  return capability / 10 == program.compute() / 10 && capability >= program.compute();
}

/// The CUDA that a driver must be for to run it: it runs machine code of every CUDA of its major version and before, and compiles PTX
/// of its own and before (NVIDIA, "CUDA Compatibility").
int needed_cuda(const Program& program) {
  int made_by = static_cast<int>(program.cuda());
  return program.ptx() ? made_by : made_by / 1000 * 1000;
}

class Chooser {
 public:
  Chooser(const format::Bundle& bundle, const format::BundleClass& of, int ordinal)
      : bundle_(bundle), class_(of), ordinal_(ordinal) {}

  Status check(const Program& program) { return program.compute() == 0 ? check_cpu(program) : check_gpu(program); }
  std::optional<CudaDevice> gpu_of(const Program& program) const {
    return program.compute() == 0 ? std::nullopt : gpu_;
  }

  /// Says which program would run when none or another was asked for; one for a GPU in the place of another for GPUs.
  void advise(const Program& refused, Diagnostic& d) {
    const Program* other = nullptr;
    for (const Program* p : class_.programs) {
      if (p == &refused || !check(*p).ok()) continue;
      if (other == nullptr || (other->compute() == 0 && p->compute() > 0 && refused.compute() > 0)) other = p;
    }
    if (other != nullptr) d.help = fmt::format("{} would run here", OptionName{"target", view(other->target())});
  }

 private:
  Status check_cpu(const Program& program) const {
    std::string missing;
    if (program.cpu_features() != nullptr)
      for (const flatbuffers::String* feature : *program.cpu_features())
        if (!device::cpu_has(feature->str())) missing += (missing.empty() ? "" : ", ") + feature->str();
    if (missing.empty()) return Ok{};
    return error(Code::kCpuTooOld, "{} was compiled for {}; this CPU has no {}", bundle_.what(), view(program.target()),
                 missing);
  }

  Status check_gpu(const Program& program) {
    if (!gpu_) {
      Result<CudaDevice> opened = CudaDevice::open(ordinal_, needed_cuda(program));
      if (opened.ok()) gpu_ = std::move(*opened);
      if (!opened.ok()) return no_gpu(program, std::move(opened.errors()[0]));
    }
    if (fits(program, gpu_->capability)) {
      (void)NABLA_TRY(check_driver(program));
      return check_shared(program);
    }
    Diagnostic d = error(Code::kWrongGpu, "{} has code for {}; this GPU is {} of compute capability {}.{}",
                         bundle_.what(), targets_of(class_), gpu_->name, gpu_->capability / 10, gpu_->capability % 10);
    d.help = gpu_->capability < 80
                 ? "no target fits this GPU: capability 8.0 is the least"
                 : fmt::format("compile it with {}; compute_80 runs on all later GPUs",
                               OptionName{"target", fmt::format("sm_{}", gpu_->capability)});
    return d;
  }

  Diagnostic no_gpu(const Program& program, Diagnostic d) const {
    d.message = fmt::format("{} was compiled for {}: {}", bundle_.what(), view(program.target()), d.message);
    bool cpu = std::any_of(class_.programs.begin(), class_.programs.end(),
                           [](const Program* p) { return p->compute() == 0; });
    if (!cpu)
      d.help += fmt::format("{}compile it for a CPU too: {}", d.help.empty() ? "" : "; or ",
                            OptionName{"target", targets_of(class_, ",") + ",cpu"});
    return d;
  }

  Status check_driver(const Program& program) const {
    const int needed = needed_cuda(program), known = gpu_->driver->version;
    if (known >= needed) return Ok{};
    Diagnostic d = error(Code::kWrongGpu, "{} was compiled for {} by CUDA {}; the driver of {} knows CUDA up to {}",
                         bundle_.what(), view(program.target()), device::cuda_version_str(static_cast<int>(program.cuda())), gpu_->name,
                         device::cuda_version_str(known));
    // A driver compiles no PTX of a later version of its own major one, so that the number of the library says too little.
    const std::string older = program.ptx() ? fmt::format("one of CUDA {} or before", device::cuda_version_str(known))
                                            : fmt::format("an older one: NABLA_NVRTC=libnvrtc.so.{}", known / 1000);
    d.help = fmt::format("install {}, or compile with another NVRTC, {}", device::cuda_driver_str(needed), older);
    return d;
  }

  /// A chip may have less shared memory than another one that the same code runs on: 99 KB on 8.6, 163 KB on 8.0.
  Status check_shared(const Program& program) const {
    for (uint32_t i = 0; program.kernels() != nullptr && i < program.kernels()->size(); ++i)
      for (const format::Grid* grid : *program.kernels()->Get(i)->grids())
        if (grid->shared_bytes() > static_cast<uint32_t>(gpu_->block_shared)) {
          Diagnostic d = error(Code::kWrongGpu,
                               "{}: kernel `{}` for {} needs {} bytes of shared memory per block; {} has {}", bundle_.what(),
                               view(grid->symbol()), view(program.target()), grid->shared_bytes(), gpu_->name, gpu_->block_shared);
          d.help = "compile for this GPU; a kernel of your own must need less";
          return d;
        }
    return Ok{};
  }

  const format::Bundle& bundle_;
  const format::BundleClass& class_;
  int ordinal_;
  std::optional<CudaDevice> gpu_;
};

/// Which of the class's programs the user may have meant by a target that it lacks. Names of GPUs are numbers: which letters are near says
/// nothing there, but code of one may run on another.
std::string meant(const format::BundleClass& of, const std::string& target, const std::vector<std::string>& known) {
  if (!target.starts_with("sm_") && !target.starts_with("compute_")) return did_you_mean(target, known);
  int capability = 0;  // of what is no number, and of larger ones than any GPU's
  std::from_chars(target.data() + target.find('_') + 1, target.data() + target.size(), capability);
  for (const Program* p : of.programs)
    if (p->compute() > 0 && fits(*p, capability)) return fmt::format("; code for `{}` runs there", view(p->target()));
  return "";
}

Result<Chosen> choose_named(const format::Bundle& bundle, const format::BundleClass& of, const std::string& target,
                            int gpu) {
  std::vector<std::string> known;
  for (const Program* program : of.programs) {
    known.emplace_back(view(program->target()));
    if (known.back() != target && !known.back().starts_with(target + ":")) continue;
    Chooser chooser(bundle, of, gpu);
    Status runs = chooser.check(*program);
    if (runs.ok()) return Chosen{program, chooser.gpu_of(*program), {}};
    chooser.advise(*program, runs.errors()[0]);
    return std::move(runs.errors());
  }
  Diagnostic d = error(Code::kUnknownTarget, "{} has no program for `{}`; it has {}{}", bundle.what(), target, targets_of(of),
                       meant(of, target, known));
  d.help = "pass one of these targets, or none";
  return d;
}

}  // namespace

Result<Chosen> choose_program(const format::Bundle& bundle, const format::BundleClass& of, const std::string& target, int gpu) {
  if (!target.empty()) return choose_named(bundle, of, target, gpu);
  Chooser chooser(bundle, of, gpu);
  std::optional<Diagnostic> first;
  std::string skipped;
  for (const Program* program : of.programs) {
    Status runs = chooser.check(*program);
    if (runs.ok()) {
      if (first) skipped = fmt::format("note: running the program for {}: {}", view(program->target()), first->message);
      return Chosen{program, chooser.gpu_of(*program), std::move(skipped)};
    }
    if (!first) first = std::move(runs.errors()[0]);
  }
  return std::move(*first);
}

Result<std::optional<CudaDevice>> gpu_of(const format::Bundle& bundle, const format::BundleClass& of, const Chosen& chosen,
                                         uint32_t turn) {
  auto ordinal = chosen.gpu ? static_cast<int>(turn % static_cast<uint32_t>(chosen.gpu->count)) : 0;
  if (ordinal == 0) return chosen.gpu;
  return NABLA_TRY(choose_program(bundle, of, std::string(view(chosen.program->target())), ordinal)).gpu;
}

}  // namespace nabla::exec

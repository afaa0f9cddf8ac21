// The calls of a GPU program into one library, which is opened when the first is bound.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "runtime/exec/gpu_algorithms.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {

/// `Library` is device::CublasLt or device::Cudnn.
template <class Library>
class GpuCalls {
 public:
  using Spec = typename Library::Spec;

  /// The GPU's context is current in all calls; everything outlives the object.
  GpuCalls(const format::Bundle& bundle, const format::Program& program, device::CudaStream stream,
           GpuAlgorithms& algorithms)
      : bundle_(bundle), program_(program), stream_(stream), algorithms_(algorithms) {}

  /// Equal specs share a call, which belongs to this object. Null where the library cannot compute it and there is an
  /// `fallback`; stderr gets the reason, each once. E0602 without a fallback; E0607, E0804 while measuring.
  Result<device::LibraryCall*> call(const Spec& spec, bool fallback) {
    if (auto known = calls_.find(spec); known != calls_.end()) return known->second.get();
    auto made = make(spec);
    if (made.ok()) return (calls_[spec] = std::move(*made)).get();
    if (!fallback || made.errors()[0].code != Code::kMissingLibrary) return made.errors();
    algorithms_.note(fmt::format("{}: {}{} of {} run as generated kernels: {}", bundle_.what(),
                                 library_ == nullptr ? "" : "some ", Library::kProblems,
                                 format::view(program_.target()), made.errors()[0].message));
    return static_cast<device::LibraryCall*>(nullptr);
  }

 private:
  Result<std::unique_ptr<device::GpuLibraryCall>> make(const Spec& spec) {
    (void)NABLA_TRY(open());
    std::unique_ptr<device::GpuLibraryCall> call = NABLA_TRY(library_->call(spec));
    (void)NABLA_TRY(algorithms_.choose(*call, Library::kTitle, library_->version()));
    return call;
  }

  Status open() {
    if (library_ != nullptr) return Ok{};
    if (no_library_) return *no_library_;
    const format::Library* wanted = nullptr;
    for (uint32_t i = 0; program_.libraries() != nullptr && i < program_.libraries()->size(); ++i)
      if (format::view(program_.libraries()->Get(i)->name()) == Library::kName) wanted = program_.libraries()->Get(i);
    if (wanted == nullptr)
      return error(Code::kCorrupt, "{}: the program calls {}, but does not name it among its libraries", bundle_.what(),
                   Library::kTitle);
    auto opened = Library::open(std::string(format::view(wanted->soname())),
                                std::string(format::view(wanted->min_version())), stream_);
    if (!opened.ok()) return *(no_library_ = std::move(opened.errors()[0]));
    library_ = std::move(*opened);
    return Ok{};
  }

  const format::Bundle& bundle_;
  const format::Program& program_;
  device::CudaStream stream_;
  GpuAlgorithms& algorithms_;
  std::unique_ptr<Library> library_;
  std::optional<Diagnostic> no_library_;
  std::map<Spec, std::unique_ptr<device::GpuLibraryCall>> calls_;
};

/// All libraries that programs for GPUs may call. Adding one is adding its class to the list of the engine, and its
/// rows to ir/library/implementation.cc.
template <class... Library>
class GpuLibraries {
 public:
  GpuLibraries(const format::Bundle& bundle, const format::Program& program, device::CudaStream stream,
               GpuAlgorithms& algorithms)
      : calls_(Held<Library>{{bundle, program, stream, algorithms}}...) {}

  /// By the library whose name the spec's implementation is, else by the first for such problems, which refuses it.
  /// Otherwise as GpuCalls::call.
  template <class Spec>
  Result<device::LibraryCall*> call(const Spec& spec, bool fallback) {
    Result<device::LibraryCall*> out = error(Code::kNewerVersion, "no library for {}", spec.key());
    bool known = ((std::is_same_v<typename Library::Spec, Spec> && spec.implementation == Library::kName) || ...);
    bool done = false;
    auto ask = [&]<class L>(Held<L>& library) {
      if constexpr (std::is_same_v<typename L::Spec, Spec>) {
        if (done || (known && spec.implementation != L::kName)) return;
        done = true;
        out = library.calls.call(spec, fallback);
      }
    };
    (ask(std::get<Held<Library>>(calls_)), ...);
    return out;
  }

 private:
  template <class L>
  struct Held {
    GpuCalls<L> calls;
  };
  std::tuple<Held<Library>...> calls_;
};

}  // namespace nabla::exec

// The one function from a module to a bundle. nablac, the jit of the frontends and the tests call it.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "cli/driver/emit_program.h"
#include "ir/bill/bill.h"
#include "ir/program_set.h"
#include "ir/target.h"
#include "passes/pass_manager.h"

namespace nabla::driver {

struct CompileOptions {
  std::string target = "cpu";           ///< or a list, "cpu,sm_80,sm_90a": a program each, in this order of preference
  bool library = true;                  ///< may call oneDNN, and on GPUs cuBLASLt
  bool tf32 = false;                    ///< GPUs may round the factors of f32 products to tf32
  bool deterministic = false;           ///< the same bits whatever the mesh, microbatches and threads: for CPUs
  bool overlap = true;                  ///< false: ranks do nothing else while they exchange values
  bool fuse = true;                     ///< false: a kernel for every op that computes
  bool debug = true;                    ///< false: without debug prints and callbacks
  std::string tuning_file;              ///< empty: the built-in rule
  std::optional<passes::Bytes> max_bytes;       ///< a limit on the arena, also of layouts that are searched
  std::optional<passes::Bytes> max_comm_bytes;  ///< a limit on what a rank sends in a run of an entry
  std::vector<std::string> mesh;        ///< "dp=4,tp=2": other sizes of the mesh's axes; a mesh, for `apply-strategy`
  int64_t microbatches = 0;             ///< of the batch: size of the mesh's temporal axis, which a mesh without one gets; 0: as it is
  passes::PassOptions pass_options;     ///< of all passes; those that follow from other fields are filled in
  std::vector<std::string> specialise;  ///< "batch=1,8,32": also code for these sizes alone, chosen at bind
  std::vector<std::string> buckets;     ///< "batch=8,64": sizes up to which GPUs share launches; else powers of two
  int jobs = 0;                         ///< compiler processes; 0: one per CPU
  bool cache = true;                    ///< of compiled kernels, in codegen::cache_directory()
  passes::ManagerOptions passes = {};   ///< dumps and reproducers; `verify` is filled in
  /// Called while kernels are compiled: how many files of a target's have been, of how many; may be empty.
  std::function<void(const std::string& target, size_t done, size_t all)> progress = {};
};

struct CompiledModule {
  std::optional<ir::Module> sharded;  ///< for several ranks: with a layout on every value
  ir::Module flat;  ///< before fusion
  ir::Module planned;
  ir::Bill bill;
  std::string report;  ///< the bill as JSON
  ir::Target target;
  std::vector<passes::PassReport> passes;
  Buckets buckets;
};
struct CompiledBundle {
  std::string bytes;
  std::string report;  ///< of the first target
  size_t kernels = 0, code_bytes = 0;
  int64_t ranks = 1;
  std::vector<passes::PassReport> passes;
  double codegen_seconds = 0;  ///< printing kernels and the host compiler
};

/// The passes before lowering: transforms gone, calls inlined, simplified; at `local` composites are written out too,
/// at `flat` they are whole. `verify` of the options is filled in.
Result<ir::Module> simplify_module(const ir::Module& module, const ir::Target& target,
                                   const passes::ManagerOptions& options = {}, ir::Stage to = ir::Stage::kLocal);
/// Every pass up to the memory plan, for one target; no compiler of kernels runs.
Result<CompiledModule> lower_module(const ir::Module& module, const CompileOptions& options);
/// A bundle of a set whose modules are of any stage before `kernels`: what `compile` makes for one rank is made for
/// each class, in its folder. E0104 where what the set says of all ranks contradicts the classes' programs.
Result<CompiledBundle> compile_set(const ir::ProgramSet& set, const CompileOptions& options);
/// For every target, and the bundle: kernels compiled, reports and the module itself inside. Beside GPU targets comes
/// compute_80, which later GPUs can run. A module with a mesh of several ranks gives a bundle for them, of one class.
Result<CompiledBundle> compile(const ir::Module& module, const CompileOptions& options);

}  // namespace nabla::driver

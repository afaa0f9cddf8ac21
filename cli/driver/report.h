// The bill: what a program is made of and what it needs, before it runs. As data (report.json) and as text
// (nablac inspect); cli/driver/page makes a page of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/compile_kernels.h"
#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/program_set.h"
#include "ir/target.h"
#include "passes/lower/specialise.h"
#include "passes/strategy/state_roles.h"

namespace nabla::driver {

/// Of report.json. A reader refuses any other.
inline constexpr int kReportVersion = 5;
inline constexpr const char* kAtOption = "--at";  ///< of nablac inspect: at which sizes a report is shown

using passes::parse_sizes;
using passes::SizeLists;

/// Of the program set whose class a report is of.
struct ReportContext {
  const ir::ProgramSet* set = nullptr;  ///< null: one rank
  size_t of_class = 0;
  std::optional<passes::StateRoles> roles = {};  ///< of its leaves, where they are known
  bool overlap = true;                           ///< ranks compute while they exchange
  std::vector<std::string> notes = {};           ///< what passes had to say of the program
};

/// Facts of a module before lowering (`flat`) and after (`planned`). JSON text: signature and state of every entry,
/// op counts, parameters, FLOPs and bytes, peak memory with its largest buffers and their source lines, kernels; and
/// the graph with the instructions and buffers that it became. For GPUs also the least time that all of it can take,
/// by its bytes and its products, and `buckets`: up to which sizes launches are shared. For several ranks where the parts
/// lie, and when a rank computes and exchanges.
std::string make_report(const ir::Module& flat, const ir::Module& planned, const ir::Target& target,
                        const SizeLists& buckets = {}, const ReportContext& context = {});

/// The report with one note more: what became known when it was compared with others.
std::string with_note(const std::string& report, const std::string& note);

/// The report of a GPU program with what the compiler made of its kernels: grids, registers, shared memory, resident
/// warps.
std::string with_code(const std::string& report, const codegen::TargetCode& code);

/// What the report's program was compiled for, "sm_90a"; empty where the text is no report.
std::string target_of_report(const std::string& json);

/// The report for people, with the formulas of symbolic entries evaluated at `sizes`. E0103,
/// E0104 or E0105 where `json` is no report of this version, E0901 where sizes do not fit its symbols.
Result<std::string> report_text(const std::string& json, const std::vector<SizeLists>& sizes = {});

}  // namespace nabla::driver

// Prints the bill of a program (ir/bill): as JSON for report.json, and as text for nablac inspect. cli/driver/page makes a page of it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/bill/bill.h"
#include "ir/module.h"
#include "ir/target.h"
#include "passes/lower/specialise.h"
#include "runtime/base/option_name.h"

namespace nabla::driver {

/// Of report.json. A reader refuses any other.
inline constexpr int kReportVersion = 5;
inline constexpr OptionName kAtOption{"at"};  ///< of nablac inspect: at which sizes a report is shown

using passes::parse_sizes;
using passes::SizeLists;

/// What a report is printed from, beside the bill.
struct ReportSource {
  const ir::Module &flat, &planned;
  const ir::Target& target;
  const SizeLists& buckets;  ///< up to which sizes launches of a GPU are shared
  const ir::BillContext& context;
};
/// The bill as JSON text, with the signature and state of every entry, counts of ops, the shards of several ranks, and the graph with
/// the instructions and buffers that it became.
std::string report_json(const ir::Bill& bill, const ReportSource& source);

/// One line: the GPU that times are predicted for, and how to name another one. Empty for a CPU.
std::string gpu_text(const ir::Target& target);

/// What the report's program was compiled for, "sm_90a"; empty where the text is no report.
std::string target_of_report(const std::string& json);

/// The report for people, with the formulas of symbolic entries evaluated at `sizes`. E0103,
/// E0104 or E0105 where `json` is no report of this version, E0901 where sizes do not fit its symbols.
Result<std::string> report_text(const std::string& json, const std::vector<SizeLists>& sizes = {});

}  // namespace nabla::driver

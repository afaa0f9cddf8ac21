// The bill: what a program is made of and what it needs, before it runs. As data (report.json), as text
// (nablac inspect) and as a page (report.html).
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/module.h"
#include "ir/op_def.h"
#include "ir/target.h"

namespace nabla::driver {

/// Facts of a module before lowering (`flat`) and after (`planned`). JSON text: signature and state of every entry,
/// op counts, parameters, FLOPs and bytes, peak memory with its largest buffers and their source lines, kernels.
std::string make_report(const ir::Module& flat, const ir::Module& planned, const ir::Target& target);

/// Values by symbol: every combination of them.
using SizeLists = std::map<std::string, std::vector<int64_t>>;
/// The report for people, with the formulas of symbolic entries evaluated at `sizes`. E0104 where `json` is no report,
/// E0901 and E0703 where sizes do not fit its symbols.
Result<std::string> report_text(const std::string& json, const std::vector<SizeLists>& sizes = {});
/// One page without references to anything outside it.
Result<std::string> report_html(const std::string& json);

}  // namespace nabla::driver

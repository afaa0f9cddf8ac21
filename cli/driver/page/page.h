// The report as one page for a browser: graph, memory, work and kernels, with sizes to choose.
#pragma once

#include <map>
#include <string>

#include "cli/driver/report.h"
#include "ir/target.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::driver {

/// The generated text of each kernel of a bundle's program, by the kernel's name: of all its grids. `report` is the
/// program's.
std::map<std::string, std::string> kernel_texts(const format::Bundle& bundle, const format::BundleClass& of,
                                                const std::string& report);
/// Whether a member of a bundle is generated text of the class's program for `target`.
bool is_source_of(std::string_view member, const format::BundleClass& of, const ir::Target& target);

/// What runs measured: the part `profile` of a trace of `nabla-run --trace FILE --profile`. E0103 where there is none.
Result<std::string> profile_in(const std::string& path);

struct PageInput {
  std::string title;                         ///< the model's or the bundle's name
  std::string report;                        ///< JSON of report_json
  std::map<std::string, std::string> texts;  ///< kernel_texts; empty for a model that is not compiled
  std::string profile = {};                  ///< JSON of profile_in; empty: nothing was measured
  SizeLists sizes = {};                      ///< where formulas are evaluated at first; the upper bounds by default
};

/// HTML that refers to nothing outside itself. Equal input gives equal bytes. E0103, E0104 or E0105 where the report is
/// none of this version; E0901 where sizes do not fit its symbols, and for two values of one size.
Result<std::string> make_page(const PageInput& input);

}  // namespace nabla::driver

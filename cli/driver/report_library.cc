#include "cli/driver/report_library.h"

#include <algorithm>

#include "ir/cost/time.h"
#include "ir/library/call.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

void add_time(const LeastTime& time, Json& row) {
  row["least_us"] = time.us;
  if (!time.is_static && !time.postfix.empty()) row["formulas"]["least_us"] = {{"postfix", time.postfix}};
}

LibraryCalls library_calls(const ir::Module& planned, const ir::Target& target, const LeastTimes& times) {
  LibraryCalls out;
  for (const ir::FunctionPtr& f : planned.functions)
    for (const ir::Node& n : f->nodes) {
      if (n.op->lower != ir::Lowering::kLibrary) continue;
      ir::LibraryCall call = ir::library_call(n, *f, target);
      Json row = {{"problem", call.key()},
                  {"library", call.library},
                  {"calls", 1},
                  {"epilogue", call.epilogue()},
                  {"compute", ir::product_rate(call.dtype(), target).compute},
                  {"workspace_bytes", call.workspace_bytes},
                  {"buffer_bytes", ir::operand_bytes(*f, n).bounds().max},
                  {"fallback", call.fallback->kernel}};
      add_time(times.call(n, *f), row);
      row["predicted_us"] = times.predicted_call_us(n, *f);
      auto same = std::find_if(out.rows.begin(), out.rows.end(), [&](const Json& other) {
        return other["problem"] == row["problem"] && other["fallback"] == row["fallback"];
      });
      out.row_of[&n] = static_cast<int>(same - out.rows.begin());
      if (same == out.rows.end())
        out.rows.push_back(std::move(row));
      else
        (*same)["calls"] = (*same)["calls"].get<int64_t>() + 1;
    }
  return out;
}

}  // namespace nabla::driver

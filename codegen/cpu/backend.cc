#include "codegen/cpu/backend.h"

#include <algorithm>

#include "codegen/cpu/kernel_printer.h"
#include "codegen/cpu/user_printer.h"
#include "codegen/print/procedure_call.h"
#include "codegen/user_text.h"
#include "ir/kernel_ir/contract.h"

namespace nabla::codegen {
namespace {

constexpr const char* kPrelude =
#include "codegen/cpu/prelude_text.inc"
    ;
constexpr const char* kLoops =
#include "codegen/cpu/loops_text.inc"
    ;
constexpr const char* kSpecial =
#include "codegen/cpu/special_text.inc"
    ;
constexpr const char* kProcedures =
#include "codegen/cpu/procedures_text.inc"
    ;
constexpr const char* kLinalgProcedures =
#include "codegen/cpu/linalg_procedures_text.inc"
    ;

}  // namespace

CpuCode print_cpu(const std::vector<kernel_ir::KernelPtr>& kernels, const ir::Target& target, int jobs) {
  CpuCode out;
  struct Piece {
    int lanes;
    bool procedure;
    std::string text;
  };
  std::vector<Piece> pieces;
  size_t total = 0;
  for (const kernel_ir::KernelPtr& k : kernels) {
    ScopedActivity activity("printing kernel " + k->name);
    std::string symbol = kernel_symbol(*k);
    out.symbols.push_back(symbol);
    if (k->procedure && k->procedure->user) {
      out.sources.push_back({fmt::format("user_{}.cc", out.sources.size()), print_user_cpp(*k, symbol),
                             UserSource{k->procedure->user->name, k->procedure->user->cpp, user_prototype(*k)}});
      continue;
    }
    pieces.push_back({kernel_ir::vector_elements(*k, target.vector_bytes), k->procedure.has_value(), print_cpp(*k, symbol, target)});
    total += pieces.back().text.size();
  }
  // Files are cut by text size, a fair measure of compile time; kernels of other lane counts go to files of their own.
  size_t users = out.sources.size(), share = total / std::max(1, jobs) + 1;
  for (int lanes : {target.vector_bytes / 4, target.vector_bytes / 8}) {
    std::string text;
    bool procedures = false;
    auto flush = [&] {
      if (text.empty()) return;
      out.sources.push_back({fmt::format("cpu_{}.cc", out.sources.size() - users),
                             fmt::format("#define NB_L {}\n", lanes) + kPrelude + kLoops + kSpecial + "\n" +
                                 (procedures ? std::string(kProcedures) + kLinalgProcedures + "\n" : "") + text});
      text.clear();
      procedures = false;
    };
    for (const Piece& p : pieces) {
      if (p.lanes != lanes) continue;
      if (!text.empty() && text.size() + p.text.size() / 2 > share) flush();
      text += "\n" + p.text;
      procedures |= p.procedure;
    }
    flush();
  }
  return out;
}

}  // namespace nabla::codegen

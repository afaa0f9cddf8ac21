#include "codegen/cuda/scan_printer.h"

#include <algorithm>

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

TemplateCalls scan_calls(const Kernel& k) {
  const Procedure& p = *k.procedure;
  auto with_role = [&](BufferRole role) {
    return *std::find_if(k.buffers.begin(), k.buffers.end(), [&](const Buffer& b) { return b.role == role; });
  };
  const Buffer x = with_role(BufferRole::kIn), y = with_role(BufferRole::kOut);
  bool places = p.def->algorithm == Algorithm::kScanPosition;
  bool large = bytes_of(x.dtype) == 8 || p.count().bounds().max > INT32_MAX;
  const TemplateMapping& m = template_mapping(k, 0);
  std::string args;
  for (const ir::Dim& n : p.numbers) args += ", " + size_text(n);
  std::string call = fmt::format("nb_team_{}<{}, {}{}>({}{}, {}, {});", p.def->name, m.team, m.tile_rows,
                                 places ? (large ? ", long" : ", int") : "", m.team > 32 ? "room_" : "nullptr", args,
                                 cpp_name(y.name), cpp_name(x.name));
  return {{std::move(call), ""}};
}

}  // namespace nabla::codegen

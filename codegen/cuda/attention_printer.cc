#include "codegen/cuda/attention_printer.h"

#include <algorithm>
#include <bit>

#include "ir/kernel_ir/product.h"

namespace nabla::codegen {

using namespace kernel_ir;  // NOLINT: this file prints kernel_ir

namespace {

class AttentionPrinter {
 public:
  explicit AttentionPrinter(const Kernel& k) : k_(k), p_(*k.procedure) {}

  TemplateCall forward() { return call("", "attention", 0, {"out", "logsumexp"}, 3); }
  TemplateCall queries() { return call("_queries", "attention_grad_queries", 0, {"dq"}, 6); }
  /// `gives`: which results the grid gives; empty: both.
  TemplateCall keys(std::string suffix, size_t grid, const std::string& gives) {
    return call(std::move(suffix), "attention_grad_keys", grid, {"dk", "dv"}, 6, gives);
  }

 private:
  const ir::Dim& n(const char* name) const { return p_.number(name); }
  bool drops() const { return !n("streams").is(0); }

  /// Of the schedule's grid at this place, whose blocks have tiles of so many queries and keys, or keys and queries.
  TemplateCall call(std::string suffix, const std::string& function, size_t grid,
                    const std::vector<std::string>& results, size_t operands, const std::string& gives = "") {
    const TemplateMapping& m = template_mapping(k_, grid);
    std::string sizes;
    // In the order of nb_heads in attention.cuh.
    for (const char* name : {"outer", "count", "heads", "kv_heads", "keys", "mask_batch", "mask_heads", "streams"})
      sizes += size_text(n(name)) + ", ";
    sizes += fmt::format("{}, {}, {}u", float_text("scale"), float_text("kept"), n("least").value());
    for (const char* name : {"diagonal", "word", "word_batch", "word_head", "word_query"})
      sizes += ", " + size_text(n(name));
    std::string args;
    size_t inputs = 0, extra = operands;
    for (const Buffer& b : k_.buffers) inputs += b.role == BufferRole::kIn;
    for (size_t r = 0; r < k_.buffers.size() - inputs; ++r)
      if (std::find(results.begin(), results.end(), result_name(r)) != results.end())
        args += ", " + cpp_name(k_.buffers[inputs + r].name);
    for (size_t i = 0; i < operands; ++i) args += ", " + cpp_name(k_.buffers[i].name);
    args += !n("mask_batch").is(0) ? ", " + cpp_name(k_.buffers[extra++].name) : ", (const bool*)0";
    args += drops() ? ", " + cpp_name(k_.buffers[extra++].name) : ", 0";
    NABLA_CHECK(extra == inputs, "attention takes {} operands, not {}", extra, inputs);
    bool halves = bytes_of(k_.buffers[0].dtype) == 2;
    std::string by = !halves         ? ""
                     : m.warpgroups ? fmt::format("nb_by_warpgroups<{}>, ", is_wide_attention(p_) ? 2 : 3)
                                    : fmt::format("nb_by_warps<{}>, ", m.tile_rows * 2 / m.team);
    std::string text = fmt::format("nb_{}{}<{}{}, {}, {}, {}, {}, {}{}>(room_, nb_heads{{{}}}{});", halves ? "halves_" : "",
                                   function, by, m.tile_rows, m.tile_columns, n("features").value(), n("out").value(),
                                   n("causal").is(1), drops(), gives.empty() ? "" : ", nb_gives::" + gives, sizes, args);
    return {std::move(text), std::move(suffix)};
  }
  std::string float_text(const char* name) const {
    return number_text(DType::kF32, std::bit_cast<float>(static_cast<uint32_t>(n(name).value())), 0);
  }
  std::string result_name(size_t r) const {
    static const std::vector<std::string> kForward = {"out", "logsumexp"}, kBackward = {"dq", "dk", "dv"};
    return (k_.procedure->def->algorithm == Algorithm::kAttention ? kForward : kBackward)[r];
  }

  const Kernel& k_;
  const Procedure& p_;
};

}  // namespace

TemplateCalls attention_calls(const Kernel& kernel) {
  AttentionPrinter printer(kernel);
  if (kernel.procedure->def->algorithm == Algorithm::kAttention) return {printer.forward()};
  if (!is_wide_attention(*kernel.procedure)) return {printer.queries(), printer.keys("_keys", 1, "")};
  return {printer.queries(), printer.keys("_keys", 1, "keys"), printer.keys("_values", 2, "values")};
}

}  // namespace nabla::codegen

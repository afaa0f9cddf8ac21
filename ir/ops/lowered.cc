// Ops that exist after lowering only.
#include "ir/ops/all_ops.h"
#include "ir/ops/common.h"

namespace nabla::ops {
namespace {

constexpr const char* kLowered = "made by lowering, after every transform";

// "f32[64,10];i32[?]" back to types; each `?` is the next of `sizes`.
Result<std::vector<ir::Type>> parse_types(const InferContext& ctx) {
  std::vector<ir::Type> out;
  const std::string& text = ctx.attrs.get_string("results");
  const ir::Shape& sizes = ctx.attrs.get_shape("sizes");
  size_t next_size = 0;
  auto bad = [&] { return ctx.fail(Code::kBadAttribute, "C1", "`{}` is no list of types", text); };
  for (size_t at = 0; at < text.size();) {
    size_t open = text.find('[', at), close = text.find(']', at);
    if (open == std::string::npos || close == std::string::npos || close < open) return bad();
    std::optional<DType> dtype = dtype_from_name(text.substr(at, open - at));
    if (!dtype) return bad();
    ir::Type type(*dtype, {});
    int64_t extent = -1;
    for (size_t i = open + 1; i <= close; ++i) {
      char c = text[i];
      if (c >= '0' && c <= '9' && extent < (int64_t{1} << 40))
        extent = std::max<int64_t>(extent, 0) * 10 + (c - '0');
      else if (c == '?' && extent < 0 && next_size < sizes.size() && (text[i + 1] == ',' || text[i + 1] == ']'))
        type.shape.push_back(sizes[next_size++]), ++i;
      else if ((c == ',' || c == ']') && extent >= 0)
        type.shape.push_back(Dim(std::exchange(extent, -1)));
      else if (!(c == ']' && i == open + 1))
        return bad();
    }
    out.push_back(std::move(type));
    at = close + 1;
    if (at < text.size() && text[at++] != ';') return bad();
  }
  if (next_size != sizes.size()) return bad();
  return out;
}

OpDef launch_op() {
  return {
      .name = "launch",
      .version = 1,
      .category = "lowered",
      .doc = "Runs a kernel of the module. Operands and results are the kernel's buffers in their order.",
      .operands = {{"operands", "the kernel's inputs", true, true}},
      .attrs = {required("kernel", AttrKind::kString, "name in the module's kernels"),
                required("results", AttrKind::kString, "types of the results, separated by `;`; `?` is one of sizes"),
                optional("sizes", "those that are known only at run time, in order", ir::Shape{})},
      .results = {{"results", "the kernel's outputs"}},
      .constraints = {{"C1", "results is a list of types with as many `?` as there are sizes"}},
      .traits = {},
      .stages = ir::stages(ir::Stage::kKernels, ir::Stage::kPlanned),
      .infer = parse_types,
      .reference = ir::no_rule(kLowered),
      .fold = ir::no_rule(kLowered),
      .decompose = ir::no_rule(kLowered),
      .vjp = ir::not_differentiable(kLowered),
      .jvp = ir::not_differentiable(kLowered),
      .batch = ir::no_rule(kLowered),
      .factors = ir::no_rule(kLowered),
      .access = ir::no_rule(kLowered),
      .linearity = ir::not_linear(),
      .lower = Lowering::kCall,
      .cost =
          [](const TypedOp&) {
            return Cost{Dim(0), Dim(0)};
          },
      .dtypes = DTypes::kAsWritten,
      .examples = {{{}, {{"kernel", std::string("k")}, {"results", std::string("f32[2,3];i32[]")}}}},
      .draw =
          [](ir::Rng&) {
            return ir::Example{{}, {{"kernel", std::string("k")}, {"results", std::string("i32[];bf16[1,0]")}}};
          },
      .rejects = {{"C1", {}, {{"kernel", std::string("k")}, {"results", std::string("f32[2")}}}},
  };
}

}  // namespace

std::vector<OpDef> lowered_ops() { return {launch_op()}; }

}  // namespace nabla::ops

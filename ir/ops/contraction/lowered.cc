// Ops that exist after lowering only.
#include "ir/library/implementation.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/common.h"
#include "ir/ops/contraction/dot.h"
#include "ir/ops/contraction/library_attrs.h"
#include "runtime/base/gemm.h"

namespace nabla::ops {
namespace {

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
      if (c >= '0' && c <= '9' && extent < (int64_t{1} << 56))
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

// Factors of 8-bit floats whose product has more bits count as if they had been converted.
Result<std::vector<Type>> widened_factors(const InferContext& ctx) {
  std::vector<Type> out(ctx.operands.begin(), ctx.operands.end());
  const std::string& name = ctx.attrs.get_string("widened");
  if (name.empty()) return out;
  std::optional<DType> wide = dtype_from_name(name);
  bool known = wide && (*wide == DType::kF32 || *wide == DType::kBF16 || *wide == DType::kF16);
  for (int i : {0, 1}) known &= is_float(out[i].dtype) && bytes_of(out[i].dtype) == 1;
  if (!known)
    return ctx.fail(Code::kDTypeMismatch, "C9", "factors of {} and {} are widened to `{}`", name_of(out[0].dtype),
                    name_of(out[1].dtype), name);
  out[0].dtype = out[1].dtype = *wide;
  return out;
}

InferResult infer_gemm(const InferContext& ctx) {
  const std::vector<Type> operands = NABLA_TRY(widened_factors(ctx));
  InferContext widened = ctx;
  widened.operands = operands;
  std::vector<Type> out = NABLA_TRY(infer_dot(widened));
  const Type& product = out[0];
  bool adds = ctx.attrs.get_bool("addend");
  if (adds && (ctx.operands.size() < 3 || !(ctx.operands.back() == product)))
    return ctx.fail(Code::kShapeMismatch, "C7", "the addend of {} is {}", product.str(),
                    ctx.operands.size() < 3 ? "not there" : ctx.operands.back().str());
  size_t biases = ctx.operands.size() - 2 - (adds ? 1 : 0);
  if (biases > 1) return ctx.fail(Code::kBadAttribute, "C5", "{} biases", biases);
  if (biases == 1) {
    const Type& bias = ctx.operands[2];
    if (bias.dtype != product.dtype || bias.rank() != 1 || product.rank() == 0)
      return ctx.fail(Code::kShapeMismatch, "C5", "the bias of {} is {}", product.str(), bias.str());
    NABLA_TRY(ctx.require_equal(bias.shape[0], product.shape.back(), "C5", "columns and values of the bias"));
  }
  const std::string& activation = ctx.attrs.get_string("activation");
  if (!find_activation(activation))
    return ctx.fail(Code::kBadAttribute, "C6", "activation is \"{}\"", activation);
  const std::string& implementation = ctx.attrs.get_string("implementation");
  if (!ir::find_implementation("gemm", implementation))
    return ctx.fail(Code::kBadAttribute, "C8", "implementation is \"{}\"", implementation);
  return out;
}

Attrs gemm_attrs(Ints lhs_contract, Ints rhs_contract, std::string activation) {
  return {{"lhs_contract", std::move(lhs_contract)},
          {"rhs_contract", std::move(rhs_contract)},
          {"activation", std::move(activation)},
          {"implementation", std::string("cublaslt")}};
}

std::vector<Val> decompose_gemm(ir::DecomposeContext& ctx) {
  const Attrs& a = ctx.attrs();
  Attrs dot;
  for (const char* name : {"lhs_contract", "rhs_contract", "lhs_batch", "rhs_batch"}) dot.set(name, a.get_ints(name));
  Val lhs = ctx.operand(0), rhs = ctx.operand(1);
  if (std::optional<DType> wide = dtype_from_name(a.get_string("widened"))) lhs = ir::convert(lhs, *wide), rhs = ir::convert(rhs, *wide);
  Val out = ctx.b.op("dot_general", {lhs, rhs}, dot);
  bool adds = a.get_bool("addend");
  if (ctx.operands.size() > (adds ? 3 : 2)) out = out + ir::broadcast_in_dim(ctx.operand(2), out.shape(), {out.rank() - 1});
  if (adds) out = out + ctx.operands.back();
  const std::string& activation = a.get_string("activation");
  if (activation == "relu") out = ctx.b.op("relu", {out});
  if (activation == "gelu") out = ctx.b.op("gelu", {out}, {{"approximate", std::string("tanh")}});
  return {out};
}

Example widened_example() {
  Attrs attrs = gemm_attrs({1}, {1}, "none");
  attrs.set("widened", std::string("bf16"));
  return {{operand(Type(DType::kF8E4M3, {2, 3})), operand(Type(DType::kF8E5M2, {4, 3}))}, attrs};
}

// Version 1 was a GPU's.
Attrs with_cublaslt(Attrs attrs) {
  attrs.set("implementation", std::string("cublaslt"));
  return attrs;
}

OpDef gemm_op() {
  Example plain{{operand(f32({2, 3})), operand(f32({3, 4}))}, gemm_attrs({1}, {0}, "none")};
  Example biased{{operand(f32({2, 3})), operand(f32({4, 3})), operand(f32({4}))}, gemm_attrs({1}, {1}, "gelu")};
  Attrs adds = gemm_attrs({1}, {0}, "none");
  adds.set("addend", true);
  Attrs widened = widened_example().attrs;
  Attrs unknown = gemm_attrs({1}, {0}, "none");
  unknown.set("implementation", std::string("gemmlt"));
  Example added{{operand(f32({2, 3})), operand(f32({3, 4})), operand(f32({4})), operand(f32({2, 4}))}, adds};
  return {
      .name = "gemm",
      .version = 2,
      .category = "lowered",
      .doc =
          "A matrix product that a library computes, with what it does to the result on the way: activation(dot_general"
          "(lhs, rhs) + bias + addend). Of a GPU's program the kernel `fallback`, which `fuse` adds, computes the same "
          "without the library.",
      .operands = {{"lhs", "left factor"},
                   {"rhs", "right factor"},
                   {"extras", "a bias that is added to every row, if there is one, then the addend", true, true}},
      .attrs = with_call_attrs({
          required("lhs_contract", AttrKind::kInts, "as in dot_general"),
          required("rhs_contract", AttrKind::kInts, "as in dot_general"),
          optional("lhs_batch", "as in dot_general", Ints{}), optional("rhs_batch", "as in dot_general", Ints{}),
          optional("activation", "\"none\", \"relu\" or \"gelu\" (by tanh)", std::string("none")),
          optional("addend", "whether the last operand is added, shaped like the result", false),
          optional("widened", "\"f32\", \"bf16\" or \"f16\": factors are 8-bit floats, perhaps of two formats, multiplied as that",
                   std::string())}),
      .results = {{"out", "the product"}},
      .constraints = {{"C1", "the factors have one dtype, unless they are widened, and it is not bool"},
                      {"C2", "as many dimensions of lhs as of rhs are contracted, and their sizes are equal"},
                      {"C3", "lhs and rhs have equally many batch dimensions, and their sizes are equal"},
                      {"C4", "the dimensions named exist, and each is named once"},
                      {"C5", "there is at most one bias, with a value of the result's dtype for each of its columns"},
                      {"C6", "activation is \"none\", \"relu\" or \"gelu\""},
                      {"C7", "the addend has the result's type"},
                      {"C8", "implementation is a library's way to compute products"},
                      {"C9", "factors that are widened are 8-bit floats, and `widened` is f32, bf16 or f16"}},
      .traits = {},
      .stages = ir::stages(ir::Stage::kLocal, ir::Stage::kPlanned),
      .infer = infer_gemm,
      .reference = ir::by_decomposition(),
      .fold = ir::no_rule(kLowered),
      .decompose = decompose_gemm,
      .vjp = ir::not_differentiable(kLowered),
      .jvp = ir::not_differentiable(kLowered),
      .batch = ir::no_rule(kLowered),
      .factors = ir::no_rule(kLowered),
      .access = ir::no_rule(kLowered),
      .linearity = ir::not_linear(),
      .lower = Lowering::kLibrary,
      .cost = cost_dot,
      .upgrades = {with_cublaslt},
      .dtypes = DTypes::kFloats,
      .examples = {plain, biased, added, widened_example()},
      .draw =
          [=](ir::Rng& rng) {
            Shape lhs = {random_positive_dim(rng), random_positive_dim(rng)};
            Shape rhs = {lhs[1], random_positive_dim(rng)};
            return Example{{operand(f32(lhs)), operand(f32(rhs))}, gemm_attrs({1}, {0}, "relu")};
          },
      .rejects = {{"C1", {f32({2, 3}), i32({3, 4})}, gemm_attrs({1}, {0}, "none")},
                  {"C2", {f32({2, 3}), f32({4, 5})}, gemm_attrs({1}, {0}, "none")},
                  {"C3",
                   {f32({2, 3}), f32({3, 4})},
                   {{"lhs_contract", Ints{1}},
                    {"rhs_contract", Ints{0}},
                    {"lhs_batch", Ints{0}},
                    {"implementation", std::string("cublaslt")}}},
                  {"C4", {f32({2, 3}), f32({3, 4})}, gemm_attrs({2}, {0}, "none")},
                  {"C5", {f32({2, 3}), f32({3, 4}), f32({2})}, gemm_attrs({1}, {0}, "none")},
                  {"C5", {f32({2, 3}), f32({3, 4}), f32({4}), f32({4})}, gemm_attrs({1}, {0}, "none")},
                  {"C6", {f32({2, 3}), f32({3, 4})}, gemm_attrs({1}, {0}, "tanh")},
                  {"C7", {f32({2, 3}), f32({3, 4})}, adds},
                  {"C7", {f32({2, 3}), f32({3, 4}), f32({4})}, adds},
                  {"C8", {f32({2, 3}), f32({3, 4})}, unknown},
                  {"C9", {f32({2, 3}), f32({4, 3})}, widened}},
  };
}

}  // namespace

std::vector<OpDef> lowered_ops() { return {launch_op(), gemm_op()}; }

}  // namespace nabla::ops

#include "passes/lower/library_products.h"

#include <optional>

#include "ir/builder.h"
#include "passes/lower/gemm.h"

namespace nabla::passes {
namespace {

/// A product and the nodes behind it that the library computes with it.
struct Product {
  std::vector<int> nodes;  // the product first; the result of the last is the result of all
  ir::ValueId bias = -1;
  const ir::Node* add = nullptr;         // of the bias
  const ir::Node* activation = nullptr;  // relu or gelu
};

class Products {
 public:
  Products(const ir::Function& f, const ir::Target& target)
      : f_(f), target_(target), uses_(ir::use_counts(f)), makers_(ir::producers(f)), reader_(f.values.size(), -1) {
    for (size_t i = 0; i < f.nodes.size(); ++i)
      for (ir::ValueId id : f.nodes[i].operands) reader_[id] = static_cast<int>(i);
  }

  std::vector<Product> find() const {
    std::vector<Product> out;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const ir::Node& n = f_.nodes[i];
      if (n.op->lower != ir::Lowering::kContraction) continue;
      std::optional<GemmProblem> problem = gemm_problem(n, f_);
      if (!problem || gemm_choice(*problem, target_) == "generated") continue;
      out.push_back(follow(static_cast<int>(i), *problem));
    }
    return out;
  }

 private:
  Product follow(int dot, const GemmProblem& problem) const {
    Product out{{dot}, -1, nullptr, nullptr};
    std::vector<int> behind;  // reshapes that count only if something follows
    // In f64 the library knows no epilogue.
    for (int at = dot; problem.dtype != DType::kF64 && !out.activation;) {
      ir::ValueId result = f_.nodes[at].results[0];
      if (uses_[result] != 1 || reader_[result] < 0) break;
      at = reader_[result];
      const ir::Node& n = f_.nodes[at];
      behind.push_back(at);
      if (n.op->lower == ir::Lowering::kView) continue;
      if (!take_bias(n, result, problem, out) && !take_activation(n, out)) break;
      out.nodes.insert(out.nodes.end(), behind.begin(), behind.end());
      behind.clear();
    }
    return out;
  }

  // result + broadcast(bias): one value per column, in one matrix.
  bool take_bias(const ir::Node& n, ir::ValueId result, const GemmProblem& problem, Product& out) const {
    if (n.op->name != "add" || out.bias >= 0 || !problem.batch.is(1)) return false;
    ir::ValueId other = n.operands[n.operands[0] == result ? 1 : 0];
    const ir::Node* spread = makers_[other] < 0 ? nullptr : &f_.nodes[makers_[other]];
    if (!spread || spread->op->name != "broadcast_in_dim") return false;
    const ir::Type &bias = f_.type(spread->operands[0]), &type = f_.type(result);
    if (bias.rank() != 1 || !(bias.shape[0] == problem.n) || !(type.shape.back() == problem.n)) return false;
    if (spread->attrs.get_ints("dims") != ir::Ints{type.rank() - 1}) return false;
    out.bias = spread->operands[0], out.add = &n;
    return true;
  }

  static bool take_activation(const ir::Node& n, Product& out) {
    bool gelu = n.op->name == "gelu" && n.attrs.get_string("approximate") == "tanh";
    if (!gelu && n.op->name != "relu") return false;
    out.activation = &n;
    return true;
  }

  const ir::Function& f_;
  const ir::Target& target_;
  std::vector<int> uses_, makers_, reader_;
};

/// The product alone, as a function of its operands.
ir::Function alone(const Product& p, const ir::Function& f, const ir::Module& m, const ir::OpTable& ops) {
  ir::FunctionBuilder b(f.name + ".product", ops, &m);
  const ir::Node& dot = f.nodes[p.nodes[0]];
  ir::Val lhs = b.param("a", f.type(dot.operands[0])), rhs = b.param("b", f.type(dot.operands[1])), bias;
  if (p.bias >= 0) bias = b.param("bias", f.type(p.bias));
  b.set_location(dot.location);
  ir::Val out = b.op(dot.op->name, {lhs, rhs}, dot.attrs);
  if (p.bias >= 0) out = out + ir::broadcast_in_dim(bias, out.shape(), {out.rank() - 1});
  if (p.activation) out = b.op(p.activation->op->name, {out}, p.activation->attrs);
  return b.finish({out});
}

LibraryCall call_of(const Product& p, const ir::Function& f, const ir::Module& m, const ir::OpTable& ops) {
  const ir::Node& dot = f.nodes[p.nodes[0]];
  std::vector<LibraryCall::Operand> operands = {{dot.operands[0], {}}, {dot.operands[1], {}}};
  if (p.bias >= 0) operands.push_back({p.bias, {}});
  ir::Attrs attrs = dot.attrs;
  attrs.set("activation", p.activation ? p.activation->op->name : std::string("none"));
  return {p.nodes, operands, {}, "gemm", attrs, alone(p, f, m, ops)};
}

}  // namespace

std::vector<LibraryCall> library_products(const ir::Function& f, const ir::Module& m, const PassContext& context) {
  std::vector<LibraryCall> out;
  for (const Product& p : Products(f, context.target).find()) out.push_back(call_of(p, f, m, context.ops));
  return out;
}

}  // namespace nabla::passes

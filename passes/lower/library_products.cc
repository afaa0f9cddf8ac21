#include "passes/lower/library_calls.h"

#include <optional>

#include "ir/library/gemm.h"

namespace nabla::passes {
namespace {

/// A product and the nodes after it that the library computes with it.
struct Product {
  std::vector<int> nodes;  // the product first; the result of the last is the result of all
  ir::ValueId bias = -1;
  ir::ValueId addend = -1;
  const ir::Node* activation = nullptr;  // relu or gelu
  std::string implementation;
  std::optional<ir::ByteFactors> bytes;  // in the place of the product's own factors
};

class Products {
 public:
  Products(const ir::Function& f, const ir::Target& target)
      : f_(f),
        target_(target),
        uses_(ir::use_counts(f)),
        makers_(ir::producers(f)),
        reader_(f.values.size(), -1),
        claimed_(f.nodes.size()) {
    for (size_t i = 0; i < f.nodes.size(); ++i)
      for (ir::ValueId id : f.nodes[i].operands) reader_[id] = static_cast<int>(i);
  }

  std::vector<Product> find() {
    std::vector<Product> out;
    for (size_t i = 0; i < f_.nodes.size(); ++i) {
      const ir::Node& n = f_.nodes[i];
      if (n.op->lower != ir::Lowering::kContraction) continue;
      auto [problem, bytes] = library_product(n, f_, makers_, target_);
      std::string choice = problem ? ir::gemm_choice(*problem, target_) : "generated";
      if (choice == "generated") continue;
      out.push_back(target_.is_cuda() ? follow(static_cast<int>(i), *problem) : Product{{static_cast<int>(i)}});
      out.back().implementation = choice, out.back().bytes = bytes;
      for (int node : out.back().nodes) claimed_[node] = true;
    }
    return out;
  }

 private:
  Product follow(int dot, const ir::GemmProblem& problem) const {
    Product out{{dot}};
    std::vector<int> after;                         // reshapes that count only if something follows
    bool epilogues = problem.dtype != DType::kF64;  // else the library knows none
    for (int at = dot; !out.activation;) {
      ir::ValueId result = f_.nodes[at].results[0];
      // Of two products that are added, one is the other's addend.
      if (uses_[result] != 1 || reader_[result] < 0 || claimed_[reader_[result]]) break;
      at = reader_[result];
      const ir::Node& n = f_.nodes[at];
      after.push_back(at);
      if (n.op->lower == ir::Lowering::kView) continue;
      if (!(epilogues && (take_bias(n, result, problem, out) || take_activation(n, out))) &&
          !take_addend(n, result, out))
        break;
      out.nodes.insert(out.nodes.end(), after.begin(), after.end());
      after.clear();
    }
    return out;
  }

  // result + broadcast(bias): one value per column, in one matrix; of 8-bit floats the library takes none in f32.
  bool take_bias(const ir::Node& n, ir::ValueId result, const ir::GemmProblem& problem, Product& out) const {
    if (n.op->form != ir::OpForm::kAdd || out.bias >= 0 || !problem.batch.is(1) || problem.dtype_c == DType::kF32) return false;
    ir::ValueId other = n.operands[n.operands[0] == result ? 1 : 0];
    const ir::Node* spread = makers_[other] < 0 ? nullptr : &f_.nodes[makers_[other]];
    if (!spread || spread->op->form != ir::OpForm::kBroadcast) return false;
    const ir::Type &bias = f_.type(spread->operands[0]), &type = f_.type(result);
    if (bias.rank() != 1 || !(bias.shape[0] == problem.n) || !(type.shape.back() == problem.n)) return false;
    if (spread->attrs.get_ints("dims") != ir::Ints{type.rank() - 1}) return false;
    out.bias = spread->operands[0];
    return true;
  }

  // result + a value of its type that lies in memory anyway: not what the addition could compute on its way.
  bool take_addend(const ir::Node& n, ir::ValueId result, Product& out) const {
    if (n.op->form != ir::OpForm::kAdd || out.addend >= 0) return false;
    ir::ValueId other = n.operands[n.operands[0] == result ? 1 : 0], from = other;
    bool shared = uses_[other] > 1;
    while (makers_[from] >= 0 && f_.nodes[makers_[from]].op->lower == ir::Lowering::kView)
      from = f_.nodes[makers_[from]].operands[0], shared |= uses_[from] > 1;
    const ir::Node* maker = makers_[from] < 0 ? nullptr : &f_.nodes[makers_[from]];
    if (maker && (maker->operands.empty() || maker->op->form == ir::OpForm::kBroadcast)) return false;
    if (maker && maker->op->lower == ir::Lowering::kAccess && !shared) return false;
    out.addend = other;
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
  std::vector<bool> claimed_;  // nodes of products that were found
};

LibraryCall product_call(const Product& p, const ir::Function& f) {
  const ir::Node& dot = f.nodes[p.nodes[0]];
  std::vector<LibraryCall::Operand> operands = {{dot.operands[0], {}}, {dot.operands[1], {}}};
  if (p.bytes) operands = {{p.bytes->lhs, {}}, {p.bytes->rhs, {}}};
  if (p.bias >= 0) operands.push_back({p.bias, {}});
  if (p.addend >= 0) operands.push_back({p.addend, {}, f.type(dot.results[0]).shape});
  ir::Attrs attrs = dot.attrs;
  attrs.set("addend", p.addend >= 0);
  attrs.set("activation", p.activation ? p.activation->op->name : std::string("none"));
  attrs.set("implementation", p.implementation);
  if (p.bytes) attrs.set("widened", std::string(name_of(f.type(dot.results[0]).dtype)));
  return {p.nodes, operands, {}, "gemm", attrs};
}

}  // namespace

LibraryProduct library_product(const ir::Node& dot, const ir::Function& f, const std::vector<int>& producers, const ir::Target& target) {
  LibraryProduct out;
  if (target.cuda.multiplies_bytes()) out.bytes = ir::byte_factors(dot, f, producers);
  ir::Node product = dot;
  if (out.bytes) product.operands = {out.bytes->lhs, out.bytes->rhs};
  out.problem = ir::gemm_problem(product, f);
  return out;
}

std::vector<LibraryCall> library_products(const ir::Function& f, const ir::Target& target) {
  std::vector<LibraryCall> out;
  for (const Product& p : Products(f, target).find()) out.push_back(product_call(p, f));
  return out;
}

}  // namespace nabla::passes

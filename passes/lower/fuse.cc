#include "passes/lower/fuse.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/library/call.h"
#include "passes/lower/build_kernel.h"
#include "passes/lower/byte_factors.h"
#include "passes/lower/launch.h"
#include "passes/lower/library_fallbacks.h"
#include "passes/lower/prepare.h"
#include "passes/lower/schedule_kernels.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using kernel_ir::ExprKind;

// A product that the generated micro-kernel computes well: one axis each for rows, columns and depth, not too thin, unless
// kernels must not depend on that.
bool is_plain_product(const Tensor& t, bool deterministic) {
  const Formula& f = t.formula;
  if (f.combiner != kernel_ir::Combiner::kSum || f.rank < 2 || f.extents.size() != static_cast<size_t>(f.rank) + 1)
    return false;
  if (f.extents[f.rank].bounds().min < 1) return false;  // the micro-kernel's first step of the sum starts the tile
  if (deterministic) return t.size() > 0;
  return most(f.extents[f.rank - 2]) >= 4 && most(f.extents[f.rank - 1]) >= 4 && t.size() > 0;
}

// Every read of a 16- or 8-bit float rounds: a value that stays in a kernel is what memory would have made of it, so that
// bits do not depend on what is fused. Matrix products read memory anyway.
void round_reads(TensorGraph& graph) {
  auto rounded = [](const kernel_ir::Expr& e) {
    return kernel_ir::rewrite(e, [](const kernel_ir::Expr& x) {
      bool narrow = x->kind == ExprKind::kLoad && is_narrow_float(x->dtype);
      return narrow ? kernel_ir::convert(x->dtype, kernel_ir::convert(DType::kF32, x)) : kernel_ir::Expr();
    });
  };
  for (Tensor& t : graph.tensors)
    if (t.kind == TensorKind::kDefinition && !t.contraction) t.formula = map_expressions(t.formula, rounded);
}

bool one_per_op(const PassContext& context) { return context.options.fuse.kernels == KernelsOf::kOp; }

// The names of a module's kernels.
class KernelNames {
 public:
  // `base`, or if a kernel has that name, `base` with the first free number after those that begin with `base`.
  std::string unique(const std::string& base) {
    std::string name = base;
    for (int i = std::max(beginning_[base], 1) + 1; !names_.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
    for (size_t end = name.find('_'); end != std::string::npos; end = name.find('_', end + 1)) ++beginning_[name.substr(0, end)];
    ++beginning_[name];
    return name;
  }

 private:
  std::set<std::string> names_;
  std::map<std::string, int> beginning_;  // by text: the names that are it, or begin with it and "_"
};

class FunctionLowering {
 public:
  FunctionLowering(const ir::Function& f, const ir::Module& m, PassContext& context, DistinctKernels& kernels,
                   KernelNames& names, std::vector<kernel_ir::KernelPtr>& order)
      : f_(f), m_(m), context_(context), kernels_(kernels), names_(names), order_(order), b_(f.name, context.ops, &m) {
    const ir::Entry* e = m.entry_of(f.name);
    for (size_t w = 0; e && w < e->writes.size(); ++w)
      for (size_t r = 0; r < e->reads.size(); ++r)
        if (e->reads[r] == e->writes[w]) donated_.push_back({f.params[r], f.results[w]});
  }

  Result<ir::Function> run() {
    auto is_opaque = [&](const ir::Node& n) {
      return procedure_of(n) || n.op->lower == ir::Lowering::kControl || n.op->lower == ir::Lowering::kHost ||
             n.op->lower == ir::Lowering::kLibrary || n.op->lower == ir::Lowering::kCollective;
    };
    TensorGraph graph = NABLA_TRY(build_tensor_graph(f_, m_, is_opaque));
    for (Tensor& t : graph.tensors)
      if (t.kind == TensorKind::kDefinition && t.node >= 0 && f_.nodes[t.node].op->lower == ir::Lowering::kContraction)
        t.contraction = is_plain_product(t, context_.target.deterministic);
    if (context_.target.deterministic) round_reads(graph);
    std::vector<ir::ValueId> needed = f_.results;
    for (int n : graph.opaque_nodes)
      needed.insert(needed.end(), f_.nodes[n].operands.begin(), f_.nodes[n].operands.end());
    for (const Tensor& t : graph.tensors)
      reads_.push_back(t.kind == TensorKind::kView ? std::vector<int>{t.base} : loads_of(t.formula));
    if (!one_per_op(context_)) read_byte_factors(graph, context_.target);
    FusionLimits limits = fusion_limits(context_.target);
    if (one_per_op(context_)) {
      limits.fuse = false;
      for (const Tensor& t : graph.tensors)
        if (t.kind == TensorKind::kDefinition && t.value >= 0) needed.push_back(t.value);
    }
    plan(std::move(graph), needed, limits);
    of_tensor_.resize(plan_.graph.tensors.size());
    for (ir::ValueId id : f_.params) of_tensor_[plan_.graph.of_value[id]] = b_.param(f_.values[id].name, f_.type(id));
    emit_all();
    std::vector<ir::Val> results;
    for (ir::ValueId id : f_.results) results.push_back(value_of(plan_.graph.of_value[id]));
    ir::Function out = b_.finish(results);
    out.location = f_.location;
    return out;
  }

 private:
  const Tensor& tensor(int t) const { return plan_.graph.tensors[t]; }

  // Blocks of a GPU keep rows in shared memory. If a kernel has more rows than a block may, smaller ones are fused.
  void plan(TensorGraph graph, const std::vector<ir::ValueId>& needed, FusionLimits limits) {
    if (!context_.target.is_cuda()) {
      plan_ = plan_fusion(std::move(graph), f_, needed, limits, donated_);
      return;
    }
    for (;; limits.row_bytes /= 2) {
      plan_ = plan_fusion(graph, f_, needed, limits, donated_);
      if (limits.row_bytes == 0 || rows_fit()) return;
    }
  }
  bool rows_fit() const {
    for (size_t g = 0; g < plan_.groups.size(); ++g) {
      int64_t bytes = 0, outer = 1;  // at least those of the rows: an element takes 4 bytes or more there
      for (const auto& m : plan_.groups[g].members)
        bytes += most(ir::Type(DType::kF32, tensor(m.tensor).shape).count()) * std::max(4, bytes_of(tensor(m.tensor).dtype));
      for (const ir::Dim& axis : plan_.groups[g].outer) outer *= std::max<int64_t>(most(axis), 1);
      if (bytes / outer <= context_.target.cuda.block_shared_bytes) continue;  // few kernels are built twice
      kernel_ir::Kernel kernel = std::move(build_kernel(plan_, static_cast<int>(g)).kernel);
      if (!schedule_cuda(kernel, context_.target).ok()) return false;
    }
    return true;
  }

  // In program order, as far as dependencies allow: a group waits for its last member.
  void emit_all() {
    for (size_t t = 0; t < plan_.graph.tensors.size(); ++t) {
      int g = plan_.group_of[t];
      bool last = g >= 0 && plan_.groups[g].members.back().tensor == static_cast<int>(t);
      bool opaque = tensor(static_cast<int>(t)).kind == TensorKind::kGiven && tensor(static_cast<int>(t)).node >= 0 &&
                     f_.nodes[tensor(static_cast<int>(t)).node].op->lower != ir::Lowering::kConstant;
      if (last || opaque) ensure(static_cast<int>(t));
    }
  }

  // The value that holds the tensor's bytes, in the tensor's own shape.
  ir::Val value_of(int t) {
    int s = storage_of(plan_.graph, t);
    ensure(s);
    ir::Val v = of_tensor_[s];
    NABLA_CHECK(v.id >= 0, "@{}: tensor {} ({}) has no value", f_.name, t, tensor(t).name);
    return t == s ? v : ir::reshape(v, tensor(t).shape);
  }

  void ensure(int t) {
    t = storage_of(plan_.graph, t);
    if (of_tensor_[t].id >= 0) return;
    if (plan_.group_of[t] >= 0) return launch(plan_.group_of[t]);
    const Tensor& x = tensor(t);
    NABLA_CHECK(x.kind == TensorKind::kGiven && x.node >= 0, "@{}: tensor {} ({}) is computed nowhere", f_.name, t,
                x.name);
    const ir::Node& n = f_.nodes[x.node];
    if (!called_.insert(x.node).second) return;  // it has no results
    if (auto before = plan_.graph.after.find(x.node); before != plan_.graph.after.end()) ensure(before->second);
    std::vector<ir::Val> operands;
    for (ir::ValueId id : n.operands) operands.push_back(value_of(plan_.graph.of_value[id]));
    b_.set_location(n.location);
    b_.set_computes(n.computes);
    std::vector<ir::Val> results = procedure_of(n) ? launch_procedure(n, operands) : b_.clone(n, operands);
    for (size_t i = 0; i < results.size(); ++i) {
      int r = plan_.graph.of_value[n.results[i]];
      if (r >= 0) of_tensor_[r] = results[i];
    }
  }

  // What the op's access calls a procedure becomes a kernel of its own; so does a composite that was not expanded.
  std::optional<kernel_ir::Procedure> procedure_of(const ir::Node& n) const {
    if (n.op->lower == ir::Lowering::kDecompose && n.op->whole) return n.op->whole(typed(f_, n));
    if (n.op->lower != ir::Lowering::kAccess || !n.op->access.exists()) return std::nullopt;
    return n.op->access(typed(f_, n)).procedure;
  }
  std::vector<ir::Val> launch_procedure(const ir::Node& n, const std::vector<ir::Val>& operands) {
    std::vector<ir::Type> types = f_.types(n.results);
    kernel_ir::Kernel kernel;
    kernel.procedure = *procedure_of(n);
    kernel.name = kernel.procedure->user ? kernel.procedure->user->name : n.op->name;
    for (ir::ValueId id : n.operands) add_buffer(kernel, "x", f_.type(id), kernel_ir::BufferRole::kIn);
    for (ir::ValueId id : n.results) add_buffer(kernel, "y", f_.type(id), kernel_ir::BufferRole::kOut);
    return b_.add("launch", operands, launch_attrs(unique(std::move(kernel)), types));
  }
  static void add_buffer(kernel_ir::Kernel& k, const char* prefix, const ir::Type& type, kernel_ir::BufferRole role) {
    auto same = std::count_if(k.buffers.begin(), k.buffers.end(), [&](const auto& b) { return b.role == role; });
    k.buffers.push_back({prefix + std::to_string(same), type.dtype, type.shape, role});
  }

  void launch(int g) {
    NABLA_CHECK(open_.insert(g).second, "@{}: the kernel of {} waits for itself", f_.name, describe(g));
    BuiltKernel built = build_kernel(plan_, g);
    std::vector<ir::Val> operands;
    for (int t : built.operands) {
      int s = storage_of(plan_.graph, t);
      ensure(s);
      operands.push_back(of_tensor_[s]);
    }
    std::vector<ir::Type> types;
    for (int t : built.results) types.emplace_back(tensor(t).dtype, tensor(t).shape);
    const FusionGroup& group = plan_.groups[g];
    b_.set_location(f_.nodes[tensor(group.members.back().tensor).node].location);
    b_.set_computes(computed_by(g));
    std::vector<ir::Val> results = b_.add("launch", operands, launch_attrs(unique(std::move(built.kernel)), types));
    for (size_t i = 0; i < results.size(); ++i) {
      of_tensor_[built.results[i]] = results[i];
      ir::ValueId id = tensor(built.results[i]).value;
      if (id >= 0 && !f_.values[id].name.empty()) b_.name_value(results[i], f_.values[id].name);
    }
  }

  // The nodes of a group's members and of what is computed inside them: back to what is in memory.
  std::vector<int> computed_by(int g) const {
    std::set<int> tensors, nodes;
    std::vector<int> work;
    for (const auto& m : plan_.groups[g].members) work.push_back(m.tensor);
    while (!work.empty()) {
      int t = work.back();
      work.pop_back();
      bool stored = plan_.group_of[t] >= 0 && plan_.group_of[t] != g && plan_.external[t];
      if (stored || tensor(t).kind == TensorKind::kGiven || !tensors.insert(t).second) continue;
      const std::vector<int>& of = f_.nodes[tensor(t).node].computes;
      if (tensor(t).kind != TensorKind::kView) nodes.insert(of.begin(), of.end());
      work.insert(work.end(), reads_[t].begin(), reads_[t].end());
    }
    return {nodes.begin(), nodes.end()};
  }

  std::string describe(int g) const {
    std::string out;
    for (const auto& m : plan_.groups[g].members) {
      out += fmt::format("{}{} {} (reads", out.empty() ? "" : "; ", m.tensor, tensor(m.tensor).name);
      for (int u : loads_of(tensor(m.tensor).formula)) out += fmt::format(" {}", u);
      out += ")";
    }
    return out;
  }

  // The name of an equal kernel, or a new one.
  std::string unique(kernel_ir::Kernel kernel) {
    auto own = std::make_shared<kernel_ir::Kernel>(std::move(kernel));
    // Layers that repeat differ in the names of their parameters only.
    if (kernel_ir::KernelPtr first = kernels_.find_or_add(own); first != own) return first->name;
    own->name = names_.unique(own->name);
    order_.push_back(own);
    return own->name;
  }

  const ir::Function& f_;
  const ir::Module& m_;
  PassContext& context_;
  DistinctKernels& kernels_;
  KernelNames& names_;
  std::vector<kernel_ir::KernelPtr>& order_;
  ir::FunctionBuilder b_;
  std::vector<Donated> donated_;  // of entries: the state leaves that they update
  FusionPlan plan_;
  std::vector<ir::Val> of_tensor_;
  std::vector<std::vector<int>> reads_;  // by tensor, before anything is inlined
  std::set<int> open_;                   // groups whose kernels are built, or wait for others
  std::set<int> called_;                 // opaque nodes that stand in the new function
};

// Adds what the function runs: by way of loops and branches, or with `meanings` also what stands for code.
void reach(const ir::Module& m, const std::string& name, bool meanings, std::set<std::string>& reached) {
  if (!reached.insert(name).second) return;
  for (const ir::Node& n : m.find(name)->nodes)
    if (meanings || n.op->lower != ir::Lowering::kAccess)
      for (const std::string& f : ir::functions_of(n.attrs)) reach(m, f, meanings, reached);
}

// Functions that only say what a kernel of the user's means: no program runs them.
std::set<std::string> only_meanings(const ir::Module& m) {
  std::set<std::string> meanings, run;
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->lower == ir::Lowering::kAccess)
        for (const std::string& g : ir::functions_of(n.attrs)) reach(m, g, true, meanings);
  for (const ir::FunctionPtr& f : m.functions)
    if (!meanings.count(f->name)) reach(m, f->name, false, run);
  for (const ir::Entry& e : m.entries) reach(m, e.function, false, run);
  std::erase_if(meanings, [&](const std::string& f) { return run.count(f) > 0; });
  return meanings;
}

// Kernels that were made as fallbacks of calls which were replaced after all.
void drop_unused_kernels(ir::Module& m) {
  std::set<std::string> used;
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes)
      if (std::optional<std::string> kernel = ir::kernel_of(n)) used.insert(*kernel);
  std::erase_if(m.kernels, [&](const auto& k) { return used.count(k->name) == 0; });
}

}  // namespace

Result<ir::Module> fuse(const ir::Module& module, PassContext& context) {
  ir::Module out = module;
  out.stage = ir::Stage::kKernels;
  std::set<std::string> unused = only_meanings(module);
  std::erase_if(out.functions, [&](const ir::FunctionPtr& f) { return unused.count(f->name) > 0; });
  DistinctKernels kernels;
  KernelNames names;
  auto generate = [&](const ir::Function& f) {
    return FunctionLowering(f, module, context, kernels, names, out.kernels).run();
  };
  for (ir::FunctionPtr& f : out.functions) {
    ScopedActivity activity("fuse on @" + f->name);
    NABLA_TRY(check_prepared(*f, module, context.target));
    // oneDNN is part of every bundle's needs on CPUs; on a GPU's machine its libraries may be missing.
    bool calls = std::any_of(f->nodes.begin(), f->nodes.end(),
                             [](const ir::Node& n) { return n.op->lower == ir::Lowering::kLibrary; });
    if (calls && context.target.is_cuda())
      f = std::make_shared<ir::Function>(NABLA_TRY(add_fallbacks(*f, module, context, generate)));
    f = std::make_shared<ir::Function>(NABLA_TRY(generate(*f)));
  }
  drop_unused_kernels(out);
  return out;
}

}  // namespace nabla::passes

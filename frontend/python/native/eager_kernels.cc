#include "frontend/python/native/eager_kernels.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "frontend/python/native/bind.h"
#include "frontend/python/native/eager_rewrites.h"
#include "frontend/python/native/unlocked.h"
#include "ir/reference/interpreter.h"
#include "ir/target.h"
#include "runtime/exec/session.h"

namespace nabla::python {
namespace {

// Below, the interpreter is as fast as finding a kernel.
constexpr int64_t kSmall = 256;
// Above, a kernel runs while other threads of Python do.
constexpr int64_t kLarge = 1 << 16;

// Between two nodes: Ctrl-C ends the evaluation, and every few milliseconds other threads of Python run. An eager loop
// may have no end.
void let_others_run() {
  using Clock = std::chrono::steady_clock;
  // Twice Python's own interval, after which a thread that waits asks for the lock, and only then is sure to get it.
  constexpr std::chrono::milliseconds kTurn(10);
  thread_local Clock::time_point turn = Clock::now();
  if (PyGILState_Check() == 0) return;
  if (Clock::time_point now = Clock::now(); now - turn > kTurn) {
    without_lock([] {});
    turn = Clock::now();
  }
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

int64_t count_between(const ir::Shape& shape, size_t from, size_t to) {
  int64_t n = 1;
  for (size_t i = from; i < to; ++i) n *= shape[i].value();
  return n;
}

// What attributes add to the entry's name: words that are not the default ("_none" of gelu's). A dtype is said by the
// result's type; nullopt where anything else is not the default.
std::optional<std::string> attribute_suffix(const ir::TypedOp& op) {
  std::string out;
  for (const ir::AttrDef& def : op.op.attrs) {
    const ir::Attr* value = op.attrs.find(def.name);
    if (def.kind == ir::AttrKind::kDType || !value) continue;
    if (def.default_value && *def.default_value == *value) continue;
    if (def.kind != ir::AttrKind::kString) return std::nullopt;
    out += "_" + std::get<std::string>(*value);
  }
  return out;
}

std::optional<KernelCall> elementwise_call(const ir::TypedOp& op) {
  std::optional<std::string> suffix = attribute_suffix(op);
  if (!suffix) return std::nullopt;
  const ir::Shape& shape = op.results[0].shape;
  KernelCall out{op.op.name + *suffix, {}};
  for (const ir::Type& t : op.operands) {
    if (t.shape != shape) return std::nullopt;
    out.entry += "_" + std::string(name_of(t.dtype));
    out.shapes.push_back({count_between(shape, 0, shape.size())});
  }
  if (op.results[0].dtype != op.operands[0].dtype) out.entry += "_to_" + std::string(name_of(op.results[0].dtype));
  return out;
}

// Axes that follow each other: [a, b, c] over b, or [a, b] over b.
std::optional<KernelCall> reduction_call(const ir::TypedOp& op) {
  const ir::Ints& axes = op.attrs.get_ints("axes");
  const ir::Shape& shape = op.operands[0].shape;
  for (size_t i = 1; i < axes.size(); ++i)
    if (axes[i] != axes[0] + static_cast<int64_t>(i)) return std::nullopt;
  if (axes.empty()) return std::nullopt;
  auto first = static_cast<size_t>(axes[0]), last = first + axes.size();
  KernelCall out{op.op.name, {{count_between(shape, 0, first), count_between(shape, first, last)}}};
  int64_t behind = count_between(shape, last, shape.size());
  if (behind == 1)
    out.entry += "_rows";
  else
    out.shapes[0].push_back(behind);
  out.entry += "_" + std::string(name_of(op.operands[0].dtype));
  return out;
}

// softmax, log_softmax and logsumexp of rows.
std::optional<KernelCall> row_call(const ir::TypedOp& op) {
  const ir::Shape& shape = op.operands[0].shape;
  size_t rank = shape.size();
  if (rank == 0 || op.attrs.get_int("axis") != static_cast<int64_t>(rank) - 1) return std::nullopt;
  return KernelCall{op.op.name + "_" + std::string(name_of(op.operands[0].dtype)),
                    {{count_between(shape, 0, rank - 1), count_between(shape, rank - 1, rank)}}};
}

// Where the contracted dimension of matrices, or of a batch of them, stands: "n" after the rows, "t" before them; else
// "".
std::string factor_layout(const ir::Type& t, const ir::Ints& batch, const ir::Ints& contract, bool left) {
  size_t b = batch.size();
  if (b > 1 || contract.size() != 1 || t.shape.size() != b + 2) return "";
  for (size_t i = 0; i < b; ++i)
    if (batch[i] != static_cast<int64_t>(i)) return "";
  bool last = contract[0] == static_cast<int64_t>(b) + 1;
  return last == left ? "n" : "t";
}

std::optional<KernelCall> product_call(const ir::TypedOp& op) {
  const ir::Ints& batch = op.attrs.get_ints("lhs_batch");
  std::string l = factor_layout(op.operands[0], batch, op.attrs.get_ints("lhs_contract"), true);
  std::string r = factor_layout(op.operands[1], op.attrs.get_ints("rhs_batch"), op.attrs.get_ints("rhs_contract"), false);
  if (l.empty() || r.empty()) return std::nullopt;
  std::string kind = batch.empty() ? "product_" : "dot_";
  KernelCall out{kind + l + r + "_" + std::string(name_of(op.operands[0].dtype)), {}};
  for (const ir::Type& t : op.operands) out.shapes.push_back(t.extents());
  return out;
}

// Bundles of one program, of which that for this machine's instruction set is opened when it is first needed.
class Library {
 public:
  explicit Library(std::string program) : program_(std::move(program)) {}
  void set_folder(const std::string& folder) { folder_ = folder; }

  // Nullopt where it has no such entry.
  std::optional<Result<std::vector<Literal>>> run(const KernelCall& call, const ir::TypedOp& op,
                                                  const std::vector<Literal>& operands) {
    std::lock_guard lock(mutex_);
    if (!opened_) open();
    auto it = entries_.find(call.entry);
    if (it == entries_.end()) return std::nullopt;
    std::vector<const int64_t*> shapes;
    std::vector<const void*> from;
    for (const auto& s : call.shapes) shapes.push_back(s.data());
    for (const Literal& a : operands) from.push_back(a.data());
    std::vector<Literal> out{Literal::uninitialized(op.results[0].dtype, op.results[0].extents())};
    void* to = out[0].mutable_data();
    Status ready = session_->set_shapes(it->second, shapes);
    if (!ready.ok()) return std::nullopt;  // larger than the entries' bounds
    Status done = session_->run(it->second, from, std::span<void* const>(&to, 1));
    if (!done.ok()) return Result<std::vector<Literal>>(done.errors());
    return Result<std::vector<Literal>>(std::move(out));
  }

 private:
  void open() {
    opened_ = true;
    if (folder_.empty()) return;
    for (const char* name : {"x86-64-v4", "x86-64-v3"}) {
      Result<std::unique_ptr<exec::Session>> session =
          exec::Session::open(fmt::format("{}{}_{}.nbundle", folder_, program_, name), {});
      if (!session.ok()) continue;
      session_ = std::move(*session);
      for (size_t i = 0; i < session_->entries().size(); ++i)
        entries_[session_->entries()[i].name] = static_cast<int>(i);
      return;
    }
  }

  std::string program_, folder_;
  bool opened_ = false;
  std::mutex mutex_;  // a session is one thread's at a time
  std::unique_ptr<exec::Session> session_;
  std::map<std::string, int> entries_;
};

struct Libraries {
  Library kernels{"kernels"}, products{"products"};
};
Libraries& libraries() {
  static auto* both = new Libraries;
  return *both;
}
Library& library_of(const ir::OpDef& op) {
  return op.name == "dot_general" ? libraries().products : libraries().kernels;
}

// Do all types have sizes that are known, and not 0?
bool is_plain(const ir::TypedOp& op) {
  auto plain = [](const ir::Type& t) { return t.is_static() && !t.count().is(0); };
  return std::all_of(op.operands.begin(), op.operands.end(), plain) &&
         std::all_of(op.results.begin(), op.results.end(), plain);
}

// The node alone, by its reference.
Result<std::vector<Literal>> by_reference(const ir::Module& module, const ir::Function& f, const ir::Node& node,
                                          std::vector<Literal> operands) {
  auto one = std::make_shared<ir::Function>();
  one->name = "eager.node";
  ir::Node copy = node;
  for (size_t i = 0; i < node.operands.size(); ++i) {
    one->values.push_back({f.type(node.operands[i]), ""});
    copy.operands[i] = static_cast<int>(i);
    one->params.push_back(static_cast<int>(i));
  }
  for (ir::ValueId& r : copy.results) {
    one->values.push_back({f.type(r), ""});
    r = static_cast<int>(one->values.size()) - 1;
    one->results.push_back(r);
  }
  one->nodes.push_back(std::move(copy));
  ir::Module alone = module;
  alone.functions.push_back(std::move(one));
  ir::set_interpreter_poll(let_others_run);
  auto run = [&] { return ir::interpret(alone, "eager.node", std::move(operands)); };
  // Ranks of a region are threads, which may print or call back.
  bool on_ranks = module.mesh() && !ir::functions_of(node.attrs).empty();
  return on_ranks ? without_lock(run) : run();
}

Result<std::vector<Literal>> run_node(const ir::Module& module, const ir::Function& f, const ir::Node& node,
                                      std::vector<Literal> operands) {
  ir::TypedOp op{*node.op, f.types(node.operands), node.attrs, f.types(node.results)};
  if (node.op->lower == ir::Lowering::kView) return std::vector<Literal>{operands[0].reshaped(op.results[0].extents())};
  int64_t elements = 0;
  for (const ir::Type& t : op.results) elements = std::max(elements, t.is_static() ? t.count().value() : 0);
  for (const Literal& a : operands) elements = std::max(elements, a.size());
  if (elements > kSmall && is_plain(op)) {
    if (std::optional<KernelCall> call = kernel_call(op)) {
      auto run = [&] { return library_of(*node.op).run(*call, op, operands); };
      if (auto out = elements > kLarge ? without_lock(run) : run()) return std::move(*out);
    } else if (std::optional<ir::Function> other = rewritten(module, op)) {
      return evaluate(module, *other, std::move(operands));
    }
  }
  return by_reference(module, f, node, std::move(operands));
}

}  // namespace

std::optional<KernelCall> kernel_call(const ir::TypedOp& op) {
  if (op.operands.empty() || op.results.size() != 1) return std::nullopt;
  for (const ir::Type& t : op.operands)
    if (!t.is_static() || t.count().is(0)) return std::nullopt;
  const std::string& name = op.op.name;
  if (op.op.traits.elementwise) return elementwise_call(op);
  if (name == "dot_general") return product_call(op);
  if (name == "softmax" || name == "log_softmax" || name == "logsumexp") return row_call(op);
  if (name.starts_with("reduce_") && op.operands.size() == 1 && op.op.attrs.size() == 1) return reduction_call(op);
  return std::nullopt;
}

void set_kernel_folder(const std::string& folder) {
  libraries().kernels.set_folder(folder);
  libraries().products.set_folder(folder);
}

Result<std::vector<Literal>> evaluate(const ir::Module& module, const ir::Function& f, std::vector<Literal> args) {
  std::vector<int> uses = use_counts(f);
  std::vector<Literal> values(f.values.size());
  for (size_t i = 0; i < args.size(); ++i) values[f.params[i]] = std::move(args[i]);
  for (const ir::Node& node : f.nodes) {
    let_others_run();
    std::vector<Literal> operands;
    for (ir::ValueId id : node.operands) {
      operands.push_back(values[id]);
      if (--uses[id] == 0) values[id] = Literal();
    }
    std::vector<Literal> results = NABLA_TRY(run_node(module, f, node, std::move(operands)));
    for (size_t i = 0; i < results.size(); ++i)
      if (uses[node.results[i]] > 0) values[node.results[i]] = std::move(results[i]);
  }
  std::vector<Literal> out;
  for (ir::ValueId id : f.results) out.push_back(values[id]);
  return out;
}

}  // namespace nabla::python

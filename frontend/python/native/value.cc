#include "frontend/python/native/value.h"

#include <pybind11/pybind11.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "cli/driver/compile.h"
#include "frontend/cpp/ops.h"
#include "frontend/cpp/trace.h"
#include "frontend/python/native/eager_kernels.h"
#include "frontend/python/native/reproducer.h"
#include "frontend/python/native/unlocked.h"
#include "ir/op_def.h"
#include "ir/target.h"

namespace nabla::python {
namespace {

// Whether there is something that only the compiler's passes can take apart.
bool needs_passes(const ir::Module& m) {
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->lower == ir::Lowering::kTransform) return true;
  return false;
}

// The names of all functions that it names, and that these name.
void add_callees(const ir::Module& m, const ir::Function& f, std::set<std::string>& names) {
  for (const ir::Node& n : f.nodes)
    for (const std::string& callee : functions_of(n.attrs))
      if (names.insert(callee).second) add_callees(m, *m.find(callee), names);
}

// What the function's `ids` are computed from: its own nodes, down to the values that have bytes.
struct Part {
  ir::Function function;
  std::vector<int> arguments;  ///< ids of the parameters
};
template <class Bound>
Part part_of(const ir::Function& f, const std::vector<int>& ids, const Bound& bound) {
  std::vector<bool> wanted(f.values.size(), false);
  std::vector<const ir::Node*> nodes;
  for (int id : ids) wanted[id] = true;
  for (auto node = f.nodes.rbegin(); node != f.nodes.rend(); ++node) {
    bool used = false;
    for (ir::ValueId r : node->results) used |= wanted[r] && !bound.contains(r);
    if (!used) continue;
    nodes.push_back(&*node);
    for (ir::ValueId o : node->operands) wanted[o] = true;
  }
  Part out;
  std::vector<int> to(f.values.size(), -1);
  auto add = [&](ir::ValueId id) {
    to[id] = static_cast<int>(out.function.values.size());
    out.function.values.push_back({f.values[id].type, ""});
    return to[id];
  };
  for (size_t id = 0; id < wanted.size(); ++id)
    if (wanted[id] && bound.contains(static_cast<int>(id)))
      out.function.params.push_back(add(static_cast<int>(id))), out.arguments.push_back(static_cast<int>(id));
  for (auto n = nodes.rbegin(); n != nodes.rend(); ++n) {
    ir::Node node = **n;
    for (ir::ValueId& o : node.operands) o = to[o];
    for (ir::ValueId& r : node.results) {
      int known = to[r];  // a result that has bytes is computed beside the others; nobody uses it
      int made = add(r);
      if (known >= 0) to[r] = known;
      r = made;
    }
    out.function.nodes.push_back(std::move(node));
  }
  for (int id : ids) out.function.results.push_back(to[id]);
  out.function.name = kEagerName;
  return out;
}

int64_t bytes_of_result(const ir::Function& f, const ir::Node& n) {
  if (n.results.empty()) return 0;
  const ir::Type& t = f.type(n.results[0]);
  return t.is_static() && !t.is_residual() ? t.bytes().value() : 0;
}

Diagnostic no_memory(const ir::Function& f) {
  const ir::Node* largest = nullptr;
  for (const ir::Node& n : f.nodes)
    if (bytes_of_result(f, n) > (largest ? bytes_of_result(f, *largest) : 0)) largest = &n;
  Diagnostic d = error(Code::kOutOfMemory, "no memory for tensors computed here; the largest is {}, {} bytes",
                       largest ? f.type(largest->results[0]).str() : "an argument",
                       largest ? bytes_of_result(f, *largest) : 0);
  if (largest) d.location = largest->location;
  return d;
}

// A system may promise more memory than it has, and end the process that uses it: what cannot fit is not tried.
void refuse_huge(const ir::Function& f) {
  static const int64_t physical = static_cast<int64_t>(::sysconf(_SC_PHYS_PAGES)) * ::sysconf(_SC_PAGESIZE);
  for (const ir::Node& n : f.nodes)
    if (physical > 0 && bytes_of_result(f, n) > physical) throw Error(no_memory(f));
}

// While one lives, its thread computes values of an eager function, in which other threads of Python run, too. Those
// that want values of the same function wait; a callback of this thread does not. The interpreter's lock guards all.
class Computing {
 public:
  explicit Computing(const Eager& eager) : eager_(&eager) {
    while (is_other(owners().find(eager_))) {
      without_lock([] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); });
      if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
    }
    Owner& owner = owners()[eager_];
    owner.thread = std::this_thread::get_id();
    ++owner.depth;
  }
  ~Computing() {
    auto owner = owners().find(eager_);
    if (--owner->second.depth == 0) owners().erase(owner);
  }
  Computing(const Computing&) = delete;
  static bool is_in(const Eager& eager) { return owners().contains(&eager); }

 private:
  struct Owner {
    std::thread::id thread;
    int depth = 0;
  };
  using Owners = std::map<const Eager*, Owner>;
  static Owners& owners() {
    static auto* all = new Owners;
    return *all;
  }
  static bool is_other(Owners::const_iterator owner) {
    return owner != owners().end() && owner->second.thread != std::this_thread::get_id();
  }
  const Eager* eager_;
};

std::vector<std::shared_ptr<Eager>>& eager_stack() {
  thread_local std::vector<std::shared_ptr<Eager>> stack{std::make_shared<Eager>()};
  return stack;
}
}  // namespace

Eager& Eager::of_thread() { return *eager_stack().back(); }

void Eager::begin_no_grad() {
  eager_stack().push_back(std::make_shared<Eager>());
  eager_stack().back()->tracks_gradients_ = false;
}
void Eager::end_no_grad() {
  if (eager_stack().size() > 1) eager_stack().pop_back();
}

void Eager::leave(Value* v) {
  live_.erase(v);
  drop_if_unused();
}

void Eager::hold(Value* v) {
  v->computed_by_ = weak_from_this();
  held_.insert(v);
}
void Eager::release(const Value* v) {
  held_.erase(v);
  drop_if_unused();
}

void Eager::drop() {
  bound_.clear();
  frame_ = nullptr;
  held_.clear();
  pinned_ = false;
  bound_bytes_ = 0;
  kept_ = {};
}

bool Eager::is_quiet() const { return frame_ && !Frame::current() && !Computing::is_in(*this); }

// A traced function that took a value of it refers to the frame, too.
void Eager::drop_if_unused() {
  if (live_.empty() && (held_.empty() || !pinned_) && is_quiet() && frame_.use_count() == 1) drop();
}

void Eager::tidy() {
  drop_if_unused();
  if (!is_quiet()) return;
  bool grown = frame_->builder.function().nodes.size() > 2 * kept_.nodes + 4096 ||
               bound_bytes_ > 2 * kept_.bytes + (int64_t{64} << 20);
  if (grown && frame_.use_count() == static_cast<long>(live_.size()) + 1) sweep();
  if (frame_->context->module.functions.size() > 2 * kept_.functions + 4) forget_functions();
}

// Copies to a new frame what Python's values are computed from. What has bytes and follows from nothing that requires
// gradients becomes a parameter; so no value is kept for one that was computed from it.
void Eager::sweep() {
  const std::shared_ptr<Frame> old = std::exchange(frame_, nullptr);
  const std::map<int, Literal> bytes = std::exchange(bound_, {});
  const ir::Function& whole = old->builder.function();
  std::vector<Value*> leaves = Value::gradient_leaves();
  std::erase_if(leaves, [&](Value* v) { return v->bound_frame_.lock() != old; });
  std::vector<bool> follows(whole.values.size()), wanted(whole.values.size()), kept(whole.nodes.size());
  for (Value* v : leaves) follows[v->bound_id_] = true;
  for (const ir::Node& n : whole.nodes)
    if (std::any_of(n.operands.begin(), n.operands.end(), [&](int id) { return follows[id]; }))
      for (int r : n.results) follows[r] = true;
  for (Value* v : live_) wanted[v->traced_.id()] = true;
  for (const Value* v : held_) wanted[v->bound_id_] = true;
  auto is_given = [&](int id) { return bytes.contains(id) && !follows[id]; };
  for (size_t i = whole.nodes.size(); i-- > 0;) {
    const ir::Node& n = whole.nodes[i];
    kept[i] = std::any_of(n.results.begin(), n.results.end(), [&](int id) { return wanted[id] && !is_given(id); });
    if (kept[i])
      for (int id : n.operands) wanted[id] = true;
  }
  old->context->function_names.erase(kEagerName);
  frame_ = std::make_shared<Frame>(old->context, nullptr, kEagerName);
  bound_bytes_ = 0;
  std::vector<ir::Val> to(whole.values.size());
  auto take = [&](int id, ir::Val v) {
    to[id] = v;
    if (auto known = bytes.find(id); known != bytes.end()) give_bytes(v.id, known->second);
  };
  std::set<int> params(whole.params.begin(), whole.params.end());
  for (int id = 0; id < static_cast<int>(wanted.size()); ++id)
    if (wanted[id] && (params.contains(id) || is_given(id)))
      take(id, frame_->builder.param(whole.values[id].name, whole.type(id)));
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!kept[i]) continue;
    std::vector<ir::Val> operands;
    for (int id : whole.nodes[i].operands) operands.push_back(to[id]);
    std::vector<ir::Val> results = frame_->builder.clone(whole.nodes[i], whole, std::move(operands));
    for (size_t r = 0; r < results.size(); ++r) {
      int id = whole.nodes[i].results[r];
      if (!wanted[id] || to[id].b) continue;  // it may have bytes where what is computed beside it has none
      frame_->builder.name_value(results[r], whole.values[id].name);
      take(id, results[r]);
    }
  }
  for (Value* v : live_) v->traced_ = frame_->wrap(to[v->traced_.id()]);
  auto move = [&](const Value* v) { v->bound_id_ = to[v->bound_id_].id, v->bound_frame_ = frame_; };
  std::erase_if(leaves, [&](Value* v) { return !to[v->bound_id_].b; });
  for (const Value* v : held_) move(v);
  for (const Value* v : leaves) move(v);
  kept_.nodes = frame_->builder.function().nodes.size();
  kept_.bytes = bound_bytes_;
}

// A frame that stays open keeps the functions that its nodes or Python can still call, and drops the others.
void Eager::forget_functions() {
  std::vector<ir::FunctionPtr>& functions = frame_->context->module.functions;
  std::set<std::string> called;
  auto add_calls = [&](const ir::Function& f) {
    for (const ir::Node& n : f.nodes)
      for (std::string& name : ir::functions_of(n.attrs)) called.insert(std::move(name));
  };
  add_calls(frame_->builder.function());
  std::vector<ir::FunctionPtr> kept;  // a function stands after those that it calls
  for (; !functions.empty(); functions.pop_back()) {
    ir::FunctionPtr& f = functions.back();
    if (f.use_count() == 1 && called.count(f->name) == 0) {
      frame_->context->function_names.erase(f->name);
      std::erase_if(frame_->context->imported, [&](const auto& taken) { return taken.second == f->name; });
      continue;
    }
    add_calls(*f);
    kept.push_back(std::move(f));
  }
  functions.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  kept_.functions = functions.size();
}

const std::shared_ptr<Frame>& Eager::frame() {
  if (!frame_) frame_ = std::make_shared<Frame>(std::make_shared<Context>(), nullptr, kEagerName);
  return frame_;
}

nabla::Tensor Eager::bind(const Literal& array) {
  ir::Val v = frame()->builder.param("", {array.dtype(), ir::static_shape(array.shape())});
  give_bytes(v.id, array);
  return frame_->wrap(v);
}

void Eager::give_bytes(int id, Literal array) {
  bound_bytes_ += array.size_bytes();
  bound_[id] = std::move(array);
}

std::vector<Literal> Eager::evaluate(const std::vector<int>& ids) const {
  Part part = part_of(frame_->builder.function(), ids, bound_);
  ir::Module module = frame_->context->module;
  // Other functions may have symbols of their own: those that a compiler has traced.
  std::set<std::string> callees;
  add_callees(module, part.function, callees);
  std::erase_if(module.functions, [&](const ir::FunctionPtr& f) { return !callees.contains(f->name); });
  module.functions.push_back(std::make_shared<const ir::Function>(std::move(part.function)));
  std::vector<Literal> arguments;
  ir::Entry entry{kEagerName, kEagerName, {}, {}, {}, {}};
  for (int id : part.arguments) {
    arguments.push_back(bound_.at(id));
    entry.inputs.push_back(fmt::format("a{}", entry.inputs.size()));
  }
  for (size_t i = 0; i < ids.size(); ++i) entry.outputs.push_back(fmt::format("r{}", i));
  module.entries.push_back(std::move(entry));
  if (needs_passes(module)) {
    Result<ir::Target> target = ir::find_target("cpu");
    const ir::Module traced = module;
    Reproducer reproducer(traced, "nablac opt FILE");
    module = reproducer.value_or_throw(driver::simplify_module(traced, target.value(), reproducer.manager()));
  } else {
    module.stage = ir::Stage::kFlat;
  }
  refuse_huge(*module.find(kEagerName));
  Result<std::vector<Literal>> results = [&]() -> Result<std::vector<Literal>> {
    try {
      return python::evaluate(module, *module.find(kEagerName), std::move(arguments));
    } catch (const std::bad_alloc&) {
      return no_memory(*module.find(kEagerName));
    }
  }();
  if (!results.ok()) throw Error(results.errors());
  return std::move(*results);
}

// Callbacks and other threads run meanwhile: handles come and go, are written into and donated. Only those that are
// in live_ are looked at.
void Eager::compute(const std::vector<Value*>& wanted) {
  std::shared_ptr<Eager> self = shared_from_this();  // a value may hold the last reference
  Computing computing(*this);
  bool end = this == &of_thread() && !Frame::current() && !pinned_;
  for (Value* v : live_) end = end && !v->traced_.type().is_residual();  // a pullback may still be called
  std::set<Value*> all(wanted.begin(), wanted.end());
  if (end) all.insert(live_.begin(), live_.end());
  auto ids_of = [&](const std::set<Value*>& values) {
    std::set<int> ids;
    for (Value* v : values)
      if (live_.contains(v) && !bound_.contains(v->traced_.id())) ids.insert(v->traced_.id());
    return std::vector<int>(ids.begin(), ids.end());
  };
  std::vector<int> ids = ids_of(all);
  std::vector<Literal> results;
  try {
    if (!ids.empty()) results = evaluate(ids);
  } catch (const Error&) {
    // What nobody asked for may be what fails.
    if (all.size() == wanted.size()) throw;
    all = {wanted.begin(), wanted.end()}, end = false;
    ids = ids_of(all);
    results = evaluate(ids);
  }
  for (size_t i = 0; i < ids.size(); ++i) give_bytes(ids[i], std::move(results[i]));
  std::erase_if(all, [&](Value* v) { return !live_.contains(v) || !bound_.contains(v->traced_.id()); });
  for (Value* v : all) {
    if (pinned_) hold(v);
    v->array_ = bound_.at(v->traced_.id());
    v->bound_id_ = v->traced_.id(), v->bound_frame_ = frame_;
    v->traced_ = {};
    leave(v);
    v->eager_ = nullptr;
  }
  if (end && live_.empty()) drop();
}

std::vector<std::optional<nabla::Tensor>> Eager::gradients(const Value& result,
                                                           const std::optional<nabla::Tensor>& cotangent,
                                                           const std::vector<const Value*>& leaves) {
  bool here = result.array_ ? result.bound_frame_.lock() == frame() : owns(result.traced_);
  if (!here)
    throw error_at(python_site(), Code::kMisuse,
                   "backward() of {}: what it was computed from is not there any more. No tensor that requires "
                   "gradients was used, or backward() was called before without retain_graph",
                   result.type().str());
  const ir::Function& whole = frame()->builder.function();
  std::set<int> params(whole.params.begin(), whole.params.end());
  int id = result.array_ ? result.bound_id_ : result.traced_.id();
  Part part = part_of(whole, {id}, params);
  part.function.name = frame_->context->unique_name("backward");
  std::vector<nabla::Tensor> operands;
  for (int p : part.arguments) operands.push_back({frame_, p});
  Ints wrt;
  std::vector<int> place;  // of each leaf among them; -1: the result does not depend on it
  for (const Value* leaf : leaves) {
    auto at = std::find(part.arguments.begin(), part.arguments.end(), leaf->bound_id_);
    bool used = leaf->bound_frame_.lock() == frame_ && at != part.arguments.end();
    place.push_back(used ? static_cast<int>(wrt.size()) : -1);
    if (used) wrt.push_back(at - part.arguments.begin());
  }
  if (wrt.empty()) return std::vector<std::optional<nabla::Tensor>>(leaves.size());
  TracedFunction f{frame_->context, std::make_shared<const ir::Function>(std::move(part.function)), {}};
  frame_->context->module.functions.push_back(f.function);
  Site site = python_site();
  std::vector<nabla::Tensor> out;
  if (cotangent) {
    nabla::Tensor residual = emit_call("vjp_forward", f, operands, nullptr, site).back();
    std::vector<nabla::Tensor> all = emit_pullback(f, residual, {*cotangent}, operands.size(), site);
    for (int64_t w : wrt) out.push_back(all[w]);
  } else {
    out = emit_call("grad", f, operands, &wrt, site);
  }
  std::vector<std::optional<nabla::Tensor>> by_leaf;
  for (int p : place) by_leaf.push_back(p < 0 ? std::nullopt : std::optional(out[p]));
  return by_leaf;
}

void Eager::forget_gradients() {
  pinned_ = false;
  if (frame_) compute({});
}

Recording::Recording() : pushed_(!Frame::current()) {
  if (!pushed_) return;
  Eager& eager = Eager::of_thread();
  eager.tidy();
  Frame::push(eager.frame());
}
Recording::~Recording() {
  if (pushed_) Frame::pop();
}

namespace {
std::vector<Value*>& requiring_grad() {
  static auto* values = new std::vector<Value*>;
  return *values;
}
}  // namespace

Value::Value(nabla::Tensor traced) : traced_(std::move(traced)), made_in_(Frame::current()) {
  Eager& eager = Eager::of_thread();
  if (!eager.owns(traced_)) return;
  eager_ = eager.shared_from_this();
  eager_->enter(this);
}

Value::Value(const Value& other)
    : array_(other.array_), traced_(other.traced_), eager_(other.eager_), made_in_(Frame::current()) {
  if (eager_ && !array_) eager_->enter(this);
}

Value::~Value() {
  if (requires_grad_) std::erase(requiring_grad(), this);
  traced_ = {};
  if (eager_ && !array_) eager_->leave(this);
  forget_origin();
}

// It is an array like any other from now on.
void Value::forget_origin() const {
  if (std::shared_ptr<Eager> eager = computed_by_.lock()) eager->release(this);
  computed_by_.reset();
  bound_frame_.reset();
}

ir::Type Value::type() const {
  if (donated_) return *donated_;
  return array_ ? ir::Type(array_->dtype(), ir::static_shape(array_->shape())) : traced_.type();
}

std::vector<Value*> Value::gradient_leaves() { return requiring_grad(); }

void Value::set_requires_grad(bool wanted) {
  if (wanted && is_traced())
    throw Error(error(Code::kMisuse, "requires_grad is for tensors outside of traced functions, got a traced {}",
                      type().str()));
  if (wanted && !is_float(dtype()))
    throw Error(
        error(Code::kNotDifferentiable, "{} has no derivative: only floating tensors require gradients", type().str()));
  if (wanted) array("requires_grad");
  if (requires_grad_) std::erase(requiring_grad(), this);
  if (wanted) requiring_grad().push_back(this);
  is_parameter_ = is_parameter_ && wanted;
  forget_origin();  // what used it before has no part in its gradient
  requires_grad_ = wanted;
}

void Value::donate(const std::string& to) {
  array("donating");
  donated_ = type();
  array_.reset();
  donated_to_ = to;
}

Value Value::copied() const {
  if (donated_ && !array_) array("a copy");
  Value out(*this);
  if (array_) out.array_ = Literal::from_bytes(array_->dtype(), array_->shape(), array_->data());
  return out;
}

void Value::rebind(const Value& other) {
  if (this == &other) return;
  bool own = is_tracing() && made_in_.lock() == Frame::current();
  if ((is_traced() || other.is_traced() || is_tracing()) && !own) {
    Diagnostic d = error(Code::kMisuse,
                         "a write into {}, which a traced function does not own: it comes from outside of the function, "
                         "where it would keep a value that exists only while the function is traced",
                         type().str());
    d.location = locate(python_site(), "");
    d.help = "write into a copy, y = x.clone(), or make a new tensor, y = x.at[index].set(v)";
    throw Error(std::move(d));
  }
  if (requires_grad_)
    throw error_at(python_site(), Code::kMisuse,
                   "a write into {}, which requires a gradient: write into a copy, y = x * 1", type().str());
  if (eager_ && !array_) eager_->leave(this);
  forget_origin();
  array_ = other.array_, traced_ = other.traced_, eager_ = other.eager_;
  bound_frame_ = other.bound_frame_, bound_id_ = other.bound_id_, computed_by_ = other.computed_by_;
  std::shared_ptr<Eager> eager = computed_by_.lock();
  if (!eager) eager = Eager::of_thread().shared_from_this();  // `other` may be a leaf
  if (std::shared_ptr<Frame> frame = bound_frame_.lock(); frame && eager->is(frame)) eager->hold(this);
  donated_to_.clear(), donated_ = other.donated_;
  if (eager_ && !array_) eager_->enter(this);
}

const Literal& Value::array(const char* what) const {
  // Whoever runs meanwhile may write into this handle, or donate it.
  while (!array_ && eager_) eager_->compute({const_cast<Value*>(this)});
  if (array_) return *array_;
  if (donated_)
    throw error_at(python_site(), Code::kMisuse, "{} needs a tensor whose memory was donated to {}", what, donated_to_);
  Diagnostic d =
      error(Code::kMisuse, "{} needs the elements of a traced value, {}: it has none while its function is traced", what,
            traced_.type().str());
  std::shared_ptr<Frame> frame = Frame::current();
  d.location = locate(python_site(), frame ? frame->name : "");
  d.help =
      "return it from the function, or show it with nabla.debug.print; of NumPy's functions use nabla's; shapes are "
      "known: x.shape";
  throw Error(std::move(d));
}

nabla::Tensor Value::operand() const {
  if (traced_.has_value() && !eager_) return traced_;
  Eager& own = Eager::of_thread();
  std::shared_ptr<Frame> outermost = Frame::current();
  while (outermost && outermost->parent) outermost = outermost->parent;
  if (outermost && outermost != own.frame()) {  // a program's entry: what it closes over is part of the program
    Site site = python_site();
    return nabla::constant(array("a program's constant"), site);
  }
  if (eager_ && !array_ && own.owns(traced_)) return traced_;
  // An array, or a value of another thread, which is computed there and bound here.
  const Literal& bytes = array("an op");
  // Nothing is said of where it came from by what happens without gradients.
  if (!own.tracks_gradients()) return own.bind(bytes);
  if (bound_frame_.lock() != own.frame()) {
    forget_origin();
    bound_id_ = own.bind(bytes).id();
    bound_frame_ = own.frame();
    if (requires_grad_) own.pin();
  }
  return own.frame()->wrap({&own.frame()->builder, bound_id_});
}

bool is_tracing() {
  std::shared_ptr<Frame> frame = Frame::current();
  return frame && !Eager::of_thread().is(frame);
}

void realize(const std::vector<Value*>& values) {
  std::map<std::shared_ptr<Eager>, std::vector<Value*>> waiting;
  for (Value* v : values)
    if (v->eager_ && !v->array_)
      waiting[v->eager_].push_back(v);
    else
      v->array("realize");
  for (auto& [eager, together] : waiting) eager->compute(together);
}

}  // namespace nabla::python

#include "frontend/python/native/value.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "frontend/cpp/ops.h"
#include "frontend/cpp/trace.h"
#include "frontend/python/native/eager_part.h"
#include "frontend/python/native/unlocked.h"
#include "ir/op_def.h"

namespace nabla::python {
namespace {

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

// The layout of a value of the function; null: it has none.
PlacementRef placement_in(const Frame& frame, int id) {
  const ir::ShardingRef& sharding = frame.builder.function().values[id].sharding;
  return sharding ? std::make_shared<const Placement>(Placement{*frame.context->module.mesh(), sharding}) : nullptr;
}

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
    frame_->builder.lay_out(v, whole.values[id].sharding);
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

nabla::Tensor Eager::bind(const Literal& array, const PlacementRef& placement, const Site& site) {
  const ir::Type type{array.dtype(), ir::static_shape(array.shape())};
  if (placement && !frame()->context->has_mesh(placement->mesh)) frame_->context->need_mesh(placement->mesh, type.str(), site);
  ir::Val v = frame()->builder.param("", type);
  if (placement) frame_->builder.lay_out(v, placement->sharding);
  give_bytes(v.id, array);
  return frame_->wrap(v);
}

void Eager::give_bytes(int id, Literal array) {
  bound_bytes_ += array.size_bytes();
  bound_[id] = std::move(array);
}

void Eager::evaluate(const std::vector<int>& ids) {
  Part part = part_of(frame_->builder.function(), ids, [&](int id) { return bound_.contains(id); });
  std::vector<Literal> arguments;
  for (int id : part.arguments) arguments.push_back(bound_.at(id));
  ir::Module module = module_of_part(frame_->context->module, std::move(part.function));
  std::vector<ir::ShardingRef> layouts = layouts_of_results(module);
  std::vector<Literal> results = evaluate_part(std::move(module), std::move(arguments));
  for (size_t i = 0; i < ids.size(); ++i) {
    give_bytes(ids[i], std::move(results[i]));
    if (layouts[i]) frame_->builder.lay_out({&frame_->builder, ids[i]}, layouts[i]);
  }
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
  try {
    if (!ids.empty()) evaluate(ids);
  } catch (const Error&) {
    // What nobody asked for may be what fails.
    if (all.size() == wanted.size()) throw;
    all = {wanted.begin(), wanted.end()}, end = false;
    ids = ids_of(all);
    evaluate(ids);
  }
  std::erase_if(all, [&](Value* v) { return !live_.contains(v) || !bound_.contains(v->traced_.id()); });
  for (Value* v : all) {
    if (pinned_) hold(v);
    v->array_ = bound_.at(v->traced_.id());
    v->placement_ = placement_in(*frame_, v->traced_.id());
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
  Part part = part_of(whole, {id}, [&](int each) { return params.contains(each); });
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

bool Eager::leave_mesh() {
  if (Frame::current()) return false;
  auto next = std::make_shared<Eager>();
  next->tracks_gradients_ = of_thread().tracks_gradients_;
  eager_stack().back() = std::move(next);
  return true;
}

void Eager::resume(const std::shared_ptr<Eager>& eager) {
  if (eager && !Frame::current() && eager->is_of_this_thread()) eager_stack().back() = eager;
}

void Eager::enter_mesh(const ir::Mesh& mesh) {
  const std::shared_ptr<Frame>& frame = of_thread().frame_;
  const ir::Mesh* now = frame ? frame->context->module.mesh() : nullptr;
  if (now && (now->name != mesh.name || now->axes != mesh.axes)) (void)leave_mesh();
}

void Eager::forget_gradients() {
  pinned_ = false;
  if (frame_) compute({});
}

OtherEager::OtherEager(std::shared_ptr<Eager> owner, const Site& site)
    : Error([&] {
        Diagnostic d = error(Code::kBadSharding, "a pullback is called whose function was differentiated over another mesh");
        d.location = locate(site, "");
        d.help = "ranks of one computation are all of one mesh: give it cotangents of that one";
        return d;
      }()),
      eager(std::move(owner)) {}

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
    : array_(other.array_),
      placement_(other.placement_),
      traced_(other.traced_),
      eager_(other.eager_),
      made_in_(Frame::current()) {
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

int Value::batch_dims() const {
  int out = 0;
  if (is_traced())
    for (std::shared_ptr<Frame> f = traced_.frame(); f; f = f->parent) out += f->batched ? 1 : 0;
  return out;
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
  array_ = other.array_, traced_ = other.traced_, eager_ = other.eager_, placement_ = other.placement_;
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
    nabla::Tensor whole = nabla::constant(array("a program's constant"), site);
    if (!placement_) return whole;
    Frame::current()->context->need_mesh(placement_->mesh, whole.type().str(), site);
    P layout;
    layout.sharding = *placement_->sharding;
    for (const ir::DimSharding& d : layout.sharding.dims)  // of other numbers of ranks, too
      layout.sharding.allow_padding |= !d.axes.empty();
    return nabla::shard(whole, layout, site);
  }
  if (eager_ && !array_ && own.owns(traced_)) {
    if (is_tracing()) (void)placement();  // the function that is traced finds it there
    return traced_;
  }
  if (eager_ && !array_ && traced_.type().is_residual() && eager_->is_of_this_thread() && !is_tracing())
    throw OtherEager(eager_, python_site());
  // An array, or a value of another thread, which is computed there and bound here.
  const Literal& bytes = array("an op");
  // Nothing is said of where it came from by what happens without gradients.
  Site site = placement_ ? python_site() : Site();
  if (!own.tracks_gradients()) return own.bind(bytes, placement_, site);
  if (bound_frame_.lock() != own.frame()) {
    forget_origin();
    bound_id_ = own.bind(bytes, placement_, site).id();
    bound_frame_ = own.frame();
    if (requires_grad_) own.pin();
  }
  return own.frame()->wrap({&own.frame()->builder, bound_id_});
}

PlacementRef Value::placement() const {
  if (placement_ || array_ || donated_) return placement_;
  const std::shared_ptr<Frame>& frame = traced_.frame();
  if (!frame->context->module.mesh() || traced_.type().is_residual()) return nullptr;  // many values have no one layout
  const ir::Function& f = frame->builder.function();
  if (!f.values[traced_.id()].sharding) {
    ir::ShardingRef layout = layout_of_value(*frame, traced_.id());
    if (!layout) return nullptr;
    frame->builder.lay_out({&frame->builder, traced_.id()}, std::move(layout));
  }
  return placement_ = placement_in(*frame, traced_.id());
}

void Value::lay_out(const PlacementRef& placement, const std::string& what) {
  const std::shared_ptr<Frame>& frame = traced_.frame();
  frame->context->need_mesh(placement->mesh, what, python_site());
  frame->builder.lay_out({&frame->builder, traced_.id()}, placement->sharding);
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

// What Python sees as nabla.Tensor: an array, or a value that is still to be computed.
//
// Outside of a trace, ops are recorded too: in the thread's eager function, whose parameters are arrays. Values get
// their bytes when somebody looks at them (Value::array). That function is dropped as soon as all that Python holds of
// it has bytes, and between ops what nobody needs any more is swept out of it, so that it does not grow with the program.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "frontend/cpp/frame.h"
#include "frontend/cpp/tensor.h"
#include "frontend/python/native/placement.h"
#include "runtime/base/literal.h"

namespace nabla::python {

/// Of the function of tensors that wait for somebody to look at them; no user wrote one.
inline constexpr const char* kEagerName = "eager";

class Value;

/// The eager function of one thread, or of a stretch of it without gradients.
class Eager : public std::enable_shared_from_this<Eager> {
 public:
  static Eager& of_thread();
  /// Until end_no_grad, ops of this thread go to a function of their own, in which nothing requires gradients.
  static void begin_no_grad();
  static void end_no_grad();

  /// The open frame; a new one after the values of the last one were computed.
  const std::shared_ptr<Frame>& frame();
  bool owns(const nabla::Tensor& t) const { return t.frame() == frame_; }
  bool is(const std::shared_ptr<Frame>& frame) const { return frame == frame_; }
  /// A parameter that stands for the array. Throws OtherMesh.
  nabla::Tensor bind(const Literal& array, const PlacementRef& placement, const Site& site);
  void pin() { pinned_ = tracks_gradients_; }
  bool tracks_gradients() const { return tracks_gradients_; }
  void enter(Value* v) { live_.insert(v); }
  void leave(Value* v);
  /// A value that was computed here, as long as Python holds it.
  void hold(Value* v);
  void release(const Value* v);
  /// Computes values of this function. At the top, outside of any trace, everything that Python holds is computed with
  /// them and the function ends. Throws Error.
  void compute(const std::vector<Value*>& wanted);
  /// Gradients of `result`, with this cotangent, by arrays that were bound here; what does not reach it is nullopt.
  std::vector<std::optional<nabla::Tensor>> gradients(const Value& result,
                                                      const std::optional<nabla::Tensor>& cotangent,
                                                      const std::vector<const Value*>& leaves);
  /// Between ops: ends the function when Python holds nothing of it; when it has grown much, forgets the nodes that no
  /// value needs any more, and the traced functions that nobody can call.
  void tidy();
  /// Ends the function, although arrays in it require gradients; values without bytes are computed.
  void forget_gradients();
  /// The thread gets another eager function, in which tensors of another mesh can be used; values that wait stay with
  /// this one. False while a function is traced.
  static bool leave_mesh();
  /// Makes it the thread's again, where it was before leave_mesh; not while a function is traced.
  static void resume(const std::shared_ptr<Eager>& eager);
  bool is_of_this_thread() const { return thread_ == std::this_thread::get_id(); }
  /// leave_mesh where the mesh of the thread's eager function is another than this one.
  static void enter_mesh(const ir::Mesh& mesh);

 private:
  void evaluate(const std::vector<int>& ids);
  void give_bytes(int id, Literal array);
  bool is_quiet() const;  ///< there is a frame, and no op is being recorded, no value computed
  void sweep();
  void forget_functions();
  void drop();
  void drop_if_unused();

  std::shared_ptr<Frame> frame_;
  std::map<int, Literal> bound_;  ///< values of frame_ that have bytes: parameters, and what was computed
  std::set<Value*> live_;         ///< Python's values in frame_ without bytes
  bool pinned_ = false;           ///< an array requires gradients: what was computed from it stays
  std::set<const Value*> held_;   ///< Python's values that were computed in frame_, while pinned
  bool tracks_gradients_ = true;
  std::thread::id thread_ = std::this_thread::get_id();
  int64_t bound_bytes_ = 0;  ///< that bound_ was given since the last sweep, with what it had then
  struct {
    size_t nodes = 0, functions = 0;
    int64_t bytes = 0;
  } kept_;  ///< when they were last looked through
};

/// Thrown where a pullback is of an eager function that the thread has left for another mesh's: E0210.
struct OtherEager : Error {
  OtherEager(std::shared_ptr<Eager> owner, const Site& site);
  std::shared_ptr<Eager> eager;
};

/// While one lives, ops go to the innermost trace, or to the thread's eager function.
class Recording {
 public:
  Recording();
  ~Recording();
  Recording(const Recording&) = delete;

 private:
  bool pushed_;
};

class Value {
 public:
  explicit Value(Literal array, PlacementRef placement = nullptr)
      : array_(std::move(array)), placement_(std::move(placement)), made_in_(Frame::current()) {}
  /// A value of the innermost function, to which Recording sent an op.
  explicit Value(nabla::Tensor traced);
  Value(const Value& other);
  Value& operator=(const Value&) = delete;
  ~Value();

  ir::Type type() const;
  DType dtype() const { return array_ ? array_->dtype() : donated_ ? donated_->dtype : traced_.dtype(); }
  int rank() const { return array_ ? array_->rank() : donated_ ? donated_->rank() : traced_.rank(); }
  /// Whether it is a value of a function that is traced for a transform or a compiler: it has no bytes.
  bool is_traced() const { return !array_ && !eager_ && !donated_; }
  /// How many functions of one example of a batch (vmap) its function is in.
  int batch_dims() const;
  bool has_array() const { return array_.has_value(); }
  /// The bytes, computed now where they are not there yet. Throws Error (E0707) for a traced value: `what` was asked.
  const Literal& array(const char* what) const;
  /// How it is laid out; null: it is whole, on one device. For a value without bytes by propagation, and it stays so laid
  /// out from then on.
  PlacementRef placement() const;
  /// Lays out a parameter of the function that is traced now, which errors call `what`.
  void lay_out(const PlacementRef& placement, const std::string& what);
  /// Whether backward() gives it a gradient. E0209 for a traced value.
  bool requires_grad() const { return requires_grad_ || is_parameter_; }
  void set_requires_grad(bool wanted);
  /// A module's parameter that will require gradients as soon as the module is called: it says that it does.
  void set_parameter() { is_parameter_ = !is_traced(); }
  bool is_gradient_leaf() const { return requires_grad_; }
  /// All that require gradients, in the order in which they began to.
  static std::vector<Value*> gradient_leaves();
  /// Takes the bytes away: using it from now on is an error, which says who took them.
  void donate(const std::string& to);
  /// Holds what `other` holds from now on: `x[i] = v`. E0707 where it requires a gradient, and while a function is
  /// traced that this handle comes from outside of.
  void rebind(const Value& other);
  /// The same elements under a handle of their own, that no gradient reaches, in memory of their own.
  Value copied() const;
  /// The eager function that it is computed in, or was; null: none.
  std::shared_ptr<Eager> eager() const { return eager_ ? eager_ : computed_by_.lock(); }
  /// The same elements, computed now, laid out over no mesh.
  Value unplaced() const { return Value(array("another mesh")); }
  /// Whether both are one value of a function, or one array.
  bool same(const Value& other) const {
    if (array_ && other.array_) return array_->data() == other.array_->data();
    return !array_ && !other.array_ && traced_.frame() == other.traced_.frame() && traced_.id() == other.traced_.id();
  }
  /// As an operand of the function that records now.
  nabla::Tensor operand() const;

 private:
  void forget_origin() const;

  friend class Eager;
  friend void realize(const std::vector<Value*>& values);
  mutable std::optional<Literal> array_;
  mutable PlacementRef placement_;  ///< of an array, or of a value that was asked for it
  mutable nabla::Tensor traced_;
  mutable std::shared_ptr<Eager> eager_;  ///< not null: traced_ is a value of its function
  // An array is a parameter of the eager function that used it last.
  mutable std::weak_ptr<Frame> bound_frame_;
  mutable int bound_id_ = -1;
  mutable std::weak_ptr<Eager> computed_by_;  ///< which counts it as long as its frame is open
  bool requires_grad_ = false, is_parameter_ = false;
  std::weak_ptr<Frame> made_in_;  ///< the function that was traced, or recorded, as this handle came to be
  std::string donated_to_;
  std::optional<ir::Type> donated_;  ///< what it was, when its memory is another's
};

/// Bytes for all of them, those of one thread's function in one walk.
void realize(const std::vector<Value*>& values);

/// Whether a function is being traced.
bool is_tracing();

/// The innermost line of Python outside of this package. File names live as long as the process.
Site python_site();

}  // namespace nabla::python

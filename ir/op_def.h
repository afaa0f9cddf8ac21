// OpDef: everything the product knows about one op. Passes ask records; a record knows no pass and no backend,
// and nothing else in the product keeps a list of ops. The records are in ir/ops/.
#pragma once

#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/kernel_ir/fragment.h"
#include "ir/module.h"
#include "ir/op_kinds.h"
#include "runtime/base/collective.h"
#include "runtime/base/literal.h"

namespace nabla::ir {

// ---- Rules ------------------------------------------------------------------------------------------------------

/// Why a rule does not exist. Shown to users and collected by `nablac doc refusals`.
struct Refusal {
  std::string reason;
};
inline Refusal not_differentiable(std::string reason) { return {std::move(reason)}; }
inline Refusal no_rule(std::string reason) { return {std::move(reason)}; }
struct ByDecomposition {};
/// The rule follows from the op's decomposition into other ops.
inline ByDecomposition by_decomposition() { return {}; }

/// A function, a written refusal, or "by decomposition". It has no default: a record that leaves a rule out does
/// not compile.
template <class Signature>
class Rule {
 public:
  Rule(Refusal refusal) : reason_(std::move(refusal.reason)) {}
  Rule(ByDecomposition) : by_decomposition_(true) {}
  template <class F>
  requires std::is_constructible_v<std::function<Signature>, F> Rule(F f) : function_(std::move(f)) {}

  bool exists() const { return static_cast<bool>(function_); }
  bool by_decomposition() const { return by_decomposition_; }
  bool refused() const { return !exists() && !by_decomposition_; }
  const std::string& reason() const { return reason_; }  ///< of a refusal
  template <class... Args>
  auto operator()(Args&&... args) const {
    return function_(std::forward<Args>(args)...);
  }

 private:
  std::function<Signature> function_;
  std::string reason_;
  bool by_decomposition_ = false;
};

struct FoldByReference {};
/// Nodes whose operands are all constants are computed by the op's reference.
inline FoldByReference fold_by_reference() { return {}; }

/// Whether the compiler computes nodes whose operands are all constants, or a written refusal. It has no default.
class Folding {
 public:
  Folding(Refusal refusal) : reason_(std::move(refusal.reason)), exists_(false) {}
  Folding(FoldByReference) : exists_(true) {}

  bool exists() const { return exists_; }
  bool by_decomposition() const { return false; }
  bool refused() const { return !exists_; }
  const std::string& reason() const { return reason_; }  ///< of a refusal

 private:
  std::string reason_;
  bool exists_;
};

// ---- What rules are given -----------------------------------------------------------------------------------------

/// A node seen by its types alone.
struct TypedOp {
  const OpDef& op;
  std::vector<Type> operands;
  const Attrs& attrs;
  std::vector<Type> results;
};

/// The functions that attributes name.
using FunctionLookup = std::function<const Function*(std::string_view)>;

struct InferContext {
  const OpDef& op;
  std::span<const Type> operands;
  const Attrs& attrs;
  FunctionLookup functions;  ///< may be empty: no function is known

  int rank(int operand) const { return operands[operand].rank(); }
  const Shape& shape(int operand) const { return operands[operand].shape; }
  /// "OP: message (C2)" with the operands' types as excerpt.
  template <class... Args>
  Diagnostic fail(Code code, std::string_view constraint, fmt::format_string<Args...> format, Args&&... args) const {
    return make_error(code, constraint, fmt::format(format, std::forward<Args>(args)...));
  }
  /// Ok when the two extents are equal; otherwise `what` differs, or cannot be decided (E0207, which proposes the
  /// constraint to add).
  Status require_equal(const Dim& a, const Dim& b, std::string_view constraint, std::string_view what) const;
  Status require_same_dtype(int a, int b, std::string_view constraint) const;
  Status require_same_type(int a, int b, std::string_view constraint) const;
  Status require_axis(int64_t axis, int rank, std::string_view constraint) const;  ///< in [0, rank)

 private:
  Diagnostic make_error(Code code, std::string_view constraint, std::string message) const;
};

/// The other ranks, as one that evaluates a collective sees them.
class Peers {
 public:
  virtual ~Peers() = default;
  /// What the ranks of this one's group along `axes` give, in the order of their coordinates there. Waits for them.
  virtual std::vector<Literal> exchange(const Axes& axes, const TypedOp& op, const Literal& mine) = 0;
  /// This rank's place in that order.
  virtual int64_t coordinate(const Axes& axes) const = 0;
};

struct EvalContext {
  const TypedOp& op;  ///< static types
  std::span<const Literal> operands;
  /// Runs a function of the module; only higher-order ops use it.
  std::function<std::vector<Literal>(std::string_view function, std::vector<Literal> args)> call;
  /// Makes these diagnostics the outcome of the evaluation, whose later side effects do not happen. Empty but for ops
  /// with side effects.
  std::function<void(const std::vector<Diagnostic>&)> fail = {};
  Peers* peers = nullptr;  ///< null: the rank is alone
  /// Runs a function of the module on the ranks of a mesh of its own, whose axes have these sizes: args[r] and the r-th
  /// results are those of rank r. Only manual regions use it.
  std::function<std::vector<std::vector<Literal>>(std::string_view function, const Axes& axes, const Ints& sizes,
                                                  std::vector<std::vector<Literal>> args)>
      on_ranks = {};
  const Attrs& attrs() const { return op.attrs; }
};

struct DecomposeContext {
  FunctionBuilder& b;
  const TypedOp& op;
  std::vector<Val> operands;
  const Attrs& attrs() const { return op.attrs; }
  Val operand(int i) const { return operands[i]; }
};

enum class Transform : uint8_t {
  kVjpForward,   ///< parameters -> results, residuals
  kVjpBackward,  ///< residuals, a cotangent per result -> gradients of the active parameters
  kJvp,          ///< parameters, tangents of the active ones -> results, a tangent of each
};

/// A function under a batch.
struct BatchedFunction {
  std::string name;
  std::vector<bool> results;  ///< which of them carry the batch, as dimension 0
};

/// What rules of higher-order ops ask for. Functions are made on demand, each once.
class Functions {
 public:
  virtual ~Functions() = default;
  /// Name of the function that is `transform` of `function` with these parameters active.
  virtual std::string derive(std::string_view function, Transform transform, std::vector<bool> active) = 0;
  /// The same for Transform::kVjpBackward if some results have no cotangent. The function still has one parameter per cotangent, but
  /// reads only the `given` ones. Zeros in place of missing cotangents would give NaN when they are multiplied by infinity.
  virtual std::string derive_backward(std::string_view function, std::vector<bool> active, std::vector<bool> given) {
    return (void)given, derive(function, Transform::kVjpBackward, std::move(active));
  }
  /// Per result of `function`: is it floating and computed from one of these parameters?
  virtual std::vector<bool> depends(std::string_view function, const std::vector<bool>& params) = 0;
  /// `function` where these parameters carry the batch as dimension 0. Results of `forced` carry it in any case. Batch
  /// rules only.
  virtual BatchedFunction batch(std::string_view function, std::vector<bool> params, std::vector<bool> forced) = 0;
  /// Adds a function under its name, or a similar one where that is taken, and returns the name.
  virtual std::string define(Function f) = 0;
  virtual const Function& get(std::string_view function) const = 0;
  /// Says why this node has no derivative, though others of its op have one.
  virtual void refuse(std::string_view reason) = 0;
};

/// An absent cotangent, tangent or gradient is a zero of its type that nobody has to compute.
using MaybeVal = std::optional<Val>;

struct VjpContext {
  FunctionBuilder& b;
  const TypedOp& op;
  std::vector<Val> operands;
  std::vector<Val> results;
  std::vector<MaybeVal> cotangents;  ///< per result, at least one present
  std::vector<bool> active;          ///< per operand: is its gradient wanted?
  std::vector<Val> residuals;        ///< what vjp_forward saved
  Functions* functions = nullptr;
  const Attrs& attrs() const { return op.attrs; }
  Val operand(int i) const { return operands[i]; }
  Val result(int i = 0) const { return results[i]; }
  /// The cotangent of result i, as a zero tensor where it is absent.
  Val ct(int i = 0) const;
  /// Per result: is its cotangent present?
  std::vector<bool> given() const;
};

struct VjpForwardContext {
  FunctionBuilder& b;
  const TypedOp& op;
  std::vector<Val> operands;
  std::vector<bool> active;
  Functions* functions = nullptr;
  const Attrs& attrs() const { return op.attrs; }
};
struct VjpForward {
  std::vector<Val> results, residuals;
};

struct JvpContext {
  FunctionBuilder& b;
  const TypedOp& op;
  std::vector<Val> operands;
  std::vector<Val> results;        ///< a rule that computes them beside the tangents puts its own here
  std::vector<MaybeVal> tangents;  ///< per operand, at least one present
  Functions* functions = nullptr;
  const Attrs& attrs() const { return op.attrs; }
  Val operand(int i) const { return operands[i]; }
  Val result(int i = 0) const { return results[i]; }
  Val tangent(int i) const;  ///< a zero tensor where it is absent
};

struct BatchContext {
  FunctionBuilder& b;
  const TypedOp& op;           ///< the types of one example, without the batch dimension
  std::vector<Val> operands;   ///< batched ones carry the batch as dimension 0
  std::vector<bool> batched;   ///< per operand, at least one true
  Dim size;                    ///< of the batch
  std::string spmd_axis = {};  ///< the mesh axis over which the batch is sharded; empty: not said
  Functions* functions = nullptr;
  /// Of higher-order ops, set by the rule: which results carry the batch. Empty: all of them.
  std::vector<bool> results_batched = {};
  const Attrs& attrs() const { return op.attrs; }
  /// Operand i with the batch dimension in front, broadcast where it is unbatched.
  Val batched_operand(int i) const;
};
// A batch rule returns every result with the batch as dimension 0, but for those that results_batched excludes.

/// How dimensions of operands and results are tied together (Shardy's factors).
///
/// Those of a higher-order op are what its functions cannot change: a carry has the dimensions of its result, and the
/// trips of a scan are one ordered factor. Every other dimension is a factor of its own. All but the trips are
/// kFunctions: whether they can be split, and which of them are one, follows from the factors of the nodes in the
/// functions, whose parameters and results the operands and results are (see ControlFlow).
struct Factors {
  enum class Kind : uint8_t {
    kPass,       ///< the parts are computed alone and joined
    kReduce,     ///< and combined by `combiner`
    kOrdered,    ///< a part needs what those before it made, the first one needs nothing
    kReplicate,  ///< the whole is needed
    kPermute,    ///< the elements of a result along it are elements of the operands along theirs, or fill
    kFunctions,  ///< of a higher-order op: what its functions make of it
  };
  struct Factor {
    std::string name;  ///< a letter in str()
    Dim size;
    Kind kind = Kind::kPass;
    kernel_ir::Combiner combiner = kernel_ir::Combiner::kNone;  ///< of kReduce
  };
  /// Per dimension, the factors whose product it is, major first. A dimension of extent 1 may have none.
  using Tensor = std::vector<std::vector<int>>;
  std::vector<Factor> factors;
  std::vector<Tensor> operands, results;

  int add(std::string name, Dim size, Kind kind = Kind::kPass,
          kernel_ir::Combiner combiner = kernel_ir::Combiner::kNone);
  /// From "mk,kn->mn": letters are dimensions; a letter that no result has is a reduction with `combiner`.
  static Factors einsum(std::string_view spec, const TypedOp& op,
                        kernel_ir::Combiner combiner = kernel_ir::Combiner::kSum);
  /// Every operand of full rank and every result share one pass-through factor per dimension; scalars have none.
  static Factors pointwise(const TypedOp& op);
  std::string str() const;  ///< "mk,kn->mn  k: reduce(sum)"
};

/// One part of a node whose factors are split.
struct Shard {
  const TypedOp& op;  ///< the whole node
  const Factors& factors;
  std::vector<Dim> begins, sizes;  ///< per factor: where the part begins, and how long it is
  /// The part of an operand or a result: each dimension is the product of its factors. One without factors stays.
  Shape shape(const Shape& whole, const Factors::Tensor& dims) const;
  Type operand(int i) const;
  Type result(int i) const;
  /// The attributes with which `infer` gives the types of the part's results from those of its operands: what the
  /// record's `localise` says.
  Attrs attrs() const;
};

/// Which operands may hold a value that is still to be combined over a mesh axis: for the combiner of a claim,
/// f(combine(x, y)) is combine(f(x), f(y)).
struct Linearity {
  enum class Kind : uint8_t {
    kJointly,  ///< all of `operands` at once (add)
    kEach,     ///< any one of them alone (mul, dot)
  };
  struct Claim {
    kernel_ir::Combiner combiner;
    Kind kind;
    std::vector<int> operands;
    bool floats_only = false;  ///< of integers it does not hold (their quotients are rounded)
  };
  std::vector<Claim> claims;

  bool has(kernel_ir::Combiner combiner) const {
    for (const Claim& c : claims)
      if (c.combiner == combiner) return true;
    return false;
  }
  /// This and one claim more.
  Linearity also(kernel_ir::Combiner combiner, Kind kind, std::vector<int> operands) const {
    Linearity out = *this;
    out.claims.push_back({combiner, kind, std::move(operands)});
    return out;
  }
};
inline Linearity not_linear() { return {}; }
inline Linearity jointly(kernel_ir::Combiner combiner, std::vector<int> operands) {
  return Linearity().also(combiner, Linearity::Kind::kJointly, std::move(operands));
}
inline Linearity jointly_linear(std::vector<int> operands) {
  return jointly(kernel_ir::Combiner::kSum, std::move(operands));
}
inline Linearity linear_in_each(std::vector<int> operands) {
  return Linearity().also(kernel_ir::Combiner::kSum, Linearity::Kind::kEach, std::move(operands));
}
/// Of ops whose results are elements of these operands, wherever they stand: jointly with every combiner.
Linearity moves(const std::vector<int>& operands);

struct Cost {
  Dim flops;
  Dim bytes;  ///< read and written once
};
/// `flops_per_result` operations per element of the first result; bytes of all operands and results.
Cost pointwise_cost(const TypedOp& op, int64_t flops_per_result);

/// How a node becomes machine code.
enum class Lowering : uint8_t {
  kAccess,       ///< loops that follow from `access`
  kContraction,  ///< a matrix product: `access` is a sum of products
  kConvolution,  ///< a convolution or one of its gradients: loops that follow from `access`
  kLibrary,      ///< a library's call, which choose-libraries puts in the place of the two above
  kView,         ///< the operand's bytes under another type (reshape)
  kConstant,     ///< bytes of the bundle
  kCall,         ///< inlined: a call of the function that attribute `callee` names
  kControl,      ///< branches and loops over functions, as the record's `control` says
  kDecompose,    ///< its decomposition is lowered
  kTransform,    ///< gone before lowering
  kCollective,   ///< ranks exchange values between kernels
  kHost,         ///< the process that runs the program does it between kernels
  kTransfer,     ///< a copy between the memory of a GPU and the host's, beside kernels
};

/// How a higher-order op runs its functions: all that lowering knows about control flow.
struct ControlFlow {
  enum class Kind : uint8_t { kBranch, kLoop, kWhile };
  Kind kind;
  std::vector<std::string> functions;  ///< the branches by index (bool: false, true); the body; condition and body
  /// Operands: first of a branch its index; then what is handed on unchanged; then the carries, which the body's first
  /// results replace and which are the first results; then, of a loop, what is cut into `trips` slices. Results after
  /// the carries are stacked.
  int consts = 0;
  int carries = 0;
  Dim trips = 0;         ///< of a loop
  bool reverse = false;  ///< slices from the last to the first
  /// Of a loop: a function of the same parameters that the node names as its condition but never asks; empty: none.
  std::string unasked = {};
};

/// A function that is written for the ranks along some mesh axes, and communicates itself (shard_map).
struct ManualRegion {
  std::string body;
  Axes axes;          ///< whole ones; along the others of the mesh the body is sharded like any function
  Ints sizes;         ///< ranks along each of them
  Shardings in, out;  ///< per operand and result: how the body's parameters and results are cut along `axes`
};
/// How an op that computes nothing constrains the layouts of its operand and its result.
enum class LayoutRole : uint8_t {
  kNone,     ///< not at all
  kShard,    ///< the layout that the program wants
  kShardAs,  ///< two values have one layout
  kByRule,   ///< the layout follows from those of other values
  kBarrier,  ///< propagation stops here, in the directions that the node names
  kEnter,    ///< a manual region begins: the result is the rank's part
  kLeave,    ///< a manual region ends: the operand is the rank's part
  kVary,     ///< the result may differ between ranks
};
/// Along which manual axes a result may differ between ranks, when the operands may along some.
enum class Varying : uint8_t {
  kAsOperands,  ///< along all that an operand does
  kCombined,    ///< not along the op's `axes`: they have one value (all_reduce, all_gather)
  kOwn,         ///< along the op's `axes` too: each rank has its own (axis_index, permute)
};

// ---- What tests are generated from ---------------------------------------------------------------------------------

/// How the elements of an operand are drawn.
struct ValueSpec {
  double low = -2, high = 2;  ///< floats: uniform in [low, high]; integers: uniform in {low..high}
  bool distinct = false;      ///< no two elements closer than 0.05 (keeps max, sort and pooling away from ties)
  bool awkward = false;       ///< NaN, infinities, -0 and denormals may be mixed in (never for derivatives)
  /// Floats: times i + 1 added at row i of the diagonal of the last two dimensions: matrices far from singular, with
  /// eigenvalues far from each other.
  double diagonal = 0;
};
struct Operand {
  Type type;
  ValueSpec values;
};
struct Example {
  std::vector<Operand> operands;
  Attrs attrs;
  std::string functions = {};  ///< those that attrs name, as text (docs/ir-format.md)
};
/// One bad input per constraint: `infer` must fail and its message must hold "(constraint)".
struct Reject {
  std::string constraint;
  std::vector<Type> operands;
  Attrs attrs;
  std::string functions = {};
};
using Rng = std::mt19937_64;

// ---- The record ----------------------------------------------------------------------------------------------------

struct OperandDef {
  std::string name, doc;
  bool variadic = false;       ///< the last one only: any number, at least one
  bool may_be_absent = false;  ///< variadic only: none at all is fine too
};
struct AttrDef {
  std::string name;
  AttrKind kind;
  std::string doc;
  std::optional<Attr> default_value;  ///< none: required
};
struct ResultDef {
  std::string name, doc;
  bool auxiliary = false;  ///< dropped when nobody uses it
};
struct Constraint {
  std::string id;  ///< "C1"
  std::string text;
};
struct Traits {
  bool elementwise = false;  ///< result element i depends on operand elements i alone
  bool commutative = false;
  bool composite = false;    ///< stays whole until lowering to kernel_ir; has a decomposition
  bool side_effect = false;  ///< neither removed nor merged
  bool fence = false;        ///< its result is always stored, never computed inside its users
  bool kept = false;         ///< reverse mode keeps its result where it could compute it again
  bool constant = false;     ///< to derivatives: what its operands depend on ends here
  bool products = false;  ///< of composites: mostly matrix products, with sums in f32: autocast narrows it as a whole
};
/// Which dtypes examples are repeated in: f32 in an example stands for each of them.
enum class DTypes : uint8_t { kAsWritten, kFloats, kNumeric, kAll };

using StageSet = uint8_t;
constexpr StageSet stages(Stage first, Stage last) {
  return static_cast<StageSet>(((1u << (static_cast<int>(last) + 1)) - 1) & ~((1u << static_cast<int>(first)) - 1));
}
inline constexpr StageSet kTensorStages = stages(Stage::kTraced, Stage::kScheduled);
/// Of ops that may reach the program as they are: constants, views and what a library can do.
inline constexpr StageSet kAllStages = stages(Stage::kTraced, Stage::kPlanned);

struct OpDef {
  std::string name;
  int version;
  std::string category;  ///< heading in the reference: "elementwise", "movement", "composite"...
  std::string doc;       ///< meaning, edge cases (overflow, NaN, empty), source
  std::vector<OperandDef> operands;
  std::vector<AttrDef> attrs;
  std::vector<ResultDef> results;
  std::vector<Constraint> constraints;
  Traits traits;
  StageSet stages;

  /// Result types; checks every constraint, quoting its id. Attributes are present and of their kind already.
  std::function<Result<std::vector<Type>>(const InferContext&)> infer;
  /// Slow and obvious; the meaning of the op. Element types follow op.results.
  Rule<std::vector<Literal>(const EvalContext&)> reference;
  /// Of ops whose meaning each node brings along: why this one has none; empty where it has. May be null.
  std::function<std::string(const Attrs&)> lacks_reference = nullptr;
  Folding fold;
  Rule<std::vector<Val>(DecomposeContext&)> decompose;
  /// One entry per operand.
  Rule<std::vector<MaybeVal>(VjpContext&)> vjp;
  /// Higher-order ops only: what runs forward, and what is kept. Empty: the op itself runs and keeps nothing.
  std::function<VjpForward(VjpForwardContext&)> vjp_forward = nullptr;
  /// One entry per result.
  Rule<std::vector<MaybeVal>(JvpContext&)> jvp;
  Rule<std::vector<Val>(BatchContext&)> batch;
  Rule<Factors(const TypedOp&)> factors;
  RankRule rank_rule = RankRule::kNone;  ///< along dimensions that no factor splits
  OpForm form = OpForm::kOther;
  /// The scalar result as a size, without wrapping to its dtype. Nothing if it is not known. Null: it never is.
  std::optional<Dim> (*as_size)(const SizeContext&) = nullptr;
  /// Of ops whose attributes speak of sizes: what they become on a shard. Null: they stay. See Shard::attrs.
  std::function<Attrs(const Shard&)> localise = nullptr;
  /// The meaning element by element; static and symbolic shapes alike.
  Rule<kernel_ir::Fragment(const TypedOp&)> access;
  Linearity linearity;
  Lowering lower;
  /// Of composites: the procedure by which a GPU computes the node instead of its decomposition; none where it has no
  /// such code. May be null.
  std::optional<kernel_ir::Procedure> (*whole)(const TypedOp&) = nullptr;
  std::function<Cost(const TypedOp&)> cost;
  std::function<ControlFlow(const TypedOp&)> control = nullptr;  ///< of Lowering::kControl only
  /// Of loops only: the node's attributes when it runs these functions, with so many constants and carries. Trips and
  /// direction are the node's. with_control(node.attrs, control(node)) is node.attrs.
  std::function<Attrs(const Attrs&, const ControlFlow&)> with_control = nullptr;
  std::function<ManualRegion(const Attrs&)> manual = nullptr;  ///< of shard_map only
  Varying varying = Varying::kAsOperands;
  LayoutRole layout_role = LayoutRole::kNone;
  const CollectiveDef* collective = nullptr;  ///< the collective that the op is; null: ranks exchange nothing
  /// From the attributes of version N to those of N+1, for N = 1 .. version-1.
  std::vector<std::function<Attrs(Attrs)>> upgrades = {};

  DTypes dtypes;
  std::vector<Example> examples;
  /// A random legal example; sizes include 0, 1, primes and larger ones. The dtype is f32 where `dtypes` varies.
  std::function<Example(Rng&)> draw;
  std::vector<Reject> rejects;
};

/// The records, looked up by name.
class OpTable {
 public:
  explicit OpTable(std::vector<OpDef> records);
  const OpDef* find(std::string_view name) const;
  const OpDef& get(std::string_view name) const;  ///< aborts when there is none
  std::span<const OpDef> all() const { return records_; }
  std::vector<std::string> names() const;

 private:
  std::vector<OpDef> records_;  // sorted by name
};

/// Whether a node does more than compute its results: its op has a side effect, or one in a function that it runs. Such
/// a node is neither removed nor merged, and keeps its place among others of its kind.
bool has_effect(const Node& node, const Module& module);
/// Whether ranks meet in it: its op is a collective, or one in a function that it runs. All ranks run such nodes in one
/// order: it is not moved into or out of what is run conditionally.
bool communicates(const Node& node, const Module& module);

/// Is the node this collective?
inline bool is_collective(const Node& node, CollectiveKind kind) {
  return node.op->collective && node.op->collective->kind == kind;
}
/// Is it one that combines the values of ranks?
inline bool combines_ranks(const Node& node) { return node.op->collective && node.op->collective->combines; }

/// Fills in defaults, then checks names, kinds and required ones (E0204).
Result<Attrs> complete_attrs(const OpDef& op, Attrs attrs);
/// Operand count, then `infer`.
Result<std::vector<Type>> infer_types(const OpDef& op, std::span<const Type> operands, const Attrs& attrs,
                                      const FunctionLookup& functions);

}  // namespace nabla::ir

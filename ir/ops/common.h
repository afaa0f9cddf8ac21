// What the records of every family share: names of ir, rules that many ops have in common, and small helpers for
// references, examples and draws. Included by the files of ir/ops only.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "ir/op_def.h"

namespace nabla::ops {

using ir::Attr;
using ir::AttrDef;
using ir::AttrKind;
using ir::Attrs;
using ir::BatchContext;
using ir::Cost;
using ir::DecomposeContext;
using ir::Dim;
using ir::DTypes;
using ir::EvalContext;
using ir::Example;
using ir::Factors;
using ir::FunctionBuilder;
using ir::FunctionRef;
using ir::InferContext;
using ir::Ints;
using ir::JvpContext;
using ir::Lowering;
using ir::MaybeVal;
using ir::OpDef;
using ir::Operand;
using ir::OperandDef;
using ir::Refusal;
using ir::Reject;
using ir::ResultDef;
using ir::Rng;
using ir::Shape;
using ir::Type;
using ir::TypedOp;
using ir::Val;
using ir::ValueSpec;
using ir::VjpContext;
using ir::fold_by_reference;

using Extents = std::vector<int64_t>;
using Literals = std::vector<Literal>;
using Types = std::vector<Type>;
using InferResult = Result<std::vector<Type>>;

// ---- Attributes and types.
/// An attribute without a default.
AttrDef required(std::string name, AttrKind kind, std::string doc);
/// An attribute that may be left out.
AttrDef optional(std::string name, std::string doc, Attr default_value);
Type f32(Shape shape = {});
Type i32(Shape shape = {});
Type i64(Shape shape = {});
Type u32(Shape shape = {});
Type boolean(Shape shape = {});
/// A shape with extra dimension `d` in front.
Shape prepend(const Dim& d, Shape shape);
/// `shape` without the dimensions `axes`.
Shape without_axes(const Shape& shape, const Ints& axes);
/// The axes in [0, rank) that are not in `axes`, ascending.
Ints other_axes(int rank, const Ints& axes);
bool contains(const Ints& list, int64_t value);
/// Every entry plus one: attributes of the batched op.
Ints shifted(const Ints& axes);

// ---- Type checks for `infer`.
/// E0202 with `constraint` unless operand `i` is floating.
Status require_float(const InferContext& ctx, int i, std::string_view constraint);
/// E0202 with `constraint` unless operand `i` is an integer.
Status require_integer(const InferContext& ctx, int i, std::string_view constraint);
/// E0203 with `constraint` unless operand `i` has this rank.
Status require_rank(const InferContext& ctx, int i, int rank, std::string_view constraint);
/// E0204 with `constraint` unless the axes are in [0, rank) and each is named once.
Status require_axes(const InferContext& ctx, const Ints& axes, int rank, std::string_view constraint);

// ---- Derivatives.
/// For ops that are jointly linear in all operands: the op applied to the tangents.
std::vector<MaybeVal> jvp_linear(JvpContext& ctx);

/// `localise` of ops whose attribute `shape` is the first result's.
Attrs localise_shape(const ir::Shard& shard);
/// The same where only `operands` are linear; the others (indices, predicates) are passed as they are.
std::function<std::vector<MaybeVal>(JvpContext&)> jvp_linear_in(std::vector<int> operands);
/// For ops linear in each of `operands` alone (mul, dot): the sum of the op with one operand replaced by its tangent.
std::function<std::vector<MaybeVal>(JvpContext&)> jvp_linear_in_each(std::vector<int> operands);
/// The sum of two values either of which may be absent (zero).
MaybeVal add_maybe(MaybeVal a, MaybeVal b);

// ---- Evaluation.
/// A zero-filled literal of a static type.
Literal zeros(const Type& type);
/// Copies element `from` of `source` to element `to` of `target` exactly; the dtypes are equal.
void copy_element(Literal& target, int64_t to, const Literal& source, int64_t from);

/// Calls f(index, position) for every index of `shape` in row-major order; once with {} for a scalar.
template <class F>
void for_each_index(const Extents& shape, F f) {
  int64_t count = count_of(shape);
  Extents index(shape.size(), 0);
  for (int64_t position = 0; position < count; ++position) {
    f(static_cast<const Extents&>(index), position);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d]) break;
      index[d] = 0;
    }
  }
}
/// Position of an index in a row-major array of this shape.
int64_t position_of(const Extents& index, const Extents& shape);

// ---- Access.
/// Operand `k` of the op at `indices`, in its own dtype.
kernel_ir::Expr load_operand(const TypedOp& op, int k, std::vector<kernel_ir::Expr> indices);
/// The same, converted to its accumulation type.
kernel_ir::Expr load_wide(const TypedOp& op, int k, std::vector<kernel_ir::Expr> indices);
/// Adds a map that rounds definition `d` to `dtype` and returns it; returns `d` when it has that dtype already.
int round_definition(kernel_ir::Fragment& fragment, int d, DType dtype, std::string name);

// ---- Batching.
/// The same op and attributes on the batched operands: elementwise ops.
std::vector<Val> batch_elementwise(BatchContext& ctx);
/// One example after the other: a scan whose body is the op.
std::vector<Val> batch_in_loop(BatchContext& ctx);
/// The same op with other attributes; every operand carries the batch.
std::vector<Val> batch_with(BatchContext& ctx, Attrs attrs);
/// A rule for ops whose attributes `names` (ints, or one int) hold axes: each moves up by one.
std::function<std::vector<Val>(BatchContext&)> batch_shifting(std::vector<std::string> names);

// ---- Examples and draws.
Operand operand(Type type, ValueSpec values = {});
/// Uniform in [low, high].
ValueSpec between(double low, double high);
/// NaN, infinities and the like are mixed in.
ValueSpec awkward(double low = -2, double high = 2);
/// No two elements are close (keeps a maximum away from ties).
ValueSpec distinct(double low = -2, double high = 2);
int64_t random_int(Rng& rng, int64_t low, int64_t high);  ///< both included
bool random_bool(Rng& rng);
/// One of 0, 1, 2, 3, 5, 7, 16, 17, 33 that is <= max; 0 is rare.
int64_t random_dim(Rng& rng, int64_t max = 33);
/// The same without 0.
int64_t random_positive_dim(Rng& rng, int64_t max = 33);
/// `rank` sizes with a product of at most `max_elements`.
Extents random_extents(Rng& rng, int rank, int64_t max_elements = 600);
Shape random_shape(Rng& rng, int rank, int64_t max_elements = 600);
/// A random order of 0..n-1.
Ints random_permutation(Rng& rng, int n);
/// A random subset of 0..n-1, ascending, with at least `at_least` members.
Ints random_axes(Rng& rng, int n, int at_least = 0);

}  // namespace nabla::ops

// custom_call: a kernel of the user's. Its text is compiled with the bundle's own kernels; all rules are data.
#include <algorithm>
#include <cctype>
#include <set>

#include "ir/lexer.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/call.h"
#include "ir/ops/custom_signature.h"

namespace nabla::ops {
namespace {

// What a node says, taken apart.
struct UserCall {
  explicit UserCall(const TypedOp& op)
      : leading(op.attrs.get_int("batch_dims")),
        signature(parse_signature(op.attrs.get_string("signature")).value()),
        binding(bind_checked(signature, op.operands, leading)),
        counts_examples(op.attrs.get_string("batching") == "leading") {}
  int64_t leading;
  Signature signature;
  Binding binding;
  bool counts_examples;  // the code takes the number of examples first
};

// The function that an attribute names; empty: none.
std::string one_function(const Attrs& attrs, const char* attr) {
  const ir::FunctionRefs& list = attrs.get_functions(attr);
  return list.empty() ? "" : list[0].name;
}

bool is_identifier(const std::string& s) {
  auto word = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  return !s.empty() && !std::isdigit(static_cast<unsigned char>(s[0])) && std::all_of(s.begin(), s.end(), word);
}

Types floating(const Types& types) {
  Types out;
  std::copy_if(types.begin(), types.end(), std::back_inserter(out), [](const Type& t) { return is_float(t.dtype); });
  return out;
}

// ---- Types

Result<Signature> checked_signature(const InferContext& ctx) {
  Result<Signature> s = parse_signature(ctx.attrs.get_string("signature"));
  if (s.ok()) return s;
  const Diagnostic& d = s.errors()[0];
  int column = d.location ? d.location->column : 0;
  return ctx.fail(Code::kBadAttribute, "C2", "signature \"{}\", column {}: {}", ctx.attrs.get_string("signature"),
                  column, d.message);
}

// E0201, E0202 or E0203 with `constraint` unless the function named by `attr`, if any, has these types.
Status require_function(const InferContext& ctx, const char* attr, const Types& params, const Types& results,
                        std::string_view constraint) {
  const ir::FunctionRefs& list = ctx.attrs.get_functions(attr);
  if (list.size() > 1)
    return ctx.fail(Code::kBadAttribute, constraint, "{} names {} functions, expected one or none", attr, list.size());
  if (list.empty()) return Ok{};
  const ir::Function* f = ctx.functions ? ctx.functions(list[0].name) : nullptr;
  if (!f) return ctx.fail(Code::kUnknownName, constraint, "{}: no function is named @{}", attr, list[0].name);
  if (f->params.size() != params.size() || f->results.size() != results.size())
    return ctx.fail(Code::kOperandCount, constraint, "{} @{} has {} parameters and {} results, expected {} and {}",
                    attr, f->name, f->params.size(), f->results.size(), params.size(), results.size());
  NABLA_TRY(require_types(ctx, params, param_types(*f), "parameter", *f, constraint));
  return require_types(ctx, results, result_types(*f), "result", *f, constraint);
}

Status require_factors(const InferContext& ctx, const Signature& s, const Binding& binding) {
  const std::string& text = ctx.attrs.get_string("factors");
  if (text.empty()) return Ok{};
  auto fail = [&](const std::string& what) {
    return ctx.fail(Code::kBadAttribute, "C6", "factors \"{}\": {}", text, what);
  };
  std::optional<FactorText> f = parse_factor_text(text);
  if (!f) return fail("expected letters, one per dimension, as in \"nd,d->n\"");
  std::map<char, Dim> sizes;
  auto check = [&](const std::vector<Signature::Tensor>& tensors, const std::vector<std::string>& letters,
                   const char* what, bool bind) -> Status {
    if (letters.size() != std::max<size_t>(tensors.size(), 1))
      return fail(fmt::format("{} {}s for {}", letters.size(), what, tensors.size()));
    for (size_t i = 0; i < tensors.size(); ++i) {
      Shape shape = binding.shape(tensors[i].shape);
      if (letters[i].size() != shape.size())
        return fail(fmt::format("\"{}\" for {} {}, which has {} dimensions", letters[i], what, i, shape.size()));
      for (size_t d = 0; d < shape.size(); ++d) {
        char letter = letters[i][d];
        if (bind) sizes.emplace(letter, shape[d]);
        if (!sizes.count(letter)) return fail(fmt::format("no operand has `{}`", letter));
        if (!Dim::equal(sizes.at(letter), shape[d]).value_or(false))
          return fail(fmt::format("`{}` is {} and {}", letter, sizes.at(letter).str(), shape[d].str()));
      }
    }
    return Ok{};
  };
  NABLA_TRY(check(s.operands, f->operands, "operand", true));
  return check(s.results, f->results, "result", false);
}

// Compilers count lines to 2^31-1, those of the text included, and name files in their messages as they stand here.
Status require_place(const InferContext& ctx) {
  constexpr int64_t kMostLines = 1'000'000'000;
  int64_t line = ctx.attrs.get_int("line");
  if (line < 1 || line > kMostLines)
    return ctx.fail(Code::kBadAttribute, "C7", "line is {}, expected 1 to {}", line, kMostLines);
  for (unsigned char c : ctx.attrs.get_string("file"))
    if (c == '"' || c < ' ')
      return ctx.fail(Code::kBadAttribute, "C7", "file is {}, expected a name without quotes and control characters",
                      ir::quoted(ctx.attrs.get_string("file")));
  return Ok{};
}

InferResult infer_custom_call(const InferContext& ctx) {
  const Attrs& attrs = ctx.attrs;
  if (!is_identifier(attrs.get_string("name")))
    return ctx.fail(Code::kBadAttribute, "C1", "name is \"{}\", expected a C identifier", attrs.get_string("name"));
  Signature s = NABLA_TRY(checked_signature(ctx));
  const std::string& batching = attrs.get_string("batching");
  if (batching != "sequential" && batching != "leading")
    return ctx.fail(Code::kBadAttribute, "C3", "batching is \"{}\", expected \"sequential\" or \"leading\"", batching);
  int64_t leading = attrs.get_int("batch_dims");
  if (leading < 0 || (leading > 0 && (batching != "leading" || ctx.operands.empty())))
    return ctx.fail(Code::kBadAttribute, "C3", "batch_dims is {} with batching \"{}\" and {} operands", leading,
                    batching, ctx.operands.size());
  if (leading > 0 && leading > ctx.operands[0].rank())
    return ctx.fail(Code::kBadAttribute, "C3", "batch_dims is {}, but operand 0, {}, has {} dimensions", leading,
                    ctx.operands[0].str(), ctx.operands[0].rank());
  for (const ir::SymbolRef& name : s.names)
    if (batching == "leading" && name->name == "batch")
      return ctx.fail(Code::kBadAttribute, "C3", "`batch` is a name of the signature and the number of examples");
  Binding binding = NABLA_TRY(bind_signature(ctx, s, leading, "C4"));
  Types results, operands(ctx.operands.begin(), ctx.operands.end());
  for (size_t r = 0; r < s.results.size(); ++r) {
    Type t = binding.type_of(s.results[r]);
    for (size_t d = 0; d < t.shape.size(); ++d)
      if (t.shape[d].bounds().min < 0)
        return ctx.fail(Code::kShapeMismatch, "C5", "dimension {} of result {}, `{}`, may be {}", d, r,
                        s.results[r].shape[d].str(), t.shape[d].bounds().min);
    t.shape.insert(t.shape.begin(), operands.empty() ? t.shape.begin() : operands[0].shape.begin(),
                   operands.empty() ? t.shape.begin() : operands[0].shape.begin() + leading);
    results.push_back(std::move(t));
  }
  NABLA_TRY(require_factors(ctx, s, binding));
  (void)NABLA_TRY(require_place(ctx));
  NABLA_TRY(require_function(ctx, "reference", operands, results, "C8"));
  Types takes = operands;
  append(takes, results);
  append(takes, floating(results));
  NABLA_TRY(require_function(ctx, "vjp", takes, floating(operands), "C9"));
  return results;
}

// ---- Derivatives

void refuse(ir::Functions& functions, const Attrs& attrs) {
  functions.refuse(
      fmt::format("`{}` has neither a `vjp` nor a `reference` to take the derivative of: give it one, in C++ with "
                  ".vjp(f) or .reference(f)",
                  attrs.get_string("name")));
}

// The user's function on operands, results and cotangents of floating results.
std::vector<MaybeVal> vjp_of_user(VjpContext& ctx, const std::string& vjp) {
  std::vector<Val> args = ctx.operands;
  append(args, ctx.results);
  for (size_t r = 0; r < ctx.results.size(); ++r)
    if (is_float(ctx.results[r].dtype())) args.push_back(ctx.ct(static_cast<int>(r)));
  std::vector<Val> gradients = call_function(ctx.b, vjp, args);
  std::vector<MaybeVal> out(ctx.operands.size());
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (is_float(ctx.operands[i].dtype())) out[i] = gradients[next++];
  return out;
}

std::vector<MaybeVal> custom_call_vjp(VjpContext& ctx) {
  std::string vjp = one_function(ctx.attrs(), "vjp"), reference = one_function(ctx.attrs(), "reference");
  if (!vjp.empty()) return vjp_of_user(ctx, vjp);
  std::vector<MaybeVal> out(ctx.operands.size());
  if (reference.empty()) {
    refuse(*ctx.functions, ctx.attrs());
    return out;
  }
  // The kernel itself ran forward; what the reference keeps is computed here.
  std::string forward = ctx.functions->derive(reference, ir::Transform::kVjpForward, ctx.active);
  std::string backward = ctx.functions->derive(reference, ir::Transform::kVjpBackward, ctx.active);
  std::vector<Val> all = call_function(ctx.b, forward, ctx.operands);
  std::vector<Val> args = slice(all, ctx.results.size(), all.size());
  for (size_t r = 0; r < ctx.results.size(); ++r) args.push_back(ctx.ct(static_cast<int>(r)));
  std::vector<Val> gradients = call_function(ctx.b, backward, args);
  size_t next = 0;
  for (size_t i = 0; i < out.size(); ++i)
    if (ctx.active[i]) out[i] = gradients[next++];
  return out;
}

// The transpose of the user's `vjp`, which is linear in the cotangents, at cotangents of 0.
std::vector<MaybeVal> transposed_vjp(JvpContext& ctx, const std::string& vjp) {
  size_t primals = ctx.operands.size() + ctx.results.size();
  const ir::Function& f = ctx.functions->get(vjp);
  std::vector<bool> cotangents(f.params.size(), false);
  std::fill(cotangents.begin() + static_cast<std::ptrdiff_t>(primals), cotangents.end(), true);
  size_t gradients = f.results.size();
  std::string forward = ctx.functions->derive(vjp, ir::Transform::kVjpForward, cotangents);
  std::string transpose = ctx.functions->derive(vjp, ir::Transform::kVjpBackward, cotangents);
  std::vector<Val> args = ctx.operands;
  append(args, ctx.results);
  for (Val y : ctx.results)
    if (is_float(y.dtype())) args.push_back(ctx.b.zeros_like(y));
  std::vector<Val> made = call_function(ctx.b, forward, args), kept = slice(made, gradients, made.size());
  for (size_t i = 0; i < ctx.operands.size(); ++i)
    if (is_float(ctx.operands[i].dtype())) kept.push_back(ctx.tangent(static_cast<int>(i)));
  std::vector<Val> tangents = call_function(ctx.b, transpose, kept);
  std::vector<MaybeVal> out(ctx.results.size());
  size_t next = 0;
  for (size_t r = 0; r < out.size(); ++r)
    if (is_float(ctx.results[r].dtype())) out[r] = tangents[next++];
  return out;
}

std::vector<MaybeVal> custom_call_jvp(JvpContext& ctx) {
  std::string vjp = one_function(ctx.attrs(), "vjp"), reference = one_function(ctx.attrs(), "reference");
  size_t n = ctx.results.size();
  if (reference.empty()) {
    if (!vjp.empty()) return transposed_vjp(ctx, vjp);
    refuse(*ctx.functions, ctx.attrs());
    return std::vector<MaybeVal>(n);
  }
  std::vector<bool> active;
  std::vector<Val> args = ctx.operands;
  for (const MaybeVal& t : ctx.tangents) {
    active.push_back(t.has_value());
    if (t) args.push_back(*t);
  }
  std::vector<Val> all = call_function(ctx.b, ctx.functions->derive(reference, ir::Transform::kJvp, active), args);
  std::vector<MaybeVal> out(n);
  for (size_t r = 0; r < n; ++r)
    if (is_float(ctx.results[r].dtype())) out[r] = all[n + r];
  return out;
}

// ---- Batches

std::vector<Val> batch_leading(BatchContext& ctx) {
  Attrs attrs = ctx.attrs();
  attrs.set("batch_dims", attrs.get_int("batch_dims") + 1);
  for (const char* name : {"reference", "vjp"}) {
    std::string f = one_function(attrs, name);
    if (f.empty()) continue;
    const ir::Function& function = ctx.functions->get(f);
    std::vector<bool> params(function.params.size(), true), results(function.results.size(), true);
    attrs.set(name, ir::FunctionRefs{FunctionRef{ctx.functions->batch(f, params, results).name}});
  }
  std::vector<Val> operands;
  for (size_t i = 0; i < ctx.operands.size(); ++i) operands.push_back(ctx.batched_operand(static_cast<int>(i)));
  return ctx.b.add("custom_call", operands, attrs);
}

// One example after the other: a scan whose body is the call.
std::vector<Val> batch_sequential(BatchContext& ctx) {
  FunctionBuilder body(ctx.attrs().get_string("name") + ".one", ctx.b.ops(), ctx.b.module());
  body.set_location(ctx.b.location());
  std::vector<Val> inner(ctx.operands.size()), operands;
  int64_t consts = 0;
  for (bool sliced : {false, true})
    for (size_t i = 0; i < inner.size(); ++i) {
      if (ctx.batched[i] != sliced) continue;
      inner[i] = body.param(fmt::format("x{}", i), ctx.op.operands[i]);
      operands.push_back(ctx.operands[i]);
      consts += !sliced;
    }
  std::string name = ctx.functions->define(body.finish(body.add("custom_call", inner, ctx.attrs())));
  return ctx.b.add("scan", operands, {{"body", FunctionRef{name}}, {"consts", consts}, {"length", Shape{ctx.size}}});
}

std::vector<Val> custom_call_batch(BatchContext& ctx) {
  return ctx.attrs().get_string("batching") == "leading" ? batch_leading(ctx) : batch_sequential(ctx);
}

// ---- Factors and code

Factors custom_call_factors(const TypedOp& op) {
  UserCall call(op);
  const std::string& text = op.attrs.get_string("factors");
  std::optional<FactorText> letters = parse_factor_text(text);
  Factors f;
  for (int64_t d = 0; d < call.leading; ++d) f.add(fmt::format("batch{}", d), op.operands[0].shape[d]);
  std::map<char, int> by_letter;
  auto tensors = [&](const Types& types, const std::vector<std::string>* own) {
    std::vector<Factors::Tensor> out;
    for (size_t i = 0; i < types.size(); ++i) {
      Factors::Tensor t;
      for (int d = 0; d < types[i].rank(); ++d) {
        const Dim& size = types[i].shape[d];
        if (d < call.leading) {
          t.push_back({d});
        } else if (!own) {
          t.push_back({f.add("r" + std::to_string(f.factors.size()), size, Factors::Kind::kReplicate)});
        } else {
          char letter = (*own)[i][static_cast<size_t>(d - call.leading)];
          if (!by_letter.count(letter)) {
            bool pass = std::any_of(letters->results.begin(), letters->results.end(),
                                    [&](const std::string& r) { return r.find(letter) != std::string::npos; });
            by_letter[letter] =
                f.add(std::string(1, letter), size, pass ? Factors::Kind::kPass : Factors::Kind::kReduce,
                      pass ? kernel_ir::Combiner::kNone : kernel_ir::Combiner::kSum);
          }
          t.push_back({by_letter[letter]});
        }
      }
      out.push_back(std::move(t));
    }
    return out;
  };
  f.operands = tensors(op.operands, letters ? &letters->operands : nullptr);
  f.results = tensors(op.results, letters ? &letters->results : nullptr);
  return f;
}

bool mentions(const Shape& shape, const std::string& name, size_t from) {
  for (size_t d = from; d < shape.size(); ++d)
    for (const ir::SymbolRef& s : shape[d].symbols())
      if (s->name == name) return true;
  return false;
}

// The name whose extent may be cut: all results, and operands that have it at all, have it as first dimension and
// nowhere else, and `factors` passes it through. Fills in which tensors have it.
std::string cut_name(const UserCall& call, const TypedOp& op, std::vector<bool>& has) {
  std::optional<FactorText> letters = parse_factor_text(op.attrs.get_string("factors"));
  if (!letters || letters->results.empty() || letters->results[0].empty()) return "";
  char letter = letters->results[0][0];
  const Dim& first = call.signature.results[0].shape[0];
  if (first.symbols().size() != 1 || !(first == Dim::symbol(first.symbols()[0]))) return "";
  std::string name = first.symbols()[0]->name;
  for (bool operands : {true, false}) {
    const auto& tensors = operands ? call.signature.operands : call.signature.results;
    for (size_t i = 0; i < tensors.size(); ++i) {
      const std::string& own = (operands ? letters->operands : letters->results)[i];
      bool leads = !own.empty() && own[0] == letter;
      if (own.find(letter, leads ? 1 : 0) != std::string::npos || mentions(tensors[i].shape, name, leads ? 1 : 0))
        return "";
      if (leads && !(tensors[i].shape[0] == first)) return "";
      if (!leads && !operands) return "";
      has.push_back(leads);
    }
  }
  return name;
}

kernel_ir::Fragment custom_call_access(const TypedOp& op) {
  UserCall call(op);
  const Attrs& attrs = op.attrs;
  kernel_ir::UserCode code{attrs.get_string("name"), attrs.get_string("cpp"), attrs.get_string("file"),
                           attrs.get_int("line")};
  if (call.signature.has_type_variable()) code.type = call.binding.type;
  std::vector<Dim> numbers = {1, 0, 1};
  if (call.counts_examples) {
    Dim examples(1);
    for (int64_t d = 0; d < call.leading; ++d) examples = examples * op.operands[0].shape[d];
    code.sizes.emplace_back("batch");
    numbers.push_back(examples);
  }
  for (const ir::SymbolRef& s : call.signature.names) {
    code.sizes.push_back(s->name);
    numbers.push_back(call.binding.sizes.at(s->name));
  }
  size_t tensors = op.operands.size() + op.results.size();
  std::string cut = call.leading == 1 ? "batch" : call.leading == 0 ? cut_name(call, op, code.by_rows) : "";
  if (call.leading == 1) code.by_rows.assign(tensors, true);
  if (cut.empty()) {
    code.by_rows.assign(tensors, false);
  } else {
    code.rows = static_cast<int>(std::find(code.sizes.begin(), code.sizes.end(), cut) - code.sizes.begin());
    numbers[0] = numbers[3 + static_cast<size_t>(code.rows)];
  }
  for (size_t i = 0; i < tensors; ++i) {
    Shape shape = i < op.operands.size() ? op.operands[i].shape : op.results[i - op.operands.size()].shape;
    if (code.by_rows[i]) shape.erase(shape.begin());
    numbers[1] = numbers[1] + Type(DType::kU8, shape).count();
  }
  kernel_ir::Fragment f;
  f.procedure = kernel_ir::user_procedure(std::move(code), std::move(numbers));
  for (size_t r = 0; r < op.results.size(); ++r) f.opaque(fmt::format("result{}", r), op.results[r]);
  return f;
}

// ---- Examples

constexpr const char* kScale = R"(
#include <math.h>
// y[i, j] = x[i, j] * s[j] + 1; sums[i] = the sum of x[i, j].
void scale_rows(const T* x, const T* s, T* y, T* sums, int64_t n, int64_t d) {
  for (int64_t i = 0; i < n; ++i) {
    T sum = 0;
    for (int64_t j = 0; j < d; ++j) {
      sum += x[i * d + j];
      y[i * d + j] = x[i * d + j] * s[j] + T(1);
    }
    sums[i] = sum;
  }
}
)";
constexpr const char* kScaleExamples = R"(
static void scale_row(const T* x, const T* s, T* y, T* sums, int64_t d) {
  T sum = 0;
  for (int64_t j = 0; j < d; ++j) sum += x[j], y[j] = x[j] * s[j] + T(1);
  *sums = sum;
}
void scale_rows(const T* x, const T* s, T* y, T* sums, int64_t batch, int64_t n, int64_t d) {
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t i = 0; i < n; ++i)
      scale_row(x + (b * n + i) * d, s + b * d, y + (b * n + i) * d, sums + b * n + i, d);
}
)";
constexpr const char* kRotate = R"(
void rotate(const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[(i + 1) % n];
}
)";

Attrs user_attrs(const char* name, const char* text, const char* signature, const char* factors, const char* batching) {
  return {{"name", std::string(name)},           {"cpp", std::string(text)},
          {"file", std::string("kernels.cc")},   {"line", int64_t{7}},
          {"signature", std::string(signature)}, {"factors", std::string(factors)},
          {"batching", std::string(batching)},   {"reference", ir::FunctionRefs{FunctionRef{"f"}}}};
}

Example scale_example(int64_t n, int64_t d, bool leading, const char* dtype) {
  std::string text = fmt::format(R"(
func @f(%x: {2}[{0},{1}], %s: {2}[{1}]) {{
  %w = broadcast_in_dim(%s) {{dims=[1], shape=[{0}, {1}]}}
  %p = mul(%x, %w)
  %c = constant() {{value={2}[]{{1}}}}
  %one = broadcast_in_dim(%c) {{dims=[], shape=[{0}, {1}]}}
  %y = add(%p, %one)
  %sums = reduce_sum(%x) {{axes=[1]}}
  return %y, %sums
}}
)",
                                 n, d, dtype);
  Attrs attrs = user_attrs("scale_rows", leading ? kScaleExamples : kScale, "T[n,d], T[d] -> T[n,d], T[n]",
                           leading ? "" : "nd,d->nd,n", leading ? "leading" : "sequential");
  DType t = *dtype_from_name(dtype);
  return {{operand({t, {n, d}}), operand({t, {d}})}, attrs, text};
}

Example rotate_example(DType dtype) {
  std::string text = fmt::format(R"(
func @f(%x: {0}[5]) {{
  %a = slice(%x) {{starts=[1], limits=[5], strides=[1]}}
  %b = slice(%x) {{starts=[0], limits=[1], strides=[1]}}
  %y = concatenate(%a, %b) {{axis=0}}
  return %y
}}
)",
                                 name_of(dtype));
  return {{operand({dtype, {5}})}, user_attrs("rotate", kRotate, "T[n] -> T[n]", "", "sequential"), text};
}

Attrs with(Attrs attrs, const char* name, Attr value) {
  attrs.set(name, std::move(value));
  return attrs;
}

std::vector<Reject> custom_call_rejects() {
  Example e = scale_example(4, 3, false, "f32");
  Types types = {f32({4, 3}), f32({3})};
  auto text = [&](const char* name, const char* value) { return with(e.attrs, name, std::string(value)); };
  auto bad = [&](const char* constraint, Attrs attrs) {
    return Reject{constraint, types, std::move(attrs), e.functions};
  };
  auto functions = [&](const char* attr, std::initializer_list<const char*> names) {
    ir::FunctionRefs list;
    for (const char* n : names) list.push_back({n});
    return with(e.attrs, attr, list);
  };
  std::vector<Reject> out = {bad("C1", text("name", "two words")), bad("C1", text("name", "3d"))};
  for (const char* signature : {"", "f32[n]", "T[n,d] T[d] -> T[n]", "float[n,d], T[d] -> T[n]", "T[n,d], T[d] -> T[m]",
                                "f32[n,d], f32[d] -> T[n]", "T[2*n,d], T[d] -> T[n]", "T[n,d], T[d] -> T[n",
                                "T[n,d], T[d] -> T[min(n,d)]", "T[n,d], T[d] -> T[n] \"", "T[n,d], T[d] -> T[n] n"})
    out.push_back(bad("C2", text("signature", signature)));
  out.push_back(bad("C3", text("batching", "never")));
  out.push_back(bad("C3", with(e.attrs, "batch_dims", int64_t{1})));
  out.push_back(bad("C3", with(e.attrs, "batch_dims", int64_t{-1})));
  Attrs taken = with(text("batching", "leading"), "signature", std::string("T[batch,d], T[d] -> T[d]"));
  out.push_back(bad("C3", taken));
  for (const char* signature : {"T[n,d] -> T[n,d]", "T[n,d], i32[d] -> T[n]", "T[n,d], T[n] -> T[n]",
                                "T[n,d], T[d,n] -> T[n]", "T[4,d], T[d+1] -> T[d]", "T[5,d], T[d] -> T[d]"})
    out.push_back(bad("C4", text("signature", signature)));
  out.push_back({"C4", {f32({4, 3}), i32({3})}, e.attrs, e.functions});
  out.push_back(bad("C5", text("signature", "T[n,d], T[d] -> T[d-n], T[n]")));
  for (const char* factors : {"nd,d", "nd,d->n", "nd->nd,n", "nd,n->nd,n", "nd,d->nk,n", "n,d->nd,n", "n1,d->nd,n"})
    out.push_back(bad("C6", text("factors", factors)));
  Attrs batched = text("batching", "leading");
  out.push_back(bad("C3", with(batched, "batch_dims", INT64_MAX)));
  out.push_back(bad("C7", with(e.attrs, "line", int64_t{0})));
  out.push_back(bad("C7", with(e.attrs, "line", int64_t{1} << 31)));
  for (const char* file : {"a\nb.cc", "\"a.cc"}) out.push_back(bad("C7", text("file", file)));
  out.push_back(bad("C8", functions("reference", {"missing"})));
  out.push_back(bad("C8", functions("reference", {"f", "f"})));
  out.push_back(bad("C8", text("signature", "T[n,d], T[d] -> T[n,d]")));
  out.push_back(bad("C8", text("signature", "T[n,d], T[d] -> T[n,d], T[d]")));
  out.push_back(bad("C9", functions("vjp", {"f"})));
  // Both of these are refused for their factors unless those are left out.
  for (Reject& r : out)
    if (r.constraint == "C8") r.attrs.set("factors", std::string());
  return out;
}

const char* const kDoc =
    "A kernel of the user's: C++ source that is compiled into the bundle. It defines the function `name`, which takes "
    "a pointer to const per operand, a pointer per result, and an int64_t per name of `signature`, in order of first "
    "appearance; with batching \"leading\" the number of examples stands before these. Buffers are dense, row-major "
    "and "
    "not aliased; bool is bool, f16 and bf16 are uint16_t, 8-bit floats uint8_t, and T is the C++ type of the "
    "signature's T. The function keeps no state, and several threads may call it at once. `reference` is what the call "
    "means: the interpreter runs it, and derivatives are taken of it where there is no `vjp`. A batch is a scan of the "
    "call, or with batching \"leading\" one call with batch_dims extra dimensions in front of everything. See "
    "docs/user-kernels.md.";

}  // namespace

std::vector<OpDef> custom_call_ops() {
  const ir::FunctionRefs none;
  return {{
      .name = "custom_call",
      .version = 1,
      .category = "call",
      .doc = kDoc,
      .operands = {{"operands", "what the signature says", true, true}},
      .attrs = {required("name", AttrKind::kString, "of the C++ function"),
                required("cpp", AttrKind::kString, "source text that defines it"),
                optional("file", "where the text begins in the user's program", std::string()),
                optional("line", "and the line there, from 1", int64_t{1}),
                required("signature", AttrKind::kString, "operands and results: \"T[n,d], f32[d] -> T[n], i32[2*d]\""),
                optional("factors", "what may be split: \"nd,d->n\"; empty: nothing", std::string()),
                optional("batching", "\"sequential\" or \"leading\"", std::string("sequential")),
                optional("batch_dims", "leading dimensions of everything that are a batch", int64_t{0}),
                optional("reference", "no function, or one with the same types", none),
                optional("vjp",
                         "no function, or one from operands, results and a cotangent per floating result to a gradient "
                         "per floating operand",
                         none)},
      .results = {{"results", "what the signature says"}},
      .constraints = {{"C1", "name is a C identifier"},
                      {"C2", "signature is readable, and its results use names and T of its operands"},
                      {"C3", "batching is one of these; batch_dims and the name `batch` belong to \"leading\""},
                      {"C4", "the operands fit the signature"},
                      {"C5", "no extent of a result is negative"},
                      {"C6", "factors has a letter per dimension, of one size; results have letters of operands"},
                      {"C7", "line is 1 to 1000000000; file has no quotes and control characters"},
                      {"C8", "reference is at most one function, of the call's types"},
                      {"C9", "vjp is at most one function, of the types that follow from them"}},
      .traits = {},
      .stages = ir::kTensorStages,
      .infer = infer_custom_call,
      .reference =
          [](const EvalContext& ctx) {
            return ctx.call(one_function(ctx.attrs(), "reference"), {ctx.operands.begin(), ctx.operands.end()});
          },
      .lacks_reference =
          [](const Attrs& attrs) {
            return attrs.get_functions("reference").empty()
                       ? fmt::format("give `{}` one, in C++ with .reference(f)", attrs.get_string("name"))
                       : std::string();
          },
      .fold = ir::no_rule("functions are not run by the compiler"),
      .decompose = ir::no_rule("its code is the user's"),
      .vjp = custom_call_vjp,
      .jvp = custom_call_jvp,
      .batch = custom_call_batch,
      .factors = custom_call_factors,
      .access = custom_call_access,
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .no_gpu_code = "its source is C++ for CPUs",
      .cost = call_cost,
      .dtypes = DTypes::kAsWritten,
      .examples = {scale_example(4, 3, false, "f32"), scale_example(4, 3, true, "f32"),
                   scale_example(7, 1, false, "f64"), scale_example(3, 5, true, "f64"),
                   scale_example(2, 3, false, "i32"), scale_example(0, 3, false, "f32"),
                   scale_example(3, 0, false, "f32"), rotate_example(DType::kF32), rotate_example(DType::kBF16),
                   rotate_example(DType::kF16), rotate_example(DType::kU8), rotate_example(DType::kBool)},
      .draw = [](Rng& rng) { return scale_example(random_dim(rng), random_dim(rng, 17), random_bool(rng), "f32"); },
      .rejects = custom_call_rejects(),
  }};
}

}  // namespace nabla::ops

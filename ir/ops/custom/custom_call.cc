// custom_call: a kernel of the user's. Its texts are compiled with the bundle's own kernels; all rules are data.
#include <algorithm>
#include <cctype>
#include <set>

#include "ir/lexer.h"
#include "ir/ops/all_ops.h"
#include "ir/ops/control/call.h"
#include "ir/ops/custom/examples.h"
#include "ir/ops/custom/signature.h"

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

Dim examples_of(std::span<const Type> operands, int64_t leading) {
  Dim out(1);
  for (int64_t d = 0; d < leading; ++d) out = out * operands[0].shape[d];
  return out;
}

// The blocks that a launch has, at least 1. The error, if any, is about the text.
Result<Dim> blocks_of(const Attrs& attrs, const Signature& s, const Binding& binding, const Dim& examples,
                      const Type& first_result) {
  const std::string& text = attrs.get_string("blocks");
  if (text.empty()) return Dim::max(1, Dim::ceildiv(first_result.count(), attrs.get_int("threads")));
  std::map<std::string, Dim> names = binding.sizes;
  if (attrs.get_string("batching") == "leading") names.emplace("batch", examples);
  Dim blocks = NABLA_TRY(evaluate_size(text, names));
  return Dim::max(1, blocks);
}

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
Status require_place(const InferContext& ctx, const char* file, const char* line) {
  constexpr int64_t kMostLines = 1'000'000'000;
  int64_t at = ctx.attrs.get_int(line);
  if (at < 1 || at > kMostLines)
    return ctx.fail(Code::kBadAttribute, "C7", "{} is {}, expected 1 to {}", line, at, kMostLines);
  for (unsigned char c : ctx.attrs.get_string(file))
    if (c == '"' || c < ' ')
      return ctx.fail(Code::kBadAttribute, "C7", "{} is {}, expected a name without quotes and control characters",
                      file, ir::quoted(ctx.attrs.get_string(file)));
  return Ok{};
}

// A launch that GPUs can take. How much shared memory a block may have, targets decide.
Status require_launch(const InferContext& ctx, const Signature& s, const Binding& binding, int64_t leading,
                      const Type& first_result) {
  constexpr int64_t kMostThreads = 1024, kMostShared = 227 << 10, kMostBlocks = INT32_MAX;
  const Attrs& attrs = ctx.attrs;
  const std::string& text = attrs.get_string("blocks");
  int64_t threads = attrs.get_int("threads"), shared = attrs.get_int("shared_bytes");
  if (attrs.get_string("cuda").empty()) {
    if (threads == 256 && shared == 0 && text.empty()) return Ok{};
    return ctx.fail(Code::kBadAttribute, "C10", "threads, blocks and shared_bytes are of `cuda`, which is empty");
  }
  if (threads < 1 || threads > kMostThreads)
    return ctx.fail(Code::kBadAttribute, "C10", "threads is {}, expected 1 to {}", threads, kMostThreads);
  if (shared < 0 || shared > kMostShared)
    return ctx.fail(Code::kBadAttribute, "C10", "shared_bytes is {}, expected 0 to {}", shared, kMostShared);
  Result<Dim> blocks = blocks_of(attrs, s, binding, examples_of(ctx.operands, leading), first_result);
  if (!blocks.ok()) {
    const Diagnostic& d = blocks.errors()[0];
    return ctx.fail(Code::kBadAttribute, "C11", "blocks \"{}\", column {}: {}", text,
                    d.location ? d.location->column : 0, d.message);
  }
  if (int64_t most = blocks->bounds().max; most > kMostBlocks)
    return ctx.fail(
        Code::kBadAttribute, "C11",
        "{} up to {}; a grid has at most {}: give fewer, and let each thread do several elements",
        text.empty() ? "a thread per element of result 0 makes blocks" : fmt::format("blocks \"{}\" is", text), most,
        kMostBlocks);
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
  (void)NABLA_TRY(require_place(ctx, "file", "line"));
  (void)NABLA_TRY(require_place(ctx, "cuda_file", "cuda_line"));
  NABLA_TRY(require_launch(ctx, s, binding, leading, results[0]));
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
      fmt::format("`{}` has neither a `vjp` nor a `reference` to take the derivative of: give it one with "
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

std::vector<Val> custom_call_batch(BatchContext& ctx) {
  return ctx.attrs().get_string("batching") == "leading" ? batch_leading(ctx) : batch_in_loop(ctx);
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
            // What one result has and another sums over cannot be cut: a part would give the other a share of its sum.
            auto with = std::count_if(letters->results.begin(), letters->results.end(),
                                      [&](const std::string& r) { return r.find(letter) != std::string::npos; });
            bool pass = with == std::ssize(letters->results), sum = with == 0;
            by_letter[letter] = f.add(std::string(1, letter), size,
                                      pass  ? Factors::Kind::kPass
                                      : sum ? Factors::Kind::kReduce
                                            : Factors::Kind::kReplicate,
                                      sum ? kernel_ir::Combiner::kSum : kernel_ir::Combiner::kNone);
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
  kernel_ir::UserCode code;
  code.name = attrs.get_string("name");
  code.cpp = {attrs.get_string("cpp"), attrs.get_string("file"), attrs.get_int("line")};
  code.cuda = {attrs.get_string("cuda"), attrs.get_string("cuda_file"), attrs.get_int("cuda_line")};
  code.cuda_threads = static_cast<int>(attrs.get_int("threads"));
  code.cuda_shared_bytes = static_cast<int>(attrs.get_int("shared_bytes"));
  if (call.signature.has_type_variable()) code.type = call.binding.type;
  std::vector<Dim> numbers = {1, 0, 1};
  if (call.counts_examples) {
    code.sizes.emplace_back("batch");
    numbers.push_back(examples_of(op.operands, call.leading));
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
  if (!code.cuda.text.empty())
    numbers.push_back(
        blocks_of(attrs, call.signature, call.binding, examples_of(op.operands, call.leading), op.results[0]).value());
  kernel_ir::Fragment f;
  f.procedure = kernel_ir::user_procedure(std::move(code), std::move(numbers));
  for (size_t r = 0; r < op.results.size(); ++r) f.opaque(fmt::format("result{}", r), op.results[r]);
  return f;
}

// ---- The record

const char* const kDoc =
    "A kernel of the user's: source that is compiled into the bundle, C++ for CPUs (`cpp`), CUDA C++ for GPUs (`cuda`) "
    "or both. A text defines the function `name`, which takes a pointer to const per operand, a pointer per result, "
    "and "
    "an int64_t per name of `signature`, in order of first appearance; with batching \"leading\" the number of "
    "examples "
    "stands before these. Buffers are dense, row-major and not aliased; bool is bool, f16 and bf16 are uint16_t, 8-bit "
    "floats uint8_t, and T is the C++ type of the signature's T. The function of C++ keeps no state, and several "
    "threads "
    "may call it at once; that of CUDA is called by every thread of a grid of `blocks` blocks. `reference` is what the "
    "call means: the interpreter runs it, and derivatives are taken of it where there is no `vjp`. A batch is a scan "
    "of "
    "the call, or with batching \"leading\" one call with batch_dims extra dimensions in front of everything. See "
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
      .attrs = {required("name", AttrKind::kString, "of the function"),
                optional("cpp", "source for CPUs that defines it; empty: none", std::string()),
                optional("file", "where that text begins in the user's program", std::string()),
                optional("line", "and the line there, from 1", int64_t{1}),
                optional("cuda", "source for GPUs that defines it; empty: none", std::string()),
                optional("cuda_file", "where that text begins in the user's program", std::string()),
                optional("cuda_line", "and the line there, from 1", int64_t{1}),
                optional("threads", "of a block of the grid that calls it", int64_t{256}),
                optional(
                    "blocks",
                    "of the grid: an expression of names of `signature`, and of `batch` with batching \"leading\", "
                    "with + - * ceildiv floordiv mod min max; at least 1 is taken. Empty: a thread per element of "
                    "the first result",
                    std::string()),
                optional("shared_bytes", "of dynamic shared memory per block", int64_t{0}),
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
                      {"C7", "lines are 1 to 1000000000; files have no quotes and control characters"},
                      {"C8", "reference is at most one function, of the call's types"},
                      {"C9", "vjp is at most one function, of the types that follow from them"},
                      {"C10", "threads is 1 to 1024, shared_bytes 0 to 232448; they and blocks belong to cuda"},
                      {"C11", "blocks is readable, uses names of the signature, and is at most 2147483647"}},
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
                       ? fmt::format("give `{}` one with .reference(f)", attrs.get_string("name"))
                       : std::string();
          },
      .fold = ir::no_rule("functions are not run by the compiler"),
      .decompose = ir::no_rule("its code is the user's"),
      .vjp = custom_call_vjp,
      .jvp = custom_call_jvp,
      .batch = custom_call_batch,
      .factors = custom_call_factors,
      .form = ir::OpForm::kCustomCall,
      .access = custom_call_access,
      .linearity = ir::not_linear(),
      .lower = Lowering::kAccess,
      .cost = call_cost,
      .dtypes = DTypes::kAsWritten,
      .examples = custom_call_examples(),
      .draw = draw_custom_call,
      .rejects = custom_call_rejects(),
  }};
}

}  // namespace nabla::ops

// shard_by_rule: how results of a function of the user's lie, by how its operands do.
#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <span>

#include "ir/ops/collective/layout_op.h"

namespace nabla::ops {
namespace {

using Words = std::vector<std::vector<std::string>>;  // per dimension the names of its factors; none of the word 1
constexpr const char* kDots = "...";

// One tensor of a rule, from `at` on in its text: "b (h d) ..." is {{"b"}, {"h", "d"}, {"..."}}.
Result<Words> parse_tensor(std::string text, size_t at) {
  const size_t blanks = std::min(text.find_first_not_of(' '), text.size());
  text.erase(0, blanks), at += blanks;
  Words out;
  bool grouped = false;
  auto word = [&](const std::string& w) {
    if (grouped)
      out.back().push_back(w);
    else
      out.push_back(w == "1" ? std::vector<std::string>() : std::vector<std::string>{w});
  };
  auto is_digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  for (size_t i = 0; i < text.size();) {
    auto in_name = [&](size_t k) { return k < text.size() && (std::isalnum(static_cast<unsigned char>(text[k])) || text[k] == '_'); };
    size_t end = i;
    while (in_name(end)) ++end;
    if (end > i) {
      const std::string w = text.substr(i, end - i);
      if (is_digit(w[0]) && (w != "1" || grouped))
        return error(Code::kBadAttribute, "column {}: `{}` is no name: {}", at + i + 1, w,
                     grouped ? "(...) has names, which begin with a letter or _"
                             : "one begins with a letter or _; sizes come from the operands, and 1 is a dimension of one element");
      word(w);
    } else if (text.compare(i, 3, kDots) == 0) {
      if (grouped) return error(Code::kBadAttribute, "`...` stands for dimensions, not for factors of one in (...)");
      word(kDots), end = i + 3;
    } else if (text[i] == '(' && !grouped) {
      grouped = true, out.emplace_back(), end = i + 1;
    } else if (text[i] == ')' && grouped) {
      grouped = false, end = i + 1;
    } else if (text[i] == ' ') {
      end = i + 1;
    } else {
      return error(Code::kBadAttribute, "column {}: a name, 1, ... or (names) was expected at `{}`", at + i + 1, text.substr(i));
    }
    i = end;
  }
  if (grouped) return error(Code::kBadAttribute, "the ( in `{}` has no )", text);
  std::set<std::string> known;
  for (const std::vector<std::string>& dim : out)
    for (const std::string& name : dim)
      if (!known.insert(name).second)
        return error(Code::kBadAttribute, "`{}` stands twice in `{}`: a tensor has a factor once", name, text);
  return out;
}

// The tensors of a rule: those before the arrow, then the one after it.
Result<std::vector<Words>> parse_rule(const std::string& text) {
  size_t arrow = text.find("->");
  if (arrow == std::string::npos || text.find("->", arrow + 2) != std::string::npos)
    return error(Code::kBadAttribute, "one -> was expected, as in \"m k, k n -> m n\"");
  std::vector<Words> out;
  for (size_t begin = 0; begin <= arrow;) {
    size_t end = std::min(text.find(',', begin), arrow);
    out.push_back(NABLA_TRY(parse_tensor(text.substr(begin, end - begin), begin)));
    begin = end + 1;
  }
  out.push_back(NABLA_TRY(parse_tensor(text.substr(arrow + 2), arrow + 2)));
  return out;
}

// `...` becomes names that tensors share from the last dimension back.
Status spell_dots(Words& words, const Type& type, const std::string& what) {
  auto dots = std::find(words.begin(), words.end(), std::vector<std::string>{kDots});
  auto rank = static_cast<size_t>(type.rank());
  if (dots == words.end() ? words.size() != rank : words.size() - 1 > rank)
    return error(Code::kBadAttribute, "{} words for {}, which is {}", words.size(), what, type.str());
  if (dots == words.end()) return Ok{};
  dots = words.erase(dots);
  while (words.size() < rank) dots = std::next(words.insert(dots, {fmt::format("...{}", rank - words.size())}));
  return Ok{};
}

// Sizes of factors: those of dimensions that have one, and then of products in which all but one are known. A dimension of
// extent 1 is broadcast, so that it tells a size where nothing else does.
class Sizes {
 public:
  bool has(const std::string& name) const { return sizes_.contains(name); }
  const Dim& at(const std::string& name) const { return sizes_.at(name); }
  void tell(const std::string& name, const Dim& size) { sizes_.emplace(name, size); }

  // Whether at most one factor of the dimension is not known, so that it is now. The error is about the extent.
  Result<bool> add(const std::vector<std::string>& names, const Dim& extent, const std::string& what) {
    Dim known(1);
    std::vector<std::string> open;
    for (const std::string& n : names)
      if (has(n))
        known = known * at(n);
      else
        open.push_back(n);
    if (open.size() > 1) return false;
    if (open.empty() && !Dim::equal(known, extent).value_or(false))
      return error(Code::kBadAttribute, "{} has {} elements, and its factors make {}", what, extent.str(), known.str());
    if (open.empty()) return true;
    bool none = known.is(0) && extent.is(0);
    if (!none && (known.is(0) || !Dim::mod(extent, known).is(0)))
      return error(Code::kBadAttribute, "{} has {} elements, which the {} of its other factors do not divide", what, extent.str(),
                   known.str());
    tell(open[0], none ? Dim(1) : Dim::floordiv(extent, known));
    return true;
  }

 private:
  std::map<std::string, Dim> sizes_;
};

struct RuleDim {
  std::vector<std::string> names;
  Dim extent;
  std::string what;
};

Result<Sizes> sizes_of(const std::vector<RuleDim>& dims) {
  Sizes out;
  std::vector<const RuleDim*> left;
  for (const RuleDim& d : dims) {
    if (d.names.size() != 1 && !d.extent.is(1)) left.push_back(&d);
    if (d.names.size() == 1 && !d.extent.is(1)) NABLA_TRY(out.add(d.names, d.extent, d.what));
  }
  for (const RuleDim& d : dims)
    if (d.names.size() == 1 && d.extent.is(1)) out.tell(d.names[0], 1);
  while (!left.empty()) {
    std::vector<const RuleDim*> later;
    for (const RuleDim* d : left)
      if (!NABLA_TRY(out.add(d->names, d->extent, d->what))) later.push_back(d);
    if (later.size() == left.size())
      return error(Code::kBadAttribute, "{} is a product of which more than one factor is told by nothing else", left[0]->what);
    left = std::move(later);
  }
  return out;
}

// What the rule says of `value`, the first operand, and of the others. An error says what of it does not fit.
Result<Factors> factors_of(const std::string& text, std::span<const Type> operands) {
  std::vector<Words> words = NABLA_TRY(parse_rule(text));
  if (words.size() != operands.size())
    return error(Code::kBadAttribute, "{} tensors before the arrow for {} operands", words.size() - 1, operands.size() - 1);
  auto type = [&](size_t i) -> const Type& { return operands[(i + 1) % operands.size()]; };
  auto what = [&](size_t i) { return i + 1 == words.size() ? std::string("the result") : fmt::format("operand {}", i); };
  std::vector<RuleDim> dims;
  for (size_t i = 0; i < words.size(); ++i) {
    NABLA_TRY(spell_dots(words[i], type(i), what(i)));
    for (size_t d = 0; d < words[i].size(); ++d)
      dims.push_back({words[i][d], type(i).shape[d], fmt::format("dimension {} of {}", d, what(i))});
  }
  Sizes sizes = NABLA_TRY(sizes_of(dims));
  Factors out;
  std::map<std::string, int> numbers;
  for (size_t i = 0; i < words.size(); ++i) {
    Factors::Tensor tensor(words[i].size());
    for (size_t d = 0; d < words[i].size(); ++d)
      for (const std::string& n : words[i][d]) {
        if (type(i).shape[d].is(1)) continue;
        if (!numbers.contains(n)) numbers[n] = out.add(std::string(1, static_cast<char>('a' + numbers.size() % 26)), sizes.at(n));
        tensor[d].push_back(numbers[n]);
      }
    out.operands.push_back(std::move(tensor));
  }
  std::rotate(out.operands.rbegin(), out.operands.rbegin() + 1, out.operands.rend());
  out.results = {out.operands[0]};
  return out;
}

const std::string& rule_of(const Attrs& attrs) { return attrs.get_string("rule"); }

InferResult infer(const InferContext& ctx) {
  Result<Factors> factors = factors_of(rule_of(ctx.attrs), ctx.operands);
  if (!factors.ok())
    return ctx.fail(Code::kBadAttribute, "C1", "rule \"{}\": {}", rule_of(ctx.attrs), factors.errors()[0].message);
  return Types{ctx.operands[0]};
}

// The batch is a factor of its own, which all tensors have.
std::vector<Val> batch(BatchContext& ctx) {
  const std::string& rule = rule_of(ctx.attrs());
  std::string name = "batch";
  while (rule.find(name) != std::string::npos) name += '_';
  std::string out = name + " ";
  for (size_t i = 0; i < rule.size(); ++i) {
    out += rule[i];
    if (rule[i] == ',' || (rule[i] == '>' && rule[i - 1] == '-')) out += " " + name + " ";
  }
  return batch_with(ctx, {{"rule", out}});
}

Attrs said(const char* rule) { return {{"rule", std::string(rule)}}; }

}  // namespace

OpDef shard_by_rule_op() {
  OpDef op = layout_op("shard_by_rule", ir::LayoutRole::kByRule,
                       "value, laid out as the rule says by the layouts of the operands from which it was computed, whatever the "
                       "ops between find: axes go from operands to the result and back along the names that they share, and from "
                       "the result to value. The model is Shardy's op_sharding_rule.");
  op.operands = {{"value", "any"}, {"operands", "any", true}};
  op.results = {{"y", "value"}};
  op.attrs = {required("rule", AttrKind::kString,
                       "a word per dimension of each operand, and of the result: \"m k, k n -> m n\". A word is a name "
                       "(letters, digits and _, a digit never first), 1 for a dimension of one element, (h d) for a product of "
                       "factors, major first, or ... for any dimensions, counted from the last one")};
  op.constraints = {{"C1", "rule has that form; a name stands once in a tensor, and has one size in all but those of extent 1; at most "
                           "one factor of a product is told by nothing else"}};
  op.infer = infer;
  op.reference = [](const EvalContext& ctx) { return Literals{ctx.operands[0]}; };
  op.vjp = [](VjpContext& ctx) {
    std::vector<MaybeVal> out(ctx.operands.size());
    out[0] = ctx.ct();
    return out;
  };
  op.jvp = [](JvpContext& ctx) -> std::vector<MaybeVal> {
    if (!ctx.tangents[0]) return {std::nullopt};
    std::vector<Val> operands = ctx.operands;
    operands[0] = *ctx.tangents[0];
    return {ctx.b.op("shard_by_rule", operands, ctx.attrs())};
  };
  op.batch = batch;
  op.factors = [](const TypedOp& t) { return factors_of(rule_of(t.attrs), t.operands).value(); };
  op.examples = {{{operand(f32({4, 5})), operand(f32({4, 3})), operand(f32({3, 5}))}, said("m k, k n -> m n")},
                 {{operand(f32({6, 4})), operand(f32({2, 3, 1}))}, said("a b 1 -> (a b) n")},
                 {{operand(f32({2, 3, 4})), operand(f32({3, 4}))}, said("... i -> ... i")}};
  op.draw = [](Rng& rng) {
    int64_t m = random_dim(rng, 17), k = random_dim(rng, 17), n = random_positive_dim(rng, 17);
    switch (random_int(rng, 0, 2)) {
      case 0:
        return Example{{operand(f32({m, n})), operand(f32({m, k})), operand(f32({k, n}))}, said("m k, k n -> m n")};
      case 1:
        return Example{{operand(f32({m * n})), operand(f32({m, n})), operand(f32({n}))}, said("m n, n -> (m n)")};
      default: {
        Shape shape = random_shape(rng, static_cast<int>(random_int(rng, 0, 3)));
        return Example{{operand(f32(shape)), operand(f32(shape))}, said("... -> ...")};
      }
    }
  };
  op.rejects = {{"C1", {f32({4}), f32({4})}, said("a, b -> a")},      {"C1", {f32({4}), f32({4})}, said("a")},
                {"C1", {f32({4}), f32({5})}, said("a -> a")},         {"C1", {f32({4}), f32({4})}, said("a b -> a")},
                {"C1", {f32({4, 4}), f32({4, 4})}, said("(a b -> a")}, {"C1", {f32({6}), f32({4})}, said("a -> (a b)")},
                {"C1", {f32({6}), f32({6})}, said("(a b) -> (a b)")}, {"C1", {f32({4}), f32({4, 4})}, said("... ... -> a")},
                {"C1", {f32({4}), f32({4, 4})}, said("a a -> a")},     {"C1", {f32({4}), f32({7, 4})}, said("7 a -> a")},
                {"C1", {f32({4}), f32({4})}, said("2d -> 2d")},        {"C1", {f32({4}), f32({4})}, said("(1 a) -> a")}};
  return op;
}

}  // namespace nabla::ops

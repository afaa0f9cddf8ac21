#include "tests/transforms/composition.h"

#include <algorithm>
#include <cmath>

#include "ir/ops/all_ops.h"
#include "tests/property/compare.h"

namespace nabla::transforms {
namespace {

using ir::FunctionBuilder;
using ir::FunctionRef;
using ir::Ints;
using ir::Module;
using ir::Type;
using ir::Val;
using Rng = std::mt19937_64;

constexpr double kStep = 1e-5, kTolerance = 3e-6;

Literal added(Literal a, const Literal& b, double scale) {
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, a.get(i) + scale * b.get(i));
  return a;
}

double dot(const Literals& a, const Literals& b) { return property::inner_product(a, b); }

std::vector<Val> params_like(FunctionBuilder& b, const ir::Function& f) {
  std::vector<Val> out;
  for (ir::ValueId id : f.params) out.push_back(b.param("", f.type(id)));
  return out;
}
std::optional<std::string> far(const Literals& expected, const Literals& got, double tolerance) {
  if (expected.size() != got.size()) return fmt::format("{} results, expected {}", got.size(), expected.size());
  for (size_t r = 0; r < got.size(); ++r) {
    property::Tolerance near{tolerance, false, false, 1};
    if (auto text = property::difference(expected[r], got[r], near)) return fmt::format("result {}: {}", r, *text);
  }
  return std::nullopt;
}
Literals slope(const Link::Run& f, const Literals& args, const Literals& direction, double step) {
  Literals up, down;
  for (size_t i = 0; i < args.size(); ++i) {
    up.push_back(added(args[i], direction[i], step));
    down.push_back(added(args[i], direction[i], -step));
  }
  Literals out = f(up), low = f(down);
  for (size_t r = 0; r < out.size(); ++r)
    for (int64_t i = 0; i < out[r].size(); ++i) out[r].set(i, (out[r].get(i) - low[r].get(i)) / (2 * step));
  return out;
}
// The derivative of f along a direction; nothing where half the step gives something else.
std::optional<Literals> derivative(const Link::Run& f, const Literals& args, const Literals& direction) {
  Literals out = slope(f, args, direction, kStep);
  if (far(out, slope(f, args, direction, kStep / 2), kTolerance)) return std::nullopt;
  return out;
}

// Tangents in the direction of the arguments themselves.
class Jvp : public Link {
 public:
  std::string name() const override { return "jvp"; }
  void add(Module& m, const std::string& outer, const std::string& inner) override {
    FunctionBuilder b(outer, ops::all_ops(), &m);
    std::vector<Val> operands = params_like(b, *m.find(inner)), twice = operands;
    twice.insert(twice.end(), operands.begin(), operands.end());
    std::vector<Val> made = b.add("jvp", twice, {{"callee", FunctionRef{inner}}});
    std::vector<Val> tangents(made.begin() + static_cast<std::ptrdiff_t>(made.size() / 2), made.end());
    transforms::add(m, b.finish(tangents));
  }
  std::optional<std::string> check(const Run& inner, const Literals& args, const Literals& got) override {
    auto expected = derivative(inner, args, args);
    return expected ? far(*expected, got, kTolerance) : std::nullopt;
  }
};

/// Gradients of every parameter; the cotangents are the results themselves.
class Vjp : public Link {
 public:
  std::string name() const override { return "vjp"; }
  void add(Module& m, const std::string& outer, const std::string& inner) override {
    FunctionBuilder b(outer, ops::all_ops(), &m);
    ir::Attrs callee{{"callee", FunctionRef{inner}}};
    std::vector<Val> made = b.add("vjp_forward", params_like(b, *m.find(inner)), callee), operands = {made.back()};
    operands.insert(operands.end(), made.begin(), made.end() - 1);
    transforms::add(m, b.finish(b.add("vjp_backward", operands, callee)));
  }
  std::optional<std::string> check(const Run& inner, const Literals& args, const Literals& got) override {
    Literals values = inner(args);
    for (uint64_t seed : {1, 2}) {
      Literals direction;
      for (const Literal& a : args)
        direction.push_back(random_literal({a.dtype(), ir::static_shape(a.shape())}, seed * 97 + direction.size()));
      auto pushed = derivative(inner, args, direction);
      if (!pushed) continue;
      double expected = dot(values, *pushed), is = dot(got, direction);
      double scale = std::max(1.0, std::sqrt(dot(got, got) * dot(direction, direction)));
      if (!(std::fabs(expected - is) <= kTolerance * scale))
        return fmt::format("along a direction: expected {}, got {}", expected, is);
    }
    return std::nullopt;
  }
};

/// A batch in a random dimension of some parameters.
class Vmap : public Link {
 public:
  explicit Vmap(Rng& rng) : rng_(rng()) {}
  std::string name() const override { return "vmap"; }
  void add(Module& m, const std::string& outer, const std::string& inner) override {
    const ir::Function& f = *m.find(inner);
    Rng rng(rng_);
    for (ir::ValueId id : f.params)
      in_.push_back(rng() % 3 ? static_cast<int64_t>(rng() % (f.type(id).rank() + 1)) : -1);
    if (*std::max_element(in_.begin(), in_.end()) < 0) in_[0] = 0;
    for (ir::ValueId id : f.results) out_.push_back(static_cast<int64_t>(rng() % (f.type(id).rank() + 1)));
    FunctionBuilder b(outer, ops::all_ops(), &m);
    std::vector<Val> operands;
    for (size_t i = 0; i < in_.size(); ++i) {
      Type t = f.type(f.params[i]);
      if (in_[i] >= 0) t.shape.insert(t.shape.begin() + in_[i], ir::Dim(kSize));
      operands.push_back(b.param("", t));
    }
    ir::Attrs attrs{{"callee", FunctionRef{inner}}, {"in_axes", in_}, {"out_axes", out_}};
    transforms::add(m, b.finish(b.add("vmap", operands, attrs)));
  }
  std::optional<std::string> check(const Run& inner, const Literals& args, const Literals& got) override {
    for (int64_t k = 0; k < kSize; ++k) {
      Literals one, expected = got;
      for (size_t i = 0; i < args.size(); ++i) one.push_back(in_[i] < 0 ? args[i] : example(args[i], in_[i], k));
      for (size_t r = 0; r < got.size(); ++r) expected[r] = example(got[r], out_[r], k);
      if (auto text = far(inner(one), expected, 1e-10)) return fmt::format("example {}: {}", k, *text);
    }
    return std::nullopt;
  }

 private:
  static constexpr int64_t kSize = 2;
  static Literal example(const Literal& x, int64_t axis, int64_t k) {
    std::vector<int64_t> shape = x.shape(), strides = strides_of(x.shape());
    shape.erase(shape.begin() + axis);
    Literal out(x.dtype(), shape);
    int64_t inside = strides[axis];
    for (int64_t i = 0; i < out.size(); ++i) out.set(i, x.get(i / inside * inside * kSize + k * inside + i % inside));
    return out;
  }
  uint64_t rng_;
  Ints in_, out_;
};

/// The function computed again on the way back: the same values.
class Remat : public Link {
 public:
  explicit Remat(bool dots) : policy_(dots ? "dots" : "nothing") {}
  std::string name() const override { return "remat"; }
  void add(Module& m, const std::string& outer, const std::string& inner) override {
    FunctionBuilder b(outer, ops::all_ops(), &m);
    std::vector<Val> params = params_like(b, *m.find(inner));
    transforms::add(m, b.finish(b.add("remat", params, {{"callee", FunctionRef{inner}}, {"policy", policy_}})));
  }
  std::optional<std::string> check(const Run& inner, const Literals& args, const Literals& got) override {
    return far(inner(args), got, 1e-12);
  }

 private:
  std::string policy_;
};

/// A scan of two steps around the function: parameter 0 is the carry, the others are constants, results are stacked.
class Scan : public Link {
 public:
  std::string name() const override { return "scan"; }
  void add(Module& m, const std::string& outer, const std::string& inner) override {
    const ir::Function& f = *m.find(inner);
    FunctionBuilder s(inner + "_step", ops::all_ops(), &m);
    std::vector<Val> consts;
    for (size_t i = 1; i < f.params.size(); ++i) consts.push_back(s.param("", f.type(f.params[i])));
    std::vector<Val> args = {s.param("", f.type(f.params[0]))};
    args.insert(args.end(), consts.begin(), consts.end());
    std::vector<Val> made = s.add("call", args, {{"callee", FunctionRef{inner}}});
    made.insert(made.begin(), s.op("sin", {args[0]}));
    transforms::add(m, s.finish(made));
    FunctionBuilder b(outer, ops::all_ops(), &m);
    std::vector<Val> operands = params_like(b, f);
    std::rotate(operands.begin(), operands.begin() + 1, operands.end());
    ir::Attrs attrs{{"body", FunctionRef{inner + "_step"}},
                    {"consts", static_cast<int64_t>(consts.size())},
                    {"carries", int64_t{1}},
                    {"length", ir::Shape{2}}};
    transforms::add(m, b.finish(b.add("scan", operands, attrs)));
  }
  std::optional<std::string> check(const Run& inner, const Literals& args, const Literals& got) override {
    Literals now = args;
    for (int64_t k = 0; k < 2; ++k) {
      Literals expected = inner(now), row;
      for (size_t r = 0; r < expected.size(); ++r) {
        Literal one(expected[r].dtype(), expected[r].shape());
        for (int64_t i = 0; i < one.size(); ++i) one.set(i, got[r + 1].get(k * one.size() + i));
        row.push_back(one);
      }
      if (auto text = far(expected, row, 1e-10)) return fmt::format("step {}: {}", k, *text);
      for (int64_t i = 0; i < now[0].size(); ++i) now[0].set(i, std::sin(now[0].get(i)));
    }
    return far({now[0]}, {got[0]}, 1e-10);
  }
};

/// The function where the sum of its first parameter is positive, else its results in reverse sign.
class Cond : public Link {
 public:
  std::string name() const override { return "cond"; }
  void add(Module& m, const std::string& outer, const std::string& inner) override {
    const ir::Function& f = *m.find(inner);
    FunctionBuilder n(inner + "_negated", ops::all_ops(), &m);
    std::vector<Val> made = n.add("call", params_like(n, f), {{"callee", FunctionRef{inner}}});
    for (Val& v : made) v = -v;
    transforms::add(m, n.finish(made));
    FunctionBuilder b(outer, ops::all_ops(), &m);
    std::vector<Val> operands = params_like(b, f);
    Val sum = reduce_sum(operands[0], ir::iota_ints(operands[0].rank()));
    operands.insert(operands.begin(), b.op("gt", {sum, b.like(sum, 0)}));
    ir::Attrs attrs{{"then", FunctionRef{inner}}, {"else", FunctionRef{inner + "_negated"}}};
    transforms::add(m, b.finish(b.add("cond", operands, attrs)));
  }
  std::optional<std::string> check(const Run& inner, const Literals& args, const Literals& got) override {
    double sum = 0;
    for (int64_t i = 0; i < args[0].size(); ++i) sum += args[0].get(i);
    Literals expected = inner(args);
    for (Literal& e : expected)
      for (int64_t i = 0; i < e.size() && sum <= 0; ++i) e.set(i, -e.get(i));
    return far(expected, got, 1e-10);
  }
};

std::unique_ptr<Link> random_link(Rng& rng, bool reverse) {
  switch (rng() % 7) {
    case 0:
      return std::make_unique<Jvp>();
    case 1:
    case 2:
      if (reverse) return std::make_unique<Vjp>();
      return std::make_unique<Jvp>();
    case 3:
      return std::make_unique<Vmap>(rng);
    case 4:
      return std::make_unique<Remat>(rng() % 2);
    case 5:
      return std::make_unique<Scan>();
    default:
      return std::make_unique<Cond>();
  }
}

}  // namespace

Composition random_composition(uint64_t seed) {
  Rng rng(seed);
  bool reverse = seed % 4 != 0;  // every fourth function has a loop of unknown length, which only jvp can follow
  Composition out{random_program("f0", seed, 4, !reverse), {}, "f0"};
  size_t depth = 1 + rng() % 3;
  for (size_t k = 0; k < depth; ++k) {
    out.links.push_back(random_link(rng, reverse));
    out.links.back()->add(out.module, fmt::format("f{}", k + 1), fmt::format("f{}", k));
    out.text = out.links.back()->name() + "(" + out.text;
  }
  return out;
}

}  // namespace nabla::transforms

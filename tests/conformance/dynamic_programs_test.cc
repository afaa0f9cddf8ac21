// Programs over symbolic sizes from the frontend to a running bundle: one bundle runs every admissible size and gives
// what the interpreter gives; other sizes are errors that say why.
#include <gtest/gtest.h>

#include <map>
#include <random>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/property/compare.h"

namespace nabla {
namespace {

using Sizes = std::map<std::string, int64_t>;

std::unique_ptr<exec::Session> session_of(const ir::Module& module, driver::CompileOptions options = {}) {
  options.target = "cpu:native";
  driver::CompiledBundle bundle = driver::compile(module, options).value();
  format::Bundle opened =
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle.bytes)), "test").value();
  return exec::Session::create(std::move(opened), {.threads = 2}).value();
}

// Floats in [-1, 1], integers in {0..3}.
std::vector<Literal> draw_inputs(const ir::Function& f, const Sizes& sizes) {
  std::mt19937_64 rng(7);
  std::vector<Literal> out;
  for (ir::ValueId p : f.params) {
    std::vector<int64_t> shape;
    for (const ir::Dim& d : f.type(p).shape)
      shape.push_back(d.eval([&](const ir::Symbol& s) { return sizes.at(s.name); }));
    Literal x(f.type(p).dtype, std::move(shape));
    for (int64_t i = 0; i < x.size(); ++i)
      is_float(x.dtype()) ? x.set(i, std::uniform_real_distribution<double>(-1, 1)(rng))
                          : x.set_i(i, static_cast<int64_t>(rng() % 4));
    out.push_back(std::move(x));
  }
  return out;
}

// Every entry at every size, against the interpreter; entries have no state.
void check(const ir::Module& module, const std::vector<Sizes>& sizes, driver::CompileOptions options = {}) {
  auto session = session_of(module, options);
  ir::Module flat = driver::simplify_module(module, ir::find_target("cpu").value()).value();
  for (size_t e = 0; e < flat.entries.size(); ++e)
    for (const Sizes& at : sizes) {
      const ir::Function& f = *flat.find(flat.entries[e].function);
      std::vector<Literal> inputs = draw_inputs(f, at);
      std::vector<Literal> want = ir::interpret(flat, f.name, inputs).value();
      Result<std::vector<Literal>> got = session->call(static_cast<int>(e), inputs);
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      std::string where = flat.entries[e].name;
      for (const auto& [name, value] : at) where += fmt::format(" {}={}", name, value);
      EXPECT_EQ(property::difference(want, *got, property::Tolerance{3e-5}).value_or(""), "") << where;
    }
}

void check(const Program& program, const std::vector<Sizes>& sizes, driver::CompileOptions options = {}) {
  check(program.module(), sizes, options);
}

const std::vector<Sizes> kSizes = {{{"batch", 5}, {"len", 16}}, {{"batch", 1}, {"len", 1}},
                                   {{"batch", 7}, {"len", 13}}, {{"batch", 8}, {"len", 24}},
                                   {{"batch", 1}, {"len", 24}}, {{"batch", 5}, {"len", 16}}};

TEST(DynamicPrograms, AClassifierAndItsGradients) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8);
  Spec w1("w1", f32, {12, 20}), b1("b1", f32, {20}), w2("w2", f32, {20, 4}), x("x", f32, {batch, 3, 4}),
      y("y", i32, {batch});
  program.entry("step", {w1, b1, w2, x, y}, [&](Tensor a, Tensor b, Tensor c, Tensor in, Tensor labels) -> Outputs {
    auto loss = [&](Tensor p, Tensor q, Tensor r) {
      Tensor h = relu(matmul(reshape(in, {-1, 12}), p) + q);
      return mean(cross_entropy(matmul(h, r), labels));
    };
    auto [value, gradients] = value_and_grad(loss, Wrt<0, 1, 2>{})(a, b, c);
    return {{"loss", value},
            {"w1", std::get<0>(gradients)},
            {"b1", std::get<1>(gradients)},
            {"w2", std::get<2>(gradients)}};
  });
  check(program, kSizes);
}

// What is sorted is read by positions, of which an empty axis has none.
TEST(DynamicPrograms, SortsOfAnAxisThatMayBeEmpty) {
  Program program;
  ir::Dim batch = program.symbol("batch", 0, 8), len = program.symbol("len", 0, 24);
  program.entry("f", {{"x", f32, {batch, len}}, {"w", f32, {batch, len}}}, [&](Tensor x, Tensor w) -> Outputs {
    auto loss = [&](Tensor a) { return sum(sort(a, 1, true) * w); };
    std::vector<Tensor> both = sort({x, w}, 1, 0);
    return {{"rows", sort(x)}, {"columns", sort(w, 0, true)}, {"second", both[1]}, {"gradient", grad(loss)(x)}};
  });
  check(program, {{{"batch", 5}, {"len", 16}}, {{"batch", 0}, {"len", 3}}, {{"batch", 3}, {"len", 0}},
                  {{"batch", 0}, {"len", 0}}, {{"batch", 1}, {"len", 1}}, {{"batch", 8}, {"len", 24}}});
}

// Masked attention over a length that every run chooses: nothing is padded, so nothing can leak.
Tensor attention(Tensor x, Tensor w_qkv, Tensor w_out, const ir::Dim& batch, const ir::Dim& len) {
  auto heads = [&](int64_t first) {
    Tensor part = slice(matmul(x, w_qkv), {0, 0, first}, {-1, -1, first + 16}, {1, 1, 1});
    return transpose(reshape(part, Shape{batch, len, 2, 8}), {0, 2, 1, 3});
  };
  Tensor scores = matmul(heads(0), transpose(heads(16), {0, 1, 3, 2})) * 0.35;
  Tensor rows = iota({len, len}, 0), columns = iota({len, len}, 1);
  Tensor weights = softmax(select(broadcast_to(rows >= columns, scores.shape()), scores, -1e9), -1);
  Tensor mixed = transpose(matmul(weights, heads(32)), {0, 2, 1, 3});
  return matmul(reshape(mixed, Shape{batch, len, 16}), w_out);
}

TEST(DynamicPrograms, AttentionAndItsGradients) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8), len = program.symbol("len", 1, 24);
  Spec table("table", f32, {4, 16}), w("w", f32, {16, 48}), o("o", f32, {16, 16}), gamma("gamma", f32, {16}),
      beta("beta", f32, {16}), ids("ids", i32, {batch, len}), next("next", i32, {batch, len});
  program.entry("step", {table, w, o, gamma, beta, ids, next}, [&](const std::vector<Tensor>& in) -> Outputs {
    auto loss = [&](Tensor t, Tensor p, Tensor q, Tensor g, Tensor b) {
      Tensor x = embedding(t, in[5]);
      x = x + attention(layer_norm(x, g, b), p, q, batch, len);
      return mean(cross_entropy(matmul(x, transpose(t, {1, 0})), in[6]));
    };
    auto [value, g] = value_and_grad(loss, Wrt<0, 1, 2, 3, 4>{})(in[0], in[1], in[2], in[3], in[4]);
    return {{"loss", value},       {"table", std::get<0>(g)}, {"w", std::get<1>(g)},
            {"o", std::get<2>(g)}, {"gamma", std::get<3>(g)}, {"beta", std::get<4>(g)}};
  });
  check(program, kSizes);
}

TEST(DynamicPrograms, SumsAndProductsOfSizes) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8), len = program.symbol("len", 1, 24);
  Spec x("x", f32, {batch, len}), y("y", f32, {len, 3});
  program.entry("move", {x, y}, [&](Tensor a, Tensor b) -> Outputs {
    Tensor flat = reshape(a, Shape{batch * len}), swapped = transpose(reshape(a, Shape{len, batch}), {1, 0});
    Tensor joined = concatenate({reshape(flat, Shape{batch * len, 1}), reshape(a * 2, Shape{len * batch, 1})}, 1);
    Tensor padded = pad(a, 0.5, {1, 2}, {0, 3}, {0, 0});
    return {
        {"swapped", swapped * a},
        {"joined", exp(joined)},
        {"backwards", reverse(padded, {1}) * 2},
        {"cut", slice(padded, {1, 2}, {-1, -1}, {1, 1})},
        {"wide", broadcast_to(reshape(b, Shape{1, len, 3}), Shape{batch, len, 3}) + reshape(a, Shape{batch, len, 1})},
        {"mean", mean(a)},
        {"column", mean(a, {0})},
        {"best", argmax(a, 1)}};
  });
  check(program, kSizes);
}

TEST(DynamicPrograms, ConcatenationAddsSizesAndItsGradientCutsThem) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8), len = program.symbol("len", 1, 24);
  Spec x("x", f32, {batch, 5}), y("y", f32, {len, 5}), w("w", f32, {batch + len, 5});
  program.entry("join", {x, y, w}, [&](Tensor a, Tensor b, Tensor c) -> Outputs {
    auto loss = [&](Tensor p, Tensor q) { return mean(tanh(concatenate({p, q * 2, p}, 0)) * concatenate({c, p}, 0)); };
    auto [value, g] = value_and_grad(loss, Wrt<0, 1>{})(a, b);
    return {
        {"loss", value}, {"x", std::get<0>(g)}, {"y", std::get<1>(g)}, {"last", section(c, 0, Shape{len, batch}) * a}};
  });
  check(program, kSizes);
}

// Parts that are so long are loops of their own in a CPU's kernel, with what is fused into each.
TEST(DynamicPrograms, LongPartsOfAConcatenation) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8), len = program.symbol("len", 1, 24);
  Spec x("x", f32, {batch, 150}), y("y", f32, {batch, 210}), z("z", f32, {len});
  program.entry("join", {x, y, z}, [&](Tensor a, Tensor b, Tensor c) -> Outputs {
    Tensor joined = concatenate({exp(a), b * 2, a + 1}, 1);
    return {{"joined", joined}, {"each", tanh(concatenate({b, a}, 1)) * mean(c)}, {"padded", pad(a, 0.5, {0, 40}, {0, 130}, {0, 0}) * 3}};
  });
  check(program, kSizes);
}

// A loop over a length that every run chooses: slices and stacked results lie at their actual sizes.
TEST(DynamicPrograms, LoopsOverASymbolicLength) {
  constexpr const char* kText = R"(nabla 1 flat
symbol batch in [1, 8]
symbol len in [1, 24]
entry f calls @f {
  inputs h, x
  outputs last, all
}
func @body(%h: f32[batch,4], %x: f32[batch,4]) {
  %s = mul(%h, %x)
  %t = tanh(%s)
  %n = add(%t, %x)
  return %n, %t
}
func @f(%h: f32[batch,4], %x: f32[len,batch,4]) {
  %last, %all = scan(%h, %x) {body=@body, consts=0, carries=1, length=[len]}
  return %last, %all
}
)";
  Result<ir::Module> module = ir::parse_module(kText, "scan.nbl", ops::all_ops());
  ASSERT_TRUE(module.ok()) << to_string(module.errors());
  module->stage = ir::Stage::kTraced;
  check(*module, kSizes);
  check(*module, kSizes, {.specialise = {"len=16", "batch=5"}});
}

TEST(DynamicPrograms, LibraryCallsFollowTheSize) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 40);
  Spec x("x", f32, {batch, 12, 12, 8}), k("k", f32, {3, 3, 8, 16}), a("a", f32, {batch, 384}), w("w", f32, {384, 384});
  program.entry("picture", {x, k}, [](Tensor in, Tensor filter) -> Outputs {
    return {{"y", relu(conv2d(in, filter, 1, 1))}};
  });
  program.entry("product", {a, w}, [](Tensor in, Tensor weights) -> Outputs {
    return {{"y", relu(matmul(in, weights))}, {"gram", matmul(transpose(in), in)}};
  });
  check(program, {{{"batch", 40}}, {{"batch", 1}}, {{"batch", 17}}, {{"batch", 40}}});
}

TEST(DynamicPrograms, SpecialisationsServeTheirSizesAndGiveTheSame) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8), len = program.symbol("len", 1, 24);
  program.entry("f", {{"x", f32, {batch, len}}, {"w", f32, {len, 6}}}, [&](Tensor x, Tensor w) -> Outputs {
    return {{"y", matmul(softmax(x, 1), w)}};
  });
  check(program, kSizes, {.specialise = {"batch=1,5"}});
}

TEST(DynamicPrograms, InadmissibleSizesNameSymbolValueRangeAndArgument) {
  Program program;
  ir::Dim batch = program.symbol("batch", 2, 8, 2), len = program.symbol("len", 1, 24);
  program.entry("f", {{"x", f32, {batch, len}}, {"y", f32, {len * 2 + 1}}, {"z", f32, {batch, 3}}},
                [&](Tensor x, Tensor y, Tensor z) -> Outputs {
                  return {{"a", sum(x, {1})}, {"b", sum(y)}, {"c", sum(z)}};
                });
  auto session = session_of(program.module());
  auto message = [&](std::vector<int64_t> x, std::vector<int64_t> y, std::vector<int64_t> z) {
    auto out = session->call(0, {Literal(f32, x), Literal(f32, y), Literal(f32, z)});
    return out.ok() ? "" : out.errors()[0].message;
  };
  EXPECT_EQ(message({4, 5}, {11}, {4, 3}), "");
  EXPECT_EQ(message({10, 5}, {11}, {10, 3}),
            "entry `f`: dimension 0 of input `x` gives batch = 10, which is not a multiple of 2 in [2, 8]");
  EXPECT_EQ(message({3, 5}, {11}, {3, 3}),
            "entry `f`: dimension 0 of input `x` gives batch = 3, which is not a multiple of 2 in [2, 8]");
  EXPECT_EQ(message({4, 25}, {51}, {4, 3}),
            "entry `f`: dimension 1 of input `x` gives len = 25, which is not in [1, 24]");
  EXPECT_EQ(message({4, 5}, {12}, {4, 3}),
            "entry `f`: dimension 0 of input `y` is 2*len+1 = 11 (len = 5 from dimension 1 of input `x`), got 12");
  EXPECT_EQ(message({4, 5}, {11}, {6, 3}),
            "entry `f`: dimension 0 of input `z` is batch = 4 (batch = 4 from dimension 0 of input `x`), got 6");
  EXPECT_EQ(message({4, 5}, {11}, {4, 2}), "entry `f`: dimension 1 of input `z` is 3, got 2");
}

// Extents with more than one symbol tell the one that is left; scales and offsets are sizes themselves.
TEST(DynamicPrograms, SymbolsInsideProductsAndSumsAreSolved) {
  Program program;
  ir::Dim n = program.symbol("n", 1, 8), m = program.symbol("m", 1, 6), k = program.symbol("k", 2, 9);
  program.entry("f", {{"x", f32, {n * m + k}}, {"y", f32, {m * 2}}, {"z", f32, {ir::Dim(10) - k, 3}}},
                [&](Tensor x, Tensor y, Tensor z) -> Outputs {
                  Tensor cut = reshape(slice(x, Shape{k}, Shape{n * m + k}), Shape{n, m});
                  return {{"rows", sum(cut, {1})}, {"y", y * 2.0}, {"ones", ones(Shape{k, n}) * sum(z)}};
                });
  check(program, {{{"n", 3}, {"m", 4}, {"k", 5}}, {{"n", 8}, {"m", 6}, {"k", 9}}, {{"n", 1}, {"m", 1}, {"k", 2}}});
  auto session = session_of(program.module());
  auto message = [&](int64_t x, int64_t y, int64_t z) {
    auto out = session->call(0, {Literal(f32, {x}), Literal(f32, {y}), Literal(f32, {z, 3})});
    return out.ok() ? "" : out.errors()[0].message;
  };
  EXPECT_EQ(message(17, 8, 5), "");
  EXPECT_EQ(message(17, 7, 5), "entry `f`: dimension 0 of input `y` is 7, and no m makes 2*m that");
  EXPECT_EQ(message(18, 8, 5),
            "entry `f`: dimension 0 of input `x` is 18, and no n makes k+m*n that (k = 5 from dimension 0 of input "
            "`z`, m = 4 from dimension 0 of input `y`)");
  EXPECT_EQ(message(45, 8, 5), "entry `f`: dimension 0 of input `x` gives n = 10, which is not in [1, 8]");
  EXPECT_EQ(message(17, 8, 9), "entry `f`: dimension 0 of input `z` gives k = 1, which is not in [2, 9]");
}

TEST(DynamicPrograms, InequalitiesAreCheckedWhenSizesAreBound) {
  Program program;
  ir::Dim past = program.symbol("past", 0, 20), room = program.symbol("room", 1, 24);
  program.require(past + 2 <= room);
  program.entry("f", {{"x", f32, {past}}, {"y", f32, {room}}}, [&](Tensor x, Tensor y) -> Outputs {
    return {{"free", slice(y, Shape{past}, Shape{-1}) * 2.0}, {"used", x + slice(y, Shape{0}, Shape{past})}};
  });
  program.entry("g", {{"x", f32, {past}}}, [&](Tensor x) -> Outputs { return {{"x", x * 2.0}}; });
  auto session = session_of(program.module());
  auto f = [&](int64_t x, int64_t y) {
    auto out = session->call(0, {Literal(f32, {x}), Literal(f32, {y})});
    return out.ok() ? "" : out.errors()[0].str();
  };
  EXPECT_EQ(f(5, 7), "");
  std::string text = f(6, 7);
  EXPECT_NE(
      text.find("error[E0703]: entry `f`: past+2 = 8 and room = 7, but the program requires past+2 <= room (past = "
                "6 from dimension 0 of input `x`, room = 7 from dimension 0 of input `y`)"),
      std::string::npos)
      << text;
  EXPECT_NE(text.find("dynamic_programs_test.cc:"), std::string::npos) << text;
  EXPECT_TRUE(session->call(1, {Literal(f32, {20})}).ok()) << "an entry without room does not ask";
}

TEST(DynamicPrograms, SlicesPadsAndUpdatesOfSymbolicSizesHaveDerivativesAndBatches) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8), len = program.symbol("len", 1, 24),
          room = program.symbol("room", 4, 40);
  program.require(len + batch <= room);
  Spec x("x", f32, {room, 3}), u("u", f32, {len, 3}), b("b", f32, {batch}), k("k", i32, {});
  program.entry("f", {x, u, b, k}, [&](Tensor whole, Tensor update, Tensor rows, Tensor at) -> Outputs {
    auto f = [&](Tensor w, Tensor p) {
      Tensor cut = slice(w, Shape{len, 1}, Shape{len + batch, -1});
      Tensor padded = pad(p, 0.5, Shape{batch, 0}, Shape{2, len});
      return mean(tanh(dynamic_update_slice(w, p, {at, at}))) + mean(cut * cut) + mean(sin(padded));
    };
    auto [value, g] = value_and_grad(f, Wrt<0, 1>{})(whole, update);
    Tensor slope = jvp([&](Tensor p) { return f(whole, p); }, update, update * 2.0).second;
    Tensor each = vmap([&](Tensor s) {
      return sum(pad(slice(update * s, Shape{0, 0}, Shape{len, 2}), s, Shape{0, 1}, Shape{batch, 0}));
    })(rows);
    return {{"value", value}, {"x", std::get<0>(g)}, {"u", std::get<1>(g)}, {"slope", slope}, {"each", each}};
  });
  check(program, {{{"batch", 3}, {"len", 7}, {"room", 19}}, {{"batch", 1}, {"len", 24}, {"room", 25}}});
}

TEST(DynamicPrograms, ASymbolThatNoInputTellsIsRefused) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 8), len = program.symbol("len", 1, 24);
  auto declare = [&] {
    program.entry("f", {{"x", f32, {batch * len}}}, [&](Tensor x) -> Outputs { return {{"y", x * 2}}; });
  };
  EXPECT_THROW(declare(), Error);
  constexpr const char* kText = R"(nabla 1 traced
symbol batch in [1, 8]
symbol len in [1, 24]
entry f calls @f {
  inputs x
  outputs y
}
func @f(%x: f32[batch*len]) { return %x }
)";
  auto out = ir::parse_module(kText, "f.nbl", ops::all_ops());
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.errors()[0].code, Code::kUndecidable);
  EXPECT_EQ(out.errors()[0].message, "entry `f`: no input has a dimension that tells the size of batch");
}

}  // namespace
}  // namespace nabla

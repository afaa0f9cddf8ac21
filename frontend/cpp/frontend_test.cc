// The frontend records what the user wrote: values by the reference interpreter, structure by looking at nodes, and
// the texts of errors.
#include <gtest/gtest.h>

#include "frontend/cpp/nn.h"
#include "ir/op_def.h"
#include "ir/reference/interpreter.h"

namespace nabla {
namespace {

using std::string;

Literal vec(std::vector<double> values, std::vector<int64_t> shape = {}) {
  if (shape.empty()) shape = {static_cast<int64_t>(values.size())};
  Literal out(DType::kF32, shape);
  for (size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), values[i]);
  return out;
}

std::vector<double> run(const ir::Module& module, const string& name, std::vector<Literal> args) {
  ir::Module flat = module;
  flat.stage = ir::Stage::kFlat;
  Result<std::vector<Literal>> out = ir::interpret(flat, name, std::move(args));
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : to_string(out.errors()));
  std::vector<double> values;
  for (int64_t i = 0; i < (*out)[0].size(); ++i) values.push_back((*out)[0].get(i));
  return values;
}

template <class F>
std::vector<double> eval(F f, std::vector<Literal> args) {
  auto traced =
      trace("f", f, Spec(f32, ir::static_shape(args[0].shape())), Spec(f32, ir::static_shape(args[1].shape())));
  return run(traced.module(), "f", std::move(args));
}

template <class F>
string error_of(F f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

const ir::Node& node(const ir::Module& module, const string& function, const string& op) {
  for (const ir::Node& n : module.find(function)->nodes)
    if (n.op->name == op) return n;
  ADD_FAILURE() << "no " << op << " in " << function;
  std::abort();
}

#define EXPECT_HAS(text, part) EXPECT_NE(string(text).find(part), string::npos) << text

TEST(Tensor, operators_take_numbers_on_both_sides) {
  auto f = [](Tensor x, Tensor y) { return 1 - x * 2.0 + y / 4 - (-x); };
  EXPECT_EQ(eval(f, {vec({1, 2}), vec({4, 8})}), (std::vector<double>{1, 1}));
}

TEST(Tensor, shapes_broadcast_as_in_numpy) {
  auto f = [](Tensor x, Tensor y) { return reshape(x, {2, 1}) + y; };
  EXPECT_EQ(eval(f, {vec({10, 20}), vec({1, 2, 3})}), (std::vector<double>{11, 12, 13, 21, 22, 23}));
}

TEST(Tensor, comparisons_select) {
  auto f = [](Tensor x, Tensor y) { return select(x > y, x, -1.0); };
  EXPECT_EQ(eval(f, {vec({1, 5}), vec({2, 3})}), (std::vector<double>{-1, 5}));
}

TEST(Tensor, a_number_with_a_fraction_does_not_fit_integers) {
  auto half = [](Tensor x) { return x + 0.5; };
  int line = __LINE__ - 1;
  string text = error_of([&] { trace("f", half, Spec(i32, {2})); });
  EXPECT_HAS(text, "error[E0202]: the number 0.5 does not fit an operand of dtype i32");
  EXPECT_HAS(text, fmt::format("frontend/cpp/frontend_test.cc:{}", line));
}

TEST(Convenience, matmul_mean_and_axes_from_the_end) {
  auto f = [](Tensor x, Tensor y) { return mean(matmul(x, y), {-1}); };
  EXPECT_EQ(eval(f, {vec({1, 2, 3, 4}, {2, 2}), vec({1, 1, 1, 1, 1, 1}, {2, 3})}), (std::vector<double>{3, 7}));
}

TEST(Convenience, matmul_broadcasts_leading_dimensions) {
  auto f = [](Tensor x, Tensor y) { return matmul(x, y); };
  EXPECT_EQ(eval(f, {vec({1, 2, 3, 4}, {1, 2, 2}), vec({1, 0, 0, 1, 2, 0, 0, 2}, {2, 2, 2})}),
            (std::vector<double>{1, 2, 3, 4, 2, 4, 6, 8}));
}

TEST(Convenience, reductions_keep_dimensions_on_request) {
  auto traced = trace(
      "f", [](Tensor x) { return amax(x, {1}, true) - amin(x, {1}, true); }, Spec(f32, {3, 4}));
  const ir::Function& f = *traced.function().function;
  EXPECT_EQ(f.type(f.results[0]).str(), "f32[3,1]");
}

TEST(Convenience, reshape_finds_the_open_extent) {
  auto traced = trace(
      "f",
      [](Tensor x) {
        return reshape(x, {4, -1});
      },
      Spec(f32, {2, 6}));
  const ir::Function& f = *traced.function().function;
  EXPECT_EQ(f.type(f.results[0]).str(), "f32[4,3]");
  EXPECT_HAS(error_of([] {
               trace(
                   "f",
                   [](Tensor x) {
                     return reshape(x, {5, -1});
                   },
                   Spec(f32, {2, 6}));
             }),
             "error[E0203]: reshape: the 12 elements of f32[2,6] do not divide by 5");
}

TEST(Convenience, one_hot_marks_the_label) {
  auto traced = trace(
      "f", [](Tensor x) { return one_hot(x, 3); }, Spec(i32, {2}));
  Literal labels(DType::kI32, {2});
  labels.set_i(0, 2);
  labels.set_i(1, 7);
  EXPECT_EQ(run(traced.module(), "f", {labels}), (std::vector<double>{0, 0, 1, 0, 0, 0}));
}

TEST(Convenience, one_hot_of_narrow_labels_counts_all_classes) {
  auto traced = trace(
      "f", [](Tensor x) { return sum(one_hot(x, 300) * convert(iota(Shape{300}, 0, i32), f32), {-1}); }, Spec(DType::kU8, {2}));
  Literal labels(DType::kU8, {2});
  labels.set_i(0, 7);
  labels.set_i(1, 255);
  EXPECT_EQ(run(traced.module(), "f", {labels}), (std::vector<double>{7, 255}));
}

TEST(Convenience, pooling_and_convolution_have_the_sizes_of_the_formula) {
  auto traced = trace(
      "f", [](Tensor x, Tensor w) { return max_pool2d(conv2d(x, w, 1, 1), 2); }, Spec(f32, {5, 8, 8, 1}),
      Spec(f32, {3, 3, 1, 7}));
  const ir::Function& f = *traced.function().function;
  EXPECT_EQ(f.type(f.results[0]).str(), "f32[5,4,4,7]");
}

TEST(Errors, a_shape_mismatch_shows_the_users_line_and_operands) {
  int line = __LINE__ + 1;
  auto bad = [](Tensor x, Tensor w1) { return matmul(x, w1); };
  string text = error_of([&] { trace("mlp", bad, Spec("x", f32, {32, 512}), Spec("w1", f32, {256, 128})); });
  EXPECT_HAS(text, "error[E0203]: dot_general:");
  EXPECT_HAS(text, fmt::format("frontend/cpp/frontend_test.cc:{}", line));
  EXPECT_HAS(text, "in mlp");
  EXPECT_HAS(text, "auto bad = [](Tensor x, Tensor w1) { return matmul(x, w1); };");
  EXPECT_HAS(text, "%w1 is parameter \"w1\"");
}

TEST(Errors, an_op_outside_of_a_trace_is_refused) {
  Tensor outside;
  trace(
      "f", [&](Tensor x) { return outside = x; }, Spec(f32, {2}));
  EXPECT_HAS(error_of([&] { exp(outside); }), "error[E0707]: exp is called outside of a traced function");
}

TEST(Errors, a_value_of_a_function_that_does_not_enclose_this_one_is_refused) {
  Tensor outside;
  trace(
      "f", [&](Tensor x) { return outside = x; }, Spec(f32, {2}));
  string text = error_of([&] {
    trace(
        "g", [&](Tensor x) { return x + outside; }, Spec(f32, {2}));
  });
  EXPECT_HAS(text, "error[E0707]: a value of function `f` is used in `g`, which is not inside it");
}

TEST(Locations, every_node_carries_the_users_line) {
  int line = __LINE__ + 2;
  auto body = [](Tensor x) {
    Tensor y = exp(x) + 1.0;
    return softmax(y, -1);
  };
  auto traced = trace("f", body, Spec(f32, {4}));
  ir::Module m = traced.module();
  for (const ir::Node& n : m.find("f")->nodes) {
    ASSERT_NE(n.location, nullptr) << n.op->name;
    EXPECT_EQ(n.location->line, n.op->name == "softmax" ? line + 1 : line) << n.op->name;
    EXPECT_EQ(n.location->function, "f");
  }
  EXPECT_EQ(node(m, "f", "exp").location->text, "Tensor y = exp(x) + 1.0;");
}

TEST(Calls, a_traced_function_is_called_and_not_copied) {
  auto square = trace(
      "square", [](Tensor x) { return x * x; }, Spec(f32, {2}));
  auto traced = trace(
      "f", [&](Tensor x) { return square(square(x)); }, Spec(f32, {2}));
  ir::Module m = traced.module();
  EXPECT_EQ(m.functions.size(), 2u);
  EXPECT_EQ(node(m, "f", "call").attrs.get_function("callee"), "square");
  EXPECT_EQ(run(m, "f", {vec({2, 3})}), (std::vector<double>{16, 81}));
}

TEST(Calls, functions_of_one_name_are_told_apart) {
  auto one = trace(
      "g", [](Tensor x) { return x + 1; }, Spec(f32, {1}));
  auto two = trace(
      "g", [](Tensor x) { return x * 10; }, Spec(f32, {1}));
  auto traced = trace(
      "f", [&](Tensor x) { return two(one(x)); }, Spec(f32, {1}));
  EXPECT_EQ(run(traced.module(), "f", {vec({2})}), (std::vector<double>{30}));
}

TEST(Transforms, grad_is_a_call_with_closed_over_values_as_operands) {
  auto traced = trace(
      "f",
      [](Tensor w, Tensor x) {
        auto loss = [&](Tensor p) { return sum(p * x); };
        return grad(loss)(w);
      },
      Spec("w", f32, {3}), Spec("x", f32, {3}));
  ir::Module m = traced.module();
  const ir::Node& g = node(m, "f", "grad");
  EXPECT_EQ(g.operands.size(), 2u);
  EXPECT_EQ(g.attrs.get_ints("wrt"), (ir::Ints{0}));
  const ir::Function& callee = *m.find(g.attrs.get_function("callee"));
  EXPECT_EQ(callee.params.size(), 2u);
  EXPECT_EQ(callee.values[callee.params[1]].name, "x");
}

TEST(Transforms, value_and_grad_keeps_the_structure_of_results_and_arguments) {
  auto traced = trace(
      "f",
      [](Tensor w, Tensor b) {
        auto loss = [](nn::Affine<Tensor> p, Tensor scale) {
          Tensor y = p.w * scale + p.b;
          return std::pair(sum(y), y);
        };
        auto [value, g] = value_and_grad(loss, wrt<0, 1>)(nn::Affine<Tensor>{w, b}, full({}, 3));
        auto& [affine, scale] = g;
        return std::tuple(value.first, value.second, affine.w, affine.b, scale);
      },
      Spec(f32, {3}), Spec(f32, {3}));
  const ir::Function& f = *traced.function().function;
  std::vector<string> types;
  for (const ir::Type& t : f.types(f.results)) types.push_back(t.str());
  EXPECT_EQ(types, (std::vector<string>{"f32[]", "f32[3]", "f32[3]", "f32[3]", "f32[]"}));
  EXPECT_EQ(node(traced.module(), "f", "value_and_grad").attrs.get_ints("wrt"), (ir::Ints{0, 1, 2}));
}

TEST(Transforms, grad_of_grad_nests_through_a_wrapper) {
  auto cube = [](Tensor x) { return x * x * x; };
  auto traced = trace(
      "f", [&](Tensor x) { return grad(grad(cube))(x); }, Spec(f32, {}));
  ir::Module m = traced.module();
  string outer = node(m, "f", "grad").attrs.get_function("callee");
  string inner = node(m, outer, "grad").attrs.get_function("callee");
  EXPECT_EQ(node(m, inner, "mul").op->name, "mul");
}

TEST(Transforms, grad_of_a_vector_names_the_users_line) {
  int line = __LINE__ + 1;
  auto bad = [](Tensor x) { return grad([](Tensor y) { return y * 2; })(x); };
  string text = error_of([&] { trace("f", bad, Spec(f32, {3})); });
  EXPECT_HAS(text, "error[E0302]: grad: the first result of @f_fn is f32[3]");
  EXPECT_HAS(text, fmt::format("frontend/cpp/frontend_test.cc:{}", line));
}

TEST(Transforms, jvp_and_vjp_give_tuples) {
  auto traced = trace(
      "f",
      [](Tensor x, Tensor v) {
        auto f = [&](Tensor a) { return sin(a) * v; };
        auto [y, dy] = jvp(f, x, v);
        auto [z, pullback] = vjp(f, x);
        return std::tuple(y, dy, z, std::get<0>(pullback(z)), std::get<0>(pullback(y)));
      },
      Spec(f32, {2}), Spec(f32, {2}));
  const ir::Function& f = *traced.function().function;
  for (const ir::Type& t : f.types(f.results)) EXPECT_EQ(t.str(), "f32[2]");
  EXPECT_EQ(node(traced.module(), "f", "jvp").operands.size(), 3u);  // two operands, a tangent of the one that moves
}

// A pair or a tuple is one argument, whose gradient is a pair or a tuple.
TEST(Transforms, arguments_may_be_pairs_and_tuples) {
  auto traced = trace(
      "f",
      [](Tensor x, Tensor y) {
        auto of_pair = [](std::pair<Tensor, Tensor> p) { return sum(p.first * p.first + 3.0 * p.second); };
        auto of_tuple = [](std::tuple<Tensor, Tensor> t) { return sum(std::get<0>(t) * std::get<1>(t)); };
        std::pair p(x, y);
        std::tuple t(x, y);
        std::pair<Tensor, Tensor> g = grad(of_pair)(p);
        std::tuple<Tensor, Tensor> h = grad(of_tuple)(t);
        std::pair<Tensor, std::pair<Tensor, Tensor>> v = value_and_grad(of_pair)(p);
        auto [value, tangent] = jvp(of_pair, p, p);
        auto [again, pullback] = vjp(of_pair, p);
        std::tuple<std::pair<Tensor, Tensor>> back = pullback(again);
        return std::tuple(g.first, g.second, std::get<0>(h), std::get<1>(h), v.second.second, value, tangent, std::get<0>(back).second);
      },
      Spec(f32, {3}), Spec(f32, {}));
  std::string types;
  for (const ir::Type& t : traced.function().function->types(traced.function().function->results)) types += t.str() + " ";
  EXPECT_EQ(types, "f32[3] f32[] f32[3] f32[] f32[] f32[] f32[] f32[] ");
}

TEST(Program, entries_list_the_leaves_that_they_read_and_write) {
  Program program;
  State w = program.state("w", f32, {3}), n = program.state("n", i32, {});
  program.entry("init", {}, [&](const std::vector<Tensor>&) {
    w.set(ones({3}));
    n.set(zeros({}, i32));
  });
  program.entry("step", {{"x", f32, {3}}}, [&](Tensor x) -> Outputs {
    n.set(n.get() + 1);
    return {{"loss", sum(w.get() * x)}, {"count", n.get()}};
  });
  const ir::Module& m = program.module();
  const ir::Entry& init = *m.find_entry("init");
  EXPECT_TRUE(init.reads.empty());
  EXPECT_EQ(init.writes, (std::vector<int>{0, 1}));
  const ir::Entry& step = *m.find_entry("step");
  EXPECT_EQ(step.reads, (std::vector<int>{0, 1}));
  EXPECT_EQ(step.writes, (std::vector<int>{1}));
  EXPECT_EQ(step.outputs, (std::vector<string>{"loss", "count"}));
  const ir::Function& f = *m.find(step.function);
  std::vector<string> names;
  for (ir::ValueId id : f.params) names.push_back(f.values[id].name);
  EXPECT_EQ(names, (std::vector<string>{"w", "n", "x"}));
}

TEST(Program, state_is_checked) {
  Program program;
  State w = program.state("w", f32, {3});
  EXPECT_HAS(error_of([&] { program.state("w", f32, {3}); }), "error[E0108]: state leaf \"w\" is declared twice");
  EXPECT_HAS(error_of([&] { w.get(); }), "error[E0209]: state leaf \"w\" is read outside of an entry of its program");
  EXPECT_HAS(error_of([&] {
               program.entry("a", {{"x", f32, {2}}}, [&](Tensor x) { w.set(x); });
             }),
             "error[E0209]: state leaf \"w\" is f32[3], got f32[2]");
  auto inside = [&](Tensor x) {
    w.set(x);
    return sum(x);
  };
  EXPECT_HAS(error_of([&] {
               program.entry("b", {{"x", f32, {3}}}, [&](Tensor x) { grad(inside)(x); });
             }),
             "state leaf \"w\" is written inside `b_fn`: return the value and write it in the entry `b`");
  EXPECT_HAS(error_of([&] { program.entry("c", {}, [&](Tensor x) { w.set(x); }); }),
             "error[E0201]: entry `c` has 0 inputs, but its function takes 1 tensors");
}

TEST(Program, structs_of_leaves_have_dotted_names) {
  Program program;
  nn::Affine<State> layer = program.states("fc", nn::dense_spec(4, 2));
  EXPECT_EQ(layer.w.name(), "fc.w");
  nn::AdamW<nn::Affine> optimizer(program, nn::dense_spec(4, 2), {});
  std::vector<string> names;
  for (const ir::StateLeaf& leaf : program.module().state) names.push_back(leaf.name);
  EXPECT_EQ(names,
            (std::vector<string>{"fc.w", "fc.b", "adamw.m.w", "adamw.m.b", "adamw.v.w", "adamw.v.b", "adamw.step"}));
  program.entry("step", {{"x", f32, {5, 4}}}, [&](Tensor x) -> Outputs {
    auto loss = [&](nn::Affine<Tensor> p) { return mean(nn::dense(x, p)); };
    auto [value, g] = value_and_grad(loss)(get(layer));
    optimizer.apply(layer, g, 0.1);
    return {{"loss", value}};
  });
  EXPECT_EQ(program.module().find_entry("step")->writes.size(), 7u);
}

TEST(Sizes, symbols_stand_in_shapes_and_take_part_in_sums_and_products) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 64), len = program.symbol("len", 1, 100, 8);
  program.entry("f", {{"x", f32, {batch, len}}}, [&](Tensor x) -> Outputs {
    return {{"y", reshape(x, Shape{batch * len})}, {"m", mean(x)}};
  });
  EXPECT_EQ(program.module().symbols.size(), 2u);
  EXPECT_EQ(*program.module().symbols[1], (ir::Symbol{"len", 8, 96, 8}));  // the ends are multiples
  const ir::Function& f = *program.module().find("f");
  EXPECT_EQ(f.type(f.results[0]).str(), "f32[batch*len]");
  Literal x(f32, {2, 8});
  for (int64_t i = 0; i < 16; ++i) x.set(i, static_cast<double>(i));
  EXPECT_EQ(run(program.module(), "f", {x}).size(), 16u);
}

TEST(Sizes, equalities_are_solved_before_anything_is_traced) {
  Program program;
  ir::Dim n = program.symbol("n", 1, 64), m = program.symbol("m", 10, 100, 4), k = program.symbol("k", 1, 50);
  program.require_equal(m, n * 2);
  program.require_equal(k, n);
  program.entry("f", {{"x", f32, {n}}, {"y", f32, {k}}, {"z", f32, {m}}}, [&](Tensor x, Tensor y, Tensor z) -> Outputs {
    return {{"a", x + y},
            {"b", reshape(concatenate({reshape(x, Shape{n, 1}), reshape(y, Shape{n, 1})}, 1), Shape{m}) + z}};
  });
  ASSERT_EQ(program.module().symbols.size(), 1u);
  EXPECT_EQ(*program.module().symbols[0], (ir::Symbol{"n", 6, 50, 2}));
  const ir::Function& f = *program.module().find("f");
  EXPECT_EQ(f.type(f.params[2]).str(), "f32[2*n]");
}

TEST(Sizes, constraints_that_contradict_each_other_name_both_lines) {
  Program program;
  ir::Dim batch = program.symbol("batch", 1, 64), len = program.symbol("len", 40, 50);
  string text = error_of([&] { program.require_equal(batch, len * 2); });
  EXPECT_HAS(text, "error[E0208]: no sizes satisfy batch == 2*len: batch is in [1, 64], 2*len in [80, 100]");
  EXPECT_HAS(text, "frontend_test.cc");
  EXPECT_HAS(text, "batch in [1, 64] is declared at");
  EXPECT_HAS(text, "len in [40, 50] is declared at");
  program.require_equal(batch, len);
  EXPECT_HAS(error_of([&] { program.require_equal(batch, len + 1); }), "batch == len is declared at");
}

TEST(Sizes, inequalities_narrow_ranges_or_decide_comparisons) {
  Program program;
  ir::Dim past = program.symbol("past", 0, 64), count = program.symbol("count", 1, 64),
          room = program.symbol("room", 1, 100);
  program.require(past <= 50);
  program.require(past + count <= room);
  EXPECT_EQ(program.module().symbols[0]->max, 50);
  ASSERT_EQ(program.module().constraints.size(), 1u);
  EXPECT_EQ(program.module().constraints[0].relation.str(), "count+past <= room");
  program.entry("f", {{"x", f32, {past}}, {"y", f32, {count}}, {"z", f32, {room}}},
                [&](Tensor x, Tensor y, Tensor z) -> Outputs {
                  Tensor joined = concatenate({x, y}, 0);
                  return {{"joined", joined}, {"free", slice(z, Shape{count + past}, Shape{room})}};
                });
  const ir::Function& f = *program.module().find("f");
  EXPECT_EQ(f.type(f.results[1]).str(), "f32[-count-past+room]");
}

TEST(Sizes, cycles_of_any_length_are_refused) {
  for (int n : {2, 3, 4, 5, 9}) {
    Program program;
    std::vector<ir::Dim> sizes;
    for (int i = 0; i < n; ++i) sizes.push_back(program.symbol("s" + std::to_string(i), 1, 64));
    for (int i = 0; i + 1 < n; ++i) program.require(sizes[i] <= sizes[i + 1] + (i == 0 ? 3 : -1));
    string text = error_of([&] { program.require(sizes[n - 1] < sizes[0] + n - 5); });
    EXPECT_HAS(text, "error[E0208]: no sizes satisfy");
    // With one less to ask for, equal steps satisfy all of them.
    if (n > 3) program.require(sizes[n - 1] <= sizes[0] + n - 5);
  }
  Program program;
  ir::Dim a = program.symbol("a", 1, 64), b = program.symbol("b", 1, 64), c = program.symbol("c", 1, 64),
          d = program.symbol("d", 1, 64);
  program.require(a < b), program.require(b < c), program.require(c < d);
  string text = error_of([&] { program.require(d < a); });
  EXPECT_HAS(text, "no sizes satisfy d < a: not together with a < b, b < c, c < d");
  EXPECT_HAS(text, "b < c is declared at");
  EXPECT_HAS(error_of([&] { program.require(d + 62 <= a + 64 - 1); }), "no sizes satisfy");
}

TEST(Sizes, inequalities_that_contradict_each_other_name_both_lines) {
  Program program;
  ir::Dim a = program.symbol("a", 1, 64), b = program.symbol("b", 1, 64), c = program.symbol("c", 1, 64);
  program.require(a < b);
  string text = error_of([&] { program.require(b <= a); });
  EXPECT_HAS(text, "error[E0208]: no sizes satisfy b <= a: the other declarations say that a < b");
  EXPECT_HAS(text, "a < b is declared at");
  EXPECT_HAS(text, "program.require(b <= a)");
  EXPECT_HAS(text, "program.require(a < b)");
  EXPECT_HAS(error_of([&] { program.require(a * 2 > 200); }), "no sizes satisfy 200 < 2*a");
  text = error_of([&] { program.require_equal(a, b + c); });
  EXPECT_HAS(text, "no sizes satisfy a == b+c");
  EXPECT_HAS(text, "a < b is declared at");
  text = error_of([&] { program.require(a >= 64); });
  EXPECT_HAS(text, "no sizes satisfy 64 <= a");
  EXPECT_HAS(text, "a < b is declared at");
}

TEST(Sizes, a_symbol_that_no_input_tells_says_which_input_would) {
  Program program;
  ir::Dim n = program.symbol("n", 1, 8), m = program.symbol("m", 1, 8);
  string text = error_of([&] {
    program.entry("f", {{"x", f32, {n * m}}}, [](Tensor x) -> Outputs { return {{"x", x}}; });
  });
  EXPECT_HAS(text, "error[E0207]: entry `f`: no input has a dimension that tells the size of ");
  EXPECT_HAS(text, "frontend_test.cc");
  EXPECT_HAS(text, "dimension 0 of input `x` is m*n, which would tell it if another input told n");
  EXPECT_HAS(text, "help: give an input a dimension of size m");
  text = error_of([&] { program.entry("g", {{"y", f32, {n * n}}}, [](Tensor y) -> Outputs { return {{"y", y}}; }); });
  EXPECT_HAS(text, "dimension 0 of input `y` is n*n, which is not a product or sum with n once in it");
}

TEST(Sizes, a_value_is_no_size) {
  string text = error_of([&] {
    trace(
        "f",
        [](Tensor x, Tensor n) {
          return reshape(x, Shape{n, 2});
        },
        Spec("x", f32, {4}), Spec("n", i32, {}));
  });
  EXPECT_HAS(text, "error[E0204]: a shape depends on data: a size is %n of type i32[]");
}

TEST(State, a_spec_says_in_which_memory_a_leaf_lives) {
  Program program;
  Spec w("w", f32, {4});
  program.state(w);
  program.state(Spec("m", f32, {4}).host());
  nn::Affine<Spec> dense = nn::dense_spec(2, 3);
  dense.w = dense.w.host();
  program.states("dense", dense);
  nn::AdamW<nn::Affine> optimizer(program, dense, {});
  std::vector<string> hosts;
  for (const ir::StateLeaf& l : program.module().state)
    if (l.memory == ir::MemorySpace::kHost) hosts.push_back(l.name);
  EXPECT_EQ(hosts, (std::vector<string>{"m", "dense.w", "adamw.m.w", "adamw.v.w"}));
}

TEST(Sizes, what_cannot_be_solved_or_comes_too_late_is_refused) {
  Program program;
  ir::Dim n = program.symbol("n", 1, 8), m = program.symbol("m", 1, 8);
  EXPECT_HAS(error_of([&] { program.require_equal(n * 2, m * 3); }), "E0207");
  EXPECT_HAS(error_of([&] { program.symbol("n", 1, 2); }), "E0108");
  EXPECT_HAS(error_of([&] { program.symbol("k", 5, 7, 8); }), "no integer is in [5, 7] and a multiple of 8");
  EXPECT_HAS(error_of([&] { program.state("s", f32, {n}); }), "E0209");
  string text = error_of([&] {
    program.entry("f", {{"x", f32, {n}}, {"y", f32, {m}}}, [](Tensor x, Tensor y) -> Outputs {
      return {{"z", x + y}};
    });
  });
  EXPECT_HAS(text, "E0207");
  EXPECT_HAS(text, "declare the constraint n == m");
  program.entry("g", {{"x", f32, {n}}}, [](Tensor x) -> Outputs { return {{"z", x}}; });
  EXPECT_HAS(error_of([&] { program.require_equal(n, m); }), "is declared after `g`");
}

}  // namespace
}  // namespace nabla

// Manual regions: what is written for the ranks of a mesh is what a program for all of them says, and so are its
// derivatives.
#include "ir/verifier.h"
#include "tests/shard/manual_programs.h"
#include "tests/shard/manual_run.h"

namespace nabla::shard_tests {
namespace {

TEST(Manual, AMegatronMlpIsTheOneByLayouts) {
  ir::Module manual = training_by_hand();
  ir::Module layouts = training(mlp, P("dp", ""), P("", "tp"), P("tp", ""));
  ir::Module plain = training(mlp, P(open(), open()), P(open(), open()), P(open(), open()));
  std::vector<Literal> args = random_args(*manual.find("f"), 1);
  ManualRun got = run_manual(manual, args), wanted = run_manual(layouts, args), single = run_manual(plain, args);
  expect_equal(wanted.results, got.results);
  expect_equal(single.results, got.results);
  EXPECT_TRUE(got.remarks.empty()) << got.remarks[0].text;
  // Nothing of the region is left.
  for (const ir::FunctionPtr& f : got.local.functions)
    for (const ir::Node& n : f->nodes) EXPECT_NE(n.op->category + n.op->name, "collectiveshard_map");
}

// Where the operands are laid out otherwise, they are brought to the region's layout, and results to what is wanted.
TEST(Manual, OperandsAreBroughtToTheRegion) {
  auto by_hand = [](Tensor x, Tensor v, Tensor w) {
    auto part = [](Tensor a, Tensor b, Tensor c) { return psum(mlp(a, b, c), {"dp", "tp"}); };
    return shard_map(part, {P("", ""), P("", PDim{"dp", "tp"}), P(PDim{"dp", "tp"}, "")}, {P("", "")})(x, v, w);
  };
  ir::Module manual = training(by_hand, P("", "tp"), P("dp", ""), P("", "dp"));
  ir::Module plain = training(mlp, P("", ""), P("", ""), P("", ""));
  std::vector<Literal> args = random_args(*manual.find("f"), 2);
  expect_equal(run_manual(plain, args).results, run_manual(manual, args).results);
}

// Manual along tp alone: the batch is sharded along dp as in any function.
TEST(Manual, OtherAxesStayAutomatic) {
  auto by_hand = [](Tensor x, Tensor v, Tensor w) {
    auto part = [](Tensor a, Tensor b, Tensor c) { return psum(mlp(a, b, c), "tp"); };
    return shard_map(part, {P("", ""), P("", "tp"), P("tp", "")}, {P("", "")}, {"tp"})(x, v, w);
  };
  ir::Module manual = training(by_hand, P("dp", ""), P("", "tp"), P("tp", ""));
  ir::Module plain = training(mlp, P("", ""), P("", ""), P("", ""));
  std::vector<Literal> args = random_args(*manual.find("f"), 3);
  ManualRun got = run_manual(manual, args);
  expect_equal(run_manual(plain, args).results, got.results);
  EXPECT_EQ(got.collectives().find("all_gather"), std::string::npos) << print(got.local);
  EXPECT_TRUE(got.remarks.empty()) << got.remarks[0].text;
}

// Gradients of three layers that a loop runs, of which each is a function of x, v and w.
template <class F>
ir::Module training_of_layers(F layer, const std::vector<MeshAxis>& axes, const PDim& batch) {
  Program program;
  program.mesh("pod", axes);
  program.entry("f", {{"x", f32, {8, 6}, P(batch, "")}, {"v", f32, {3, 6, 8}, P("", "", "tp")}, {"w", f32, {3, 8, 6}, P("", "tp", "")}},
                [&](Tensor a, Tensor b, Tensor c) -> Outputs {
                  auto loss = [&](std::pair<Tensor, Tensor> layers) {
                    auto step = [&](Tensor h, std::pair<Tensor, Tensor> vw) {
                      return std::pair(h + layer(h, vw.first, vw.second), sum(h * h));
                    };
                    auto [y, sums] = scan(step, a, layers);
                    return mean(y * y) + sum(sums);
                  };
                  auto [value, g] = value_and_grad(loss)(std::pair(b, c));
                  return {{"loss", value}, {"gv", g.first}, {"gw", g.second}};
                });
  return program.module();
}

// What microbatches add up goes through a region's own sums over ranks, to the end of the loop in which it stands.
TEST(Manual, MicrobatchesOfRegionsInALoop) {
  auto summed = [](Tensor a, Tensor b, Tensor c) { return psum(mlp(a, b, c), "tp"); };
  auto scattered = [](Tensor a, Tensor b, Tensor c) { return all_gather(psum_scatter(mlp(a, b, c), "tp", 1), "tp", 1); };
  auto over_all = [&](auto part) {
    return [=](Tensor x, Tensor v, Tensor w) {
      return shard_map(part, {P("dp", ""), P("", "tp"), P("tp", "")}, {P("dp", "")}, {"dp", "tp"})(x, v, w);
    };
  };
  auto over_one = [&](Tensor x, Tensor v, Tensor w) {
    return shard_map(summed, {P("", ""), P("", "tp"), P("tp", "")}, {P("", "")}, {"tp"})(x, v, w);
  };
  const std::vector<MeshAxis> ranks = {{"dp", 2}, {"tp", 2}};
  std::vector<MeshAxis> both = ranks;
  both.push_back(temporal("mb", 2));
  ir::Module plain = training_of_layers(mlp, ranks, "dp");
  std::vector<Literal> args = random_args(*plain.find("f"), 4);
  ManualRun wanted = run_manual(plain, args);
  for (const ir::Module& m : {training_of_layers(over_all(summed), both, {"dp", "mb"}), training_of_layers(over_one, both, {"dp", "mb"}),
                              training_of_layers(over_all(scattered), both, {"dp", "mb"})}) {
    ManualRun got = run_manual(m, args);
    expect_equal(wanted.results, got.results);
    EXPECT_TRUE(got.remarks.empty()) << got.remarks[0].text;
  }
}

// In a region a value may be laid out along the axes that are not manual, and a collective leaves its parts where they are.
TEST(Manual, LayoutsInARegion) {
  auto by_hand = [](Tensor x, Tensor v, Tensor w) {
    auto part = [](Tensor a, Tensor b, Tensor c) {
      Tensor h = shard(relu(matmul(a, b)), P("dp", open()));
      return all_gather(psum_scatter(matmul(h, c), "tp", 1), "tp", 1);
    };
    return shard_map(part, {P("", ""), P("", "tp"), P("tp", "")}, {P("", "")}, {"tp"})(x, v, w);
  };
  ir::Module manual = training(by_hand, P(open(), open()), P("", "tp"), P("tp", ""));
  ir::Module plain = training(mlp, P("", ""), P("", ""), P("", ""));
  std::vector<Literal> args = random_args(*manual.find("f"), 11);
  ManualRun got = run_manual(manual, args);
  expect_equal(run_manual(plain, args).results, got.results);
  EXPECT_TRUE(got.remarks.empty()) << got.remarks[0].text;
  EXPECT_NE(print(got.local).find("f32[2,6]"), std::string::npos) << print(got.local);  // half of the batch
}

TEST(Manual, RegionsAreNested) {
  auto by_hand = [](Tensor x, Tensor v, Tensor w) {
    auto outer = [](Tensor a, Tensor b, Tensor c) {
      auto inner = [](Tensor d, Tensor e, Tensor f) { return psum(mlp(d, e, f), "tp"); };
      return shard_map(inner, {P("", ""), P("", "tp"), P("tp", "")}, {P("", "")}, {"tp"})(a, b, c);
    };
    return shard_map(outer, {P("dp", ""), P("", ""), P("", "")}, {P("dp", "")}, {"dp"})(x, v, w);
  };
  ir::Module manual = training(by_hand, P("dp", ""), P("", "tp"), P("tp", ""));
  ir::Module plain = training(mlp, P("", ""), P("", ""), P("", ""));
  std::vector<Literal> args = random_args(*manual.find("f"), 4);
  expect_equal(run_manual(plain, args).results, run_manual(manual, args).results);
}

// ---- Collectives: f of the parts is g of the whole, and so are the gradients.

template <class F, class G>
void expect_same(F part, G whole, const P& in, const P& out, Shape shape = {8, 4}) {
  auto make = [&](auto f) {
    Program program;
    program.mesh("ring", {{"r", 4}});
    program.entry("f", {{"x", f32, shape}}, [&](Tensor x) -> Outputs {
      auto loss = [&](Tensor y) { return sum(sin(f(y)) * 2); };
      auto [value, g] = value_and_grad(loss)(x);
      auto along = [&](Tensor y) { return sum(grad(loss)(y) * x); };  // reverse mode of reverse mode
      return {{"y", f(x)}, {"loss", value}, {"g", g}, {"forward", hvp(loss, x, x)}, {"reverse", grad(along)(x)}};
    });
    return program.module();
  };
  ir::Module manual = make([&](Tensor x) { return shard_map(part, {in}, {out})(x); });
  std::vector<Literal> args = random_args(*manual.find("f"), 5);
  expect_equal(run_manual(make(whole), args).results, run_manual(manual, args).results);
}

Tensor groups(const Tensor& x) { return reshape(x, {4, 2, 4}); }

TEST(Manual, CollectivesAndTheirGradients) {
  P rows("r", ""), whole("", "");
  auto total = [](Tensor x) { return sum(groups(x), {0}); };
  expect_same([](Tensor x) { return psum(x * x, "r"); }, [&](Tensor x) { return total(x * x); }, rows, whole);
  expect_same([](Tensor x) { return pmean(x * x, "r"); }, [&](Tensor x) { return total(x * x) * 0.25; }, rows, whole);
  expect_same([](Tensor x) { return all_gather(x * x, "r") * 3; }, [](Tensor x) { return x * x * 3; }, rows, whole);
  expect_same([](Tensor x) { return psum_scatter(x, "r", 1); },
              [&](Tensor x) {
                return reshape(transpose(reshape(total(x), {2, 4, 1}), {1, 0, 2}), {8, 1});
              },
              rows, rows);
  expect_same([](Tensor x) { return all_to_all(x, "r", 1, 0); }, [](Tensor x) { return x; }, rows, P("", "r"));
  auto largest = [](Tensor x) { return reduce_max(groups(x), {0}); };
  expect_same([](Tensor x) { return pmax(x, "r"); }, largest, rows, whole);
  expect_same([](Tensor x) { return pmin(x, "r"); }, [&](Tensor x) { return -largest(-x); }, rows, whole);
  // What is the same on all ranks and meets what is not.
  expect_same([](Tensor x) { return x * convert(axis_index("r") + 1, f32); },
              [](Tensor x) {
                Tensor n = convert(iota({4, 2, 4}, 0), f32) + 1;
                return reshape(broadcast_in_dim(reshape(x, {1, 2, 4}), {4, 2, 4}, {0, 1, 2}) * n, {8, 4});
              },
              whole, rows, {2, 4});
  // A gathered value is one value: it meets the parts again.
  expect_same([](Tensor x) { return x * sum(all_gather(x, "r")); }, [](Tensor x) { return x * sum(x); }, rows, rows);
}

// By the names that Python has for them; without axes all those of the region count.
TEST(Manual, CollectivesByTheNamesOfPythonAndTheirGradients) {
  P rows("r", ""), whole("", "");
  auto total = [](Tensor x) { return sum(groups(x), {0}); };
  auto largest = [](Tensor x) { return reduce_max(groups(x), {0}); };
  expect_same([](Tensor x) { return all_reduce(x * x); }, [&](Tensor x) { return total(x * x); }, rows, whole);
  expect_same([](Tensor x) { return all_reduce(x * x, "mean", "r"); }, [&](Tensor x) { return total(x * x) * 0.25; }, rows, whole);
  expect_same([](Tensor x) { return all_reduce(x, "max"); }, largest, rows, whole);
  expect_same([](Tensor x) { return all_reduce(x, "min"); }, [&](Tensor x) { return -largest(-x); }, rows, whole);
  expect_same([](Tensor x) { return all_reduce(x, "prod"); }, [](Tensor x) { return prod(groups(x), {0}); }, rows, whole);
  // Of what all ranks share the product is a power, and each rank's factor counts in its gradient.
  expect_same([](Tensor x) { return all_reduce(x, "prod"); }, [](Tensor x) { return x * x * x * x; }, whole, whole);
  expect_same([](Tensor x) { return reduce_scatter(x * 2, -1); },
              [&](Tensor x) { return reshape(transpose(reshape(total(x * 2), {2, 4, 1}), {1, 0, 2}), {8, 1}); }, rows, rows);
  expect_same([](Tensor x) { return gather_all_axes(x * x) * 3; }, [](Tensor x) { return x * x * 3; }, rows, whole);
  expect_same([](Tensor x) { return all_gather(x, 1); },
              [](Tensor x) { return reshape(transpose(groups(x), {1, 0, 2}), {2, 16}); }, rows, whole);
  expect_same([](Tensor x) { return all_to_all(x, 1, 0); }, [](Tensor x) { return x; }, rows, P("", "r"));
  for (int64_t root : {0, 2})
    expect_same([=](Tensor x) { return distributed_broadcast(x * x, root); },
                [=](Tensor x) { return slice(x * x, {2 * root, 0}, {2 * root + 2, 4}); }, rows, whole);
  expect_same([](Tensor x) { return ppermute(x, {{0, 3}, {2, 1}}); },
              [](Tensor x) {
                Tensor none = zeros({2, 4});
                return concatenate({none, slice(x, {4, 0}, {6, 4}), none, slice(x, {0, 0}, {2, 4})}, 0);
              },
              rows, rows);
}

// Ranks of a region along two axes are counted as those of the mesh, and those of an inner region along its own.
TEST(Manual, TheAxesOfTheRegionAroundCount) {
  auto make = [](auto f) {
    Program program;
    program.mesh("pod", {{"dp", 2}, {"tp", 2}});
    program.entry("f", {{"x", f32, {4, 6}}, {"b", boolean, {4}}}, [&](Tensor x, Tensor b) -> Outputs {
      auto [y, z, n, c] = f(x, b);
      return {{"y", y}, {"z", z}, {"n", n}, {"c", c}};
    });
    return program.module();
  };
  using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
  auto part = [](Tensor x, Tensor b) {
    Tensor next = ppermute(x, {{0, 1}, {1, 2}, {2, 3}, {3, 0}});
    return Four(next, all_reduce(x), broadcast(reshape(axis_index(), {1}) * static_cast<int32_t>(axis_size()), 3), broadcast(b, 1));
  };
  auto whole = [](Tensor x, Tensor b) {
    Tensor next = concatenate({slice(x, {3, 0}, {4, 6}), slice(x, {0, 0}, {3, 6})}, 0);
    return Four(next, sum(x, {0}, true), full({1}, 12, i32), slice(b, {1}, {2}));
  };
  P rows(PDim{"dp", "tp"}, ""), same("", "");
  ir::Module manual = make([&](Tensor x, Tensor b) {
    return shard_map(part, {rows, P(PDim{"dp", "tp"})}, {rows, same, P(""), P("")})(x, b);
  });
  std::vector<Literal> args = random_args(*manual.find("f"), 14);
  for (int64_t i = 0; i < 4; ++i) args[1].set(i, i == 1 ? 1.0 : 0.0);
  expect_equal(run_manual(make(whole), args).results, run_manual(manual, args).results);

  auto nested = [](Tensor x, Tensor b) {
    auto outer = [](Tensor a, Tensor) {
      auto inner = [](Tensor c) { return std::pair(all_reduce(c), gather_all_axes(c)); };
      auto [s, g] = shard_map(inner, {P("tp", "")}, {P("", ""), P("", "")}, {"tp"})(a);
      return Four(s, g, full({1}, 0, i32), zeros({1}, f32));
    };
    P dp("dp", "");
    return shard_map(outer, {dp, P("dp")}, {dp, dp, P(""), P("")}, {"dp"})(x, b);
  };
  std::string text = print(flattened(make(nested)));
  for (const char* part : {"all_reduce(%x) {axes={tp}, shards=2}", "all_gather(%x) {axes={tp}, dim=0, shards=2}"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  run_manual(make(nested), args);
}

// Outside of a region a layout says that each rank has all of an array.
TEST(Manual, GatheredAxesOutsideOfARegion) {
  auto make = [](bool mesh, bool gathers) {
    Program program;
    if (mesh) program.mesh("ring", {{"r", 4}});
    std::vector<Spec> inputs = {mesh ? Spec("x", f32, {8, 4}, P("r", "")) : Spec("x", f32, {8, 4})};
    program.entry("f", inputs, [&](Tensor x) -> Outputs {
      auto loss = [&](Tensor y) { return sum(sin(gathers ? gather_all_axes(y * y) : y * y)); };
      auto [value, g] = value_and_grad(loss)(x);
      return {{"y", gathers ? gather_all_axes(x) : x}, {"loss", value}, {"g", g}};
    });
    return program.module();
  };
  ir::Module gathered = make(true, true);
  std::vector<Literal> args = random_args(*gathered.find("f"), 15);
  ManualRun run = run_manual(gathered, args);
  expect_equal(run_manual(make(true, false), args).results, run.results);
  EXPECT_NE(run.collectives().find("all_gather"), std::string::npos) << print(run.local);
  Result<std::vector<Literal>> alone = ir::interpret(flattened(make(false, true)), "f", args);
  ASSERT_TRUE(alone.ok());
  expect_equal(*alone, run.results);
}

TEST(Manual, ARingOfPermutesIsASum) {
  auto ring = [](Tensor x) {
    int64_t n = axis_size("r");
    std::vector<std::pair<int64_t, int64_t>> next;
    for (int64_t i = 0; i < n; ++i) next.push_back({i, (i + 1) % n});
    auto step = [&](Tensor, std::pair<Tensor, Tensor> s) {
      Tensor moved = ppermute(s.second, "r", next);
      return std::pair(s.first + moved, moved);
    };
    return fori_loop(0, n - 1, step, std::pair(x, x)).first;
  };
  // Each rank has the sum, which nobody can see but the one who wrote it: it is one row of blocks per rank.
  auto total = [](Tensor x) {
    Tensor s = sum(groups(x), {0}, true);
    return reshape(broadcast_in_dim(s, {4, 2, 4}, {0, 1, 2}), {8, 4});
  };
  expect_same(ring, total, P("r", ""), P("r", ""));
}

TEST(Manual, APipelineOfPermutesInAScan) {
  auto one_after_another = [](Tensor x, Tensor w) {
    auto layer = [](Tensor h, Tensor own) { return std::pair(tanh(matmul(h, own)), h); };
    return reshape(scan(layer, reshape(x, {10, 3}), w).first, {5, 2, 3});
  };
  ir::Module manual = pipeline_by_hand();
  std::vector<Literal> args = random_args(*manual.find("f"), 6);
  expect_equal(run_manual(pipeline(one_after_another), args).results, run_manual(manual, args).results);
}

// Gradients that a rank takes itself: of what is the same on all of them they are summed.
TEST(Manual, GradientsInsideOfARegion) {
  auto step = [](Tensor x, Tensor w) {
    auto loss = [&](Tensor p) { return sum(tanh(matmul(x, p))); };
    return grad(loss)(w);
  };
  auto make = [](auto f) {
    Program program;
    program.mesh("ring", {{"r", 4}});
    program.entry("f", {{"x", f32, {8, 3}}, {"w", f32, {3, 3}}}, [&](Tensor x, Tensor w) -> Outputs {
      return {{"g", f(x, w)}};
    });
    return program.module();
  };
  ir::Module manual = make([&](Tensor x, Tensor w) {
    return shard_map(step, {P("r", ""), P("", "")}, {P("", "")})(x, w);
  });
  std::vector<Literal> args = random_args(*manual.find("f"), 7);
  ManualRun got = run_manual(manual, args);
  expect_equal(run_manual(make(step), args).results, got.results);
  EXPECT_EQ(got.collectives(), "all_reduce");
}

TEST(Manual, TransformsOfRegions) {
  auto make = [](auto f) {
    Program program;
    program.mesh("ring", {{"r", 2}});
    program.entry("f", {{"x", f32, {3, 8, 4}}, {"t", f32, {3, 8, 4}}, {"w", f32, {4, 4}}},
                  [&](Tensor x, Tensor t, Tensor w) -> Outputs {
                    auto batched = vmap([&](Tensor y) { return f(y, w); });
                    auto of_w = [&](Tensor p) { return sum(f(reshape(slice(x, {0, 0, 0}, {1, 8, 4}), {8, 4}), p)); };
                    return {{"y", batched(x)},
                            {"dy", jvp(batched, x, t).second},
                            {"h", hvp(of_w, w, w)},
                            {"r", grad(remat(of_w))(w)}};
                  });
    return program.module();
  };
  auto part = [](Tensor x, Tensor w) { return psum(tanh(matmul(x, w)), "r"); };
  auto whole = [](Tensor x, Tensor w) { return sum(reshape(tanh(matmul(x, w)), {2, 4, 4}), {0}); };
  ir::Module manual = make([&](Tensor x, Tensor w) {
    return shard_map(part, {P("r", ""), P("", "")}, {P("", "")})(x, w);
  });
  std::vector<Literal> args = random_args(*manual.find("f"), 8);
  expect_equal(run_manual(make(whole), args).results, run_manual(manual, args).results);
}

TEST(Manual, SizesThatAreKnownAtRunTime) {
  Program program;
  program.mesh("ring", {{"r", 2}});
  ir::Dim batch = program.symbol("batch", 2, 64, 2);
  program.entry("f", {{"x", f32, {batch, 4}}}, [&](Tensor x) -> Outputs {
    auto part = [](Tensor a) { return std::pair(a * 2, psum(sum(a), "r")); };
    auto [y, s] = shard_map(part, {P("r", "")}, {P("r", ""), P()})(x);
    return {{"y", y}, {"s", s}};
  });
  Literal x(f32, {6, 4});
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, static_cast<double>(i));
  run_manual(program.module(), {x});
}

// Rules of the user: gradients of what ranks share are summed too.
TEST(Manual, RulesOfTheUserInARegion) {
  auto make = [](auto f) {
    Program program;
    program.mesh("ring", {{"r", 2}});
    program.entry("f", {{"x", f32, {4, 3}}, {"w", f32, {3}}}, [&](Tensor x, Tensor w) -> Outputs {
      auto loss = [&](Tensor p, Tensor q) { return sum(sin(f(p, q))); };
      auto [g, h] = grad(loss, wrt<0, 1>)(x, w);
      return {{"g", g}, {"h", h}, {"forward", jvp([&](Tensor q) { return loss(x, q); }, w, w).second}};
    });
    return program.module();
  };
  auto scaled = [](Tensor x, Tensor w) { return x * broadcast_in_dim(w, x.shape(), {1}); };
  auto by_rule = custom_jvp(scaled, [=](std::tuple<Tensor, Tensor> args, std::tuple<Tensor, Tensor> t) {
    auto [x, w] = args;
    return std::pair(scaled(x, w), scaled(std::get<0>(t), w) + scaled(x, std::get<1>(t)));
  });
  auto forward = [=](Tensor x, Tensor w) { return std::pair(scaled(x, w), std::pair(x, w)); };
  auto backward = [=](std::pair<Tensor, Tensor> kept, Tensor ct) {
    return std::tuple(scaled(ct, kept.second), sum(ct * kept.first, {0}));
  };
  auto both = [=](Tensor x, Tensor w) { return by_rule(x, w) * 2; };
  auto part = [=](Tensor x, Tensor w) { return both(x, w) + psum(sum(by_rule(x, w)), "r"); };
  auto whole = [=](Tensor x, Tensor w) { return both(x, w) + sum(by_rule(x, w)); };
  ir::Module manual = make([&](Tensor x, Tensor w) {
    return shard_map(part, {P("r", ""), P("")}, {P("r", "")})(x, w);
  });
  std::vector<Literal> args = random_args(*manual.find("f"), 13);
  expect_equal(run_manual(make(whole), args).results, run_manual(manual, args).results);
  // A rule for reverse mode alone.
  auto reverse = [=](auto f) {
    Program program;
    program.mesh("ring", {{"r", 2}});
    program.entry("f", {{"x", f32, {4, 3}}, {"w", f32, {3}}}, [&](Tensor x, Tensor w) -> Outputs {
      return {{"h", grad([&](Tensor q) { return sum(sin(f(x, q))); })(w)}};
    });
    return program.module();
  };
  auto rule = custom_vjp(scaled, forward, backward);
  ir::Module cut = reverse([&](Tensor x, Tensor w) {
    return shard_map([&](Tensor a, Tensor b) { return rule(a, b); }, {P("r", ""), P("")}, {P("r", "")})(x, w);
  });
  expect_equal(run_manual(reverse(scaled), args).results, run_manual(cut, args).results);
}

TEST(Manual, GroupsAndBarriersHaveDerivatives) {
  Program program;
  program.mesh("pod", {{"dp", 2}});
  std::vector<Spec> inputs = {{"x", f32, {4, 8}, P("dp", open())}, {"w", f32, {4, 8}}, {"xs", f32, {3, 4, 8}}};
  program.entry("f", inputs, [&](Tensor x, Tensor w, Tensor xs) -> Outputs {
    auto loss = [](Tensor p, Tensor q) {
      auto [a, b] = shard_as(p, tanh(q));
      Tensor c = shard_by_rule(propagation_barrier(a * b, "forward"), {p, q}, "... i, ... i -> ... i");
      return sum(c * shard(a, P(open({"dp"}).priority(1), open())));
    };
    auto [g, h] = grad(loss, wrt<0, 1>)(x, w);
    return {{"g", g}, {"h", h}, {"many", vmap(loss, {.in_axes = {0, unmapped}})(xs, w)}};
  });
  run_manual(program.module(), random_args(*program.module().find("f"), 12));
}

// The batch of a layout inside of a mapped function lies along the axis that vmap names.
TEST(Manual, VmapNamesTheAxisOfItsBatch) {
  auto make = [](const std::string& axis) {
    Program program;
    program.mesh("pod", {{"dp", 2}, {"tp", 2}});
    program.entry("f", {{"x", f32, {4, 8}}, {"w", f32, {8, 6}}}, [&](Tensor x, Tensor w) -> Outputs {
      auto row = [&](Tensor v) { return with_sharding_constraint(tanh(matmul(v, w)), P("tp")); };
      auto loss = [&](Tensor p) { return sum(vmap(row, {.spmd_axis_name = axis})(p)); };
      return {{"y", vmap(row, {.spmd_axis_name = axis})(x)}, {"g", grad(loss)(x)}};
    });
    return program.module();
  };
  ir::Module named = make("dp");
  std::vector<Literal> args = random_args(*named.find("f"), 9);
  ManualRun got = run_manual(named, args);
  EXPECT_NE(print(got.flat).find("sharding=<dp, tp>"), std::string::npos) << print(got.flat);
  EXPECT_NE(print(run_manual(make(""), args).flat).find("sharding=<{?}, tp>"), std::string::npos);
}

// A region of which the batch lies along one of its axes, where it makes no use of that axis.
TEST(Manual, VmapOverARegionAlongAnAxisThatItDoesNotUse) {
  auto make = [](bool both) {
    Program program;
    program.mesh("pod", {{"dp", 2}, {"tp", 2}});
    program.entry("f", {{"x", f32, {4, 8}}, {"w", f32, {8, 6}}}, [&](Tensor x, Tensor w) -> Outputs {
      auto part = [&](Tensor v, Tensor m) {
        Tensor sum = psum(matmul(v, m), "tp");
        return both ? pmean(sum, "dp") : sum;
      };
      auto row = [&](Tensor v) { return tanh(shard_map(part, {P("tp"), P("tp", "")}, {P("")})(v, w)); };
      auto loss = [&](Tensor p) { return sum(vmap(row, {.spmd_axis_name = "dp"})(p)); };
      return {{"y", vmap(row, {.spmd_axis_name = "dp"})(x)}, {"g", grad(loss)(x)}};
    });
    return program.module();
  };
  ir::Module m = make(false);
  ManualRun got = run_manual(m, random_args(*m.find("f"), 9));
  // Each rank has two rows of the batch.
  EXPECT_NE(print(got.local).find("tanh(%1) : f32[2,6]"), std::string::npos) << print(got.local);
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  Result<ir::Module> refused = passes::lower_transforms(make(true), context);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.errors()[0].message.find("spmd_axis_name is dp, along which the region cuts its arrays or communicates"),
            std::string::npos)
      << to_string(refused.errors());
}

// The layout of the batch lets it be padded, whatever the example's own layout says.
TEST(Manual, VmapPadsABatchThatTheAxisDoesNotDivide) {
  auto make = [](auto row, const std::string& axis, bool padded = false) {
    Program program;
    program.mesh("pod", {{"dp", 2}, {"tp", 2}});
    P rows = P(padded ? PDim("dp") : open(), open());
    program.entry("f", {{"x", f32, {7, 8}, padded ? rows.allow_padding() : rows}, {"w", f32, {8, 6}}}, [&](Tensor x, Tensor w) -> Outputs {
      auto one = [&](Tensor v) { return row(v, w); };
      auto f = vmap(one, {.spmd_axis_name = axis});
      auto loss = [&](Tensor p) { return sum(sin(f(p))); };
      auto rows_gradient = vmap(grad([&](Tensor v) { return sum(sin(one(v))); }), {.spmd_axis_name = axis});
      return {{"y", f(x)}, {"g", grad(loss)(x)}, {"rows", rows_gradient(x)}};
    });
    return program.module();
  };
  auto constrained = [](Tensor v, Tensor w) { return shard(tanh(matmul(v, w)), P("tp")) * 2; };
  auto whole = [](Tensor v, Tensor w) { return shard(tanh(matmul(v, w)), P("")) * 2; };
  auto part = [](Tensor v, Tensor m) { return psum(matmul(v, m), "tp"); };
  auto region = [&](Tensor v, Tensor w) { return tanh(shard_map(part, {P("tp"), P("tp", "")}, {P("")})(v, w)); };
  auto of_tp = [&](Tensor v, Tensor w) { return tanh(shard_map(part, {P("tp"), P("tp", "")}, {P("")}, {"tp"})(v, w)); };
  auto check = [&](auto row, bool lays_out) {
    std::vector<Literal> args = random_args(*make(row, "").find("f"), 12);
    std::vector<Literal> expected = run_manual(make(row, ""), args).results;
    for (bool padded : {false, true}) {
      ir::Module m = make(row, "dp", padded);
      ManualRun got = run_manual(m, args);
      EXPECT_TRUE(ir::verify(got.flat).ok()) << to_string(ir::verify(got.flat).errors());
      expect_equal(expected, got.results);
      bool parts = print(got.local).find(": f32[4,") != std::string::npos;  // of seven rows four and three
      EXPECT_TRUE(parts || !(lays_out || padded)) << print(got.local);
    }
  };
  check(constrained, true), check(whole, true), check(region, true), check(of_tp, false);
}

// A region in a loop, with a branch that all ranks take alike, and one in it that each takes for itself.
TEST(Manual, RegionsInControlFlow) {
  auto make = [](auto f) {
    Program program;
    program.mesh("ring", {{"r", 2}});
    program.entry("f", {{"x", f32, {4, 3}}, {"w", f32, {3, 3}}}, [&](Tensor x, Tensor w) -> Outputs {
      auto loss = [&](Tensor p) {
        auto step = [&](Tensor h, Tensor) { return std::pair(f(h, p), sum(h)); };
        auto [last, sums] = scan(step, x, zeros({3}));
        return sum(last) + sum(sums);
      };
      auto [value, g] = value_and_grad(loss)(w);
      return {{"loss", value}, {"g", g}};
    });
    return program.module();
  };
  auto part = [](Tensor h, Tensor w) {
    Tensor y = tanh(matmul(h, w));
    Tensor total = psum(sum(y), "r");
    auto twice = [](Tensor a) { return a * 2; };
    auto same = [](Tensor a) { return a; };
    auto summed = [](Tensor a) { return a + psum(sum(a), "r"); };
    y = cond(total > 0, summed, twice, y);  // all ranks alike
    return cond(axis_index("r") == 0, twice, same, y);
  };
  auto whole = [](Tensor h, Tensor w) {
    Tensor y = tanh(matmul(h, w));
    auto twice = [](Tensor a) { return a * 2; };
    auto summed = [](Tensor a) { return a + sum(a); };
    y = cond(sum(y) > 0, summed, twice, y);
    return concatenate({slice(y, {0, 0}, {2, 3}) * 2, slice(y, {2, 0}, {4, 3})}, 0);
  };
  ir::Module manual = make([&](Tensor h, Tensor w) {
    return shard_map(part, {P("r", ""), P("", "")}, {P("r", "")})(h, w);
  });
  std::vector<Literal> args = random_args(*manual.find("f"), 10);
  expect_equal(run_manual(make(whole), args).results, run_manual(manual, args).results);
}

}  // namespace
}  // namespace nabla::shard_tests

// Passes over collectives: the same results with fewer bytes, fewer calls or less memory.
#include <gtest/gtest.h>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/plan.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "passes/pass_manager.h"
#include "tests/pass_options.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"
#include "tests/transforms/random_program.h"

namespace nabla::shard_tests {
namespace {

ir::Module parsed(const std::string& text) { return ir::parse_module(text, "test.nbl", ops::all_ops()).value(); }

ir::Module after(const ir::Module& m, const std::vector<std::string>& steps) {
  passes::ManagerOptions options;
  options.verify = [](const ir::Module& made) { return ir::verify(made); };
  std::vector<passes::Step> parsed_steps;
  for (const std::string& text : steps) parsed_steps.push_back(passes::parse_step(text).value());
  auto made = passes::run_passes(m, parsed_steps, ops::all_ops(), ir::Target(), options);
  if (!made.ok()) ADD_FAILURE() << to_string(made.errors());
  return made.ok() ? made->module : m;
}

int64_t count(const ir::Module& m, const std::string& op) {
  int64_t out = 0;
  for (const ir::FunctionPtr& f : m.functions)
    for (const ir::Node& n : f->nodes) out += n.op->name == op;
  return out;
}

// Every pass alone and all together on random programs; buckets so small that they are full now and then.
TEST(Collectives, PassesKeepResults) {
  const std::vector<std::vector<std::string>> kPipelines = {
      {"create-reduce-scatters"},
      {"hoist-collectives{ops=all_reduce;reduce_scatter;all_to_all;permute;all_gather}"},
      {"merge-common-subexpressions", "regather{reshard-after-forward=false}"},
      {"merge-common-subexpressions", "regather"},
      {"lower-collectives", "bucket-collectives{bucket-bytes=400,first-bucket-bytes=100}"},
      {"create-reduce-scatters", "hoist-collectives", "merge-common-subexpressions", "regather", "lower-collectives",
       "merge-common-subexpressions", "bucket-collectives"}};
  const ir::Mesh kMeshes[] = {{"pair", {{"a", 2}}, nullptr}, {"square", {{"a", 2}, {"b", 2}}, nullptr}};
  std::vector<int> changed(kPipelines.size());
  for (uint64_t seed = 1; seed <= samples(40); ++seed) {
    bool loops = seed % 2 == 0;
    ir::Module m;
    if (loops) {
      m = transforms::random_program("f", seed, 6, true);
    } else {
      transforms::add(m, transforms::random_function("h", seed, 12));
      transforms::add_wrapper(m, "f", "value_and_grad", "h", {{"wrt", ir::Ints{0, 1, 2}}});
    }
    m = transforms::flattened(m);
    m.meshes = {kMeshes[seed / 2 % 2]};
    ir::Rng rng(seed);
    m.set(std::make_shared<const ir::Function>(laid_out(*m.find("f"), m.meshes[0], rng)));
    std::vector<Literal> args = transforms::random_args(*m.find("f"), seed);
    Result<ShardedRun> plain = run_sharded(m, "f", args);
    if (!plain.ok() && plain.errors()[0].code == Code::kBadSharding)
      continue;  // random layouts may contradict each other
    ASSERT_TRUE(plain.ok()) << to_string(plain.errors());
    for (size_t k = 0; k < kPipelines.size(); ++k) {
      ir::Module made = after(plain->local, kPipelines[k]);
      changed[k] += print(made) != print(plain->local);
      auto got = run_local(plain->sharded, made, "f", args);
      ASSERT_TRUE(got.ok()) << "seed " << seed << ", pipeline " << k << to_string(got.errors()) << print(made);
      for (size_t i = 0; i < got->size(); ++i)
        EXPECT_EQ((*got)[i], plain->results[i])
            << "seed " << seed << ", pipeline " << k << print(plain->local) << print(made);
    }
  }
  for (size_t k = 3; k < kPipelines.size(); ++k) EXPECT_GT(changed[k], 0) << "pipeline " << k;
}

// A chain of layers whose batch lies along dp, and with `@dp` the weights, too. `update` makes n of w and g.
ir::Module chain(int layers, const std::string& cut, const std::string& update) {
  std::string state, reads, params, body = "  %h0 = add(%x, %x)\n", wrt;
  for (int i = 0; i < layers; ++i) {
    state += fmt::format("state w{}: f32[64{},64]\n", i, cut);
    reads += fmt::format("{}w{}", i ? ", " : "", i);
    params += fmt::format("%w{}: f32[64{},64], ", i, cut);
    wrt += fmt::format("{}{}", i ? ", " : "", i);
    body += fmt::format(
        "  %p{0} = dot_general(%h{0}, %w{0}) {{lhs_contract=[1], rhs_contract=[0]}}\n"
        "  %h{1} = tanh(%p{0})\n",
        i, i + 1);
  }
  std::string plain = params;
  for (size_t at; (at = plain.find("@dp")) != std::string::npos;) plain.erase(at, 3);
  std::string args, grads, news, results;
  for (int i = 0; i < layers; ++i) {
    args += fmt::format("%w{}, ", i);
    grads += fmt::format(", %g{}", i);
    news += "  " + fmt::format(fmt::runtime(update), i) + "\n";
    results += fmt::format("%n{}, ", i);
  }
  return parsed(fmt::format(
      "nabla 1 traced\nmesh pod = {{dp=4}}\n{}entry step calls @step {{\n reads {}\n writes {}\n inputs x\n outputs "
      "loss\n}}\n"
      "func @loss({}%x: f32[1024,64]) {{\n{}  %q = mul(%h{}, %h{})\n  %l = reduce_sum(%q) {{axes=[0, 1]}}\n  return "
      "%l\n}}\n"
      "func @step({}%x: f32[1024@dp,64]) {{\n  %loss{} = value_and_grad({}%x) {{callee=@loss, wrt=[{}]}}\n{}  return "
      "{}%loss\n}}\n",
      state, reads, reads, plain, body, layers, layers, params, grads, args, wrt, news, results));
}

ir::Module zero3(int count) { return chain(count, "@dp", "%n{0} = sub(%w{0}, %g{0})"); }

struct Lowered {
  ir::Module planned;
  int64_t arena;
};
Lowered lowered(const ir::Module& m, const std::map<std::string, OptionTexts>& options) {
  passes::PassOptions read;
  for (const auto& [pass, texts] : options) set_options(read, pass, texts);
  auto made = driver::lower_module(m, {.target = "cpu", .library = false, .pass_options = std::move(read)});
  EXPECT_TRUE(made.ok()) << to_string(made.errors());
  return {made->planned, made->planned.plan->arena_bytes};
}

// ZeRO-3: all layers but the last gather again on the way back, and no more than a few whole weights are there at a
// time.
TEST(Collectives, ParametersAreGatheredAgainForTheWayBack) {
  const int kLayers = 8;
  std::map<std::string, std::map<std::string, std::string>> off = {{"bucket-collectives", {{"bucket-bytes", "0"}}}},
                                                            keep = off;
  keep["regather"]["reshard-after-forward"] = "false";
  Lowered again = lowered(zero3(kLayers), off), once = lowered(zero3(kLayers), keep);
  EXPECT_EQ(count(once.planned, "all_gather"), kLayers);
  EXPECT_EQ(count(again.planned, "all_gather"),
            2 * kLayers - 2);  // that of the first layer is for the gradient of x alone
  EXPECT_EQ(count(again.planned, "reduce_scatter"), kLayers);
  int64_t whole = 64 * 64 * 4;
  EXPECT_LT(again.arena, once.arena - 3 * whole);
}

TEST(Collectives, BucketsJoinWhatIsSmall) {
  std::map<std::string, std::map<std::string, std::string>> off = {{"bucket-collectives", {{"bucket-bytes", "0"}}}},
                                                            all = {{"bucket-collectives", {{"bucket-bytes", "1MiB"}}}};
  all["bucket-collectives"]["first-bucket-bytes"] = "1MiB";
  Lowered many = lowered(zero3(6), off), few = lowered(zero3(6), all);
  EXPECT_EQ(count(many.planned, "reduce_scatter"), 6);
  EXPECT_EQ(count(few.planned, "reduce_scatter"), 1);
  EXPECT_EQ(count(few.planned, "all_reduce"), 1);
}

// Updates that are written as ops stand among the sums that they are of, and wait for all of them.
TEST(Collectives, UpdatesWaitForABucket) {
  std::map<std::string, std::map<std::string, std::string>> off = {{"bucket-collectives", {{"bucket-bytes", "0"}}}},
                                                            all = {{"bucket-collectives", {{"first-bucket-bytes", "1MiB"}}}};
  ir::Module whole = chain(6, "", "%u{0} = neg(%g{0})\n  %n{0} = add(%w{0}, %u{0})");
  ir::Module cut = chain(6, "@dp", "%u{0} = neg(%g{0})\n  %n{0} = add(%w{0}, %u{0})");
  EXPECT_EQ(count(lowered(whole, off).planned, "all_reduce"), 7) << "six gradients and the loss";
  EXPECT_EQ(count(lowered(whole, all).planned, "all_reduce"), 1);
  EXPECT_EQ(count(lowered(cut, all).planned, "reduce_scatter"), 1);
}

// Kernels between the start of gathers and their first readers.
int64_t nodes_under_way(const ir::Module& m) {
  int64_t out = 0;
  for (const ir::FunctionPtr& f : m.functions)
    for (size_t i = 0; i < f->nodes.size(); ++i) {
      if (f->nodes[i].op->name != "all_gather") continue;
      std::vector<ir::ValueId> is = {f->nodes[i].results[0]};  // the result, and views of it
      for (size_t k = i + 1; k < f->nodes.size(); ++k) {
        const ir::Node& n = f->nodes[k];
        bool reads = std::any_of(n.operands.begin(), n.operands.end(),
                                 [&](ir::ValueId id) { return std::find(is.begin(), is.end(), id) != is.end(); });
        if (reads && n.op->lower != ir::Lowering::kView) break;
        if (reads) is.push_back(n.results[0]);
        out += n.op->lower == ir::Lowering::kCall;
      }
    }
  return out;
}

// The weights of the next layers are gathered while a layer computes, as far as memory admits it.
TEST(Collectives, GathersStartBeforeTheyAreMet) {
  const int kLayers = 8;
  std::map<std::string, std::map<std::string, std::string>> off = {{"bucket-collectives", {{"bucket-bytes", "0"}}}}, fits = off,
                                                            more = off;
  off["schedule-collectives"]["overlap"] = "false";
  more["schedule-collectives"]["overlap-bytes"] = "64KiB";
  Lowered late = lowered(zero3(kLayers), off), same = lowered(zero3(kLayers), fits), early = lowered(zero3(kLayers), more);
  EXPECT_LE(same.arena, late.arena);
  EXPECT_LE(early.arena, late.arena + 64 * 1024);
  EXPECT_GE(nodes_under_way(same.planned), nodes_under_way(late.planned));
  EXPECT_GE(nodes_under_way(early.planned), nodes_under_way(late.planned) + kLayers);
}

// By their number instead: at every kernel that needs one the next so many have started, and the plan has room for them.
TEST(Collectives, GathersStartSoManyAhead) {
  const int kLayers = 8;
  auto ahead = [&](const char* n) {
    return lowered(zero3(kLayers), {{"bucket-collectives", {{"bucket-bytes", "0"}}}, {"schedule-collectives", {{"prefetch", n}}}});
  };
  Lowered none = ahead("0"), one = ahead("1"), three = ahead("3");
  int64_t whole = 64 * 64 * 4, gathers = count(none.planned, "all_gather");
  EXPECT_EQ(nodes_under_way(none.planned), 0);
  EXPECT_GE(nodes_under_way(one.planned), gathers - 1) << "all but the first have a kernel before them";
  EXPECT_GE(nodes_under_way(three.planned), 3 * (gathers - 3));
  EXPECT_GE(one.arena, none.arena);
  EXPECT_GE(three.arena, none.arena + whole);
}

TEST(Collectives, OnlyCollectivesLeaveLoops) {
  auto made = driver::lower_module(zero3(2), {.target = "cpu",
                                              .library = false,
                                              .pass_options = {.hoist_collectives = {.ops = {"all_reduce", "tanh"}}}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.errors()[0].message, "hoist-collectives: `tanh` is no collective");
}

}  // namespace
}  // namespace nabla::shard_tests

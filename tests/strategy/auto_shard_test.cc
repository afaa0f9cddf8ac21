// Layouts that the compiler chooses by itself: which they are, what ranks then exchange, limits, and the same numbers.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/driver/compile.h"
#include "cli/driver/spread.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/auto_shard/auto_shard.h"
#include "passes/pass_manager.h"
#include "tests/pass_options.h"
#include "tests/property/compare.h"
#include "tests/strategy/chain.h"
#include "tests/strategy/trained.h"
#include "tests/strategy/transformer.h"

namespace nabla::strategy_tests {
namespace {

using Options = std::map<std::string, std::string>;

struct Made {
  ir::Module module;
  std::string plan, remark;
  /// "tp," as the plan says it; "-" where it has no such line.
  std::string layout(const std::string& name) const {
    std::istringstream lines(plan);
    for (std::string line; std::getline(lines, line);)
      if (line.starts_with(name + "=")) return line.substr(name.size() + 1, line.find("  #") - name.size() - 1);
    return "-";
  }
};

// The pass alone, on the flat module.
Result<Made> searched(const ir::Module& m, const std::string& mesh, Options options = {}) {
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  ir::Module flat = NABLA_TRY(driver::simplify_module(NABLA_TRY(driver::with_mesh(m, {mesh}, true)), target, {}, ir::Stage::kFlat));
  options["search"] = "true";
  auto made = NABLA_TRY(passes::run_passes(flat, {{"auto-shard", options_of("auto-shard", options)}}, ops::all_ops(), target));
  return Made{made.module, passes::found_plan(made.reports)->text, made.reports[0].remarks[0].text};
}

driver::CompileOptions with_search(const std::string& mesh) {
  driver::CompileOptions out{.target = "cpu", .library = false, .jobs = 2};
  if (!mesh.empty()) out.mesh = {mesh};
  set_options(out.pass_options, "auto-shard", {{"search", "true"}});
  return out;
}

// What the search found, held against nothing else.
driver::CompileOptions as_found(const std::string& mesh) {
  driver::CompileOptions out = with_search(mesh);
  set_options(out.pass_options, "auto-shard", {{"values", "found"}});
  return out;
}

// "all_reduce{tp} f32[4,256,1024] x3", in lines: collectives of what one rank computes.
std::string collectives(const ir::Module& m, driver::CompileOptions options) {
  set_options(options.pass_options, "bucket-collectives", {{"bucket-bytes", "0"}});
  auto made = driver::lower_module(m, options);
  EXPECT_TRUE(made.ok()) << to_string(made.errors());
  if (!made.ok()) return "";
  std::map<std::string, int> count;
  for (const ir::FunctionPtr& f : made->flat.functions)
    for (const ir::Node& n : f->nodes)
      if (n.op->lower == ir::Lowering::kCollective)
        ++count[fmt::format("{}{} {}", n.op->name, ir::str(n.attrs.get_axes("axes")), f->type(n.operands[0]).str())];
  std::string out;
  for (const auto& [what, times] : count) out += fmt::format("{} x{}\n", what, times);
  return out;
}

// Of a run of every entry, as the timeline has it.
double us_of(const ir::Module& m, const driver::CompileOptions& options) {
  auto made = driver::lower_module(m, options);
  EXPECT_TRUE(made.ok()) << to_string(made.errors());
  if (!made.ok()) return 0;
  const auto report = nlohmann::json::parse(made->report);
  double out = 0;
  for (const auto& e : report["entries"]) out += e["timeline"]["us"].get<double>();
  return out;
}

// As large as makes ranks share every product, and exchange activations rather than weights.
const TransformerSizes kWide{.layers = 2, .batch = 4, .length = 256, .width = 1024, .heads = 16};
// So small that each exchange takes the time of its messages, and gradients are many.
const TransformerSizes kNarrow{.layers = 2, .batch = 8, .length = 64, .width = 32, .heads = 4, .momentum = true};

// Shoeybi et al., "Megatron-LM", 2019: columns of the first weights, rows of the second, heads.
void expect_megatron(const Made& made, int layers) {
  for (int i = 0; i < layers; ++i) {
    auto of = [&](const char* leaf) { return made.layout(fmt::format("block{}\\.{}", i, leaf)); };
    for (const char* leaf : {"q", "k", "v", "up"}) EXPECT_EQ(of(leaf), ",tp") << leaf << i << made.plan;
    for (const char* leaf : {"out", "down"}) EXPECT_EQ(of(leaf), "tp,") << leaf << i << made.plan;
    for (const char* leaf : {"norm1", "norm2"}) EXPECT_EQ(of(leaf), "") << leaf << i << made.plan;
  }
}

TEST(AutoShard, FindsMegatronsLayouts) {
  Made made = searched(transformer(kWide), "tp=4").value();
  expect_megatron(made, kWide.layers);
  EXPECT_EQ(made.layout("input step\\.x"), ",,");
  // One all_reduce per half of a block forward and one backward, but for the input's gradient, which nobody asked for: of
  // it a sum of [1024] is left, that of the first norm's weights.
  EXPECT_EQ(collectives(transformer(kWide), with_search("tp=4")), "all_reduce{tp} f32[1024] x1\nall_reduce{tp} f32[4,256,1024] x7\n");
}

// One leaf of queries, keys and values. Layouts cut into blocks: those of a head have to lie together.
TEST(AutoShard, PackedWeightsOfAHeadLieTogether) {
  auto exchange = [](const Made& m) { return std::stod(m.plan.substr(m.plan.find("exchanges ") + 10)); };
  TransformerSizes sizes = kWide;
  sizes.packed = TransformerSizes::Packed::kByHeads;
  Made heads = searched(transformer(sizes), "tp=4").value();
  for (int i = 0; i < sizes.layers; ++i) {
    EXPECT_EQ(heads.layout(fmt::format("block{}\\.qkv", i)), ",tp") << heads.plan;
    EXPECT_EQ(heads.layout(fmt::format("block{}\\.out", i)), "tp,") << heads.plan;
  }
  std::string sent = collectives(transformer(sizes), with_search("tp=4"));
  EXPECT_NE(sent.find("all_reduce{tp} f32[4,256,1024] x7\n"), std::string::npos) << sent;
  EXPECT_EQ(sent.find("all_to_all"), std::string::npos) << sent;
  sizes.packed = TransformerSizes::Packed::kByKinds;
  EXPECT_GT(exchange(searched(transformer(sizes), "tp=4").value()), 1.1 * exchange(heads));
}

TEST(AutoShard, LayersThatAreEqualLieEqually) {
  TransformerSizes deep = kWide;
  deep.layers = 12;
  Made two = searched(transformer(kWide), "tp=4").value(), made = searched(transformer(deep), "tp=4").value();
  expect_megatron(made, deep.layers);
  // "679 choices in 94 classes": the layers in the middle are one.
  auto classes = [](const Made& m) { return std::stoi(m.remark.substr(m.remark.find(" choices in ") + 12)); };
  EXPECT_LE(classes(made), 2 * classes(two)) << made.remark << "\n" << two.remark;
  EXPECT_EQ(searched(transformer(deep), "tp=4").value().plan, made.plan);
}

// Tokens are many enough that ranks along dp exchange gradients rather than activations.
TEST(AutoShard, FindsTheBatchAndMegatronsLayouts) {
  TransformerSizes sizes = kWide;
  sizes.batch = 8, sizes.length = 384;
  Made made = searched(transformer(sizes), "dp=2,tp=2").value();
  expect_megatron(made, sizes.layers);
  EXPECT_EQ(made.layout("input step\\.x"), "dp,,");
  sizes.batch = 32, sizes.length = 512;
  made = searched(transformer(sizes), "dp=4").value();
  EXPECT_EQ(made.layout("input step\\.x"), "dp,,") << made.plan;
  EXPECT_EQ(made.layout("block0\\.up"), ",") << made.plan;
}

TEST(AutoShard, GivesExpertsToRanks) {
  Made made = searched(mixture_of_experts(8), "ep=4").value();
  EXPECT_EQ(made.layout("up"), "ep,,") << made.plan;
  EXPECT_EQ(made.layout("down"), "ep,,") << made.plan;
  EXPECT_EQ(made.layout("router"), ",") << made.plan;
}

// ---- What is said stays

TEST(AutoShard, KeepsWhatIsSaid) {
  ir::Module m = driver::with_mesh(transformer(kWide), {"dp=2,tp=2"}, true).value();
  for (ir::StateLeaf& leaf : m.state) {
    ir::Sharding rows{{{{{"tp"}}}, {}}, {}}, columns{{{{}, true}, {{{"tp"}}, true}}, {{"dp"}}};
    if (leaf.name == "block0.up") leaf.sharding = std::make_shared<const ir::Sharding>(rows);
    if (leaf.name == "block0.down") leaf.sharding = std::make_shared<const ir::Sharding>(columns);
  }
  Made made = searched(m, "dp=2,tp=2").value();
  EXPECT_EQ(made.module.state[static_cast<size_t>(m.find_state("block0.up"))].sharding->str(), "<tp, {}>");
  EXPECT_EQ(made.module.state[static_cast<size_t>(m.find_state("block0.down"))].sharding->str(), "<{}, tp> replicated {dp}");
  // What rules can say is one, so that a plan that was made of another holds all of it.
  EXPECT_NE(made.plan.find("\nblock0\\.up=tp,  # as it is said\n"), std::string::npos) << made.plan;
  EXPECT_NE(made.plan.find("# block0\\.down stays as it is said: <{}, tp> replicated {dp}\n"), std::string::npos) << made.plan;
  // Options come first as well: the batch, and the optimizer's state of ZeRO.
  TransformerSizes sizes{.layers = 1, .momentum = true};
  driver::CompileOptions options = with_search("dp=2,tp=2");
  set_options(options.pass_options, "apply-strategy", {{"data-axes", "dp"}, {"zero", "1"}, {"layouts", "block0.up=tp,"}});
  ir::Module sharded = *driver::lower_module(transformer(sizes), options).value().sharded;
  EXPECT_EQ(sharded.state[static_cast<size_t>(sharded.find_state("block0.up"))].sharding->str(), "<tp, {?}>");
  EXPECT_EQ(ir::axes_of(*sharded.state[static_cast<size_t>(sharded.find_state("momentum.block0.down"))].sharding)[0].name, "dp");
}

// `reverse` takes no axis on along a dimension that it turns: that %u lies as w does, the rule alone says.
TEST(AutoShard, KeepsRulesOfLayouts) {
  Result<ir::Module> m = ir::parse_module(R"(nabla 1 traced
mesh m = {tp=4}
state w: f32[512@{},2048@tp]
state v: f32[512,2048]
entry step calls @f {
  reads w, v
  inputs x
  outputs y
}
func @f(%w: f32[512,2048], %v: f32[512,2048], %x: f32[256,512]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %r = reverse(%v) {axes=[0, 1]}
  %u = shard_by_rule(%r, %w) {rule="k n -> k n"}
  %g = dot_general(%x, %u) {lhs_contract=[1], rhs_contract=[0]}
  %y = mul(%h, %g)
  return %y
}
)",
                                         "rule.nbl", ops::all_ops());
  ASSERT_TRUE(m.ok()) << to_string(m.errors());
  ir::Module sharded = *driver::lower_module(*m, as_found("")).value().sharded;
  const ir::Function& f = *sharded.find("f");
  for (size_t v = 0; v < f.values.size(); ++v)
    if (f.values[v].name == "u") {
      EXPECT_EQ(f.values[v].sharding->str(), "<{?}, tp>");
    }
}

// ---- What counts

TEST(AutoShard, EntriesThatMakeTheStateCountLittle) {
  ir::Module m = transformer({.layers = 1});
  ASSERT_EQ(m.entries.size(), 1u);
  EXPECT_EQ(passes::weight_of(m, m.entries[0]), 1);
  ir::Entry init = m.entries[0];
  init.name = "init", init.reads.clear();
  m.entries.push_back(init);
  EXPECT_EQ(passes::weight_of(m, m.entries[0]), 1);
  EXPECT_EQ(passes::weight_of(m, m.entries[1]), 1e-3);
  ir::Entry measures = init;
  measures.writes.clear();
  EXPECT_EQ(passes::weight_of(m, measures), 1) << "an entry without state may run as often as others";
  m.entries = {init};
  EXPECT_EQ(passes::weight_of(m, init), 1) << "nothing goes on from it";
}

// ---- Limits

TEST(AutoShard, KeepsTheLimitOfMemory) {
  TransformerSizes sizes = kWide;
  sizes.batch = 32, sizes.length = 512;
  // Data parallel is the quickest, with all of the state on every rank: 24 MiB of weights per block.
  const double state = 2 * (12.0 * 1024 * 1024 + 2 * 1024) * 4;
  auto bytes = [](const Made& m) {
    double out = 0;
    for (const ir::StateLeaf& leaf : m.module.state) {
      double parts = 1;
      for (const ir::DimSharding& d : leaf.sharding->dims) parts *= static_cast<double>(ir::shards(*m.module.mesh(), d.axes));
      out += static_cast<double>(leaf.type.bytes().value()) / parts;
    }
    return out;
  };
  EXPECT_EQ(bytes(searched(transformer(sizes), "dp=4").value()), state);
  Made half = searched(transformer(sizes), "dp=4", {{"max-bytes", fmt::format("{:.0f}", state / 2)}}).value();
  EXPECT_LE(bytes(half), state / 2) << half.plan;
  Made least = searched(transformer(sizes), "dp=4", {{"max-bytes", fmt::format("{:.0f}", state / 4)}}).value();
  EXPECT_EQ(bytes(least), state / 4) << least.plan;
  auto none = searched(transformer(sizes), "dp=4", {{"max-bytes", "1000000"}});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.errors()[0].code, Code::kOverBudget);
  EXPECT_EQ(none.errors()[0].message,
            "auto-shard: the state takes 25169920 bytes on a rank at least, of 100679680 in all, and at most 1000000 are allowed");
  EXPECT_EQ(none.errors()[0].notes[0], "block0.up takes 4194304 bytes on a rank at least");
}

TEST(AutoShard, RefusesWhatItCannotSearch) {
  ir::Target target = ir::find_target("cpu").value();
  auto message = [&](const ir::Module& m, const Options& options) {
    ir::Module flat = driver::simplify_module(m, target, {}, ir::Stage::kFlat).value();
    auto made = passes::run_passes(flat, {{"auto-shard", options_of("auto-shard", options)}}, ops::all_ops(), target);
    return made.ok() ? "ok" : made.errors()[0].message;
  };
  EXPECT_EQ(message(transformer({}), {{"search", "true"}}), "--auto-shard: the module has no mesh over which it could be laid out");
  EXPECT_EQ(message(transformer({}), {{"search", "false"}}), "ok");
  EXPECT_EQ(message(driver::with_mesh(transformer({}), {"a=2"}, true).value(),
                    {{"search", "true"}, {"max-bytes", "1MB"}, {"max-memory", "1MB"}}),
            "auto-shard: max-bytes and max-memory are given, and the latter counts the state, too");
  const ir::Module four = driver::with_mesh(transformer({}), {"a=2,b=2,c=2,d=2"}, true).value();
  EXPECT_EQ(message(four, {{"search", "true"}}),
            "--auto-shard: layouts are searched along 3 axes at most; mesh ranks has 4 of more than one rank");
  ir::Module flat = driver::simplify_module(four, target, {}, ir::Stage::kFlat).value();
  EXPECT_EQ(passes::run_passes(flat, {{"auto-shard", {.auto_shard = {.search = true}}}}, ops::all_ops(), target).errors()[0].help,
            "give a mesh with fewer, such as --mesh dp=2,tp=4");
}

// The values in the middle lie as the search found, or as propagation makes of the leaves and inputs, or all is data parallel: whatever
// takes less time.
TEST(AutoShard, TakesTheQuickerOfItsValuesAndThoseOfPropagation) {
  auto us = [](const ir::Module& m, const std::string& mesh, const std::string& values) {
    driver::CompileOptions options = with_search(mesh);
    if (!values.empty()) set_options(options.pass_options, "auto-shard", {{"values", values}});
    return us_of(m, options);
  };
  bool differ = false;
  TransformerSizes packed{.layers = 1, .batch = 4, .length = 64, .packed = TransformerSizes::Packed::kByKinds};
  TransformerSizes long_ones{.batch = 8, .length = 128, .width = 256};
  for (const ir::Module& m : {transformer(packed), transformer(long_ones), transformer(kNarrow), mixture_of_experts(8), looked_up()})
    for (const char* mesh : {"dp=2,tp=2", "tp=4"}) {
      double found = us(m, mesh, "found"), propagated = us(m, mesh, "propagated");
      EXPECT_LE(us(m, mesh, ""), std::min(found, propagated)) << mesh;
      differ = differ || found != propagated;
    }
  EXPECT_TRUE(differ);
}

// What it takes to compare programs is their lowering, not another search.
TEST(AutoShard, SearchesOnceForAllProgramsThatItCompares) {
  driver::CompileOptions options = with_search("dp=2,tp=2");
  int searches = 0, programs = 0;
  options.passes.print_after = {"auto-shard", "plan-memory"};
  options.passes.print = [&](const passes::Pass& pass, const ir::Module&, bool changed) {
    searches += pass.name == "auto-shard" && changed;
    programs += pass.name == "plan-memory";
  };
  auto made = driver::lower_module(transformer({}), options);
  ASSERT_TRUE(made.ok()) << to_string(made.errors());
  EXPECT_EQ(searches, 1);
  EXPECT_GT(programs, 1);
}

// ---- The batch along all ranks, which is quicker where many small gradients are exchanged as one

driver::CompileOptions with_strategy(const std::string& mesh, const std::string& axes, const std::string& zero) {
  driver::CompileOptions out{.target = "cpu", .library = false, .jobs = 2};
  out.mesh = {mesh};
  set_options(out.pass_options, "apply-strategy", {{"data-axes", axes}, {"zero", zero}});
  return out;
}
std::string remarks_of(const driver::CompiledModule& m) {
  std::string out;
  for (const ir::Remark& r : passes::remarks_of(m.passes)) out += r.text + "\n";
  return out;
}

// By more than a tenth, within which predictions do not decide.
TEST(AutoShard, IsNoSlowerThanDataParallel) {
  for (const ir::Module& m : {transformer(kNarrow), transformer(kWide), mixture_of_experts(8), chain("dp=4")}) {
    const std::string mesh = m.mesh() ? "" : "dp=4";
    driver::CompileOptions search = with_search(mesh);
    const double us = us_of(m, search);
    for (const char* zero : {"0", "1", "2", "3"}) {
      driver::CompileOptions plain = with_strategy("dp=4", "dp", zero);
      EXPECT_LE(us * 0.9, us_of(m, plain)) << "zero " << zero;
    }
  }
}

// Of 6 ranks those along tp can share a batch of 8.
TEST(AutoShard, IsDataParallelAlongTheAxesThatDivideTheBatch) {
  const ir::Module narrow = transformer(kNarrow);
  for (const auto& [mesh, axes] : {std::pair("dp=3,tp=2", "tp"), std::pair("dp=2,tp=2", "dp,tp")})
    EXPECT_LE(us_of(narrow, with_search(mesh)) * 0.9, us_of(narrow, with_strategy(mesh, axes, "1"))) << mesh;
}

// Other meshes have other layouts, and with them other parts of sums.
TEST(AutoShard, SaysWhatDeterministicMeansBesideIt) {
  driver::CompileOptions options = with_search("dp=2");
  options.deterministic = true;
  const std::string remarks = remarks_of(driver::lower_module(transformer(kNarrow), options).value());
  EXPECT_NE(remarks.find("auto-shard: bits are those of these layouts: "), std::string::npos) << remarks;
}

TEST(AutoShard, SaysThatItIsDataParallel) {
  driver::CompiledModule made = driver::lower_module(transformer(kNarrow), with_search("dp=4")).value();
  EXPECT_NE(remarks_of(made).find("auto-shard: data parallel, as with --data-axes dp --zero 1: "), std::string::npos) << remarks_of(made);
  std::string plan = passes::found_plan(made.passes)->text, rules;
  EXPECT_TRUE(plan.starts_with("# mesh ranks = {dp=4}, 4 ranks\n# data parallel, as with --data-axes dp --zero 1: ")) << plan;
  EXPECT_NE(plan.find("\nblock0\\.up=,  # 16384 bytes on a rank\n"), std::string::npos) << plan;
  EXPECT_NE(plan.find("\nmomentum\\.block0\\.up=dp p1,  # 4096 bytes on a rank\n"), std::string::npos) << plan;
  EXPECT_NE(plan.find("\ninput step\\.x=dp,,  # an input\n"), std::string::npos) << plan;
  EXPECT_EQ(ir::print(made.flat), ir::print(driver::lower_module(transformer(kNarrow), with_strategy("dp=4", "dp", "1"))->flat));
  // Its rules lay out the same program.
  std::istringstream lines(plan);
  for (std::string line; std::getline(lines, line);)
    if (!line.starts_with("#")) rules += (rules.empty() ? "" : ";") + line.substr(0, line.find("  #"));
  driver::CompileOptions again{.target = "cpu", .library = false, .jobs = 2};
  again.mesh = {"dp=4"};
  set_options(again.pass_options, "apply-strategy", {{"layouts", rules}});
  EXPECT_EQ(collectives(transformer(kNarrow), again), collectives(transformer(kNarrow), with_strategy("dp=4", "dp", "1"))) << rules;
}

// What is said stays: the batch lies along the axes of which nothing is said, and where it is laid out already nothing is compared.
TEST(AutoShard, IsDataParallelBesideWhatIsSaid) {
  driver::CompileOptions options = with_search("dp=2,tp=2");
  set_options(options.pass_options, "apply-strategy", {{"layouts", "block0.up=,tp;block0.down=tp,"}});
  driver::CompiledModule made = driver::lower_module(transformer(kNarrow), options).value();
  EXPECT_EQ(remarks_of(made).find("--data-axes dp,tp"), std::string::npos) << remarks_of(made);
  const ir::StateLeaf& up = made.sharded->state[static_cast<size_t>(made.sharded->find_state("block0.up"))];
  EXPECT_TRUE(up.sharding->str().ends_with(", tp>")) << up.sharding->str();
  options.pass_options.apply_strategy = {.data_axes = {"dp"}};
  EXPECT_EQ(remarks_of(driver::lower_module(transformer(kNarrow), options).value()).find("data parallel"), std::string::npos);
}

TEST(AutoShard, IsDataParallelWithinTheLimits) {
  double state = 0;
  for (const ir::StateLeaf& leaf : transformer(kNarrow).state) state += static_cast<double>(leaf.type.bytes().value());
  driver::CompileOptions options = with_search("dp=4");
  set_options(options.pass_options, "auto-shard", {{"max-bytes", fmt::format("{:.0f}", state / 3)}});
  driver::CompiledModule made = driver::lower_module(transformer(kNarrow), options).value();
  EXPECT_LE(static_cast<double>(made.planned.plan->state_bytes), state / 3);
  options = with_search("dp=4");
  const int64_t most = driver::lower_module(transformer(kNarrow), with_strategy("dp=4", "dp", "3"))->planned.plan->arena_bytes;
  options.max_bytes = {most};
  auto within = driver::lower_module(transformer(kNarrow), options);
  ASSERT_TRUE(within.ok()) << to_string(within.errors());
  EXPECT_LE(within->planned.plan->arena_bytes, most);
}

// ---- The plan as a text

// The words for what lies as it is used cost nothing; those of others say what they would.
TEST(AutoShard, ExplainsItsPlan) {
  Made made = searched(mixture_of_experts(8), "ep=4").value();
  EXPECT_EQ(made.plan, R"(# mesh ranks = {ep=4}, 4 ranks
# a run of every entry: exchanges 10.2 us, products 23.8 us; 66560 bytes of state on a rank, of 263168 bytes
# all_gather along {ep} of 2048 bytes for dot_general at tests/strategy/transformer.cc:97
# all_gather along {ep} of 8192 bytes for dot_general at tests/strategy/transformer.cc:97
# all_to_all along {ep} of 4096 bytes for dot_general at tests/strategy/transformer.cc:97
down=ep,,  # 32768 bytes on a rank; `,,` costs 4.8 us more
router=,  # 1024 bytes on a rank; `ep,` costs 8.13 us more
up=ep,,  # 32768 bytes on a rank; `,,` costs 4.7 us more
input step\.x=,  # an input; `ep,` costs 16.2 us more
)");
  EXPECT_EQ(searched(mixture_of_experts(8), "ep=4").value().plan, made.plan);
}

// Read as rules, the plan lays out leaves and inputs; the search then finds the rest as before.
TEST(AutoShard, PlansAreRules) {
  for (const char* mesh : {"dp=2,tp=2", "tp=4"}) {
    TransformerSizes sizes = kWide;
    sizes.batch = 8, sizes.length = 384;
    driver::CompileOptions options = with_search(mesh);
    driver::CompiledModule first = driver::lower_module(transformer(sizes), options).value();
    std::string rules;
    std::istringstream lines(passes::found_plan(first.passes)->text);
    for (std::string line; std::getline(lines, line);)
      if (!line.starts_with("#")) rules += (rules.empty() ? "" : ";") + line.substr(0, line.find("  #"));
    set_options(options.pass_options, "apply-strategy", {{"layouts", rules}});
    EXPECT_EQ(ir::print(driver::lower_module(transformer(sizes), options).value().flat), ir::print(first.flat)) << rules;
    options.pass_options.auto_shard = {};
    ir::Module without = *driver::lower_module(transformer(sizes), options).value().sharded;
    for (size_t i = 0; i < without.state.size(); ++i)
      EXPECT_EQ(without.state[i].sharding ? without.state[i].sharding->str() : "",
                first.sharded->state[i].sharding ? first.sharded->state[i].sharding->str() : "");
  }
}

// Megatron's layouts for every microbatch, each of which exchanges its activations; and the batch along the ranks, whose gradients
// are exchanged once.
TEST(AutoShard, LaysOutMicrobatches) {
  driver::CompileOptions options = with_search("tp=4");
  options.microbatches = 2;
  EXPECT_EQ(collectives(transformer(kWide), options), "all_reduce{tp} f32[1024] x1\nall_reduce{tp} f32[2,256,1024] x7\n");
  TransformerSizes sizes = kWide;
  sizes.layers = 1, sizes.batch = 32, sizes.length = 512, sizes.width = 256, sizes.heads = 4;
  options.mesh = {"dp=4"};
  driver::CompiledModule made = driver::lower_module(transformer(sizes), options).value();
  const ir::Entry& e = made.sharded->entries[0];
  const ir::Function& f = *made.sharded->find(e.function);
  EXPECT_EQ(f.values[f.params[e.reads.size()]].sharding->dims[0].str(), "{dp, mb}");
  for (const ir::FunctionPtr& g : made.flat.functions)
    for (const ir::Node& n : g->nodes)
      EXPECT_TRUE(n.op->lower != ir::Lowering::kCollective || g->name == e.function) << n.op->name << " in " << g->name;
}

// ---- All memory of a rank

TEST(AutoShard, LeavesRoomForTheActivations) {
  TransformerSizes sizes = kWide;
  sizes.batch = 16;
  auto lowered = [&](std::optional<passes::Bytes> most) {
    driver::CompileOptions options = as_found("dp=4");
    options.max_bytes = most;
    return driver::lower_module(transformer(sizes), options);
  };
  auto plan = [](const driver::CompiledModule& m) { return *m.planned.plan; };
  ir::MemoryPlan free = plan(*lowered(std::nullopt));
  ASSERT_GT(free.arena_bytes, free.state_bytes + free.state_bytes / 4);
  // The state alone would keep the limit: one search would choose the same.
  int64_t most = free.arena_bytes - free.state_bytes / 4;
  auto made = lowered(passes::Bytes{most});
  ASSERT_TRUE(made.ok()) << to_string(made.errors());
  EXPECT_LE(plan(*made).arena_bytes, most);
  EXPECT_LT(plan(*made).state_bytes, free.state_bytes);
  std::string remarks;
  for (const ir::Remark& r : passes::remarks_of(made->passes)) remarks += r.text + "\n";
  EXPECT_NE(remarks.find(" searches until state and temporaries took "), std::string::npos) << remarks;
  // No layouts of the state make room for what is left.
  auto none = lowered(passes::Bytes{free.state_bytes / 3});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.errors()[0].code, Code::kOverBudget);
  EXPECT_TRUE(none.errors()[0].message.starts_with(
      fmt::format("auto-shard: no layouts were found that need {} bytes on a rank; the last ones need ", free.state_bytes / 3)))
      << to_string(none.errors());
}

// ---- The same numbers

void expect_same(const ir::Module& m, const std::vector<driver::CompileOptions>& cases) {
  ir::Module one = m;
  one.meshes.clear();
  std::vector<Literal> expected = trained(one, {.target = "cpu", .library = false, .jobs = 2});
  ASSERT_EQ(expected.size(), 3u);
  for (const driver::CompileOptions& options : cases) {
    auto text = property::difference(expected, trained(m, options), property::Tolerance{.relative = 1e-5, .least_scale = 1});
    EXPECT_FALSE(text) << (options.mesh.empty() ? "" : options.mesh[0]) << ": " << *text;
  }
}

TEST(AutoShardRuns, Transformers) {
  driver::CompileOptions zero = with_search("dp=2,tp=2");
  set_options(zero.pass_options, "apply-strategy", {{"data-axes", "dp"}, {"zero", "3"}});
  expect_same(transformer({.layers = 2, .momentum = true}), {with_search("tp=4"), with_search("dp=2,tp=2"), zero});
}
TEST(AutoShardRuns, Experts) { expect_same(mixture_of_experts(8), {with_search("ep=4"), with_search("dp=2,ep=2")}); }
// A table of which each rank keeps a part, its gradient, and what an optimizer remembers of it.
TEST(AutoShardRuns, Tables) {
  driver::CompileOptions options = with_search("dp=2,tp=2");
  set_options(options.pass_options, "auto-shard", {{"max-bytes", fmt::format("{}", 2 * (32 * 64 + 64 * 64) * 4 / 4)}});
  expect_same(looked_up(), {with_search("tp=4"), options});
}
TEST(AutoShardRuns, Chains) { expect_same(chain("dp=2, tp=2", Update::kClipped), {with_search("")}); }

// Layers that a loop runs, and microbatches.
TEST(AutoShardRuns, Loops) {
  expect_same(stacked("dp=2, tp=2"), {with_search("")});
  driver::CompileOptions options = with_search("");
  set_options(options.pass_options, "apply-strategy", {{"data-axes", "dp,mb"}});
  expect_same(stacked("dp=2, tp=2, mb=4 temporal"), {options});
  expect_same(chain("dp=2, tp=2, mb=4 temporal"), {options});
}

// Nobody says along which ranks the batch lies: the search does, and microbatches cut it further.
TEST(AutoShardRuns, Microbatches) {
  TransformerSizes sizes = {.layers = 2, .momentum = true};
  driver::CompileOptions four = with_search("dp=2,tp=2");
  four.microbatches = 2;
  driver::CompileOptions ranks = with_search("tp=4");
  ranks.microbatches = 2;
  expect_same(transformer(sizes), {four, ranks});
}

// Parameters that a limit spreads over the ranks are gathered where they are used.
TEST(AutoShardRuns, UnderALimit) {
  ir::Module m = chain("dp=4");
  driver::CompileOptions options = with_search("");
  set_options(options.pass_options, "auto-shard", {{"max-bytes", fmt::format("{}", 2 * kElements * kF32 / 4)}});
  expect_same(m, {options});
}

}  // namespace
}  // namespace nabla::strategy_tests

#include "passes/pass_manager.h"

#include <gtest/gtest.h>

#include <set>

#include "ir/builder.h"
#include "ir/ops/all_ops.h"
#include "passes/pipeline.h"

namespace nabla::passes {
namespace {

using ir::FunctionBuilder;
using ir::Module;
using ir::Val;

ir::Target target() {
  ir::Target t;
  t.name = "cpu";
  return t;
}

// @f(x) = x - 0 and a node that nobody uses, at `stage`.
Module module(ir::Stage stage = ir::Stage::kFlat) {
  FunctionBuilder b("f", ops::all_ops());
  Val x = b.param("x", {DType::kF32, {3}});
  x* x;
  Module m;
  m.stage = stage;
  m.set(std::make_shared<const ir::Function>(b.finish({x - b.like(x, 0)})));
  return m;
}

// Its gradient asks for the derivative of an optimizer step.
Module not_differentiable() {
  Module m;
  FunctionBuilder b("f", ops::all_ops());
  const ir::OpDef& op = ops::all_ops().get("sgd_update");
  std::vector<Val> operands;
  for (const ir::Operand& o : op.examples[0].operands)
    operands.push_back(b.param(fmt::format("p{}", operands.size()), o.type));
  Val y = b.add("sgd_update", operands, op.examples[0].attrs)[0];
  m.set(std::make_shared<const ir::Function>(b.finish({reduce_sum(y, ir::iota_ints(y.rank()))})));
  FunctionBuilder g("g", ops::all_ops(), &m);
  std::vector<Val> args;
  for (ir::ValueId id : m.find("f")->params)
    args.push_back(g.param(m.find("f")->values[id].name, m.find("f")->type(id)));
  m.set(std::make_shared<const ir::Function>(
      g.finish(g.add("grad", args, {{"callee", ir::FunctionRef{"f"}}, {"wrt", ir::Ints{0}}}))));
  return m;
}

Result<ManagerResult> run(const Module& m, std::vector<Step> steps, const ManagerOptions& options = {}) {
  return run_passes(m, steps, ops::all_ops(), target(), options);
}

Diagnostic failure(const Module& m, std::vector<Step> steps, const ManagerOptions& options = {}) {
  auto out = run(m, std::move(steps), options);
  EXPECT_FALSE(out.ok());
  return out.ok() ? Diagnostic{} : out.errors()[0];
}

TEST(PassManager, RunsTheStepsInOrderAndReportsEach) {
  auto out = run(module(), {{"eliminate-dead-code"}, {"eliminate-dead-code"}, {"canonicalize"}});
  ASSERT_TRUE(out.ok()) << to_string(out.errors());
  ASSERT_EQ(out->reports.size(), 3u);
  EXPECT_EQ(out->reports[2].pass, "canonicalize");
  EXPECT_TRUE(out->reports[0].changed);
  EXPECT_FALSE(out->reports[1].changed);
  EXPECT_GE(out->reports[0].seconds, 0);
  EXPECT_TRUE(out->module.find("f")->nodes.empty());
}

TEST(PassManager, NamesTheNearestPassAndSaysWhenThereAreNoOptions) {
  EXPECT_EQ(failure(module(), {{"canonicalise"}}).code, Code::kUnknownPass);
  EXPECT_NE(failure(module(), {{"canonicalise"}}).message.find("did you mean `canonicalize`?"), std::string::npos);
  Diagnostic option = parse_step("canonicalize{depth=3}").errors()[0];
  EXPECT_EQ(option.code, Code::kUnknownPass);
  EXPECT_EQ(option.message, "pass `canonicalize` has no option `depth`; it has none");
}

TEST(PassManager, ChecksNamesBeforeItRunsAnything) {
  int verified = 0;
  ManagerOptions options;
  options.verify = [&](const Module&) -> Status { return ++verified, Ok{}; };
  options.stop_after = "fuse-all";
  EXPECT_EQ(failure(module(), {{"canonicalize"}}, options).code, Code::kUnknownPass);
  options.stop_after = "inline-calls";
  EXPECT_EQ(failure(module(), {{"canonicalize"}}, options).message,
            "stop-after: pass `inline-calls` does not run here");
  options.stop_after = "";
  options.print_after = {"cse"};
  EXPECT_EQ(failure(module(), {{"canonicalize"}}, options).code, Code::kUnknownPass);
  EXPECT_EQ(verified, 0);
}

TEST(PassManager, RefusesAPassThatComesTooEarlyOrTooLate) {
  EXPECT_EQ(failure(module(ir::Stage::kTraced), {{"canonicalize"}}).message,
            "pass `canonicalize` needs a module at stage flat, got traced");
  EXPECT_EQ(failure(module(), {{"lower-transforms"}}).code, Code::kWrongStage);
  EXPECT_EQ(failure(module(), {{"prepare"}}).help, "`partition` brings modules there: run it before");
  EXPECT_EQ(failure(module(ir::Stage::kKernels), {{"canonicalize"}}).code, Code::kWrongStage);
}

TEST(PassManager, ChecksTheOrderBeforeItRunsAnything) {
  int verified = 0;
  ManagerOptions options;
  options.verify = [&](const Module&) -> Status { return ++verified, Ok{}; };
  EXPECT_EQ(failure(module(), {{"propagate"}, {"propagate"}}, options).message,
            "pass `propagate` comes too late: it brings modules to stage sharded, and this one is at stage sharded "
            "already");
  EXPECT_EQ(verified, 0);
  options.stop_after = "propagate";
  EXPECT_TRUE(run(module(), {{"propagate"}, {"propagate"}}, options).ok());
}

TEST(PassManager, VerifiesTheInputAndTheResultOfEveryPass) {
  int verified = 0, fail_at = -1;
  ManagerOptions options;
  options.verify = [&](const Module&) -> Status {
    if (verified++ == fail_at) return error(Code::kInvalidModule, "broken");
    return Ok{};
  };
  std::string command;
  options.reproduce = [&](const Module& before, const std::string& c) {
    command = c;
    EXPECT_EQ(before.find("f")->nodes.size(), 3u) << "the module before the failing pass";
  };
  ASSERT_TRUE(run(module(), {{"eliminate-dead-code"}, {"canonicalize"}}, options).ok());
  EXPECT_EQ(verified, 3);
  verified = 0, fail_at = 2;
  Diagnostic d = failure(module(), {{"eliminate-dead-code"}, {"canonicalize"}}, options);
  EXPECT_EQ(d.code, Code::kInvalidModule);
  EXPECT_EQ(d.notes.back(), "after pass `canonicalize`, which made it");
  EXPECT_EQ(d.help, "this is a bug in Nabla, not in your program: report the reproducer");
  EXPECT_EQ(command, "nablac opt '--target=cpu' '--pass=canonicalize' FILE");
}

TEST(PassManager, AMistakeOfTheUsersIsADiagnosticWithoutAReproducer) {
  ManagerOptions options;
  options.reproduce = [&](const Module&, const std::string& command) { ADD_FAILURE() << command; };
  Diagnostic d = failure(not_differentiable(), default_steps(ir::Stage::kTraced), options);
  EXPECT_EQ(d.code, Code::kNotDifferentiable);
  EXPECT_EQ(d.notes.back(), "in pass `lower-transforms`");
}

TEST(PassManager, AFailedCheckHandsOverAReproducerBeforeItAborts) {
  ManagerOptions options;
  options.reproduce = [&](const Module& before, const std::string& command) {
    std::fprintf(stderr, "%zu nodes: %s\n", before.find("f")->nodes.size(), command.c_str());
  };
  options.verify = [n = 0](const Module&) mutable -> Status {
    NABLA_CHECK(n++ < 2, "three times");  // before the first pass, after the first, after the second
    return Ok{};
  };
  const std::vector<Step> steps = {{"eliminate-dead-code"}, {"canonicalize"}};
  EXPECT_DEATH((void)run(module(), steps, options),
               "internal check failed: n\\+\\+ < 2: three times(.|\n)*"
               "3 nodes: nablac opt '--target=cpu' '--pass=canonicalize' FILE");
}

TEST(PassManager, PrintsAfterThePassesThatWereAskedFor) {
  std::vector<std::string> printed;
  auto passes = [&](auto set) {
    ManagerOptions options;
    options.print = [&](const Pass& p, const Module&, bool changed) {
      printed.push_back(p.name + (changed ? "!" : ""));
    };
    set(options);
    printed.clear();
    const std::vector<Step> steps = {{"fold-constants"}, {"canonicalize"}, {"eliminate-dead-code"}};
    EXPECT_TRUE(run(module(), steps, options).ok());
    return printed;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(passes([](ManagerOptions&) {}), Names{});
  EXPECT_EQ(passes([](ManagerOptions& o) { o.print_after_all = true; }),
            (Names{"fold-constants", "canonicalize!", "eliminate-dead-code"}));
  EXPECT_EQ(passes([](ManagerOptions& o) { o.print_changed = true; }), Names{"canonicalize!"});
  EXPECT_EQ(passes([](ManagerOptions& o) { o.print_after = {"fold-constants"}; }), Names{"fold-constants"});
}

TEST(PassManager, StopsAfterTheNamedPass) {
  ManagerOptions options;
  options.stop_after = "eliminate-dead-code";
  auto out = run(module(), {{"eliminate-dead-code"}, {"canonicalize"}}, options);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->reports.size(), 1u);
}

TEST(PassManager, StepsParseAndPrintBack) {
  for (const char* text :
       {"fuse", "plan-memory{max-bytes=10}", "apply-strategy{layouts=\"w\\\\.0=,tp;b=tp\",data-axes=dp;mb,zero=3,offload=opt}",
        "schedule-collectives{overlap=false,prefetch=0,keep-order=true}", "specialise{sizes=batch=1;8;len=16}"}) {
    Result<Step> step = parse_step(text);
    ASSERT_TRUE(step.ok()) << to_string(step.errors());
    EXPECT_EQ(step->str(), text);
  }
  EXPECT_EQ(parse_step("auto-shard{search=false,max-bytes=}")->str(), "auto-shard") << "as by default";
  EXPECT_EQ(parse_step("apply-strategy{layouts=\"w\\\\.0=,tp;b=tp\"}")->options.apply_strategy.layouts, "w\\.0=,tp;b=tp");
  for (const char* text : {"", "{a=b}", "fuse{b}", "fuse{=b}", "fuse{b=c", "fuse}", "fuse{b,c=d}", "fuse{kernels=\"op}",
                           "fuse{kernels=\"op\"x}"})
    EXPECT_EQ(parse_step(text).errors()[0].code, Code::kSyntax) << text;
  EXPECT_EQ(parse_step("fuse{kernels=op,kernels=op}").errors()[0].code, Code::kDuplicateName);
}

TEST(Options, RefuseWhatTheyCannotBe) {
  auto refusal = [](const char* step) { return parse_step(step).errors()[0].message; };
  EXPECT_EQ(refusal("apply-strategy{zero=4}"), "apply-strategy: zero is a whole number from 0 to 3, not `4`");
  EXPECT_EQ(refusal("apply-strategy{zero=}"), "apply-strategy: zero is a whole number from 0 to 3, not ``");
  EXPECT_EQ(refusal("apply-strategy{offload=some}"), "apply-strategy: offload is none, opt, params or all, not `some`");
  for (const char* list : {"dp;", ";dp", ";", "dp;dp"})
    EXPECT_EQ(refusal(fmt::format("apply-strategy{{data-axes={}}}", list).c_str()),
              fmt::format("apply-strategy: data-axes is a list of different names, such as dp,tp, not `{}`", list));
  EXPECT_EQ(refusal("partition{reduce-dtype=f8}"), "partition: reduce-dtype is f32, bf16 or f16, not `f8`");
  EXPECT_EQ(refusal("auto-shard{search=yes}"), "auto-shard: search is true or false, not `yes`");
  for (const char* text : {"-1", "two", "1.5", "99999999999999999999"})
    EXPECT_EQ(refusal(fmt::format("schedule-collectives{{prefetch={}}}", text).c_str()),
              fmt::format("schedule-collectives: prefetch is a whole number of at least 0, not `{}`", text));
  EXPECT_EQ(refusal("auto-shard{values=mine}"), "auto-shard: values is found or propagated, not `mine`");
  EXPECT_EQ(refusal("regather{reshard-after-forward=maybe}"), "regather: reshard-after-forward is true or false, not `maybe`");
  EXPECT_EQ(refusal("bucket-collectives{bucket-bytes=-1}"),
            "bucket-collectives: bucket-bytes is a number of bytes, such as 64MiB, not `-1`");
  EXPECT_EQ(refusal("apply-strategy{data-axes=\"dp,,tp\"}"),
            "apply-strategy: data-axes is a list of different names, such as dp,tp, not `dp,,tp`");
  for (const char* text : {"few", "many", "12 mb", "-1"})
    EXPECT_EQ(refusal(fmt::format("plan-memory{{max-bytes={}}}", text).c_str()),
              fmt::format("plan-memory: max-bytes is a number of bytes, such as 64MiB, not `{}`", text));
  EXPECT_EQ(refusal("specialise{sizes=8}"), "specialise: sizes is a list of sizes such as batch=1,8,32, not `8`");
}

TEST(Options, BytesPrintInTheLargestUnitThatDividesThem) {
  for (const auto& [count, text] : std::vector<std::pair<int64_t, std::string>>{
           {0, "0"}, {1023, "1023"}, {1024, "1KiB"}, {3 << 20, "3MiB"}, {(3 << 20) + 1, "3145729"}, {int64_t{4} << 30, "4GiB"}})
    EXPECT_EQ(option_text::print(Bytes{count}), text);
}

TEST(Registry, NamesAreUniqueAndEveryRowIsDocumented) {
  std::set<std::string> names;
  for (const Pass& p : all_passes()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_FALSE(p.summary.empty() || p.doc.empty()) << p.name;
    EXPECT_LE(p.stage_in, p.stage_out) << p.name;
    EXPECT_TRUE(p.run) << p.name;
  }
}

TEST(Pipeline, EveryStageIsDescribed) {
  ASSERT_EQ(stages_of_pipeline().size(), static_cast<size_t>(ir::kStageCount));
  for (int i = 0; i < ir::kStageCount; ++i) EXPECT_EQ(stages_of_pipeline()[i].stage, static_cast<ir::Stage>(i));
}

TEST(Pipeline, EndsAtTheStageThatIsAskedFor) {
  std::vector<Step> flat = default_steps(ir::Stage::kTraced, ir::Stage::kFlat);
  EXPECT_EQ(flat.back().pass, "auto-shard");
  std::vector<Step> local = default_steps(ir::Stage::kTraced, ir::Stage::kLocal);
  ASSERT_GT(local.size(), flat.size());
  EXPECT_EQ(local[flat.size()].pass, "propagate");
  EXPECT_EQ(default_steps(ir::Stage::kLocal, ir::Stage::kLocal).back().pass, "choose-libraries");
}

TEST(Pipeline, ItsStepsExistHaveReasonsAndFitTogether) {
  ir::Stage stage = ir::Stage::kTraced;
  for (const PipelineStep& s : default_pipeline()) {
    const Pass* p = find_pass(s.pass);
    ASSERT_TRUE(p) << s.pass;
    EXPECT_FALSE(s.reason.empty()) << s.pass;
    EXPECT_GE(stage, p->stage_in) << s.pass;
    stage = std::max(stage, p->stage_out);
  }
}

// Every layer of a model has the same remarks: people read one of each kind, the one with the most bytes, and their number.
TEST(Notes, AreOnePerKind) {
  using ir::RemarkKind;
  std::vector<ir::Remark> remarks;
  for (int64_t bytes : {100, 900, 300}) {
    remarks.push_back({RemarkKind::kLayoutConflict, "w", fmt::format("{} bytes are laid out anew", bytes), bytes});
    remarks.push_back({RemarkKind::kZeroWhole, "bias", fmt::format("the bias beside {} stays whole", bytes)});
  }
  remarks.push_back({RemarkKind::kZeroShares, "zero", "ranks share 5 parameters"});
  remarks.push_back({RemarkKind::kEarlierCollectives, "step", "2 collectives start earlier", 64});
  EXPECT_EQ(ir::notes_of(remarks), (std::vector<std::string>{
                                       "900 bytes are laid out anew (the one with the most bytes of 3 notes of this kind)",
                                       "the bias beside 100 stays whole (the first of 3 notes of this kind)", "ranks share 5 parameters"}));
  EXPECT_EQ(ir::notes_of({}), std::vector<std::string>());
}

}  // namespace
}  // namespace nabla::passes

// Propagation and partition of deep programs, and training on ranks.
#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>

#include "bench/bench.h"
#include "bench/deep_module.h"
#include "cli/driver/compile.h"
#include "cli/driver/plan.h"
#include "examples/charlm/charlm.h"
#include "ir/ops/all_ops.h"
#include "passes/pass_manager.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::bench {
namespace {

const ir::Mesh kPod{"pod", {{"dp", 2}, {"tp", 4}}, nullptr};
// 4096 ranks.
const ir::Mesh kCluster{"cluster", {{"group", 8}, {"dp", 4}, {"sp", 8}, {"tp", 16}}, nullptr};

// Data parallel over dp, the feed-forward parts tensor parallel over tp, and, where there is sp, texts cut along it.
Result<ir::Module> laid_out(int layers, const ir::Mesh& mesh, const ir::Target& target) {
  ir::Module m = NABLA_TRY(driver::simplify_module(deep_module(layers), target, {}, ir::Stage::kFlat));
  m.meshes = {mesh};
  for (ir::StateLeaf& leaf : m.state)
    if (leaf.name.ends_with(".up"))
      leaf.sharding = std::make_shared<const ir::Sharding>(ir::Sharding{{{{}, true}, {{{"tp"}}}}, {}});
  ir::Function step = *m.find(m.find_entry("step")->function);
  ir::DimSharding text{{}, true};
  if (mesh.size_of("sp") > 0) text = {{{"sp"}}};
  step.values[step.params.back()].sharding =
      std::make_shared<const ir::Sharding>(ir::Sharding{{{{{"dp"}}}, text, {{}, true}}, {}});
  m.set(std::make_shared<const ir::Function>(std::move(step)));
  return m;
}

Result<std::vector<double>> shard_seconds(const std::vector<int>& depths, const ir::Mesh& mesh) {
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  std::vector<ir::Module> modules;
  for (int layers : depths) modules.push_back(NABLA_TRY(laid_out(layers, mesh, target)));
  std::vector<double> best(depths.size(), 1e9);
  for (int round = 0; round < 5; ++round)
    for (size_t i = 0; i < depths.size(); ++i) {
      double begin = now();
      NABLA_TRY(passes::run_passes(modules[i], {{"propagate"}, {"partition"}}, ops::all_ops(), target));
      best[i] = std::min(best[i], now() - begin);
    }
  return best;
}

Result<Measurement> shard_48() { return against_budget(NABLA_TRY(shard_seconds({48}, kPod))[0], "s", 1); }

// The search alone, of a program of which nothing is said.
Result<Measurement> auto_shard_12() {
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  ir::Module m = NABLA_TRY(driver::simplify_module(deep_module(12), target, {}, ir::Stage::kFlat));
  m.meshes = {kPod};
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    double begin = now();
    NABLA_TRY(passes::run_passes(m, {{"auto-shard", {.auto_shard = {.search = true}}}}, ops::all_ops(), target));
    best = std::min(best, now() - begin);
  }
  return against_budget(best, "s", 10);
}

Result<Measurement> shard_96() { return against_budget(NABLA_TRY(shard_seconds({96}, kCluster))[0], "s", 5); }

// The language model, its batches cut along `ranks` ranks of a thread each; one rank has two threads.
Result<double> sharded_step_seconds(int64_t ranks, bool deterministic = false) {
  ir::Module m = charlm::make_program({}).module();
  m.meshes = {{"pod", {{"dp", ranks}}, nullptr}};
  const ir::Entry& step = *m.find_entry("step");
  ir::Function f = *m.find(step.function);
  for (size_t i = 0; i < step.inputs.size(); ++i) {
    ir::Value& input = f.values[f.params[step.reads.size() + i]];
    if (input.type.shape.empty() || !input.type.shape[0].is(charlm::kBatch)) continue;
    ir::Sharding layout{std::vector<ir::DimSharding>(input.type.shape.size()), {}};
    layout.dims[0].axes = {{"dp"}};
    input.sharding = std::make_shared<const ir::Sharding>(std::move(layout));
  }
  m.set(std::make_shared<const ir::Function>(std::move(f)));
  auto session = NABLA_TRY(open_program(m, ranks == 1 ? 2 : 1, {.deterministic = deterministic}));
  uint32_t seed[2] = {0, 0};
  const void* inputs[] = {seed};
  NABLA_TRY(session->run(session->find_entry("init"), inputs, {}));
  return seconds_per_run(*session, "step");
}

Result<Measurement> two_ranks() {
  double best = 1e9;  // ratio of measurements side by side
  for (int round = 0; round < 3; ++round) {
    double two = NABLA_TRY(sharded_step_seconds(2)), one = NABLA_TRY(sharded_step_seconds(1));
    best = std::min(best, two / one);
  }
  return against_budget(best, "", 1.1);
}

// What the same bits on any mesh cost.
Result<Measurement> deterministic_price() {
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    double price = NABLA_TRY(sharded_step_seconds(2, true)), plain = NABLA_TRY(sharded_step_seconds(2));
    best = std::min(best, price / plain);
  }
  return Measurement{best, ""};
}

// What `nablac plan` says of 16 meshes and strategies of the language model, on 32 ranks.
Result<Measurement> plan_16() {
  ir::Module m = charlm::make_program({}).module();
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    double begin = now();
    std::vector<driver::PlanRow> rows = NABLA_TRY(driver::plan_of(m, {.ranks = 32, .axes = "dp,tp"}));
    best = std::min(best, now() - begin);
    NABLA_CHECK(rows.size() >= 16, "a plan of {} rows", rows.size());
  }
  return against_budget(best, "s", 20);
}

// Trainings of the language model, each as it is predicted and as it runs: the best of rounds that are seconds apart, and of more
// rounds as long as something is off, since other programs may run.
class Trainings {
 public:
  Status add(const std::string& name, double predicted_us, const driver::CompileOptions& options) {
    driver::CompiledBundle made = NABLA_TRY(driver::compile(model_, options));
    auto bundle = NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(made.bytes)), "bench"));
    sessions_.push_back(NABLA_TRY(exec::Session::create(std::move(bundle), {.threads = 1})));
    uint32_t seed[2] = {0, 0};
    const void* inputs[] = {seed};
    names_.push_back(name), times_.push_back({predicted_us, 1e12});
    return sessions_.back()->run(sessions_.back()->find_entry("init"), inputs, {});
  }
  /// Of each a line goes to stderr.
  Result<std::vector<driver::Timed>> run(const std::function<bool(const std::vector<driver::Timed>&)>& as_expected) {
    for (int round = 0; round < 3 || (round < 6 && !as_expected(times_)); ++round)
      for (size_t i = 0; i < times_.size(); ++i)
        times_[i].measured = std::min(times_[i].measured, NABLA_TRY(seconds_per_run(*sessions_[i], "step")) * 1e6);
    for (size_t i = 0; i < times_.size(); ++i)
      fmt::print(stderr, "{}: {:.0f} us, predicted {:.0f} us\n", names_[i], times_[i].measured, times_[i].predicted);
    return times_;
  }
  const ir::Module& model() const { return model_; }

 private:
  const ir::Module model_ = charlm::make_program({}).module();
  std::vector<std::unique_ptr<exec::Session>> sessions_;
  std::vector<std::string> names_;
  std::vector<driver::Timed> times_;
};

constexpr const char* kTensorParallel = ".*(qkv|up)=,tp;.*(out|down)=tp,";

// A measured step of the language model over the predicted one, in the strategy where they differ most: greater than 1 where it is
// slower than predicted.
Result<Measurement> predicted(const Paths& paths) {
  struct Strategy {
    std::string mesh;
    int64_t zero;
    std::string layouts;
  };
  const std::string tuning = paths.scratch + "/predicted.tuning";
  Trainings trainings;
  NABLA_TRY(write_tuning(trainings.model(), 1, tuning));
  for (const Strategy& s :
       {Strategy{"dp=2", 0, ""}, {"dp=2", 3, ""}, {"tp=2", 0, kTensorParallel}, {"dp=2,tp=2", 0, kTensorParallel}}) {
    driver::CompileOptions options;
    options.target = "cpu:native", options.mesh = {s.mesh}, options.tuning_file = tuning;
    passes::ApplyStrategyOptions& strategy = options.pass_options.apply_strategy;
    strategy.zero = s.zero, strategy.layouts = s.layouts;
    if (s.mesh[0] == 'd') strategy.data_axes = {"dp"};
    const auto report = nlohmann::json::parse(NABLA_TRY(driver::lower_module(trainings.model(), options)).report);
    for (const auto& e : report.at("entries"))
      if (e.at("name") == "step")
        NABLA_TRY(trainings.add(fmt::format("{} zero={}", s.mesh, s.zero), e.at("timeline").at("us").get<double>(), options));
  }
  auto near = [](const driver::Timed& t) { return t.measured < 1.25 * t.predicted; };
  auto all_near = [&](const std::vector<driver::Timed>& times) { return std::all_of(times.begin(), times.end(), near); };
  double worst = 1;
  for (const driver::Timed& t : NABLA_TRY(trainings.run(all_near)))
    if (double ratio = t.measured / t.predicted; std::max(ratio, 1 / ratio) > std::max(worst, 1 / worst)) worst = ratio;
  return Measurement{worst, ""};
}

// The order of the rows of `nablac plan` for 2 and for 4 ranks against that in which they really run: the share of pairs whose
// predicted steps differ by more than kApart.
Result<Measurement> plan_order(const Paths& paths) {
  constexpr double kApart = 1.5;
  driver::Order all;
  driver::PlanOptions options{.axes = "dp,tp"};
  options.compile.target = "cpu:native", options.compile.tuning_file = paths.scratch + "/plan.tuning";
  options.compile.pass_options.apply_strategy.layouts = kTensorParallel;
  NABLA_TRY(write_tuning(charlm::make_program({}).module(), 1, options.compile.tuning_file));
  for (int64_t ranks : {2, 4}) {
    options.ranks = ranks;
    Trainings trainings;
    for (const driver::PlanRow& row : NABLA_TRY(driver::plan_of(trainings.model(), options)))
      if (row.refusal.empty())
        NABLA_TRY(trainings.add(row.mesh + " " + row.stage(), row.step_us(),
                                NABLA_TRY(driver::options_of(trainings.model(), options, row))));
    auto of = [&](const std::vector<driver::Timed>& times) { return driver::order_of(times, kApart); };
    driver::Order order = of(NABLA_TRY(trainings.run([&](const auto& times) { return of(times).confirmed == of(times).pairs; })));
    all.pairs += order.pairs, all.confirmed += order.confirmed;
  }
  if (all.pairs == 0) return error(Code::kReadFailed, "no two rows of the plan are {} times apart", kApart);
  return against_requirement(static_cast<double>(all.confirmed) / static_cast<double>(all.pairs), "", 1);
}

// A bundle for 1024 ranks beside one for 8, data and tensor parallel: all ranks run one program, whatever their number.
struct Compiled {
  double seconds, bytes;
};
Result<Compiled> compiled_for(const ir::Mesh& mesh) {
  ir::Target target = NABLA_TRY(ir::find_target("cpu"));
  ir::Module m = NABLA_TRY(laid_out(2, mesh, target));
  double begin = now();
  driver::CompiledBundle bundle = NABLA_TRY(driver::compile(m, {.library = false, .cache = false}));
  return Compiled{now() - begin, static_cast<double>(bundle.bytes.size())};
}
Result<Measurement> ranks_1024(double Compiled::*what, double budget) {
  const ir::Mesh kRack{"rack", {{"group", 16}, {"dp", 4}, {"tp", 16}}, nullptr};
  Compiled few = NABLA_TRY(compiled_for(kPod)), many = NABLA_TRY(compiled_for(kRack));
  return against_budget(many.*what / few.*what, "", budget);
}

Result<Measurement> pod_scaling() {
  std::vector<int> depths{12, 24, 48, 96};
  return against_budget(growth(depths, NABLA_TRY(shard_seconds(depths, kPod))), "exponent", 1.15);
}

}  // namespace

std::vector<Bench> shard_benches() {
  return {
      {"shard_48_layers_s", "propagation and partition of 48 blocks and their gradient over 8 ranks",
       [](const Paths&) { return shard_48(); }},
      {"auto_shard_12_layers_s", "the search for layouts of 12 blocks and their gradient over 8 ranks of two axes",
       [](const Paths&) { return auto_shard_12(); }},
      {"shard_96_layers_4096_ranks_s", "the same of 96 blocks over 4096 ranks of four axes",
       [](const Paths&) { return shard_96(); }},
      {"charlm_local_2ranks_vs_1", "a step of the language model on 2 ranks of one thread over that on 1 rank of two",
       [](const Paths&) { return two_ranks(); }},
      {"charlm_deterministic_vs_plain", "a step on these 2 ranks with --deterministic over one without",
       [](const Paths&) { return deterministic_price(); }},
      {"plan_16_meshes_s", "16 meshes and strategies of the language model compared by nablac plan",
       [](const Paths&) { return plan_16(); }},
      {"predicted_over_measured",
       "a measured step of the language model over the predicted one, the worst of four strategies on 2 and 4 ranks of a thread",
       [](const Paths& paths) { return predicted(paths); }},
      {"plan_order_confirmed",
       "pairs of rows of nablac plan for 2 and 4 ranks, more than 1.5 times apart, that run in the order in which they stand",
       [](const Paths& paths) { return plan_order(paths); }},
      {"ranks_1024_vs_8_time", "compiling two blocks for 1024 ranks over compiling them for 8, nothing cached",
       [](const Paths&) { return ranks_1024(&Compiled::seconds, 2); }},
      {"ranks_1024_vs_8_bytes", "size of these bundles",
       [](const Paths&) { return ranks_1024(&Compiled::bytes, 1.1); }},
      {"shard_scaling", "growth of that with 12 to 96 blocks", [](const Paths&) { return pod_scaling(); }},
  };
}

}  // namespace nabla::bench

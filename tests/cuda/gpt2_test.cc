// GPT-2: its size, a tiny one that trains on the CPU and follows it on the fake GPU, and pretrained weights.
#include "examples/gpt2/gpt2.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/driver/compile.h"
#include "ir/cost/grid_work.h"
#include "ir/cost/least_work.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/safetensors.h"
#include "tests/cuda/fake_gpu.h"

namespace nabla {
namespace {

gpt2::Options tiny() {
  gpt2::Options o;
  o.layers = 2, o.width = 32, o.heads = 2, o.vocabulary = 61, o.context = 32, o.batch = 2;
  o.learning_rate = 1e-2, o.steps = 100;
  return o;
}

std::string compiled(const gpt2::Options& o, const std::string& target) {
  Program program = gpt2::make_program(o);
  auto bundle = driver::compile(program.module(), {.target = target});
  NABLA_CHECK(bundle.ok(), "{}", to_string(bundle.errors()));
  return bundle->bytes;
}

std::unique_ptr<exec::Session> open(const std::string& bytes, const char* target) {
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bytes)), "gpt2");
  auto session = exec::Session::create(std::move(*bundle), {.threads = 1, .target = target});
  NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
  return std::move(*session);
}

Literal call(exec::Session& session, const char* entry, const Literal& input) {
  auto results = session.call(session.need_entry(entry).value(), {input});
  NABLA_CHECK(results.ok(), "{}", to_string(results.errors()));
  return results->empty() ? Literal() : (*results)[0];
}

Literal tokens_of(const gpt2::Options& o) {
  Literal out(i32, {o.batch, o.context + 1});
  for (int64_t i = 0; i < out.size(); ++i) out.set_i(i, (i * i * 7 + 3 * i) % o.vocabulary);
  return out;
}
Literal seed() {
  Literal out(u32, {2});
  out.set_i(1, 5);
  return out;
}

TEST(Gpt2, TheSmallestOfThePaperHas124439808Parameters) {
  gpt2::Options o;
  o.vocabulary = 50257;
  gpt2::Model<Spec> specs = gpt2::model_specs(o);
  int64_t count = 0;
  for (auto& [name, spec] : leaves_of<Spec>(specs)) count += ir::Type(spec->dtype, spec->shape).count().value();
  EXPECT_EQ(count, 124'439'808);
  EXPECT_EQ(leaves_of<Spec>(specs).size(), 2u + 12 * 12 + 2);
}

// 6 operations per parameter that is multiplied and token, and per layer and token of causal attention 7 width context,
// as every query sees half of the keys: 2 on the way forward and 5 back, which makes the weights again. What lies
// between products adds a little.
TEST(Gpt2, AStepCostsWhatItsProductsDo) {
  gpt2::Options o;
  Program program = gpt2::make_program(o);
  auto lowered = driver::lower_module(program.module(), {.target = "sm_90a"});
  ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
  double flops = 0, tokens = static_cast<double>(o.batch * o.context);
  nlohmann::json report = nlohmann::json::parse(lowered->report);
  for (const auto& entry : report["entries"])
    if (entry["name"] == "step") flops = entry["flops"].get<double>();
  double parameters = 12.0 * 12 * 768 * 768 + 768.0 * 50304, attention = 7.0 * 12 * 768 * 1024;
  EXPECT_NEAR(flops / tokens / (6 * parameters + attention), 1.0, 0.02);
}

// Generated kernels transpose and convert factors of products in launches of their own. Each product counts in one launch.
TEST(Gpt2, LaunchesRunTheFlopsOfTheModel) {
  auto lowered = driver::lower_module(gpt2::make_program({}).module(), {.target = "sm_90a", .library = false});
  ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
  std::map<std::string, const kernel_ir::Kernel*> kernels;
  for (const kernel_ir::KernelPtr& k : lowered->planned.kernels) kernels[k->name] = k.get();
  double model = 0, run = 0;
  for (const ir::FunctionPtr& f : lowered->planned.functions) {
    const ir::Function& flat = *lowered->flat.find(f->name);
    for (const ir::Node& n : flat.nodes) model += static_cast<double>(ir::node_flops(flat, n).bounds().max);
    for (const ir::Node& n : f->nodes)
      if (n.op->lower == ir::Lowering::kCall)
        run += static_cast<double>(ir::launch_flops(n, &flat, kernels.at(n.attrs.get_string("kernel"))).bounds().max);
  }
  EXPECT_NEAR(run / model, 1, 0.03);
}

// Of arrays that are larger than caches, warps ask for at most twice the sectors that the bytes need: those of tiles of products and of
// attention, and of rows that are looked up, are read again by others.
TEST(Gpt2, NoKernelOfAStepAsksForManySectors) {
  Program program = gpt2::make_program({});
  auto lowered = driver::lower_module(program.module(), {.target = "sm_90a", .library = false});
  ASSERT_TRUE(lowered.ok()) << to_string(lowered.errors());
  int seen = 0;
  for (const kernel_ir::KernelPtr& k : lowered->planned.kernels) {
    const auto& grids = cuda_schedule_of(*k).grids;
    const double least = static_cast<double>(ir::kernel_work(*k).bytes.bounds().max) / ir::kSectorBytes;
    if (least < 1 << 20 || k->procedure) continue;
    double sectors = 0;
    bool again = false;
    for (size_t g = 0; g < grids.size(); ++g) {
      sectors += ir::grid_work(*k, g).sectors;
      again |= std::holds_alternative<kernel_ir::ProductMapping>(grids[g].mapping) ||
               std::holds_alternative<kernel_ir::ScatterMapping>(grids[g].mapping);
    }
    if (again) continue;
    EXPECT_LE(sectors, 2.01 * least) << k->name;
    ++seen;
  }
  EXPECT_GT(seen, 20);
}

TEST(Gpt2, LearnsABatchByHeart) {
  auto session = open(compiled(tiny(), "cpu:x86-64-v3"), "");
  call(*session, "init", seed());
  Literal tokens = tokens_of(tiny());
  double first = call(*session, "eval", tokens).get(0), last = 0;
  EXPECT_NEAR(first, std::log(61.0), 0.05);  // it knows nothing
  for (int i = 0; i < 60; ++i) last = call(*session, "step", tokens).get(0);
  EXPECT_LT(last, first / 2);
  EXPECT_LT(call(*session, "eval", tokens).get(0), last);
}

TEST(Gpt2, TrainsOnTheFakeGpuAsOnTheCpu) {
  setenv("NABLA_FAKE_CUDA_CAPABILITY", "9.0", 1);
  gpt2::Options o = tiny();
  o.layers = 1;
  std::string bytes = compiled(o, "sm_90a,cpu:x86-64-v3");
  std::string driver = fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"),
                                   std::getenv("TEST_WORKSPACE"));
  Status ready = emulator::use_fake_gpu(bytes, driver);
  ASSERT_TRUE(ready.ok()) << to_string(ready.errors());
  auto gpu = open(bytes, "sm_90a"), cpu = open(bytes, "cpu:x86-64-v3");
  Literal tokens = tokens_of(o);
  call(*gpu, "init", seed());
  call(*cpu, "init", seed());
  for (int i = 0; i < 3; ++i) {
    double want = call(*cpu, "step", tokens).get(0), got = call(*gpu, "step", tokens).get(0);
    EXPECT_NEAR(got, want, 5e-3 * want) << "step " << i;  // products of bf16
  }
}

// A file in the other layout, whose tensors come from a model that was initialised here: both then know the same.
TEST(Gpt2, TakesWeightsInTheLayoutOfHuggingFace) {
  std::string bytes = compiled(tiny(), "cpu:x86-64-v3");
  auto from = open(bytes, ""), to = open(bytes, "");
  call(*from, "init", seed());
  exec::WeightOptions options;
  options.path = std::string(std::getenv("TEST_TMPDIR")) + "/model.safetensors";
  std::ifstream map("examples/gpt2/hugging_face.map");
  for (std::string row; std::getline(map, row);) options.maps.push_back(row);
  ASSERT_EQ(options.maps.size(), 16u);
  std::vector<std::pair<std::string, Literal>> tensors;
  for (size_t i = 0; i < from->state_leaves().size(); ++i) {
    const exec::TensorInfo& leaf = from->state_leaves()[i];
    if (leaf.name.starts_with("adamw")) continue;
    std::string name = leaf.name;
    for (const std::string& row : options.maps) {
      std::string theirs = row.substr(0, row.find('=')), ours = row.substr(row.find('=') + 1);
      for (const char* block : {"0", "1"}) {
        auto with = [&](std::string text) {
          return text.find('*') == std::string::npos ? text : text.replace(text.find('*'), 1, block);
        };
        if (with(ours) == leaf.name) name = with(theirs);
      }
    }
    EXPECT_NE(name, leaf.name) << "no row for it";
    Literal value(leaf.dtype, leaf.shape);
    ASSERT_TRUE(from->get_state(static_cast<int>(i), value.mutable_data()).ok());
    for (int64_t e = 0; e < value.size(); ++e) value.set(e, value.get(e) + 0.01 * std::sin(double(e) + double(i)));
    ASSERT_TRUE(from->set_state(static_cast<int>(i), value.data()).ok());
    tensors.emplace_back(name, value);
  }
  tensors.emplace_back("h.0.attn.bias", Literal(f32, {1, 1, 32, 32}));  // a mask, which nothing takes
  ASSERT_TRUE(format::write_safetensors(options.path, tensors).ok());
  options.partial = true;  // AdamW's leaves
  options.init = [&]() -> Status {
    call(*to, "init", Literal(u32, {2}));
    return Ok{};
  };
  auto report = to->load_weights(options);
  ASSERT_TRUE(report.ok()) << to_string(report.errors());
  Literal tokens = tokens_of(tiny());
  EXPECT_EQ(call(*to, "eval", tokens).get(0), call(*from, "eval", tokens).get(0));
  EXPECT_TRUE(std::isfinite(call(*to, "step", tokens).get(0)));
}

}  // namespace
}  // namespace nabla

// State that lives in the host's memory, on the fake GPU: values are those of the program without it, bit for bit, and what is
// copied and kept where is what the report says, as integers. Issued, recorded and replayed; copies as late and as early as
// streams may run them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <dlfcn.h>
#include <nlohmann/json.hpp>
#include <random>

#include "cli/driver/compile.h"
#include "examples/digits/mlp.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/cuda/fake_gpu.h"
#include "tests/nightly.h"
#include "tests/pass_options.h"
#include "tests/strategy/chain.h"

namespace nabla {
namespace {

using Json = nlohmann::json;

std::string fake_driver() {
  return fmt::format("{}/{}/tests/cuda/fake_driver/libfake_cuda.so", std::getenv("TEST_SRCDIR"), std::getenv("TEST_WORKSPACE"));
}

// What the fake driver has counted.
int64_t counted(const char* what, const char* call = nullptr) {
  static void* library = dlopen(fake_driver().c_str(), RTLD_NOW | RTLD_LOCAL);
  void* symbol = dlsym(library, what);
  NABLA_CHECK(symbol != nullptr, "the fake driver has no {}", what);
  if (call == nullptr) return reinterpret_cast<int64_t (*)()>(symbol)();
  return reinterpret_cast<int64_t (*)(const char*)>(symbol)(call);
}
int64_t moved(bool out) { return counted("nb_fake_cuda_bytes", out ? "cuMemcpyDtoHAsync" : "cuMemcpyHtoDAsync"); }

driver::CompiledBundle compiled(const ir::Module& module, const std::string& offload, const std::string& target = "sm_90a") {
  driver::CompileOptions options;
  options.target = target, options.library = false;
  set_options(options.pass_options, "apply-strategy", {{"offload", offload}});
  auto made = driver::compile(module, options);
  NABLA_CHECK(made.ok(), "{}", to_string(made.errors()));
  return std::move(*made);
}

std::unique_ptr<exec::Session> open(const std::string& bytes, const std::string& target = "") {
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bytes)), "test");
  auto session = exec::Session::create(std::move(*bundle), {.threads = 1, .target = target});
  NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
  return std::move(*session);
}

Literal noise(const exec::TensorInfo& info, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Literal out(info.dtype, info.shape);
  for (int64_t i = 0; i < out.size(); ++i)
    is_float(info.dtype) ? out.set(i, static_cast<double>(rng() % 2001) / 20000 - 0.05) : out.set_i(i, static_cast<int64_t>(rng() % 10));
  return out;
}

/// What runs of an entry give, and all state after them; bytes that each of them copied.
struct Ran {
  std::vector<Literal> results, state;
  std::vector<std::pair<int64_t, int64_t>> copied;  ///< to the device, to the host
  int64_t device = 0, pinned = 0;                   ///< bytes that were allocated for the session
};

Ran run(const std::string& bundle, const std::string& entry, int runs) {
  Ran out;
  int64_t device = counted("nb_fake_cuda_device"), pinned = counted("nb_fake_cuda_pinned");
  auto session = open(bundle);
  out.device = counted("nb_fake_cuda_device") - device, out.pinned = counted("nb_fake_cuda_pinned") - pinned;
  for (size_t i = 0; i < session->state_leaves().size(); ++i) {
    Literal value = noise(session->state_leaves()[i], i + 1);
    NABLA_CHECK(session->set_state(static_cast<int>(i), value.data()).ok(), "leaf {}", i);
  }
  int which = session->need_entry(entry).value();
  for (int r = 0; r < runs; ++r) {
    std::vector<Literal> inputs;
    for (const exec::TensorInfo& info : session->entries()[which].inputs) inputs.push_back(noise(info, 100 + r));
    int64_t in = moved(false), back = moved(true);
    auto results = session->call(which, inputs);
    NABLA_CHECK(results.ok(), "{}", to_string(results.errors()));
    out.copied.emplace_back(moved(false) - in, moved(true) - back);
    for (Literal& l : *results) out.results.push_back(std::move(l));
  }
  for (size_t i = 0; i < session->state_leaves().size(); ++i) {
    const exec::TensorInfo& info = session->state_leaves()[i];
    out.state.emplace_back(info.dtype, info.shape);
    NABLA_CHECK(session->get_state(static_cast<int>(i), out.state.back().mutable_data()).ok(), "leaf {}", i);
  }
  return out;
}

const Json& entry_of(const Json& report, const std::string& name) {
  for (const Json& e : report["entries"])
    if (e["name"] == name) return e;
  NABLA_CHECK(false, "the report has no entry {}", name);
  return report;
}
int64_t bytes_of_role(const Json& report, const std::string& role) {
  int64_t out = 0;
  for (const Json& l : report["state"])
    if (role.empty() || l["role"] == role) out += l["bytes"].get<int64_t>();
  return out;
}

constexpr int kRuns = 4;

// Bits, and bytes as the report says them.
void expect_offloaded(const ir::Module& module, const std::string& offload, Json* report_of = nullptr) {
  driver::CompiledBundle plain = compiled(module, "none"), off = compiled(module, offload);
  ASSERT_TRUE(emulator::use_fake_gpu(plain.bytes, fake_driver()).ok());
  ASSERT_TRUE(emulator::use_fake_gpu(off.bytes, fake_driver(), {.beside = true}).ok());
  Ran want = run(plain.bytes, "step", kRuns), got = run(off.bytes, "step", kRuns);
  EXPECT_EQ(got.results, want.results);
  EXPECT_EQ(got.state, want.state);
  Json before = Json::parse(plain.report), report = Json::parse(off.report);
  const Json& transfers = entry_of(report, "step")["transfers"];
  for (int r = 0; r < kRuns; ++r) {  // issued, recorded and replayed, replayed
    EXPECT_EQ(got.copied[r].first - want.copied[r].first, transfers["to_device"]["bytes"]) << r;
    EXPECT_EQ(got.copied[r].second - want.copied[r].second, transfers["to_host"]["bytes"]) << r;
  }
  EXPECT_EQ(got.pinned - want.pinned, report["host_bytes"]);
  EXPECT_EQ(want.device - got.device, before["arena_bytes"].get<int64_t>() - report["arena_bytes"].get<int64_t>());
  EXPECT_EQ(before["state_bytes"].get<int64_t>() - report["state_bytes"].get<int64_t>(), report["host_bytes"]);
  if (report_of != nullptr) *report_of = report;
}

class Offload : public testing::TestWithParam<const char*> {};

TEST_P(Offload, StepsOfAChainOfLayersHaveTheSameBits) {
  Json report;
  expect_offloaded(strategy_tests::chain("dp=1"), GetParam(), &report);
  const Json& transfers = entry_of(report, "step")["transfers"];
  if (std::string(GetParam()) != "opt") return;
  // Each leaf of the optimizer comes once and goes once.
  int64_t bytes = bytes_of_role(report, "optimizer");
  EXPECT_EQ(bytes, strategy_tests::kElements * strategy_tests::kF32);
  EXPECT_EQ(transfers["to_device"]["bytes"], bytes);
  EXPECT_EQ(transfers["to_host"]["bytes"], bytes);
  EXPECT_EQ(report["host_bytes"], bytes);
}

TEST_P(Offload, StepsOfAScanHaveTheSameBits) { expect_offloaded(strategy_tests::stacked("dp=1"), GetParam()); }

TEST_P(Offload, StepsOfTheDigitsMlpHaveTheSameBits) {
  Json report;
  expect_offloaded(digits::make_program<digits::Mlp>(digits::kMlpLearningRate).module(), GetParam(), &report);
  const Json& transfers = entry_of(report, "step")["transfers"];
  if (std::string(GetParam()) != "opt") return;
  EXPECT_EQ(transfers["to_device"]["bytes"].get<int64_t>() + transfers["to_host"]["bytes"].get<int64_t>(),
            2 * bytes_of_role(report, "optimizer"));
}

const size_t kSpaces = std::getenv("NABLA_FAKE_CUDA_EAGER") ? 1 : 2;  // in every run
INSTANTIATE_TEST_SUITE_P(Spaces, Offload, testing::ValuesIn(some_of<const char*>({"all", "opt", "params"}, kSpaces)),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace nabla

// Sessions over the hand-built toy bundle.
#include "runtime/exec/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <nlohmann/json.hpp>

#include "runtime/exec/test_bundle.h"
#include "runtime/exec/trace.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/safetensors.h"

// Counts allocations, to hold the step path to none.
static std::atomic<int64_t> allocations{0};
void* operator new(size_t n) {
  ++allocations;
  return std::malloc(n);
}
void* operator new(size_t n, const std::nothrow_t&) noexcept { return operator new(n); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace nabla::exec {
namespace {

using Change = std::function<void(format::ProgramT&)>;

Result<std::unique_ptr<Session>> open_toy(const Change& change = nullptr, SessionOptions options = {.threads = 2}) {
  std::string bytes = toy_bundle(change);
  auto bundle = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bytes)), "toy.nbundle");
  if (!bundle.ok()) return bundle.errors();
  return Session::create(std::move(*bundle), options);
}

std::unique_ptr<Session> must_open(const Change& change = nullptr, SessionOptions options = {.threads = 2}) {
  return open_toy(change, std::move(options)).value();
}

std::string temporary(const std::string& name) { return testing::TempDir() + "/" + name; }
Code code_of(const auto& result) { return result.errors().at(0).code; }
std::string message_of(const auto& result) { return result.errors().at(0).message; }

Literal floats(std::vector<int64_t> shape, std::initializer_list<double> values) {
  Literal out(DType::kF32, std::move(shape));
  int64_t i = 0;
  for (double v : values) out.set(i++, v);
  return out;
}

const Literal kX = floats({2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});

TEST(Session, ManyAtOnceNeedNoDescriptors) {
  auto open_files = [] {
    std::filesystem::directory_iterator folder("/proc/self/fd");
    return std::distance(begin(folder), end(folder));
  };
  auto first = must_open(nullptr, {.threads = 1});
  auto before = open_files();
  std::vector<std::unique_ptr<Session>> all;
  for (int i = 0; i < 300; ++i) all.push_back(must_open(nullptr, {.threads = 1}));
  EXPECT_EQ(open_files(), before);
  // Each has kernels of its own, whatever was closed in between.
  all.erase(all.begin() + 10, all.begin() + 20);
  for (int i = 0; i < 10; ++i) all.push_back(must_open(nullptr, {.threads = 1}));
  uint32_t seed = 1;
  const void* inputs[] = {&seed};
  for (auto& session : all) EXPECT_TRUE(session->run(0, inputs, {}).ok());
}

TEST(Session, EntriesShareStateThatOutlivesACall) {
  auto session = must_open();
  int init = session->find_entry("init"), step = session->find_entry("step"), predict = session->find_entry("predict");
  ASSERT_TRUE(session->call(init, {Literal::scalar_int(DType::kU32, 5)}).ok());
  EXPECT_EQ((*session->call(step, {kX}))[0].get(0), 26 + 110);
  EXPECT_EQ((*session->call(step, {kX}))[0].get(0), 26 + 220);
  auto y = session->call(predict, {floats({2, 4}, {1, 1, 1, 1, 2, 2, 2, 2})});
  ASSERT_TRUE(y.ok()) << to_string(y.errors());
  EXPECT_EQ((*y)[0], floats({2, 4}, {27, 50, 73, 96, 54, 100, 146, 192}));
}

TEST(Session, StateWithoutAValueIsNotRead) {
  auto session = must_open();
  auto result = session->call(session->find_entry("step"), {kX});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(code_of(result), Code::kStateMissing);
  EXPECT_EQ(message_of(result), "entry `step` reads state `w`, which has no value yet");
  EXPECT_EQ(code_of(session->save_state(temporary("none.safetensors"))), Code::kStateMissing);
  EXPECT_FALSE(std::filesystem::exists(temporary("none.safetensors")));
}

TEST(Session, StateSavedByOneSessionContinuesInAnother) {
  std::string path = temporary("state.safetensors");
  auto first = must_open();
  ASSERT_TRUE(first->call(0, {Literal::scalar_int(DType::kU32, 1)}).ok());
  ASSERT_TRUE(first->save_state(path).ok());
  auto second = must_open();
  ASSERT_TRUE(second->load_state(path).ok());
  EXPECT_EQ((*second->call(1, {kX}))[0], (*first->call(1, {kX}))[0]);
}

TEST(Session, AStateFileThatDoesNotFitChangesNothing) {
  auto session = must_open();
  std::string path = temporary("bad.safetensors");
  auto load = [&](const format::NamedArrays& arrays) {
    EXPECT_TRUE(format::write_safetensors(path, arrays).ok());
    return message_of(session->load_state(path)).substr(path.size());
  };
  EXPECT_EQ(load({{"w", Literal(DType::kF32, {5})}}), ": state `w` is f32[4]; the file has f32[5]");
  EXPECT_EQ(load({{"v", Literal(DType::kF32, {4})}}), ": state `w` (f32[4]) is not in the file");
  EXPECT_EQ(load({{"w", Literal(DType::kF32, {4})}, {"w2", Literal(DType::kF32, {4})}}),
            ": the program has no state `w2`; did you mean `w`?");
  EXPECT_FALSE(session->has_value(0));
}

TEST(Session, WrongInputsAreNamedWithBothTypes) {
  auto session = must_open();
  auto shape = session->call(session->find_entry("eval"), {kX.reshaped({4, 2}), Literal(DType::kF32, {2})});
  EXPECT_EQ(code_of(shape), Code::kInputShape);
  EXPECT_EQ(message_of(shape), "input `x` of entry `eval` is f32[2,4]; f32[4,2] was given");
  auto dtype = session->call(session->find_entry("eval"), {kX.converted(DType::kF64), Literal(DType::kF32, {2})});
  EXPECT_EQ(code_of(dtype), Code::kInputDType);
  EXPECT_EQ(code_of(session->call(session->find_entry("eval"), {kX})), Code::kInputMissing);
}

TEST(Session, AnUnknownEntrySuggestsTheNearestOne) {
  auto session = must_open();
  auto entry = session->need_entry("stop");
  EXPECT_EQ(code_of(entry), Code::kUnknownEntry);
  EXPECT_NE(message_of(entry).find("did you mean `step`?"), std::string::npos) << message_of(entry);
}

TEST(Session, AMissingCpuFeatureNamesItAndTheTarget) {
  auto session = open_toy([](format::ProgramT& p) {
    p.target = "cpu:future";
    p.cpu_features = {"sse2", "avx99"};
  });
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(code_of(session), Code::kCpuTooOld);
  EXPECT_EQ(message_of(session), "toy.nbundle was compiled for cpu:future; this CPU has no avx99");
}

TEST(Session, AMissingLibraryIsE0602) {
  auto missing = open_toy([](format::ProgramT& p) { with_dense(p, "libdnnl-not-there.so"); });
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(code_of(missing), Code::kMissingLibrary);
  auto unknown = open_toy([](format::ProgramT& p) {
    with_dense(p);
    p.libraries[0]->name = "onetwo";
  });
  EXPECT_EQ(code_of(unknown), Code::kMissingLibrary);
}

TEST(Session, AMissingSymbolIsE0604) {
  auto session = open_toy([](format::ProgramT& p) { p.kernels[0]->symbol = "no_such_kernel"; });
  ASSERT_FALSE(session.ok());
  EXPECT_EQ(code_of(session), Code::kKernelLoad);
}

TEST(Session, AGemmRunsThroughOneDnn) {
  auto session = open_toy([](format::ProgramT& p) { with_dense(p); });
  if (!session.ok() && code_of(session) == Code::kMissingLibrary) GTEST_SKIP() << "oneDNN is not installed";
  ASSERT_TRUE(session.ok()) << to_string(session.errors());
  Literal a(DType::kF32, {64, 32});
  for (int64_t i = 0; i < a.size(); ++i) a.set(i, i / 32);
  auto c = (*session)->call((*session)->find_entry("dense"), {a});
  ASSERT_TRUE(c.ok()) << to_string(c.errors());
  for (int64_t i = 0; i < 64 * 16; ++i) ASSERT_EQ((*c)[0].get(i), i / 16 * 32);
}

TEST(Session, AnArenaThatTheSystemDoesNotGiveIsE0804) {
  auto session = open_toy([](format::ProgramT& p) { p.arena_bytes = uint64_t{1} << 46; });
  // A system that overcommits without limit may grant it; then there is nothing to check.
  if (session.ok()) GTEST_SKIP() << "the system grants 64 TiB";
  EXPECT_EQ(code_of(session), Code::kOutOfMemory);
}

TEST(Session, AStepAllocatesNothing) {
  auto session = must_open();
  ASSERT_TRUE(session->call(0, {Literal::scalar_int(DType::kU32, 1)}).ok());
  float loss = 0;
  const void* inputs[] = {kX.data()};
  void* outputs[] = {&loss};
  ASSERT_TRUE(session->run(1, inputs, outputs).ok());
  int64_t before = allocations;
  for (int i = 0; i < 100; ++i) (void)session->run(1, inputs, outputs);
  EXPECT_EQ(allocations - before, 0);
}

TEST(Session, TheTraceIsJsonWithSpansForEntriesAndInstructions) {
  std::string path = temporary("trace.json");
  auto session = must_open(nullptr, {.threads = 1, .trace = path});
  ASSERT_TRUE(session->call(0, {Literal::scalar_int(DType::kU32, 1)}).ok());
  ASSERT_TRUE(session->call(1, {kX}).ok());
  ASSERT_TRUE(session->finish().ok());
  std::ifstream file(path);
  auto trace = nlohmann::json::parse(file);
  std::vector<std::string> names;
  double begin = 0, end = 0;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    names.push_back(event["name"]);
    double ts = event["ts"], dur = event["dur"];
    if (event["name"] == "toy_step") {
      EXPECT_EQ(event["args"]["source"], "toy.cc:12");
      EXPECT_EQ(event["args"]["text"], "auto \"loss\" = sum(w);");
      begin = ts, end = ts + dur;
    } else if (event["name"] == "step") {
      EXPECT_LE(ts, begin);
      EXPECT_GE(ts + dur + 0.002, end);  // printed in steps of a nanosecond
    }
  }
  EXPECT_EQ(names, (std::vector<std::string>{"toy_init", "init", "copy", "toy_step", "step"}));
}

TEST(Session, ATraceThatCannotBeWrittenIsE0803) {
  auto session = must_open(nullptr, {.threads = 1, .trace = "/dev/full"});
  ASSERT_TRUE(session->call(0, {Literal::scalar_int(DType::kU32, 1)}).ok());
  EXPECT_EQ(code_of(session->finish()), Code::kWriteFailed);
}

TEST(Session, DispatchStaysFarBelowTheBudgetOfAMicrosecond) {
  auto session = must_open(
      [](format::ProgramT& p) {
        format::EntryT& entry = *p.entries[3];
        for (int i = 0; i < 1000; ++i) {
          auto copy = std::make_unique<format::InstructionT>(*entry.instructions[0]);
          copy->action.AsLaunch()->kernel = 4;
          entry.instructions.push_back(std::move(copy));
        }
      },
      {.threads = 1});
  ASSERT_TRUE(session->call(0, {Literal::scalar_int(DType::kU32, 1)}).ok());
  Literal y(DType::kF32, {2, 4});
  const void* inputs[] = {kX.data()};
  void* outputs[] = {y.mutable_data()};
  int64_t best = INT64_MAX;
  for (int i = 0; i < 50; ++i) {
    int64_t start = now_ns();
    ASSERT_TRUE(session->run(3, inputs, outputs).ok());
    best = std::min(best, now_ns() - start);
  }
  // Not a benchmark: 50 times what it takes, and still under the budget, so that only a gross mistake fails.
  EXPECT_LT(best / 1000, 1000);
  std::printf("%lld ns per 1000 dispatches\n", static_cast<long long>(best));
}

}  // namespace
}  // namespace nabla::exec

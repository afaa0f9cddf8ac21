// Programs on a GPU that the fake driver plays: results, graphs, loops, sizes, state.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "runtime/base/debug.h"
#include "runtime/exec/test_bundle.h"
#include "runtime/exec/test_gpu.h"

namespace nabla::exec {
namespace {

using format::BaseKind;
using format::ProgramT;

Literal floats(std::vector<int64_t> shape, std::initializer_list<double> values) {
  Literal out(DType::kF32, std::move(shape));
  int64_t i = 0;
  for (double v : values) out.set(i++, v);
  return out;
}

const Literal kX = floats({2, 4}, {1, 2, 3, 4, 10, 20, 30, 40});
Literal integer(int64_t value, DType dtype = DType::kI32) { return Literal::scalar_int(dtype, value); }
std::string temporary(const std::string& name) { return testing::TempDir() + "/" + name; }

std::unique_ptr<Session> must_open(const ProgramChange& change = nullptr, const SessionOptions& options = {}) {
  auto session = open_gpu(change, options);
  NABLA_CHECK(session.ok(), "{}", to_string(session.errors()));
  return std::move(*session);
}

Literal one(Session& session, const char* entry, const std::vector<Literal>& inputs) {
  auto results = session.call(session.find_entry(entry), inputs);
  NABLA_CHECK(results.ok(), "{}", to_string(results.errors()));
  return (*results)[0];
}

TEST(Gpu, ARunAndItsReplaysAsAGraphGiveWhatTheCpuGives) {
  FakeGpu gpu;
  auto session = must_open();
  auto cpu = open_bytes(toy_bundle(), {.threads = 1}).value();
  for (Session* s : {session.get(), cpu.get()}) ASSERT_TRUE(s->call(0, {integer(5, DType::kU32)}).ok());
  for (int i = 0; i < 4; ++i) EXPECT_EQ(one(*session, "step", {kX}), one(*cpu, "step", {kX})) << i;
  // Issued once, then recorded and replayed.
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 1);
  EXPECT_EQ(gpu.count("cuGraphLaunch"), 3);
  EXPECT_EQ(gpu.count("kernel toy_step"), 4);
  for (const char* entry : {"predict", "predict"}) EXPECT_EQ(one(*session, entry, {kX}), one(*cpu, entry, {kX}));
  Literal mask = floats({2}, {1, 1});
  EXPECT_EQ(one(*session, "eval", {kX, mask}), one(*cpu, "eval", {kX, mask}));
  EXPECT_EQ(session->target(), "sm_90a");
}

TEST(Gpu, NothingStaysOnTheGpuBehindASession) {
  FakeGpu gpu;
  {
    auto session = must_open();
    ASSERT_TRUE(session->call(0, {integer(5, DType::kU32)}).ok());
    EXPECT_GT(gpu.live(), 0);
  }
  EXPECT_EQ(gpu.live(), 0);
}

TEST(Gpu, ASessionServesAnotherThread) {
  FakeGpu gpu;
  auto session = must_open();
  ASSERT_TRUE(session->call(0, {integer(5, DType::kU32)}).ok());
  std::thread([&] { EXPECT_EQ(one(*session, "step", {kX}).get(0), 26 + 110); }).join();
}

TEST(Gpu, StateGoesInAndOutAndIntoFiles) {
  FakeGpu gpu;
  std::string path = temporary("gpu.safetensors");
  auto first = must_open(), second = must_open();
  Literal w = floats({4}, {1, 2, 3, 4}), back(DType::kF32, {4});
  ASSERT_TRUE(first->set_state(0, w.data()).ok());
  ASSERT_TRUE(first->get_state(0, back.mutable_data()).ok());
  EXPECT_EQ(back, w);
  ASSERT_TRUE(first->save_state(path).ok());
  ASSERT_TRUE(second->load_state(path).ok());
  EXPECT_EQ(one(*second, "step", {kX}).get(0), 10 + 110);
  auto third = must_open();
  auto lines = third->load_weights({.path = path});
  ASSERT_TRUE(lines.ok()) << to_string(lines.errors());
  EXPECT_EQ(one(*third, "step", {kX}).get(0), 10 + 110);
}

/// Entry `big(x f32[n]) -> y f32[n]`: a copy by way of the GPU.
void add_big(ProgramT& p, int64_t n) {
  format::EntryT& e = add_entry(p, "big");
  e.inputs.push_back(tensor("x", {n}));
  e.outputs.push_back(tensor("y", {n}));
  auto bytes = static_cast<uint64_t>(n) * 4;
  e.instructions.push_back(copy(at(BaseKind::Input, 0, 0, bytes), at(BaseKind::Output, 0, 0, bytes)));
}

TEST(Gpu, ArraysLargerThanTheStagingBuffersComeThrough) {
  FakeGpu gpu;
  constexpr int64_t kSize = 5'000'001;  // 20 MB: five buffers, the last of them not full
  auto session = must_open([](ProgramT& p) { add_big(p, kSize); });
  Literal x(DType::kF32, {kSize});
  for (int64_t i = 0; i < kSize; ++i) x.set(i, static_cast<double>(i % 65521));
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(one(*session, "big", {x}) == x) << i;
}

TEST(Gpu, AKernelMayBeSeveralGrids) {
  FakeGpu gpu;
  auto session = must_open([](ProgramT& p) {
    uint32_t halves = add_kernel(p, {"halves_1", "halves_2"}, 2, 4);
    format::EntryT& e = add_entry(p, "half");
    e.inputs.push_back(tensor("x", {8}));
    e.outputs.push_back(tensor("y", {8}));
    e.instructions.push_back(
        instruction("half", launch(halves, 1, at(BaseKind::Input, 0, 0, 32), at(BaseKind::Output, 0, 0, 32))));
  });
  Literal x = floats({8}, {2, 4, 6, 8, 10, 12, 14, 16});
  for (int i = 0; i < 3; ++i) EXPECT_EQ(one(*session, "half", {x}), floats({8}, {1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(gpu.count("kernel halves_2"), 3);
}

std::unique_ptr<format::InstructionT> loop(uint32_t body, uint16_t counter, int64_t trips, bool reverse) {
  format::LoopT out;
  out.body = body, out.register_ = counter, out.trips = trips, out.reverse = reverse;
  return instruction("loop", std::move(out));
}
template <class... Instruction>
std::vector<std::unique_ptr<format::InstructionT>> list(Instruction... items) {
  std::vector<std::unique_ptr<format::InstructionT>> out;
  (out.push_back(std::move(items)), ...);
  return out;
}

/// Entry `flip(x f32[3,4]) -> y`: rows upside down, element by element, `times` times over.
void add_flip(ProgramT& p, int64_t times) {
  using format::RegisterTerm;
  format::EntryT& e = add_entry(p, "flip");
  e.inputs.push_back(tensor("x", {3, 4}));
  e.outputs.push_back(tensor("y", {3, 4}));
  uint32_t element = add_block(p, list(copy(at(BaseKind::Input, 0, 0, 4, {{0, 16}, {1, 4}}),
                                            at(BaseKind::Output, 0, 32, 4, {{0, -16}, {1, 4}}))));
  uint32_t row = add_block(p, list(loop(element, 1, 4, true)));
  uint32_t all = add_block(p, list(loop(row, 0, 3, false)));
  e.instructions.push_back(loop(all, 2, times, false));
}

Literal counted() { return floats({3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}); }
Literal flipped() { return floats({3, 4}, {8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3}); }

TEST(Gpu, LoopsAreUnrolledIntoTheGraph) {
  FakeGpu gpu;
  auto session = must_open([](ProgramT& p) { add_flip(p, 2); });
  for (int i = 0; i < 3; ++i) {
    int before = gpu.count("cuMemcpyDtoDAsync");
    EXPECT_EQ(one(*session, "flip", {counted()}), flipped());
    EXPECT_EQ(gpu.count("cuMemcpyDtoDAsync") - before, i < 2 ? 24 : 0) << i;  // the third is a replay alone
  }
  EXPECT_EQ(gpu.count("cuGraphLaunch"), 2);
}

// Entry `tell(x f32[4]) -> y f32[4]`: copies x to the arena, prints it, copies it element by element in a loop that prints
// each, and prints y. The fake driver's streams do nothing until somebody waits: a print that did not would show zeros.
void add_prints(ProgramT& p) {
  format::EntryT& e = add_entry(p, "tell");
  e.inputs.push_back(tensor("x", {4}));
  e.outputs.push_back(tensor("y", {4}));
  uint64_t room = p.arena_bytes;
  p.arena_bytes += 16;
  auto print = [](const char* text, std::unique_ptr<format::AddressT> what, std::vector<int64_t> shape) {
    format::DebugT out;
    out.text = text;
    out.operands.push_back(std::move(what));
    out.tensors.push_back(std::make_unique<format::DebugTensorT>());
    out.tensors[0]->dtype = format::DType::F32, out.tensors[0]->shape = std::move(shape);
    return instruction("debug", std::move(out));
  };
  std::vector<std::unique_ptr<format::InstructionT>> body;
  body.push_back(copy(at(BaseKind::Arena, 0, room, 4, {format::RegisterTerm(0, 4)}),
                      at(BaseKind::Output, 0, 0, 4, {format::RegisterTerm(0, 4)})));
  body.push_back(print("element {}", at(BaseKind::Output, 0, 0, 4, {format::RegisterTerm(0, 4)}), {}));
  format::LoopT loop;
  loop.body = add_block(p, std::move(body)), loop.register_ = 0, loop.trips = 4, loop.reverse = true;
  e.instructions.push_back(copy(at(BaseKind::Input, 0, 0, 16), at(BaseKind::Arena, 0, room, 16)));
  e.instructions.push_back(print("x {}", at(BaseKind::Arena, 0, room, 16), {4}));
  e.instructions.push_back(instruction("loop", std::move(loop)));
  e.instructions.push_back(print("y {:.1f}", at(BaseKind::Output, 0, 0, 16), {4}));
}

TEST(Gpu, PrintsShowWhatTheGpuHasComputedInOrder) {
  FakeGpu gpu;
  std::vector<std::string> lines;
  set_debug_sink([&](const DebugEvent& event) -> Status {
    lines.push_back(fmt::format("{} {}: {}", event.entry, event.run, debug_line(event)));
    return Ok{};
  });
  auto session = must_open(add_prints);
  for (int run = 1; run <= 3; ++run) {
    lines.clear();
    EXPECT_EQ(one(*session, "tell", {floats({4}, {1, 2, 3, 4})}), floats({4}, {1, 2, 3, 4}));
    std::vector<std::string> expected = {"x [1, 2, 3, 4]", "element 4", "element 3", "element 2",
                                         "element 1",      "y [1.0, 2.0, 3.0, 4.0]"};
    for (std::string& line : expected) line = fmt::format("tell {}: {}", run, line);
    EXPECT_EQ(lines, expected) << run;
  }
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 0) << "a graph could not print";
  set_debug_sink({});
}

TEST(Gpu, AGraphOfTooManyNodesIsNotMadeAndTheTraceSaysSo) {
  FakeGpu gpu;
  auto session = must_open([](ProgramT& p) { add_flip(p, 5500); });
  for (int i = 0; i < 2; ++i) EXPECT_EQ(one(*session, "flip", {counted()}), flipped());
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 0);
  std::string path = temporary("many.json");
  auto traced = must_open([](ProgramT& p) { add_flip(p, 5500); }, {.trace = path});
  EXPECT_EQ(one(*traced, "flip", {counted()}), flipped());
  ASSERT_TRUE(traced->finish().ok());
  std::ifstream file(path);
  EXPECT_EQ(nlohmann::json::parse(file)["otherData"]["notes"][0],
            "entry `flip`: more than 65536 launches, so that it never runs as a graph");
}

/// Entry `count(limit i32[], kind i32[]) -> n i32[]`: counts to the limit in a While; then a Branch: kind 1 gives 0.
void add_count(ProgramT& p) {
  uint32_t on = add_kernel(p, {"count_on"}, 1, 1), compare = add_kernel(p, {"compare"}, 1, 1);
  format::EntryT& e = add_entry(p, "count");
  for (const char* name : {"limit", "kind", "zero"}) e.inputs.push_back(tensor(name, {}, format::DType::I32));
  e.outputs.push_back(tensor("n", {}, format::DType::I32));
  auto count = [] { return at(BaseKind::Arena, 0, 64, 4); };
  auto go = [] { return at(BaseKind::Arena, 0, 128, 1); };
  auto input = [](uint16_t i) { return at(BaseKind::Input, i, 0, 4); };
  uint32_t condition = add_block(p, list(instruction("compare", launch(compare, 1, input(0), count(), go()))));
  uint32_t body = add_block(p, list(instruction("count_on", launch(on, 1, input(0), count(), go()))));
  uint32_t keep = add_block(p, list(copy(count(), at(BaseKind::Output, 0, 0, 4))));
  uint32_t clear = add_block(p, list(copy(input(2), at(BaseKind::Output, 0, 0, 4))));
  e.instructions.push_back(copy(input(2), count()));
  format::WhileT loop;
  loop.condition = condition, loop.body = body, loop.predicate = go();
  e.instructions.push_back(instruction("while", std::move(loop)));
  format::BranchT branch;
  branch.index = input(1), branch.index_dtype = format::DType::I32, branch.blocks = {keep, clear};
  e.instructions.push_back(instruction("branch", std::move(branch)));
}

TEST(Gpu, WhilesAndBranchesReadTheirDecisionsFromTheGpu) {
  FakeGpu gpu;
  auto session = must_open(add_count);
  for (int limit : {3, 0, 17})
    for (int kind : {0, 1, -2})
      EXPECT_EQ(one(*session, "count", {integer(limit), integer(kind), integer(0)}).get(0), kind == 1 ? 0 : limit);
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 0);
}

/// Entry `twice(x f32[rows,4]) -> y f32[rows,4]`, rows in [0, 8], on a grid of as many blocks.
void add_twice(ProgramT& p) {
  auto symbol = std::make_unique<format::SymbolT>();
  symbol->name = "rows", symbol->min = 0, symbol->max = 8;
  p.symbols.push_back(std::move(symbol));
  auto size = std::make_unique<format::SizeT>();
  size->steps = {format::SizeStep(format::SizeOp::Symbol, 0)};
  size->max = 8, size->text = "rows";
  p.sizes.push_back(std::move(size));
  uint32_t kernel = add_kernel(p, {"twice"}, 8, 4);
  p.kernels[kernel]->grids[0]->blocks_size = 1;
  format::EntryT& e = add_entry(p, "twice");
  for (auto* list : {&e.inputs, &e.outputs}) {
    list->push_back(tensor(list == &e.inputs ? "x" : "y", {8, 4}));
    list->back()->symbols = {"rows", ""};
    list->back()->sizes = {1, 0};
  }
  e.sources.push_back(std::make_unique<format::SymbolSourceT>());
  format::LaunchT action = launch(kernel, 8, at(BaseKind::Input, 0, 0, 128), at(BaseKind::Output, 0, 0, 128));
  action.extents = {0};
  action.units_size = 1;
  e.instructions.push_back(instruction("twice", std::move(action)));
}

void expect_twice(Session& session, int64_t rows, int64_t first) {
  Literal x(DType::kF32, {rows, 4}), want(DType::kF32, {rows, 4});
  for (int64_t i = 0; i < rows * 4; ++i)
    x.set(i, static_cast<double>(i + first)), want.set(i, 2.0 * static_cast<double>(i + first));
  EXPECT_EQ(one(session, "twice", {x}), want) << rows;
}

TEST(Gpu, SizesAreThoseOfTheRun) {
  FakeGpu gpu;
  auto session = must_open(add_twice);
  for (int round = 0; round < 3; ++round)
    for (int64_t rows : {3, 8, 0, 1}) expect_twice(*session, rows, round);
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 4);
  EXPECT_EQ(gpu.count("kernel twice"), 9);  // none for no rows
}

TEST(Gpu, SizesUpToTheNextPowerOfTwoShareAGraph) {
  FakeGpu gpu;
  auto session = must_open(add_twice);
  for (int64_t rows : {8, 5, 6, 7, 5, 8, 3, 4}) expect_twice(*session, rows, rows);
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 2);  // up to 8, which 5 records, and up to 4
  EXPECT_EQ(gpu.count("cuGraphLaunch"), 6);
}

TEST(Gpu, DeclaredBucketsAreShared) {
  FakeGpu gpu;
  auto session = must_open([](ProgramT& p) {
    add_twice(p);
    p.symbols[0]->buckets = {1, 6};
  });
  for (int64_t rows : {2, 6, 3, 7, 8, 1}) expect_twice(*session, rows, rows);
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 2);  // up to 6, which 6 records, and up to 8
}

// What such a grid does may hang on the number of its blocks, as in kernels of the user's.
TEST(Gpu, GridsOfAnExactSizeShareNothing) {
  FakeGpu gpu;
  auto session = must_open([](ProgramT& p) {
    add_twice(p);
    p.kernels.back()->grids[0]->exact = true;
  });
  for (int64_t rows : {5, 6, 7, 5, 6, 7}) expect_twice(*session, rows, rows);
  EXPECT_EQ(gpu.count("cuStreamBeginCapture"), 3);
}

TEST(Gpu, AnotherThreadMayEndASession) {
  FakeGpu gpu;
  auto session = must_open(add_twice);
  for (int i = 0; i < 2; ++i) (void)one(*session, "twice", {Literal(DType::kF32, {2, 4})});
  std::thread([&] { session.reset(); }).join();
  EXPECT_EQ(gpu.live(), 0);
}

TEST(Gpu, TheTraceHasTheKernelsAndTheGraphThatWouldRun) {
  FakeGpu gpu;
  std::string path = temporary("gpu_trace.json");
  auto session = must_open(nullptr, {.trace = path});
  ASSERT_TRUE(session->call(0, {integer(1, DType::kU32)}).ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(session->call(1, {kX}).ok());
  ASSERT_TRUE(session->finish().ok());
  EXPECT_EQ(gpu.count("cuGraphLaunch"), 0);
  std::ifstream file(path);
  auto trace = nlohmann::json::parse(file);
  std::vector<std::string> names;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    names.push_back(event["name"]);
    EXPECT_GE(event["dur"].get<double>(), 0);
    if (event["name"] == "toy_step") {
      EXPECT_EQ(event["args"]["source"], "toy.cc:12");
    }
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{"toy_init", "init", "copy", "toy_step", "step", "copy", "toy_step", "step"}));
  EXPECT_EQ(trace["otherData"]["notes"],
            (std::vector<std::string>{"entry `init`: 1 launch, one graph without a trace",
                                      "entry `step`: 2 launches, one graph without a trace"}));
}

TEST(Gpu, CheckNanLooksAtWhatIsOnTheGpu) {
  FakeGpu gpu;
  ProgramChange known = [](ProgramT& p) {
    auto operands = [](format::InstructionT& i, std::vector<std::pair<format::DType, bool>> list) {
      for (auto [dtype, written] : list) i.operands.emplace_back(dtype, written, 0);
    };
    using format::DType;
    operands(*p.entries[0]->instructions[0], {{DType::U32, false}, {DType::F32, true}});
    operands(*p.entries[1]->instructions[0], {{DType::F32, false}, {DType::F32, true}});
    operands(*p.entries[1]->instructions[1], {{DType::F32, false}, {DType::F32, true}, {DType::F32, true}});
    for (int e : {2, 3})
      operands(*p.entries[e]->instructions[0], {{DType::F32, false}, {DType::F32, false}, {DType::F32, true}});
  };
  auto session = must_open(known, {.check_nan = true});
  Literal none = floats({2}, {0, 0});
  auto result = session->call(session->find_entry("eval"), {floats({2, 4}, {0, 1, 1, 1, 0, 1, 1, 1}), none});
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(code_name(result.errors()[0].code), "E0708");
  EXPECT_EQ(result.errors()[0].message,
            "entry `eval`: result 0 of `toy_eval` has 1 NaN and 0 infinities among 1 element of f32; the first is "
            "element 0, NaN");
  EXPECT_EQ(one(*session, "eval", {kX, floats({2}, {1, 0})}).get(0), 1);
}

}  // namespace
}  // namespace nabla::exec

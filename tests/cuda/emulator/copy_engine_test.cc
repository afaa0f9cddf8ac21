// Boxes of the copy engine (TMA) and the barriers that count their bytes, as the emulator models them, and what it finds of misuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "codegen/cuda/printer.h"
#include "tests/cuda/emulator/emulator.h"
#include "tests/cuda/emulator/tensor_map.h"

namespace nabla::emulator {
namespace {

constexpr uint64_t kColumns = 72, kRows = 11, kSheets = 3;  // of an array of halves
constexpr uint32_t kBox[] = {64, 16, 1}, kOneByOne[] = {1, 1, 1};

struct Request {
  std::vector<uint64_t> sizes = {kColumns, kRows, kSheets}, strides = {kColumns * 2, kColumns * kRows * 2};
  std::vector<uint32_t> box = {kBox, kBox + 3};
  uint64_t offset = 0;
  int swizzle = kSwizzle128;
};
const char* make(const Request& r, void* array, NbEmuTensorMap& out) {
  return make_tensor_map({kUint16, static_cast<uint32_t>(r.sizes.size()), static_cast<char*>(array) + r.offset, r.sizes.data(),
                          r.strides.data(), r.box.data(), kOneByOne, 0, r.swizzle, 0, 0},
                         out);
}

std::string kernel(const std::string& before, const std::string& wait, unsigned bytes = 2048) {
  return fmt::format(R"({}
extern "C" __global__ void boxes(const unsigned short* x, unsigned short* y, const __grid_constant__ nb_tensor_map map0_) {{
  NB_SHARED_TILES(unsigned short, room);
  nb_u64* const there = (nb_u64*)(room + 2 * 1024);
  nb_copies_begin<2>(there);
  for (int t = 0; t < 4; ++t) {{
    {}
    if (threadIdx.x == 0) {{
      nb_copies_expect(there + t % 2, {});
      nb_copy_box(room + t % 2 * 1024, map0_, there + t % 2, t * 16 - 8, 8, t % 3);
    }}
    {}
    __syncthreads();
    for (int i = threadIdx.x; i < 1024; i += 32) y[t * 1024 + i] = room[t % 2 * 1024 + nb_wg_place<true>(i / 64, i % 64)];
    __syncthreads();
  }}
}}
)",
                     codegen::cuda_prelude(), before, bytes, wait);
}
constexpr const char* kWait = "nb_copies_wait(there + t % 2, t / 2 % 2);";

struct Done {
  Report report;
  std::vector<uint16_t> x, y;
};
Done run(const std::string& text, bool checked, const Options& options = {}, unsigned threads = 32) {
  Machine machine(checked);
  Done out;
  out.x.resize(kColumns * kRows * kSheets), out.y.resize(4 * 1024);
  std::iota(out.x.begin(), out.x.end(), static_cast<uint16_t>(1));
  const auto bytes = [](const std::vector<uint16_t>& of) { return static_cast<int64_t>(of.size() * sizeof of[0]); };
  void *x = machine.allocate(bytes(out.x), "x"), *y = machine.allocate(bytes(out.y), "y");
  machine.write(x, out.x.data(), bytes(out.x));
  NbEmuTensorMap map;
  EXPECT_EQ(make({}, x, map), nullptr);
  auto object = Object::compile(text, checked);
  EXPECT_TRUE(object.ok()) << to_string(object.errors());
  const size_t shared = threads == 32 ? 2 * 2048 + 16 : 2 * 64 * 64 * 2;
  if (object.ok()) out.report = machine.launch(**object, "boxes", {1, threads, shared}, {&x, &y, &map}, options);
  std::memcpy(out.y.data(), y, static_cast<size_t>(bytes(out.y)));
  return out;
}

TEST(CopyEngine, BringsBoxesAndZerosBeyondTheArray) {
  for (bool checked : {false, true})
    for (bool late : {false, true})
      for (Order order : {Order::kForward, Order::kReverse, Order::kRandom}) {
        Done d = run(kernel("", kWait), checked, {order, 3, late});
        ASSERT_TRUE(d.report.clean()) << d.report.str();
        for (int t = 0; t < 4; ++t)
          for (int i = 0; i < 1024; ++i) {
            const int row = 8 + i / 64, column = t * 16 - 8 + i % 64;
            const bool inside = row < static_cast<int>(kRows) && column >= 0 && column < static_cast<int>(kColumns);
            ASSERT_EQ(d.y[t * 1024 + i], inside ? d.x[(t % 3 * kRows + row) * kColumns + column] : 0) << t << " " << i;
          }
      }
}

TEST(CopyEngine, MisuseIsFound) {
  auto finds = [](const std::string& text, const std::string& what, bool late = true) {
    const std::string got = run(text, true, {Order::kForward, 1, late}).report.str();
    EXPECT_NE(got.find(what), std::string::npos) << what << "\n" << got;
  };
  finds(kernel("", ""), "that a cp.async of thread 0 still fills");
  // The phase before is over already: what is waited for is not.
  finds(kernel("", "nb_copies_wait(there + t % 2, (t / 2 + 1) % 2);"), "that a cp.async of thread 0 still fills");
  finds(kernel("", kWait, 2064), "32 of 32 threads wait for ever: 32 in mbarrier.try_wait");
  finds(kernel("", kWait, 2032), "deadlock");
  finds(kernel("if (t == 1) nb_copies_expect(there, 0);", kWait), "deadlock");  // an arrival too many ends the phase too early
  finds(kernel("if (t > 1) { nb_copies_expect(there, 64); nb_copies_expect(there, 0); }", kWait), "more than 1 threads arrive");
  finds(kernel("", "nb_copies_wait(there + 2, 0);"), "mbarrier.try_wait at a barrier that nobody has initialised");
  finds(kernel("nb_copy_box(room + 8, map0_, there, 0, 0, 0);", kWait), "begins at a multiple of 1024");
  finds(kernel("nb_copy_box(room, map0_, there, 0, 0);", kWait), "of 2 dimensions with a tensor map that is none, or has others");
}

// Threads fill a tile before TMA does. `fence` stands between their stores and the barrier, `later` between the barrier and TMA.
std::string filled_by_threads(const std::string& fence, const std::string& later = "") {
  return kernel("room[t % 2 * 1024 + threadIdx.x] = 7; " + fence + " __syncthreads(); " + later, kWait);
}

TEST(CopyEngine, StoresOfThreadsAreFencedBeforeTmaWritesThere) {
  const std::string fence = "nb_wg_see_copies();", elsewhere = "if (threadIdx.x == 5) ";
  auto found = [](const std::string& text, bool late) { return run(text, true, {Order::kForward, 1, late}).report.str(); };
  const std::string what = "by TMA, which thread 0 has written by stores or cp.async: fence.proxy.async, then a barrier, comes between";
  for (bool late : {false, true}) {
    EXPECT_EQ(found(filled_by_threads(fence), late), "");
    EXPECT_EQ(found(filled_by_threads("", fence), late), "");  // the thread that asks for the box has seen all stores
    EXPECT_NE(found(filled_by_threads(""), late).find(what), std::string::npos);
    // A fence of another thread, and one before the stores, order nothing.
    EXPECT_NE(found(filled_by_threads("", elsewhere + fence), late).find("proxy: "), std::string::npos);
    EXPECT_NE(found(kernel(fence + " room[t % 2 * 1024 + threadIdx.x] = 7; __syncthreads();", kWait), late).find("proxy: "),
              std::string::npos);
  }
}

// A kernel with one product of a warpgroup: 64 x 8 sums of ones over 64 elements of k. `body` is the code that multiplies, which a test
// may make wrong. `fence` is the code between the stores of the factors and the barrier.
std::string product(const std::string& body, const std::string& fence = "nb_wg_see_copies();") {
  return std::string(codegen::cuda_prelude()) + R"(
extern "C" __global__ void boxes(const unsigned short* x, unsigned short* y, const __grid_constant__ nb_tensor_map map0_) {
  NB_SHARED_TILES(nb_bf16, room);
  for (int i = threadIdx.x; i < 128 * 64; i += 128) room[i] = nb_narrow(nb_bf16{}, 1.0f);
  )" + fence + R"(
  __syncthreads();
  float d[1][1][4] = {};
  )" + body + R"(
  for (int e = 0; e < 4; ++e) y[threadIdx.x * 4 + e] = d[0][0][e] == 128.0f;
}
)";
}
constexpr const char* kProduct = "for (int s = 0; s < 4; ++s) nb_wg_mma<true, true>(d, room, room + 64 * 64, s); nb_wg_commit(); ";

TEST(Wgmma, SumsAreThereAfterTheWaitForTheirGroup) {
  auto right = [](const std::string& body, bool late) {
    Done d = run(product(body), true, {Order::kForward, 1, late}, 128);
    const auto good = std::count(d.y.begin(), d.y.begin() + 512, 1);
    return d.report.clean() ? fmt::format("{} of 512", good) : d.report.str();
  };
  const std::string twice = std::string(kProduct) + kProduct;
  for (bool late : {false, true}) {
    EXPECT_EQ(right(twice + "nb_wg_wait<0>();", late), "512 of 512");
    EXPECT_EQ(right(std::string(kProduct) + "nb_wg_wait<0>(); " + kProduct + "nb_wg_wait<0>();", late), "512 of 512");
    // The last group may still be under way: its sums are no numbers yet.
    EXPECT_EQ(right(twice + "nb_wg_wait<1>(); for (int e = 0; e < 4; ++e) y[threadIdx.x * 4 + e] = d[0][0][e] == d[0][0][e]; "
                            "nb_wg_wait<0>(); for (int e = 0; e < 4; ++e) d[0][0][e] = y[threadIdx.x * 4 + e] ? 0 : 128;", late),
              "512 of 512");
    EXPECT_NE(right(twice, late).find("the thread ends before it has waited for sums of wgmma"), std::string::npos);
    // A group that is not committed is not waited for.
    EXPECT_NE(right("nb_wg_mma<true, true>(d, room, room + 64 * 64, 0); nb_wg_wait<0>();", late).find("before it has waited"),
              std::string::npos);
    EXPECT_NE(right("if (threadIdx.x != 5) { " + twice + "} nb_wg_wait<0>();", late).find("wgmma"), std::string::npos);
    EXPECT_NE(right("if (threadIdx.x < 64) { " + twice + "nb_wg_wait<0>(); }", late).find("issue 8, 8, 0 and 0 wgmma"), std::string::npos);
  }
  // A tile that is written again before the wait.
  const std::string overwritten =
      twice + "__syncthreads(); for (int i = threadIdx.x; i < 64 * 64; i += 128) room[i] = nb_narrow(nb_bf16{}, 2.0f); "
              "__syncthreads(); nb_wg_wait<0>();";
  EXPECT_NE(right(overwritten, true), "512 of 512");
}

// wgmma reads shared memory by another way than stores write it (the asynchronous proxy).
TEST(Wgmma, ReadsStoresOfThreadsThatAFenceHasShownIt) {
  const std::string body = std::string(kProduct) + kProduct + "nb_wg_wait<0>();";
  auto found = [](const std::string& text, bool late) { return run(text, true, {Order::kForward, 1, late}, 128).report.str(); };
  for (bool late : {false, true}) {
    EXPECT_EQ(found(product(body), late), "");
    EXPECT_EQ(found(product("nb_wg_see_copies(); " + body, ""), late), "");
    EXPECT_NE(found(product(body, ""), late).find("by wgmma, which thread 0 has written by stores or cp.async"), std::string::npos);
    EXPECT_NE(found(product(body, "if (threadIdx.x != 9) nb_wg_see_copies();"), late).find("by wgmma, which thread 9 has written"),
              std::string::npos);
    // Copies of cp.async are there after the wait for them: a fence before it is too early.
    const std::string copied = "nb_cp_async_16(room + threadIdx.x * 8, (const nb_bf16*)x + threadIdx.x * 8); nb_cp_commit(); ";
    const std::string wait = "nb_cp_wait<0>(); ", fence = "nb_wg_see_copies(); ";
    EXPECT_EQ(found(product(copied + wait + fence + "__syncthreads(); " + body), late), "");
    EXPECT_NE(found(product(copied + fence + wait + "__syncthreads(); " + body), late).find("proxy: "), std::string::npos);
  }
}

TEST(CopyEngine, MapsAreMadeByTheDriversRules) {
  alignas(64) static char array[4096];
  auto refused = [](const std::function<void(Request&)>& change) -> std::string {
    Request r;
    change(r);
    NbEmuTensorMap map;
    const char* why = make(r, array, map);
    return why == nullptr ? "made" : why;
  };
  EXPECT_EQ(refused([](Request&) {}), "made");
  EXPECT_EQ(refused([](Request& r) { r.offset = 8; }), "an address that is no multiple of 16");
  EXPECT_EQ(refused([](Request& r) { r.sizes[1] = 0; }), "a size beyond 1 to 2^32");
  EXPECT_EQ(refused([](Request& r) { r.box[1] = 257; }), "a box beyond 1 to 256 elements");
  EXPECT_EQ(refused([](Request& r) { r.strides[0] = 72; }), "a stride that is no multiple of 16 below 2^40");
  EXPECT_EQ(refused([](Request& r) { r.strides[1] = uint64_t{1} << 40; }), "a stride that is no multiple of 16 below 2^40");
  EXPECT_EQ(refused([](Request& r) { r.strides[1] = 160; }), "strides that are no multiples of each other");
  EXPECT_EQ(refused([](Request& r) { r.sizes.assign(6, 8); }), "a rank beyond 1 to 5");
  EXPECT_EQ(refused([](Request& r) { r.swizzle = 0; }), "not emulated: rows of other than 128 swizzled bytes");
}

}  // namespace
}  // namespace nabla::emulator

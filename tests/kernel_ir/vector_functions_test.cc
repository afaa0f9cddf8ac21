// The functions of the CPU's prelude, for every dtype, on vectors, tails and scalars, and at sizes on both sides of the thresholds
// at which the printer or the prelude chooses other code: past the caches, large kernels, blocks of sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "ir/kernel_ir/scalar.h"
#include "tests/kernel_ir/nine_kernels.h"

namespace nabla::kernel_ir {
namespace {

const char* const kTargets[] = {"cpu:x86-64-v3", "cpu:native"};

std::vector<DType> all_dtypes() {
  std::vector<DType> out;
  for (int d = 0; d < kDTypeCount; ++d) out.push_back(static_cast<DType>(d));
  return out;
}

// A kernel that stores `values` of x and z, all of `from`, in results of `to`.
Kernel elementwise(DType from, DType to, int64_t n, const std::vector<std::string>& values) {
  std::string text = fmt::format("kernel @f(in x: {0}[{1}], in z: {0}[{1}]", name_of(from), n);
  for (size_t i = 0; i < values.size(); ++i) text += fmt::format(", out y{}: {}[{}]", i, name_of(to), n);
  text += fmt::format(") {{\n  axes i = {0}\n  schedule unit {0} units 1 threads 1 vector i\n  for i {{\n", n);
  for (size_t i = 0; i < values.size(); ++i) text += fmt::format("    store y{}[i] = {}\n", i, values[i]);
  return parse_kernel(text + "  }\n}\n", "elementwise.nbk").value();
}

// Numbers at which functions change their method, then random ones; of integers random bits.
Literal numbers(DType d, int64_t n, unsigned seed) {
  std::vector<double> special{0.0,   -0.0,   1,      -1,     0.5,    -0.5,  2,      -2,    HUGE_VAL, -HUGE_VAL, NAN,    1e-3,
                              -1e-3, 1e-12,  -1e-20, 1e-21,  -1e-22, 1e-30, 1e-38,  1e-39, -1e-40,   1e-45,     -1e-45, 3e38,
                              -3e38, 88.7,   88.8,   -87.3,  -87.5,  -95,   -103.9, -104,  -1e9,     127.9,     128,    -126,
                              -127,  -149,   -150,   10.35,  9.5,    65504, 1e4,    -1e4,  1e20,     0.99,      -0.99,  1.5,
                              0.4,   -0.625, 2.5,    -16.25, 16.25,  1e9,   -1e9,   1e30,  0.7,      -0.3,      3.95,   1e-10};
  std::mt19937_64 rng(seed);
  std::shuffle(special.begin(), special.end(), rng);
  Literal out(d, {n});
  for (int64_t i = 0; i < n; ++i) {
    if (is_float(d))
      out.set(i, i < static_cast<int64_t>(special.size()) ? special[i] : std::uniform_real_distribution<double>(-4, 4)(rng));
    else
      out.set_i(i, i % 3 == 0 ? static_cast<int64_t>(rng() % 9) - 4 : static_cast<int64_t>(rng()));
  }
  return out;
}

// What distance from `want` is rounding: in f32 some units of the last place, or of an intermediate result near 1.
double tolerance(DType d, double want) {
  struct Row {
    double last, smallest;  // relative distance of neighbours, and the smallest number
  };
  auto row = [d]() -> Row {
    switch (d) {
      case DType::kF64: return {0x1p-52, 0x1p-1074};
      case DType::kF16: return {0x1p-10, 0x1p-24};
      case DType::kBF16: return {0x1p-7, 0x1p-133};
      case DType::kF8E4M3: return {0x1p-3, 0x1p-9};
      case DType::kF8E5M2: return {0x1p-2, 0x1p-16};
      default: return {0x1p-23, 0x1p-149};
    }
  }();
  double computed = d == DType::kF64 ? 0x1p-52 : 0x1p-23;
  return (8 * computed + row.last) * std::fabs(want) + std::min(computed, std::fabs(want)) + row.smallest;
}

void expect_same(const Literal& want, const Literal& got, const std::string& what, const Literal& x, const Literal& z) {
  const DType d = want.dtype();
  for (int64_t i = 0; i < want.size(); ++i) {
    if (!is_float(d)) {
      ASSERT_EQ(want.get_i(i), got.get_i(i)) << what << " of " << x.get(i) << ", " << z.get(i) << " at " << i;
      continue;
    }
    double w = want.get(i), g = got.get(i);
    bool same = std::isnan(w)                    ? std::isnan(g)
                : std::isinf(w) || std::isinf(g) ? w == g
                                                 : std::fabs(w - g) <= tolerance(d, w);
    ASSERT_TRUE(same) << what << " of " << x.get(i) << ", " << z.get(i) << " at " << i << ": " << w << " and " << g;
  }
}

struct Case {
  std::string what;
  Kernel kernel;
};

void expect_interpreted(const std::vector<Case>& cases, const ir::Target& target) {
  std::vector<Kernel> kernels;
  for (const Case& c : cases) kernels.push_back(c.kernel);
  CompiledKernels compiled(kernels, target);
  for (size_t i = 0; i < cases.size(); ++i) {
    const std::vector<Buffer>& buffers = kernels[i].buffers;
    const DType from = buffers[0].dtype;
    const int64_t n = buffers[0].shape[0].value();
    std::vector<Literal> want{numbers(from, n, 1), numbers(from, n, 2)};
    for (size_t b = 2; b < buffers.size(); ++b) want.emplace_back(buffers[b].dtype, std::vector<int64_t>{n});
    std::vector<Literal> got = want;
    std::vector<Literal*> wanted;
    for (Literal& b : want) wanted.push_back(&b);
    interpret(kernels[i], wanted);
    std::vector<void*> args;
    for (Literal& b : got) args.push_back(b.mutable_data());
    compiled.run(i, args);
    for (size_t b = 2; b < buffers.size(); ++b)
      expect_same(want[b], got[b], fmt::format("{} {} for {}", cases[i].what, buffers[b].name, target.name), want[0], want[1]);
  }
}

// Calls of all functions that take operands of `d` and have results of `to`.
std::vector<std::string> calls_of(DType d, ResultKind result) {
  std::vector<std::string> out;
  for (const ScalarFn& fn : all_scalars()) {
    if (fn.result != result || !(is_float(d) ? fn.eval_float != nullptr : fn.eval_int != nullptr)) continue;
    // Index arithmetic is defined for positive divisors; functions of bits are of no use for bool.
    if (fn.name == "floordiv" || fn.name == "mod") continue;
    bool of_bool = fn.name == "not" || fn.name == "and" || fn.name == "or" || fn.name == "xor" || fn.result == ResultKind::kBool;
    if (d == DType::kBool && !of_bool) continue;
    out.push_back(fmt::format("{}(x[i]{})", fn.name, fn.arity == 1 ? "" : ", z[i]"));
  }
  return out;
}

TEST(VectorFunctions, AgreeWithTheInterpreter) {
  std::vector<Case> cases;
  for (DType d : all_dtypes())
    for (ResultKind result : {ResultKind::kSame, ResultKind::kBool})
      for (const std::string& call : calls_of(d, result)) {
        if (d != DType::kF32 && d != DType::kI64) break;  // the others below
        cases.push_back({fmt::format("{} {}", name_of(d), call),
                         elementwise(d, result == ResultKind::kSame ? d : DType::kBool, 67, {call})});
      }
  expect_interpreted(cases, ir::find_target("cpu:native").value());
}

// Kernels of many functions call them, and load by calls.
TEST(VectorFunctions, AgreeForEveryDtypeInLargeKernels) {
  std::vector<Case> cases;
  for (DType d : all_dtypes())
    for (ResultKind result : {ResultKind::kSame, ResultKind::kBool})
      cases.push_back({fmt::format("{} large", name_of(d)),
                       elementwise(d, result == ResultKind::kSame ? d : DType::kBool, 67, calls_of(d, result))});
  expect_interpreted(cases, ir::find_target("cpu").value());
}

// Bits of every kind of number, of NaNs too.
std::vector<char> random_bits(DType d, int64_t n, unsigned seed) {
  std::mt19937_64 rng(seed);
  std::vector<char> out(static_cast<size_t>(n * bytes_of(d)));
  for (char& c : out) c = static_cast<char>(d == DType::kBool ? rng() & 1 : rng());
  for (int64_t i = 0; i < n && is_float(d) && i < 8; ++i) {  // a quiet and a signalling NaN among them
    uint64_t all = ~uint64_t{0}, bits = all >> (64 - 8 * bytes_of(d)) >> 1;
    if (i % 2 == 1 && d != DType::kF8E4M3) {
      Literal infinity = Literal::scalar(d, HUGE_VAL);
      bits = 0, std::memcpy(&bits, infinity.data(), static_cast<size_t>(bytes_of(d))), bits |= 1;
    }
    std::memcpy(out.data() + i * bytes_of(d), &bits, static_cast<size_t>(bytes_of(d)));
  }
  return out;
}

// Memory that begins at a cache line, or `bytes` after.
class Aligned {
 public:
  Aligned(size_t size, size_t bytes) : bytes_(size + bytes + 64) {
    size_t at = reinterpret_cast<size_t>(bytes_.data());
    data_ = bytes_.data() + (at + 63) / 64 * 64 - at + bytes;
  }
  char* data() { return data_; }

 private:
  std::vector<char> bytes_;
  char* data_;
};

void expect_moves(const std::vector<Kernel>& kernels, const ir::Target& target, const std::string& what) {
  CompiledKernels compiled(kernels, target);
  for (size_t i = 0; i < kernels.size(); ++i) {
    const Buffer &x = kernels[i].buffers[0], &y = kernels[i].buffers[2];
    std::vector<char> from = random_bits(x.dtype, x.shape[0].value(), static_cast<unsigned>(i));
    for (int shift : {0, bytes_of(y.dtype)}) {
      Aligned to(from.size(), static_cast<size_t>(shift));
      compiled.run(i, {from.data(), from.data(), to.data()});
      ASSERT_EQ(std::memcmp(from.data(), to.data(), from.size()), 0)
          << what << " " << print(kernels[i]) << " for " << target.name << ", " << shift << " bytes after a cache line";
    }
  }
}

TEST(VectorFunctions, MovesCopyBitsIntoTheCachesAndPastThem) {
  for (const char* name : kTargets) {
    ir::Target target = ir::find_target(name).value();
    std::vector<Kernel> kernels;
    for (DType d : all_dtypes())
      for (int64_t n : {7, 16, 131}) kernels.push_back(elementwise(d, d, n, {"x[i]"}));
    expect_moves(kernels, target, "stored");
    target.stream_bytes = 0;
    expect_moves(kernels, target, "streamed");
  }
}

TEST(VectorFunctions, BitcastsCopyBits) {
  std::vector<Kernel> kernels;
  for (DType from : all_dtypes())
    for (DType to : all_dtypes()) {
      if (from == DType::kBool || to == DType::kBool || bytes_of(from) != bytes_of(to)) continue;
      kernels.push_back(elementwise(from, to, 37, {fmt::format("bitcast.{}(x[i])", name_of(to))}));
    }
  expect_moves(kernels, ir::find_target("cpu:native").value(), "bitcast");
}

// Arithmetic on 64 and on 32 bits past the caches, where the number of lanes is that of the widest dtype.
TEST(VectorFunctions, ResultsPastTheCachesAgree) {
  for (const char* name : kTargets) {
    ir::Target target = ir::find_target(name).value();
    target.stream_bytes = 0;
    std::vector<Case> cases;
    for (DType d : all_dtypes()) {
      if (d == DType::kBool) continue;
      cases.push_back({fmt::format("{} sum", name_of(d)), elementwise(d, d, 67, {"x[i] + z[i]"})});
      for (DType to : {DType::kF64, DType::kI64, DType::kF32, DType::kU8})
        cases.push_back({fmt::format("{} to {}", name_of(d), name_of(to)),
                         elementwise(d, to, 67, {fmt::format("convert.{}(x[i])", name_of(to))})});
    }
    expect_interpreted(cases, target);
  }
}

// ---- Sums

struct Sum {
  std::string axes, names, of;
  double want, tolerance;
  std::string loop = "o", over = "o = 1";  ///< the axis of the results
  std::string schedule = "unit 1 units 1 threads 1";
};

// Broadcast and counted elements need no memory.
std::vector<Sum> long_sums() {
  const double mixed = 64 * (65535.0 * 32768), tenths = 4e6 * 0.1f;
  return {{"i = 2147483648", "i", "1:f32", 0x1p31, 0},
          {"i = 65537, j = 4099", "i, j", "1:f32", 65537.0 * 4099, 1e-7 * 65537 * 4099},
          {"i = 16777217, j = 3, k = 2", "i, j, k", "1:f32", 6 * 16777217.0, 6},  // each of six sums is rounded
          // All numbers below 2^16, in a mixed order, 64 times.
          {"i = 4194304", "i", "convert.f32(mod(i * 7919, 65536))", mixed, 1e-7 * mixed},
          {"i = 4000000", "i", "0.1:f32", tenths, 4e-7 * tenths},
          // Columns: an accumulator in each lane, and in no lane at all.
          {"i = 4000000", "i", "x[o]", tenths, 4e-7 * tenths, "o", "o = 40", "unit 40 units 1 threads 1 vector o"},
          {"i = 4000000", "i", "x[o]", tenths, 4e-7 * tenths, "o", "o = 2", "unit 1 units 2 threads 1"}};
}

TEST(LongSums, GrowAndStayAccurate) {
  std::vector<Kernel> kernels;
  for (const Sum& s : long_sums())
    kernels.push_back(parse_kernel(fmt::format("kernel @s(in x: f32[40], out y: f32[40]) {{\n  axes {}, {}\n  schedule {}\n  for o {{\n"
                                               "    let s: f32 = sum({}) {}\n    store y[o] = s\n  }}\n}}\n",
                                               s.over, s.axes, s.schedule, s.names, s.of),
                                   "sum.nbk")
                          .value());
  for (const char* name : kTargets)
    for (bool fixed : {false, true}) {
      ir::Target target = ir::find_target(name).value();
      target.deterministic = fixed;
      CompiledKernels compiled(kernels, target);
      for (size_t i = 0; i < kernels.size(); ++i) {
        Literal x(DType::kF32, {40}), y(DType::kF32, {40});
        for (int64_t j = 0; j < 40; ++j) x.set(j, 0.1);
        compiled.run(i, {x.mutable_data(), y.mutable_data()});
        for (int64_t j = 0; j < kernels[i].axes[0].extent.value(); ++j)
          ASSERT_NEAR(y.get(j), long_sums()[i].want, long_sums()[i].tolerance) << name << " " << fixed << " " << print(kernels[i]);
      }
    }
}

// Reductions of every dtype and combiner at lengths around a block of each number of lanes.
TEST(Reductions, AgreeAroundBlocks) {
  const char* const kCombiners[] = {"sum", "prod", "max", "min", "and", "or"};
  for (bool fixed : {false, true}) {
    std::vector<Kernel> kernels;
    std::vector<std::string> names;
    for (DType d : {DType::kF32, DType::kF64, DType::kI32, DType::kBF16, DType::kBool})
      for (const char* combiner : kCombiners)
        for (int64_t n : {31, 2049}) {
          bool bits = std::string_view(combiner) == "and" || std::string_view(combiner) == "or";
          if ((bits && is_float(d)) || (!bits && d == DType::kBool)) continue;
          std::string text = fmt::format("kernel @s(in x: {0}[{1}], out y: {0}[1]) {{\n  axes o = 1, i = {1}\n"
                                         "  schedule unit 1 units 1 threads 1\n"
                                         "  for o {{\n    let s: {0} = {2}(i) x[i]\n    store y[o] = s\n  }}\n}}\n",
                                         name_of(d), n, combiner);
          kernels.push_back(parse_kernel(text, "reduction.nbk").value());
          names.push_back(fmt::format("{} of {} {}", combiner, n, name_of(d)));
        }
    ir::Target target = ir::find_target("cpu:native").value();
    target.deterministic = fixed;
    CompiledKernels compiled(kernels, target);
    for (size_t i = 0; i < kernels.size(); ++i) {
      const DType d = kernels[i].buffers[0].dtype;
      const int64_t n = kernels[i].buffers[0].shape[0].value();
      Literal x(d, {n}), want(d, {1}), got(d, {1});
      std::mt19937 rng(static_cast<unsigned>(n));
      for (int64_t j = 0; j < n; ++j) {
        if (is_float(d)) x.set(j, std::uniform_real_distribution<double>(0.98, 1.02)(rng));
        else x.set_i(j, static_cast<int64_t>(rng()));
      }
      interpret(kernels[i], {&x, &want});
      compiled.run(i, {x.mutable_data(), got.mutable_data()});
      if (is_float(d))
        ASSERT_NEAR(got.get(0), want.get(0), std::fabs(want.get(0)) * (d == DType::kBF16 ? 0x1p-7 : 1e-4)) << names[i];
      else
        ASSERT_EQ(got.get_i(0), want.get_i(0)) << names[i];
    }
  }
}

}  // namespace
}  // namespace nabla::kernel_ir

// Pretrained tensors: patterns, dtypes, orders, and what is said of files that do not fit.
#include "runtime/format/weights.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

#include "runtime/format/npy.h"
#include "runtime/format/safetensors.h"
#include "runtime/format/zip.h"

namespace nabla::format {
namespace {

Code code_of(const auto& result) { return result.errors().at(0).code; }

std::string path_of(const std::string& name) { return testing::TempDir() + name; }

Literal counting(DType dtype, std::vector<int64_t> shape, double first = 0) {
  Literal x(dtype, std::move(shape));
  for (int64_t i = 0; i < x.size(); ++i)
    is_float(dtype) ? x.set(i, first + static_cast<double>(i)) : x.set_i(i, static_cast<int64_t>(first) + i);
  return x;
}

// Names and layouts of a small GPT-2 as model hubs keep it.
NamedArrays gpt2(DType dtype) {
  NamedArrays out;
  auto add = [&](const std::string& name, std::vector<int64_t> shape) {
    out.emplace_back(name, counting(dtype, std::move(shape), static_cast<double>(out.size())));
  };
  add("wte.weight", {7, 4});
  add("wpe.weight", {5, 4});
  for (int layer : {0, 1, 10}) {
    std::string h = fmt::format("h.{}.", layer);
    add(h + "ln_1.weight", {4});
    add(h + "attn.c_attn.weight", {4, 12});
    add(h + "attn.c_proj.weight", {4, 4});
    add(h + "mlp.c_fc.weight", {4, 16});
  }
  add("ln_f.weight", {4});
  add("lm_head.weight", {7, 4});
  return out;
}

const std::vector<TensorType> kLeaves = {
    {"tokens", DType::kF32, {7, 4}},        {"positions", DType::kF32, {5, 4}},
    {"blocks.0.norm", DType::kF32, {4}},    {"blocks.0.qkv", DType::kF32, {4, 3, 4}},
    {"blocks.0.out", DType::kF32, {4, 4}},  {"blocks.0.up", DType::kF32, {16, 4}},
    {"blocks.1.norm", DType::kF32, {4}},    {"blocks.1.qkv", DType::kF32, {4, 3, 4}},
    {"blocks.1.out", DType::kF32, {4, 4}},  {"blocks.1.up", DType::kF32, {16, 4}},
    {"blocks.10.norm", DType::kF32, {4}},   {"blocks.10.qkv", DType::kF32, {4, 3, 4}},
    {"blocks.10.out", DType::kF32, {4, 4}}, {"blocks.10.up", DType::kF32, {16, 4}},
    {"ln_f.weight", DType::kF32, {4}},
};

std::vector<WeightRule> rules(const std::vector<std::string>& texts) {
  std::vector<WeightRule> out;
  for (const std::string& t : texts) out.push_back(parse_weight_rule(t).value());
  return out;
}

const std::vector<std::string> kMaps = {"wte.weight=tokens",
                                        "wpe.weight=positions",
                                        "h.*.ln_1.weight=blocks.*.norm",
                                        "h.*.attn.c_attn.weight=blocks.*.qkv:reshape",
                                        "h.*.attn.c_proj.weight=blocks.*.out",
                                        "h.*.mlp.c_fc.weight=blocks.*.up:transpose"};

std::string written(const std::string& name, const NamedArrays& arrays) {
  std::string path = path_of(name);
  Status ok =
      name.ends_with(".npz") ? write_npz(path, arrays, name.starts_with("deflated")) : write_safetensors(path, arrays);
  EXPECT_TRUE(ok.ok());
  return path;
}

std::vector<Literal> loaded(const WeightFile& file, const WeightPlan& plan, const std::vector<TensorType>& leaves) {
  std::vector<Literal> out(leaves.size());
  for (const WeightPlan::Load& l : plan.loads) {
    const TensorType& leaf = leaves[static_cast<size_t>(l.leaf)];
    out[static_cast<size_t>(l.leaf)] = Literal(leaf.dtype, leaf.shape);
    convert_weights(file, l, leaf, out[static_cast<size_t>(l.leaf)].mutable_data());
  }
  return out;
}

TEST(Weights, ALanguageModelByPatterns) {
  for (std::string name : {"gpt2.safetensors", "gpt2.npz", "deflated.npz"})
    for (DType dtype : {DType::kF32, DType::kF16, DType::kF64}) {
      NamedArrays arrays = gpt2(dtype);
      WeightFile file = WeightFile::open(written(name, arrays)).value();
      WeightPlan plan = plan_weights(kLeaves, file.tensors(), rules(kMaps), name).value();
      EXPECT_EQ(plan.loads.size(), kLeaves.size());
      ASSERT_EQ(plan.unused.size(), 1u);
      EXPECT_EQ(file.tensors()[static_cast<size_t>(plan.unused[0])].name, "lm_head.weight");
      EXPECT_TRUE(check_weights(plan, kLeaves, file.tensors(), std::vector<bool>(kLeaves.size()), false, name).ok());
      std::vector<Literal> got = loaded(file, plan, kLeaves);
      auto tensor = [&](const std::string& n) {
        for (const auto& [known, array] : arrays)
          if (known == n) return array;
        return Literal();
      };
      Literal up = tensor("h.10.mlp.c_fc.weight"), qkv = tensor("h.1.attn.c_attn.weight");
      for (int64_t i = 0; i < 4; ++i)
        for (int64_t j = 0; j < 16; ++j) EXPECT_EQ(got[13].get(j * 4 + i), up.get(i * 16 + j));
      for (int64_t i = 0; i < qkv.size(); ++i) EXPECT_EQ(got[7].get(i), qkv.get(i));
      std::string report = weights_report(plan, kLeaves, file, std::vector<int64_t>(plan.loads.size()));
      EXPECT_NE(report.find("weights: 15 of 15 leaves from "), std::string::npos) << report;
      EXPECT_NE(report.find("not used    `lm_head.weight` ("), std::string::npos) << report;
      EXPECT_EQ(report.find("f64 -> f32, narrower") != std::string::npos, dtype == DType::kF64) << report;
    }
}

std::string plan_error(const std::vector<std::string>& maps) {
  WeightFile file = WeightFile::open(written("names.safetensors", gpt2(DType::kF32))).value();
  Result<WeightPlan> plan = plan_weights(kLeaves, file.tensors(), rules(maps), "names");
  return plan.ok() ? "" : plan.errors()[0].message;
}

TEST(Weights, SaysWhichRowOfTheMappingIsWrong) {
  EXPECT_EQ(plan_error({"wte.weight=token"}),
            "names: `wte.weight=token` sends `wte.weight` to `token`, which the program does not have; did you mean "
            "`tokens`?");
  EXPECT_EQ(plan_error({"wte.weigth=tokens"}),
            "names: no tensor matches `wte.weigth` of `wte.weigth=tokens`; did you mean `wte.weight`?");
  EXPECT_EQ(plan_error({"wte.weight=tokens", "lm_head.weight=tokens"}),
            "names: `wte.weight` and `lm_head.weight` both go to state `tokens`, by `wte.weight=tokens` and "
            "`lm_head.weight=tokens`");
  EXPECT_EQ(plan_error({"h.0.ln_1.weight=blocks.0.up", "h.*.ln_1.weight=blocks.*.norm"}), "");
  for (const char* bad : {"a", "=a", "a=", "a.*=b", "a.*=*.*", "a=:transpose"}) {
    Result<WeightRule> rule = parse_weight_rule(bad);
    ASSERT_FALSE(rule.ok()) << bad;
    EXPECT_EQ(rule.errors()[0].code, Code::kBadOption);
  }
}

// The last row that matches a tensor counts; a row beats the leaf's own name.
TEST(Weights, LaterRowsWin) {
  std::vector<TensorType> leaves = {{"a", DType::kF32, {1}}, {"b", DType::kF32, {1}}};
  std::vector<TensorType> tensors = {{"x.a", DType::kF32, {1}}, {"x.b", DType::kF32, {1}}, {"b", DType::kF32, {1}}};
  WeightPlan plan = plan_weights(leaves, tensors, rules({"x.*=*"}), "file").value();
  ASSERT_EQ(plan.loads.size(), 2u);
  EXPECT_EQ(plan.loads[1].tensor, 1);
  EXPECT_EQ(plan.unused, std::vector<int>{2});
  plan = plan_weights(leaves, tensors, rules({"x.*=*", "x.a=b", "x.b=a"}), "file").value();
  EXPECT_EQ(plan.loads[0].tensor, 1);
  EXPECT_EQ(plan.loads[1].tensor, 0);
}

// Patterns that almost match take no longer than those that do.
TEST(Weights, ManyStarsTakeTheShortestNames) {
  std::string many, stars;
  for (int i = 0; i < 30; ++i) many += "*a", stars += "*";
  std::vector<TensorType> leaves = {{"q-r", DType::kF32, {1}}};
  std::vector<TensorType> tensors = {{std::string(300, 'a'), DType::kF32, {1}}, {"q.a.r", DType::kF32, {1}}};
  WeightPlan plan = plan_weights(leaves, tensors, rules({"*.a.*=*-*"}), "file").value();
  ASSERT_EQ(plan.loads.size(), 1u);
  EXPECT_EQ(plan.loads[0].tensor, 1);
  Result<WeightPlan> none = plan_weights(leaves, tensors, rules({many + "b=" + stars}), "file");
  ASSERT_FALSE(none.ok());
  EXPECT_NE(none.errors()[0].message.find("no tensor matches"), std::string::npos);
}

TEST(Weights, ListsWhatDoesNotFit) {
  std::vector<TensorType> leaves, tensors = {{"w0", DType::kF32, {3, 2}}, {"w1", DType::kF32, {2}}};
  for (int i = 0; i < 30; ++i) leaves.push_back({fmt::format("w{}", i), i == 1 ? DType::kI32 : DType::kF32, {2}});
  WeightPlan plan = plan_weights(leaves, tensors, {}, "file").value();
  std::vector<bool> none(leaves.size());
  Status status = check_weights(plan, leaves, tensors, none, false, "file");
  ASSERT_FALSE(status.ok());
  ASSERT_EQ(status.errors().size(), 2u);
  EXPECT_EQ(
      status.errors()[0].message,
      "file: 2 of 30 leaves do not fit: `w0` is f32[2], `w0` in the file is f32[3,2], `w1` is i32[2], `w1` in the "
      "file is f32[2]");
  EXPECT_EQ(status.errors()[1].message.substr(0, 62), "file: no tensor for 28 of 30 leaves: `w2` (f32[2]), `w3` (f32[");
  EXPECT_TRUE(status.errors()[1].message.ends_with("`w21` (f32[2]) and 8 more")) << status.errors()[1].message;
  EXPECT_EQ(check_weights(plan, leaves, tensors, none, true, "file").errors().size(), 1u);
  none.assign(leaves.size(), true);  // values of --state
  EXPECT_EQ(check_weights(plan, leaves, tensors, none, false, "file").errors().size(), 1u);
}

// Every pair of dtypes against the conversions of single elements, on values that are hard to round.
TEST(Weights, ConvertLikeSingleElements) {
  double inf = std::numeric_limits<double>::infinity();
  std::vector<double> values = {0,        -0.0,   1,    -1.5,         65504,  65519,     65520,     1e-8,
                                5.96e-8,  2.9e-8, 6e-5, 1.0009765,    3.4e38, -3.5e38,   448,       465,
                                1e300,    inf,    -inf, std::nan(""), 1e-40,  0x1.004p0, 0x1.00cp0, 0x1.01p0,
                                0x1.03p0, 6.1e-5, 3e-5, 127,          -128,   255};
  while (values.size() < 5000) values.push_back(std::sin(static_cast<double>(values.size())) * 100);
  auto count = static_cast<int64_t>(values.size());
  for (int f = 0; f < kDTypeCount; ++f)
    for (int t = 0; t < kDTypeCount; ++t) {
      auto from = static_cast<DType>(f), to = static_cast<DType>(t);
      if (!can_convert(from, to) || from == DType::kBool) continue;
      Literal x(from, {count});
      for (int64_t i = 0; i < count; ++i)
        is_float(from)
            ? x.set(i, values[static_cast<size_t>(i)])
            : x.set_i(i, static_cast<int64_t>(std::fmod(std::fabs(values[static_cast<size_t>(i) % 10]), 100)));
      WeightFile file = WeightFile::open(written("pair.safetensors", {{"x", x}})).value();
      TensorType leaf{"x", to, {count}};
      ASSERT_TRUE(check_range(file, {0, 0}, leaf).ok());
      Literal got(to, {count}), want = x.converted(to);
      int64_t lost = convert_weights(file, {0, 0}, leaf, got.mutable_data()), infinite = 0;
      for (int64_t i = 0; i < count; ++i) {
        double a = want.get(i), b = got.get(i);
        ASSERT_TRUE(a == b ? std::signbit(a) == std::signbit(b) : a != a && b != b)
            << name_of(from) << " to " << name_of(to) << " of " << x.get(i) << ": " << b << ", expected " << a;
        infinite += std::isfinite(x.get(i)) && !std::isfinite(a);
      }
      EXPECT_EQ(lost, infinite) << name_of(from) << " to " << name_of(to);
    }
}

TEST(Weights, IntegersThatDoNotFitAreErrors) {
  auto range = [&](const Literal& x, DType to) {
    WeightFile file = WeightFile::open(written("ints.safetensors", {{"x", x}})).value();
    Status s = check_range(file, {0, 0}, {"leaf", to, x.shape()});
    return s.ok() ? "" : s.errors()[0].message.substr(s.errors()[0].message.find(": ") + 2);
  };
  Literal x = counting(DType::kI64, {3}, 126);
  EXPECT_EQ(range(x, DType::kI8), "element 2 of `x` is 128, which state `leaf` (i8[3]) cannot hold");
  EXPECT_EQ(range(x, DType::kU8), "");
  EXPECT_EQ(range(counting(DType::kI32, {2}, -1), DType::kU64),
            "element 0 of `x` is -1, which state `leaf` (u64[2]) cannot hold");
  Literal large(DType::kU64, {1});
  large.set_i(0, -1);
  EXPECT_EQ(range(large, DType::kI64),
            "element 0 of `x` is 18446744073709551615, which state `leaf` (i64[1]) cannot hold");
  EXPECT_FALSE(can_convert(DType::kF32, DType::kI32));
  EXPECT_FALSE(can_convert(DType::kI8, DType::kBool));
}

// A dtype that Nabla lacks and bools that are none matter only where a leaf asks for them.
TEST(Weights, TensorsThatCannotBeTakenAreRefusedWhenAskedFor) {
  Literal flags(DType::kBool, {3});
  static_cast<uint8_t*>(flags.mutable_data())[1] = 2;
  std::string bytes =
      safetensors_bytes({{"flags", flags}, {"odd", counting(DType::kF32, {2})}, {"w", counting(DType::kF32, {2})}});
  bytes.replace(bytes.find("F32"), 3, "C64");  // of `odd`, whose bytes are then not looked at
  std::string path = path_of("odd.safetensors");
  std::ofstream(path, std::ios::binary) << bytes;
  std::string npz = path_of("odd.npz");
  ZipWriter zip;
  std::string complex = *npy_bytes(counting(DType::kF64, {2}));
  complex.replace(complex.find("<f8"), 3, "<c8");
  zip.add("flags.npy", as_bytes(*npy_bytes(flags)));
  zip.add_deflated("odd.npy", as_bytes(complex));
  zip.add("w.npy", as_bytes(*npy_bytes(counting(DType::kF32, {2}))));
  ASSERT_TRUE(write_file(npz, *std::move(zip).finish()).ok());
  for (const std::string& name : {path, npz}) {
    Result<WeightFile> file = WeightFile::open(name);
    ASSERT_TRUE(file.ok()) << to_string(file.errors());
    std::vector<TensorType> leaves = {{"w", DType::kF32, {2}}};
    WeightPlan plan = plan_weights(leaves, file->tensors(), {}, name).value();
    std::string report = weights_report(plan, leaves, *file, {0});
    EXPECT_NE(report.find("not used    `flags` (cannot be read), `odd` (cannot be read)"), std::string::npos) << report;
    auto asked = [&](const std::string& tensor, DType dtype) {
      return plan_weights({{tensor, dtype, {3}}}, file->tensors(), {}, name).errors()[0];
    };
    std::string array = name == npz ? ": array `flags`" : ": `flags`";
    EXPECT_EQ(asked("flags", DType::kBool).message,
              name + array + ": element 1 of the bools in the file is 2, expected 0 or 1");
    EXPECT_EQ(asked("flags", DType::kBool).code, Code::kInputDType);
    EXPECT_EQ(asked("odd", DType::kF32).message, name == npz
                                                     ? name + ": array `odd`: element type `<c8` is not supported"
                                                     : name + ": `odd` has element type `C64`, which is not supported");
  }
  EXPECT_EQ(code_of(read_safetensors(path)), Code::kInputDType);
  EXPECT_EQ(code_of(read_npz(npz)), Code::kInputDType);
}

TEST(Weights, AWrongEndingOfARowIsNamed) {
  WeightFile file = WeightFile::open(written("names.safetensors", gpt2(DType::kF32))).value();
  Result<WeightPlan> plan = plan_weights(kLeaves, file.tensors(), rules({"wte.weight=tokens:bogus"}), "names");
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.errors()[0].help,
            "a row of --weights-map ends in :transpose, :reshape or neither; `:bogus` is taken for a part of the name");
}

TEST(Weights, DamagedFilesAreErrors) {
  std::string whole = safetensors_bytes(gpt2(DType::kF32));
  std::ofstream(path_of("cut.safetensors"), std::ios::binary) << whole.substr(0, whole.size() - 5);
  EXPECT_EQ(WeightFile::open(path_of("cut.safetensors")).errors()[0].code, Code::kCorrupt);
  std::string npz = written("flip.npz", {{"x", counting(DType::kF32, {100})}});
  std::string bytes;
  {
    auto map = FileBytes::map(npz).value();
    bytes = as_text(map->bytes());
  }
  bytes[300] = static_cast<char>(bytes[300] ^ 1);
  std::ofstream(path_of("flip.npz"), std::ios::binary) << bytes;
  EXPECT_EQ(WeightFile::open(path_of("flip.npz")).errors()[0].code, Code::kCorrupt);
  std::ofstream(path_of("x.pt"), std::ios::binary) << "PK";
  EXPECT_EQ(WeightFile::open(path_of("x.pt")).errors()[0].message,
            path_of("x.pt") + ": weights are read from .safetensors and .npz files");
}

}  // namespace
}  // namespace nabla::format

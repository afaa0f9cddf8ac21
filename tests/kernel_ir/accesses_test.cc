// What the verifier says of kernels that leave their tensors, or whose schedules leave out work.
#include <gtest/gtest.h>

#include "ir/kernel_ir/kernel.h"

namespace nabla::kernel_ir {
namespace {

const auto kBatch = std::make_shared<const ir::Symbol>(ir::Symbol{"n", 2, 64, 2});

Kernel read(const std::string& text) {
  ReadSize size = [](std::string_view t) -> Result<ir::Dim> {
    ir::Dim n = ir::Dim::symbol(kBatch);
    return t == "n" ? n : t == "n+1" ? n + 1 : t == "n-1" ? n - 1 : ir::Dim::floordiv(n, 2);
  };
  return parse_kernel(text, "test", size).value();
}

/// What is said of `kernel @k(in x: f32[X], out y: f32[Y]) { axes AXES  for i { store y[AT] STORED } }`.
std::string said(const std::string& x, const std::string& y, const std::string& axes, const std::string& store) {
  Kernel k = read("kernel @k(in x: f32[" + x + "], out y: f32[" + y + "]) {\n  axes " + axes +
                  "\n  schedule unit 1000\n  for i {\n    store y[i] " + store + "\n  }\n}\n");
  Status status = check_accesses(k);
  return status.ok() ? "" : status.errors()[0].message;
}

TEST(Accesses, AffineIndicesAreComparedWithTheExtents) {
  EXPECT_EQ(said("9", "8", "i = 8", "= x[i + 1]"), "");
  EXPECT_EQ(said("8", "8", "i = 8", "= x[i + 1]"),
            "kernel @k: load of x: index i + 1 of dimension 0 runs from 1 to 8, its extent is 8");
  EXPECT_EQ(said("9", "7", "i = 8", "= x[i + 1]"),
            "kernel @k: store to y: index i of dimension 0 runs from 0 to 7, its extent is 7");
  EXPECT_EQ(said("4,22", "8", "i = 8, j = 4", "over j = x[j, 3 * i - 1]"),
            "kernel @k: load of x: index 3 * i - 1 of dimension 1 runs from -1 to 20, its extent is 22");
  EXPECT_EQ(said("4,0", "8", "i = 8, j = 0", "over j = x[j, 99]"), "") << "it never runs";
}

// past and count are not both at their largest in any run.
TEST(Accesses, SizesThatTheConstraintsExcludeDecideNothing) {
  ir::Symbol past{"past", 0, 8, 1}, count{"count", 1, 8, 1};
  ir::Dim sum =
      ir::Dim::symbol(std::make_shared<ir::Symbol>(past)) + ir::Dim::symbol(std::make_shared<ir::Symbol>(count));
  auto said_with = [&](std::shared_ptr<const std::vector<ir::Dim>> facts) {
    past.facts = count.facts = facts;
    ReadSize size = [&](std::string_view t) -> Result<ir::Dim> {
      return ir::Dim::symbol(std::make_shared<ir::Symbol>(t == "past" ? past : count));
    };
    Kernel k = parse_kernel(
                   "kernel @k(in x: f32[10], out y: f32[dim(count)]) {\n  axes i = dim(count)\n  schedule unit 1000\n"
                   "  for i {\n    store y[i] = x[i + dim(past)]\n  }\n}\n",
                   "test", size)
                   .value();
    Status status = check_accesses(k);
    return status.ok() ? "" : status.errors()[0].message;
  };
  EXPECT_EQ(said_with(nullptr),
            "kernel @k: load of x: index i + dim(past) of dimension 0 runs from 8 to 15, its extent is 10 (at count = 8, "
            "past = 8)");
  EXPECT_EQ(said_with(std::make_shared<const std::vector<ir::Dim>>(std::vector{ir::Dim(10) - sum})), "");
}

TEST(Accesses, DivisionsAndRemaindersAreExact) {
  EXPECT_EQ(said("3,3", "8", "i = 8", "= x[floordiv(i, 3), mod(i, 3)]"), "");
  EXPECT_EQ(said("2,3", "8", "i = 8", "= x[floordiv(i, 3), mod(i, 3)]"),
            "kernel @k: load of x: index floordiv(i, 3) of dimension 0 runs from 0 to 2, its extent is 2");
  EXPECT_EQ(said("3,2", "8", "i = 8", "= x[floordiv(i, 3), mod(i, 3)]"),
            "kernel @k: load of x: index mod(i, 3) of dimension 1 runs from 0 to 2, its extent is 2");
  EXPECT_EQ(said("1", "8", "i = 8", "= x[mod(4 * i, 4)]"), "") << "it is always 0, which is not decided";
}

TEST(Accesses, GuardsCount) {
  EXPECT_EQ(said("8", "8", "i = 8", "= (x[i - 1] if i >= 1 else 0.0:f32)"), "");
  EXPECT_EQ(said("8", "8", "i = 8", "= (x[i - 2] if i >= 1 else 0.0:f32)"),
            "kernel @k: load of x: index i - 2 of dimension 0 runs from -1 to 5, its extent is 8");
  EXPECT_EQ(said("5", "8", "i = 8", "= x[0] if i < 7"), "");
  EXPECT_EQ(said("9", "7", "i = 8", "= x[i] if i < 7"), "");
  EXPECT_EQ(
      said("8", "8", "i = 8, j = 3", "over j = (x[i + j - 1] if (i + j - 1 >= 0) & (i + j - 1 < 8) else 0.0:f32)"), "");
  EXPECT_EQ(
      said("8", "8", "i = 8, j = 3", "over j = (x[i + j - 1] if (i + j - 1 >= 0) & (i + j - 1 < 9) else 0.0:f32)"),
      "kernel @k: load of x: index i + j - 1 of dimension 0 runs from 0 to 8, its extent is 8");
  EXPECT_EQ(said("8", "8", "i = 8", "= (x[i + 9] if x[0] < x[1] else 0.0:f32)"), "") << "data decide";
  EXPECT_EQ(said("8", "8", "i = 8", "= (x[i] if i < 4 else x[i + 4])"), "") << "not where the guard is true";
}

TEST(Accesses, SymbolicSizesAreCheckedAtTheirEnds) {
  EXPECT_EQ(said("dim(n+1)", "dim(n)", "i = dim(n)", "= x[i + 1]"), "");
  EXPECT_EQ(said("64", "dim(n)", "i = dim(n)", "= x[i]"), "");
  EXPECT_EQ(said("62", "dim(n)", "i = dim(n)", "= x[i]"),
            "kernel @k: load of x: index i of dimension 0 runs from 0 to 63, its extent is 62 (at n = 64)");
  EXPECT_EQ(said("dim(n)", "dim(n)", "i = dim(n)", "= x[i + 0 * dim(n)]"), "");
  EXPECT_EQ(said("dim(n-1)", "2", "i = 2", "= x[i]"),
            "kernel @k: load of x: index i of dimension 0 runs from 0 to 1, its extent is 1 (at n = 2)");
}

std::string schedule_says(const std::string& schedule) {
  Status status =
      check_schedule(read("kernel @k(in x: f32[8,100], out y: f32[8,100]) {\n  axes i = 8, j = 100, r = 4\n"
                          "  schedule " +
                          schedule + "\n  for i, j {\n    store y[i, j] = x[i, j]\n  }\n}\n"));
  return status.ok() ? "" : status.errors()[0].message;
}

TEST(Schedules, CoverTheirWork) {
  EXPECT_EQ(schedule_says("unit 100 units 8 threads 2"), "");
  EXPECT_EQ(schedule_says("unit 2 units 4 threads 2 vector j"), "");
  EXPECT_EQ(schedule_says("unit 100 units 7 threads 2"),
            "kernel @k: schedule: 7 units of 100 leave out some of the 800 iterations");
  EXPECT_EQ(schedule_says("unit 2 units 3 threads 2 vector j"),
            "kernel @k: schedule: 3 units of 2 leave out some of the 8 iterations");
  EXPECT_EQ(schedule_says("unit 100 units 8 threads 0"),
            "kernel @k: schedule: unit 100 units 8 threads 0: each is at least 1");
  EXPECT_EQ(schedule_says("unit 9223372036854775807 units 8 threads 2"),
            "kernel @k: schedule: unit 9223372036854775807 units 8: each is at most 70368744177664");
  EXPECT_EQ(schedule_says("unit 1 units 801 threads 2"),
            "kernel @k: schedule: 801 units of 1 are more than the 800 iterations");
  EXPECT_EQ(schedule_says("unit 800 units 1 threads 1 vector r"),
            "kernel @k: schedule: vector axis r is none of the outermost loop's");
}

TEST(Schedules, OfGpusHaveAGridPerStatement) {
  EXPECT_EQ(schedule_says("cuda grid team 1 parallel i, j pack 4 blocks 2 threads 256"), "");
  EXPECT_EQ(schedule_says("cuda grid team 32 parallel j serial i blocks 2 threads 256 shared 16 beside 2"), "");
  EXPECT_EQ(schedule_says("cuda grid block blocks 1 threads 256"), "");
  EXPECT_EQ(schedule_says("cuda"), "kernel @k: schedule: no grid does the work");
  EXPECT_EQ(schedule_says("cuda grid team 1 parallel i blocks 2 threads 256"),
            "kernel @k: schedule: grid 0 leaves out axes of its statement, or walks others");
  EXPECT_EQ(schedule_says("cuda grid team 32 parallel i, j blocks 2 threads 48"),
            "kernel @k: schedule: teams of 32 in blocks of 48 threads");
  EXPECT_EQ(schedule_says("cuda grid team 1 parallel i, j blocks 2 threads 2048"),
            "kernel @k: schedule: a grid of 2 blocks of 2048 threads");
  EXPECT_EQ(schedule_says("cuda grid team 1 parallel i, j blocks 4294967296 threads 256"),
            "kernel @k: schedule: a grid of 4294967296 blocks of 256 threads");
  EXPECT_EQ(schedule_says("cuda grid product tile 2, 64 stages 1 blocks 1 threads 256"),
            "kernel @k: schedule: tiles of 2 x 64");
  EXPECT_EQ(schedule_says("cuda grid product tile 16, 16 stages 1 blocks 1 threads 256"),
            "kernel @k: schedule: there is no product");
  EXPECT_EQ(schedule_says("cuda grid team 1 parallel i, j pack 8 blocks 2 threads 256"),
            "kernel @k: schedule: grid 0 moves packs of 8 elements, the accesses admit packs of 4");
  EXPECT_EQ(schedule_says("cuda grid team 1 parallel j, i pack 2 blocks 2 threads 256"),
            "kernel @k: schedule: grid 0 moves packs of 2 elements, the accesses admit packs of 1");
  EXPECT_EQ(schedule_says("cuda grid scatter parallel j serial i tile_columns 4 row_tiles 1 blocks 1 threads 256"),
            "kernel @k: schedule: the statement of grid 0 is no scatter along its axes");
  EXPECT_EQ(schedule_says("cuda grid clear y blocks 1 threads 256 grid block blocks 1 threads 256"),
            "kernel @k: schedule: grid 0 clears y, into which nothing is combined");
  EXPECT_EQ(schedule_says("cuda template team-scan grid template team 32 tile 1, 0 blocks 1 threads 256"),
            "kernel @k: schedule: a template goes with a procedure");
}

std::string row_procedure_says(const std::string& scratch, const std::string& schedule) {
  Status status = check_schedule(read("kernel @k(in x: f32[16,300], out y: i32[16,300]" + scratch + ") {\n  schedule " +
                                      schedule + "\n  procedure argsort(outer = 16, count = 300, inner = 1, descending = 0)\n}\n"));
  return status.ok() ? "" : status.errors()[0].message;
}

TEST(Schedules, OfProceduresHaveTheirWorkspace) {
  const std::string units = "unit 2 units 8 threads 2";
  EXPECT_EQ(row_procedure_says(", workspace s: u8[8,9600]", units), "");
  EXPECT_EQ(row_procedure_says("", units), "kernel @k: schedule: template thread-per-row needs a workspace");
  for (const char* shape : {"8,96", "7,9600", "76800"})
    EXPECT_EQ(row_procedure_says(fmt::format(", workspace s: u8[{}]", shape), units),
              fmt::format("kernel @k: schedule: template thread-per-row needs a workspace u8[8,9600], and s is u8[{}]", shape));
  EXPECT_EQ(row_procedure_says("", "cuda template team-scan grid template team 32 tile 1, 0 blocks 1 threads 256"),
            "kernel @k: schedule: template team-scan does not compute argsort");
  EXPECT_EQ(row_procedure_says("", "cuda template sort-in-block grid template team 512 tile 1, 512 blocks 16 threads 256"),
            "kernel @k: schedule: a template's team of 512 of 256 threads with tiles of 1 x 512");
}

TEST(Schedules, WarpgroupsMultiplyInAttentionAlone) {
  auto attention = [](const std::string& grid) {
    return "kernel @a(in q: bf16[1,1,128,64], in k: bf16[1,1,128,64], in v: bf16[1,1,128,64], out y: bf16[1,1,128,64], "
           "out lse: f32[1,1,128]) {\n  schedule cuda template attention grid " +
           grid +
           "\n  procedure attention(outer = 1, count = 128, inner = 1, heads = 1, kv_heads = 1, keys = 128, features = 64, "
           "out = 64, causal = 0, mask_batch = 0, mask_heads = 0, scale = 0, streams = 0, least = 0, kept = 0, diagonal = 0, "
           "word = 0, word_batch = 0, word_head = 0, word_query = 0)\n}\n";
  };
  auto says = [](const std::string& text) {
    Status status = check_schedule(read(text));
    return status.ok() ? "" : status.errors()[0].message;
  };
  const std::string right = attention("template warpgroups team 256 tile 128, 64 blocks 1 threads 256 shared 65536 beside 2");
  EXPECT_EQ(says(right), "");
  EXPECT_NE(print(read(right)).find("grid template warpgroups team 256 tile 128, 64 blocks 1"), std::string::npos);
  EXPECT_EQ(says(attention("template warpgroups team 128 tile 128, 64 blocks 1 threads 256")),
            "kernel @a: schedule: warpgroups of a team of 128 threads with 128 rows");
  EXPECT_EQ(says(attention("template warpgroups team 192 tile 96, 64 blocks 1 threads 192")),
            "kernel @a: schedule: warpgroups of a team of 192 threads with 96 rows");
  EXPECT_EQ(row_procedure_says("", "cuda template sort-in-block grid template warpgroups team 128 tile 64, 512 blocks 16 threads 128"),
            "kernel @k: schedule: warpgroups of a team of 128 threads with 64 rows");
}

TEST(Kernels, CombineBitsOfIntegersOnly) {
  auto status = parse_kernel(
      "kernel @k(in x: f32[8,100], out y: f32[8]) {\n  axes i = 8, r = 100\n  schedule unit 8 units 1 threads 1\n"
      "  for i {\n    let any: f32 = or(r) x[i, r]\n    store y[i] = any\n  }\n}\n",
      "test");
  ASSERT_FALSE(status.ok());
  EXPECT_EQ(status.errors()[0].message, "kernel @k: or of any, which is f32: bits are of integers and bools");
}

// Values with the names of functions, combiners and numbers, as ops name them.
TEST(KernelText, AValueMayHaveTheNameOfAFunctionOrANumber) {
  std::string text =
      "kernel @k(in x: i32[8], in nan: f32[8], out y: f32[8]) {\n  axes i = 8\n  schedule unit 8 units 1 threads 1\n"
      "  for i {\n    let convert: f32 = convert.f32(x[i])\n    let exp: f32 = exp(convert)\n"
      "    let inf: f32 = exp + convert\n    let sum: f32 = sum(i) inf * nan:f32\n"
      "    store y[i] = sum / inf + nan[i] + inf:f32\n  }\n}\n";
  Result<Kernel> k = parse_kernel(text, "test");
  ASSERT_TRUE(k.ok()) << to_string(k.errors());
  EXPECT_EQ(print(*k), text);
}

}  // namespace
}  // namespace nabla::kernel_ir

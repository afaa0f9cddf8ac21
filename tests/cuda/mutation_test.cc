// Tests of the tests: each barrier of generated kernels, and each wait for copies, left out by itself, guards off by
// one, stores left out. The checker or the result must notice each; a barrier that nobody misses is one that the
// printer must not print.
#include <gtest/gtest.h>

#include <regex>

#include "tests/cuda/emulator/kernel_run.h"
#include "tests/kernel_ir/nine_kernels.h"
#include "tests/nightly.h"

namespace nabla::kernel_ir {
namespace {

using codegen::CudaKernel;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::string prelude_of(const CudaKernel& code) {
  return codegen::cuda_prelude() + (code.procedures ? codegen::cuda_procedures() : "");
}

/// A kernel and one change of its text, or of the prelude's.
struct Mutant {
  std::string what;
  CudaKernel code;
  std::string prelude = codegen::cuda_prelude();
};

// One block does all the work, so that every team goes through its loop several times.
CudaKernel printed(const Kernel& k, bool tf32 = false, bool at_packs = false) {
  ir::Target target = ir::find_target("sm_90a").value();
  target.tf32 = tf32;
  CudaKernel code = print_for_gpu(k, "nk_" + k.name, target, at_packs).value();
  for (codegen::CudaGrid& g : code.grids) g.blocks = 1;
  return code;
}

using InPlace = std::map<int, int>;

// Drawn numbers; matrices that are to be factorised are definite.
std::vector<Literal> operands_of(const Kernel& k) {
  std::vector<Literal> out = draw_buffers(k);
  if (!k.procedure || k.procedure->def->name != "cholesky") return out;
  int64_t n = k.procedure->numbers[1].value();
  for (int64_t i = 0; i < out[0].size(); ++i)
    if (i / n % n == i % n) out[0].set(i, static_cast<double>(2 * n));
  return out;
}

// What is found of a mutant, or how its results differ; empty: nobody noticed. `object` holds the code.
std::string noticed(const Kernel& k, const CudaKernel& code, const emulator::Object& object,
                    const std::vector<Literal>& want, const InPlace& in_place) {
  for (emulator::Options options : {emulator::Options{emulator::Order::kForward},
                                    {emulator::Order::kReverse},
                                    {emulator::Order::kRandom, 5, false}}) {
    emulator::KernelRun run =
        emulator::run_kernel(k, code, object, /*checked=*/true, operands_of(k), {}, options, in_place);
    if (!run.report.clean()) return run.report.str();
    for (size_t b = 0; b < want.size(); ++b)
      if (k.buffers[b].role == BufferRole::kOut && !(want[b] == run.buffers[b])) return "other results";
  }
  return "";
}

// The mutant under symbols of its own, so that one source holds several.
CudaKernel renamed(const CudaKernel& code, const std::string& suffix) {
  CudaKernel out = code;
  for (codegen::CudaGrid& g : out.grids) {
    out.text = replaced(out.text, " " + g.symbol + "(", " " + g.symbol + suffix + "(");
    g.symbol += suffix;
  }
  return out;
}

// Results and operands of one dtype and shape.
std::vector<InPlace> same_shapes(const Kernel& k) {
  std::vector<InPlace> out;
  for (int r = 0; r < static_cast<int>(k.buffers.size()); ++r)
    for (int o = 0; o < static_cast<int>(k.buffers.size()); ++o) {
      const Buffer &result = k.buffers[r], &operand = k.buffers[o];
      bool roles = result.role == BufferRole::kOut && operand.role == BufferRole::kIn;
      if (roles && result.dtype == operand.dtype && result.shape == operand.shape) out.push_back({{r, o}});
    }
  return out;
}

// Every mutant is noticed, and the kernel itself is clean.
void expect_all_noticed(const Kernel& k, const CudaKernel& healthy, std::vector<Mutant> mutants) {
  const std::string prelude = prelude_of(healthy);
  std::map<std::string, std::string> sources = {{prelude, healthy.text}};  // by prelude
  for (size_t i = 0; i < mutants.size(); ++i) {
    mutants[i].code = renamed(mutants[i].code, "_m" + std::to_string(i));
    sources[mutants[i].prelude] += "\n" + mutants[i].code.text;
  }
  std::map<std::string, std::shared_ptr<emulator::Object>> objects;
  for (const auto& [head, text] : sources) objects[head] = emulator::Object::compile(head + text, true).value();
  std::vector<Literal> want = emulator::run_kernel(k, healthy, *objects[prelude], true, operands_of(k), {}, {}).buffers;
  ASSERT_EQ(noticed(k, healthy, *objects[prelude], want, {}), "") << healthy.text;
  // A result may lie where an operand lies, where the kernel itself is right that way.
  std::vector<InPlace> placements = {{}};
  for (InPlace& p : same_shapes(k))
    if (noticed(k, healthy, *objects[prelude], want, p).empty()) placements.push_back(p);
  for (const Mutant& m : mutants) {
    std::string found;
    for (const InPlace& p : placements) found += noticed(k, m.code, *objects[m.prelude], want, p);
    EXPECT_NE(found, "") << "nobody noticed: " << m.what << "\n" << m.code.text;
  }
}

const std::regex kBarrier(
    R"((nb_sync<\w+>|nb_(cp|wg)_wait<\w+>|nb_(cp|wg)_commit|nb_wg_see_copies|__syncthreads|__syncwarp)\(\);)"
    R"(|nb_copies_(wait|expect)\([^;]*\);)");

// The text once for each barrier, without it.
std::vector<std::pair<std::string, std::string>> without_each_barrier(const std::string& text) {
  std::vector<std::pair<std::string, std::string>> out;
  for (std::sregex_iterator at(text.begin(), text.end(), kBarrier), end; at != end; ++at) {
    auto first = static_cast<size_t>(at->position()), line = text.rfind('\n', first) + 1;
    std::string what = fmt::format("line {} `{}`", std::count(text.begin(), text.begin() + first, '\n') + 1,
                                   text.substr(line, text.find('\n', first) - line));
    out.emplace_back(what, std::string(text).replace(first, static_cast<size_t>(at->length()), ";"));
  }
  return out;
}

struct Subject {
  const char* name;
  std::string text;
  int barriers;  ///< in the kernel's own text, so that a change of the printer shows
  bool tf32 = false, at_packs = false;
};
void PrintTo(const Subject& s, std::ostream* out) { *out << s.name; }

Kernel softmax(const std::string& rows, const std::string& columns) {
  std::string text = print(read_kernel("softmax"));
  text = replaced(text, "19", rows), text = replaced(text, "45", columns);
  return parse_kernel(text, "softmax").value();
}

// Blocks that own rows.
const char* const kScatter = R"(kernel @scatter(in ids: i32[2100], in ct: f32[2100,3], out table: f32[9,3]) {
  axes u = 2100, j = 3
  for u {
    store table[convert.i64(ids[u]), j] over j sum= ct[u, j] if convert.i64(ids[u]) >= 0 & convert.i64(ids[u]) < 9
  }
})";
// Two tiles, whose factors go element by element.
const char* const kOddHalves = R"(kernel @halves(in a: bf16[70,70], in b: bf16[70,41], out y: f32[70,41]) {
  axes m = 70, n = 41, k = 70
  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[k, n])
  store y[m, n] over m, n = acc[m, n]
})";
// Two tiles, whose factors are copied by 16 bytes.
std::string halves_of(const char* a, const char* b) {
  return fmt::format(R"(kernel @halves(in a: bf16[{}], in b: bf16[{}], out y: f32[40,72]) {{
  axes m = 40, n = 72, k = 136
  contract acc[m, n]: f32 = sum(k) convert.f32(a[m, k]) * convert.f32(b[k, n])
  store y[m, n] over m, n = acc[m, n]
}})",
                     a, b);
}

// Nine tiles of k for warpgroups, so that the six slots of shared memory are filled again.
std::string nine_tiles() {
  return replaced(replaced(replaced(halves_of("40, 136", "136, 72"), "136", "520"), "72", "136"), "40", "72");
}

std::vector<Subject> subjects() {
  auto golden = [](const char* name) { return print(read_kernel(name)); };
  return {
      {"warp_softmax", print(softmax("23", "45")), 0},
      {"block_softmax", print(softmax("3", "700")), 0},
      {"large_block_softmax", print(softmax("2", "20000")), 0},
      {"norm_backward", golden("norm_backward"), 0},
      {"attention_forward", golden("attention_forward"), 0},
      {"attention_backward", golden("attention_backward"), 2},
      {"cumsum_of_rows", R"(kernel @cumsum_of_rows(in x: f32[7,30,70], out y: f32[7,30,70]) {
  axes i = 7, j = 30, d = 70
  for i {
    loop j carry (c[d]: f32 = 0.0:f32) {
      let s[d]: f32 = c[d] + x[i, j, 69 - d]
      store y[i, j, d] over d = s[69 - d]
      next c = s[69 - d]
    }
  }
})",
       2},
      {"reversed", R"(kernel @reversed(in x: f32[21,300], out y: f32[21,300]) {
  axes i = 21, j = 300
  for i {
    let e[j]: f32 = exp(x[i, j])
    store y[i, j] over j = e[299 - j]
  }
})",
       2},
      {"few_sums", R"(kernel @few_sums(in x: f32[9,3,500], out y: f32[9,3]) {
  axes i = 9, j = 3, k = 500
  for i {
    let s[j]: f32 = sum(k) x[i, j, k]
    store y[i, j] over j = s[2 - j]
  }
})",
       1},
      {"norm_in_place", R"(kernel @norm_in_place(in x: f32[9,300], out y: f32[9,300], out z: f32[9]) {
  axes i = 9, j = 300
  for i {
    let m: f32 = max(j) x[i, j]
    let s: f32 = sum(j) exp(x[i, j] - m)
    store y[i, j] over j = exp(x[i, j] - m) / s
    store z[i] = m
  }
})",
       0},
      {"plain_product", replaced(kOddHalves, "bf16", "f32"), 5},
      {"computed_ahead", replaced(kOddHalves, "in b: bf16", "in b: f32"), 5},
      {"tensor_core_product", kOddHalves, 2},
      {"rows_of_a_table", kScatter, 2},
      {"copied_ahead", halves_of("40, 136", "136, 72"), 7},
      {"copied_ahead_by_columns", replaced(halves_of("136, 40", "136, 72"), "a[m, k]", "a[k, m]"), 7},
      {"copied_ahead_in_tf32", replaced(replaced(halves_of("40, 136", "136, 72"), "bf16", "f32"), "136", "52"), 7,
       true},
      {"by_the_copy_engine", nine_tiles(), 11, false, true},
      {"by_warpgroups", nine_tiles(), 11},
  };
}

class Mutations : public testing::TestWithParam<Subject> {};

TEST_P(Mutations, EveryBarrierIsMissed) {
  Kernel k = parse_kernel(GetParam().text, GetParam().name).value();
  CudaKernel healthy = printed(k, GetParam().tf32, GetParam().at_packs);
  std::vector<Mutant> mutants;
  for (auto& [what, text] : without_each_barrier(healthy.text)) {
    mutants.push_back({what, healthy});
    mutants.back().code.text = std::move(text);
  }
  EXPECT_EQ(mutants.size(), static_cast<size_t>(GetParam().barriers)) << healthy.text;
  expect_all_noticed(k, healthy, std::move(mutants));
}

INSTANTIATE_TEST_SUITE_P(Kernels, Mutations, testing::ValuesIn(some_of(subjects(), subjects().size() - 2)),
                         [](const auto& info) { return std::string(info.param.name); });

// The barriers of nb_combine, in kernels of warps and of blocks.
TEST(TreeOfSums, EveryBarrierIsMissed) {
  const std::string prelude = codegen::cuda_prelude();
  size_t first = prelude.find("nb_combine("), last = prelude.find("// ---- Memory");
  ASSERT_LT(first, last);
  std::string body = prelude.substr(first, last - first);
  auto parts = without_each_barrier(body);
  EXPECT_EQ(parts.size(), 2u) << body;
  for (const Kernel& k : {softmax("23", "45"), softmax("5", "700")}) {
    CudaKernel healthy = printed(k);
    std::vector<Mutant> mutants;
    for (const auto& [what, text] : parts) {
      bool of_blocks = what.find("__syncthreads") != std::string::npos;
      if (of_blocks && healthy.text.find("nb_combine<32>") != std::string::npos) continue;
      mutants.push_back({what, healthy, std::string(prelude).replace(first, last - first, text)});
    }
    expect_all_noticed(k, healthy, std::move(mutants));
  }
}

// Without any of the `barriers` of a template of the prelude, which stands from `begin` up to `end` or to the last
// line.
void expect_barriers_missed(const Kernel& k, const CudaKernel& healthy, const std::string& begin,
                            const std::string& end, int barriers) {
  const std::string prelude = prelude_of(healthy);
  size_t first = prelude.find(begin), last = std::min(prelude.find(end), prelude.size());
  ASSERT_LT(first, last);
  auto parts = without_each_barrier(prelude.substr(first, last - first));
  EXPECT_EQ(parts.size(), static_cast<size_t>(barriers));
  std::vector<Mutant> mutants;
  for (const auto& [what, text] : parts)
    mutants.push_back({what, healthy, std::string(prelude).replace(first, last - first, text)});
  expect_all_noticed(k, healthy, std::move(mutants));
}

// Those of the bitonic network.
TEST(SortByABlock, EveryBarrierIsMissed) {
  Kernel k = parse_kernel(R"(kernel @sort(in x: f32[3,200], in z: i32[3,200], out y: i32[3,200]) {
  procedure argsort(outer=3, count=200, inner=1, descending=0)
})",
                          "sort")
                 .value();
  CudaKernel healthy = printed(k);
  expect_barriers_missed(k, healthy, "nb_sort_block(", "nb_power_of_two(", 3);
}

// Those between a tile's ends, its elements, what threads have merged, and the next tile.
TEST(MergeByABlock, EveryBarrierIsMissed) {
  Kernel k = parse_kernel(R"(kernel @sort(in x: f32[1100], out y: i32[1100], workspace scratch: u8[2,8800]) {
  procedure argsort(outer=1, count=1100, inner=1, descending=0)
})",
                          "sort")
                 .value();
  ir::Target target = ir::find_target("sm_90a").value();
  target.cuda.block_shared_bytes = 8208;  // merged tiles take 16 bytes beside 512 elements
  CudaKernel healthy = print_for_gpu(k, "nk_sort", target).value();
  for (codegen::CudaGrid& g : healthy.grids) g.blocks = 1;
  expect_barriers_missed(k, healthy, "nb_merge_runs(", "void nb_merge(", 4);
}

// That of running sums, between parts of a row and between rows.
TEST(ScanByABlock, EveryBarrierIsMissed) {
  Kernel k = parse_kernel(R"(kernel @scan(in x: f32[2,3000], out y: f32[2,3000]) {
  procedure cumsum(outer=2, count=3000, inner=1, reverse=0, exclusive=0)
})",
                          "scan")
                 .value();
  CudaKernel healthy = printed(k);
  const std::string prelude = prelude_of(healthy);
  size_t first = prelude.find("nb_scan_team("), last = prelude.find("nb_scan(S*");
  ASSERT_LT(first, last);
  const std::string body = prelude.substr(first, last - first);
  std::vector<Mutant> mutants;
  auto mutant = [&](const std::string& what, const std::string& text) {
    mutants.push_back({what, healthy, std::string(prelude).replace(first, last - first, text)});
  };
  auto parts = without_each_barrier(body);
  EXPECT_EQ(parts.size(), 1u);
  for (const auto& [what, text] : parts) mutant(what, text);
  mutant("totals in one place", replaced(body, "turn ^= 1", "turn ^= 0"));
  expect_all_noticed(k, healthy, std::move(mutants));
}

// The fence by which wgmma sees tiles that threads have copied.
TEST(AttentionByWarpgroups, TheFenceIsMissed) {
  Kernel k = parse_kernel(R"(kernel @forward(in q: bf16[1,1,70,64], in k: bf16[1,1,70,64], in v: bf16[1,1,70,64],
    out y: bf16[1,1,70,64], out lse: f32[1,1,70]) {
  procedure attention(outer=1, count=70, inner=1, heads=1, kv_heads=1, keys=70, features=64, out=64, causal=1, mask_batch=0,
    mask_heads=0, scale=1056964608, streams=0, least=0, kept=1065353216, diagonal=0, word=0, word_batch=0, word_head=0, word_query=0)
})",
                          "forward")
                 .value();
  CudaKernel healthy = printed(k);
  const std::string prelude = prelude_of(healthy), fence = "    By::see_copies();\n";
  ASSERT_NE(prelude.find(fence), std::string::npos);
  expect_all_noticed(k, healthy, {{"without the fence", healthy, replaced(prelude, fence, "")}});
}

// Those of matrices and Fourier transforms, between steps and between rows.
struct ByABlock {
  const char *name, *kernel, *first, *last;  ///< the template's text begins and ends at these
  int barriers;
};
void PrintTo(const ByABlock& b, std::ostream* out) { *out << b.name; }

class MutatedBlocks : public testing::TestWithParam<ByABlock> {};

TEST_P(MutatedBlocks, EveryBarrierIsMissed) {
  Kernel k = parse_kernel(GetParam().kernel, GetParam().name).value();
  CudaKernel healthy = printed(k);
  expect_barriers_missed(k, healthy, GetParam().first, GetParam().last, GetParam().barriers);
}

INSTANTIATE_TEST_SUITE_P(
    Kernels, MutatedBlocks,
    testing::Values(ByABlock{"cholesky",
                             R"(kernel @c(in x: f32[2,40,40], out y: f32[2,40,40], workspace s: u8[1,12800]) {
  schedule unit 2 units 1
  procedure cholesky(outer=2, count=40, inner=1)
})",
                             "nb_block_cholesky(", "nb_block_triangular_solve(", 3},
                    ByABlock{"triangular_solve", R"(kernel @t(in x: f32[2,40,40], in b: f32[2,40,3], out y: f32[2,40,3],
    workspace s: u8[1,13760]) {
  schedule unit 2 units 1
  procedure triangular_solve(outer=2, count=40, inner=1, k=3, left=1, lower=1, transpose=0, unit=0)
})",
                             "nb_block_triangular_solve(", "nb_block_fft_stage(", 3},
                    ByABlock{"fft",
                             R"(kernel @f(in a: f32[2,131], in b: f32[2,131], out re: f32[2,131], out im: f32[2,131],
    workspace s: u8[1,34864]) {
  schedule unit 2 units 1
  procedure fft(outer=2, count=131, inner=1, inverse=0)
})",
                             "nb_block_fft_stage(", "nb_none(", 4}),
    [](const auto& info) { return std::string(info.param.name); });

struct Fault {
  const char* name;
  std::string kernel;
  const char *from, *to;
};
void PrintTo(const Fault& f, std::ostream* out) { *out << f.name; }

std::vector<Fault> faults() {
  const std::string product = print(read_kernel("matmul_gelu"));
  const std::string halves = kOddHalves;
  const std::string map =
      "kernel @map(in x: f32[1003], out y: f32[1003]) {\n  axes i = 1003\n  for i {\n"
      "    store y[i] = exp(x[i])\n  }\n}\n";
  const std::string packs =
      "kernel @packs(in x: f32[1024], out y: f32[1024]) {\n  axes i = 1024\n  for i {\n"
      "    store y[i] = exp(x[i])\n  }\n}\n";
  const std::string rows = print(softmax("23", "45"));
  return {
      {"MapGoesOneFurther", map, "< 1003;", "< 1004;"},
      {"MapEndsOneEarlier", map, "< 1003;", "< 1002;"},
      {"MapBeginsOneLater", map, "u_ = nb_team<1>();", "u_ = nb_team<1>() + 1;"},
      {"MapStoresNothing", map, "y[", "if (i != 1000) y["},
      {"PacksGoOneFurther", packs, "< 256;", "< 257;"},
      {"PacksEndOneEarlier", packs, "< 256;", "< 255;"},
      {"RowsGoOneFurther", rows, "< 45;", "< 46;"},
      {"RowsEndOneEarlier", rows, "< 45;", "< 44;"},
      {"TeamsGoOneFurther", rows, "< 23;", "< 24;"},
      {"RankIsOff", rows, "nb_rank<32>()", "nb_rank<16>()"},
      {"ProductGoesOneColumnFurther", product, "n_ >= 50", "n_ > 50"},
      {"ProductEndsOneRowEarlier", product, "m >= 37", "m >= 36"},
      {"ProductReadsOneFurther", product, "37 - m", "38 - m"},
      {"ScatterOwnsOneRowMore", kScatter, "row_ < last_", "row_ <= last_"},
      {"ScatterLeavesTheLastUpdateOut", kScatter, "at_ < 2100", "at_ < 2099"},
      {"ScatterListsInAnotherOrder", kScatter, "(1u << lane_) - 1", "~1u << lane_"},
      {"ScatterCombinesOneUpdateLess", kScatter, "e_ + l_ < all_", "e_ + l_ + 1 < all_"},
      {"TensorCoresReadOneFurther", halves, "k < 70", "k <= 70"},
      {"TensorCoresReadOneRowFurther", halves, "m < 70", "m <= 70"},
      {"TensorCoresStoreOneRowFurther", halves, "m >= 70", "m > 70"},
      {"TensorCoresLeaveTheLastStepOut", halves, "tiles_of_k_ = 3", "tiles_of_k_ = 2"},
  };
}

class Faults : public testing::TestWithParam<Fault> {};

TEST_P(Faults, AreNoticed) {
  const Fault& fault = GetParam();
  Kernel k = parse_kernel(fault.kernel, fault.name).value();
  CudaKernel healthy = printed(k);
  ASSERT_NE(healthy.text.find(fault.from), std::string::npos) << healthy.text;
  Mutant mutant{fault.name, healthy};
  mutant.code.text = replaced(healthy.text, fault.from, fault.to);
  expect_all_noticed(k, healthy, {mutant});
}

INSTANTIATE_TEST_SUITE_P(Kernels, Faults, testing::ValuesIn(faults()),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace nabla::kernel_ir

// What follows from the lists of a problem's fields and roles: its key and back, the bundle's form of a call, checks and
// binding; of the kinds that there are, and of one that only this file knows.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "codegen/program/pack_library.h"
#include "ir/library/call.h"
#include "runtime/format/problems.h"

namespace nabla {
namespace {

using Gemm = GemmProblemOf<int64_t>;

template <class P>
std::optional<P> whole(std::string_view key) {
  std::string_view rest;
  std::optional<P> out = parse_problem<P>(key, &rest);
  return rest.empty() ? out : std::nullopt;
}

class Draw {
 public:
  int64_t number(int64_t most) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(most)) + 1; }
  bool flag() { return random_() % 2 == 0; }

  Gemm gemm() {
    Gemm p{.dtype = static_cast<DType>(random_() % kDTypeCount)};
    p.batch = number(3), p.m = number(5000), p.n = number(5000), p.k = number(70);
    p.transpose_a = flag(), p.transpose_b = flag();
    EXPECT_TRUE(p.complete());
    return p;
  }
  ConvolutionSpec convolution() {
    ConvolutionSpec p;
    p.kind = static_cast<ConvolutionKind>(random_() % 3);
    p.groups = number(2);
    p.input_shape = {number(64)}, p.output_shape = {p.input_shape[0]};
    for (int64_t d = number(3); d > 0; --d) {
      p.strides.push_back(number(2)), p.dilations.push_back(number(2)), p.padding_low.push_back(number(3) - 1);
      p.filter_shape.push_back(number(5)), p.output_shape.push_back(number(20));
      p.input_shape.push_back(p.output_shape.back() * 2 + 10);
    }
    p.input_shape.push_back(4), p.filter_shape.push_back(4 / p.groups);
    p.filter_shape.push_back(6), p.output_shape.push_back(6);
    EXPECT_TRUE(p.complete());
    return p;
  }

 private:
  std::mt19937_64 random_{5};
};

// A text that is accepted is written again as it was; cut short or changed it may be the key of another problem, but
// never one of which something was passed over.
template <class P>
void expect_exact(const std::string& key) {
  for (size_t size = 0; size <= key.size(); ++size)
    for (std::string text :
         {key.substr(0, size), key.substr(0, size) + "7", key.substr(0, size) + "x" + key.substr(size)}) {
      std::optional<P> read = whole<P>(text);
      EXPECT_TRUE(!read || problem_key(*read) == text) << text;
    }
}

TEST(ProblemKey, IsReadByTheListThatWroteIt) {
  Draw draw;
  for (int i = 0; i < 200; ++i) {
    Gemm gemm = draw.gemm();
    EXPECT_EQ(whole<Gemm>(problem_key(gemm)), gemm) << problem_key(gemm);
    expect_exact<Gemm>(problem_key(gemm));
    ConvolutionSpec convolution = draw.convolution();
    EXPECT_EQ(whole<ConvolutionSpec>(convolution.key()), convolution) << convolution.key();
    expect_exact<ConvolutionSpec>(convolution.key());
  }
}

TEST(ProblemKey, WhatFollowsIsLeftOver) {
  std::string_view rest;
  std::optional<Gemm> gemm = parse_problem<Gemm>("gemm bf16 1x2x3x4 nt bias align 16", &rest);
  ASSERT_TRUE(gemm);
  EXPECT_EQ(rest, " bias align 16");
  EXPECT_EQ(gemm->dtype, DType::kBF16);
  EXPECT_TRUE(gemm->transpose_b && !gemm->transpose_a);
  EXPECT_EQ((std::array{gemm->m, gemm->n, gemm->k, gemm->lda, gemm->ldb, gemm->ldc}),
            (std::array<int64_t, 6>{2, 3, 4, 4, 4, 3}));
}

TEST(ProblemKey, RefusesWhatIsNone) {
  for (const char* text :
       {"", "gemm", "gemm f32", "gemm f31 1x2x3x4 nn", "gemm f32 1x2x3 nn", "gemm f32 1x2x3x4", "gemm f32 1x2x3x4 nx",
        "gemm f32 1x02x3x4 nn", "gemm f32 1x-2x3x4 nn", "gemm f32 1x0x3x4 nn", "gemm f32 1x99999999999999999999x3x4 nn",
        "gemm f32 1x70000000000000x3x70000000000000 nn", "gemm  f32 1x2x3x4 nn", "gem f32 1x2x3x4 nn"})
    EXPECT_FALSE(whole<Gemm>(text)) << text;
  for (const char* text :
       {"convolution f32 forward 1x4x4x1 3x3x1x2 1x2x2x2 stride 1 pad 0,0",                 // ranks differ
        "convolution f32 forward 1x4x4x1 3x3x1x2 1x2x2x2 stride 1,1",                       // no padding
        "convolution f32 backward 1x4x4x1 3x3x1x2 1x2x2x2 stride 1,1 pad 0,0",              // no such kind
        "convolution f32 forward 1x4x4x1 3x3x1x2 1x2x0x2 stride 1,1 pad 0,0",               // an empty shape
        "convolution f32 forward 1x4x4x1 3x3x1x2 1x2x2x2 stride 1,1 pad 0,0 dilation 1,1",  // not written
        "convolution f32 forward 1x4x4x1 3x3x1x2 1x2x2x2 stride 1,1 pad 0,0 groups 1"})
    EXPECT_FALSE(whole<ConvolutionSpec>(text)) << text;
}

TEST(ProblemPlaces, EveryFieldSurvivesTheBundle) {
  Draw draw;
  for (int i = 0; i < 20; ++i) {
    Gemm gemm = draw.gemm();
    gemm.lda += 3, gemm.stride_c += 5, gemm.activation = Activation::kGelu, gemm.tf32 = true;
    format::GemmT table;
    format::set_problem(table, gemm);
    flatbuffers::FlatBufferBuilder b;
    b.Finish(format::CreateGemm(b, &table));
    EXPECT_EQ(format::problem_of(*flatbuffers::GetRoot<format::Gemm>(b.GetBufferPointer())), gemm);
    ConvolutionSpec convolution = draw.convolution();
    convolution.tf32 = true, convolution.padding_high[0] += 1;
    format::ConvolutionT other;
    format::set_problem(other, convolution);
    b.Clear();
    b.Finish(format::CreateConvolution(b, &other));
    EXPECT_EQ(format::problem_of(*flatbuffers::GetRoot<format::Convolution>(b.GetBufferPointer())), convolution);
  }
}

// ---- A kind of its own: a sort of rows

enum class Order : uint8_t { kUp, kDown };
std::span<const std::string_view> names_of(Order) {
  static constexpr std::string_view kNames[] = {"up", "down"};
  return kNames;
}
std::string_view name_of(Order order) { return names_of(order)[static_cast<size_t>(order)]; }

template <class Size>
struct SortProblemOf {
  DType dtype = DType::kF32;
  Size rows = 1, columns = 1;
  Order order = Order::kUp;
  std::vector<int64_t> keys;
  int64_t ties = 1;
  Size stride = 1;
  bool operator==(const SortProblemOf&) const = default;

  static constexpr std::string_view kKind = "sort";
  static constexpr auto fields() {
    using P = SortProblemOf;
    return std::tuple{in_key("dtype", &P::dtype, " "),       in_key("rows", &P::rows, " "),
                      in_key("columns", &P::columns, "x"),   in_key("order", &P::order, " "),
                      in_key("keys", &P::keys, " by ", ","), in_key_unless_one("ties", &P::ties, " ties "),
                      beside_key("stride", &P::stride)};
  }
  bool complete() {
    stride = columns;
    return rows > 0 && columns > 0;
  }
};
using Sort = SortProblemOf<int64_t>;

/// What the IR says of it.
struct IrSort : SortProblemOf<ir::Dim> {
  Sort at_bounds() const {
    return with_sizes<Sort, SortProblemOf<ir::Dim>>(*this, [](const ir::Dim& d) { return d.bounds().max; });
  }
  std::string key() const { return problem_key(at_bounds()); }
  template <class F>
  void for_each_size(F f) const {
    for_each_field_of<ir::Dim>(*this, f);
  }
  DType factors() const { return dtype; }
  ir::Dim flops() const { return rows * columns; }
  std::string epilogue() const { return ""; }
  void round_factors() {}
};

/// Where a bundle would have it: the two forms of a table.
struct SortT {
  format::DType dtype = format::DType::Bool;
  uint8_t order = 0;
  int64_t rows = 0, columns = 0, ties = 0, stride = 0;
  std::vector<int64_t> keys;
  std::string implementation;
  std::vector<uint32_t> sizes;
  using AddressPtr = std::unique_ptr<format::AddressT>;
  AddressPtr from, weights, workspace, to, order_of_ties;
  std::unique_ptr<format::LaunchT> fallback;
  std::vector<format::Operand> fallback_operands;
};
struct SortTable {
  const SortT& t;
  format::DType dtype() const { return t.dtype; }
  uint8_t order() const { return t.order; }
  int64_t rows() const { return t.rows; }
  int64_t columns() const { return t.columns; }
  int64_t ties() const { return t.ties; }
  int64_t stride() const { return t.stride; }
  std::vector<int64_t> keys() const { return t.keys; }
  const format::AddressT* from() const { return t.from.get(); }
  const format::AddressT* weights() const { return t.weights.get(); }
  const format::AddressT* workspace() const { return t.workspace.get(); }
  const format::AddressT* to() const { return t.to.get(); }
  const format::AddressT* order_of_ties() const { return t.order_of_ties.get(); }
};
using format::Place;
constexpr std::tuple kSortPlaces{
    Place<&SortTable::dtype, &SortT::dtype>{},     Place<&SortTable::rows, &SortT::rows>{},
    Place<&SortTable::columns, &SortT::columns>{}, Place<&SortTable::order, &SortT::order>{},
    Place<&SortTable::keys, &SortT::keys>{},       Place<&SortTable::ties, &SortT::ties>{},
    Place<&SortTable::stride, &SortT::stride>{},
};
using format::RolePlace;
constexpr std::tuple kSortRoles{
    RolePlace<&SortTable::from, &SortT::from>{"from"},
    RolePlace<&SortTable::weights, &SortT::weights>{"weights"},
    RolePlace<&SortTable::workspace, &SortT::workspace>{"workspace"},
    RolePlace<&SortTable::to, &SortT::to>{"to"},
    RolePlace<&SortTable::order_of_ties, &SortT::order_of_ties>{"order_of_ties"},
};
const auto& roles_of(const SortT&) { return kSortRoles; }
void set_problem(SortT& table, const Sort& problem) { format::write_problem(kSortPlaces, problem, table); }
void set_sizes(SortT& table, const std::vector<uint32_t>& references) { table.sizes = references; }

IrSort symbolic_sort() {
  auto batch = std::make_shared<ir::Symbol>();
  batch->name = "batch", batch->min = 1, batch->max = 64;
  IrSort out;
  out.rows = ir::Dim::symbol(batch), out.columns = 100, out.stride = 100;
  out.order = Order::kDown, out.keys = {2, 0};
  return out;
}

/// What the program around a call does for it.
struct ProgramWriter {
  std::vector<std::string> sizes;
  uint32_t reference(const ir::Dim& size) {
    sizes.push_back(size.str());
    return size.is_static() ? 0 : 1;
  }
  std::unique_ptr<format::AddressT> address(const program::Address& a) {
    auto out = std::make_unique<format::AddressT>();
    out->offset = static_cast<uint64_t>(a.offset);
    return out;
  }
  format::Operand operand(const program::Operand& o) { return {format::DType::F32, o.written, 0}; }
  format::LaunchT launch(const program::Launch& l, std::vector<format::Operand>& operands) {
    format::LaunchT out;
    out.kernel = l.kernel;
    for (const program::Operand& o : l.operands) operands.push_back(operand(o));
    return out;
  }
};
program::Operand operand(int64_t offset, bool written) { return {{.offset = offset}, ir::Type(DType::kF32, {100}), written}; }

TEST(ANewKind, HasAKeyThatTuningFilesMayName) {
  EXPECT_EQ(symbolic_sort().key(), "sort f32 64x100 down by 2,0");
  EXPECT_EQ(whole<Sort>("sort f32 64x100 down by 2,0"), symbolic_sort().at_bounds());
  std::string_view rest;
  EXPECT_EQ((kind_of_key<Gemm, Sort>("sort f32 64x100 up by 1 ties 2", rest)), "sort");
  EXPECT_EQ((kind_of_key<Gemm, Sort>("sort", rest)), "sort");
  EXPECT_EQ((kind_of_key<Gemm, Sort>("sort f32 64x100 sideways by 1", rest)), "");
  expect_exact<Sort>("sort f32 64x100 up by 1 ties 2");
}

TEST(ANewKind, IsEmittedReadAndBound) {
  IrSort sort = symbolic_sort();
  sort.ties = 3;
  program::LibraryCall call{.library = "sorter", .implementation = "radix"};
  call.roles = {{"to", operand(512, true)}, {"from", operand(0, false)}};
  call.workspace = operand(1024, true).address;
  call.fallback = program::Launch{3, {operand(0, false), operand(512, true)}};
  ProgramWriter writer;
  std::vector<format::Operand> operands;
  SortT table = program::library_table<SortT>(call, sort, writer, operands);
  EXPECT_EQ(table.implementation, "radix");
  EXPECT_EQ(table.fallback->kernel, 3u);
  EXPECT_EQ(table.fallback_operands.size(), 2u);
  Sort bound = format::read_problem<Sort>(kSortPlaces, SortTable{table});
  EXPECT_EQ(bound, sort.at_bounds());

  // Operands stand in the order of the kind's roles, up to the last that the call has.
  std::vector<std::string> roles;
  format::for_each_address(kSortRoles, SortTable{table}, [&](std::string_view role, const format::AddressT* at) {
    roles.push_back(fmt::format("{}={}", role, at == nullptr ? "none" : std::to_string(at->offset)));
  });
  EXPECT_EQ(roles, (std::vector<std::string>{"from=0", "weights=none", "workspace=1024", "to=512", "order_of_ties=none"}));
  ASSERT_EQ(operands.size(), 4u);
  EXPECT_EQ((std::array{operands[0].written(), operands[2].written(), operands[3].written()}),
            (std::array{false, true, true}));

  // References to sizes are written and bound in one order: ties, of type int64_t, are among them only when bound.
  EXPECT_EQ(writer.sizes, (std::vector<std::string>{"batch", "100", "100"}));
  EXPECT_EQ(table.sizes, (std::vector<uint32_t>{1, 0, 0}));
  int64_t table_of_sizes[] = {7, 100, 3, 100}, i = 0;
  for_each_field_of<int64_t>(bound, [&](int64_t& size) { size = table_of_sizes[i++]; });
  EXPECT_EQ(bound.rows, 7);
}

TEST(ANewKind, IsChecked) {
  Sort sort = symbolic_sort().at_bounds();
  EXPECT_EQ(implausible_fields(sort, kMaxArrayBytes), "");
  sort.rows = -1, sort.keys[1] = kMaxArrayBytes + 1;
  EXPECT_EQ(implausible_fields(sort, kMaxArrayBytes), "rows=-1, keys=70368744177665");
}

TEST(ANewKind, IsReportedLikeTheOthers) {
  using Problem = ir::ProblemOf<ir::GemmProblem, ir::ConvolutionProblem, IrSort>;
  Problem problem = symbolic_sort();
  auto row = std::visit([](const auto& p) { return fmt::format("{}: {} FLOPs", p.key(), p.flops().str()); }, problem);
  EXPECT_EQ(row, "sort f32 64x100 down by 2,0: 100*batch FLOPs");
}

}  // namespace
}  // namespace nabla

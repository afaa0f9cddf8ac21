// Where plan_memory puts values: nothing that is alive is overwritten, state is updated in place or the user is told.
#include <gtest/gtest.h>

#include <algorithm>

#include "codegen/cpu/kernel_printer.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "tests/lower/lower_text.h"
#include "tests/transforms/random_function.h"

namespace nabla::lower_tests {
namespace {

struct Lifetime {
  ir::ValueId value;
  ir::Placement place;
  int first, last;  // node positions; a parameter is there from -1 on, a result until the end
};

// Lifetimes from the order of nodes alone, views counted as uses of what they look at.
std::vector<Lifetime> lifetimes(const ir::Module& m, const ir::Function& f, const ir::Entry& entry) {
  const ir::FunctionPlan& plan = m.plan->functions.at(f.name);
  int end = static_cast<int>(f.nodes.size());
  std::vector<ir::ValueId> root(f.values.size());
  std::vector<int> first(f.values.size(), -1), last(f.values.size(), -1);
  for (size_t v = 0; v < root.size(); ++v) root[v] = static_cast<int>(v);
  for (int i = 0; i < end; ++i) {
    const ir::Node& n = f.nodes[i];
    for (ir::ValueId id : n.operands) last[root[id]] = i;
    for (ir::ValueId id : n.results) {
      if (n.op->lower == ir::Lowering::kView)
        root[id] = root[n.operands[0]];
      else
        first[id] = last[id] = i;
    }
  }
  for (ir::ValueId id : f.results) last[root[id]] = end;
  for (size_t p = 0; p < f.params.size(); ++p) {
    bool leaf = p < entry.reads.size();
    bool replaced = leaf && std::count(entry.writes.begin(), entry.writes.end(), entry.reads[p]);
    if (!replaced) last[f.params[p]] = end;
  }
  std::vector<Lifetime> out;
  for (size_t v = 0; v < root.size(); ++v)
    if (root[v] == static_cast<int>(v) && plan.values[v].offset >= 0)
      out.push_back({static_cast<int>(v), plan.values[v], first[v], last[v]});
  return out;
}

void expect_no_overlap(const ir::Module& m, const ir::Entry& entry) {
  const ir::Function& f = *m.find(entry.function);
  std::vector<Lifetime> all = lifetimes(m, f, entry);
  for (size_t i = 0; i < all.size(); ++i)
    for (size_t j = i + 1; j < all.size(); ++j) {
      const Lifetime &a = all[i], &b = all[j];
      if (a.place.base != b.place.base || a.place.index != b.place.index || a.place.base == ir::Base::kConstants)
        continue;
      if (a.place.offset + a.place.bytes <= b.place.offset || b.place.offset + b.place.bytes <= a.place.offset)
        continue;
      if (a.last < b.first || b.last < a.first) continue;
      const Lifetime &older = a.first < b.first ? a : b, &newer = a.first < b.first ? b : a;
      bool handed_over = older.last == newer.first && older.first < newer.first &&
                         older.place.offset == newer.place.offset && older.place.bytes == newer.place.bytes;
      EXPECT_TRUE(handed_over) << "@" << f.name << ": " << ir::value_name(f, a.value) << " (" << a.first << ".."
                               << a.last << ") and " << ir::value_name(f, b.value) << " (" << b.first << ".." << b.last
                               << ") share bytes";
    }
}

TEST(PlanMemory, NothingAliveIsOverwrittenInRandomFunctionsAndTheirGradients) {
  int shared = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    ir::Module m;
    transforms::add(m, transforms::random_function("f", seed, 6 + static_cast<int>(seed % 10)));
    transforms::add_wrapper(m, "g", "value_and_grad", "f", {{"wrt", ir::Ints{0, 1, 2, 3}}});
    m = transforms::flattened(m);
    // The parameters that have a gradient are state, written back as if the gradient were the new value.
    const ir::Function& g = *m.find("g");
    ir::Entry entry{"g", "g", {}, {}, {}, {}};
    for (size_t i = 0; i < g.params.size(); ++i) entry.inputs.push_back("x" + std::to_string(i));
    for (size_t i = 0; i < g.results.size(); ++i) entry.outputs.push_back("y" + std::to_string(i));
    m.entries = {entry};
    Result<ir::Module> out = planned(m);
    ASSERT_TRUE(out.ok()) << "seed " << seed << to_string(out.errors());
    expect_no_overlap(*out, entry);
    // The plan must do something: fewer bytes than all temporaries side by side.
    int64_t sum = 0;
    const ir::FunctionPlan& plan = out->plan->functions.at("g");
    for (const Lifetime& l : lifetimes(*out, *out->find("g"), entry))
      if (l.place.base == ir::Base::kArena) sum += l.place.bytes;
    shared += plan.temporary_bytes < sum;
    EXPECT_EQ(out->plan->arena_bytes,
              out->plan->state_bytes + std::max(plan.temporary_bytes, out->plan->functions.at("f").temporary_bytes));
  }
  EXPECT_GT(shared, 30);
}

// Two leaves, of which one is only read; the loss reads both old values.
constexpr const char* kStep = R"(state w: f32[16,8]
state scale: f32[8]
entry step calls @step {
  reads w, scale
  writes w
  inputs x
  outputs loss
}
func @step(%w: f32[16,8], %scale: f32[8], %x: f32[16,8]) {
  %s = broadcast_in_dim(%scale) {shape=[16,8], dims=[1]}
  %a = mul(%w, %s)
  %b = mul(%a, %x)
  %loss = reduce_sum(%b) {axes=[0, 1]}
  %d = mul(%x, %s)
  %new = sub(%w, %d)
  return %new, %loss
}
)";

TEST(PlanMemory, AStateLeafIsUpdatedWhereItLies) {
  Result<ir::Module> out = planned(flat(kStep));
  ASSERT_TRUE(out.ok()) << to_string(out.errors());
  const ir::Function& f = *out->find("step");
  const ir::FunctionPlan& plan = out->plan->functions.at("step");
  const ir::Placement &old = plan.values[f.params[0]], &now = plan.values[f.results[0]];
  EXPECT_EQ(now.base, ir::Base::kArena);
  EXPECT_EQ(now.offset, old.offset);
  EXPECT_EQ(now.offset, out->plan->leaves[0].offset);
  EXPECT_EQ(out->plan->state_bytes, 16 * 8 * 4 + 64);  // each leaf begins on a cache line
  EXPECT_EQ(plan.values[f.results[1]].base, ir::Base::kOutput);
  for (const Lifetime& l : lifetimes(*out, f, out->entries[0]))
    if (l.first >= 0 && l.value != f.results[0] && l.place.base == ir::Base::kArena) {
      EXPECT_GE(l.place.offset, out->plan->state_bytes) << ir::value_name(f, l.value);
    }
  expect_no_overlap(*out, out->entries[0]);
}

// A cache grows where it lies, although the new one is read in the same step; its kernel may be given one address
// twice.
TEST(PlanMemory, ACacheGrowsInPlace) {
  Result<ir::Module> out = planned(flat(R"(state cache: f32[2,16,8]
entry step calls @step {
  reads cache
  writes cache
  inputs x, at
  outputs sums
}
func @step(%cache: f32[2,16,8], %x: f32[2,1,8], %at: i32[]) {
  %zero = constant() {value=i64[] {0}}
  %new = dynamic_update_slice(%cache, %x, %zero, %at, %zero)
  %sums = reduce_sum(%new) {axes=[1]}
  return %new, %sums
}
)"));
  ASSERT_TRUE(out.ok()) << to_string(out.errors());
  const ir::Function& f = *out->find("step");
  const ir::FunctionPlan& plan = out->plan->functions.at("step");
  EXPECT_EQ(plan.values[f.results[0]].base, ir::Base::kArena);
  EXPECT_EQ(plan.values[f.results[0]].offset, plan.values[f.params[0]].offset);
  EXPECT_EQ(plan.temporary_bytes, 0);
  expect_no_overlap(*out, out->entries[0]);
  ir::Target target = ir::find_target("cpu:x86-64-v3").value();
  int skips = 0;
  for (const kernel_ir::KernelPtr& k : out->kernels)
    skips += codegen::print_cpp(*k, "k", target).find("if ((const void*)cache != (const void*)") != std::string::npos;
  EXPECT_EQ(skips, 1) << "the copy of the whole cache is skipped where it lies in place";
}

std::string swap_like(const std::string& a, const std::string& b, int size = 2000) {
  std::string text = R"(state a: f32[N]
state b: f32[N]
entry step calls @step {
  reads a, b
  writes a, b
}
func @step(%a: f32[N], %b: f32[N]) {
  %u = exp(%b) loc("model.cc":3)
  %v = tanh(%a) loc("model.cc":4)
)" + a + b + "  return %x, %y\n}\n";
  for (size_t at = 0; (at = text.find('N', at)) != std::string::npos;) text.replace(at, 1, std::to_string(size));
  return text;
}

TEST(PlanMemory, AnUpdateThatReadsAllOfItsLeafIsRefusedWithTheBytesOfACopy) {
  std::string head =
      "state w: f32[60,60]\nentry step calls @step {\n  reads w\n  writes w\n}\nfunc @step(%w: f32[60,60]) {\n"
      "  %t = transpose(%w) {permutation=[1, 0]} loc(\"model.cc\":7 \"step\" \"w = transpose(w)\")\n";
  Result<ir::Module> out = planned(flat(head + "  return %t\n}\n"));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(to_string(out.errors()),
            "error[E0401]: state leaf `w` cannot be updated in place in entry `step`: kernel transpose reads all of it "
            "while it writes\n"
            "  --> model.cc:7  in step\n"
            "   | w = transpose(w)\n"
            "   = note: a copy would cost 14400 bytes\n"
            "   = note: in pass `plan-memory`\n"
            "   = help: pass the new value through nabla::copy, which allows it\n");
  Result<ir::Module> copied = planned(flat(head + "  %c = copy(%t)\n  return %c\n}\n"));
  ASSERT_TRUE(copied.ok()) << to_string(copied.errors());
  EXPECT_EQ(copied->plan->functions.at("step").temporary_bytes, 14400);  // the copy
}

TEST(PlanMemory, LeavesThatReplaceEachOtherAreRefusedWithBothLines) {
  Result<ir::Module> out =
      planned(flat(swap_like("  %x = copy(%u) loc(\"model.cc\":5)\n", "  %y = copy(%v) loc(\"model.cc\":6)\n")));
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : to_string(out.errors()));
  out = planned(flat(swap_like("  %x = neg(%u) loc(\"model.cc\":5)\n", "  %y = neg(%v) loc(\"model.cc\":6)\n")));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(to_string(out.errors()),
            "error[E0401]: state leaf `a` cannot be updated in place in entry `step`: its old value is read after the "
            "new one is stored\n"
            "  --> model.cc:5\n"
            "   = note: a copy would cost 8000 bytes\n"
            "   = note: kernel neg_2 at model.cc:6 waits too\n"
            "   = note: in pass `plan-memory`\n"
            "   = help: pass the new value through nabla::copy, which allows it\n");
}

TEST(PlanMemory, ASmallLeafThatCannotBeUpdatedInPlaceIsCopiedAtTheEnd) {
  Result<ir::Module> out = planned(flat(swap_like("  %x = neg(%u)\n", "  %y = neg(%v)\n", 8)));
  ASSERT_TRUE(out.ok()) << to_string(out.errors());
  const ir::FunctionPlan& plan = out->plan->functions.at("step");
  ASSERT_EQ(plan.staged_writes.size(), 1u);  // the other one is updated in place
  const ir::Placement& beside = plan.values[plan.staged_writes[0].value];
  EXPECT_GE(beside.offset, out->plan->state_bytes);
  EXPECT_EQ(beside.bytes, 32);
}

TEST(PlanMemory, AProgramAboveItsBudgetIsRefusedAndOneAtItPasses) {
  ir::Module m = flat(kStep);
  int64_t needed = planned(m)->plan->arena_bytes;
  EXPECT_TRUE(planned(m, std::to_string(needed)).ok());
  Result<ir::Module> out = planned(m, std::to_string(needed - 1));
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.errors()[0].code, Code::kOverBudget);
  EXPECT_EQ(out.errors()[0].message,
            fmt::format("the program needs {} bytes (576 of state, {} of temporaries), {} are allowed", needed,
                        needed - 576, needed - 1));
  EXPECT_EQ(out.errors()[0].help,
            "raise --max-bytes, give up speed for memory with --remat-bytes, or shrink the program");
  EXPECT_EQ(out.errors()[0].notes[0], "the state has 512 bytes of w f32[16,8], 32 bytes of scale f32[8]");
  out = planned(flat(R"(entry main calls @main {
  inputs x
  outputs y
}
func @main(%x: f32[16,16]) {
  %a = exp(%x) loc("model.cc":3)
  %y = dot_general(%a, %a) {lhs_contract=[1], rhs_contract=[0]}
  return %y
}
)"), "8");
  ASSERT_FALSE(out.ok());
  EXPECT_EQ(out.errors()[0].notes[0],
            "entry main needs 1024 bytes of temporaries at once: 1024 bytes of f32[16,16] by exp at model.cc:3");
  EXPECT_EQ(code_info(Code::kOverBudget).help, "shrink the program, or raise the limit if an option sets it");
}

}  // namespace
}  // namespace nabla::lower_tests

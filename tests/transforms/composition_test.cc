// Any composition of transforms over any function: random functions with calls, branches, loops and functions with
// rules of their own, under random chains of up to three transforms. Each link of a chain is compared with what it
// means for the function below it: differences in f64, a loop over examples, a loop over iterations.
#include "tests/transforms/composition.h"

#include <gtest/gtest.h>

#include "passes/simplify/simplify.h"
#include "tests/property/compare.h"

namespace nabla::transforms {
namespace {

using ir::Module;

// One random function under a random chain; every link is checked against the function below it.
void check_chain(uint64_t seed) {
  Composition c = random_composition(seed);
  SCOPED_TRACE(fmt::format("seed {}: {}", seed, c.text));
  Module flat = flattened(c.module);
  if (flat.functions.empty()) return;
  Module simple = apply(passes::canonicalize, apply(passes::eliminate_dead_code, flat));
  simple = apply(passes::simplify_loops, apply(passes::fold_constants, simple));
  simple = apply(passes::merge_common_subexpressions, apply(passes::canonicalize, simple));
  for (size_t k = 0; k < c.links.size(); ++k) {
    std::string inner = fmt::format("f{}", k), outer = fmt::format("f{}", k + 1);
    Literals args = random_args(*flat.find(outer), seed + k), got = run(flat, outer, args);
    Literals simplified = run(simple, outer, args);
    for (size_t r = 0; r < got.size(); ++r) {
      auto text = property::difference(got[r], simplified[r], {1e-9, false, false, 1});
      ASSERT_FALSE(text) << c.links[k]->name() << ", simplified, result " << r << ": " << *text;
    }
    auto text = c.links[k]->check([&](const Literals& a) { return run(flat, inner, a); }, args, got);
    ASSERT_FALSE(text) << "link " << k << ", " << c.links[k]->name() << ": " << *text;
  }
}

class Compositions : public ::testing::TestWithParam<int> {};

TEST_P(Compositions, EveryLinkMeansWhatItSays) {
  for (uint64_t seed = 1; seed <= 60 && !HasFailure(); ++seed)
    check_chain(static_cast<uint64_t>(GetParam()) * 100 + seed);
}

INSTANTIATE_TEST_SUITE_P(Random, Compositions, ::testing::Range(0, 10));

}  // namespace
}  // namespace nabla::transforms

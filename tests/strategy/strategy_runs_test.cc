// Programs that a strategy spread train as one rank does.
#include <gtest/gtest.h>

#include <map>

#include "tests/property/compare.h"
#include "tests/pass_options.h"
#include "tests/strategy/chain.h"
#include "tests/strategy/trained.h"

namespace nabla::strategy_tests {
namespace {

using Options = std::map<std::string, std::string>;

std::vector<Literal> trained_with(const ir::Module& m, Options options, const std::string& grad_sync = "") {
  driver::CompileOptions compile{.target = "cpu", .library = false, .jobs = 2};
  if (!options.empty()) set_options(compile.pass_options, "apply-strategy", options);
  if (!grad_sync.empty()) set_options(compile.pass_options, "partition", {{"grad-sync", grad_sync}});
  return trained(m, compile);
}

TEST(StrategyRuns, TrainAsOneRankDoes) {
  ir::Module one = chain("dp=1");
  one.meshes.clear();
  std::vector<Literal> expected = trained_with(one, {});
  ASSERT_EQ(expected.size(), 3u);
  auto same = [&](const std::string& mesh, const Options& options) {
    auto text = property::difference(expected, trained_with(chain(mesh), options), property::Tolerance{.relative = 1e-5, .least_scale = 1});
    EXPECT_FALSE(text) << mesh << ": " << *text;
  };
  for (const char* level : {"0", "1", "2", "3"}) same("dp=4", {{"data-axes", "dp"}, {"zero", level}});
  same("rep=2, dp=2", {{"data-axes", "rep,dp"}, {"zero", "3"}, {"zero-axes", "dp"}});
  for (const char* level : {"0", "1", "2", "3"}) same("dp=2, mb=4 temporal", {{"data-axes", "dp,mb"}, {"zero", level}});
  for (const char* level : {"1", "3"}) same("dp=2, tp=2", {{"data-axes", "dp"}, {"zero", level}, {"layouts", "w0=,tp"}});
  for (const char* level : {"0", "3"}) same("dp=2, tp=2", {{"data-axes", "dp"}, {"zero", level}, {"layouts", "w0=dp,tp;w1=dp+tp,"}});
}

TEST(StrategyRuns, LayersOfALoop) {
  ir::Module one = stacked("dp=1");
  one.meshes.clear();
  std::vector<Literal> expected = trained_with(one, {});
  auto same = [&](const std::string& mesh, const Options& options) {
    for (const char* sync : {"last", "each"}) {
      auto text = property::difference(expected, trained_with(stacked(mesh), options, sync),
                                       property::Tolerance{.relative = 1e-5, .least_scale = 1});
      EXPECT_FALSE(text) << mesh << " zero=" << options.at("zero") << " " << sync << ": " << *text;
    }
  };
  for (const char* level : {"0", "1", "3"}) {
    same("dp=4", {{"data-axes", "dp"}, {"zero", level}});
    same("dp=2, mb=4 temporal", {{"data-axes", "dp,mb"}, {"zero", level}});
  }
}

// The batch lies along other axes than those of the data: what microbatches are cut from is gathered before the loop.
TEST(StrategyRuns, BatchesThatTheProgramLaysOut) {
  ir::Module one = chain("dp=1");
  one.meshes.clear();
  std::vector<Literal> expected = trained_with(one, {});
  for (const ir::Sharding& layout : {ir::Sharding{{{}, {{{"dp"}}}}, {}}, ir::Sharding{{{{{"tp"}, {"mb"}}}, {{{"dp"}}}}, {}},
                                     ir::Sharding{{{{{"mb"}}}, {{}, true}}, {}}})
    for (const char* level : {"0", "3"}) {
      ir::Module m = chain("dp=2, tp=2, mb=2 temporal");
      ir::Function f = *m.find("step");
      f.values[f.params.back()].sharding = std::make_shared<const ir::Sharding>(layout);
      m.set(std::make_shared<const ir::Function>(f));
      Options options = {{"data-axes", "dp"}, {"zero", level}};
      auto text = property::difference(expected, trained_with(m, options, "each"), property::Tolerance{.relative = 1e-5, .least_scale = 1});
      EXPECT_FALSE(text) << layout.str() << " zero=" << level << ": " << *text;
    }
}

// The global norm is that of one rank in every mix: each share of a gradient counts once; squares are those of the whole gradient.
TEST(StrategyRuns, UpdatesAreThoseOfOneRank) {
  for (Update update : {Update::kClipped, Update::kSquares}) {
    ir::Module one = chain("dp=1", update);
    one.meshes.clear();
    std::vector<Literal> expected = trained_with(one, {}), plain = trained_with(chain("dp=1"), {});
    EXPECT_TRUE(property::difference(expected, plain, property::Tolerance{.relative = 1e-3, .least_scale = 1}));
    auto same = [&](const std::string& mesh, const Options& options, const std::string& sync = "") {
      auto text = property::difference(expected, trained_with(chain(mesh, update), options, sync),
                                       property::Tolerance{.relative = 1e-5, .least_scale = 1});
      EXPECT_FALSE(text) << mesh << ": " << *text;
    };
    for (const char* level : {"0", "1", "3"}) same("dp=4", {{"data-axes", "dp"}, {"zero", level}});
    same("rep=2, dp=2", {{"data-axes", "rep,dp"}, {"zero", "3"}, {"zero-axes", "dp"}});
    for (const char* level : {"1", "3"})
      for (const char* sync : {"last", "each"}) same("dp=2, mb=4 temporal", {{"data-axes", "dp,mb"}, {"zero", level}}, sync);
  }
}

}  // namespace
}  // namespace nabla::strategy_tests

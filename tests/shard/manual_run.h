// Programs with manual regions, as they are traced, run on one rank and on those of their mesh.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "frontend/nabla.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/text.h"
#include "passes/transform/inline_calls.h"
#include "passes/transform/lower_transforms.h"
#include "tests/property/compare.h"
#include "tests/shard/sharded_run.h"

namespace nabla::shard_tests {

/// The program without transforms and calls; an empty module where that fails, which is a failure of the test.
inline ir::Module flattened(const ir::Module& traced) {
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  Result<ir::Module> flat = passes::lower_transforms(traced, context);
  if (flat.ok()) flat = passes::inline_calls(*flat, context);
  if (flat.ok()) return *flat;
  ADD_FAILURE() << to_string(flat.errors());
  return {};
}

inline std::vector<Literal> random_args(const ir::Function& f, uint64_t seed) {
  ir::Rng rng(seed);
  std::vector<Literal> out;
  for (ir::ValueId id : f.params) {
    Literal v(f.type(id).dtype, f.type(id).extents());
    for (int64_t i = 0; i < v.size(); ++i) v.set(i, static_cast<double>(rng() % 2001) / 1000.0 - 1.0);
    out.push_back(std::move(v));
  }
  return out;
}

/// What is equal: the results on the ranks of the mesh, and those of the interpreter, which runs regions by themselves.
struct ManualRun {
  ir::Module flat, local;
  std::vector<Literal> results;
  std::vector<ir::Remark> remarks;

  /// Names of the collectives of a function, in order.
  std::string collectives(const std::string& function = "f") const {
    std::string out;
    for (const ir::Node& n : local.find(function)->nodes)
      if (n.op->lower == ir::Lowering::kCollective) out += (out.empty() ? "" : " ") + n.op->name;
    return out;
  }
};

inline ManualRun run_manual(const ir::Module& traced, const std::vector<Literal>& args,
                            const std::string& function = "f") {
  ManualRun out;
  out.flat = flattened(traced);
  if (!out.flat.find(function)) return out;
  Result<std::vector<Literal>> expected = ir::interpret(out.flat, function, args);
  EXPECT_TRUE(expected.ok()) << to_string(expected.errors()) << print(out.flat);
  Result<ShardedRun> got = run_sharded(out.flat, function, args);
  EXPECT_TRUE(got.ok()) << (got.ok() ? "" : to_string(got.errors())) << print(out.flat);
  if (!expected.ok() || !got.ok()) return out;
  auto text = property::difference(*expected, got->results, property::Tolerance{1e-5});
  EXPECT_FALSE(text) << *text << "\n" << print(out.flat) << print(got->local);
  out.local = got->local, out.results = got->results, out.remarks = got->remarks;
  return out;
}

inline void expect_equal(const std::vector<Literal>& a, const std::vector<Literal>& b) {
  auto text = property::difference(a, b, property::Tolerance{1e-5});
  EXPECT_FALSE(text) << *text;
}

}  // namespace nabla::shard_tests

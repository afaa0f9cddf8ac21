// Random compositions of transforms, compiled: what the CPU computes is what the interpreter computes of the same
// module, in f64 and in f32. The interpreter itself is compared with what transforms mean in
// tests/transforms/composition_test.
#include <gtest/gtest.h>

#include <regex>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/nightly.h"
#include "tests/property/compare.h"
#include "tests/transforms/composition.h"

namespace nabla::transforms {
namespace {

std::unique_ptr<exec::Session> session_of(const ir::Module& module) {
  driver::CompileOptions options;
  options.target = "cpu:native";
  driver::CompiledBundle bundle = driver::compile(module, options).value();
  format::Bundle opened =
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle.bytes)), "test").value();
  return exec::Session::create(std::move(opened), {.threads = 2}).value();
}

// Every link of the chain as an entry, so that each compile is worth more.
ir::Module with_entries(ir::Module m, size_t links) {
  for (size_t k = 1; k <= links; ++k) {
    std::string name = fmt::format("f{}", k);
    const ir::Function& f = *m.find(name);
    ir::Entry e{name, name, {}, {}, {}, {}};
    for (size_t i = 0; i < f.params.size(); ++i) e.inputs.push_back(fmt::format("x{}", i));
    for (size_t i = 0; i < f.results.size(); ++i) e.outputs.push_back(fmt::format("y{}", i));
    m.entries.push_back(e);
  }
  return m;
}

// The same program with f32 in the place of f64.
ir::Module narrow(const ir::Module& m) {
  std::string text = std::regex_replace(ir::print(m), std::regex("\\bf64\\b"), "f32");
  return ir::parse_module(text, "narrow.nbl", ops::all_ops()).value();
}

class CompiledCompositions : public testing::TestWithParam<int> {
 protected:
  void check(const ir::Module& traced, size_t links, const property::Tolerance& tolerance) {
    ir::Module flat = flattened(traced);
    auto session = session_of(traced);
    for (size_t k = 1; k <= links; ++k) {
      std::string name = fmt::format("f{}", k);
      Literals args = random_args(*flat.find(name), static_cast<uint64_t>(GetParam()) + k);
      Literals want = run(flat, name, args);
      Result<Literals> got = session->call(static_cast<int>(k) - 1, args);
      ASSERT_TRUE(got.ok()) << to_string(got.errors());
      EXPECT_EQ(property::difference(want, *got, tolerance).value_or(""), "") << name;
    }
  }
};

TEST_P(CompiledCompositions, ComputeWhatTheInterpreterComputes) {
  Composition c = random_composition(static_cast<uint64_t>(GetParam()));
  SCOPED_TRACE(c.text);
  ir::Module traced = with_entries(std::move(c.module), c.links.size());
  check(traced, c.links.size(), {1e-9, false, false, 1});  // derivatives of derivatives of sums of about 30 terms
  check(narrow(traced), c.links.size(), {2e-3, false, false, 1});
}

INSTANTIATE_TEST_SUITE_P(Seeds, CompiledCompositions, testing::Range(1, is_nightly() ? 41 : 11));

}  // namespace
}  // namespace nabla::transforms

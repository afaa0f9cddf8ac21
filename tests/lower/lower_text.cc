#include "tests/lower/lower_text.h"

#include <gtest/gtest.h>

#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/pass_manager.h"
#include "tests/pass_options.h"

namespace nabla::lower_tests {
namespace {

Result<ir::Module> lower(const ir::Module& module, bool plan, const std::string& max_bytes, bool library = false,
                         const std::string& name = "cpu:x86-64-v3") {
  ir::Target target = ir::find_target(name).value();
  target.library = library;
  target.library_flops = 1;
  ir::Module local = module;
  local.stage = ir::Stage::kLocal;
  std::vector<passes::Step> steps = passes::lowering_steps();
  if (!plan) steps.pop_back();
  if (!max_bytes.empty()) set_options(steps.back().options, "plan-memory", {{"max-bytes", max_bytes}});
  return NABLA_TRY(passes::run_passes(local, steps, ops::all_ops(), target)).module;
}

}  // namespace

ir::Module flat(const std::string& body) {
  Result<ir::Module> m = ir::parse_module("nabla 1 flat\n" + body, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << (m.ok() ? "" : to_string(m.errors()));
  return m.ok() ? std::move(*m) : ir::Module{};
}

ir::Module function(const std::string& params, const std::string& body) {
  ir::Module m = flat("func @f(" + params + ") {\n" + body + "}\n");
  ir::Entry entry{"f", "f", {}, {}, {}, {}};
  const ir::Function* f = m.find("f");
  for (size_t i = 0; f && i < f->params.size(); ++i) entry.inputs.push_back("x" + std::to_string(i));
  for (size_t i = 0; f && i < f->results.size(); ++i) entry.outputs.push_back("y" + std::to_string(i));
  m.entries.push_back(std::move(entry));
  return m;
}

ir::Module fused(const ir::Module& module) {
  Result<ir::Module> out = lower(module, false, "");
  EXPECT_TRUE(out.ok()) << (out.ok() ? "" : to_string(out.errors()));
  return out.ok() ? std::move(*out) : ir::Module{};
}

Result<ir::Module> fused_with_library(const ir::Module& module) { return lower(module, false, "", true); }

Result<ir::Module> planned_for_gpu(const ir::Module& module, const std::string& target) {
  return lower(module, true, "", true, target);
}

Result<ir::Module> planned(const ir::Module& module, const std::string& max_bytes) {
  return lower(module, true, max_bytes);
}

}  // namespace nabla::lower_tests

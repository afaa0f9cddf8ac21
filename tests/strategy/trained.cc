#include "tests/strategy/trained.h"

#include <gtest/gtest.h>

#include <cmath>

#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::strategy_tests {

std::vector<Literal> trained(const ir::Module& m, const driver::CompileOptions& options) {
  std::vector<Literal> out;
  auto bundle = driver::compile(m, options);
  EXPECT_TRUE(bundle.ok()) << to_string(bundle.errors());
  if (!bundle.ok()) return out;
  auto opened = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle->bytes)), "test");
  auto session = exec::Session::create(std::move(*opened), {.threads = 1});
  EXPECT_TRUE(session.ok()) << to_string(session.errors());
  if (!session.ok()) return out;
  for (size_t i = 0; i < m.state.size(); ++i) {
    Literal value(m.state[i].type.dtype, m.state[i].type.extents());
    for (int64_t k = 0; k < value.size(); ++k) value.set(k, std::sin(static_cast<double>(k * 7 + static_cast<int64_t>(i))) / 8);
    Status set = (*session)->set_state(static_cast<int>(i), value.data());
    EXPECT_TRUE(set.ok()) << to_string(set.errors());
  }
  const ir::Entry& step = *m.find_entry("step");
  const ir::Function& f = *m.find(step.function);
  Literal x(DType::kF32, f.type(f.params.back()).extents());
  for (int run = 0; run < 3; ++run) {
    for (int64_t k = 0; k < x.size(); ++k) x.set(k, std::cos(static_cast<double>(k + run)));
    auto loss = (*session)->call((*session)->find_entry("step"), {x});
    EXPECT_TRUE(loss.ok()) << to_string(loss.errors());
    if (!loss.ok()) return out;
    out.push_back((*loss)[0]);
  }
  return out;
}

}  // namespace nabla::strategy_tests

// Drives the fuzzer of control frames without libFuzzer: over messages of every kind, and seeded mutations of them.
#include <gtest/gtest.h>

#include "runtime/control/wire.h"
#include "tests/fuzz/mutate.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace nabla::fuzz {
namespace {

Input seed_of(control::Kind kind, uint8_t piece) {
  control::MessageT m{.kind = kind};
  m.token = "0123456789abcdef", m.rank = 3, m.ranks = 4, m.epoch = 1, m.code = 610;
  m.bundle = "bundle", m.mesh = "mesh", m.host = "host", m.key = "key", m.value = "value", m.what = "all_reduce", m.text = "text\nnote";
  Input out{piece};
  for (int i = 0; i < 2; ++i)
    for (char c : control::frame(m)) out.push_back(static_cast<uint8_t>(c));
  return out;
}

TEST(ControlFrames, NoBytesDoHarm) {
  uint64_t state = 1;
  for (control::Kind kind : control::EnumValuesKind())
    for (uint8_t piece : {0, 6, 255}) {
      Input seed = seed_of(kind, piece);
      EXPECT_EQ(LLVMFuzzerTestOneInput(seed.data(), seed.size()), 0);
      for (int i = 0; i < 500; ++i) {
        Input changed = mutate(seed, state);
        EXPECT_EQ(LLVMFuzzerTestOneInput(changed.data(), changed.size()), 0);
      }
    }
}

}  // namespace
}  // namespace nabla::fuzz

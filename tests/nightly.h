// How much a generated test draws: a few programs in every run of the tests, more in tools/nightly.
#pragma once

#include <cstdlib>

namespace nabla {

/// True with --config=nightly. A test that asks has the tag `nightly`, by which tools/nightly finds it.
inline bool is_nightly() { return std::getenv("NABLA_TEST_ALL") != nullptr; }

}  // namespace nabla

// How much a generated test draws: a few programs in every run of the tests, more in tools/nightly.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <vector>

namespace nabla {

/// True with --config=nightly. A test that asks has the tag `nightly`, by which tools/nightly finds it.
inline bool is_nightly() { return std::getenv("NABLA_TEST_ALL") != nullptr; }

/// The first `count` cases of a list, which stand for all of it in every run; all cases with --config=nightly.
template <class T>
std::vector<T> some_of(std::vector<T> cases, size_t count) {
  if (!is_nightly() && cases.size() > count) cases.erase(cases.begin() + count, cases.end());
  return cases;
}

/// Returns cases 1, 1 + step, 1 + 2 * step, ... of a list, and all cases with --config=nightly.
template <class T>
std::vector<T> every_nth(size_t step, const std::vector<T>& cases) {
  if (is_nightly()) return cases;
  std::vector<T> out;
  for (size_t i = 1; i < cases.size(); i += step) out.push_back(cases[i]);
  return out;
}

}  // namespace nabla

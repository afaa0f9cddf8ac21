// Enumerations of the compiler and of the bundle's format that are converted by their numbers: they are compared, name
// by name, when this is compiled.
#pragma once

#include <initializer_list>
#include <utility>

namespace nabla::program {

/// Are these all the values of the format's enumeration, in order, and has each the number of its partner?
template <class Format, class Ours>
consteval bool agree(std::initializer_list<std::pair<Format, Ours>> pairs) {
  int next = 0;
  for (auto [theirs, ours] : pairs)
    if (static_cast<int>(theirs) != next || static_cast<int>(ours) != next++) return false;
  return next == static_cast<int>(Format::MAX) + 1;
}

}  // namespace nabla::program

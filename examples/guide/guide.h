// What the guide's programs share: main() of a function that makes a program.
#pragma once

#include <cstdio>

#include "frontend/nabla.h"

namespace guide {

inline int save(int argc, char** argv, nabla::Program (*make_program)()) {
  if (argc != 2) return std::fprintf(stderr, "usage: %s FILE.nir\n", argv[0]), 2;
  try {
    make_program().save(argv[1]);
  } catch (const nabla::Error& e) {
    return std::fputs(e.what(), stderr), 1;
  }
  return 0;
}

}  // namespace guide

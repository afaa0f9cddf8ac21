// How often a run of an entry executes each kernel and library call of a GPU's program, and the time that this is expected to take.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/bill/least_time.h"
#include "ir/bill/library_calls.h"
#include "ir/module.h"

namespace nabla::ir {

/// A loop counts all iterations, a branch the side with the longer least time, a while one iteration. Symbolic sizes have their largest
/// values.
struct Runs {
  std::map<std::string, double> kernels;     ///< by name
  std::map<size_t, double> library_calls;    ///< by row
  void add(const Runs& other, double times);
};
/// By the name of the function.
std::map<std::string, Runs> runs_of(const Module& planned, const Target& target, const std::vector<LibraryBill>& calls, LeastTimes& times);

struct Prediction {
  double us = 0;          ///< of a run
  double library_us = 0;  ///< of it
  double launches = 0, warp_instructions = 0, sectors = 0;
  bool counted = true;  ///< all kernels by their machine code; otherwise some by their schedules alone
};

}  // namespace nabla::ir

// Integer linear programs, solved by COIN-OR's CBC.
#pragma once

#include <utility>
#include <vector>

#include "runtime/base/diagnostic.h"

namespace nabla::passes {

/// Columns x >= 0 whose weighted sum is to be least.
struct IntegerProgram {
  struct Row {
    double least, most;  ///< infinite: no bound
    std::vector<std::pair<int, double>> terms;  ///< column and coefficient; each column once
  };
  std::vector<double> cost;    ///< per column
  std::vector<bool> is_whole;  ///< per column: 0 or 1; else a real number from 0 to 1
  std::vector<Row> rows;
  int add_column(double us, bool whole) { return cost.push_back(us), is_whole.push_back(whole), static_cast<int>(cost.size()) - 1; }
};

/// The best values of the columns, to a thousandth; none where no values obey the rows. One thread: equal programs get equal values,
/// but for those that take 15 s, after which the best values so far count (E0402 where there are none). The library is opened at the
/// first call: E0602 where the system has none.
Result<std::vector<double>> solve(const IntegerProgram& program);

}  // namespace nabla::passes

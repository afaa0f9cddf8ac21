// Small programs over a number of rows and of columns, one per kind of kernel.
#pragma once

#include <string>
#include <vector>

#include "frontend/nabla.h"

namespace nabla::emulator {

struct RowsColumns {
  int64_t rows, columns;
};

struct SizeProgram {
  const char* name;
  /// Declares an entry `name` over [rows, columns] of a dtype. Integer inputs whose names begin with "row" count below
  /// the rows, with "column" below the columns.
  void (*declare)(Program& program, const std::string& name, const ir::Dim& rows, const ir::Dim& columns, DType dtype);
  std::vector<RowsColumns> sizes;
  std::vector<DType> dtypes;
  std::vector<RowsColumns> symbolic = {};  ///< sizes at which one program over symbols runs; none: it has static sizes
};

inline void PrintTo(const SizeProgram& p, std::ostream* out) { *out << p.name; }

/// Programs whose work grows with rows times columns.
const std::vector<SizeProgram>& row_programs();
/// Products, convolutions, windows and procedures, which take more of it.
const std::vector<SizeProgram>& product_programs();

}  // namespace nabla::emulator

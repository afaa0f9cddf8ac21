// The tables of sizes and symbols of a program under construction.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/dim.h"
#include "ir/sharding.h"
#include "runtime/format/program_generated.h"

namespace nabla::program {

class SizeTable {
 public:
  /// Symbols that are coordinates of the rank are its places in `groups`. Both arguments outlive the table.
  SizeTable(format::ProgramT& program, const std::vector<ir::Axes>& groups) : program_(program), groups_(groups) {}

  /// The upper bound.
  static int64_t most(const ir::Dim& size) { return size.bounds().max; }
  /// 0 for a constant, else 1 + the place in the program's table of sizes.
  uint32_t reference(const ir::Dim& size);
  std::unique_ptr<format::SizeT> formula(const ir::Dim& size);
  uint32_t symbol(const ir::Symbol& symbol);

  /// Forgets which symbols were used.
  void start_entry() { used_.clear(); }
  /// Since then, in order of first use.
  const std::vector<ir::SymbolRef>& used() const { return used_; }

 private:
  format::ProgramT& program_;
  const std::vector<ir::Axes>& groups_;
  std::map<std::string, uint32_t> size_of_, symbol_of_;
  std::vector<ir::SymbolRef> used_;
};

}  // namespace nabla::program

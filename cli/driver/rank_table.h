// The table of a bundle for all ranks (ranks.fbs), which is the global picture of a program set.
#pragma once

#include "ir/program_set.h"

namespace nabla::format {
struct RanksT;
}
namespace nabla::driver {

format::RanksT rank_table(const ir::ProgramSet& set);

}  // namespace nabla::driver

// Where the parts of a program for several ranks lie.
#pragma once

#include <nlohmann/json.hpp>

#include "ir/program_set.h"

namespace nabla::driver {

/// `mesh` and `wholes` of the report, of a set for several ranks: {name, ranks, axes: [[name, size], ...]}, and the tensors of
/// which the ranks of a class have parts: [{kind, entry, name, type, shape, cuts, copies, padding}, ...], of the kinds "state",
/// "input" and "output". `cuts` has per dimension [begin, [[stride, count, axis], ...]]: the part of rank r begins at begin + its
/// extent * the number that the digits r / stride % count make, the first the most significant; no cuts: every rank has the
/// whole. `copies` is how many ranks have one part; `padding` the elements that all parts together have beyond the tensor's.
void add_mesh(const ir::ProgramSet& set, size_t of_class, nlohmann::ordered_json& report);

}  // namespace nabla::driver

// A library call in the bundle's format: one function for every kind of problem.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "codegen/program/program.h"
#include "runtime/format/problems.h"

namespace nabla::program {

/// The table of a call. `Table` has the fields implementation, fallback and fallback_operands, and beside it stand
/// set_problem, set_sizes and roles_of (runtime/format/problems.h). `Writer` has
///   uint32_t reference(const ir::Dim&)                           // 0 for a static size
///   std::unique_ptr<format::AddressT> address(const Address&)
///   format::Operand operand(const Operand&)
///   format::LaunchT launch(const Launch&, std::vector<format::Operand>& operands)
/// `operands` become those of the instruction: one per role, up to the last that the call has.
template <class Table, class Problem, class Writer>
Table library_table(const LibraryCall& call, const Problem& problem, Writer& writer,
                    std::vector<format::Operand>& operands) {
  Table out;
  out.implementation = call.implementation;
  set_problem(out, problem.at_bounds());
  std::vector<uint32_t> sizes;
  problem.for_each_size([&](const ir::Dim& size) { sizes.push_back(writer.reference(size)); });
  set_sizes(out, sizes);
  size_t present = 0;
  format::for_each_role(roles_of(out), out, [&](std::string_view role, std::unique_ptr<format::AddressT>& at) {
    bool scratch = role == "workspace";
    const Operand* found = scratch ? nullptr : call.find(role);
    operands.push_back(found ? writer.operand(*found) : format::Operand(format::DType::U8, scratch, 0));
    if (found) at = writer.address(found->address);
    if (scratch && call.workspace) at = writer.address(*call.workspace);
    if (at) present = operands.size();
  });
  operands.resize(present);
  if (call.fallback)
    out.fallback = std::make_unique<format::LaunchT>(writer.launch(*call.fallback, out.fallback_operands));
  return out;
}

}  // namespace nabla::program

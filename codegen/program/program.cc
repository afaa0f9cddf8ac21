#include "codegen/program/program.h"

#include <algorithm>

namespace nabla::program {
namespace {

struct OperandsOf {
  using Operands = std::vector<Operand>;
  Operands operator()(const Launch& a) const { return a.operands; }
  Operands operator()(const LibraryCall& a) const {
    Operands out;
    for (const LibraryCall::Role& r : a.roles) out.push_back(r.operand);
    if (a.workspace) out.push_back({*a.workspace, ir::Type(DType::kU8, {a.workspace->bytes}), true});
    return out;
  }
  Operands operator()(const Copy& a) const { return {a.from, a.to}; }
  Operands operator()(const Transfer& a) const { return {a.from, a.to}; }
  Operands operator()(const Loop&) const { return {}; }
  Operands operator()(const While& a) const { return {{a.predicate, ir::Type(DType::kBool, {})}}; }
  Operands operator()(const Branch& a) const { return {a.index}; }
  Operands operator()(const Call&) const { return {}; }
  Operands operator()(const Debug& a) const { return a.operands; }
  Operands operator()(const Collective& a) const { return {a.from, a.to}; }
  Operands operator()(const Send& a) const { return {a.from}; }
  Operands operator()(const Recv& a) const { return {a.to}; }
  Operands operator()(const Wait& a) const { return a.operands; }
};

}  // namespace

const Operand* LibraryCall::find(std::string_view role) const {
  auto found = std::find_if(roles.begin(), roles.end(), [&](const Role& r) { return r.name == role; });
  return found == roles.end() ? nullptr : &found->operand;
}

std::vector<Operand> operands_of(const Instruction& instruction) { return std::visit(OperandsOf{}, instruction.action); }

std::vector<uint32_t> blocks_of(const Instruction& instruction) {
  if (const auto* loop = std::get_if<Loop>(&instruction.action)) return {loop->body};
  if (const auto* loop = std::get_if<While>(&instruction.action)) return {loop->condition, loop->body};
  if (const auto* branch = std::get_if<Branch>(&instruction.action)) return branch->blocks;
  if (const auto* call = std::get_if<Call>(&instruction.action)) return {call->block};
  return {};
}

}  // namespace nabla::program

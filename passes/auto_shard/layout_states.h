// The layouts that tensors may have, and what it takes to get from one to another.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ir/target.h"
#include "passes/auto_shard/choices.h"
#include "passes/auto_shard/program_graph.h"
#include "passes/shard/reshard.h"

namespace nabla::passes {

/// The axes along which ranks lie, of more than one, in the order of the mesh.
std::vector<ir::AxisRef> axes_of_ranks(const ir::Mesh& mesh);

/// Where each of these axes goes in a state: to one of several places, or nowhere (-1).
using Assignment = std::vector<int>;
/// Whether a place may have these axes, in this order.
using Fits = std::function<bool(int place, const ir::Axes& axes)>;
/// All of them, for so many axes and places; the first one goes nowhere with all.
std::vector<Assignment> assignments(const std::vector<ir::AxisRef>& axes, int places, const Fits& fits);
ir::Axes axes_at(const std::vector<ir::AxisRef>& axes, const Assignment& assignment, int place);

/// Layouts of a tensor of its own: as the program says, and where that is open, along every axis that is left.
std::vector<Layout> layouts_of_stored(const ir::Mesh& mesh, const ir::Type& type, const ir::ShardingRef& said);

/// Steps and microseconds from a layout to another, on ranks of a target. What is pending in `to` stays so, and has to be in `from`.
struct Way {
  std::vector<ReshardStep> steps;
  double us = kNever;  ///< kNever: there is no way
  Layout from;         ///< without what stays pending
};
Way way_between(const ir::Mesh& mesh, const ir::Type& type, Layout from, Layout to, const ir::Target& target);

/// Tables of ways between lists of layouts, each computed once.
class WayTables {
 public:
  WayTables(const ir::Mesh& mesh, const ir::Target& target) : mesh_(mesh), target_(target) {}
  int list(std::vector<Layout> layouts);
  const std::vector<Layout>& layouts(int list) const { return lists_[static_cast<size_t>(list)]; }
  std::shared_ptr<const CostTable> between(const ir::Type& type, int from, int to);

 private:
  const ir::Mesh& mesh_;
  const ir::Target& target_;
  std::vector<std::vector<Layout>> lists_;
  std::map<std::string, int> known_;
  std::map<std::pair<std::string, std::pair<int, int>>, std::shared_ptr<const CostTable>> tables_;
};

}  // namespace nabla::passes

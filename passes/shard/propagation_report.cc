// What propagation says of what it did.
#include <set>

#include "passes/shard/propagation.h"

namespace nabla::passes {

using ir::Axes;
using ir::Function;
using ir::Node;
using ir::ValueId;

namespace {

std::string through(const Node& node) { return node.op->name + at_place(node.location); }

}  // namespace

LayoutExplanation Propagation::explain(const std::string& function, ValueId value) const {
  const int f = index_.at(function);
  const ir::Type& type = m_.functions[f]->type(value);
  LayoutExplanation out{fmt::format("{} {} in @{}", ir::value_name(*m_.functions[f], value), type.str(), function), {}};
  for (int d = 0; d < type.rank(); ++d) {
    const Axes& axes = axes_[variable(f, value, d)];
    DimExplanation dim{fmt::format("dimension {} ({}): {}", d, type.shape[d].str(), axes.empty() ? "whole" : "along " + ir::str(axes)),
                       {}, "", d};
    follow(variable(f, value, d), dim);
    out.dims.push_back(std::move(dim));
  }
  return out;
}

std::string print(const LayoutExplanation& explanation, const std::function<std::string(const DimExplanation&)>& said) {
  std::string out = explanation.heading + "\n";
  for (const DimExplanation& dim : explanation.dims) {
    out += fmt::format("  {}\n", dim.heading);
    for (const std::string& step : dim.steps) out += fmt::format("    {}\n", step);
    if (!dim.said_by.empty()) out += fmt::format("    said by {}\n", said ? said(dim) : dim.said_by);
  }
  return out;
}

// ---- Explanations.
std::string Propagation::name_of(int place) const {
  const Place& p = places_[place];
  return fmt::format("dimension {} of {}", p.dim, ir::value_name(*m_.functions[p.function], p.value));
}
// Returns the cause that gave a variable its first `count` axes. Null if the user's layout gave them, or if nothing did.
const std::pair<int, Propagation::Cause>* Propagation::cause_of(int variable, size_t count) const {
  auto causes = because_.find(variable);
  if (causes == because_.end() || count == 0) return nullptr;
  auto first = causes->second.lower_bound(count);
  return first == causes->second.end() || !first->second.second.node ? nullptr : &first->second;
}
// Follows the axes back to the user's layout, with one step for each op.
void Propagation::follow(int variable, DimExplanation& out) const {
  const size_t count = axes_[static_cast<size_t>(variable)].size();
  for (std::set<int> seen; seen.insert(variable).second;) {
    for (const auto& [axes, refusal] : refused_of(variable))
      out.steps.push_back(fmt::format("not along {}, as {} of {} has it: {}", axes, through(*refusal.first.node),
                                      refusal.first.from < 0 ? "another" : name_of(refusal.first.from), refusal.second));
    const std::pair<int, Cause>* because = cause_of(variable, count);
    if (!because) {
      if (auto said = said_by_.find(variable); said != said_by_.end()) out.said_by = said->second.who;
      return;
    }
    const auto& [place, cause] = *because;
    if (cause.from < 0) return;
    out.steps.push_back(fmt::format("{} from {} by {}", name_of(place), name_of(cause.from), through(*cause.node)));
    out.said_dim = places_[static_cast<size_t>(cause.from)].dim;
    variable = find(cause.from);
  }
}
std::map<std::string, std::pair<Propagation::Cause, std::string>> Propagation::refused_of(int variable) const {
  auto found = refused_.find(variable);
  return found == refused_.end() ? std::map<std::string, std::pair<Cause, std::string>>() : found->second;
}

// ---- The result.
void Propagation::report_conflicts() {
  for (const auto& [where, c] : conflicts_)
    context_.remarks.push_back({ir::RemarkKind::kLayoutConflict, c.loser,
                                fmt::format("{}: {} wins over {}: {} bytes of tensors are laid out anew, not {}", through(*where.second),
                                            c.winner, c.loser, c.winner_bytes, c.loser_bytes),
                                static_cast<int64_t>(c.winner_bytes)});
}

}  // namespace nabla::passes

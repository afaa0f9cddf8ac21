#include "passes/transform/check_regions.h"

#include <algorithm>

#include "ir/op_def.h"
#include "passes/rewrite.h"

namespace nabla::passes {
namespace {

using ir::Function;
using ir::Node;
using ir::VaryingAxes;

std::string at(const Node& n) { return n.op->name + at_place(n.location); }

VaryingAxes names_of(const ir::Axes& axes) {
  VaryingAxes out;
  for (const ir::AxisRef& a : axes) out.insert(a.name);
  return out;
}
std::string text(const VaryingAxes& axes) {
  std::string out;
  for (const std::string& a : axes) out += (out.empty() ? "" : ", ") + a;
  return "{" + out + "}";
}

// Ranks wait for each other in it.
bool is_meeting(const Node& n) {
  return n.op->collective != nullptr;
}

/// Each function once for each set of manual axes under which it runs.
class Check {
 public:
  explicit Check(const ir::Module& module) : module_(module) {}

  Status function(const std::string& name, const VaryingAxes& manual, const Node* region) {
    const Function* f = module_.find(name);
    if (!f || !seen_.insert({name, manual}).second) return Ok{};
    for (size_t v = 0; !manual.empty() && v < f->values.size(); ++v)
      if (const ir::ShardingRef& s = f->values[v].sharding)
        (void)NABLA_TRY(layout(*s, ir::value_name(*f, static_cast<int>(v)), nullptr, manual, region));
    for (const Node& n : f->nodes) {
      (void)NABLA_TRY(node(*f, n, manual, region));
      VaryingAxes inner = manual;
      if (n.op->manual)
        for (const ir::AxisRef& a : n.op->manual(n.attrs).axes) inner.insert(a.name);
      for (const std::string& callee : ir::functions_of(n.attrs))
        (void)NABLA_TRY(function(callee, inner, n.op->manual ? &n : region));
    }
    return Ok{};
  }

 private:
  Status node(const Function& f, const Node& n, const VaryingAxes& manual, const Node* region) {
    if (n.op->manual)
      for (const ir::AxisRef& a : n.op->manual(n.attrs).axes)
        if (manual.count(a.name))
          return refusal(
              n, region,
              fmt::format("{}: it is inside of a region that is manual along {} already", n.op->name, a.name),
              "give it the axes that are not manual yet");
    if (n.op->lower == ir::Lowering::kCollective)
      for (const ir::AxisRef& a : n.attrs.get_axes("axes"))
        if (!manual.count(a.name)) return misplaced(f, n, a.name, manual, region);
    const ir::Attr* said = n.attrs.find("sharding");
    if (!said || manual.empty()) return Ok{};
    return layout(std::get<ir::Sharding>(*said), ir::value_name(f, n.results[0]), &n, manual, region);
  }

  Status misplaced(const Function& f, const Node& n, const std::string& axis, const VaryingAxes& manual,
                   const Node* region) {
    std::string of = n.operands.empty()
                         ? ""
                         : fmt::format(" of {} {}", ir::value_name(f, n.operands[0]), f.type(n.operands[0]).str());
    std::string why = fmt::format("{}{}: ranks along {} exchange values here, and {}", n.op->name, of, axis,
                                  region ? fmt::format("the region around it is manual along {} alone", text(manual))
                                         : "it stands in no manual region");
    return refusal(n, region, why,
                   region ? fmt::format("add {} to the region's axes", axis)
                          : "write it inside of shard_map; elsewhere collectives follow from layouts");
  }

  Status layout(const ir::Sharding& s, const std::string& who, const Node* n, const VaryingAxes& manual,
                const Node* region) {
    for (const ir::AxisRef& a : axes_of(s)) {
      if (!manual.count(a.name)) continue;
      Diagnostic d = error(Code::kBadSharding, "{} is laid out as {}, inside of a region that is manual along {}", who,
                           s.str(), a.name);
      d.location = n ? n->location : region->location;
      if (n) d.notes.push_back("the region is " + at(*region));
      d.help = "values of a region are parts along its axes already: lay them out along the others";
      return d;
    }
    return Ok{};
  }

  static Diagnostic refusal(const Node& n, const Node* region, const std::string& why, std::string help) {
    Diagnostic d = error(Code::kBadSharding, "{}", why);
    d.location = n.location;
    if (region) d.notes.push_back("the region around it is " + at(*region));
    d.help = std::move(help);
    return d;
  }

  const ir::Module& module_;
  std::set<std::pair<std::string, VaryingAxes>> seen_;
};

const Node* first_meeting(const ir::Module& m, const std::string& name, const VaryingAxes& axes,
                          std::set<std::string>& seen) {
  const Function* f = m.find(name);
  if (!f || !seen.insert(name).second) return nullptr;
  for (const Node& n : f->nodes) {
    VaryingAxes joined = is_meeting(n) ? names_of(n.attrs.get_axes("axes")) : VaryingAxes();
    if (std::any_of(joined.begin(), joined.end(), [&](const auto& a) { return axes.count(a) > 0; })) return &n;
    for (const std::string& callee : ir::functions_of(n.attrs))
      if (const Node* found = first_meeting(m, callee, axes, seen)) return found;
  }
  return nullptr;
}

}  // namespace

std::map<std::string, int64_t> manual_sizes(const ir::Module& module) {
  std::map<std::string, int64_t> out;
  for (const ir::FunctionPtr& f : module.functions)
    for (const Node& n : f->nodes) {
      if (!n.op->manual) continue;
      ir::ManualRegion r = n.op->manual(n.attrs);
      for (size_t i = 0; i < r.axes.size(); ++i) out[r.axes[i].name] = r.sizes[i];
    }
  return out;
}

Reached reached(const ir::Module& module) {
  std::set<std::string> named;
  for (const ir::FunctionPtr& f : module.functions)
    for (const std::string& name : referenced_functions(*f)) named.insert(name);
  Reached out;
  std::vector<std::pair<std::string, bool>> next;  // and whether in a region
  for (const ir::FunctionPtr& f : module.functions)
    if (!named.count(f->name)) next.push_back({f->name, false});
  for (const ir::Entry& e : module.entries) next.push_back({e.function, false});
  while (!next.empty()) {
    auto [name, in_region] = next.back();
    next.pop_back();
    const Function* f = module.find(name);
    if (!f || !(in_region ? out.inside : out.outside).insert(name).second) continue;
    for (const Node& n : f->nodes)
      for (const std::string& callee : ir::functions_of(n.attrs)) next.push_back({callee, in_region || n.op->manual});
  }
  return out;
}

void drop_unnamed(ir::Module& module, std::set<std::string> candidates) {
  for (const ir::Entry& e : module.entries) candidates.erase(e.function);
  for (size_t before = 0; before != module.functions.size();) {
    before = module.functions.size();
    std::set<std::string> named;
    for (const ir::FunctionPtr& f : module.functions)
      for (const std::string& name : referenced_functions(*f)) named.insert(name);
    std::erase_if(module.functions,
                  [&](const ir::FunctionPtr& f) { return candidates.count(f->name) && !named.count(f->name); });
  }
}

Status check_regions(const ir::Module& module) {
  Check check(module);
  for (const std::string& name : reached(module).outside) (void)NABLA_TRY(check.function(name, {}, nullptr));
  return Ok{};
}

std::optional<Diagnostic> meeting_under(const ir::Module& module, const Node& node,
                                        const std::vector<std::string>& functions, const VaryingAxes& axes,
                                        const std::string& why) {
  std::set<std::string> seen;
  for (const std::string& name : functions) {
    const Node* met = first_meeting(module, name, axes, seen);
    if (!met) continue;
    const ir::Axes& joined = met->attrs.get_axes("axes");
    Diagnostic d = error(Code::kBadSharding,
                         "{} joins {} ranks along {}, and not all of them may come to it: the {} around it "
                         "{}, which may differ along {}",
                         met->op->name, met->attrs.get_int("shards"), ir::str(joined), node.op->name, why, text(axes));
    d.location = met->location ? met->location : node.location;
    d.notes.push_back("the branch or loop is " + at(node));
    d.help = "let all ranks decide alike: combine the predicate over these axes first, or communicate outside";
    return d;
  }
  return std::nullopt;
}

}  // namespace nabla::passes

#include "passes/transform/mark_varying.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "ir/varying.h"
#include "passes/rewrite.h"
#include "passes/transform/check_regions.h"

namespace nabla::passes {
namespace {

using ir::ControlFlow;
using ir::Function;
using ir::FunctionBuilder;
using ir::FunctionPtr;
using ir::Node;
using ir::Val;
using ir::ValueId;
using ir::VaryingAxes;
using Sets = std::vector<VaryingAxes>;

void add(VaryingAxes& to, const VaryingAxes& more) { to.insert(more.begin(), more.end()); }
bool includes_axes(const VaryingAxes& all, const VaryingAxes& some) {
  return std::includes(all.begin(), all.end(), some.begin(), some.end());
}
VaryingAxes of_all(const Sets& sets) {
  VaryingAxes out;
  for (const VaryingAxes& s : sets) add(out, s);
  return out;
}

/// A function for parameters that vary so.
struct Specialised {
  std::string name;
  Sets params, results;
};

class Marking {
 public:
  Marking(const ir::Module& module, const ir::OpTable& ops) : out_(module), ops_(ops), sizes_(manual_sizes(module)) {}

  Result<ir::Module> run() {
    std::vector<FunctionPtr> functions = NABLA_TRY(bottom_up(out_));
    Reached by = reached(out_);
    for (const FunctionPtr& f : functions) {
      bool has = std::any_of(f->nodes.begin(), f->nodes.end(), [](const Node& n) { return bool(n.op->manual); });
      if (has && by.outside.count(f->name)) out_.set(with_marked_regions(*f));
    }
    if (!errors_.empty()) return errors_;
    for (const auto& [name, f] : by_name_) by.inside.insert(name);
    drop_unnamed(out_, by.inside);
    return std::move(out_);
  }

 private:
  /// One function under copy.
  struct Frame {
    const Function& f;
    FunctionCopy copy;
    Sets sets;                // by value of f
    std::vector<char> fixed;  // by value: follows from constants alone
    FunctionBuilder& b() { return copy.builder(); }
  };

  // Of a function that is in no region itself, where nothing varies.
  FunctionPtr with_marked_regions(const Function& f) {
    Frame frame{f, FunctionCopy(f, ops_, &out_), Sets(f.values.size()), std::vector<char>(f.values.size(), false)};
    for (const Node& n : f.nodes) {
      frame.b().set_location(n.location);
      if (n.op->manual)
        region(frame, n);
      else
        frame.copy.copy(n);
    }
    return frame.copy.finish();
  }

  Specialised specialise(const std::string& name, const Sets& params, const Sets& wanted) {
    auto key = std::make_tuple(name, params, wanted);
    if (auto done = made_.find(key); done != made_.end()) return done->second;
    FunctionPtr f;
    for (const FunctionPtr& g : out_.functions)
      if (g->name == name) f = g;
    auto [copy, results] = marked(*f, fresh_name(out_, name + ".varying"), params, wanted);
    Specialised out{copy->name, params, results};
    // The function itself will do where nothing was added, but for one set of axes alone: a pullback knows it by its
    // name.
    auto known = by_name_.find(name);
    if (same(*f, *copy) &&
        (known == by_name_.end() || (known->second.params == params && known->second.results == results)))
      out.name = name;
    else
      out_.functions.push_back(copy);
    by_name_[out.name] = out;
    return made_[key] = out;
  }

  // Was nothing added, and is every function the same?
  static bool same(const Function& a, const Function& b) {
    if (a.nodes.size() != b.nodes.size() || a.results != b.results) return false;
    for (size_t i = 0; i < a.nodes.size(); ++i)
      if (a.nodes[i].op != b.nodes[i].op || a.nodes[i].attrs != b.nodes[i].attrs) return false;
    return true;
  }

  // The copy, and how its results vary: at least as is wanted of them.
  std::pair<FunctionPtr, Sets> marked(const Function& f, const std::string& name, const Sets& params,
                                      const Sets& wanted) {
    Frame frame{f, FunctionCopy(f, ops_, &out_), Sets(f.values.size()), std::vector<char>(f.values.size(), true)};
    for (size_t i = 0; i < f.params.size(); ++i) frame.sets[f.params[i]] = params[i], frame.fixed[f.params[i]] = false;
    for (const Node& n : f.nodes) {
      frame.b().set_location(n.location);
      node(frame, n);
    }
    frame.b().set_location(nullptr);
    std::vector<Val> values;
    Sets results;
    for (size_t i = 0; i < f.results.size(); ++i) {
      VaryingAxes set = frame.sets[f.results[i]];
      add(set, wanted[i]);
      values.push_back(raised(frame, f.results[i], set));
      results.push_back(set);
    }
    Function out = frame.b().finish(values);
    out.location = f.location;
    out.name = name;
    return {std::make_shared<const Function>(std::move(out)), results};
  }

  // The value as one that varies along these axes too. Of what is no float there is no derivative.
  Val raised(Frame& frame, ValueId id, const VaryingAxes& set) {
    Val v = frame.copy.at(id);
    if (frame.fixed[id] || v.type().is_residual() || !is_float(v.dtype()) || includes_axes(frame.sets[id], set)) return v;
    ir::Axes axes;
    int64_t ranks = 1;
    for (const std::string& name : set) {
      if (frame.sets[id].count(name)) continue;
      axes.push_back({name});
      ranks *= sizes_.at(name);
    }
    return frame.b().op("vary", {v}, {{"axes", axes}, {"shards", ranks}});
  }
  std::vector<Val> raised(Frame& frame, const std::vector<ValueId>& ids, const Sets& sets) {
    std::vector<Val> out;
    for (size_t i = 0; i < ids.size(); ++i) out.push_back(raised(frame, ids[i], sets[i]));
    return out;
  }
  Sets sets_of(const Frame& frame, const std::vector<ValueId>& ids) const {
    Sets out;
    for (ValueId id : ids) out.push_back(frame.sets[id]);
    return out;
  }
  void set(Frame& frame, const Node& n, const std::vector<Val>& values, const Sets& sets, bool fixed = false) {
    frame.copy.set(n.results, values);
    for (size_t i = 0; i < n.results.size(); ++i) frame.sets[n.results[i]] = sets[i], frame.fixed[n.results[i]] = fixed;
  }

  void node(Frame& frame, const Node& n) {
    if (n.op->manual) return region(frame, n);
    if (n.op->lower == ir::Lowering::kControl) return control(frame, n);
    if (!ir::functions_of(n.attrs).empty()) return call(frame, n);
    VaryingAxes all = of_all(sets_of(frame, n.operands)), wanted = all;
    bool fixed = n.op->varying == ir::Varying::kAsOperands;
    for (ValueId id : n.operands) fixed = fixed && frame.fixed[id];
    if (n.op->layout_role == ir::LayoutRole::kVary && includes_axes(all, axes_of(n)))
      return set(frame, n, {frame.copy.at(n.operands[0])}, {all});
    if (n.op->varying != ir::Varying::kAsOperands && n.op->layout_role != ir::LayoutRole::kVary) add(wanted, axes_of(n));
    std::vector<Val> operands = raised(frame, n.operands, Sets(n.operands.size(), wanted));
    Sets results(n.results.size(), ir::varying_after(n, wanted));
    set(frame, n, frame.b().clone(n, frame.f, operands), results, fixed);
  }
  static VaryingAxes axes_of(const Node& n) {
    VaryingAxes out;
    for (const ir::AxisRef& a : n.attrs.get_axes("axes")) out.insert(a.name);
    return out;
  }
  void clone_as(Frame& frame, const Node& n, ir::Attrs attrs, const std::vector<Val>& operands, const Sets& results) {
    Node made = n;
    made.attrs = std::move(attrs);
    set(frame, n, frame.b().clone(made, operands), results);
  }
  static ir::Attrs with(const Node& n, const std::map<std::string, std::string>& names) {
    return ir::with_functions(n.attrs, [&](const std::string& name) {
      auto found = names.find(name);
      return found == names.end() ? name : found->second;
    });
  }

  // A region: along its own axes parameters vary as they are cut, and results as their layout says.
  void region(Frame& frame, const Node& n) {
    ir::ManualRegion r = n.op->manual(n.attrs);
    // What differs along the axes of an outer region does so when it enters: the inner one's ranks need not know.
    Sets operands(n.operands.size(), of_all(sets_of(frame, n.operands))), params = operands, wanted, outside;
    for (size_t i = 0; i < params.size(); ++i) add(params[i], ir::varying_of(r.in[i]));
    for (const ir::Sharding& s : r.out) wanted.push_back(ir::varying_of(s));
    Specialised body = specialise(r.body, params, wanted);
    const Function& f = *out_.find(body.name);
    for (size_t i = 0; i < body.results.size(); ++i) {
      VaryingAxes set = body.results[i];
      for (const ir::AxisRef& a : r.axes) {
        if (set.count(a.name) && !wanted[i].count(a.name)) differs(n, f, i, r, a.name);
        set.erase(a.name);
      }
      outside.push_back(std::move(set));
    }
    clone_as(frame, n, with(n, {{r.body, body.name}}), raised(frame, n.operands, operands), outside);
  }
  void differs(const Node& n, const Function& body, size_t i, const ir::ManualRegion& r, const std::string& axis) {
    ValueId id = body.results[i];
    Diagnostic d =
        error(Code::kBadSharding,
              "shard_map: result {}, {} {}, may differ between the {} ranks along {}, and its layout {} does not "
              "name {}",
              i, ir::value_name(body, id), body.type(id).str(), sizes_.at(axis), axis, r.out[i].str(), axis);
    d.location = n.location;
    d.notes.push_back(ir::describe_value(body, id));
    d.help =
        fmt::format("combine it over {} (all_reduce, all_gather), or let {} cut one of its dimensions", axis, axis);
    refuse(std::move(d));
  }
  // The copy goes on, so that one run finds all of them.
  void refuse(Diagnostic d) {
    auto same = [&](const Diagnostic& e) { return e.message == d.message && e.location == d.location; };
    if (std::none_of(errors_.begin(), errors_.end(), same)) errors_.push_back(std::move(d));
  }

  // ---- Calls and transforms. A derivative varies as what it is the derivative of.
  void call(Frame& frame, const Node& n) {
    const std::string& name = n.op->name;
    if (n.attrs.find("forward") || n.attrs.find("rule")) return custom(frame, n);
    if (name == "vjp_backward") return pullback(frame, n);
    const std::string callee = n.attrs.get_function("callee");
    size_t count = out_.find(callee)->params.size();
    Sets all = sets_of(frame, n.operands), params(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(count));
    std::vector<int64_t> wrt;
    if (n.attrs.find("wrt")) wrt = n.attrs.get_ints("wrt");
    if (name == "jvp") {
      if (wrt.empty())
        for (size_t i = 0; i < count; ++i) wrt.push_back(static_cast<int64_t>(i));
      for (size_t i = 0; i < wrt.size(); ++i) add(params[wrt[i]], all[count + i]);
      for (size_t i = 0; i < wrt.size(); ++i) all[count + i] = params[wrt[i]];
      std::copy(params.begin(), params.end(), all.begin());
    }
    Specialised f = specialise(callee, params, Sets(out_.find(callee)->results.size()));
    Sets results = name == "grad" ? Sets{} : f.results;
    if (name == "jvp") results.insert(results.end(), f.results.begin(), f.results.end());
    if (name == "grad" || name == "value_and_grad")
      for (int64_t i : wrt) results.push_back(params[i]);
    results.resize(n.results.size());  // a residual says itself of which function it is
    clone_as(frame, n, with(n, {{callee, f.name}}), raised(frame, n.operands, all), results);
  }
  void pullback(Frame& frame, const Node& n) {
    const std::string callee = n.attrs.get_function("callee");
    std::string made = frame.copy.at(n.operands[0]).type().residual_of;
    Specialised f = by_name_.count(made)
                        ? by_name_.at(made)
                        : specialise(made, Sets(out_.find(made)->params.size()), Sets(out_.find(made)->results.size()));
    Sets operands = f.results;
    operands.insert(operands.begin(), VaryingAxes());
    clone_as(frame, n, with(n, {{callee, f.name}}), raised(frame, n.operands, operands), f.params);
  }
  // Rules of the user: operands vary alike, so that every gradient varies as its operand.
  void custom(Frame& frame, const Node& n) {
    VaryingAxes all = of_all(sets_of(frame, n.operands));
    const std::string callee = n.attrs.get_function("callee");
    Specialised f = specialise(callee, Sets(n.operands.size(), all), Sets(n.results.size()));
    std::map<std::string, std::string> names{{callee, f.name}};
    for (const char* attr : {"forward", "backward", "rule"}) {
      if (!n.attrs.find(attr)) continue;
      const Function& rule = *out_.find(n.attrs.get_function(attr));
      Sets params(rule.params.size(), all), wanted(rule.results.size(), all);
      if (attr == std::string_view("backward"))  // residuals, then cotangents
        std::copy(f.results.rbegin(), f.results.rend(), params.rbegin());
      else
        for (size_t i = 0; i < wanted.size(); ++i)
          if (!f.results.empty() && (i < f.results.size() || attr == std::string_view("rule")))
            wanted[i] = f.results[i % f.results.size()];
      names[rule.name] = specialise(rule.name, params, wanted).name;
    }
    clone_as(frame, n, with(n, names), raised(frame, n.operands, Sets(n.operands.size(), all)), f.results);
  }

  // ---- Control flow.
  void control(Frame& frame, const Node& n) {
    ControlFlow c = ir::control_of(frame.f, n);
    if (c.kind == ControlFlow::Kind::kBranch) return branches(frame, n, c);
    Sets params = sets_of(frame, n.operands), results;
    auto first = static_cast<size_t>(c.consts), carries = static_cast<size_t>(c.carries);
    std::map<std::string, std::string> names;
    VaryingAxes asked;
    for (bool grows = true; grows;) {
      grows = false;
      if (c.kind == ControlFlow::Kind::kWhile) {
        Specialised condition = specialise(c.functions.front(), params, Sets(1));
        asked = condition.results[0], names[c.functions.front()] = condition.name;
        for (VaryingAxes& s : params) add(s, asked);
      }
      Sets wanted(params.begin() + static_cast<std::ptrdiff_t>(first),
                  params.begin() + static_cast<std::ptrdiff_t>(first + carries));
      wanted.resize(n.results.size(), asked);
      Specialised body = specialise(c.functions.back(), params, wanted);
      results = body.results, names[c.functions.back()] = body.name;
      for (size_t i = 0; i < carries; ++i) {
        grows |= body.results[i] != params[first + i];
        params[first + i] = body.results[i];
      }
    }
    if (!c.unasked.empty())
      names[c.unasked] = specialise(c.unasked, params, Sets(out_.find(c.unasked)->results.size())).name;
    if (!asked.empty()) note_split(n, c.functions, asked, "is repeated as long as @" + c.functions.front() + " says");
    clone_as(frame, n, with(n, names), raised(frame, n.operands, params), results);
  }

  void branches(Frame& frame, const Node& n, const ControlFlow& c) {
    Sets operands = sets_of(frame, n.operands), results(n.results.size(), operands[0]);
    for (VaryingAxes& s : operands) add(s, operands[0]);
    Sets params(operands.begin() + 1, operands.end());
    std::map<std::string, std::string> names;
    for (int round = 0; round < 2; ++round)  // what the branches give, then all as much
      for (const std::string& branch : c.functions) {
        Specialised f = specialise(branch, params, results);
        names[branch] = f.name;
        for (size_t i = 0; i < results.size(); ++i) add(results[i], f.results[i]);
      }
    if (!operands[0].empty())
      note_split(n, c.functions, operands[0], "is chosen by " + ir::value_name(frame.f, n.operands[0]));
    clone_as(frame, n, with(n, names), raised(frame, n.operands, operands), results);
  }

  // Ranks that differ along these axes take different ways.
  void note_split(const Node& n, const std::vector<std::string>& functions, const VaryingAxes& axes,
                  const std::string& why) {
    if (std::optional<Diagnostic> found = meeting_under(out_, n, functions, axes, why)) refuse(std::move(*found));
  }

  ir::Module out_;
  const ir::OpTable& ops_;
  std::map<std::string, int64_t> sizes_;
  std::map<std::tuple<std::string, Sets, Sets>, Specialised> made_;
  std::map<std::string, Specialised> by_name_;
  Diagnostics errors_;
};

}  // namespace

Result<ir::Module> mark_varying(const ir::Module& module, const ir::OpTable& ops) {
  (void)NABLA_TRY(check_regions(module));
  bool regions = std::any_of(module.functions.begin(), module.functions.end(), [](const FunctionPtr& f) {
    return std::any_of(f->nodes.begin(), f->nodes.end(), [](const Node& n) { return bool(n.op->manual); });
  });
  if (!regions) return module;
  return Marking(module, ops).run();
}

}  // namespace nabla::passes

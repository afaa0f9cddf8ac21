#include "frontend/cpp/control_flow.h"

#include <algorithm>

#include "frontend/cpp/convenience.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {

std::vector<Tensor> share_captures(const std::vector<std::pair<TracedFunction*, size_t>>& functions) {
  std::vector<Tensor> all;
  auto position = [](const std::vector<Tensor>& list, const Tensor& t) {
    return static_cast<size_t>(
        std::find_if(list.begin(), list.end(),
                     [&](const Tensor& o) { return o.frame() == t.frame() && o.id() == t.id(); }) -
        list.begin());
  };
  for (const auto& [f, before] : functions)
    for (const Tensor& t : f->captures)
      if (position(all, t) == all.size()) all.push_back(t);
  for (const auto& [f, before] : functions) {
    auto g = std::make_shared<ir::Function>(*f->function);
    size_t own = g->params.size() - f->captures.size();
    std::vector<ir::ValueId> captured;
    for (const Tensor& t : all) {
      size_t at = position(f->captures, t);
      if (at < f->captures.size()) {
        captured.push_back(g->params[own + at]);
        continue;
      }
      captured.push_back(static_cast<ir::ValueId>(g->values.size()));
      g->values.push_back({t.type(), ""});
    }
    g->params.resize(own);
    g->params.insert(g->params.begin() + static_cast<std::ptrdiff_t>(std::min(before, own)), captured.begin(),
                     captured.end());
    f->function = g;
    f->captures = all;
    f->context->module.set(g);
  }
  return all;
}

namespace {

std::vector<Tensor> joined(std::vector<Tensor> a, const std::vector<Tensor>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<Arg> as_operands(const std::vector<Tensor>& tensors, const Site& site) {
  std::vector<Arg> out;
  for (const Tensor& t : tensors) out.emplace_back(t, site);
  return out;
}

std::vector<Tensor> emit_branches(const char* op, const Arg& selector, std::vector<TracedFunction>& branches,
                                  const std::vector<Tensor>& args, ir::Attrs attrs, const Site& site) {
  std::vector<std::pair<TracedFunction*, size_t>> functions;
  for (TracedFunction& f : branches) functions.emplace_back(&f, kAllOwn);
  std::vector<Tensor> captures = share_captures(functions);
  std::vector<Arg> operands = as_operands(joined(args, captures), site);
  operands.insert(operands.begin(), selector);
  return emit(op, operands, std::move(attrs), site);
}

}  // namespace

std::vector<Tensor> emit_cond(const Arg& pred, std::vector<TracedFunction> branches, const std::vector<Tensor>& args,
                              const Site& site) {
  AtSite at(site);
  ir::Attrs attrs{{"then", ir::FunctionRef{branches[0].function->name}},
                  {"else", ir::FunctionRef{branches[1].function->name}}};
  return emit_branches("cond", pred, branches, args, std::move(attrs), site);
}

std::vector<Tensor> emit_switch(const Arg& index, std::vector<TracedFunction> branches, const std::vector<Tensor>& args,
                                const Site& site) {
  AtSite at(site);
  ir::FunctionRefs names;
  for (const TracedFunction& f : branches) names.push_back({f.function->name});
  return emit_branches("switch", index, branches, args, {{"branches", std::move(names)}}, site);
}

std::vector<Tensor> emit_while(TracedFunction cond, TracedFunction body, const std::vector<Tensor>& init,
                               int64_t trip_count, const Site& site) {
  AtSite at(site);
  std::vector<Tensor> captures = share_captures({{&cond, 0}, {&body, 0}});
  ir::Attrs attrs{{"cond", ir::FunctionRef{cond.function->name}},
                  {"body", ir::FunctionRef{body.function->name}},
                  {"consts", static_cast<int64_t>(captures.size())},
                  {"trip_count", trip_count}};
  return emit("while", as_operands(joined(captures, init), site), std::move(attrs), site);
}

std::vector<Tensor> emit_scan(TracedFunction body, const std::vector<Tensor>& init, const std::vector<Tensor>& xs,
                              const ir::Dim& length, bool reverse, const Site& site) {
  AtSite at(site);
  std::vector<Tensor> captures = share_captures({{&body, 0}});
  ir::Attrs attrs{{"body", ir::FunctionRef{body.function->name}},
                  {"consts", static_cast<int64_t>(captures.size())},
                  {"carries", static_cast<int64_t>(init.size())},
                  {"length", Shape{length}},
                  {"reverse", reverse}};
  return emit("scan", as_operands(joined(captures, joined(init, xs)), site), std::move(attrs), site);
}

Tensor counter(int64_t value, const Site& site) { return full({}, static_cast<double>(value), i32, site); }

ir::Dim length_of(const std::vector<Tensor>& xs, const std::optional<ir::Dim>& given, const Site& site) {
  if (given) return *given;
  if (xs.empty()) throw error_at(site, Code::kBadAttribute, "scan: no sequence and no length is given");
  return xs[0].shape()[0];
}

ir::Type slice_type(const Tensor& x, const Site& site) {
  ir::Type type = x.type();
  if (type.rank() == 0) throw error_at(site, Code::kShapeMismatch, "scan: a sequence is {}", type.str());
  type.shape.erase(type.shape.begin());
  return type;
}

}  // namespace nabla

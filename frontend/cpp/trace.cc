#include "frontend/cpp/trace.h"

#include <algorithm>

#include "frontend/cpp/convenience.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"
#include "ir/op_def.h"

namespace nabla {
namespace {

using Renames = std::map<std::string, std::string>;

// Takes a function of another module over, callees first. Returns its name here.
std::string import_function(Context& to, const Context& from, const std::string& name, const Site& site) {
  ir::FunctionPtr source;
  for (const ir::FunctionPtr& f : from.module.functions)
    if (f->name == name) source = f;
  NABLA_CHECK(source != nullptr, "traced function {} is not in its module", name);
  for (const ir::SymbolRef& s : from.module.symbols) {
    auto same = [&](const ir::SymbolRef& t) { return t->name == s->name; };
    if (std::none_of(to.module.symbols.begin(), to.module.symbols.end(), same)) to.module.symbols.push_back(s);
  }
  if (auto known = to.imported.find(source); known != to.imported.end()) return known->second;
  auto copy = std::make_shared<ir::Function>(*source);
  for (ir::Node& node : copy->nodes)
    node.attrs = with_functions(node.attrs, [&](const std::string& f) { return import_function(to, from, f, site); });
  copy->name = to.unique_name(name);
  to.take_symbols(*copy);
  if (from.module.mesh() && lays_out(*copy)) to.need_mesh(*from.module.mesh(), fmt::format("a value of function `{}`", name), site);
  to.imported[source] = copy->name;
  to.module.functions.push_back(copy);
  return copy->name;
}

std::string callee_name(const TracedFunction& f, const Site& site) {
  std::shared_ptr<Frame> frame = Frame::current();
  if (!frame) throw error_at(site, Code::kMisuse, "`{}` is called outside of a traced function", f.function->name);
  if (frame->context == f.context) return f.function->name;
  return import_function(*frame->context, *f.context, f.function->name, site);
}

std::vector<Tensor> emit_on(const char* op, const std::vector<Tensor>& operands, ir::Attrs attrs, const Site& site) {
  AtSite at(site);
  std::vector<Arg> list;
  for (const Tensor& t : operands) list.emplace_back(t, site);
  return emit(op, list, std::move(attrs), site);
}

}  // namespace

Tracing::Tracing(const std::string& name, Site site, std::shared_ptr<Context> context) : site_(site) {
  std::shared_ptr<Frame> parent = Frame::current();
  if (context && parent)
    throw error_at(site, Code::kMisuse, "`{}` cannot be declared while `{}` is traced", name, parent->name);
  if (!context) context = parent ? parent->context : std::make_shared<Context>();
  frame_ = std::make_shared<Frame>(std::move(context), parent, name);
  Frame::push(frame_);
}

Tracing::~Tracing() {
  if (open_) Frame::pop();
}

Tensor Tracing::param(const std::string& name, const ir::Type& type) {
  ir::Val v = frame_->builder.param(name, {type.dtype, frame_->context->sizes.resolve(type.shape)});
  params_.push_back(v.id);
  return frame_->wrap(v);
}

TracedFunction Tracing::finish(const std::vector<Tensor>& results) {
  ir::FunctionPtr f = frame_->finish(results, params_, site_);
  Frame::pop();
  open_ = false;
  return {frame_->context, std::move(f), frame_->captures};
}

std::string inner_name(const std::string& what) {
  std::shared_ptr<Frame> frame = Frame::current();
  return frame ? frame->name + "_" + what : what;
}

std::string name_of(const Tensor& t) { return t.has_value() ? t.frame()->builder.function().values[t.id()].name : ""; }

std::vector<Tensor> emit_transform(const char* op, const TracedFunction& f, std::vector<Tensor> operands,
                                   ir::Attrs attrs, const Site& site) {
  attrs.set("callee", ir::FunctionRef{callee_name(f, site)});
  operands.insert(operands.end(), f.captures.begin(), f.captures.end());
  return emit_on(op, operands, std::move(attrs), site);
}

std::vector<Tensor> emit_call(const char* op, const TracedFunction& f, std::vector<Tensor> operands, const Ints* wrt,
                              const Site& site) {
  ir::Attrs attrs;
  if (wrt) attrs.set("wrt", *wrt);
  return emit_transform(op, f, std::move(operands), std::move(attrs), site);
}

std::vector<Tensor> emit_jvp(const TracedFunction& f, std::vector<Tensor> operands, std::vector<Tensor> tangents,
                             const Site& site) {
  AtSite at(site);
  Ints wrt;
  size_t n = operands.size();
  operands.insert(operands.end(), f.captures.begin(), f.captures.end());
  for (size_t i = 0; i < n; ++i) {
    if (!is_float(operands[i].dtype())) continue;
    wrt.push_back(static_cast<int64_t>(i));
    operands.push_back(tangents[i]);
  }
  if (wrt.empty()) throw error_at(site, Code::kNotDifferentiable, "jvp: no argument is floating");
  return emit_on("jvp", operands, {{"callee", ir::FunctionRef{callee_name(f, site)}}, {"wrt", wrt}}, site);
}

std::vector<Tensor> emit_pullback(const TracedFunction& f, const Tensor& residual,
                                  const std::vector<Tensor>& cotangents, size_t operands, const Site& site) {
  std::vector<Tensor> all{residual};
  all.insert(all.end(), cotangents.begin(), cotangents.end());
  std::vector<Tensor> out = emit_on("vjp_backward", all, {{"callee", ir::FunctionRef{callee_name(f, site)}}}, site);
  out.resize(operands);
  return out;
}

bool lays_out(const ir::Function& f) {
  auto names_axes = [](const auto& attr) {
    return std::holds_alternative<ir::Sharding>(attr.second) || std::holds_alternative<ir::Shardings>(attr.second);
  };
  return std::any_of(f.values.begin(), f.values.end(), [](const ir::Value& v) { return v.sharding != nullptr; }) ||
         std::any_of(f.nodes.begin(), f.nodes.end(), [&](const ir::Node& n) {
           return std::any_of(n.attrs.begin(), n.attrs.end(), names_axes);
         });
}

ir::Module module_of(const TracedFunction& f) {
  Context context;
  import_function(context, *f.context, f.function->name, {});
  return std::move(context.module);
}

}  // namespace nabla

#include "frontend/cpp/program.h"

#include "frontend/cpp/frame.h"
#include "ir/serialize.h"
#include "ir/symbols.h"
#include "ir/verifier.h"

namespace nabla {

const std::string& State::name() const {
  NABLA_CHECK(context_ != nullptr, "a state leaf that no program declared");
  return context_->module.state[index_].name;
}

const ir::Type& State::type() const {
  NABLA_CHECK(context_ != nullptr, "a state leaf that no program declared");
  return context_->module.state[index_].type;
}

std::shared_ptr<Frame> State::entry_frame(const Site& site, const char* verb) const {
  if (!context_) throw error_at(site, Code::kBadState, "a state leaf that no program declared is {}", verb);
  std::shared_ptr<Frame> frame = Frame::current();
  while (frame && frame->parent) frame = frame->parent;
  if (!frame || frame->program != context_.get())
    throw error_at(site, Code::kBadState, "state leaf \"{}\" is {} outside of an entry of its program", name(), verb);
  return frame;
}

Tensor State::get(Site site) const {
  std::shared_ptr<Frame> entry = entry_frame(site, "read");
  auto known = entry->leaf_values.find(index_);
  if (known != entry->leaf_values.end()) return known->second;
  ir::Val v = entry->builder.param(name(), type());
  entry->reads[index_] = v.id;
  return entry->leaf_values[index_] = entry->wrap(v);
}

void State::set(const Arg& value) const {
  std::shared_ptr<Frame> entry = entry_frame(value.site(), "written");
  if (Frame::current() != entry)
    throw error_at(value.site(), Code::kBadState,
                   "state leaf \"{}\" is written inside `{}`: return the value and write it in the entry `{}`", name(),
                   Frame::current()->name, entry->name);
  if (!value.is_tensor())
    throw error_at(value.site(), Code::kBadState, "state leaf \"{}\" is {}, got the number {}", name(), type().str(),
                   value.number());
  entry->value_of(value.tensor(), value.site());
  if (value.tensor().type() != type())
    throw error_at(value.site(), Code::kBadState, "state leaf \"{}\" is {}, got {}", name(), type().str(),
                   value.tensor().type().str());
  entry->leaf_values[index_] = value.tensor();
  entry->written.insert(index_);
}

Program::Program() : context_(std::make_shared<Context>()) {}

ir::Dim Program::symbol(const std::string& name, int64_t min, int64_t max, int64_t multiple, Site site) {
  ir::Dim size = context_->sizes.declare(name, min, max, multiple, site);
  context_->module.symbols = context_->sizes.symbols();
  return size;
}

void Program::require_equal(const ir::Dim& a, const ir::Dim& b, Site site) {
  require({a, ir::SizeRelation::Kind::kEqual, b}, site);
}

void Program::require(const ir::SizeRelation& relation, Site site) {
  if (!context_->module.functions.empty())
    throw error_at(site, Code::kMisuse, "{} is declared after `{}`, which was traced without it", relation.str(),
                   context_->module.functions[0]->name);
  context_->sizes.require(relation, site);
  context_->module.symbols = context_->sizes.symbols();
  context_->module.constraints = context_->sizes.constraints();
}

Mesh Program::mesh(const std::string& name, std::vector<MeshAxis> axes, Site site) {
  if (const ir::Mesh* known = context_->module.mesh())
    throw error_at(site, Code::kBadSharding, "mesh {}: the program is for mesh {} already", name, known->name);
  ir::Mesh made{name, std::move(axes), locate(site, "")};
  if (Status fits = ir::check_mesh(made); !fits.ok())
    throw error_at(site, fits.errors()[0].code, "{}", fits.errors()[0].message);
  context_->module.meshes.push_back(made);
  return made;
}

namespace {

// The layout of an input or of a leaf, with whose line it comes.
void check_layout(const ir::Module& module, const Spec& s, const ir::Type& type, const std::string& what,
                  const Site& site) {
  if (!s.sharding) return;
  if (!module.mesh())
    throw error_at(site, Code::kBadSharding, "{} is laid out as {}, and the program has no mesh", what,
                   s.sharding->str());
  Status fits = ir::check_sharding(*module.mesh(), *s.sharding, type, what);
  if (fits.ok()) return;
  Diagnostic d = fits.errors()[0];
  d.location = locate(site, "");
  throw Error(std::move(d));
}

}  // namespace

State Program::state(const Spec& s, Site site) {
  ir::Type type = s.type();
  if (!type.is_static())
    throw error_at(site, Code::kBadState, "state leaf \"{}\" is {}: state keeps one size in all runs", s.name,
                   type.str());
  if (context_->module.find_state(s.name) >= 0)
    throw error_at(site, Code::kDuplicateName, "state leaf \"{}\" is declared twice", s.name);
  check_layout(context_->module, s, type, "state leaf " + s.name, site);
  ir::StateLeaf leaf{s.name, type, locate(site, "")};
  leaf.sharding = s.sharding, leaf.memory = s.memory;
  context_->module.state.push_back(std::move(leaf));
  return {context_, static_cast<int>(context_->module.state.size()) - 1};
}

namespace {

struct Pushed {
  explicit Pushed(std::shared_ptr<Frame> f) { Frame::push(std::move(f)); }
  ~Pushed() { Frame::pop(); }
  Pushed(const Pushed&) = delete;
};

// Names of inputs or outputs: each one given, and once.
void check_names(const std::string& entry, const char* what, const std::vector<std::string>& names, const Site& site) {
  std::set<std::string> seen;
  for (const std::string& name : names) {
    if (name.empty()) throw error_at(site, Code::kUnknownName, "an {} of entry `{}` has no name", what, entry);
    if (!seen.insert(name).second)
      throw error_at(site, Code::kDuplicateName, "entry `{}` has two {}s `{}`", entry, what, name);
  }
}

}  // namespace

void Program::add_entry(const std::string& name, const std::vector<Spec>& inputs, size_t arity, const Body& body,
                        Site site) {
  ir::Module& module = context_->module;
  if (Frame::current()) throw error_at(site, Code::kMisuse, "entry `{}` is declared inside a traced function", name);
  if (module.find_entry(name)) throw error_at(site, Code::kDuplicateName, "entry `{}` is declared twice", name);
  if (arity != inputs.size())
    throw error_at(site, Code::kOperandCount, "entry `{}` has {} inputs, but its function takes {} tensors", name,
                   inputs.size(), arity);
  ir::Entry entry{name, "", {}, {}, {}, {}};
  for (const Spec& s : inputs) entry.inputs.push_back(s.name);
  check_names(name, "input", entry.inputs, site);
  auto frame = std::make_shared<Frame>(context_, nullptr, name);
  frame->program = context_.get();
  Pushed pushed(frame);
  std::vector<Tensor> arguments;
  std::vector<int> input_params;
  for (const Spec& s : inputs) {
    ir::Val v = frame->builder.param(s.name, {s.dtype, context_->sizes.resolve(s.shape)});
    check_layout(module, s, v.type(), fmt::format("input {} of entry {}", s.name, name), site);
    frame->builder.lay_out(v, s.sharding);
    input_params.push_back(v.id);
    arguments.push_back(frame->wrap(v));
  }
  Outputs outputs = body(arguments);
  std::vector<int> params;
  // A leaf that was looked at, but not used, need not have a value when the entry runs.
  std::set<int> used;
  for (const ir::Node& node : frame->builder.function().nodes) used.insert(node.operands.begin(), node.operands.end());
  for (int leaf : frame->written) used.insert(frame->leaf_values[leaf].id());
  for (const Output& o : outputs) used.insert(frame->value_of(o.value, site).id);
  for (auto [leaf, value] : frame->reads) {
    if (!used.contains(value)) continue;
    entry.reads.push_back(leaf);
    params.push_back(value);
  }
  params.insert(params.end(), input_params.begin(), input_params.end());
  std::vector<Tensor> results;
  for (int leaf : frame->written) {
    entry.writes.push_back(leaf);
    results.push_back(frame->leaf_values[leaf]);
  }
  for (const Output& o : outputs) {
    entry.outputs.push_back(o.name);
    results.push_back(o.value);
  }
  check_names(name, "output", entry.outputs, site);
  ir::FunctionPtr traced = frame->finish(results, params, site);
  entry.function = traced->name;
  Result<std::vector<ir::SizeSource>> sources = ir::size_sources(entry, *traced, ir::symbols_of(*traced));
  if (!sources.ok()) {
    sources.errors()[0].location = locate(site, "");
    throw Error(std::move(sources.errors()));
  }
  module.entries.push_back(std::move(entry));
}

const ir::Module& Program::module() const { return context_->module; }

void Program::save(const std::string& path) const {
  Status written = ir::write_module(path, context_->module);
  if (!written.ok()) throw Error(std::move(written.errors()));
}

}  // namespace nabla

#include "ir/module.h"

#include <algorithm>

#include "ir/op_def.h"

namespace nabla::ir {
namespace {
constexpr std::string_view kStageNames[kStageCount] = {"traced", "flat",      "staged",  "sharded",
                                                       "local",  "scheduled", "kernels", "planned"};
}

std::vector<Type> Function::types(const std::vector<ValueId>& ids) const {
  std::vector<Type> out;
  out.reserve(ids.size());
  for (ValueId id : ids) out.push_back(type(id));
  return out;
}

std::string_view name_of(Stage stage) { return kStageNames[static_cast<int>(stage)]; }

std::optional<Stage> stage_from_name(std::string_view name) {
  for (int i = 0; i < kStageCount; ++i)
    if (kStageNames[i] == name) return static_cast<Stage>(i);
  return std::nullopt;
}

std::string_view name_of(MemorySpace space) { return space == MemorySpace::kHost ? "host" : "device"; }

Result<MemorySpace> memory_space(std::string_view name) {
  for (MemorySpace space : {MemorySpace::kDevice, MemorySpace::kHost})
    if (name_of(space) == name) return space;
  return error(Code::kUnknownName, "no memory space is named `{}`; there are device and host", name);
}

const Function* Module::find(std::string_view name) const {
  for (const FunctionPtr& f : functions)
    if (f->name == name) return f.get();
  return nullptr;
}

const Entry* Module::find_entry(std::string_view name) const {
  auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  return it == entries.end() ? nullptr : &*it;
}

const Entry* Module::entry_of(std::string_view function) const {
  auto it = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.function == function; });
  return it == entries.end() ? nullptr : &*it;
}

int Module::find_state(std::string_view name) const {
  for (size_t i = 0; i < state.size(); ++i)
    if (state[i].name == name) return static_cast<int>(i);
  return -1;
}

std::vector<std::string> Module::function_names() const {
  std::vector<std::string> out;
  for (const FunctionPtr& f : functions) out.push_back(f->name);
  return out;
}

std::vector<std::string> Module::entry_names() const {
  std::vector<std::string> out;
  for (const Entry& e : entries) out.push_back(e.name);
  return out;
}

void Module::set(FunctionPtr function) {
  for (FunctionPtr& f : functions)
    if (f->name == function->name) {
      f = std::move(function);
      return;
    }
  functions.push_back(std::move(function));
}

std::vector<int> use_counts(const Function& function) {
  std::vector<int> uses(function.values.size(), 0);
  for (const Node& node : function.nodes)
    for (ValueId id : node.operands) ++uses[id];
  for (ValueId id : function.results) ++uses[id];
  return uses;
}

std::vector<int> producers(const Function& function) {
  std::vector<int> out(function.values.size(), -1);
  for (size_t i = 0; i < function.nodes.size(); ++i)
    for (ValueId id : function.nodes[i].results) out[id] = static_cast<int>(i);
  return out;
}

std::string value_name(const Function& function, ValueId id) {
  const std::string& name = function.values[id].name;
  return "%" + (name.empty() ? std::to_string(id) : name);
}

namespace {

// The role of a value in its function: "the result of add". Empty if it is unknown.
std::string role_of(const Function& function, ValueId id) {
  const std::string& name = function.values[id].name;
  if (std::find(function.params.begin(), function.params.end(), id) != function.params.end())
    return name.empty() ? fmt::format("a parameter of @{}", function.name)
                        : fmt::format("parameter \"{}\" of @{}", name, function.name);
  for (const Node& node : function.nodes)
    for (ValueId r : node.results)
      if (r == id) return fmt::format("the result of {}{}", node.op->name, at_place(node.location));
  return "";
}

}  // namespace

std::string describe_value(const Function& function, ValueId id) {
  const std::string role = role_of(function, id);
  return value_name(function, id) + (role.empty() ? "" : " is " + role);
}

std::string value_phrase(const Function& function, ValueId id) {
  const std::string role = role_of(function, id);
  return value_name(function, id) + (role.empty() ? "" : " (" + role + ")");
}

}  // namespace nabla::ir

// The graph: a module holds functions, state leaves and entry points; a function holds nodes in SSA order.
// Values and nodes are plain data. Build them with FunctionBuilder (ir/builder.h), which checks; passes make
// new modules and share the functions that they do not change.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/attr.h"
#include "ir/type.h"
#include "runtime/base/diagnostic.h"

namespace nabla::kernel_ir {
struct Kernel;
}
namespace nabla::ir {

struct OpDef;
struct MemoryPlan;

/// Index into Function::values.
using ValueId = int;

struct Value {
  Type type;
  std::string name;          ///< a parameter's or the user's name; empty: the printer numbers it
  ShardingRef sharding = {};  ///< null: nothing is said. None from `local` on
};

struct Node {
  const OpDef* op = nullptr;
  std::vector<ValueId> operands;
  Attrs attrs;
  std::vector<ValueId> results;
  LocationRef location;
  /// From `prepare` on: the nodes of the function before fusion whose work this one does, ascending. For reports: no
  /// form of a module on disk keeps it.
  std::vector<int> computes = {};
};

struct Function {
  std::string name;
  std::deque<Value> values;  ///< a type stays where it is while values are added
  std::vector<ValueId> params;
  std::vector<Node> nodes;  ///< every operand is a parameter or a result of an earlier node
  std::vector<ValueId> results;
  LocationRef location;

  const Type& type(ValueId id) const { return values[id].type; }
  std::vector<Type> types(const std::vector<ValueId>& ids) const;
};
using FunctionPtr = std::shared_ptr<const Function>;

/// Where a state leaf lives between runs. On CPUs the memory of the host is the device's, so that they are one.
enum class MemorySpace : uint8_t {
  kDevice,
  kHost,  ///< a GPU's program keeps it in pinned memory of the host, and copies it for those who read and write it
};
std::string_view name_of(MemorySpace space);  ///< "device", "host"
/// E0107 with the known names.
Result<MemorySpace> memory_space(std::string_view name);

/// A named tensor that lives as long as a session and is shared by the entries. Its type never changes.
struct StateLeaf {
  std::string name;
  Type type;
  LocationRef location;
  ShardingRef sharding = {};  ///< that of all entries; null: nothing is said
  MemorySpace memory = MemorySpace::kDevice;
};

/// A function that `nabla-run --entry NAME` calls. Its function's parameters are the leaves of `reads` in order,
/// then the inputs; its results are the leaves of `writes` in order, then the outputs.
struct Entry {
  std::string name;
  std::string function;
  std::vector<int> reads;  ///< indices into Module::state
  std::vector<int> writes;
  std::vector<std::string> inputs;   ///< names, one per remaining parameter
  std::vector<std::string> outputs;  ///< names, one per remaining result
  /// Of a variant: the entry before it that it computes where symbols have these sizes. Empty: it is none.
  std::string variant_of = {};
  std::map<std::string, int64_t> sizes = {};
  bool operator==(const Entry&) const = default;
};

/// How far a module has come. Each op's record says where it is legal.
enum class Stage : uint8_t { kTraced, kFlat, kStaged, kSharded, kLocal, kScheduled, kKernels, kPlanned };
inline constexpr int kStageCount = 8;
std::string_view name_of(Stage stage);
std::optional<Stage> stage_from_name(std::string_view name);

/// What holds for sizes in every run, beside their symbols' ranges. Checked when a run binds them.
struct SizeConstraint {
  SizeRelation relation;
  LocationRef location;
};

struct Module {
  Stage stage = Stage::kTraced;
  std::vector<SymbolRef> symbols;
  std::vector<SizeConstraint> constraints;  ///< over these symbols, which know them as facts
  std::vector<Mesh> meshes;                 ///< at most one: ranks of one program are all of one mesh
  std::vector<StateLeaf> state;
  std::vector<Entry> entries;
  std::vector<FunctionPtr> functions;
  /// From `kernels` on: what `launch` nodes call, by name.
  std::vector<std::shared_ptr<const kernel_ir::Kernel>> kernels;
  /// At `planned`: where every value lives.
  std::shared_ptr<const MemoryPlan> plan;

  /// Null: the program is one for a single rank.
  const Mesh* mesh() const { return meshes.empty() ? nullptr : &meshes[0]; }
  const Function* find(std::string_view name) const;
  const Entry* find_entry(std::string_view name) const;
  /// The first that runs the function; others read and write the same state. Null: there is none.
  const Entry* entry_of(std::string_view function) const;
  int find_state(std::string_view name) const;  ///< -1: none
  std::vector<std::string> function_names() const;
  std::vector<std::string> entry_names() const;
  /// Replaces the function of the same name, or appends.
  void set(FunctionPtr function);
};

/// How often each value is used as an operand or a result.
std::vector<int> use_counts(const Function& function);
/// Index of the node that produces each value; -1 for parameters.
std::vector<int> producers(const Function& function);
/// The value's name for a message: "%w1" or "%12".
std::string value_name(const Function& function, ValueId id);
/// A sentence: "%w1 is parameter \"w1\" of @step" or "%3 is the result of dot_general at model.cc:14".
std::string describe_value(const Function& function, ValueId id);
/// The same as a part of a sentence: "%w1 (parameter \"w1\" of @step)".
std::string value_phrase(const Function& function, ValueId id);

}  // namespace nabla::ir

// Functions under a batch, composed from the batch rules of the ops. Nothing here knows an op by name.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "ir/op_def.h"

namespace nabla::passes {

/// The extent of the batch, and the mesh axis that it is spread over (empty: not said).
struct Batch {
  ir::Dim size;
  std::string spmd_axis;
};

/// Makes batched functions on demand and adds them to a module, each once. Nodes without a batched operand stay as they
/// are. An op without a rule is noted in errors(), so that one run finds all of them.
class Batcher {
 public:
  /// Both outlive it. Functions must be free of transforms.
  Batcher(ir::Module& module, const ir::OpTable& ops) : module_(module), ops_(ops) {}
  Batcher(const Batcher&) = delete;

  /// `function` where these parameters carry the batch as dimension 0. Results of `forced` carry it in any case, others
  /// when they depend on a parameter that does.
  ir::BatchedFunction batch(std::string_view function, const std::vector<bool>& params, const std::vector<bool>& forced,
                            const Batch& batch);
  /// Adds a function under its name or a similar one.
  std::string define(ir::Function f);

  const Diagnostics& errors() const { return errors_; }
  /// Notes that a node of f cannot be batched.
  void refuse(const ir::Function& f, const ir::Node& node, std::string_view reason);
  const ir::Module& module() const { return module_; }

 private:
  struct Value {
    ir::Val v;
    bool batched = false;
  };
  using Values = std::vector<Value>;
  using Key = std::tuple<std::string, std::vector<bool>, std::vector<bool>, std::string, std::string>;
  /// Emits f's nodes on these arguments; the values of its results.
  Values emit(ir::FunctionBuilder& b, const ir::Function& f, const Values& args, const Batch& batch);
  Values emit_node(ir::FunctionBuilder& b, const ir::Function& f, const ir::Node& node, const Values& operands,
                   const Batch& batch);
  /// Notes the first node that batches give more dimensions than a type may have.
  void check_rank(const ir::Function& f, const ir::Node& node, const Values& operands);
  ir::Module& module_;
  const ir::OpTable& ops_;
  bool too_deep_ = false;
  std::map<Key, ir::BatchedFunction> made_;
  Diagnostics errors_;
};

}  // namespace nabla::passes

// What passes that rebuild functions share: a function under copy, and the order of the call graph.
#pragma once

#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/op_def.h"
#include "ir/target.h"
#include "ir/typed.h"

namespace nabla::passes {

/// A new function that starts with the parameters of `from`; the pass then copies or replaces node after node.
class FunctionCopy {
 public:
  /// `module` gives the types of called functions; all three outlive the copy.
  FunctionCopy(const ir::Function& from, const ir::OpTable& ops, const ir::Module* module);

  ir::FunctionBuilder& builder() { return b_; }
  /// What stands for a value of `from`; requires that it is known.
  ir::Val at(ir::ValueId id) const;
  std::vector<ir::Val> at(const std::vector<ir::ValueId>& ids) const;
  /// From now on `v` stands for `id`. A new value inherits its name and its layout.
  void set(ir::ValueId id, ir::Val v);
  void set(const std::vector<ir::ValueId>& ids, const std::vector<ir::Val>& values);
  /// The node as it is, on the new operands.
  void copy(const ir::Node& node);
  /// Ends the copy: results, name and location are those of `from`.
  ir::FunctionPtr finish();

 private:
  const ir::Function& from_;
  ir::FunctionBuilder b_;
  std::vector<ir::Val> values_;
};

/// What stands for these values of a function in another one; `values` has that by value.
std::vector<ir::Val> at(const std::vector<ir::ValueId>& ids, const std::vector<ir::Val>& values);
/// The node of `from` at the end of another function, on what stands for its operands. What stands for its results inherits their
/// names, and goes into `values`. Layouts stay behind: for functions that have parts of several, or none of its parameters.
void copy_node(const ir::Node& node, const ir::Function& from, ir::FunctionBuilder& b, std::vector<ir::Val>& values);

using ir::control_of;
using ir::typed;
/// The node's decomposition as a function of its operands. Requires that it has one.
ir::Function decomposition(const ir::TypedOp& op, const LocationRef& location, const ir::OpTable& ops,
                           const ir::Module* module);
/// Whether it is a composite that no code of this target computes as a whole.
bool must_expand(const ir::Function& f, const ir::Node& n, const ir::Target& target);
/// `wish`, or with a number after it: a name that no function of the module has.
std::string fresh_name(const ir::Module& module, const std::string& wish);
/// The functions that f's nodes name, and those of its residuals; each once, in order of appearance.
std::vector<std::string> referenced_functions(const ir::Function& f);
/// All functions, callees before callers. E0303 with the path when they call each other in a cycle, E0107 for an
/// unknown name.
Result<std::vector<ir::FunctionPtr>> bottom_up(const ir::Module& module);
/// Drops the functions that no entry reaches; none where the module has no entries.
void drop_unreached(ir::Module& module);
/// `f` without the nodes that nobody uses; f itself when there are none. Side effects stay.
ir::FunctionPtr without_dead_nodes(const ir::FunctionPtr& f, const ir::Module& module, const ir::OpTable& ops);

}  // namespace nabla::passes

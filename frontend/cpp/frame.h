// A function under construction, and the stack of them. Internal to the frontend.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "frontend/cpp/sizes.h"
#include "frontend/cpp/tensor.h"
#include "ir/builder.h"
#include "ir/module.h"

namespace nabla {

/// E0210: a value of one mesh in a function of another.
struct OtherMesh : Error {
  using Error::Error;
  bool names_op = false;  ///< whether it says which op has operands of both
};

/// The module that traced functions go into: one per Program, or per trace outside of one.
struct Context {
  ir::Module module;
  SizeRules sizes;
  std::set<std::string> function_names;  ///< of open frames too
  /// Names under which functions of other contexts were taken over. They stay alive, so that no address is used twice.
  std::map<ir::FunctionPtr, std::string> imported;
  std::string first_laid_out;  ///< the value by which the module came to its mesh; empty: its author gave it

  /// Adds the symbols of a function that comes from another context.
  void take_symbols(const ir::Function& f);
  bool has_mesh(const ir::Mesh& mesh) const;
  /// The module's mesh is this one from now on, over which `what`, such as f32[8,16], is laid out. Throws OtherMesh where it
  /// has another.
  void need_mesh(const ir::Mesh& mesh, const std::string& what, const Site& site);
  /// `wanted`, or with a number after it.
  std::string unique_name(const std::string& wanted);
};


class Frame : public std::enable_shared_from_this<Frame> {
 public:
  Frame(std::shared_ptr<Context> context, std::shared_ptr<Frame> parent, const std::string& name);

  /// The function being traced by this thread; null: none.
  static std::shared_ptr<Frame> current();
  static void push(std::shared_ptr<Frame> frame);
  /// Closes the innermost frame; its tensors can still be looked at.
  static void pop();

  /// A value of this function as a tensor. Throws E0106 where its type is larger than any array may be.
  Tensor wrap(ir::Val v);
  /// `t` as a value of this function; one of an enclosing function becomes a parameter. Throws E0707 when `t` belongs
  /// to a function that does not enclose this one.
  ir::Val value_of(const Tensor& t, const Site& site);
  /// Ends the function. Parameters come first and in the order `params`; names are made unique.
  ir::FunctionPtr finish(const std::vector<Tensor>& results, const std::vector<int>& params, const Site& site);

  std::shared_ptr<Context> context;
  std::shared_ptr<Frame> parent;
  std::string name;
  ir::FunctionBuilder builder;
  std::vector<Tensor> captures;  ///< values of `parent`, in the order of their parameters
  std::vector<int> capture_params;
  /// Of the frame of an entry: parameters that read leaves, and the values that leaves have now.
  std::map<int, int> reads;
  std::map<int, Tensor> leaf_values;
  std::set<int> written;
  const void* program = nullptr;
  /// Of the function of a manual region: the mesh axes for whose ranks it is written.
  std::vector<std::string> manual;
  std::vector<std::string> parts;  ///< and which of its arguments are parts of an array, a sentence each
  /// Of the function of one example of a batch.
  bool batched = false;

 private:
  std::map<std::pair<const Frame*, int>, int> captured_;
};

/// The place with the source line's text, when the file can be read; shared between nodes.
LocationRef locate(const Site& site, const std::string& function);
/// A diagnostic at the site.
template <class... Args>
Error error_at(const Site& site, Code code, fmt::format_string<Args...> format, Args&&... args) {
  Diagnostic d = error(code, format, std::forward<Args>(args)...);
  std::shared_ptr<Frame> frame = Frame::current();
  d.location = locate(site, frame ? frame->name : "");
  return Error(std::move(d));
}

}  // namespace nabla

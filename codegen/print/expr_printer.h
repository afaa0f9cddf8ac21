// Prints expressions of kernel_ir as C++: over the vector lanes of codegen/cpu/prelude.h, or as scalars, which CUDA shares.
#pragma once

#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "codegen/print/cpp_writer.h"
#include "ir/kernel_ir/kernel.h"

namespace nabla::codegen {

std::string storage_type(DType dtype);  ///< in memory: "nb_bf16", "float", "bool"
std::string compute_type(DType dtype);  ///< one element in a register: bf16 is computed in float
std::string vector_type(DType dtype);   ///< lanes in registers: bool is nb_mask
std::string number_text(DType dtype, double number, int64_t integer);
/// A C++ identifier for a kernel_ir name.
std::string cpp_name(const std::string& name);

/// A size as C++ over the kernel's symbols, which are variables named by symbol_variable: "64", "(s_batch * 8)".
std::string size_text(const ir::Dim& size);
std::string symbol_variable(const ir::Symbol& symbol);

/// Whether the prelude has a function for it that a kernel may call: some dozens of instructions.
bool is_math(std::string_view fn);

/// Where a value of the kernel lives while code for it is printed.
struct ValuePlace {
  bool vector = false;  ///< lanes over `lane_axis` of the enclosing loop; else one element
  bool row = false;     ///< an array over the value's own axes
};

/// Prints within one loop nest. `lane_axis` -1: scalars.
class ExprPrinter {
 public:
  ExprPrinter(const kernel_ir::Kernel& kernel, const std::map<int, ValuePlace>& places, CppWriter& out, int& next_temp)
      : k_(kernel), places_(places), out_(out), next_temp_(next_temp) {}

  int lane_axis = -1;
  std::string tail = "n";  ///< the variable that holds nb_full or the number of lanes

  /// True when the value differs between lanes.
  bool varies(const kernel_ir::Expr& e);
  /// Text of the value; emits temporaries for subexpressions that are used more than once.
  std::string print(const kernel_ir::Expr& e);
  /// As print, but always a vector when lane_axis is set.
  std::string print_vector(const kernel_ir::Expr& e);
  /// Flat element offset of a tensor access.
  std::string offset(const std::vector<kernel_ir::Expr>& indices, const ir::Shape& shape);
  /// How the flat offset moves with the lane axis; nullopt: not affine, or by a step that is known only at run time.
  std::optional<int64_t> lane_stride(const std::vector<kernel_ir::Expr>& indices, const ir::Shape& shape);
  /// The value of `e` at lane variable `l`, in scalar arithmetic.
  std::string print_at_lane(const kernel_ir::Expr& e, CppWriter& out);

 private:
  std::string print_node(const kernel_ir::Expr& e);
  std::string print_load(const kernel_ir::Expr& e);
  std::string print_value(const kernel_ir::Expr& e);
  std::string print_call(const kernel_ir::Expr& e);
  std::string gather(const kernel_ir::Expr& e);
  void count_uses(const kernel_ir::Expr& e);
  ir::Shape value_shape(int value) const;

  const kernel_ir::Kernel& k_;
  const std::map<int, ValuePlace>& places_;
  CppWriter& out_;
  int& next_temp_;
  bool at_lane_ = false;  // scalar arithmetic at lane `l`
  std::unordered_map<const kernel_ir::ExprNode*, int> uses_;
  std::unordered_map<const kernel_ir::ExprNode*, std::string> done_;
  std::unordered_map<const kernel_ir::ExprNode*, bool> varies_;
};

}  // namespace nabla::codegen

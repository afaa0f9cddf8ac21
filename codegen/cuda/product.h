// What all printers of matrix products share: tiles of the result, numbers at the head, the epilogue of one element.
#pragma once

#include <map>
#include <string>

#include "codegen/cuda/printer.h"
#include "codegen/cuda/team_printer.h"
#include "ir/kernel_ir/contract.h"

namespace nabla::codegen {

/// C[batch, m, n] = sum(k) A B of one kernel.
struct Product {
  const kernel_ir::Kernel& kernel;
  const kernel_ir::Let& let;
  kernel_ir::Contraction c;
  kernel_ir::Expr lhs, rhs;  ///< the factors, conversions included; lhs moves with m
  const ir::Target& target;
  std::map<int, std::vector<int>> parts = {};  ///< axes that m, n or k stands for, row-major; none: itself
};

class ProductPrinter {
 public:
  ProductPrinter(const Product& p, CppWriter& out, int& next_temp)
      : k_(p.kernel), p_(p), c_(p.c), out_(out), next_temp_(next_temp) {}
  virtual ~ProductPrinter() = default;

  void run(CudaGrid& grid);

 protected:
  virtual int threads() const = 0;
  virtual int tile_rows() const = 0;
  virtual int tile_columns() const = 0;
  virtual int shared_bytes() const { return 0; }  ///< dynamic shared memory
  virtual int beside() const { return 1; }        ///< blocks of a multiprocessor
  virtual void declare() = 0;                     ///< once per grid: shared memory, who this thread is
  virtual void multiply() = 0;                    ///< the sums of the tile at m0_, n0_
  virtual void finish() = 0;                      ///< element() at every place of this thread

  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  std::string extent(int axis) const { return size_text(size(axis)); }
  std::string axis_name(int axis) const { return cpp_name(k_.axes[axis].name); }
  ExprPrinter printer() { return ExprPrinter(k_, places_, out_, next_temp_); }
  /// Declares the parts of an axis, which stands at its own name.
  void positions(int axis);
  /// The axis along which neighbours of `axis` lie.
  int last_of(int axis) const;
  /// Declares m and n, goes on with the next element where they are out of range, and prints what follows the product.
  void element(const std::string& m, const std::string& n, const std::string& value);
  /// Does the load walk axis `axis` element by element?
  bool walks(const kernel_ir::Expr& load, int axis);

  const kernel_ir::Kernel& k_;
  const Product& p_;
  const kernel_ir::Contraction& c_;
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;

 private:
  void head(const kernel_ir::Let& let);
};

/// True when tensor cores can compute the product: f32 sums of bf16 or of f16, or of f32 where the target may round
/// factors to tf32.
bool fits_tensor_cores(const Product& p);
void print_on_tensor_cores(const Product& p, CppWriter& out, int& next_temp, CudaGrid& grid);
/// On tensor cores where they can compute the product, else by multiply-adds.
void print_in_tiles(const Product& p, CppWriter& out, int& next_temp, CudaGrid& grid);

}  // namespace nabla::codegen

// What all printers of matrix products share: tiles of the result, numbers at the head, the epilogue of one element.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "codegen/cuda/pack_reader.h"
#include "codegen/cuda/printer.h"
#include "codegen/cuda/team_printer.h"
#include "ir/kernel_ir/packs.h"
#include "ir/kernel_ir/product.h"
#include "ir/kernel_ir/tensor_map.h"

namespace nabla::codegen {

using kernel_ir::Product;

class ProductPrinter {
 public:
  ProductPrinter(const Product& p, const kernel_ir::ProductMapping& cut, int threads, bool at_packs, CppWriter& out, int& next_temp)
      : k_(p.kernel), p_(p), c_(p.c), cut_(cut), threads_(threads), at_packs_(at_packs), out_(out), next_temp_(next_temp) {}
  virtual ~ProductPrinter() = default;

  void run();

 protected:
  int tile_rows() const { return cut_.tile_rows; }
  int tile_columns() const { return cut_.tile_columns; }
  virtual void declare() = 0;                     ///< once per grid: shared memory, who this thread is
  virtual void multiply() = 0;                    ///< the sums of the tile at m0_, n0_
  virtual void finish() = 0;                      ///< element() at every place of this thread

  const ir::Dim& size(int axis) const { return k_.axes[axis].extent; }
  std::string extent(int axis) const { return size_text(size(axis)); }
  std::string axis_name(int axis) const { return cpp_name(k_.axes[axis].name); }
  /// Steps of k that there are, of which none beyond may be read; tiles of so many along k; and whether these have no others.
  std::string end_of_k() const;
  std::string tiles_of_k(int tile_k) const;
  bool fills_tiles_of_k(int tile_k) const;
  ExprPrinter printer() { return ExprPrinter(k_, places_, out_, next_temp_); }
  /// Declares the parts of an axis, which stands at its own name.
  void positions(int axis);
  /// What follows the sum, where it moves through memory in packs along n.
  struct Epilogue {
    kernel_ir::Kernel kernel;  ///< whose values are single elements
    kernel_ir::Body body;
    kernel_ir::Packs packs;
  };
  std::optional<Epilogue> epilogue() const;
  void by_packs(const std::vector<int>& buffers, const std::function<void()>& packs, const std::function<void()>& otherwise) {
    print_by_packs(k_, buffers, at_packs_, out_, packs, otherwise);
  }
  /// Declares m and the first n of a pack, goes on with the next where they are out of range, and prints what follows the
  /// product. `width`: elements, at most those of the epilogue's packs, of which packs of fewer are parts. `value`: its element `l_`.
  void pack(const Epilogue& epilogue, int width, const std::string& m, const std::string& n, const std::string& value);
  /// Declares m and n, goes on with the next element where they are out of range, and prints what follows the product.
  void element(const std::string& m, const std::string& n, const std::string& value);

  const kernel_ir::Kernel& k_;
  const Product& p_;
  const kernel_ir::Contraction& c_;
  const kernel_ir::ProductMapping& cut_;
  int threads_;    ///< of a block
  bool at_packs_;  ///< whether all arrays begin at multiples of 16 bytes
  CppWriter& out_;
  int& next_temp_;
  std::map<int, ValuePlace> places_;

 private:
  void head(const kernel_ir::Let& let);
};

/// Products of f32 sums whose factors are both bf16, f16, 8-bit floats, or f32 rounded to tf32.
void print_on_tensor_cores(const Product& p, const kernel_ir::ProductMapping& cut, int threads, bool at_packs, CppWriter& out,
                           int& next_temp);
/// Those of bf16, of f16 and of 8-bit floats whose copies move evenly, by wgmma of sm_90a. Returns and takes what print_product does.
std::vector<kernel_ir::TensorMap> print_by_warpgroups(const Product& p, const kernel_ir::ProductMapping& cut, int threads, bool at_packs,
                                                      CppWriter& out, int& next_temp);

}  // namespace nabla::codegen

// What products on tensor cores share: tiles of the factors that are copied ahead into shared memory, and results that leave
// registers by packs.
#pragma once

#include <string>
#include <vector>

#include "codegen/cuda/product.h"
#include "ir/kernel_ir/tensor_map.h"

namespace nabla::codegen {

/// Each warp keeps `rows_` x `columns_` fragments of 16 x 8 results in acc_, which begin at warp_m_, warp_n_ of the tile. Rows of a
/// fragment may lie by turns in its upper and its lower half (`twined_rows_`), columns in it and in the next (`twined_columns_`).
class StagedProduct : public ProductPrinter {
 protected:
  StagedProduct(const Product& p, const kernel_ir::ProductMapping& cut, int threads, int tile_k, bool at_packs, CppWriter& out,
                int& next_temp);

  /// Where element x_ along a factor's own axis, y_ along k, lies in its tile.
  virtual std::string place(const kernel_ir::FactorTile& o) const = 0;
  /// Elements of a tile of both factors.
  virtual int stage() const = 0;

  bool copies() const { return a_.packs || b_.packs; }
  bool by_engine() const { return !maps_.empty(); }
  static std::string type_of(const kernel_ir::FactorTile& o) { return storage_type(o.dtype); }
  /// The tile of b, `a` elements after that of a.
  std::string after_a(const std::string& a_tile, const std::string& constant) const;
  /// Where a thread's copies begin, once for a tile of the result.
  void begin_steps() { begin_steps("a", a_), begin_steps("b", b_); }
  /// Starts copies of a tile of both factors, where there is one of this number.
  virtual void fill_tile(const std::string& tile);
  void finish() override;

  int stages_, tile_k_, pack_;
  DType dtype_;
  std::string type_;
  kernel_ir::FactorTile a_, b_;
  int rows_ = 0, columns_ = 0;
  bool twined_rows_ = false, twined_columns_ = false;
  std::vector<kernel_ir::FactorMap> maps_;  // of both factors where the copy engine brings their tiles

 private:
  int copies_of(const kernel_ir::FactorTile& o) const { return o.rows * tile_k_ / pack_ / threads_; }
  void place_of_copy(const kernel_ir::FactorTile& o);
  void begin_steps(const std::string& name, const kernel_ir::FactorTile& o);
  void fill_by_steps(const std::string& name, const kernel_ir::FactorTile& o, const ir::Dim& step);
  void fill(const char* name, const kernel_ir::FactorTile& o);
  void fill_by(const std::string& name, const kernel_ir::FactorTile& o, int width);
  void finish_by_packs(const Epilogue& e);
  void finish_by_elements();
};

}  // namespace nabla::codegen

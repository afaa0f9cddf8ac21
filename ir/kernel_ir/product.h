// Matrix products that tiles of a result compute, as a GPU's printers and the pass that cuts their work see them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel_ir/contract.h"

namespace nabla::kernel_ir {

/// C[batch, m, n] = sum(k) A B of one kernel, to which it refers.
struct Product {
  const Kernel& kernel;
  const Let& let;
  Contraction c;
  Expr lhs, rhs;                               ///< the factors, conversions included; lhs moves with m
  std::map<int, std::vector<int>> parts = {};  ///< axes that m, n or k stands for, row-major; none: itself

  /// The axis along which neighbours of `axis` lie.
  int last_of(int axis) const;
  /// Does the load walk axis `axis` element by element?
  bool walks(const Expr& load, int axis) const;
};

/// The product of a kernel that is a contraction, where what follows the sum uses of it only the element at hand;
/// nullopt for other kernels.
std::optional<Product> find_product(const Kernel& kernel);

// ---- Tiles of tensor cores

constexpr int kTensorTileBytes = 64;                   ///< of k, in a tile of a factor
constexpr int kFragmentRows = 16, kFragmentColumns = 8;  ///< results of one mma
constexpr int kWarpsDown = 2;                            ///< of a block; the others stand beside them
/// Floats from one row to the next of 16 rows of a warp's results, `columns` fragments wide, on their way to memory.
constexpr int epilogue_pitch(int columns) { return columns * kFragmentColumns + 8; }

/// The dtype that both factors have in memory, where their conversions keep every bit and what is missing reads as 0; of two
/// different 8-bit floats, which tensor cores multiply too, that of lhs.
std::optional<DType> common_dtype(const Product& product);

/// A factor and its tile: rows of k where the factor's neighbours in memory lie along k, else columns of it.
struct FactorTile {
  Expr load;
  DType dtype;   ///< in memory
  int other;     ///< the factor's axis beside k
  int rows;      ///< of the tile, along `other`
  bool k_fast;   ///< neighbours lie along k
  bool packs;    ///< copied 16 bytes at a time
  int pitch;     ///< elements; so that rows do not meet in one bank
  int elements;  ///< of shared memory
};
FactorTile lhs_tile(const Product& product, int tile_rows);
FactorTile rhs_tile(const Product& product, int tile_columns);
/// By how many elements the places that copies of a tile read move per element of k; nullopt where it is not the same everywhere.
std::optional<ir::Dim> step_of_copies(const Product& product, const FactorTile& tile);

// ---- Tiles of warpgroups
constexpr int kWarpgroupThreads = 128, kWarpgroupRows = 64, kWarpgroupTileBytes = 128;  ///< bytes: of k, in a tile of a factor
constexpr int kWarpgroupK = kWarpgroupTileBytes / 2;                                    ///< so many halves

}  // namespace nabla::kernel_ir

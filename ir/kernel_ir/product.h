// Matrix products that tiles of a result compute, as a GPU's printers and the pass that cuts their work see them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/kernel_ir/contract.h"
#include "ir/kernel_ir/stores.h"

namespace nabla::kernel_ir {

/// C[batch, m, n] = sum(k) A B of one kernel, to which it refers.
struct Product {
  const Kernel& kernel;
  const Let& let;
  Contraction c;
  Expr lhs, rhs;                               ///< the factors, conversions included; lhs moves with m
  std::map<int, std::vector<int>> parts = {};  ///< axes that m, n or k stands for, row-major; none: itself
  /// Of a slice of a longer sum: how many steps of k there are from its first one on, which its axis may exceed; of the axes
  /// of the batch. Null: as many as the axis has. And how long all slices together are.
  Expr rest_of_k = {};
  ir::Dim whole_k = {};

  /// The axis along which neighbours of `axis` lie.
  int last_of(int axis) const;
  /// Does the load walk axis `axis` element by element?
  bool walks(const Expr& load, int axis) const;
};

/// The product of a kernel that is a contraction, where what follows the sum uses of it only the element at hand;
/// nullopt for other kernels.
std::optional<Product> find_product(const Kernel& kernel);
/// One statement of several by itself, where it is a product, inside of a loop of one iteration; nullopt for others.
std::optional<Kernel> product_statement(const Kernel& kernel, const GridStatement& statement);
/// An expression that follows a product for the element at hand: values without positions.
Expr of_own_element(const Expr& e);

// ---- Tiles of tensor cores

constexpr int kTensorTileBytes = 64;                   ///< of k, in a tile of a factor
constexpr int kFragmentRows = 16, kFragmentColumns = 8;  ///< results of one mma
constexpr int kWarpsDown = 2;                            ///< of a block; the others stand beside them
/// Floats from one row to the next of 16 rows of a warp's results, `columns` fragments wide, on their way to memory.
constexpr int epilogue_pitch(int columns) { return columns * kFragmentColumns + 8; }

/// The dtype that both factors have in memory, where their conversions keep every bit and what is missing reads as 0; of two
/// different 8-bit floats, which tensor cores multiply too, that of lhs.
std::optional<DType> common_dtype(const Product& product);

/// One of the floats of 8 bits, of which tensor cores multiply two formats with each other.
bool is_byte_float(DType d);

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

// ---- Tiles of threads that multiply and add: the factors' elements in the dtype of the sums, k slowest
constexpr int kThreadSide = 16, kThreadTileK = 16;  ///< threads of a block stand in a square
/// Bytes of an element of a tile.
int thread_tile_bytes(DType sums);
/// Elements from one step of k to the next in a tile, `side` results wide: 16 bytes more, so that neither packs of a row nor
/// the elements of a column meet in one bank.
constexpr int thread_pitch(int side, int bytes) { return side + 16 / bytes; }
/// Is the factor what stands in memory, 4 or 8 bytes each, so that it can be copied as it is? What is missing must read as 0.
bool is_copied(const Product& product, Expr factor);

// ---- Tiles of warpgroups
constexpr int kWarpgroupThreads = 128, kWarpgroupRows = 64, kWarpgroupTileBytes = 128;  ///< bytes: of k, in a tile of a factor
constexpr int kWarpgroupK = kWarpgroupTileBytes / 2;                                    ///< so many halves

// ---- Attention
/// Of so many features, those of q and of the result together, that the sums of the gradients of keys and of values do not fit into
/// registers together, so that each has a grid; warpgroups copy tiles one ahead, and not two.
bool is_wide_attention(const Procedure& attention);

}  // namespace nabla::kernel_ir

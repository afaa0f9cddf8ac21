// Checks whole modules. The builder checks nodes as they are made; the verifier checks what files and passes leave.
#pragma once

#include <functional>

#include "ir/module.h"

namespace nabla::ir {

class OpTable;

/// What a module-level error is about, for callers that know where it stands in a file.
enum class Item : uint8_t { kSymbol, kConstraint, kMesh, kState, kEntry, kFunction };
using LocateItem = std::function<LocationRef(Item item, size_t index)>;

/// Ok when the module keeps every rule of docs/ir-format.md: SSA order, types as inferred, ops legal at the stage,
/// attributes as declared, layouts that fit their mesh, entries and state that fit their functions, no recursion, unique
/// names, symbols with one range, kernels that stay within their tensors (kernel_ir::check_accesses) under schedules that
/// cover their work. Otherwise at least one diagnostic.
Status verify(const Module& module, const LocateItem& locate = {});
/// The same without the functions' insides, which the caller has checked node by node.
Status verify_structure(const Module& module, const LocateItem& locate = {});

/// E0208 unless the symbol has a name and its range holds a size: what reads symbols asks before it computes with them.
Status check_symbol(const Symbol& symbol);
/// E0210 unless the symbol counts the ranks along its mesh axis.
Status check_coordinate(const Module& module, const Symbol& symbol);
/// E0205 unless the op is legal at the stage.
Status check_stage(const OpDef& op, Stage stage);
/// E0208 for negative extents and symbols that the module does not declare, E0106 for types above the limits.
Status check_type(const Module& module, const Type& type);
/// The same of a shape among an op's attributes. The sizes of all results of a launch, which stand in one list, are no
/// shape: each is checked alone.
Status check_shape_attr(const Module& module, const OpDef& op, const Shape& shape);
/// E0210 for meshes that are none, and for layouts that do not fit their mesh or their values; E0205 for layouts from
/// `local` on.
Status check_meshes(const Module& module, const LocateItem& locate);
Status check_shardings(const Module& module, const Function& function);
/// Of one mesh, whose axes are named [A-Za-z_][A-Za-z0-9_]*: wherever one is made.
Status check_mesh(const Mesh& mesh);
/// The same of one value, and of what a node's attributes and results say.
Status check_layout(const Module& module, const Function& function, ValueId value);
Status check_layouts(const Module& module, const Function& function, const Node& node);
/// The same of one layout of a value that `what` names.
Status check_sharding(const Mesh& mesh, const Sharding& sharding, const Type& type, const std::string& what);
/// Of meshes.
inline constexpr int64_t kMaxRanks = int64_t{1} << 20;
/// Limits of types: hostile files must not make size computations overflow.
inline constexpr int kMaxRank = 32;
inline constexpr int64_t kMaxElements = int64_t{1} << 48;

/// The functions in an order in which every callee comes before its callers: indices into Module::functions. E0303
/// when functions call each other in a cycle; `member` receives one of them. Unknown callees are left out.
Result<std::vector<size_t>> callees_first(const std::vector<std::pair<std::string, std::vector<std::string>>>& calls,
                                          size_t* member = nullptr);

}  // namespace nabla::ir

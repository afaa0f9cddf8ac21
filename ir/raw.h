// A module as a file states it, before anything in it was checked: what the readers of the three forms produce and
// `assemble` turns into a module. Internal to ir.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ir/dim_parser.h"
#include "ir/lexer.h"
#include "ir/module.h"
#include "ir/text.h"
#include "runtime/base/version.h"

namespace nabla::ir {

class OpTable;

/// Of the schema and of the text form. Add-only changes keep it.
inline constexpr int kFormatVersion = kIrVersion;
/// Literals above this size stand in the external section.
inline constexpr int64_t kInlineBytes = 1024;
/// Alignment of every literal in the external section.
inline constexpr int64_t kConstantAlignment = 64;

struct RawAttr {
  std::string name;
  Attr value;
  Place place;
};

struct RawNode {
  std::string op;
  int64_t version = 1;
  std::vector<ValueId> operands;
  std::vector<RawAttr> attrs;
  std::vector<ValueId> results;
  LocationRef location;
  Place place;
};

struct RawValue {
  std::string name;
  std::optional<Type> type;  ///< none: take the inferred one (parameters always have one)
  Place place;
  std::string number = {};  ///< how the text calls a value without a name
  ShardingRef sharding = {};
};

struct RawFunction {
  std::string name;
  std::vector<RawValue> values;
  std::vector<ValueId> params;
  std::vector<RawNode> nodes;
  std::vector<ValueId> results;
  std::optional<std::vector<Type>> result_types;
  LocationRef location;
  Place place;
};

/// Everything but the functions is kept in `module`, with places beside it.
struct RawModule {
  Module module;
  std::vector<RawFunction> functions;
  std::vector<Place> symbol_places, constraint_places, mesh_places, state_places, entry_places;
};

/// Gives the module's symbols, and those of the table, the facts that its constraints tell.
void learn_facts(Module& module, SymbolTable& symbols);

/// Gives the location to show for a place; null: none.
using Locate = std::function<LocationRef(Place)>;

/// Upgrades old ops, completes attributes, infers and compares types, orders functions by their calls, then verifies
/// the whole. Every error carries the place, or the node's own location where there is none.
Result<Module> assemble(RawModule raw, const OpTable& ops, const Locate& locate, Places places);

/// Whether the attribute has its declared default, bit for bit: the forms leave it out then.
bool is_default(const OpDef& op, std::string_view name, const Attr& value);

/// E0104 or E0103 unless `version` is a version that this program reads; `what` names the file.
Status check_version(int64_t version, const std::string& what);

}  // namespace nabla::ir

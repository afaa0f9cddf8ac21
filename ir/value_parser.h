// The parts of the text form that stand in a node or a declaration: names, attributes, types, shardings, literals.
// Internal to ir: the parser of modules is built on it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ir/attr.h"
#include "ir/constants.h"
#include "ir/dim_parser.h"
#include "ir/lexer.h"

namespace nabla::ir {

/// Every function reads what it is named after from the lexer's current token on. Errors carry the place (E0101, E0107).
class ValueParser {
 protected:
  explicit ValueParser(Lexer& lexer) : lexer_(lexer) {}

  const Token& token() const { return lexer_.token(); }
  Status expect(std::string_view text);
  std::string take();
  /// A name: a word or a string.
  Result<std::string> name(std::string_view what);
  Result<std::string> sigil_name(char sigil, std::string_view what);
  Result<std::string> string();
  Result<int64_t> integer();
  Result<std::vector<std::string>> names(std::string_view what);

  Result<Attr> attribute();
  /// A type; where `sharding` is not null also the layout that may stand in it: f32[8@dp,64] replicated {tp}. It stays
  /// null where nothing is said.
  Result<Type> type(ShardingRef* sharding = nullptr);
  Result<LocationRef> location();

  Lexer& lexer_;
  SymbolTable symbols_;
  ConstantReader constants_;

 private:
  Result<Attr> bit_pattern();
  Result<Attr> number();
  std::string element();
  Result<Shape> shape(ShardingRef* sharding = nullptr);
  Result<AxisRef> axis();
  Result<Axes> axes();
  Result<DimSharding> axis_list(bool may_be_open);
  Result<DimSharding> dim_sharding();
  Result<Sharding> sharding();
  Result<Attr> functions();
  Result<Attr> shardings();
  Result<Attr> list();
  Result<Literal> literal(DType dtype);
  Result<ExternalRef> external();
  Result<int> small();

  int64_t splat_total_ = 0;
};

}  // namespace nabla::ir

#include "ir/serialize.h"

#include <flatbuffers/idl.h>

#include <algorithm>
#include <charconv>

#include "ir/binary.h"
#include "ir/constants.h"
#include "ir/ir_schema.h"
#include "ir/op_def.h"
#include "ir/raw.h"
#include "runtime/format/file.h"

namespace nabla::ir {
namespace {

constexpr size_t kMaxJson = size_t{1} << 30;
constexpr std::string_view kExtensions[] = {".nbl", ".nir.json", ".nir"};

flatbuffers::IDLOptions json_options() {
  flatbuffers::IDLOptions options;
  options.strict_json = true;
  options.indent_step = 1;
  options.allow_non_utf8 = true;  // a source line may hold any bytes
  return options;
}

/// With the schema loaded.
std::unique_ptr<flatbuffers::Parser> json_parser() {
  auto parser = std::make_unique<flatbuffers::Parser>(json_options());
  NABLA_CHECK(parser->Parse(kIrSchema), "ir.fbs: {}", parser->error_);
  return parser;
}

Result<std::string> to_json(const Module& module, ConstantWriter& constants, const std::string& sidecar_name) {
  std::string binary = write_binary(module, constants, true, sidecar_name);
  std::unique_ptr<flatbuffers::Parser> parser = json_parser();
  std::string out;
  if (!flatbuffers::GenerateText(*parser, binary.data(), &out))
    return error(Code::kInvalidModule, "a string of the module cannot be written as JSON");
  return out;
}

/// The number after the first "version", before unknown fields of a newer writer stop the parser; 0: none.
int64_t stated_version(std::string_view json) {
  constexpr std::string_view kKey = "\"version\"";
  size_t at = json.substr(0, 256).find(kKey);
  if (at == std::string_view::npos) return 0;
  at = json.find_first_not_of(" \t\r\n:", at + kKey.size());
  int64_t version = 0;
  if (at != std::string_view::npos) std::from_chars(json.data() + at, json.data() + json.size(), version);
  return version;
}

/// The parser's "LINE: COLUMN: error: MESSAGE" as a diagnostic.
Diagnostic json_error(const std::string& text, std::string_view json, const std::string& what) {
  constexpr std::string_view kError = ": error: ";
  size_t cut = text.find(kError);
  Place place;
  const char *begin = text.data(), *end = begin + (cut == std::string::npos ? 0 : cut);
  auto [colon, ec] = std::from_chars(begin, end, place.line);
  if (ec == std::errc() && end - colon > 2) std::from_chars(colon + 2, end, place.column);
  std::string message = cut == std::string::npos ? text : text.substr(cut + kError.size());
  message = message.substr(0, message.find('\n')).substr(0, 300);
  Lexer lexer(json, what);
  return lexer.fail_at(place, Code::kSyntax, message.empty() ? "the JSON does not parse" : message);
}

Result<RawModule> from_json(std::string_view json, const std::string& what, const LoadSidecar& load) {
  if (json.size() > kMaxJson)
    return error(Code::kTooLarge, "{}: {} bytes of JSON, at most {} are read", what, json.size(), kMaxJson);
  if (json.find('\0') != std::string_view::npos)
    return error(Code::kSyntax, "{}: a zero byte stands in the JSON", what);
  size_t first = json.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || json[first] != '{')
    return error(Code::kForeignFile, "{}: not the JSON of a module: it must begin with {{", what);
  if (int64_t version = stated_version(json); version != 0) (void)NABLA_TRY(check_version(version, what));
  std::unique_ptr<flatbuffers::Parser> parser = json_parser();
  if (!parser->ParseJson(std::string(json).c_str(), nullptr)) return json_error(parser->error_, json, what);
  const flatbuffers::FlatBufferBuilder& b = parser->builder_;
  auto copy = format::FileBytes::copy_of({b.GetBufferPointer(), b.GetSize()});
  return read_binary(format::as_text(copy->bytes()), what, load);
}

std::string file_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

Result<Form> form_of(const std::string& path) {
  if (path.ends_with(".nbl")) return Form::kText;
  if (path.ends_with(".nir.json")) return Form::kJson;
  if (path.ends_with(".nir")) return Form::kBinary;
  return error(Code::kBadOption, "{}: the extension says the form of a module: {}, {} or {}", path, kExtensions[0],
               kExtensions[1], kExtensions[2]);
}

Result<Encoded> encode(const Module& module, Form form, const std::string& sidecar_name) {
  if (form != Form::kText && (module.stage >= Stage::kKernels || !module.kernels.empty()))
    return error(Code::kWrongStage, "a module of stage {} has a text form (.nbl) only", name_of(module.stage));
  ConstantWriter constants;
  if (form == Form::kBinary) return Encoded{write_binary(module, constants, false, ""), ""};
  if (form == Form::kJson) {
    std::string json = NABLA_TRY(to_json(module, constants, sidecar_name));
    return Encoded{std::move(json), constants.section()};
  }
  PrintOptions options{.locations = true, .constants = &constants, .constants_name = sidecar_name};
  std::string text = print(module, options);
  return Encoded{std::move(text), constants.section()};
}

Result<Module> decode(std::string_view bytes, Form form, const std::string& what, const OpTable& ops,
                      const LoadSidecar& load, Places places) {
  if (form == Form::kText) return parse_module(bytes, what, ops, load, places);
  Result<RawModule> raw = [&] {
    if (form == Form::kJson) return from_json(bytes, what, load);
    if (reinterpret_cast<uintptr_t>(bytes.data()) % kConstantAlignment == 0) return read_binary(bytes, what, load);
    auto copy = format::FileBytes::copy_of(format::as_bytes(bytes));
    return read_binary(format::as_text(copy->bytes()), what, load);
  }();
  if (!raw.ok()) return std::move(raw.errors());
  // Binary and JSON have no lines to show: errors without a location of their own name the file.
  LocationRef file = std::make_shared<const Location>(Location{what, 0, 0, "", ""});
  return assemble(
      std::move(*raw), ops, [&](Place) { return file; }, places);
}

Result<Module> read_module(const std::string& path, const OpTable& ops, Places places) {
  Form form = NABLA_TRY(form_of(path));
  auto file = NABLA_TRY(format::FileBytes::map(path));
  std::string folder = path.substr(0, path.size() - file_name(path).size());
  LoadSidecar load = [&](const std::string& name) -> Result<std::string> {
    auto sidecar = NABLA_TRY(format::FileBytes::map(folder + name));
    return std::string(format::as_text(sidecar->bytes()));
  };
  return decode(format::as_text(file->bytes()), form, path, ops, load, places);
}

Status write_module(const std::string& path, const Module& module) {
  Form form = NABLA_TRY(form_of(path));
  Encoded encoded = NABLA_TRY(encode(module, form, file_name(path) + ".consts"));
  if (!encoded.sidecar.empty()) (void)NABLA_TRY(format::write_file(path + ".consts", encoded.sidecar));
  return format::write_file(path, encoded.bytes);
}

}  // namespace nabla::ir

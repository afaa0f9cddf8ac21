#include "runtime/base/debug.h"

#include <fmt/format.h>

#include <cstdio>
#include <vector>

namespace nabla {
namespace {

constexpr int64_t kMostShown = 1000, kEdge = 3;

DebugSink& sink() {
  static DebugSink sink;
  return sink;
}

// Texts between the fields, one more than there are fields, and the fields' specifications.
struct Parsed {
  std::vector<std::string> texts{""}, specs;
};

Result<Parsed> parse(std::string_view text) {
  Parsed out;
  for (size_t i = 0; i < text.size(); ++i) {
    bool twice = i + 1 < text.size() && text[i + 1] == text[i];
    if ((text[i] == '{' || text[i] == '}') && twice) {
      out.texts.back() += text[i++];
    } else if (text[i] == '{') {
      size_t end = text.find('}', i);
      std::string_view field = text.substr(i + 1, end == std::string_view::npos ? end : end - i - 1);
      if (end == std::string_view::npos || (!field.empty() && field[0] != ':'))
        return error(Code::kBadAttribute, "`{}`: a field is {{}} or {{:SPEC}}, got `{{{}`", text, field);
      out.specs.emplace_back(field.empty() ? field : field.substr(1));
      out.texts.emplace_back();
      i = end;
    } else if (text[i] == '}') {
      return error(Code::kBadAttribute, "`{}`: a single `}}`; write `}}}}`", text);
    } else {
      out.texts.back() += text[i];
    }
  }
  return out;
}

template <class T>
std::string number(const std::string& spec, T value) {
  return spec.empty() ? fmt::format("{}", value) : fmt::format(fmt::runtime("{:" + spec + "}"), value);
}

std::string element(const Literal& x, int64_t i, const std::string& spec) {
  if (x.dtype() == DType::kBool) return x.get_i(i) != 0 ? "True" : "False";
  if (x.dtype() == DType::kF64) return number(spec, x.get(i));
  if (is_float(x.dtype())) return number(spec, static_cast<float>(x.get(i)));
  if (x.dtype() == DType::kU64) return number(spec, static_cast<uint64_t>(x.get_i(i)));
  return number(spec, x.get_i(i));
}

void array(const Literal& x, const std::string& spec, size_t dimension, int64_t first, std::string& out) {
  if (dimension == x.shape().size()) {
    out += element(x, first, spec);
    return;
  }
  int64_t extent = x.shape()[dimension], stride = 1;
  for (size_t d = dimension + 1; d < x.shape().size(); ++d) stride *= x.shape()[d];
  bool cut = x.size() > kMostShown && extent > 2 * kEdge;
  out += "[";
  for (int64_t i = 0; i < extent; ++i) {
    if (i > 0) out += ", ";
    if (cut && i == kEdge) out += "..., ", i = extent - kEdge;
    array(x, spec, dimension + 1, first + i * stride, out);
  }
  out += "]";
}

std::string operand_text(const Literal& x, const std::string& spec) {
  std::string out;
  array(x, spec, 0, 0, out);
  return out;
}

}  // namespace

void set_debug_sink(DebugSink made) { sink() = std::move(made); }

Status debug(const DebugEvent& event) {
  if (sink()) return sink()(event);
  std::string line = event.entry.empty() ? "" : fmt::format("{} {}: ", event.entry, event.run);
  line += debug_line(event) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
  return Ok{};
}

Status check_debug_text(std::string_view text, std::span<const DType> operands) {
  Parsed parsed = NABLA_TRY(parse(text));
  if (parsed.specs.size() != operands.size())
    return error(Code::kBadAttribute, "`{}` has {} fields for {} operands", text, parsed.specs.size(), operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    try {
      (void)element(Literal(operands[i], {}), 0, parsed.specs[i]);
    } catch (const fmt::format_error& e) {
      return error(Code::kBadAttribute, "`{}`: field {} `{{:{}}}` does not format {}: {}", text, i, parsed.specs[i],
                   name_of(operands[i]), e.what());
    }
  }
  return Ok{};
}

std::string debug_line(const DebugEvent& event) {
  std::string out;
  if (!event.callback.empty()) {
    out = std::string(event.callback) + "(";
    for (size_t i = 0; i < event.operands.size(); ++i) out += (i > 0 ? ", " : "") + operand_text(event.operands[i], "");
    return out + ")";
  }
  Result<Parsed> parsed = parse(event.text);
  if (!parsed.ok() || parsed->specs.size() != event.operands.size()) return std::string(event.text);
  for (size_t i = 0; i < event.operands.size(); ++i)
    out += parsed->texts[i] + operand_text(event.operands[i], parsed->specs[i]);
  return out + parsed->texts.back();
}

}  // namespace nabla

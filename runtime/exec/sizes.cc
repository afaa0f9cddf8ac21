#include "runtime/exec/sizes.h"

#include <algorithm>
#include <bit>
#include <optional>

#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

using format::SizeOp;

int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

// Wraps instead of overflowing; a divisor of 0 gives 0. The result of a sound program is exact.
int64_t apply(SizeOp op, int64_t a, int64_t b) {
  switch (op) {
    case SizeOp::Add:
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case SizeOp::Mul:
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case SizeOp::FloorDiv:
      return b <= 0 ? 0 : floor_div(a, b);
    case SizeOp::Mod:
      return b <= 0 ? 0 : a - b * floor_div(a, b);
    case SizeOp::Min:
      return std::min(a, b);
    default:
      return std::max(a, b);
  }
}

// The value of a size; `value_of` gives a symbol's. The reader has checked that the stack never overflows.
template <class ValueOf>
int64_t value_of_size(const format::Size& size, const ValueOf& value_of) {
  int64_t stack[format::kMaxSizeStack] = {};
  int depth = 0;
  for (const format::SizeStep* step : *size.steps()) {
    if (step->op() == SizeOp::Constant) {
      stack[depth++] = step->value();
    } else if (step->op() == SizeOp::Symbol) {
      stack[depth++] = value_of(static_cast<uint32_t>(step->value()));
    } else {
      --depth;
      stack[depth - 1] = apply(step->op(), stack[depth - 1], stack[depth]);
    }
  }
  return stack[0];
}

std::string text_of(const flatbuffers::String* text) { return text == nullptr ? "" : text->str(); }

// The symbol's value, where one of the first sources tells it.
std::optional<int64_t> value_among(const flatbuffers::Vector<flatbuffers::Offset<format::SymbolSource>>& sources,
                                   const std::vector<int64_t>& values, uint32_t symbol) {
  for (uint32_t i = 0; i < values.size(); ++i)
    if (sources.Get(i)->symbol() == symbol) return values[i];
  return std::nullopt;
}

}  // namespace

std::string EntrySizes::input_name(uint32_t input) const { return entry_.inputs()->Get(input)->name()->str(); }

std::string EntrySizes::origin(uint32_t source) const {
  const format::SymbolSource& s = *entry_.sources()->Get(source);
  return fmt::format("dimension {} of input `{}`", s.dimension(), input_name(s.input()));
}

Result<int64_t> EntrySizes::solve_one(uint32_t source, int64_t extent, const std::vector<int64_t>& earlier) const {
  const format::SymbolSource& s = *entry_.sources()->Get(source);
  const format::Symbol& symbol = *program_.symbols()->Get(s.symbol());
  auto value_of = [&](uint32_t wanted) { return value_among(*entry_.sources(), earlier, wanted).value_or(0); };
  int64_t scale = s.scale_size() ? value_of_size(*s.scale_size(), value_of) : s.scale();
  int64_t scaled = extent - (s.offset_size() ? value_of_size(*s.offset_size(), value_of) : s.offset());
  if (scale == 0 || scaled % scale != 0) {
    std::string from = values_text({s.scale_size(), s.offset_size()}, earlier);
    const flatbuffers::String* size = entry_.inputs()->Get(s.input())->symbols()->Get(s.dimension());
    return error(Code::kInputShape, "entry `{}`: {} is {}, and no {} makes {} that{}", entry_.name()->str(),
                 origin(source), extent, symbol.name()->str(), size->str(),
                 from.empty() ? "" : fmt::format(" ({})", from));
  }
  int64_t value = scaled / scale;
  if (value < symbol.min() || value > symbol.max() || value % symbol.multiple() != 0)
    return error(Code::kInputShape, "entry `{}`: {} gives {} = {}, which is not {}in [{}, {}]", entry_.name()->str(),
                 origin(source), symbol.name()->str(), value,
                 symbol.multiple() > 1 ? fmt::format("a multiple of {} ", symbol.multiple()) : "", symbol.min(),
                 symbol.max());
  return value;
}

Status EntrySizes::solve(std::span<const int64_t* const> shapes, std::vector<int64_t>& values) const {
  values.clear();
  uint32_t sources = symbolic() ? entry_.sources()->size() : 0;
  for (uint32_t i = 0; i < sources; ++i) {
    const format::SymbolSource& s = *entry_.sources()->Get(i);
    Result<int64_t> value = solve_one(i, shapes[s.input()][s.dimension()], values);
    if (!value.ok()) return std::move(value.errors());
    values.push_back(*value);
  }
  for (uint32_t i = 0; i < shapes.size(); ++i) {
    Status fits = check_input(i, shapes[i], values);
    if (!fits.ok()) return fits;
  }
  return check_constraints(values);
}

Status EntrySizes::check_constraints(const std::vector<int64_t>& values) const {
  for (uint32_t i = 0; symbolic() && program_.constraints() && i < program_.constraints()->size(); ++i) {
    Status holds = check_constraint(*program_.constraints()->Get(i), values);
    if (!holds.ok()) return holds;
  }
  return Ok{};
}

std::string EntrySizes::values_text(std::initializer_list<const format::Size*> sizes,
                                    const std::vector<int64_t>& values) const {
  std::string out;
  for (uint32_t i = 0; i < values.size(); ++i) {
    uint32_t symbol = entry_.sources()->Get(i)->symbol();
    bool used = false;
    for (const format::Size* size : sizes)
      for (uint32_t k = 0; size != nullptr && k < size->steps()->size(); ++k) {
        const format::SizeStep& step = *size->steps()->Get(k);
        used |= step.op() == SizeOp::Symbol && static_cast<uint32_t>(step.value()) == symbol;
      }
    if (used)
      out += fmt::format("{}{} = {} from {}", out.empty() ? "" : ", ", program_.symbols()->Get(symbol)->name()->str(),
                         values[i], origin(i));
  }
  return out;
}

// Nothing to check where the entry does not know all of its symbols.
Status EntrySizes::check_constraint(const format::Constraint& constraint, const std::vector<int64_t>& values) const {
  bool known = true;
  auto value_of = [&](uint32_t symbol) {
    std::optional<int64_t> value = value_among(*entry_.sources(), values, symbol);
    known &= value.has_value();
    return value.value_or(1);
  };
  int64_t left = value_of_size(*constraint.left(), value_of), right = value_of_size(*constraint.right(), value_of);
  bool holds = constraint.relation() == format::Relation::Equal  ? left == right
               : constraint.relation() == format::Relation::Less ? left < right
                                                                 : left <= right;
  if (holds || !known) return Ok{};
  static constexpr const char* kSigns[] = {"==", "<", "<="};  // by Relation
  std::string a = text_of(constraint.left()->text()), b = text_of(constraint.right()->text());
  Diagnostic d = error(Code::kInputShape, "entry `{}`: {} = {} and {} = {}, but the program requires {} {} {} ({})",
                       entry_.name()->str(), a, left, b, right, a, kSigns[static_cast<int>(constraint.relation())], b,
                       values_text({constraint.left(), constraint.right()}, values));
  if (constraint.location() > 0) {
    const format::Location& at = *program_.locations()->Get(constraint.location());
    d.location = std::make_shared<const Location>(
        Location{text_of(at.file()), static_cast<int>(at.line()), 0, text_of(at.function()), text_of(at.text())});
  }
  return d;
}

Status EntrySizes::check_input(uint32_t input, const int64_t* shape, const std::vector<int64_t>& values) const {
  const format::Tensor& tensor = *entry_.inputs()->Get(input);
  uint32_t rank = tensor.shape() == nullptr ? 0 : tensor.shape()->size();
  for (uint32_t d = 0; d < rank; ++d) {
    uint32_t reference = tensor.sizes() == nullptr || tensor.sizes()->size() == 0 ? 0 : tensor.sizes()->Get(d);
    int64_t want = tensor.shape()->Get(d);
    if (reference > 0)
      want = value_of_size(*program_.sizes()->Get(reference - 1),
                           [&](uint32_t symbol) { return value_among(*entry_.sources(), values, symbol).value_or(0); });
    if (shape[d] == want) continue;
    if (reference == 0)
      return error(Code::kInputShape, "entry `{}`: dimension {} of input `{}` is {}, got {}", entry_.name()->str(), d,
                   input_name(input), want, shape[d]);
    std::string from = values_text({program_.sizes()->Get(reference - 1)}, values);
    return error(Code::kInputShape, "entry `{}`: dimension {} of input `{}` is {} = {} ({}), got {}",
                 entry_.name()->str(), d, input_name(input), tensor.symbols()->Get(d)->str(), want, from, shape[d]);
  }
  return Ok{};
}

std::vector<int64_t> EntrySizes::largest() const {
  std::vector<int64_t> out;
  for (uint32_t i = 0; symbolic() && i < entry_.sources()->size(); ++i) {
    const format::Symbol& s = *program_.symbols()->Get(entry_.sources()->Get(i)->symbol());
    out.push_back(s.max() / s.multiple() * s.multiple());
  }
  return out;
}

std::vector<int64_t> EntrySizes::bucket(const std::vector<int64_t>& values) const {
  std::vector<int64_t> out = largest();
  for (uint32_t i = 0; i < out.size(); ++i) {
    const format::Symbol& s = *program_.symbols()->Get(entry_.sources()->Get(i)->symbol());
    auto count = static_cast<uint64_t>(values[i] / s.multiple());
    int64_t bound = static_cast<int64_t>(std::bit_ceil(count)) * s.multiple();
    if (values[i] == 0) bound = 0;
    if (s.buckets() != nullptr && s.buckets()->size() > 0) {
      auto fits = std::find_if(s.buckets()->begin(), s.buckets()->end(), [&](int64_t b) { return b >= values[i]; });
      bound = fits == s.buckets()->end() ? out[i] : *fits;
    }
    out[i] = std::min(out[i], bound);
  }
  return out;
}

std::vector<std::vector<int64_t>> EntrySizes::declared_buckets() const {
  std::vector<std::vector<int64_t>> out = {largest()};
  for (uint32_t i = 0; i < out[0].size(); ++i) {
    const auto* bounds = program_.symbols()->Get(entry_.sources()->Get(i)->symbol())->buckets();
    size_t before = out.size();
    for (uint32_t b = 0; bounds != nullptr && b < bounds->size(); ++b)
      for (size_t k = 0; k < before && bounds->Get(b) < out[0][i] && out.size() < format::kMaxBuckets; ++k) {
        out.push_back(out[k]);
        out.back()[i] = std::min(out[k][i], bounds->Get(b));
      }
  }
  std::erase_if(out, [&](const std::vector<int64_t>& values) { return !check_constraints(values).ok(); });
  return out;
}

Result<std::vector<int64_t>> EntrySizes::evaluate(const std::vector<int64_t>& values) const {
  std::vector<int64_t> table;
  if (program_.sizes() == nullptr) return table;
  for (const format::Size* size : *program_.sizes()) {
    bool known = true;
    int64_t value = value_of_size(*size, [&](uint32_t symbol) {
      uint32_t group = program_.symbols()->Get(symbol)->group();
      if (group > 0 && group <= places_.size()) return places_[group - 1];
      for (uint32_t i = 0; symbolic() && i < entry_.sources()->size(); ++i)
        if (entry_.sources()->Get(i)->symbol() == symbol) return values[i];
      known = false;
      return int64_t{1};
    });
    if (!known) value = 0;
    if (value < 0 || value > size->max())
      return error(Code::kInputShape, "entry `{}`: the size {} is {}, which is not in [0, {}]", entry_.name()->str(),
                   text_of(size->text()), value, size->max());
    table.push_back(value);
  }
  return table;
}

namespace {

using Tensors = flatbuffers::Vector<flatbuffers::Offset<format::Tensor>>;

std::vector<std::vector<int64_t>> shapes_of(const Tensors* tensors, const std::vector<int64_t>& table) {
  std::vector<std::vector<int64_t>> out;
  if (tensors == nullptr) return out;
  for (const format::Tensor* tensor : *tensors) {
    std::vector<int64_t>& shape = out.emplace_back();
    uint32_t rank = tensor->shape() == nullptr ? 0 : tensor->shape()->size();
    bool refers = tensor->sizes() != nullptr && tensor->sizes()->size() > 0;
    for (uint32_t d = 0; d < rank; ++d)
      shape.push_back(size_at(refers ? tensor->sizes()->Get(d) : 0, tensor->shape()->Get(d), table));
  }
  return out;
}

std::vector<uint64_t> bytes_of(const Tensors* tensors, const std::vector<int64_t>& table) {
  std::vector<uint64_t> out;
  for (const std::vector<int64_t>& shape : shapes_of(tensors, table)) {
    uint64_t bytes = format::element_bytes(tensors->Get(static_cast<uint32_t>(out.size()))->dtype());
    for (int64_t extent : shape) bytes *= static_cast<uint64_t>(extent);
    out.push_back(bytes);
  }
  return out;
}

}  // namespace

std::vector<std::vector<int64_t>> EntrySizes::output_shapes(const std::vector<int64_t>& table) const {
  return shapes_of(entry_.outputs(), table);
}
std::vector<uint64_t> EntrySizes::input_bytes(const std::vector<int64_t>& table) const {
  return bytes_of(entry_.inputs(), table);
}
std::vector<uint64_t> EntrySizes::output_bytes(const std::vector<int64_t>& table) const {
  return bytes_of(entry_.outputs(), table);
}

}  // namespace nabla::exec

#include "runtime/exec/check_nan.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/exec/engine.h"
#include "runtime/exec/sizes.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

bool overlap(const Operand& a, const void* at_a, const Operand& b, const void* at_b) {
  const char *x = static_cast<const char*>(at_a), *y = static_cast<const char*>(at_b);
  return x < y + b.bytes && y < x + a.bytes;
}

std::string counted(int64_t n, const char* one, const char* many) {
  return fmt::format("{} {}", n, n == 1 ? one : many);
}

}  // namespace

LocationRef location_of(const format::Program& program, const format::Instruction& instruction) {
  if (program.locations() == nullptr || instruction.location() >= program.locations()->size()) return nullptr;
  const format::Location& at = *program.locations()->Get(instruction.location());
  Location out;
  out.file = format::view(at.file());
  out.line = static_cast<int>(at.line());
  out.function = format::view(at.function());
  out.text = format::view(at.text());
  return std::make_shared<const Location>(std::move(out));
}

std::vector<Operand> operands_of(const format::Program& program, const format::Instruction& instruction,
                                 const std::vector<int64_t>& table, bool launched) {
  std::vector<Operand> out;
  const auto* launch = instruction.action_as_Launch();
  const format::Kernel* kernel = launch != nullptr ? program.kernels()->Get(launch->kernel()) : nullptr;
  const auto* operands = instruction.operands();
  std::vector<const format::Address*> addresses = format::addresses_of(instruction);
  auto launched_instead = [&](const auto* call) {
    if (call == nullptr || !launched) return;
    operands = call->fallback_operands(), addresses = format::arguments_of(*call->fallback());
  };
  launched_instead(instruction.action_as_Gemm());
  launched_instead(instruction.action_as_Convolution());
  if (operands == nullptr) return out;
  for (uint32_t i = 0; i < addresses.size() && i < operands->size(); ++i) {
    const format::Operand& operand = *operands->Get(i);
    int64_t most = addresses[i] == nullptr ? 0 : static_cast<int64_t>(addresses[i]->bytes());
    // What ranks exchange is there only after the wait.
    bool written = operand.written() && !format::starts(instruction);
    const bool computed = written && kernel != nullptr;
    out.push_back({static_cast<DType>(static_cast<uint8_t>(operand.dtype())), written, size_at(operand.bytes_size(), most, table),
                   computed && kernel->infinite(), computed && kernel->nan()});
  }
  return out;
}

Status check_operands_known(const format::Program& program, const std::string& what) {
  for (const format::Instructions* list : format::instructions_of(program))
    for (const format::Instruction* instruction : *list) {
      bool known = format::size_of(instruction->operands()) > 0;
      if (known || format::addresses_of(*instruction).empty()) continue;
      Diagnostic d = error(Code::kBadOption, "{} does not say of which type the operands of `{}` are; checks need it",
                           what, format::view(instruction->label()));
      d.help = "compile the program again";
      return d;
    }
  return Ok{};
}

NanCheck::Range NanCheck::range_of(const Operand& operand, const void* at) {
  Range out;
  const void* data = engine_.look(at, static_cast<size_t>(operand.bytes), room_);
  if (data == nullptr) return out;
  out.known = true;
  out.size = operand.bytes / bytes_of(operand.dtype);
  bool any = false;
  for (int64_t i = 0; i < out.size; ++i) {
    double x = operand.dtype == DType::kF32 ? static_cast<const float*>(data)[i] : get_float(operand.dtype, data, i);
    if (std::isnan(x)) {
      if (++out.nans == 1) out.first_nan = i;
      continue;
    }
    if (std::isinf(x) && ++out.infinities == 1) out.first_infinity = i, out.infinity = x;
    out.min = any ? std::min(out.min, x) : x;
    out.max = any ? std::max(out.max, x) : x;
    any = true;
  }
  return out;
}

std::string NanCheck::Range::str() const {
  if (size == 0) return "empty";
  std::string nan = nans == 0 ? "no NaN" : fmt::format("{} NaN", nans);
  return nans == size ? "all NaN" : fmt::format("{:.6g} to {:.6g}, {}", min, max, nan);
}

void NanCheck::before(const std::vector<Operand>& operands, void* const* slots) {
  ranges_.assign(operands.size(), {});
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].written || !is_float(operands[i].dtype)) continue;
    bool overwritten = false;
    for (size_t r = 0; r < operands.size() && !overwritten; ++r)
      overwritten = operands[r].written && overlap(operands[i], slots[i], operands[r], slots[r]);
    if (overwritten) ranges_[i] = range_of(operands[i], slots[i]);
  }
}

bool NanCheck::masked(const std::vector<Operand>& operands, void* const* slots, size_t r) {
  if (operands[r].infinite) return true;
  if (ranges_[r].max > std::numeric_limits<double>::max()) return false;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (operands[i].written || !is_float(operands[i].dtype)) continue;
    if (!ranges_[i].known) ranges_[i] = range_of(operands[i], slots[i]);
    if (ranges_[i].min < std::numeric_limits<double>::lowest()) return true;
  }
  return false;
}

bool NanCheck::after(const std::vector<Operand>& operands, void* const* slots) {
  for (size_t r = 0; r < operands.size() && !found_; ++r) {
    if (!operands[r].written || !is_float(operands[r].dtype)) continue;
    Range& range = ranges_[r] = range_of(operands[r], slots[r]);
    if (range.infinities > 0 && !masked(operands, slots, r)) range.fault = range.first_infinity;
    if (range.nans > 0 && !operands[r].nan && (range.fault < 0 || range.first_nan < range.fault)) range.fault = range.first_nan;
    found_ = range.fault >= 0;
    result_ = r;
  }
  if (!found_) return true;
  operands_ = operands;
  // The slots of a loop's body move back when it ends, so that the operands are looked at here.
  for (size_t i = 0; i < operands.size(); ++i)
    if (!operands[i].written && is_float(operands[i].dtype) && !ranges_[i].known)
      ranges_[i] = range_of(operands[i], slots[i]);
  return false;
}

Diagnostic NanCheck::report(const format::Program& program, const std::string& entry,
                            const format::Instruction& instruction) {
  found_ = false;
  const Range& bad = ranges_[result_];
  auto index = std::count_if(operands_.begin(), operands_.begin() + static_cast<int64_t>(result_),
                             [](const Operand& o) { return o.written; });
  Diagnostic d =
      error(Code::kNotFinite, "entry `{}`: result {} of `{}` has {} and {} among {} of {}; the first is element {}, {}",
            entry, index, format::view(instruction.label()), counted(bad.nans, "NaN", "NaNs"),
            counted(bad.infinities, "infinity", "infinities"), counted(bad.size, "element", "elements"),
            name_of(operands_[result_].dtype), bad.fault,
            bad.fault == bad.first_nan ? "NaN"
            : bad.infinity > 0         ? "infinity"
                                       : "-infinity");
  d.location = location_of(program, instruction);
  int64_t number = 0;
  for (size_t i = 0; i < operands_.size(); ++i) {
    if (operands_[i].written) continue;
    if (ranges_[i].known)
      d.notes.push_back(fmt::format("operand {}, {} of {}: {}", number, counted(ranges_[i].size, "element", "elements"),
                                    name_of(operands_[i].dtype), ranges_[i].str()));
    ++number;
  }
  return d;
}

}  // namespace nabla::exec

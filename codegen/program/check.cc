#include "codegen/program/check.h"

#include <algorithm>

#include "codegen/program/print.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::program {
namespace {

constexpr int kMaxDepth = 64;
using Wide = __int128;

struct Range {
  int64_t low, high;
};
using Registers = std::map<Register, Range>;

bool overlap(const Address& a, const Address& b) {
  if (a.base != b.base || a.index != b.index || !a.terms.empty() || !b.terms.empty()) return false;
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool same(const Operand& a, const Operand& b) { return a.address == b.address && a.type == b.type; }

// The handle that an instruction starts.
std::optional<uint32_t> started(const Instruction& i) {
  if (const auto* a = std::get_if<Collective>(&i.action)) return a->handle;
  if (const auto* a = std::get_if<Send>(&i.action)) return a->handle;
  if (const auto* a = std::get_if<Recv>(&i.action)) return a->handle;
  if (const auto* a = std::get_if<Transfer>(&i.action)) return a->handle;
  return std::nullopt;
}

class Checker {
 public:
  explicit Checker(const LocalProgram& p) : p_(p) {}

  Status run() {
    for (size_t b = 0; b < p_.blocks.size(); ++b) (void)NABLA_TRY(check_references(p_.blocks[b], b));
    for (const Entry& e : p_.entries) {
      entry_ = &e;
      (void)NABLA_TRY(check_entry_list(e, e.instructions));
      for (const Variant& v : e.variants) (void)NABLA_TRY(check_entry_list(e, v.instructions));
    }
    return Ok{};
  }

 private:
  Status check_entry_list(const Entry& e, const Instructions& list) {
    work_ = 0;
    where_ = fmt::format("entry {}", e.name);
    (void)NABLA_TRY(check_references(list, p_.blocks.size()));
    return check_list(list, {}, 0);
  }

  template <class... Args>
  Diagnostic wrong(const Instruction& i, fmt::format_string<Args...> format, Args&&... args) const {
    std::string what = fmt::format(format, std::forward<Args>(args)...);
    Diagnostic d = error(Code::kInvalidModule, "{}: {}: {}", where_, i.label, what);
    d.location = i.location;
    return d;
  }

  Status check_references(const Instructions& list, size_t limit) const {
    for (const Instruction& i : list)
      for (uint32_t block : blocks_of(i))
        if (block >= limit) return wrong(i, "block {} of {} that stand before it", block, limit);
    return Ok{};
  }

  Status check_list(const Instructions& list, const Registers& registers, int depth) {
    if (depth > kMaxDepth) return error(Code::kTooLarge, "{}: blocks nest deeper than {}", where_, kMaxDepth);
    if ((work_ += list.size()) > format::kMaxInstructions)
      return error(Code::kTooLarge, "{}: it runs more than {} instructions, loops counted once", where_,
                   format::kMaxInstructions);
    std::map<uint32_t, const Instruction*> open;
    for (const Instruction& i : list) {
      for (const Operand& o : operands_of(i)) (void)NABLA_TRY(check_operand(i, o, registers));
      if (const auto* call = std::get_if<LibraryCall>(&i.action); call && call->fallback)
        for (const Operand& o : call->fallback->operands) (void)NABLA_TRY(check_operand(i, o, registers));
      if (const auto* t = std::get_if<Transfer>(&i.action)) (void)NABLA_TRY(check_transfer(i, *t));
      (void)NABLA_TRY(check_handles(i, open));
      (void)NABLA_TRY(check_blocks(i, registers, depth));
    }
    if (!open.empty()) return wrong(*open.begin()->second, "handle {} is never awaited", open.begin()->first);
    return Ok{};
  }

  // The loader's limit, told here by what the user wrote.
  Status check_trips(const Instruction& i, const ir::Dim& trips) const {
    int64_t most = trips.bounds().max;
    if (most <= kMaxArrayBytes) return Ok{};
    Diagnostic d = error(Code::kOverBudget, "{}: {} {} {} times, at most {} are allowed", where_, i.label,
                         trips.is_static() ? "runs" : "may run", most, kMaxArrayBytes);
    d.location = i.location;
    d.help = trips.is_static() ? "let it run fewer times" : "give its sizes smaller upper bounds";
    return d;
  }

  Status check_blocks(const Instruction& i, Registers registers, int depth) {
    auto set = [&](Register r, Range range) -> Status {
      if (registers.emplace(r, range).second) return Ok{};
      return wrong(i, "register {} is in use around it", r);
    };
    const auto* loop = std::get_if<Loop>(&i.action);
    if (loop) (void)NABLA_TRY(check_trips(i, loop->trips));
    if (loop) (void)NABLA_TRY(set(loop->counter, {0, std::max<int64_t>(loop->trips.bounds().max - 1, 0)}));
    if (const auto* call = std::get_if<Call>(&i.action))
      for (const Call::Set& s : call->registers) (void)NABLA_TRY(set(s.counter, {s.value, s.value}));
    for (uint32_t block : blocks_of(i)) (void)NABLA_TRY(check_list(p_.blocks[block], registers, depth + 1));
    return Ok{};
  }

  Result<Wide> limit_of(const Instruction& i, const Address& a) const {
    auto tensor = [&](const std::vector<Named>& list, std::string_view what) -> Result<Wide> {
      if (a.index >= 0 && static_cast<size_t>(a.index) < list.size())
        return static_cast<Wide>(list[a.index].type.bytes().bounds().max);
      return wrong(i, "{} {} of {}", what, a.index, list.size());
    };
    switch (a.base) {
      case ir::Base::kArena:
        return static_cast<Wide>(p_.arena_bytes);
      case ir::Base::kHost:
        return static_cast<Wide>(p_.host_bytes);
      case ir::Base::kConstants:
        return static_cast<Wide>(p_.constants_bytes);
      case ir::Base::kInput:
        return tensor(entry_->inputs, "input");
      case ir::Base::kOutput:
        return tensor(entry_->outputs, "output");
    }
    return wrong(i, "unknown base {}", static_cast<int>(a.base));
  }

  Status check_operand(const Instruction& i, const Operand& o, const Registers& registers) const {
    const Address& a = o.address;
    if (o.written && (a.base == ir::Base::kInput || a.base == ir::Base::kConstants))
      return wrong(i, "{} is written", print(a));
    bool transfers = std::holds_alternative<Transfer>(i.action) || std::holds_alternative<Wait>(i.action);
    if (a.base == ir::Base::kHost && !transfers) return wrong(i, "{} is the host's, where transfers alone go", print(a));
    Wide limit = NABLA_TRY(limit_of(i, a)), low = a.offset, high = low + a.bytes;
    for (const Address::Term& t : a.terms) {
      auto found = registers.find(t.counter);
      if (found == registers.end()) return wrong(i, "{} moves with a register in which nothing counts", print(a));
      Range r = found->second;
      if (t.modulus > 0) r = {0, std::min<int64_t>(t.modulus - 1, r.high)};
      Wide stride = t.stride.bounds().max, first = r.low * stride, last = r.high * stride;
      low += std::min(first, last), high += std::max(first, last);
    }
    if (a.bytes < 0 || low < 0 || high > limit)
      return wrong(i, "{} ({} bytes) leaves the {} bytes of its base", print(a), a.bytes, static_cast<int64_t>(limit));
    return Ok{};
  }

  Status check_transfer(const Instruction& i, const Transfer& t) const {
    const Address &from = t.from.address, &to = t.to.address;
    if (from.bytes != to.bytes) return wrong(i, "{} bytes go to {}", from.bytes, to.bytes);
    if ((from.base == ir::Base::kHost) == (to.base == ir::Base::kHost))
      return wrong(i, "{} to {} is no copy between the host's memory and the GPU's", print(from), print(to));
    return Ok{};
  }

  Status check_handles(const Instruction& i, std::map<uint32_t, const Instruction*>& open) const {
    const auto* wait = std::get_if<Wait>(&i.action);
    if (!wait) {
      for (const auto& [handle, start] : open)
        for (const Operand& mine : operands_of(i))
          for (const Operand& theirs : operands_of(*start))
            if ((mine.written || theirs.written) && overlap(mine.address, theirs.address))
              return wrong(i, "it touches {}, on which handle {} still works", print(mine.address), handle);
      std::optional<uint32_t> handle = started(i);
      if (handle && !open.emplace(*handle, &i).second) return wrong(i, "handle {} is started twice", *handle);
      return Ok{};
    }
    auto start = open.find(wait->handle);
    if (start == open.end()) return wrong(i, "handle {} was not started in this list", wait->handle);
    std::vector<Operand> given = operands_of(*start->second);
    if (!std::equal(given.begin(), given.end(), wait->operands.begin(), wait->operands.end(), same))
      return wrong(i, "handle {} was started with other operands", wait->handle);
    open.erase(start);
    return Ok{};
  }

  const LocalProgram& p_;
  const Entry* entry_ = nullptr;
  std::string where_ = "blocks";
  size_t work_ = 0;
};

}  // namespace

Status check(const LocalProgram& program) { return Checker(program).run(); }

}  // namespace nabla::program

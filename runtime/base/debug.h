// What a program tells the process that runs it, in the middle of a run: the `debug` op. Interpreter and runtime hand
// events to one sink of the process, which prints them unless somebody sets another.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"

namespace nabla {

struct DebugEvent {
  /// Of a print: "{}" or "{:SPEC}" per operand in their order, "{{" and "}}" for braces. SPEC is that of fmt and of
  /// Python for one number, and applies to every element.
  std::string_view text;
  std::string_view callback;  ///< not empty: the function that is to be called with the operands, instead of printing
  std::span<const Literal> operands;
  std::string_view entry;  ///< that runs; empty: none, it is the interpreter
  int64_t run = 0;         ///< which run of the entry in its session this is, from 1
};

/// An error ends the run.
using DebugSink = std::function<Status(const DebugEvent&)>;

/// Sets the sink of the process, before programs run; an empty one prints to standard output: debug_line, and where an
/// entry runs its name and the number of its run, "step 12: loss 0.5".
void set_debug_sink(DebugSink sink);
/// Hands the event to the sink.
Status debug(const DebugEvent& event);

/// E0204 unless the text has a field for every operand and every specification fits numbers of its dtype.
Status check_debug_text(std::string_view text, std::span<const DType> operands);
/// The text with its fields filled in; a callback as "NAME(OPERAND, ...)". Arrays of more than 1,000 elements show three
/// at each end of each dimension.
std::string debug_line(const DebugEvent& event);

}  // namespace nabla

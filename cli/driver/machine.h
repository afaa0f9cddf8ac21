// The rates of a machine's CPUs (ir::CpuRates): measured, and as lines of a tuning file.
#pragma once

#include <string>
#include <string_view>

#include "ir/target.h"

namespace nabla::driver {

/// Measures this machine with programs of this CPU target, in about two seconds: copies of all sizes of caches, products, arithmetic
/// of generated code, short instructions, and collectives of 2 and 4 ranks on its threads. Errors of the compiler and of sessions.
Result<ir::CpuRates> measure_rates(const ir::Target& target);

/// Lines `machine WHAT = NUMBER...`, which stand below `target` in a tuning file:
///   machine cpus = 2
///   machine arithmetic = 4.1            instructions of vectors in a nanosecond
///   machine step = 0.09                 microseconds
///   machine copy 2 65536 = 81000        threads, bytes of each = bytes that each moves in a microsecond
///   machine product 33554432 = 251000   operations of one = operations in a microsecond
///   machine exchange 2 of 4 = 13 9000   members of a group, ranks = microseconds to meet, bytes in a microsecond
std::string rates_text(const ir::CpuRates& rates);
/// Adds what a line says, without the word `machine`. False where it says nothing of a machine, or what no machine does.
bool read_rate(std::string_view line, ir::CpuRates& rates);
/// Rates to add lines to: without what they replace.
ir::CpuRates no_rates();

}  // namespace nabla::driver

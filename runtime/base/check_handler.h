// What a process that outlives our mistakes does about them (runtime/base/check.h).
#pragma once

#include <string>

namespace nabla {

/// Called by check_failed in the place of the abort, with the text that it would print: throws an exception that
/// carries it. It runs on the thread that failed, after the rescue, but not while another exception is under way there.
/// Where it returns, and where there is none (null), the process aborts.
using CheckHandler = void (*)(const std::string& report);
void set_check_handler(CheckHandler handler);

}  // namespace nabla

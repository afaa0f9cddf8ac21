#include "runtime/base/check.h"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

namespace nabla {
namespace {
thread_local std::string activity;
thread_local std::function<void()> rescue;
std::atomic<void (*)(const std::string&)> handler = nullptr;
}  // namespace

ScopedActivity::ScopedActivity(std::string what) : previous_(std::move(activity)) { activity = std::move(what); }
ScopedActivity::~ScopedActivity() { activity = std::move(previous_); }

ScopedRescue::ScopedRescue(std::function<void()> keep) : previous_(std::exchange(rescue, std::move(keep))) {}
ScopedRescue::~ScopedRescue() { rescue = std::move(previous_); }

// Declared in check_handler.h, for the processes that have one; check.h is everybody's.
void set_check_handler(void (*to)(const std::string& report)) { handler = to; }

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::string report = fmt::format("{}:{}: internal check failed: {}{}{}\n", file, line, condition,
                                   message.empty() ? "" : ": ", message);
  if (!activity.empty()) report += fmt::format("  while: {}\n", activity);
  report += "  This is a bug in Nabla, not in your program.\n";
  auto* throws = std::uncaught_exceptions() == 0 ? handler.load() : nullptr;
  if (!throws) std::fputs(report.c_str(), stderr);
  if (auto keep = std::exchange(rescue, nullptr)) keep();
  if (throws) {
    throws(report);
    std::fputs(report.c_str(), stderr);
  }
  std::abort();
}

}  // namespace nabla

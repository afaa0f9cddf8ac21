#include "runtime/base/check.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace nabla {
namespace {
thread_local std::string activity;
thread_local std::function<void()> rescue;
}  // namespace

ScopedActivity::ScopedActivity(std::string what) : previous_(std::move(activity)) { activity = std::move(what); }
ScopedActivity::~ScopedActivity() { activity = std::move(previous_); }

ScopedRescue::ScopedRescue(std::function<void()> keep) : previous_(std::exchange(rescue, std::move(keep))) {}
ScopedRescue::~ScopedRescue() { rescue = std::move(previous_); }

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "%s:%d: internal check failed: %s%s%s\n", file, line, condition, message.empty() ? "" : ": ",
               message.c_str());
  if (!activity.empty()) std::fprintf(stderr, "  while: %s\n", activity.c_str());
  std::fprintf(stderr, "  This is a bug in Nabla, not in your program.\n");
  if (auto keep = std::exchange(rescue, nullptr)) keep();
  std::abort();
}

}  // namespace nabla

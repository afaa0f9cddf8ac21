// NABLA_CHECK is for our own mistakes: a broken invariant, never a user's input. It prints and aborts.
#pragma once

#include <fmt/core.h>

#include <functional>
#include <string>

namespace nabla {

/// Prints "file:line: condition: message", what the program was doing (set by ScopedActivity), and aborts.
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);

/// What check_failed calls on this thread before it aborts, to keep what shows the bug: the innermost one, once.
class ScopedRescue {
 public:
  explicit ScopedRescue(std::function<void()> keep);
  ~ScopedRescue();
  ScopedRescue(const ScopedRescue&) = delete;
  ScopedRescue& operator=(const ScopedRescue&) = delete;

 private:
  std::function<void()> previous_;
};

/// Names what runs now on this thread ("pass fuse on function @step"); shown by check_failed.
class ScopedActivity {
 public:
  explicit ScopedActivity(std::string what);
  ~ScopedActivity();
  ScopedActivity(const ScopedActivity&) = delete;
  ScopedActivity& operator=(const ScopedActivity&) = delete;

 private:
  std::string previous_;
};

}  // namespace nabla

#define NABLA_CHECK(condition, ...)                                                         \
  do {                                                                                      \
    if (!(condition)) [[unlikely]]                                                          \
      ::nabla::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__)); \
  } while (false)

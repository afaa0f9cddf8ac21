#include "runtime/checkpoint/meeting.h"

#include <chrono>
#include <cstdlib>

namespace nabla::checkpoint {

Status LocalMeeting::put(const std::string& key, const std::string& value) {
  std::lock_guard lock(mutex_);
  store_[key] = value;
  changed_.notify_all();
  return Ok{};
}

Result<std::string> LocalMeeting::get(const std::string& key, double timeout_s) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, std::chrono::duration<double>(timeout_s), [&] { return store_.count(key) > 0; }))
    return error(Code::kTooLate, "nobody has put `{}` in {} s", key, timeout_s);
  return store_[key];
}

std::string Party::key(const std::string& what) const { return fmt::format("checkpoint/{}/{}", epoch, what); }
Status Party::put(const std::string& what, const std::string& value) const { return meeting->put(key(what), value); }
Result<std::string> Party::get(const std::string& what) const { return meeting->get(key(what), kWaitS); }

// "NUMBER\nHELP\nMESSAGE"
std::string text_of(const Diagnostic& why) {
  return fmt::format("{}\n{}\n{}", static_cast<int>(why.code), why.help, why.message);
}

Diagnostic diagnostic_of(const std::string& text) {
  size_t first = text.find('\n'), second = first == text.npos ? text.npos : text.find('\n', first + 1);
  const CodeInfo* known = find_code(std::atoi(text.c_str()));
  if (second == text.npos || known == nullptr) return error(Code::kCorrupt, "another process has sent `{}`", text);
  Diagnostic out(known->code, text.substr(second + 1));
  out.help = text.substr(first + 1, second - first - 1);
  return out;
}

}  // namespace nabla::checkpoint

// How the processes of a run agree on checkpoints: a store of texts by key, which every one of them can reach. Its calls may
// come from threads that write while the run goes on.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "runtime/base/diagnostic.h"

namespace nabla::checkpoint {

class Meeting {
 public:
  virtual ~Meeting() = default;
  /// A key is put once.
  virtual Status put(const std::string& key, const std::string& value) = 0;
  /// Waits for it. E0611 when nobody puts it in time; why the run is over when it ends meanwhile.
  virtual Result<std::string> get(const std::string& key, double timeout_s) = 0;
};

/// Of one process, or of threads that stand for several.
class LocalMeeting final : public Meeting {
 public:
  Status put(const std::string& key, const std::string& value) override;
  Result<std::string> get(const std::string& key, double timeout_s) override;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> store_;
};

/// A process and those that it meets.
struct Party {
  Meeting* meeting = nullptr;
  uint32_t process = 0, processes = 1;
  uint32_t epoch = 0;  ///< the how-many-eth start of the job

  bool first() const { return process == 0; }
  /// The key of this start for `what`: what an earlier one has put is not found.
  std::string key(const std::string& what) const;
  /// So long processes wait for each other: much longer than writing takes. Who is lost ends the run before.
  static constexpr double kWaitS = 3600;
  Status put(const std::string& what, const std::string& value) const;
  Result<std::string> get(const std::string& what) const;
};

/// An error as a value of the store, and back.
std::string text_of(const Diagnostic& why);
Diagnostic diagnostic_of(const std::string& text);

}  // namespace nabla::checkpoint

// What fakes of NVIDIA's libraries have in common: the fake driver whose memory and streams they use, counts of calls,
// failures that are wished for, and handles that are alive.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <utility>

namespace nabla::fake_library {

/// The fake driver's functions for fakes of libraries.
struct Driver {
  int (*put)(void* stream, int (*work)(void*), void* context, void (*release)(void*)) = nullptr;
  int (*put_when)(void* stream, int (*ready)(void*), int (*work)(void*), void* context, void (*release)(void*)) = nullptr;
  int (*holds)(uint64_t address, uint64_t bytes) = nullptr;
  int (*ready)() = nullptr;
  int (*ordinal)() = nullptr;
  int (*capturing)(void* stream) = nullptr;
  int (*go_on)() = nullptr;
};
/// Of $NABLA_CUDA_DRIVER, which the process has opened; null before.
const Driver* driver();

/// The value of $NABLA_FAKE_LIBRARY_NAME, or an empty text.
const char* environment(const char* name);

inline uint64_t address(const void* at) { return reinterpret_cast<uint64_t>(at); }

struct State {
  const char* name;     ///< for messages: "fake cublasLt"
  const char* fail;     ///< the variable with the wish "NAME:COUNT[:STATUS]"; with COUNT 0 every call fails
  int invalid, failed;  ///< the statuses of what is forbidden, and of a wish without one
  std::map<std::string, int> calls = {};
  std::set<const void*> live = {};  ///< handles and descriptors
  std::string last = {};            ///< what ran last

  /// Counts a call and gives the status that is wanted of this one; 0: none.
  int begin(const std::string& call);
  /// Says why on stderr.
  int refuse(const std::string& why) const;
  bool alive(std::initializer_list<const void*> all) const {
    for (const void* one : all)
      if (live.count(one) == 0) return false;
    return true;
  }
  template <class T>
  int make(void** out, T value) {
    *out = new T(std::move(value));
    live.insert(*out);
    return 0;
  }
  template <class T>
  int drop(void* what) {
    if (live.erase(what) == 0) return refuse("something is destroyed twice");
    delete static_cast<T*>(what);
    return 0;
  }
};

}  // namespace nabla::fake_library

// libFuzzer on the frames of the ranks' control connection, as a stranger sends them: in pieces, from the first byte on.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "runtime/control/wire.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nabla::control;
  if (size == 0) return 0;
  size_t piece = data[0] + 1;  // how the network cuts it
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  Frames frames;
  frames.allow(kMostHello);
  while (!rest.empty()) {
    frames.add(rest.substr(0, piece));
    rest.remove_prefix(std::min(piece, rest.size()));
    for (;;) {
      auto next = frames.next();
      if (!next.ok()) return 0;  // the connection is closed
      if (!*next) break;
      // What was understood can be said again, and means the same.
      Frames again;
      again.add(frame(**next));
      auto same = again.next();
      if (!same.ok() || !*same || (*same)->kind != (*next)->kind || (*same)->text != (*next)->text || (*same)->token != (*next)->token ||
          (*same)->rank != (*next)->rank)
        std::abort();
      (void)diagnostic_of(**next).str();
    }
  }
  return 0;
}

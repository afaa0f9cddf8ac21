// What a rank exchanges, written down as it goes: how far it is, and its last exchanges, for whoever watches the ranks.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "runtime/comm/stream.h"

namespace nabla::comm {

/// One exchange. Times are microseconds of the machine's steady clock; 0: not yet.
struct Event {
  uint64_t sequence = 0;  ///< from 1: the how-many-eth exchange of the rank
  uint64_t run = 0;       ///< from 1: of the session
  uint64_t bytes = 0;
  int64_t started = 0, waited = 0, done = 0;
  uint32_t text = 0;  ///< into Board::texts
};

/// Plain memory, which another process may share: it outlives the rank, and says what a rank that died was at.
struct Board {
  static constexpr uint32_t kEvents = 4096, kTexts = 512, kTextBytes = 192;

  std::atomic<uint64_t> run{0}, sequence{0};
  std::atomic<int64_t> waiting_since{0};      ///< of the exchange `waiting_for`; 0: the rank computes
  std::atomic<uint64_t> waiting_for{0};       ///< its sequence
  std::atomic<bool> on_gpu{false};            ///< exchanges begin before the GPU comes to them,
  std::atomic<uint64_t> over{0};              ///< and this one is the last that is over there
  std::atomic<int64_t> waited_us{0};          ///< of all exchanges that are over
  std::atomic<uint64_t> exchanged_bytes{0};   ///< payload of all exchanges that have begun, as in their events
  std::atomic<uint32_t> texts_used{0};
  char says[kTextBytes] = {};                 ///< what the rank tells of its metrics; may be torn: for people
  Event events[kEvents];                      ///< a ring, by sequence
  char texts[kTexts][kTextBytes];             ///< "all_reduce `grads` over dp, train.py:12"
};

/// Now, on the clock of events.
int64_t steady_us();
/// Since a time of that clock.
inline double seconds_since(int64_t us) { return static_cast<double>(steady_us() - us) / 1e6; }
/// The sequence of the exchange that a rank which does not wait has come to; 0: none yet.
inline uint64_t reached(const Board& board) { return board.on_gpu.load() ? board.over.load() : board.sequence.load(); }
/// What stands in an event, or an empty text.
std::string text_of(const Board& board, uint64_t sequence);
/// The ring in its order, the oldest first. Events that are being written may be torn: this is for people.
std::vector<Event> events_of(const Board& board);

/// A rank's end that writes to a board.
class RecordingCommunicator final : public Communicator, private StreamCommunicator::Watcher {
 public:
  /// All outlive it. `groups` are the names of those of the rank's class.
  RecordingCommunicator(Communicator& to, Board& board, const format::Program& program, std::vector<std::string> groups)
      : to_(to), board_(board), program_(program), groups_(std::move(groups)) {
    if (StreamCommunicator* stream = to.on_stream()) stream->watch(this), board.on_gpu = true;
  }

  Status start(uint32_t ticket, const CollectiveCall& call) override;
  Status send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes, const format::Instruction* at) override;
  Status recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction* at) override;
  Status wait(uint32_t ticket) override;
  uint32_t members(uint32_t group) const override { return to_.members(group); }
  StreamCommunicator* on_stream() override { return to_.on_stream(); }

 private:
  // The board's sequence is that of the watched end: both count what goes through here.
  void under_way(uint64_t exchange) override;
  void over(uint64_t exchange) override;
  void begin(uint32_t ticket, uint64_t bytes, const format::Instruction* at, const char* what, const std::string& with);
  uint32_t text_of(const format::Instruction* at, const char* what, const std::string& with);

  Communicator& to_;
  Board& board_;
  const format::Program& program_;
  std::vector<std::string> groups_;
  std::map<const format::Instruction*, uint32_t> texts_;
  std::map<uint32_t, uint64_t> open_;  ///< sequence by ticket
};

}  // namespace nabla::comm

#include "runtime/comm/recorder.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "runtime/comm/traffic.h"
#include "runtime/format/collective.h"
#include "runtime/format/program_check.h"

namespace nabla::comm {

int64_t steady_us() {
  auto since = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::microseconds>(since).count();
}

std::string text_of(const Board& board, uint64_t sequence) {
  const Event& e = board.events[sequence % Board::kEvents];
  if (sequence == 0 || e.sequence != sequence || e.text >= board.texts_used.load()) return "";
  return std::string(board.texts[e.text], strnlen(board.texts[e.text], Board::kTextBytes));
}

std::vector<Event> events_of(const Board& board) {
  std::vector<Event> out;
  uint64_t last = board.sequence.load();
  for (uint64_t s = last > Board::kEvents ? last - Board::kEvents + 1 : 1; s <= last; ++s)
    if (const Event& e = board.events[s % Board::kEvents]; e.sequence == s) out.push_back(e);
  return out;
}

uint32_t RecordingCommunicator::text_of(const format::Instruction* at, const char* what, const std::string& with) {
  auto known = texts_.find(at);
  if (known != texts_.end()) return known->second;
  uint32_t index = std::min(board_.texts_used.load(), Board::kTexts - 1);
  std::string text = fmt::format("{} {}", what, with);
  if (at != nullptr && at->label() != nullptr) text += fmt::format(" of `{}`", format::view(at->label()));
  if (at != nullptr && at->location() < format::size_of(program_.locations())) {
    const format::Location& place = *program_.locations()->Get(at->location());
    if (place.line() > 0) text += fmt::format(", {}:{}", format::view(place.file()), place.line());
  }
  std::strncpy(board_.texts[index], text.c_str(), Board::kTextBytes - 1);
  board_.texts_used.store(index + 1);
  texts_[at] = index;
  return index;
}

void RecordingCommunicator::begin(uint32_t ticket, uint64_t bytes, const format::Instruction* at, const char* what,
                                  const std::string& with) {
  uint64_t sequence = board_.sequence.load(std::memory_order_relaxed) + 1;
  board_.events[sequence % Board::kEvents] = {sequence, board_.run.load(std::memory_order_relaxed), bytes, steady_us(), 0, 0,
                                              text_of(at, what, with)};
  board_.sequence.store(sequence, std::memory_order_release);
  board_.exchanged_bytes.fetch_add(bytes, std::memory_order_relaxed);
  open_[ticket] = sequence;
}

Status RecordingCommunicator::start(uint32_t ticket, const CollectiveCall& call) {
  begin(ticket, call.bytes, call.at, format::def_of(call.kind).name, "over " + groups_[call.group]);
  return to_.start(ticket, call);
}
Status RecordingCommunicator::send(uint32_t ticket, uint32_t channel, const void* from, uint64_t bytes,
                                   const format::Instruction* at) {
  begin(ticket, bytes, at, "send", fmt::format("on channel {}", channel));
  return to_.send(ticket, channel, from, bytes, at);
}
Status RecordingCommunicator::recv(uint32_t ticket, uint32_t channel, void* to, uint64_t bytes, const format::Instruction* at) {
  begin(ticket, bytes, at, "recv", fmt::format("on channel {}", channel));
  return to_.recv(ticket, channel, to, bytes, at);
}

void RecordingCommunicator::under_way(uint64_t sequence) {
  Event& e = board_.events[sequence % Board::kEvents];
  int64_t now = steady_us();
  if (e.sequence == sequence) e.waited = now;  // after 4,096 others it is another
  board_.waiting_for.store(sequence, std::memory_order_relaxed);
  board_.waiting_since.store(now, std::memory_order_release);
}
void RecordingCommunicator::over(uint64_t sequence) {
  Event& e = board_.events[sequence % Board::kEvents];
  int64_t now = steady_us();
  bool waited = board_.waiting_for.load(std::memory_order_relaxed) == sequence;  // others end meanwhile
  int64_t since = waited ? board_.waiting_since.exchange(0, std::memory_order_acq_rel) : 0;
  if (since > 0) board_.waited_us.fetch_add(now - since, std::memory_order_relaxed);
  board_.over.store(std::max(board_.over.load(), sequence));
  if (e.sequence == sequence) e.done = now;
}

Status RecordingCommunicator::wait(uint32_t ticket) {
  if (on_stream() != nullptr) return to_.wait(ticket);  // which says itself when it waits
  uint64_t sequence = open_[ticket];
  under_way(sequence);
  Status status = to_.wait(ticket);
  if (status.ok()) over(sequence);  // else the board keeps what it waited for
  return status;
}

}  // namespace nabla::comm

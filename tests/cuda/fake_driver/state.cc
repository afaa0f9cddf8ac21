#include "tests/cuda/fake_driver/state.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace nabla::fake_cuda {
namespace {

constexpr uint64_t kPage = 4096;

uint64_t pages(uint64_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

}  // namespace

Memory::Memory() {
  void* reserved = ::mmap(nullptr, kReserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) std::abort();
  base_ = next_ = reinterpret_cast<uint64_t>(reserved);
}

int Memory::allocate(uint64_t bytes, uint64_t& address) {
  if (bytes == 0) return kInvalidValue;
  // A page between two allocations stays out of reach.
  if (bytes > kReserved || next_ + pages(bytes) + kPage > base_ + kReserved) return kOutOfMemory;
  address = next_;
  next_ += pages(bytes) + kPage;
  live_[address] = bytes;
  live_bytes_ += bytes;
  // What a kernel reads before it writes shows as NaN.
  Open open(*this);
  std::memset(reinterpret_cast<void*>(address), 0xff, bytes);
  return kOk;
}

int Memory::release(uint64_t address) {
  auto found = live_.find(address);
  if (found == live_.end()) return kInvalidValue;
  void* at = reinterpret_cast<void*>(address);
  ::madvise(at, pages(found->second), MADV_DONTNEED);
  live_bytes_ -= found->second;
  live_.erase(found);
  return kOk;
}

bool Memory::holds(uint64_t address, uint64_t bytes) const {
  auto next = live_.upper_bound(address);
  if (next == live_.begin()) return false;
  auto [start, size] = *std::prev(next);
  return address - start <= size && bytes <= size - (address - start);
}

void Memory::protect(bool open) {
  for (auto [address, bytes] : live_)
    ::mprotect(reinterpret_cast<void*>(address), pages(bytes), open ? PROT_READ | PROT_WRITE : PROT_NONE);
}

State& state() {
  static State* all = new State;  // outlives everything that may still call at exit
  return *all;
}

std::recursive_mutex& Lock::mutex() {
  static auto* all = new std::recursive_mutex;
  return *all;
}

bool& current() {
  thread_local bool set = false;
  return set;
}
int& ordinal() {
  thread_local int number = 0;
  return number;
}

int injected(const std::string& name, int status) {
  int count = ++state().calls[name];
  const char* text = std::getenv("NABLA_FAKE_CUDA_FAIL");
  if (text == nullptr) return kOk;
  std::string wish = text;
  size_t colon = wish.find(':');
  if (colon == wish.npos || wish.substr(0, colon) != name) return kOk;
  char* end = nullptr;
  long wanted = std::strtol(wish.c_str() + colon + 1, &end, 10);
  if (count != wanted) return kOk;
  return *end == ':' ? std::atoi(end + 1) : status;
}

int begin(const char* name, int status, bool context) {
  if (int wish = injected(name, status); wish != kOk) return wish;
  if (!state().initialized) return kNotInitialized;
  if (context && (state().contexts == 0 || !current())) return kInvalidContext;
  return context ? state().sticky : kOk;
}

int forbid_in_capture() {
  int status = kOk;
  for (Stream* stream : state().streams)
    if (stream->capture && stream->capture->owner == std::this_thread::get_id())
      stream->capture->broken = true, status = kCaptureUnsupported;
  return status;
}

int put(Stream* stream, Item item) {
  if (!known(state().streams, stream)) return kInvalidHandle;
  if (Capture* capture = stream->capture.get()) {
    if (capture->broken) return kCaptureInvalidated;
    capture->nodes.push_back({stream->branch, std::move(item)});
    ++capture->length[stream->branch];
    return kOk;
  }
  stream->queue.push_back(std::move(item));
  hurry();
  return kOk;
}

bool advance(Stream& stream) {
  std::shared_ptr<Mark> after = stream.queue.front().after;
  while (after && !after->done)
    if (!advance(*after->stream)) return false;
  if (Work& ready = stream.queue.front().ready; ready && state().sticky == kOk) {
    int status = ready();
    if (status == kNotReady) return false;
    state().sticky = status;
  }
  Item item = std::move(stream.queue.front());
  stream.queue.pop_front();
  if (item.work && state().sticky == kOk) state().sticky = item.work();
  if (item.mark) item.mark->done = true;
  return true;
}

// Functions of the driver hold the lock once.
void let_others() {
  Lock::mutex().unlock();
  ::usleep(50);
  Lock::mutex().lock();
}

int drain(Stream& stream) {
  while (!stream.queue.empty())
    if (!advance(stream)) let_others();
  return state().sticky;
}

void hurry() {
  static const bool eager = std::getenv("NABLA_FAKE_CUDA_EAGER") != nullptr;
  const bool at_once = std::getenv("NABLA_FAKE_CUDA_AT_ONCE") != nullptr;
  if (!eager && !at_once) return;
  auto ready = [](const Stream& s) { return !s.queue.empty() && (!s.queue.front().after || s.queue.front().after->done); };
  std::vector<Stream*> others;
  for (Stream* s : state().streams)
    if (at_once || s != state().first) others.push_back(s);
  for (Graph* exec : state().execs)
    for (auto& s : exec->streams) others.push_back(s.get());
  for (bool moved = true; std::exchange(moved, false);)
    for (Stream* s : others)
      while (ready(*s) && advance(*s)) moved = true;
}

}  // namespace nabla::fake_cuda

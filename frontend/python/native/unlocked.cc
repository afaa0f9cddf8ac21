#include "frontend/python/native/unlocked.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "frontend/cpp/tensor.h"
#include "frontend/python/native/bundle.h"

namespace nabla::python {
namespace {

std::atomic<int> working{0};
std::atomic<std::thread::id> ended_by{};

}  // namespace

Counted::Counted() {
  if (work_has_ended()) throw Error(error(Code::kInterrupted, "the interpreter ends: nothing can run any more"));
  ++working;
}
Counted::~Counted() { --working; }

bool work_has_ended() {
  std::thread::id by = ended_by;
  return by != std::thread::id() && by != std::this_thread::get_id();
}

void end_work() {
  using Clock = std::chrono::steady_clock;
  ended_by = std::this_thread::get_id();
  pybind11::gil_scoped_release unlocked;
  for (Clock::time_point end = Clock::now() + std::chrono::seconds(10); working > 0 && Clock::now() < end;) {
    stop_loops();
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void forget_work() { working = 0; }

}  // namespace nabla::python

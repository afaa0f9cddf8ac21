// Work without Python's lock, and what becomes of it when the interpreter ends.
#pragma once

#include <pybind11/pybind11.h>

#include <exception>
#include <type_traits>

namespace nabla::python {

/// Counts what runs without Python's lock: from before it is given away until after it is taken back. Throws Error
/// (E0805) where work_has_ended().
class Counted {
 public:
  Counted();
  ~Counted();
  Counted(const Counted&) = delete;
};

/// Calls f without Python's lock. Throws what f throws, and Error (E0805) where work_has_ended(). No destructor takes
/// the lock back: in a process that ends, that ends the thread, by way of an exception that no destructor may let out.
template <class F>
auto without_lock(F f) {
  Counted counted;
  PyThreadState* thread = PyEval_SaveThread();
  try {
    if constexpr (std::is_void_v<decltype(f())>) {
      f();
      PyEval_RestoreThread(thread);
    } else {
      auto out = f();
      PyEval_RestoreThread(thread);
      return out;
    }
  } catch (const std::exception&) {
    PyEval_RestoreThread(thread);
    throw;
  }
}

/// Whether end_work() has been called, by another thread than this one.
bool work_has_ended();
/// At the interpreter's end: stops the loops of what runs in threads that Python does not wait for, waits until it has
/// ended (at most ten seconds) and lets nothing begin there. What the threads use goes away after that.
void end_work();
/// In a new process: what other threads of the old one ran does not run here.
void forget_work();

}  // namespace nabla::python

// Runs the steps of a plan on a machine: order, loops, branches and calls, which are the same everywhere. A Machine has
//   bool watched()                                          look at every step before and after it runs?
//   bool debug(const Control&, slots)                       hand operands to the process
//   int64_t begin(uint32_t step, slots)                     before a watched step; gives a mark
//   bool end(uint32_t step, slots, int64_t mark)            after it; false: stop here
//   bool stopped(), stops_all_loops()                       end while loops now? and everything else?
//   bool kernel(const Step&, slots), library(...), copy(...) false: it failed
//   bool communicate(const Control&, slots)                 start or await an exchange with other ranks, or a transfer
//   bool read(const void* at, int bytes, int64_t& value)    a predicate (1 byte) or an index (4) that steps have
//   written
#pragma once

#include <algorithm>
#include <cstdint>

#include "runtime/exec/plan.h"

namespace nabla::exec {

template <class Machine>
class Walker {
 public:
  Walker(Plan& plan, const Bound& bound, Machine& machine)
      : plan_(plan),
        bound_(bound),
        machine_(machine),
        watched_(machine.watched()),
        stops_(machine.stops_all_loops()) {}

  /// Index of the step that failed or was not begun, or -1.
  int64_t run() { return range({0, plan_.top_steps}); }

 private:
  int64_t range(StepRange r) {
    if (watched_) return watched(r);
    for (uint32_t i = r.first; i < r.last; ++i) {
      if (stops()) return i;
      if (int64_t failed = step(i); failed >= 0) return failed;
    }
    return -1;
  }

  bool stops() { return stops_ && machine_.stopped(); }
  // A loop is what is named where one of its steps was not begun.
  int64_t named(int64_t failed, int64_t loop) { return failed >= 0 && stops() ? loop : failed; }

  // What watching costs is not part of a step's span, but of those of the loops around it.
  int64_t watched(StepRange r) {
    for (uint32_t i = r.first; i < r.last; ++i) {
      if (stops()) return i;
      void* const* slots = plan_.slots.data() + bound_.steps[i].first_slot;
      int64_t mark = machine_.begin(i, slots);
      if (int64_t failed = step(i); failed >= 0) return failed;
      if (!machine_.end(i, slots, mark)) return i;
    }
    return -1;
  }

  int64_t step(uint32_t index) {
    const Step& s = bound_.steps[index];
    void* const* slots = plan_.slots.data() + s.first_slot;
    auto done = [index](bool ok) { return ok ? -1 : static_cast<int64_t>(index); };
    if (s.kernel != nullptr) return done(machine_.kernel(s, slots));
    if (s.library != nullptr) return done(machine_.library(s, slots));
    if (s.control >= 0) return control(bound_.controls[s.control], slots, index);
    return done(s.units <= 0 || slots[0] == slots[1] || machine_.copy(s, slots));
  }

  int64_t control(const Control& c, void* const* slots, int64_t index) {
    int64_t value = 0;
    switch (c.kind) {
      case Control::Kind::kLoop:
        return loop(c, index);
      case Control::Kind::kWhile:
        while (true) {
          if (int64_t failed = range(c.ranges[0]); failed >= 0) return named(failed, index);
          if (!machine_.read(slots[0], 1, value)) return index;
          if (value == 0) return -1;
          if (machine_.stopped()) return index;  // such a loop need not end by itself
          if (int64_t failed = range(c.ranges[1]); failed >= 0) return named(failed, index);
        }
      case Control::Kind::kBranch: {
        int64_t last = static_cast<int64_t>(c.ranges.size()) - 1;
        if (!machine_.read(slots[0], c.index_is_bool ? 1 : 4, value)) return index;
        return range(c.ranges[std::clamp<int64_t>(value, 0, last)]);
      }
      case Control::Kind::kDebug:
        return machine_.debug(c, slots) ? -1 : index;
      case Control::Kind::kCall:
        return call(c);
      case Control::Kind::kStart:
      case Control::Kind::kWait:
        return machine_.communicate(c, slots) ? -1 : index;
    }
    return -1;
  }

  int64_t loop(const Control& c, int64_t index) {
    int64_t failed = -1, count = c.reverse ? c.trips - 1 : 0;
    if (c.trips > 0) move(c, 0, count);
    for (int64_t t = 0; t < c.trips; ++t) {
      failed = named(range(c.ranges[0]), index);
      if (failed >= 0 || t + 1 == c.trips) break;
      if (stops()) {
        failed = index;
        break;
      }
      int64_t next = count + (c.reverse ? -1 : 1);
      move(c, count, next);
      count = next;
    }
    if (c.trips > 0) move(c, count, 0);
    return failed;
  }
  int64_t call(const Control& c) {
    for (const Control::Moving& m : c.moving) move(m.slot, m.way(0, m.value));
    int64_t failed = range(c.ranges[0]);
    for (const Control::Moving& m : c.moving) move(m.slot, m.way(m.value, 0));
    return failed;
  }
  void move(const Control& c, int64_t from, int64_t to) {
    for (const Control::Moving& m : c.moving) move(m.slot, m.way(from, to));
  }
  void move(uint32_t slot, int64_t bytes) { plan_.slots[slot] = static_cast<char*>(plan_.slots[slot]) + bytes; }

  Plan& plan_;
  const Bound& bound_;
  Machine& machine_;
  bool watched_, stops_;
};

}  // namespace nabla::exec

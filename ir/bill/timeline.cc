#include "ir/bill/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "ir/bill/names.h"
#include "ir/cost/exchange.h"
#include "ir/cost/node_time.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "ir/typed.h"

namespace nabla::ir {
namespace {

// Nanoseconds are enough for a picture.
double rounded(double us) { return std::round(us * 1e3) / 1e3; }

// A loop draws as many of its first iterations as have at most so many pieces, and the others as one piece on each line. Loops inside
// loops would multiply the pieces otherwise.
constexpr size_t kMostPieces = 512;

struct Piece {
  bool exchanges = false;
  double begin = 0, us = 0;
  std::string what;
  const Node* node = nullptr;
};

/// A run of a function, or a part of one.
struct Span {
  double us = 0, compute_us = 0, exchange_us = 0;
  int64_t collectives = 0;
  std::vector<Piece> pieces;  ///< from its begin on
};

class Clock {
 public:
  Clock(const Module& m, const Target& target, const NodeTime& time, bool overlap)
      : m_(m), target_(target), time_(time), overlap_(overlap) {}

  Timeline run(const Function& f) {
    const Span all = walk(f);
    Timeline out{rounded(all.us), rounded(all.compute_us), rounded(all.exchange_us)};
    for (const Piece& p : all.pieces)
      (p.exchanges ? out.exchange : out.compute).push_back({rounded(p.begin), rounded(p.us), p.what, p.node->location});
    return out;
  }

 private:
  Span walk(const Function& f) {
    Span out;
    double now = 0, links = 0;  // when the rank, and the links, are free
    std::vector<double> ready(f.values.size(), 0);
    for (const Node& n : f.nodes) {
      double inputs = 0;
      for (ValueId id : n.operands) inputs = std::max(inputs, ready[id]);
      double done = inputs;
      if (n.op->lower == Lowering::kCollective) {
        now = std::max(now, inputs);
        if (!n.operands.empty()) done = links = exchange(f, n, std::max(now, links), out);
        if (!overlap_) now = std::max(now, done);
      } else if (is_instruction(n)) {
        now = std::max(now, inputs);
        const bool control = n.op->lower == Lowering::kControl;
        if (control) now = std::max(now, links);  // the runtime awaits all before it runs blocks
        done = now = control ? inside(f, n, now, out) : compute(f, n, now, out);
      }
      for (ValueId id : n.results) ready[id] = done;
    }
    out.us = std::max(now, links);
    return out;
  }

  double exchange(const Function& f, const Node& n, double begin, Span& out) const {
    const Attr* axes = n.attrs.find("axes");
    double us = 0;
    if (n.op->collective && m_.mesh())
      us = exchange_us(n.op->collective->kind, *m_.mesh(), std::get<Axes>(*axes),
                           static_cast<double>(f.type(n.operands[0]).bytes().bounds().max), target_);
    out.exchange_us += us, ++out.collectives;
    out.pieces.push_back({true, begin, us, axes ? n.op->name + " along " + str(std::get<Axes>(*axes)) : n.op->name, &n});
    return begin + us;
  }

  double compute(const Function& f, const Node& n, double begin, Span& out) const {
    double us = time_(f, n);
    out.compute_us += us;
    out.pieces.push_back({false, begin, us, made_by(n), &n});
    return begin + us;
  }

  // A branch is its longer side, a while one round.
  double inside(const Function& f, const Node& n, double begin, Span& out) {
    const ControlFlow c = control_of(f, n);
    std::vector<const Span*> run;
    for (const std::string& name : c.functions) run.push_back(&function(name));
    if (c.kind == ControlFlow::Kind::kBranch)
      run = {*std::max_element(run.begin(), run.end(), [](const Span* a, const Span* b) { return a->us < b->us; })};
    const bool loop = c.kind == ControlFlow::Kind::kLoop;
    for (const Span* body : run) begin = rounds(n, *body, loop ? std::optional(c.trips.bounds().max) : std::nullopt, begin, out);
    return begin;
  }

  // Draws `trips` iterations of a body. Without `trips` the body runs once and is no iteration of a loop.
  double rounds(const Node& n, const Span& body, std::optional<int64_t> trips, double begin, Span& out) {
    const int64_t all = trips.value_or(1);
    const auto times = static_cast<double>(all);
    out.compute_us += body.compute_us * times, out.exchange_us += body.exchange_us * times;
    out.collectives += body.collectives * all;
    const auto drawn = std::min(all, static_cast<int64_t>(kMostPieces / std::max<size_t>(1, body.pieces.size())));
    for (int64_t i = 0; i < drawn; ++i) {
      const std::string where = trips ? fmt::format(", trip {} of {} of {}", i + 1, all, n.op->name) : " of " + n.op->name;
      const double at = begin + body.us * static_cast<double>(i);
      for (const Piece& p : body.pieces) out.pieces.push_back({p.exchanges, at + p.begin, p.us, p.what + where, p.node});
    }
    if (drawn < all) closed(n, body, all - drawn, drawn > 0, begin + body.us * static_cast<double>(drawn), out);
    return begin + body.us * times;
  }

  // As one piece on each line.
  static void closed(const Node& n, const Span& body, int64_t trips, bool follow, double begin, Span& out) {
    const auto times = static_cast<double>(trips);
    std::string often = trips == 1 ? "" : fmt::format(" x{}", trips);
    if (follow) often = fmt::format(", {}", counted(trips, "more trip"));
    out.pieces.push_back({false, begin, body.compute_us * times, n.op->name + often, &n});
    if (body.collectives == 0) return;
    out.pieces.push_back({true, begin, std::min(body.exchange_us, body.us) * times,
                          fmt::format("{} of {}{}", counted(body.collectives, "collective"), n.op->name, often), &n});
  }

  const Span& function(const std::string& name) {
    auto known = functions_.find(name);
    return known != functions_.end() ? known->second : functions_.emplace(name, walk(*m_.find(name))).first->second;
  }

  const Module& m_;
  const Target& target_;
  const NodeTime& time_;
  bool overlap_;
  std::map<std::string, Span> functions_;
};

}  // namespace

NodeTime cpu_times(const Module& planned, const Target& target) {
  auto times = std::make_shared<const NodeTimes>(planned, target);
  auto reach = static_cast<double>(planned.plan->arena_bytes);
  return [times, reach](const Function& f, const Node& n) { return times->us(f, n, reach); };
}

Timeline timeline_of(const Function& f, const Module& planned, const Target& target, const NodeTime& time, bool overlap) {
  return Clock(planned, target, time, overlap && !exchange_computes(target)).run(f);
}

}  // namespace nabla::ir

#include "cli/driver/report_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>

#include "cli/driver/report_graph.h"
#include "cli/driver/report_text.h"
#include "ir/cost/exchange.h"
#include "ir/cost/node_time.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "passes/rewrite.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

// Nanoseconds are enough for a picture.
double rounded(double us) { return std::round(us * 1e3) / 1e3; }

// Of what a loop or branch runs. Its first rounds are drawn as far as they have no more pieces than this, so that bodies within bodies
// do not multiply; the others are one piece on each line.
constexpr size_t kMostPieces = 512;

struct Piece {
  bool exchanges = false;
  double begin = 0, us = 0;
  std::string what;
  const ir::Node* node = nullptr;
};

/// A run of a function, or a part of one.
struct Span {
  double us = 0, compute_us = 0, exchange_us = 0;
  int64_t collectives = 0;
  std::vector<Piece> pieces;  ///< from its begin on
};

class Clock {
 public:
  Clock(const ir::Module& m, const ir::Target& target, const NodeTime& time, bool overlap)
      : m_(m), target_(target), time_(time), overlap_(overlap) {}

  Json run(const ir::Function& f) {
    Json compute = Json::array(), exchange = Json::array();
    const Span all = walk(f);
    for (const Piece& p : all.pieces)
      (p.exchanges ? exchange : compute).push_back({rounded(p.begin), rounded(p.us), p.what, place_of(p.node->location)});
    return {{"us", rounded(all.us)},
            {"compute_us", rounded(all.compute_us)},
            {"exchange_us", rounded(all.exchange_us)},
            {"compute", std::move(compute)},
            {"exchange", std::move(exchange)}};
  }

 private:
  Span walk(const ir::Function& f) {
    Span out;
    double now = 0, links = 0;  // when the rank, and the links, are free
    std::vector<double> ready(f.values.size(), 0);
    for (const ir::Node& n : f.nodes) {
      double inputs = 0;
      for (ir::ValueId id : n.operands) inputs = std::max(inputs, ready[id]);
      double done = inputs;
      if (n.op->lower == ir::Lowering::kCollective) {
        now = std::max(now, inputs);
        if (!n.operands.empty()) done = links = exchange(f, n, std::max(now, links), out);
        if (!overlap_) now = std::max(now, done);
      } else if (is_instruction(n)) {
        now = std::max(now, inputs);
        const bool control = n.op->lower == ir::Lowering::kControl;
        if (control) now = std::max(now, links);  // the runtime awaits all before it runs blocks
        done = now = control ? inside(f, n, now, out) : compute(f, n, now, out);
      }
      for (ir::ValueId id : n.results) ready[id] = done;
    }
    out.us = std::max(now, links);
    return out;
  }

  double exchange(const ir::Function& f, const ir::Node& n, double begin, Span& out) const {
    const ir::Attr* axes = n.attrs.find("axes");
    double us = 0;
    if (axes && m_.mesh())
      us = ir::exchange_us(n.op->name, *m_.mesh(), std::get<ir::Axes>(*axes),
                           static_cast<double>(f.type(n.operands[0]).bytes().bounds().max), target_);
    out.exchange_us += us, ++out.collectives;
    out.pieces.push_back({true, begin, us, axes ? n.op->name + " along " + ir::str(std::get<ir::Axes>(*axes)) : n.op->name, &n});
    return begin + us;
  }

  double compute(const ir::Function& f, const ir::Node& n, double begin, Span& out) const {
    double us = time_(f, n);
    out.compute_us += us;
    out.pieces.push_back({false, begin, us, made_by(n), &n});
    return begin + us;
  }

  // A branch is its longer side, a while one round.
  double inside(const ir::Function& f, const ir::Node& n, double begin, Span& out) {
    const ir::ControlFlow c = passes::control_of(f, n);
    std::vector<const Span*> run;
    for (const std::string& name : c.functions) run.push_back(&function(name));
    if (c.kind == ir::ControlFlow::Kind::kBranch)
      run = {*std::max_element(run.begin(), run.end(), [](const Span* a, const Span* b) { return a->us < b->us; })};
    const bool loop = c.kind == ir::ControlFlow::Kind::kLoop;
    for (const Span* body : run) begin = rounds(n, *body, loop ? std::optional(c.trips.bounds().max) : std::nullopt, begin, out);
    return begin;
  }

  // So many of a body; nothing: one, that is no trip of a loop.
  double rounds(const ir::Node& n, const Span& body, std::optional<int64_t> trips, double begin, Span& out) {
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
  static void closed(const ir::Node& n, const Span& body, int64_t trips, bool follow, double begin, Span& out) {
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

  const ir::Module& m_;
  const ir::Target& target_;
  const NodeTime& time_;
  bool overlap_;
  std::map<std::string, Span> functions_;
};

}  // namespace

NodeTime cpu_times(const ir::Module& planned, const ir::Target& target) {
  auto times = std::make_shared<const ir::NodeTimes>(planned, target);
  auto reach = static_cast<double>(planned.plan->arena_bytes);
  return [times, reach](const ir::Function& f, const ir::Node& n) { return times->us(f, n, reach); };
}

Json timeline_of(const ir::Function& f, const ir::Module& planned, const ir::Target& target, const NodeTime& time, bool overlap) {
  return Clock(planned, target, time, overlap && !ir::exchange_computes(target)).run(f);
}

std::map<std::string, double> predicted_us(const std::string& report) {
  std::map<std::string, double> out;
  const auto parsed = nlohmann::json::parse(report);
  for (const auto& e : parsed.at("entries"))
    if (e.contains("timeline")) out[e.at("name").get<std::string>()] = e["timeline"].at("us").get<double>();
  return out;
}

}  // namespace nabla::driver

#include "cli/driver/report_timeline.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "cli/driver/report_graph.h"
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

struct Span {
  double us = 0, compute_us = 0, exchange_us = 0;
  int64_t collectives = 0;
};

class Clock {
 public:
  Clock(const ir::Module& m, const ir::Target& target, const NodeTime& time, bool overlap)
      : m_(m), target_(target), time_(time), overlap_(overlap) {}

  Json run(const ir::Function& f) {
    Json compute = Json::array(), exchange = Json::array();
    Span all = walk(f, [&](const char* line, double begin, double us, const std::string& what, const ir::Node& n) {
      (line[0] == 'c' ? compute : exchange).push_back({rounded(begin), rounded(us), what, place_of(n.location)});
    });
    return {{"us", rounded(all.us)},
            {"compute_us", rounded(all.compute_us)},
            {"exchange_us", rounded(all.exchange_us)},
            {"compute", std::move(compute)},
            {"exchange", std::move(exchange)}};
  }

 private:
  using Draw = std::function<void(const char* line, double begin, double us, const std::string& what, const ir::Node& n)>;

  Span walk(const ir::Function& f, const Draw& draw) {
    Span out;
    double now = 0, links = 0;  // when the rank, and the links, are free
    std::vector<double> ready(f.values.size(), 0);
    for (const ir::Node& n : f.nodes) {
      double inputs = 0;
      for (ir::ValueId id : n.operands) inputs = std::max(inputs, ready[id]);
      double done = inputs;
      if (n.op->lower == ir::Lowering::kCollective) {
        now = std::max(now, inputs);
        if (!n.operands.empty()) done = links = exchange(f, n, std::max(now, links), out, draw);
        if (!overlap_) now = std::max(now, done);
      } else if (is_instruction(n)) {
        now = std::max(now, inputs);
        const bool control = n.op->lower == ir::Lowering::kControl;
        if (control) now = std::max(now, links);  // the runtime awaits all before it runs blocks
        done = now = control ? inside(f, n, now, out, draw) : compute(f, n, now, out, draw);
      }
      for (ir::ValueId id : n.results) ready[id] = done;
    }
    out.us = std::max(now, links);
    return out;
  }

  double exchange(const ir::Function& f, const ir::Node& n, double begin, Span& out, const Draw& draw) const {
    const ir::Attr* axes = n.attrs.find("axes");
    double us = 0;
    if (axes && m_.mesh())
      us = ir::exchange_us(n.op->name, *m_.mesh(), std::get<ir::Axes>(*axes),
                           static_cast<double>(f.type(n.operands[0]).bytes().bounds().max), target_);
    out.exchange_us += us, ++out.collectives;
    if (draw) draw("exchange", begin, us, axes ? n.op->name + " along " + ir::str(std::get<ir::Axes>(*axes)) : n.op->name, n);
    return begin + us;
  }

  double compute(const ir::Function& f, const ir::Node& n, double begin, Span& out, const Draw& draw) const {
    double us = time_(f, n);
    out.compute_us += us;
    if (draw) draw("compute", begin, us, made_by(n), n);
    return begin + us;
  }

  double inside(const ir::Function& f, const ir::Node& n, double begin, Span& out, const Draw& draw) {
    ir::ControlFlow c = passes::control_of(f, n);
    Span one;
    for (const std::string& name : c.functions) {
      const Span& callee = function(name);
      if (c.kind == ir::ControlFlow::Kind::kBranch)
        one = callee.us > one.us ? callee : one;
      else
        one = {one.us + callee.us, one.compute_us + callee.compute_us, one.exchange_us + callee.exchange_us,
               one.collectives + callee.collectives};
    }
    bool loop = c.kind == ir::ControlFlow::Kind::kLoop;
    const int64_t trips = loop ? c.trips.bounds().max : 1;
    const auto times = static_cast<double>(trips);
    out.compute_us += one.compute_us * times, out.exchange_us += one.exchange_us * times;
    out.collectives += one.collectives * trips;
    std::string often = trips == 1 ? "" : fmt::format(" x{}", trips);
    if (draw) draw("compute", begin, one.compute_us * times, n.op->name + often, n);
    if (draw && one.collectives > 0) {
      const char* plural = one.collectives == 1 ? "" : "s";
      draw("exchange", begin, std::min(one.exchange_us, one.us) * times,
           fmt::format("{} collective{} of {}{}", one.collectives, plural, n.op->name, often), n);
    }
    return begin + one.us * times;
  }

  const Span& function(const std::string& name) {
    auto known = functions_.find(name);
    return known != functions_.end() ? known->second : functions_.emplace(name, walk(*m_.find(name), {})).first->second;
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

}  // namespace nabla::driver

#include "cli/driver/report_exchange.h"

#include <algorithm>
#include <cmath>

#include "cli/driver/report_graph.h"
#include "ir/cost/exchange.h"
#include "ir/op_def.h"
#include "passes/rewrite.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

class ExchangeRows {
 public:
  ExchangeRows(const ir::Module& m, const ir::Target& target, const Padding* padding)
      : m_(m), mesh_(*m.mesh()), target_(target), padding_(padding) {}

  Exchanges of(const ir::Function& f) && {
    entry_ = m_.entry_of(f.name);
    Total total = add_rows(f, 1);
    return {std::move(rows_), total.sent_bytes, total.us};
  }

 private:
  struct Total {
    int64_t sent_bytes = 0;
    double us = 0;
  };

  Total add_rows(const ir::Function& f, int64_t times) {
    Total total;
    std::vector<int> makers = ir::producers(f);
    for (const ir::Node& n : f.nodes) {
      if (n.op->lower == ir::Lowering::kCollective && !n.operands.empty()) {
        const Json& made = rows_.emplace_back(row(f, n, makers, times));
        total.sent_bytes += made["sent_bytes"].get<int64_t>() * times;
        total.us += made["us"].get<double>() * static_cast<double>(times);
      }
      if (n.op->lower != ir::Lowering::kControl) continue;
      ir::ControlFlow c = passes::control_of(f, n);
      bool loop = c.kind == ir::ControlFlow::Kind::kLoop, branch = c.kind == ir::ControlFlow::Kind::kBranch;
      Total inside;
      for (const std::string& name : c.functions) {
        Total one = add_rows(*m_.find(name), loop ? times * c.trips.bounds().max : times);
        inside.sent_bytes = branch ? std::max(inside.sent_bytes, one.sent_bytes) : inside.sent_bytes + one.sent_bytes;
        inside.us = branch ? std::max(inside.us, one.us) : inside.us + one.us;
      }
      total.sent_bytes += inside.sent_bytes, total.us += inside.us;
    }
    return total;
  }

  Json row(const ir::Function& f, const ir::Node& n, const std::vector<int>& makers, int64_t times) const {
    const ir::Axes& axes = n.attrs.get_axes("axes");
    const std::string& op = n.op->name;
    const ir::Type &part = f.type(n.operands[0]), &whole = op == "all_gather" ? f.type(n.results[0]) : part;
    auto bytes = static_cast<double>(part.bytes().bounds().max);
    const auto elements = static_cast<double>(std::max<int64_t>(part.count().bounds().max, 1));
    const double share = padding_ ? padding_->elements(f, n.operands[0]) / elements : 0;
    Json out = {{"op", op},
                {"axes", ir::str(axes)},
                {"ranks", ir::shards(mesh_, axes)},
                {"dtype", std::string(name_of(part.dtype))},
                {"elements", whole.count().bounds().max},
                {"payload_bytes", whole.bytes().bounds().max},
                {"padding_bytes", std::llround(share * static_cast<double>(whole.bytes().bounds().max))},
                {"sent_bytes", static_cast<int64_t>(ir::sent_bytes(op, ir::shards(mesh_, axes), bytes))},
                {"us", ir::exchange_us(op, mesh_, axes, bytes, target_)},
                {"times", times},
                {"of", made_from(f, n.operands[0], makers)},
                {"reason", reason(f, n, makers)},
                {"source", source(f, n, makers)}};
    if (Json inside = values(f, n.operands[0], makers); !inside.empty()) out["values"] = std::move(inside);
    return out;
  }
  // Of a bucket, what lies in it.
  static Json values(const ir::Function& f, ir::ValueId id, const std::vector<int>& makers) {
    Json out = Json::array();
    if (const ir::Node* maker = origin(f, id, makers).node; maker && joins(*maker))
      for (ir::ValueId part : maker->operands)
        out.push_back({{"of", made_from(f, part, makers)},
                       {"elements", f.type(part).count().bounds().max},
                       {"source", place_of(location(f, part, makers))}});
    return out;
  }
  // Where a result is only brought to its layout no op stands: the place is that of what is sent.
  static std::string source(const ir::Function& f, const ir::Node& n, const std::vector<int>& makers) {
    return place_of(n.location ? n.location : location(f, n.operands[0], makers));
  }
  static LocationRef location(const ir::Function& f, ir::ValueId id, const std::vector<int>& makers) {
    const ir::Node* maker = origin(f, id, makers).node;
    if (maker && joins(*maker))
      for (ir::ValueId part : maker->operands)
        if (LocationRef at = location(f, part, makers)) return at;
    return maker ? maker->location : nullptr;
  }
  // What made the operand, who reads the result, and why these do not fit.
  std::string reason(const ir::Function& f, const ir::Node& n, const std::vector<int>& makers) const {
    const std::string of = made_from(f, n.operands[0], makers), reader = read_by(f, n.results[0]);
    if (n.op->name == "all_gather") return fmt::format("{} needs all of {}", reader, of);
    if (n.op->name == "reduce_scatter") return fmt::format("each rank has a share of {}, {} needs a part of the sum", of, reader);
    if (n.op->name == "all_reduce") return fmt::format("each rank has a share of {}, {} needs them combined", of, reader);
    if (n.op->name == "all_to_all") return fmt::format("{} needs {} cut along another dimension", reader, of);
    return fmt::format("{} needs elements of {} that another rank has", reader, of);
  }
  // The first op that does more than bring it into place; what the entry gives, where none does.
  std::string read_by(const ir::Function& f, ir::ValueId id) const {
    std::vector<bool> same(f.values.size(), false);
    same[id] = true;
    for (const ir::Node& n : f.nodes) {
      if (std::none_of(n.operands.begin(), n.operands.end(), [&](ir::ValueId v) { return same[v]; })) continue;
      if (n.op->category != "movement") return n.op->name;
      for (ir::ValueId v : n.results) same[v] = true;
    }
    auto result = std::find_if(f.results.begin(), f.results.end(), [&](ir::ValueId v) { return same[v]; });
    auto place = static_cast<size_t>(result - f.results.begin());
    if (result == f.results.end() || !entry_ || entry_->function != f.name) return "what follows";
    size_t writes = entry_->writes.size();
    if (place < writes) return "the new " + m_.state[static_cast<size_t>(entry_->writes[place])].name;
    return "output " + entry_->outputs[place - writes];
  }
  static bool joins(const ir::Node& n) { return n.op->name == "concatenate" && n.operands.size() > 1; }
  // What movements only bring into place is said by where it comes from: the node that makes it, if any, and the value.
  struct Origin {
    const ir::Node* node;
    ir::ValueId value;
  };
  static Origin origin(const ir::Function& f, ir::ValueId id, const std::vector<int>& makers) {
    while (makers[id] >= 0) {
      const ir::Node& n = f.nodes[static_cast<size_t>(makers[id])];
      if (joins(n) || n.op->category != "movement" || n.operands.empty()) return {&n, id};
      id = n.operands[0];
    }
    return {nullptr, id};
  }
  static std::string made_from(const ir::Function& f, ir::ValueId id, const std::vector<int>& makers) {
    const Origin from = origin(f, id, makers);
    if (!from.node) return ir::value_name(f, from.value);
    return joins(*from.node) ? fmt::format("{} values", from.node->operands.size()) : from.node->op->name;
  }

  const ir::Module& m_;
  const ir::Mesh& mesh_;
  const ir::Target& target_;
  const Padding* padding_;
  const ir::Entry* entry_ = nullptr;  // whose run starts all this
  Json rows_ = Json::array();
};

}  // namespace

Exchanges exchanges_of(const ir::Function& f, const ir::Module& local, const ir::Target& target, const Padding* padding) {
  if (!local.mesh()) return {Json::array()};
  return ExchangeRows(local, target, padding).of(f);
}

Status check_exchanges(const ir::Module& local, int64_t most) {
  for (const ir::Entry& e : local.entries) {
    const Exchanges all = exchanges_of(*local.find(e.function), local, {});
    if (all.sent_bytes <= most) continue;
    int64_t largest = -1;
    const Json* by = nullptr;
    for (const Json& r : all.rows)
      if (int64_t sent = r["sent_bytes"].get<int64_t>() * r["times"].get<int64_t>(); sent > largest) largest = sent, by = &r;
    Diagnostic d = error(Code::kOverBudget, "in a run of entry {} a rank sends {} bytes, {} are allowed", e.name, all.sent_bytes, most);
    const std::string op = (*by)["op"], of = (*by)["of"], axes = (*by)["axes"], source = (*by)["source"];
    d.notes.push_back(
        fmt::format("{} of them in {} of {} along {}{}", largest, op, of, axes, source.empty() ? "" : " at " + source));
    d.help = "raise --max-comm-bytes, or lay the program out otherwise: nablac plan compares, nablac inspect lists what is sent";
    return d;
  }
  return Ok{};
}

}  // namespace nabla::driver

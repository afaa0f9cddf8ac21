#include "ir/bill/exchanges.h"

#include <algorithm>
#include <cmath>

#include "ir/bill/names.h"
#include "ir/cost/exchange.h"
#include "ir/op_def.h"
#include "ir/typed.h"
#include "runtime/base/option_name.h"

namespace nabla::ir {
namespace {

class ExchangeRows {
 public:
  ExchangeRows(const Module& m, const Target& target, const Padding* padding)
      : m_(m), mesh_(*m.mesh()), target_(target), padding_(padding) {}

  Exchanges of(const Function& f) && {
    entry_ = m_.entry_of(f.name);
    Total total = add_rows(f, 1);
    return {std::move(rows_), total.sent_bytes, total.us};
  }

 private:
  struct Total {
    int64_t sent_bytes = 0;
    double us = 0;
  };

  Total add_rows(const Function& f, int64_t times) {
    Total total;
    std::vector<int> makers = producers(f);
    for (const Node& n : f.nodes) {
      if (n.op->collective) {
        const Exchange& made = rows_.emplace_back(row(f, n, makers, times));
        total.sent_bytes += made.sent_bytes * times;
        total.us += made.us * static_cast<double>(times);
      }
      if (n.op->lower != Lowering::kControl) continue;
      ControlFlow c = control_of(f, n);
      bool loop = c.kind == ControlFlow::Kind::kLoop, branch = c.kind == ControlFlow::Kind::kBranch;
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

  Exchange row(const Function& f, const Node& n, const std::vector<int>& makers, int64_t times) const {
    const Axes& axes = n.attrs.get_axes("axes");
    const CollectiveDef& op = *n.op->collective;
    const Type &part = f.type(n.operands[0]), &whole = op.result == CollectiveDef::Extent::kWhole ? f.type(n.results[0]) : part;
    auto bytes = static_cast<double>(part.bytes().bounds().max);
    const auto elements = static_cast<double>(std::max<int64_t>(part.count().bounds().max, 1));
    const double share = padding_ ? padding_->elements(f, n.operands[0]) / elements : 0;
    const int64_t payload = whole.bytes().bounds().max;
    return {.op = op.name,
            .axes = axes,
            .ranks = shards(mesh_, axes),
            .dtype = part.dtype,
            .elements = whole.count().bounds().max,
            .payload_bytes = payload,
            .padding_bytes = std::llround(share * static_cast<double>(payload)),
            .sent_bytes = static_cast<int64_t>(sent_bytes(op.kind, shards(mesh_, axes), bytes)),
            .us = exchange_us(op.kind, mesh_, axes, bytes, target_),
            .times = times,
            .of = made_from(f, n.operands[0], makers),
            .reason = reason(f, n, makers),
            .location = n.location ? n.location : location(f, n.operands[0], makers),
            .values = values(f, n.operands[0], makers)};
  }
  static std::vector<BucketValue> values(const Function& f, ValueId id, const std::vector<int>& makers) {
    std::vector<BucketValue> out;
    if (const Node* maker = origin(f, id, makers).node; maker && joins(*maker))
      for (ValueId part : maker->operands)
        out.push_back({made_from(f, part, makers), f.type(part).count().bounds().max, location(f, part, makers)});
    return out;
  }
  // The place of the value that is sent: a collective that only reshards a result has no location.
  static LocationRef location(const Function& f, ValueId id, const std::vector<int>& makers) {
    const Node* maker = origin(f, id, makers).node;
    if (maker && joins(*maker))
      for (ValueId part : maker->operands)
        if (LocationRef at = location(f, part, makers)) return at;
    return maker ? maker->location : nullptr;
  }
  // What made the operand, who reads the result, and why these do not fit.
  std::string reason(const Function& f, const Node& n, const std::vector<int>& makers) const {
    const std::string of = made_from(f, n.operands[0], makers), reader = read_by(f, n.results[0]);
    switch (n.op->collective->kind) {
      case CollectiveKind::kAllGather:
        return fmt::format("{} needs all of {}", reader, of);
      case CollectiveKind::kReduceScatter:
        return fmt::format("each rank has a share of {}, {} needs a part of the sum", of, reader);
      case CollectiveKind::kAllReduce:
        return fmt::format("each rank has a share of {}, {} needs them combined", of, reader);
      case CollectiveKind::kAllToAll:
        return fmt::format("{} needs {} cut along another dimension", reader, of);
      default:
        return fmt::format("{} needs elements of {} that another rank has", reader, of);
    }
  }
  // The first op that does more than bring it into place; what the entry gives, where none does.
  std::string read_by(const Function& f, ValueId id) const {
    std::vector<bool> same(f.values.size(), false);
    same[id] = true;
    for (const Node& n : f.nodes) {
      if (std::none_of(n.operands.begin(), n.operands.end(), [&](ValueId v) { return same[v]; })) continue;
      if (n.op->category != "movement") return n.op->name;
      for (ValueId v : n.results) same[v] = true;
    }
    auto result = std::find_if(f.results.begin(), f.results.end(), [&](ValueId v) { return same[v]; });
    auto place = static_cast<size_t>(result - f.results.begin());
    if (result == f.results.end() || !entry_ || entry_->function != f.name) return "what follows";
    size_t writes = entry_->writes.size();
    if (place < writes) return "the new " + m_.state[static_cast<size_t>(entry_->writes[place])].name;
    return "output " + entry_->outputs[place - writes];
  }
  static bool joins(const Node& n) { return n.op->name == "concatenate" && n.operands.size() > 1; }
  // What movements only bring into place is said by where it comes from: the node that makes it, if any, and the value.
  struct Origin {
    const Node* node;
    ValueId value;
  };
  static Origin origin(const Function& f, ValueId id, const std::vector<int>& makers) {
    while (makers[id] >= 0) {
      const Node& n = f.nodes[static_cast<size_t>(makers[id])];
      if (joins(n) || n.op->category != "movement" || n.operands.empty()) return {&n, id};
      id = n.operands[0];
    }
    return {nullptr, id};
  }
  static std::string made_from(const Function& f, ValueId id, const std::vector<int>& makers) {
    const Origin from = origin(f, id, makers);
    if (!from.node) return value_name(f, from.value);
    return joins(*from.node) ? fmt::format("{} values", from.node->operands.size()) : from.node->op->name;
  }

  const Module& m_;
  const Mesh& mesh_;
  const Target& target_;
  const Padding* padding_;
  const Entry* entry_ = nullptr;  // whose run starts all this
  std::vector<Exchange> rows_;
};

}  // namespace

Exchanges exchanges_of(const Function& f, const Module& local, const Target& target, const Padding* padding) {
  if (!local.mesh()) return {};
  return ExchangeRows(local, target, padding).of(f);
}

Status check_exchanges(const Module& local, int64_t most) {
  for (const Entry& e : local.entries) {
    const Exchanges all = exchanges_of(*local.find(e.function), local, {});
    if (all.sent_bytes <= most) continue;
    int64_t largest = -1;
    const Exchange* by = nullptr;
    for (const Exchange& r : all.rows)
      if (int64_t sent = r.sent_bytes * r.times; sent > largest) largest = sent, by = &r;
    Diagnostic d = error(Code::kOverBudget, "in a run of entry {} a rank sends {} bytes, {} are allowed", e.name, all.sent_bytes, most);
    const std::string source = place_of(by->location);
    d.notes.push_back(fmt::format("{} of them in {} of {} along {}{}", largest, by->op, by->of, str(by->axes),
                                  source.empty() ? "" : " at " + source));
    d.help = fmt::format("raise {}, or lay the program out otherwise: nablac plan compares, nablac inspect lists what is sent",
                         OptionName{"max-comm-bytes"});
    return d;
  }
  return Ok{};
}

}  // namespace nabla::ir

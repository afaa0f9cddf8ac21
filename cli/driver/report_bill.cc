#include "cli/driver/report_bill.h"

#include "ir/bill/names.h"
#include "ir/kernel_ir/grid_text.h"

namespace nabla::driver {
namespace {

using Json = nlohmann::ordered_json;

Json state_json(const ir::StateBytes& s) {
  Json out = s.by_role ? Json{{"parameters", s.parameters}, {"optimizer", s.optimizer}, {"other_state", s.other}}
                       : Json{{"state", s.other}};
  out["gaps"] = s.gaps;
  return out;
}

Json memory_json(const ir::EntryMemory& m) {
  Json out = state_json(m.state);
  if (m.host) out["host"] = state_json(*m.host);
  out.update({{"gradients", m.gradients}, {"temporaries", m.temporaries}, {"inputs", m.inputs}, {"outputs", m.outputs}});
  return out;
}

Json transfers_json(const ir::Transfers& t) {
  Json leaves = Json::array();
  for (const ir::CopiedLeaf& l : t.leaves)
    leaves.push_back({{"name", l.name}, {"bytes", l.bytes}, {"copies", l.copies}, {"source", ir::place_of(l.location)}});
  return {{"bytes", t.bytes}, {"copies", t.copies}, {"us", t.us}, {"leaves", std::move(leaves)}};
}

// [begin, microseconds, what, source line]
Json pieces_json(const std::vector<ir::TimelinePiece>& pieces) {
  Json out = Json::array();
  for (const ir::TimelinePiece& p : pieces) out.push_back({p.begin_us, p.us, p.what, ir::place_of(p.location)});
  return out;
}

Json timeline_json(const ir::Timeline& t) {
  return {{"us", t.us},
          {"compute_us", t.compute_us},
          {"exchange_us", t.exchange_us},
          {"compute", pieces_json(t.compute)},
          {"exchange", pieces_json(t.exchange)}};
}

Json exchange_json(const ir::Exchange& e) {
  Json out = {{"op", e.op},
              {"axes", ir::str(e.axes)},
              {"ranks", e.ranks},
              {"dtype", std::string(name_of(e.dtype))},
              {"elements", e.elements},
              {"payload_bytes", e.payload_bytes},
              {"padding_bytes", e.padding_bytes},
              {"sent_bytes", e.sent_bytes},
              {"us", e.us},
              {"times", e.times},
              {"of", e.of},
              {"reason", e.reason},
              {"source", ir::place_of(e.location)}};
  for (const ir::BucketValue& v : e.values)
    out["values"].push_back({{"of", v.of}, {"elements", v.elements}, {"source", ir::place_of(v.location)}});
  return out;
}

void add_least(const ir::LeastTime& least, Json& out) {
  out["least_us"] = least.us;
  if (!least.is_static && !least.postfix.empty()) out["formulas"]["least_us"] = {{"postfix", least.postfix}};
}

}  // namespace

Json formula(const ir::Dim& size) { return {{"text", size.str()}, {"postfix", ir::postfix_of(size)}}; }

void add_entry(const ir::EntryBill& e, const ir::Target& target, bool several, Json& out) {
  out["instructions"] = e.instructions;
  out["temporary_bytes"] = e.temporary_bytes;
  out["peak_bytes"] = e.peak_bytes;
  out["top_buffers"] = Json::array();
  for (const ir::LiveBuffer& b : e.largest_buffers)
    out["top_buffers"].push_back({{"value", b.value},
                                  {"type", b.type},
                                  {"bytes", b.bytes},
                                  {"made_by", b.made_by},
                                  {"source", ir::place_of(b.location)}});
  out["memory"] = memory_json(e.memory);
  out["bytes_moved"] = e.bytes_moved.bounds().max;
  if (e.to_device.copies > 0) out["transfers"]["to_device"] = transfers_json(e.to_device);
  if (e.to_host.copies > 0) out["transfers"]["to_host"] = transfers_json(e.to_host);
  out["compute_us"] = e.timeline.compute_us;
  if (several) out["timeline"] = timeline_json(e.timeline);
  if (!e.exchanges.rows.empty()) {
    out["sent_bytes"] = e.exchanges.sent_bytes, out["exchange_us"] = e.exchanges.us;
    for (const ir::Exchange& row : e.exchanges.rows) out["collectives"].push_back(exchange_json(row));
  }
  if (target.is_cuda()) out["least_us"] = e.least.us;
  if (e.flops.is_static() && e.bytes_moved.is_static() && e.live_bytes.is_static() && e.least.is_static) return;
  out["formulas"] = {{"flops", formula(e.flops)},
                     {"bytes_moved", formula(e.bytes_moved)},
                     {"temporary_bytes", formula(e.live_bytes.is_static() ? ir::Dim(e.temporary_bytes) : e.live_bytes)}};
  if (target.is_cuda() && !e.least.postfix.empty()) out["formulas"]["least_us"] = {{"postfix", e.least.postfix}};
}

void add_prediction(const ir::EntryBill& e, Json& out) {
  Json kernels = Json::object(), calls = Json::array();
  for (const auto& [name, n] : e.runs.kernels) kernels[name] = n;
  for (const auto& [row, n] : e.runs.library_calls) calls.push_back({row, n});
  out["runs"] = {{"kernels", std::move(kernels)}, {"library_calls", std::move(calls)}};
  const ir::Prediction& p = e.predicted;
  out["predicted"] = {{"us", p.us}, {"library_us", p.library_us}, {"launches", p.launches},
                      {"warp_instructions", p.warp_instructions}, {"sectors", p.sectors}, {"counted", p.counted}};
}

Json kernel_json(const ir::KernelBill& k, const kernel_ir::Kernel& kernel, const ir::Target& target) {
  Json out = {{"name", k.name}, {"launches", k.launches}, {"buffer_bytes", k.buffer_bytes}, {"bytes_moved", k.bytes_moved}};
  if (!target.is_cuda()) {
    out["units"] = k.units, out["threads"] = k.threads;
    return out;
  }
  add_least(k.least, out);
  out["moved_us"] = k.moved_us;
  Json expected = Json::array(), schedule = Json::array();
  for (const ir::GridPrediction& g : k.expected)
    expected.push_back({{"counted", g.counted},
                        {"instructions", g.instructions},
                        {"sectors", g.sectors},
                        {"code_us", g.code_us},
                        {"sectors_us", g.sectors_us}});
  for (const kernel_ir::Grid& g : cuda_schedule_of(kernel).grids) schedule.push_back(mapping_text(kernel, g));
  out["expected"] = std::move(expected), out["schedule"] = std::move(schedule);
  out["predicted_us"] = k.predicted_us, out["warp_instructions"] = k.warp_instructions, out["sectors"] = k.sectors;
  for (const ir::GridCode& g : k.grids) {
    Json grid = {{"symbol", g.symbol}, {"blocks", g.blocks}, {"threads", g.threads}, {"shared_bytes", g.shared_bytes}};
    if (!g.warnings.empty()) grid["warnings"] = g.warnings;
    if (g.registers > 0) {
      grid["registers"] = g.registers;
      grid["local_bytes"] = g.local_bytes;
      grid["static_shared_bytes"] = g.static_shared_bytes;
      grid["resident_warps"] = g.resident_warps;
    }
    out["grids"].push_back(std::move(grid));
  }
  return out;
}

Json library_json(const ir::LibraryBill& c) {
  Json out = {{"problem", c.problem},       {"library", c.library},
              {"calls", c.calls},           {"epilogue", c.epilogue},
              {"compute", c.compute},       {"workspace_bytes", c.workspace_bytes},
              {"buffer_bytes", c.buffer_bytes}, {"fallback", c.fallback}};
  add_least(c.least, out);
  out["predicted_us"] = c.predicted_us;
  return out;
}

}  // namespace nabla::driver

#include "cli/driver/machine.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <sstream>

#include "cli/driver/compile.h"
#include "ir/cost/exchange.h"
#include "ir/cost/node_time.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "runtime/device/cpu.h"
#include "runtime/device/limits.h"
#include "runtime/device/pool.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::driver {
namespace {

using Clock = std::chrono::steady_clock;

// Other programs may run: of rounds that are a second apart the best figures count.
constexpr int kRounds = 3;

/// A program that is open, on arrays of ones.
struct Probe {
  std::unique_ptr<exec::Session> session;
  std::vector<Literal> arrays;
  std::vector<const void*> in;
  std::vector<void*> out;

  Result<double> once_us() {
    auto start = Clock::now();
    NABLA_TRY(session->run(0, in, out));
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }
  /// Runs for some hundredths of a second: their times, ascending.
  Result<std::vector<double>> times_us() {
    std::vector<double> all;
    auto end = Clock::now() + std::chrono::milliseconds(40);
    (void)NABLA_TRY(once_us());
    for (int i = 0; i < 2000 && (i < 9 || Clock::now() < end); ++i) all.push_back(NABLA_TRY(once_us()));
    std::sort(all.begin(), all.end());
    return all;
  }
  Result<double> least_us() { return NABLA_TRY(times_us()).front(); }
  /// Of more ranks than CPUs, whose threads the system lets run in many orders.
  Result<double> usual_us() {
    std::vector<double> all = NABLA_TRY(times_us());
    return all[all.size() / 4];
  }
};

Result<Probe> opened(const CompiledBundle& made) {
  Probe out;
  auto bundle = NABLA_TRY(format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(made.bytes)), "a measurement"));
  out.session = NABLA_TRY(exec::Session::create(std::move(bundle), {.threads = 1}));
  const exec::EntryInfo& entry = out.session->entries()[0];
  auto add = [&](const exec::TensorInfo& t) -> void* {
    Literal array(t.dtype, t.shape);
    if (t.dtype == DType::kF32) std::fill_n(static_cast<float*>(array.mutable_data()), count_of(t.shape), 1.0f);
    out.arrays.push_back(std::move(array));
    return out.arrays.back().mutable_data();
  };
  for (const auto& t : entry.inputs) out.in.push_back(add(t));
  for (const auto& t : entry.outputs) out.out.push_back(add(t));
  return out;
}

Result<ir::Module> parsed(const std::string& text) { return ir::parse_module(text, "measured.nbl", ops::all_ops()); }

CompileOptions options_for(const ir::Target& target) {
  CompileOptions out;
  out.target = target.name;
  return out;
}

void add_copies(int threads, ir::CpuRates& rates) {
  device::ThreadPool pool(threads);
  const double of = pool.size();
  for (const auto& c : device::measure_limits(pool).copies)
    rates.copies.push_back({pool.size(), static_cast<double>(c.bytes) / of, c.bytes_per_second * 1e-6 / of});
}

// Products of square matrices, computed as a program would: small ones many at once.
Status add_products(const ir::Target& target, ir::CpuRates& rates) {
  constexpr int64_t kFlopsOfRun = 16 << 20;
  for (int64_t size : {16, 32, 64, 128, 256, 512}) {
    const int64_t flops = 2 * size * size * size, batch = std::max<int64_t>(1, kFlopsOfRun / flops);
    ir::Module m = NABLA_TRY(parsed(fmt::format(
        "nabla 1 flat\nfunc @f(%x: f32[{0},{1},{1}], %y: f32[{0},{1},{1}]) {{\n"
        "  %z = dot_general(%x, %y) {{lhs_batch=[0], rhs_batch=[0], lhs_contract=[2], rhs_contract=[1]}}\n  return %z\n}}\n"
        "entry f calls @f {{\n  inputs x, y\n  outputs z\n}}\n", batch, size)));
    Probe probe = NABLA_TRY(opened(NABLA_TRY(compile(m, options_for(target)))));
    rates.products.push_back({static_cast<double>(flops), static_cast<double>(flops * batch) / NABLA_TRY(probe.least_us())});
  }
  return Ok{};
}

// What kernels of a transformer compute per element (a softmax, the gradient of a GELU), within the caches.
Status add_arithmetic(const ir::Target& target, ir::CpuRates& rates) {
  double operations = 0, us = 0;
  for (const char* body : {"  %z = softmax(%x) {axis=1}\n", "  %z = gelu(%x) {approximate=\"tanh\"}\n"}) {
    ir::Module m = NABLA_TRY(parsed(fmt::format("nabla 1 flat\nfunc @f(%x: f32[128,128]) {{\n{}  return %z\n}}\n"
                                                "entry f calls @f {{\n  inputs x\n  outputs z\n}}\n", body)));
    const CompiledModule lowered = NABLA_TRY(lower_module(m, options_for(target)));
    for (const kernel_ir::KernelPtr& k : lowered.planned.kernels) {
      const ir::Operations o = ir::operations_of(*k);
      operations += o.in_lanes / target.lanes(DType::kF32) + o.one_by_one;
    }
    us += NABLA_TRY(NABLA_TRY(opened(NABLA_TRY(compile(m, options_for(target))))).least_us());
  }
  rates.instructions_per_ns = operations / us * 1e-3;
  return Ok{};
}

// Kernels of 16 elements one after the other.
Status add_step(const ir::Target& target, ir::CpuRates& rates) {
  constexpr int kFew = 8, kMany = 72;
  auto us_of = [&](int count) -> Result<double> {
    std::string body = "  %v0 = mul(%x, %y)\n";
    for (int i = 1; i < count; ++i) body += fmt::format("  %v{} = {}(%v{}, %y)\n", i, i % 2 ? "sub" : "mul", i - 1);
    ir::Module m = NABLA_TRY(parsed(fmt::format("nabla 1 flat\nfunc @f(%x: f32[16], %y: f32[16]) {{\n{}  return %v{}\n}}\n"
                                                "entry f calls @f {{\n  inputs x, y\n  outputs z\n}}\n", body, count - 1)));
    CompileOptions options = options_for(target);
    options.fuse = false;
    return NABLA_TRY(NABLA_TRY(opened(NABLA_TRY(compile(m, options)))).least_us());
  };
  double many = NABLA_TRY(us_of(kMany)), few = NABLA_TRY(us_of(kFew));
  rates.step_us = std::max(0.0, (many - few) / (kMany - kFew));
  return Ok{};
}

struct Collectives {
  std::string mesh;  ///< "{b=2}"; they go along b
  int64_t members;
  bool gathers;      ///< or they reduce
  int64_t elements;  ///< that a rank brings
};

// So many one after the other.
Result<Probe> exchanging(const ir::Target& target, const Collectives& c, int count) {
  std::string body, results, names;
  for (int i = 0; i < count; ++i) {
    const std::string of = i == 0 || c.gathers ? "x" : fmt::format("v{}", i - 1), axes = fmt::format("axes={{b}}, shards={}", c.members);
    body += c.gathers ? fmt::format("  %v{} = all_gather(%{}) {{{}, dim=0, instance={}}}\n", i, of, axes, i)
                      : fmt::format("  %v{} = all_reduce(%{}) {{{}, combiner=\"max\"}}\n", i, of, axes);
    if (!c.gathers && i + 1 < count) continue;
    results += fmt::format("{}%v{}", results.empty() ? "" : ", ", i), names += fmt::format("{}v{}", names.empty() ? "" : ", ", i);
  }
  ir::Module m = NABLA_TRY(parsed(fmt::format("nabla 1 local\nmesh m = {}\nfunc @f(%x: f32[{}]) {{\n{}  return {}\n}}\n"
                                              "entry f calls @f {{\n  inputs x\n  outputs {}\n}}\n",
                                              c.mesh, c.elements, body, results, names)));
  CompileOptions options = options_for(target);
  options.overlap = false;
  options.pass_options.bucket_collectives.bucket_bytes = {0};
  return NABLA_TRY(opened(NABLA_TRY(compile_set(ir::set_of(m, m), options))));
}

/// A run of many of them takes longer than one of few.
struct Exchanging {
  Probe many, few;
  double of_many = 1e12, of_few = 1e12;

  static constexpr int kFew = 1, kMany = 17;
  double us() const { return std::max(0.01, (of_many - of_few) / (kMany - kFew)); }
};

Result<Exchanging> exchanging(const ir::Target& target, const Collectives& c) {
  return Exchanging{NABLA_TRY(exchanging(target, c, Exchanging::kMany)), NABLA_TRY(exchanging(target, c, Exchanging::kFew))};
}

// Small ones tell what it takes to meet, large ones of both kinds at what rate threads read and write.
Status add_exchanges(const ir::Target& target, ir::CpuRates& rates) {
  constexpr int64_t kSmall = 64, kLarge = 64 << 10;
  struct Row {
    const char* mesh;
    int64_t members, ranks;
    std::vector<Exchanging> of = {};  // a small all_reduce, a large one, a large all_gather
  };
  Row rows[] = {{"{b=2}", 2, 2}, {"{a=2, b=2}", 2, 4}, {"{b=4}", 4, 4}};
  for (Row& row : rows)
    for (auto [gathers, elements] : {std::pair(false, kSmall), {false, kLarge}, {true, kLarge}})
      row.of.push_back(NABLA_TRY(exchanging(target, {row.mesh, row.members, gathers, elements})));
  for (int round = 0; round < kRounds; ++round)
    for (Row& row : rows)
      for (Exchanging& e : row.of) {
        auto us = [&](Probe& p) { return row.ranks > rates.cpus ? p.usual_us() : p.least_us(); };
        e.of_many = std::min(e.of_many, NABLA_TRY(us(e.many))), e.of_few = std::min(e.of_few, NABLA_TRY(us(e.few)));
      }
  for (const Row& row : rows) {
    const double meet = row.of[0].us(), part = kLarge * sizeof(float);
    const double bytes = ir::moved_bytes(CollectiveKind::kAllReduce, row.members, part) +
                         ir::moved_bytes(CollectiveKind::kAllGather, row.members, part);
    const double us = std::max(0.01, row.of[1].us() - meet) + std::max(0.01, row.of[2].us() - meet);
    rates.exchanges.push_back({row.members, row.ranks, meet, bytes / us});
  }
  return Ok{};
}

Result<ir::CpuRates> measured_once(const ir::Target& target) {
  ir::CpuRates out = no_rates();
  out.cpus = static_cast<int>(device::allowed_cpus().size());
  add_copies(1, out);
  if (out.cpus > 1) add_copies(out.cpus, out);
  (void)NABLA_TRY(add_products(target, out));
  (void)NABLA_TRY(add_arithmetic(target, out));
  (void)NABLA_TRY(add_step(target, out));
  return out;
}

}  // namespace

ir::CpuRates no_rates() {
  ir::CpuRates out;
  out.copies.clear();
  return out;
}

Result<ir::CpuRates> measure_rates(const ir::Target& target) {
  ir::CpuRates out = NABLA_TRY(measured_once(target));
  for (int round = 1; round < kRounds; ++round) {
    const ir::CpuRates other = NABLA_TRY(measured_once(target));
    out.instructions_per_ns = std::max(out.instructions_per_ns, other.instructions_per_ns);
    out.step_us = std::min(out.step_us, other.step_us);
    for (size_t i = 0; i < out.copies.size(); ++i)
      out.copies[i].bytes_per_us = std::max(out.copies[i].bytes_per_us, other.copies[i].bytes_per_us);
    for (size_t i = 0; i < out.products.size(); ++i)
      out.products[i].flops_per_us = std::max(out.products[i].flops_per_us, other.products[i].flops_per_us);
  }
  (void)NABLA_TRY(add_exchanges(target, out));
  return out;
}

std::string rates_text(const ir::CpuRates& rates) {
  std::string out = fmt::format("machine cpus = {}\nmachine arithmetic = {:.3g}\nmachine step = {:.3g}\n", rates.cpus,
                                rates.instructions_per_ns, rates.step_us);
  for (const auto& c : rates.copies) out += fmt::format("machine copy {} {:.0f} = {:.0f}\n", c.threads, c.bytes, c.bytes_per_us);
  for (const auto& p : rates.products) out += fmt::format("machine product {:.0f} = {:.0f}\n", p.flops, p.flops_per_us);
  for (const auto& e : rates.exchanges)
    out += fmt::format("machine exchange {} of {} = {:.3g} {:.0f}\n", e.members, e.ranks, e.us, e.bytes_per_us);
  return out;
}

bool read_rate(std::string_view line, ir::CpuRates& rates) {
  std::istringstream in{std::string(line)};
  std::string what, of, equals;
  auto ends = [&] { return !in.fail() && (in >> std::ws).eof() && equals == "="; };
  auto after = [](const auto& list, const auto& one, auto key) { return list.empty() || key(list.back()) < key(one); };
  in >> what;
  if (what == "cpus") return in >> equals >> rates.cpus, ends() && rates.cpus > 0;
  if (what == "arithmetic") return in >> equals >> rates.instructions_per_ns, ends() && rates.instructions_per_ns > 0;
  if (what == "step") return in >> equals >> rates.step_us, ends() && rates.step_us >= 0;
  if (what == "copy") {
    ir::CpuRates::Copy c;
    in >> c.threads >> c.bytes >> equals >> c.bytes_per_us;
    if (!ends() || c.threads < 1 || c.bytes <= 0 || c.bytes_per_us <= 0) return false;
    if (!after(rates.copies, c, [](const auto& x) { return std::pair(x.threads, x.bytes); })) return false;
    rates.copies.push_back(c);
  } else if (what == "product") {
    ir::CpuRates::Product p;
    in >> p.flops >> equals >> p.flops_per_us;
    if (!ends() || p.flops <= 0 || p.flops_per_us <= 0 || !after(rates.products, p, [](const auto& x) { return x.flops; })) return false;
    rates.products.push_back(p);
  } else if (what == "exchange") {
    ir::CpuRates::Exchange e;
    in >> e.members >> of >> e.ranks >> equals >> e.us >> e.bytes_per_us;
    if (!ends() || of != "of" || e.members < 2 || e.ranks < e.members || e.us < 0 || e.bytes_per_us <= 0) return false;
    rates.exchanges.push_back(e);
  } else {
    return false;
  }
  return true;
}

}  // namespace nabla::driver

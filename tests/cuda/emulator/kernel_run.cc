#include "tests/cuda/emulator/kernel_run.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/cuda/emulator/tensor_map.h"

namespace nabla::emulator {
namespace {

using kernel_ir::BufferRole;

std::string full_text(const codegen::CudaKernel& code) {
  return std::string(codegen::cuda_prelude()) + (code.procedures ? codegen::cuda_procedures() : "") + code.text;
}

std::function<int64_t(const ir::Symbol&)> values_of(const kernel_ir::Kernel& kernel,
                                                    const std::vector<int64_t>& extents) {
  std::vector<ir::SymbolRef> symbols = symbols_of(kernel);
  return [=](const ir::Symbol& s) {
    for (size_t i = 0; i < symbols.size(); ++i)
      if (*symbols[i] == s) return extents.at(i);
    return int64_t{0};
  };
}

void expect_near(const std::string& what, const Literal& want, const Literal& got, double tolerance) {
  double scale = 1;  // sums of terms that cancel are right to the size of the terms
  for (int64_t i = 0; i < want.size(); ++i)
    if (std::isfinite(want.get(i))) scale = std::max(scale, std::fabs(want.get(i)));
  for (int64_t i = 0; i < want.size(); ++i) {
    double w = want.get(i), g = got.get(i);
    bool fine = std::isnan(w) ? std::isnan(g) : w == g || std::fabs(w - g) <= tolerance * scale;
    ASSERT_TRUE(fine) << what << "[" << i << "] is " << g << ", the interpreter has " << w;
  }
}

std::vector<Options> all_options(bool checked) {
  std::vector<Options> out;
  for (bool late : {true, false})
    for (Order order : {Order::kForward, Order::kReverse, Order::kRandom})
      // Checked runs are slow, and races show in any order.
      if (!checked || order == (late ? Order::kForward : Order::kRandom)) out.push_back({order, 3, late});
  return out;
}

}  // namespace

Report launch_grid(Machine& machine, const Object& object, const codegen::CudaGrid& grid, unsigned blocks,
                   const std::vector<void*>& places, const Options& options) {
  constexpr uint32_t kOneByOne[5] = {1, 1, 1, 1, 1};
  std::vector<void*> pointers = places, args;
  for (void*& p : pointers) args.push_back(&p);
  std::vector<NbEmuTensorMap> maps(grid.maps.size());
  for (size_t i = 0; i < maps.size(); ++i) {
    const kernel_ir::TensorMap& m = grid.maps[i];
    std::vector<uint64_t> sizes(m.sizes.begin(), m.sizes.end()), strides(m.strides.begin(), m.strides.end());
    std::vector<uint32_t> box(m.box.begin(), m.box.end());
    const char* wrong = make_tensor_map({m.element_bytes == 1 ? kUint8 : kUint16, static_cast<uint32_t>(sizes.size()),
                                         static_cast<char*>(places.at(m.buffer)) + m.offset, sizes.data(), strides.data(), box.data(),
                                         kOneByOne, 0, kSwizzle128, 0, 0},
                                        maps[i]);
    if (wrong != nullptr) {
      Report refused;
      refused.findings.push_back({"launch", fmt::format("map {} of `{}`: {}", i, grid.symbol, wrong)});
      return refused;
    }
    args.push_back(&maps[i]);
  }
  return machine.launch(object, grid.symbol, {blocks, static_cast<unsigned>(grid.threads), static_cast<size_t>(grid.shared_bytes)}, args,
                        options);
}

KernelRun run_kernel(const kernel_ir::Kernel& kernel, const codegen::CudaKernel& code, const Object& object,
                     bool checked, const std::vector<Literal>& buffers, const std::vector<int64_t>& extents,
                     const Options& options, const std::map<int, int>& in_place, bool skewed) {
  Machine machine(checked);
  KernelRun out{buffers, {}};
  std::vector<void*> places;
  for (size_t b = 0; b < buffers.size(); ++b) {
    const kernel_ir::Buffer& buffer = kernel.buffers[b];
    auto shared = in_place.find(static_cast<int>(b));
    const int64_t skew = skewed ? bytes_of(buffers[b].dtype()) : 0;
    places.push_back(shared == in_place.end() ? static_cast<char*>(machine.allocate(buffers[b].size_bytes() + skew, buffer.name)) + skew
                                              : nullptr);
    if (buffer.role == BufferRole::kIn || buffer.role == BufferRole::kInOut)
      machine.write(places[b], buffers[b].data(), buffers[b].size_bytes());
  }
  for (auto [result, operand] : in_place) places[result] = places[operand];
  if (!extents.empty()) {
    places.push_back(machine.allocate(static_cast<int64_t>(extents.size() * 8), "extents"));
    machine.write(places.back(), extents.data(), static_cast<int64_t>(extents.size() * 8));
  }
  for (const codegen::CudaGrid& grid : code.grids) {
    auto blocks = static_cast<unsigned>(grid.blocks.eval(values_of(kernel, extents)));
    Report r = launch_grid(machine, object, grid, blocks, places, options);
    out.report.findings.insert(out.report.findings.end(), r.findings.begin(), r.findings.end());
    out.report.traffic += r.traffic;
    out.report.switches += r.switches;
  }
  bool ended = out.report.clean();  // else what is missing follows from what has been found
  for (size_t b = 0; b < buffers.size(); ++b) {
    std::memcpy(out.buffers[b].mutable_data(), places[b], buffers[b].size_bytes());
    if (checked && ended && !skewed && kernel.buffers[b].role == BufferRole::kOut) machine.expect_written(places[b], out.report);
  }
  return out;
}

void expect_right(const kernel_ir::Kernel& kernel, const codegen::CudaKernel& code, const std::vector<Literal>& buffers,
                  const Expectation& expectation) {
  SCOPED_TRACE(kernel.name);
  std::vector<Literal> want = buffers;
  std::vector<Literal*> pointers;
  for (Literal& b : want) pointers.push_back(&b);
  auto value = values_of(kernel, expectation.extents);
  interpret(with_sizes(kernel, [&](const ir::Dim& d) { return ir::Dim(d.eval(value)); }), pointers);
  auto expect_wanted = [&](const KernelRun& run) {
    for (size_t b = 0; b < want.size(); ++b)
      if (kernel.buffers[b].role != BufferRole::kWorkspace)
        expect_near("`" + kernel.buffers[b].name + "`", want[b], run.buffers[b], expectation.tolerance);
  };
  if (expectation.as_gpus_round) {
    SCOPED_TRACE("rounded as GPUs do");
    auto object = Object::compile(full_text(code), false, Rounding::kGpu);
    ASSERT_TRUE(object.ok()) << to_string(object.errors());
    expect_wanted(run_kernel(kernel, code, **object, false, buffers, expectation.extents, {}));
  }
  auto expect_cheap = [&](const Traffic& t) {
    auto expect_at_most = [](const char* what, double most, int64_t cost, int64_t least) {
      if (most > 0) {
        EXPECT_LE(static_cast<double>(cost), most * static_cast<double>(least)) << what << ": " << least << " would do";
      }
    };
    if (expectation.most_traffic > 0) {
      EXPECT_LE(t.global_read + t.global_written, expectation.most_traffic);
    }
    expect_at_most("sectors", expectation.most_sectors, t.sectors, t.least_sectors);
    expect_at_most("clocks of banks", expectation.most_bank_clocks, t.bank_clocks, t.least_bank_clocks);
  };
  std::vector<Literal> first;
  for (bool checked : {false, true}) {
    auto object = Object::compile(full_text(code), checked);
    ASSERT_TRUE(object.ok()) << to_string(object.errors());
    for (Options options : all_options(checked)) {
      options.count_warps = checked && (expectation.most_sectors > 0 || expectation.most_bank_clocks > 0);
      SCOPED_TRACE(options.str() + (checked ? ", checked" : ""));
      KernelRun run = run_kernel(kernel, code, **object, checked, buffers, expectation.extents, options);
      ASSERT_TRUE(run.report.clean()) << run.report.str();
      if (first.empty()) {
        first = run.buffers;
        expect_wanted(run);
      }
      for (size_t b = 0; b < want.size(); ++b)
        ASSERT_TRUE(kernel.buffers[b].role == BufferRole::kWorkspace || run.buffers[b] == first[b])
            << "`" << kernel.buffers[b].name << "` depends on the order";
      expect_cheap(run.report.traffic);
    }
    if (!expectation.at_odd_addresses) continue;
    SCOPED_TRACE("at odd addresses");
    KernelRun run = run_kernel(kernel, code, **object, checked, buffers, expectation.extents, {}, {}, true);
    ASSERT_TRUE(run.report.clean()) << run.report.str();
    for (size_t b = 0; b < want.size(); ++b)
      ASSERT_TRUE(kernel.buffers[b].role == BufferRole::kWorkspace || run.buffers[b] == first[b])
          << "`" << kernel.buffers[b].name << "` depends on where arrays lie";
  }
}

}  // namespace nabla::emulator

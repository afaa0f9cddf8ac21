#include "tests/cuda/emulated_module.h"

#include <gtest/gtest.h>

#include <cstring>

#include "codegen/cuda/alignment.h"
#include "tests/cuda/emulator/kernel_run.h"
#include "tests/cuda/traffic_model.h"

namespace nabla::emulator {
namespace {

using conformance::PlacedBuffer;
using conformance::Sizes;
using kernel_ir::BufferRole;

void add(Report& to, const Report& from) {
  to.findings.insert(to.findings.end(), from.findings.begin(), from.findings.end());
  to.traffic += from.traffic;
  to.switches += from.switches;
}

}  // namespace

std::string Way::str() const {
  return options.str() + (checked ? ", checked" : "") +
         (most_blocks > 0 ? fmt::format(", at most {} blocks", most_blocks) : "") +
         (more_blocks > 0 ? fmt::format(", {} more blocks", more_blocks) : "");
}

std::vector<Way> every_way() {
  return {{{Order::kForward, 1, /*late_copies=*/true}, true, 0, 3},
          {{Order::kReverse, 1, /*late_copies=*/false}, false, 0},
          {{Order::kRandom, 3, /*late_copies=*/true}, true, 1}};
}

Result<EmulatedModule> EmulatedModule::create(ir::Module planned, Rounding rounding) {
  EmulatedModule out;
  std::string text;
  bool procedures = false;
  const std::vector<bool> at_packs = codegen::kernels_at_packs(planned);
  for (size_t i = 0; i < planned.kernels.size(); ++i) {
    codegen::CudaKernel code = codegen::print_cuda(*planned.kernels[i], fmt::format("k{}", i), at_packs[i]);
    procedures |= code.procedures;
    text += code.text + "\n";
    out.code_.push_back(std::move(code));
  }
  std::string prelude = codegen::cuda_prelude() + (procedures ? codegen::cuda_procedures() : "");
  out.object_ = NABLA_TRY(Object::compile(prelude + text, /*checked=*/rounding == Rounding::kExact, rounding));
  out.planned_ = std::move(planned);
  return out;
}

std::string EmulatedModule::text(size_t kernel) const { return print(*planned_.kernels[kernel]) + code_[kernel].text; }

Result<std::vector<Literal>> EmulatedModule::run(std::string_view entry, const std::vector<Literal>& inputs,
                                                 std::vector<Literal>& state, const Sizes& sizes, const Way& way,
                                                 Report& report) const {
  auto launched = [&](size_t kernel, const std::vector<PlacedBuffer>& buffers) {
    launch(kernel, buffers, sizes, way, report);
  };
  return conformance::run_planned(planned_, entry, inputs, state, sizes, launched);
}

void EmulatedModule::launch(size_t kernel, const std::vector<PlacedBuffer>& buffers, const Sizes& sizes, const Way& way,
                            Report& report) const {
  const kernel_ir::Kernel& k = *planned_.kernels[kernel];
  Machine machine(way.checked);
  std::vector<void*> places;
  std::vector<bool> fresh;  // no operand lies there
  for (size_t b = 0; b < buffers.size(); ++b) {
    size_t first = 0;
    while (first < b && (buffers[first].at != buffers[b].at || buffers[first].bytes != buffers[b].bytes)) ++first;
    bool own = first == b || buffers[b].bytes == 0;
    places.push_back(own ? machine.allocate(buffers[b].bytes, k.buffers[b].name) : places[first]);
    fresh.push_back(buffers[b].result && own);
    if (!buffers[b].result) machine.write(places[b], buffers[b].at, buffers[b].bytes);
  }
  std::vector<int64_t> extents;
  for (const ir::SymbolRef& s : symbols_of(k)) extents.push_back(sizes.at(s->name));
  if (!extents.empty()) {
    auto bytes = static_cast<int64_t>(extents.size() * 8);
    places.push_back(machine.allocate(bytes, "extents"));
    machine.write(places.back(), extents.data(), bytes);
  }
  Report own;
  for (const codegen::CudaGrid& grid : code_[kernel].grids) {
    auto blocks = static_cast<unsigned>(grid.blocks.eval([&](const ir::Symbol& s) { return sizes.at(s.name); }));
    if (!(k.procedure && k.procedure->user)) blocks += way.more_blocks;
    if (way.most_blocks > 0) blocks = std::min(blocks, way.most_blocks);
    add(own, launch_grid(machine, *object_, grid, blocks, places, way.options));
  }
  bool ended = own.clean();  // else what is missing follows from what has been found
  for (size_t b = 0; b < buffers.size(); ++b) {
    if (!buffers[b].result) continue;
    std::memcpy(buffers[b].at, places[b], buffers[b].bytes);
    if (way.checked && ended && fresh[b] && k.buffers[b].role != BufferRole::kWorkspace)
      machine.expect_written(places[b], own);
  }
  // Sizes known at the run are read by every thread, from the cache.
  std::optional<int64_t> least = way.checked && ended && extents.empty() ? known_traffic(k) : std::nullopt;
  int64_t moved = own.traffic.global_read + own.traffic.global_written;
  if (least && moved > *least * 105 / 100) {
    Finding f;
    f.kind = "traffic", f.text = fmt::format("{} bytes are moved, {} suffice", moved, *least);
    own.findings.push_back(std::move(f));
  }
  if (!own.clean()) own.findings.back().text += "\n" + text(kernel);
  add(report, own);
}

void expect_in_every_way(const EmulatedModule& module, std::string_view entry, const std::vector<Literal>& inputs,
                         const std::vector<Literal>& state, const Sizes& sizes, const std::vector<Literal>& want,
                         const Near& near, const std::vector<Way>& ways) {
  std::vector<Literal> first;
  for (const Way& way : ways) {
    SCOPED_TRACE(fmt::format("{}, {}", entry, way.str()));
    std::vector<Literal> after = state;
    Report report;
    auto got = module.run(entry, inputs, after, sizes, way, report);
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    ASSERT_TRUE(report.clean()) << report.str();
    std::vector<Literal> all = after;
    all.insert(all.end(), got->begin(), got->end());
    if (!first.empty()) {
      for (size_t i = 0; i < all.size(); ++i) ASSERT_TRUE(all[i] == first[i]) << "value " << i << " depends on the way";
      continue;
    }
    ASSERT_EQ(all.size(), want.size());
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(near(want[i], all[i]), "") << "value " << i;
    first = std::move(all);
  }
}

}  // namespace nabla::emulator

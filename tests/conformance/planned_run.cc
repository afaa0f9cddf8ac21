#include "tests/conformance/planned_run.h"

#include <algorithm>
#include <cstring>

#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"
#include "ir/plan.h"

namespace nabla::conformance {
namespace {

class PlannedRun {
 public:
  PlannedRun(const ir::Module& m, const ir::Entry& entry, const std::vector<Literal>& inputs, const Sizes& sizes,
             const LaunchKernel& launch)
      : m_(m),
        entry_(entry),
        f_(*m.find(entry.function)),
        plan_(m.plan->functions.at(f_.name)),
        sizes_(sizes),
        launch_(launch) {
    arena_.assign(m.plan->arena_bytes, '\xff');
    constants_.assign(m.plan->constants_bytes, '\0');
    for (const auto& c : m.plan->constants)
      std::memcpy(constants_.data() + c.offset, c.value.data(), c.value.size_bytes());
    for (const Literal& x : inputs) inputs_.emplace_back(static_cast<const char*>(x.data()), x.size_bytes());
    for (size_t i = entry.writes.size(); i < f_.results.size(); ++i)
      outputs_.emplace_back(bytes(f_.type(f_.results[i])), '\xff');
  }

  Result<std::vector<Literal>> run(std::vector<Literal>& state) {
    for (size_t i = 0; i < state.size(); ++i)
      std::memcpy(arena_.data() + m_.plan->leaves[i].offset, state[i].data(), state[i].size_bytes());
    for (const ir::Node& n : f_.nodes) {
      if (n.op->lower == ir::Lowering::kView || n.op->lower == ir::Lowering::kConstant) continue;
      if (n.op->lower != ir::Lowering::kCall) return error(Code::kNoLowering, "{} is no launch", n.op->name);
      launch(n);
    }
    for (const auto& staged : plan_.staged_writes) {
      const ir::Placement& from = plan_.values[staged.value];
      std::memcpy(arena_.data() + m_.plan->leaves[staged.leaf].offset, address(from, from.bytes), from.bytes);
    }
    for (size_t i = 0; i < state.size(); ++i)
      state[i] = Literal::from_bytes(state[i].dtype(), state[i].shape(), arena_.data() + m_.plan->leaves[i].offset);
    std::vector<Literal> out;
    for (size_t i = entry_.writes.size(); i < f_.results.size(); ++i) {
      const ir::Type& type = f_.type(f_.results[i]);
      const char* at = address(plan_.values[f_.results[i]], bytes(type));
      out.push_back(Literal::from_bytes(type.dtype, extents(type.shape), at));
    }
    return out;
  }

 private:
  std::vector<int64_t> extents(const ir::Shape& shape) const {
    std::vector<int64_t> out;
    for (const ir::Dim& d : shape) out.push_back(d.eval([&](const ir::Symbol& s) { return sizes_.at(s.name); }));
    return out;
  }
  int64_t bytes(const ir::Type& type) const { return count_of(extents(type.shape)) * bytes_of(type.dtype); }

  std::string& base(const ir::Placement& p) {
    if (p.base == ir::Base::kConstants) return constants_;
    if (p.base == ir::Base::kInput) return inputs_[p.index];
    return p.base == ir::Base::kOutput ? outputs_[p.index] : arena_;
  }
  char* address(const ir::Placement& p, int64_t bytes) {
    std::string& all = base(p);
    NABLA_CHECK(p.offset >= 0 && p.offset + bytes <= static_cast<int64_t>(all.size()),
                "a placement beyond its base: {} + {} of {}", p.offset, bytes, all.size());
    return all.data() + p.offset;
  }

  void launch(const ir::Node& n) {
    const std::string& name = n.attrs.get_string("kernel");
    auto kernel = std::find_if(m_.kernels.begin(), m_.kernels.end(), [&](const auto& k) { return k->name == name; });
    NABLA_CHECK(kernel != m_.kernels.end(), "kernel {} is not in the module", name);
    std::vector<ir::ValueId> args = n.operands;
    args.insert(args.end(), n.results.begin(), n.results.end());
    const std::vector<kernel_ir::Buffer>& buffers = (*kernel)->buffers;
    NABLA_CHECK(args.size() == buffers.size(), "kernel {} has {} buffers, its launch {}", name, buffers.size(),
                args.size());
    std::vector<PlacedBuffer> placed;
    for (size_t i = 0; i < args.size(); ++i) {
      std::vector<int64_t> extent = extents(buffers[i].shape);
      int64_t bytes = count_of(extent) * bytes_of(buffers[i].dtype);
      placed.push_back(
          {address(plan_.values[args[i]], bytes), std::move(extent), bytes, /*result=*/i >= n.operands.size()});
    }
    launch_(static_cast<size_t>(kernel - m_.kernels.begin()), placed);
  }

  const ir::Module& m_;
  const ir::Entry& entry_;
  const ir::Function& f_;
  const ir::FunctionPlan& plan_;
  const Sizes& sizes_;
  const LaunchKernel& launch_;
  std::string arena_, constants_;
  std::vector<std::string> inputs_, outputs_;
};

}  // namespace

Result<std::vector<Literal>> run_planned(const ir::Module& module, std::string_view entry,
                                         const std::vector<Literal>& inputs, std::vector<Literal>& state,
                                         const Sizes& sizes, const LaunchKernel& launch) {
  const ir::Entry* found = module.find_entry(entry);
  if (!found)
    return error(Code::kUnknownEntry, "no entry is named `{}`{}", entry, did_you_mean(entry, module.entry_names()));
  NABLA_CHECK(module.plan && state.size() == module.state.size(), "{} leaves for a module with {}", state.size(),
              module.state.size());
  return PlannedRun(module, *found, inputs, sizes, launch).run(state);
}

}  // namespace nabla::conformance

#include "tests/conformance/interpret_planned.h"

#include <algorithm>
#include <cstring>

#include "ir/kernel_ir/kernel.h"
#include "ir/op_def.h"
#include "ir/plan.h"

namespace nabla::conformance {
namespace {

class PlannedRun {
 public:
  PlannedRun(const ir::Module& m, const ir::Entry& entry, const std::vector<Literal>& inputs)
      : m_(m), entry_(entry), f_(*m.find(entry.function)), plan_(m.plan->functions.at(f_.name)) {
    arena_.assign(m.plan->arena_bytes, '\xff');
    constants_.assign(m.plan->constants_bytes, '\0');
    for (const auto& c : m.plan->constants)
      std::memcpy(constants_.data() + c.offset, c.value.data(), c.value.size_bytes());
    for (const Literal& x : inputs) inputs_.emplace_back(static_cast<const char*>(x.data()), x.size_bytes());
    for (size_t i = entry.writes.size(); i < f_.results.size(); ++i)
      outputs_.emplace_back(f_.type(f_.results[i]).bytes().value(), '\xff');
  }

  Result<std::vector<Literal>> run(std::vector<Literal>& state) {
    for (size_t i = 0; i < state.size(); ++i)
      std::memcpy(arena_.data() + m_.plan->state_offsets[i], state[i].data(), state[i].size_bytes());
    for (const ir::Node& n : f_.nodes) {
      if (n.op->lower == ir::Lowering::kView || n.op->lower == ir::Lowering::kConstant) continue;
      if (n.op->lower != ir::Lowering::kCall) return error(Code::kNoLowering, "{} is a library call", n.op->name);
      launch(n);
    }
    for (const auto& staged : plan_.staged_writes) {
      const ir::Placement& from = plan_.values[staged.value];
      std::memcpy(arena_.data() + m_.plan->state_offsets[staged.leaf], address(from), from.bytes);
    }
    for (size_t i = 0; i < state.size(); ++i)
      state[i] = Literal::from_bytes(state[i].dtype(), state[i].shape(), arena_.data() + m_.plan->state_offsets[i]);
    std::vector<Literal> out;
    for (size_t i = entry_.writes.size(); i < f_.results.size(); ++i) {
      const ir::Type& type = f_.type(f_.results[i]);
      out.push_back(Literal::from_bytes(type.dtype, type.extents(), address(plan_.values[f_.results[i]])));
    }
    return out;
  }

 private:
  char* address(const ir::Placement& p) {
    std::string* base = &arena_;
    if (p.base == ir::Base::kConstants) base = &constants_;
    if (p.base == ir::Base::kInput) base = &inputs_[p.index];
    if (p.base == ir::Base::kOutput) base = &outputs_[p.index];
    NABLA_CHECK(p.offset >= 0 && p.offset + p.bytes <= static_cast<int64_t>(base->size()),
                "a placement beyond its base: {} + {} of {}", p.offset, p.bytes, base->size());
    return base->data() + p.offset;
  }

  void launch(const ir::Node& n) {
    const std::string& name = n.attrs.get_string("kernel");
    auto kernel = std::find_if(m_.kernels.begin(), m_.kernels.end(), [&](const auto& k) { return k->name == name; });
    NABLA_CHECK(kernel != m_.kernels.end(), "kernel {} is not in the module", name);
    const kernel_ir::Kernel& k = **kernel;
    std::vector<ir::ValueId> args = n.operands;
    args.insert(args.end(), n.results.begin(), n.results.end());
    NABLA_CHECK(args.size() == k.buffers.size(), "kernel {} has {} buffers, its launch {}", name, k.buffers.size(),
                args.size());
    std::vector<char*> at;
    std::vector<Literal> memory(args.size());
    std::vector<Literal*> buffers(args.size());
    for (size_t i = 0; i < args.size(); ++i) {
      at.push_back(address(plan_.values[args[i]]));
      const kernel_ir::Buffer& b = k.buffers[i];
      size_t first = std::find(at.begin(), at.end(), at.back()) - at.begin();
      bool same = first < i && memory[first].dtype() == b.dtype && memory[first].size() > 0;
      if (!same) memory[i] = Literal::from_bytes(b.dtype, ir::Type(b.dtype, b.shape).extents(), at.back());
      buffers[i] = same ? buffers[first] : &memory[i];
    }
    kernel_ir::interpret(k, buffers);
    for (size_t i = n.operands.size(); i < args.size(); ++i)
      std::memcpy(at[i], buffers[i]->data(), buffers[i]->size_bytes());
  }

  const ir::Module& m_;
  const ir::Entry& entry_;
  const ir::Function& f_;
  const ir::FunctionPlan& plan_;
  std::string arena_, constants_;
  std::vector<std::string> inputs_, outputs_;
};

}  // namespace

Result<std::vector<Literal>> interpret_planned(const ir::Module& module, std::string_view entry,
                                               const std::vector<Literal>& inputs, std::vector<Literal>& state) {
  const ir::Entry* found = module.find_entry(entry);
  if (!found)
    return error(Code::kUnknownEntry, "no entry is named `{}`{}", entry, did_you_mean(entry, module.entry_names()));
  NABLA_CHECK(module.plan && state.size() == module.state.size(), "{} leaves for a module with {}", state.size(),
              module.state.size());
  return PlannedRun(module, *found, inputs).run(state);
}

}  // namespace nabla::conformance

#include "cli/driver/emit_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "cli/driver/emit_code.h"
#include "cli/driver/emit_gemm.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/library/convolution.h"
#include "ir/library/gemm.h"
#include "ir/op_def.h"
#include "ir/plan.h"
#include "ir/symbols.h"
#include "passes/rewrite.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/bundle_writer.h"
#include "runtime/format/program_generated.h"

namespace nabla::driver {
namespace {

class Emitter {
 public:
  Emitter(const ir::Module& m, const ir::Target& target, const std::vector<VariantEntry>& variants)
      : m_(m), target_(target), variants_(variants) {
    for (size_t i = 0; i < m.kernels.size(); ++i) kernel_of_[m.kernels[i]->name] = static_cast<uint32_t>(i);
    program_.locations.push_back(std::make_unique<format::LocationT>());  // 0: unknown
  }

  Result<Ok> run(const TargetCode& code) {
    program_.target = target_.name;
    program_.cpu_features = target_.cpu_features;
    program_.compute = static_cast<uint16_t>(target_.cuda.compute);
    program_.specific = target_.cuda.specific, program_.ptx = target_.cuda.ptx;
    program_.arena_bytes = m_.plan->arena_bytes;
    program_.state_bytes = m_.plan->state_bytes;
    program_.constants_bytes = m_.plan->constants_bytes;
    for (size_t i = 0; i < m_.kernels.size(); ++i) {
      auto k = std::make_unique<format::KernelT>();
      k->symbol = code.kernels[i].symbol;
      k->object = code.kernels[i].object;
      k->name = m_.kernels[i]->name;
      bool exact = m_.kernels[i]->procedure && m_.kernels[i]->procedure->user;  // may hang on gridDim
      for (const CodeGrid& g : code.kernels[i].grids) k->grids.push_back(grid(g, exact));
      program_.kernels.push_back(std::move(k));
    }
    for (const ir::SizeConstraint& c : m_.constraints) constraint(c);
    for (size_t i = 0; i < m_.state.size(); ++i) {
      auto leaf = std::make_unique<format::StateLeafT>();
      leaf->tensor = tensor(m_.state[i].name, m_.state[i].type);
      leaf->offset = m_.plan->state_offsets[i];
      program_.state.push_back(std::move(leaf));
    }
    for (const ir::Entry& e : m_.entries) {
      auto made = NABLA_TRY(entry(e));
      auto variant = std::find_if(variants_.begin(), variants_.end(), [&](const auto& v) { return v.entry == e.name; });
      if (variant == variants_.end())
        program_.entries.push_back(std::move(made));
      else
        add_variant(*variant, *made);
    }
    for (const std::string& implementation : libraries_) add_library(library_of(implementation));
    program_.gemm_records = records_of(m_, target_);
    return Ok{};
  }

  std::string constants() const {
    std::string bytes(m_.plan->constants_bytes, '\0');
    for (const auto& c : m_.plan->constants)
      bytes.replace(c.offset, c.value.size_bytes(), static_cast<const char*>(c.value.data()), c.value.size_bytes());
    return bytes;
  }
  format::ProgramT& program() { return program_; }

 private:
  void add_library(std::unique_ptr<format::LibraryT> library) {
    for (const auto& known : program_.libraries)
      if (known->name == library->name) return;
    program_.libraries.push_back(std::move(library));
  }

  std::unique_ptr<format::GridT> grid(const CodeGrid& g, bool exact) {
    auto out = std::make_unique<format::GridT>();
    out->symbol = g.symbol;
    out->blocks = most(g.blocks), out->blocks_size = reference(g.blocks);
    out->threads = static_cast<uint32_t>(g.threads), out->shared_bytes = static_cast<uint32_t>(g.shared_bytes);
    out->exact = exact;
    return out;
  }
  std::unique_ptr<format::TensorT> tensor(const std::string& name, const ir::Type& type) {
    auto t = std::make_unique<format::TensorT>();
    t->name = name;
    t->dtype = static_cast<format::DType>(type.dtype);
    t->symbols.resize(type.shape.size());
    for (size_t d = 0; d < type.shape.size(); ++d) {
      t->shape.push_back(most(type.shape[d]));
      if (!type.shape[d].is_static()) t->symbols[d] = type.shape[d].str();
    }
    if (!type.is_static())
      for (const ir::Dim& d : type.shape) t->sizes.push_back(reference(d));
    return t;
  }

  // ---- Sizes
  static int64_t most(const ir::Dim& size) { return SizeTable::most(size); }
  uint32_t reference(const ir::Dim& size) { return sizes_.reference(size); }
  std::unique_ptr<format::SizeT> formula(const ir::Dim& size) { return sizes_.formula(size); }

  Status sources(const ir::Entry& e, const ir::Function& f, format::EntryT& out) {
    std::vector<ir::SizeSource> found = NABLA_TRY(ir::size_sources(e, f, sizes_.used()));
    for (const ir::SizeSource& s : found) {
      auto source = std::make_unique<format::SymbolSourceT>();
      source->symbol = sizes_.symbol(*s.symbol);
      source->input = static_cast<uint32_t>(s.input), source->dimension = static_cast<uint32_t>(s.dimension);
      if (s.scale.is_static() && s.scale.value() > 0)
        source->scale = s.scale.value();
      else
        source->scale_size = formula(s.scale);
      if (s.offset.is_static())
        source->offset = s.offset.value();
      else
        source->offset_size = formula(s.offset);
      out.sources.push_back(std::move(source));
    }
    return Ok{};
  }

  void constraint(const ir::SizeConstraint& c) {
    auto out = std::make_unique<format::ConstraintT>();
    out->left = formula(c.relation.left), out->right = formula(c.relation.right);
    out->relation = static_cast<format::Relation>(c.relation.kind);
    out->location = location(c.location);
    program_.constraints.push_back(std::move(out));
  }

  void add_variant(const VariantEntry& variant, format::EntryT& made) {
    auto base = std::find_if(program_.entries.begin(), program_.entries.end(),
                             [&](const auto& e) { return e->name == variant.of; });
    NABLA_CHECK(base != program_.entries.end(), "entry {} stands for {}, which comes later", variant.entry, variant.of);
    auto out = std::make_unique<format::VariantT>();
    for (const auto& source : (*base)->sources) {
      auto value = variant.values.find(program_.symbols[source->symbol]->name);
      out->values.push_back(value == variant.values.end() ? -1 : value->second);
    }
    out->instructions = std::move(made.instructions);
    (*base)->variants.push_back(std::move(out));
  }

  Result<std::unique_ptr<format::EntryT>> entry(const ir::Entry& e) {
    const ir::Function& f = *m_.find(e.function);
    const ir::FunctionPlan& plan = m_.plan->functions.at(f.name);
    auto out = std::make_unique<format::EntryT>();
    out->name = e.name;
    sizes_.start_entry();
    out->reads.assign(e.reads.begin(), e.reads.end());
    out->writes.assign(e.writes.begin(), e.writes.end());
    for (size_t i = 0; i < e.inputs.size(); ++i)
      out->inputs.push_back(tensor(e.inputs[i], f.type(f.params[e.reads.size() + i])));
    for (size_t i = 0; i < e.outputs.size(); ++i)
      out->outputs.push_back(tensor(e.outputs[i], f.type(f.results[e.writes.size() + i])));
    for (const ir::Node& n : f.nodes) {
      for (ir::ValueId id : n.operands) out->bytes += plan.values[id].bytes;
      for (ir::ValueId id : n.results) out->bytes += plan.values[id].bytes;
    }
    // The reader's limit, before so much is made. One entry alone is counted here; the writer counts all of them.
    constexpr auto kMost = static_cast<int64_t>(format::kMaxInstructions);
    if (int64_t count = size_of_program(f.name); count > kMost) {
      Diagnostic d = error(Code::kTooLarge, "entry `{}` would have {}{} instructions, at most {} are allowed", e.name,
                           count == INT64_MAX ? "more than " : "", count, kMost);
      d.location = f.location;
      d.help = "branches and loops repeat their functions' instructions wherever they stand: share them less deeply";
      return d;
    }
    Frame top{f, plan, {}, {}, m_.plan->state_bytes, 0};
    out->instructions = NABLA_TRY(instructions(top));
    NABLA_TRY(sources(e, f, *out));
    return out;
  }

  // A function where it runs: an entry, or the function of a branch or a loop, whose operands and results are the
  // caller's.
  struct Frame {
    const ir::Function& f;
    const ir::FunctionPlan& plan;
    std::vector<format::AddressT> params, results;  // of a called function
    int64_t temporaries = 0;                        // where its temporaries start in the arena
    uint16_t free_register = 0;
  };

  Result<std::vector<std::unique_ptr<format::InstructionT>>> instructions(const Frame& frame) {
    std::vector<std::unique_ptr<format::InstructionT>> out;
    for (const ir::Node& n : frame.f.nodes) {
      if (n.op->lower == ir::Lowering::kView || n.op->lower == ir::Lowering::kConstant) continue;
      if (n.op->lower == ir::Lowering::kControl)
        (void)NABLA_TRY(control(n, frame, out));
      else
        out.push_back(NABLA_TRY(instruction(n, frame)));
    }
    std::vector<int> makers = ir::producers(frame.f);
    for (const auto& staged : frame.plan.staged_writes) {
      format::AddressT from = *address(staged.value, frame), leaf;
      leaf.base = format::BaseKind::Arena;
      leaf.offset = m_.plan->state_offsets[staged.leaf];
      leaf.bytes = from.bytes;
      copy(frame.f.nodes[makers[staged.value]], m_.state[staged.leaf].name, from, leaf, frame.f.type(staged.value),
           out);
    }
    return out;
  }

  std::unique_ptr<format::AddressT> address(const ir::Placement& p, const Frame& frame) const {
    auto a = std::make_unique<format::AddressT>();
    const auto& given = p.base == ir::Base::kInput ? frame.params : frame.results;
    bool called = (p.base == ir::Base::kInput || p.base == ir::Base::kOutput) && !given.empty();
    if (called) *a = given[p.index];
    if (!called) a->base = static_cast<format::BaseKind>(p.base), a->index = static_cast<uint16_t>(p.index);
    a->offset += p.offset;
    bool temporary = p.base == ir::Base::kArena && p.offset >= m_.plan->state_bytes;
    if (temporary) a->offset += frame.temporaries - m_.plan->state_bytes;
    a->bytes = p.bytes;
    return a;
  }
  std::unique_ptr<format::AddressT> address(ir::ValueId id, const Frame& frame) const {
    return address(frame.plan.values[id], frame);
  }

  format::Operand operand(const ir::Type& type, bool written) {
    return {static_cast<format::DType>(type.dtype), written, reference(type.bytes())};
  }
  void add_operands(const ir::Node& n, const Frame& frame, format::InstructionT& out) {
    for (ir::ValueId id : n.operands) out.operands.push_back(operand(frame.f.type(id), false));
    for (ir::ValueId id : n.results) out.operands.push_back(operand(frame.f.type(id), true));
  }

  uint32_t location(const LocationRef& at) {
    if (!at) return 0;
    auto [it, fresh] = location_of_.try_emplace(fmt::format("{}:{}:{}", at->file, at->line, at->function), 0);
    if (fresh) {
      auto l = std::make_unique<format::LocationT>();
      l->file = at->file;
      l->line = at->line;
      l->function = at->function;
      l->text = at->text;
      it->second = static_cast<uint32_t>(program_.locations.size());
      program_.locations.push_back(std::move(l));
    }
    return it->second;
  }

  std::unique_ptr<format::InstructionT> blank(const ir::Node& n, const std::string& label) {
    auto out = std::make_unique<format::InstructionT>();
    out->location = location(n.location);
    out->label = label;
    return out;
  }
  using Instructions = std::vector<std::unique_ptr<format::InstructionT>>;

  void copy(const ir::Node& n, const std::string& label, const format::AddressT& from, const format::AddressT& to,
            const ir::Type& type, Instructions& out) {
    if (from.bytes == 0 || (from.base == to.base && from.index == to.index && from.offset == to.offset)) return;
    format::CopyT action;
    action.from = std::make_unique<format::AddressT>(from);
    action.to = std::make_unique<format::AddressT>(to);
    action.bytes = from.bytes;
    action.bytes_size = reference(type.bytes());
    out.push_back(blank(n, label));
    out.back()->operands = {operand(type, false), operand(type, true)};
    out.back()->action.Set(std::move(action));
  }

  uint32_t block(Instructions instructions) {
    program_.blocks.push_back(std::make_unique<format::BlockT>());
    program_.blocks.back()->instructions = std::move(instructions);
    return static_cast<uint32_t>(program_.blocks.size() - 1);
  }

  // Instructions of a function where it runs, with those of its blocks; INT64_MAX where they are more. The copies of
  // carries are not counted: there are as many as the loops have results.
  int64_t size_of_program(const std::string& name) {
    if (auto known = instructions_of_.find(name); known != instructions_of_.end()) return known->second;
    const ir::Function& f = *m_.find(name);
    ir::Dim out = 0;  // saturates
    for (const ir::Node& n : f.nodes) {
      if (n.op->lower == ir::Lowering::kView || n.op->lower == ir::Lowering::kConstant) continue;
      out = out + 1;
      if (n.op->lower != ir::Lowering::kControl) continue;
      for (const std::string& callee : passes::control_of(f, n).functions) out = out + size_of_program(callee);
    }
    return instructions_of_[name] = out.value();
  }

  // The functions of a branch or a loop become blocks, once for every place that runs them: addresses are the caller's.
  Result<Ok> control(const ir::Node& n, const Frame& frame, Instructions& out) {
    ir::ControlFlow c = passes::control_of(frame.f, n);
    int index = static_cast<int>(&n - frame.f.nodes.data());
    auto scratch = frame.plan.workspaces.find(index);
    ir::Placement workspace{ir::Base::kArena, 0, m_.plan->state_bytes, 0};
    if (scratch != frame.plan.workspaces.end()) workspace = scratch->second;
    if (c.kind == ir::ControlFlow::Kind::kBranch) return branch(n, c, frame, workspace, out);
    const ir::ControlPlan& plan = frame.plan.controls.at(index);
    auto scratch_at = [&](int64_t offset, int64_t bytes) {
      ir::Placement p = workspace;
      p.offset += offset, p.bytes = bytes;
      return *address(p, frame);
    };
    Frame body = callee(c.functions.back(), frame, workspace);
    bool counts = c.kind == ir::ControlFlow::Kind::kLoop;
    ir::Dim trips = counts ? c.trips : ir::Dim(0);
    uint16_t counter = frame.free_register;
    if (counts) ++body.free_register;
    auto slice = [&](ir::ValueId id) {
      format::AddressT a = *address(id, frame);
      ir::Type one = frame.f.type(id);
      one.shape.erase(one.shape.begin());
      ir::Dim stride = one.bytes();
      a.bytes = most(stride);
      a.terms.push_back(format::RegisterTerm(counter, most(stride)));
      if (stride.is_static() && a.stride_sizes.empty()) return a;
      a.stride_sizes.resize(a.terms.size());
      a.stride_sizes.back() = reference(stride);
      return a;
    };
    Instructions copies;  // behind the body, of what it does not make in place
    for (size_t i = 0; i < n.operands.size(); ++i) {
      int carry = static_cast<int>(i) - c.consts;
      bool carried = carry >= 0 && carry < c.carries, sliced = carry >= c.carries;
      body.params.push_back(sliced ? slice(n.operands[i])
                                   : *address(carried ? n.results[carry] : n.operands[i], frame));
      const ir::Type& type = frame.f.type(n.operands[i]);
      if (carried) copy(n, n.op->name + " carry", *address(n.operands[i], frame), body.params.back(), type, out);
    }
    for (size_t r = 0; r < n.results.size(); ++r) {
      if (static_cast<int>(r) >= c.carries) {
        body.results.push_back(slice(n.results[r]));
        continue;
      }
      format::AddressT home = *address(n.results[r], frame);
      int64_t staged = plan.staged[r];
      body.results.push_back(staged < 0 ? home : scratch_at(staged, static_cast<int64_t>(home.bytes)));
      copy(n, n.op->name + " carry", body.results.back(), home, frame.f.type(n.results[r]), copies);
    }
    if (trips.is(0) && counts) return Ok{};  // the results are the first carries
    Instructions steps = NABLA_TRY(instructions(body));
    for (auto& i : copies) steps.push_back(std::move(i));
    if (counts) {
      format::LoopT loop;
      loop.body = block(std::move(steps));
      loop.register_ = counter, loop.trips = most(trips), loop.trips_size = reference(trips);
      loop.reverse = c.reverse;
      out.push_back(blank(n, n.op->name));
      out.back()->action.Set(std::move(loop));
      return Ok{};
    }
    format::WhileT loop;
    Frame condition = callee(c.functions.front(), frame, workspace);
    condition.params = body.params;
    condition.results = {scratch_at(plan.predicate, 1)};
    loop.predicate = std::make_unique<format::AddressT>(condition.results[0]);
    Instructions tests = NABLA_TRY(instructions(condition));
    loop.condition = block(std::move(tests));
    loop.body = block(std::move(steps));
    out.push_back(blank(n, n.op->name));
    out.back()->action.Set(std::move(loop));
    return Ok{};
  }

  Frame callee(const std::string& name, const Frame& caller, const ir::Placement& workspace) const {
    Frame out{*m_.find(name), m_.plan->functions.at(name), {}, {}, 0, caller.free_register};
    out.temporaries = static_cast<int64_t>(address(workspace, caller)->offset);
    return out;
  }

  Result<Ok> branch(const ir::Node& n, const ir::ControlFlow& c, const Frame& frame, const ir::Placement& workspace,
                    Instructions& out) {
    format::BranchT action;
    action.index = address(n.operands[0], frame);
    action.index_dtype = static_cast<format::DType>(frame.f.type(n.operands[0]).dtype);
    for (const std::string& name : c.functions) {
      Frame inner = callee(name, frame, workspace);
      for (size_t i = 1; i < n.operands.size(); ++i) inner.params.push_back(*address(n.operands[i], frame));
      for (ir::ValueId id : n.results) inner.results.push_back(*address(id, frame));
      Instructions steps = NABLA_TRY(instructions(inner));
      action.blocks.push_back(block(std::move(steps)));
    }
    out.push_back(blank(n, n.op->name));
    out.back()->action.Set(std::move(action));
    return Ok{};
  }

  Result<std::unique_ptr<format::InstructionT>> instruction(const ir::Node& n, const Frame& frame) {
    auto out = std::make_unique<format::InstructionT>();
    out->location = location(n.location);
    switch (n.op->lower) {
      case ir::Lowering::kCall: {
        out->label = n.attrs.get_string("kernel");
        format::LaunchT action = launch(out->label);
        for (ir::ValueId id : n.operands) action.args.push_back(address(id, frame));
        for (ir::ValueId id : n.results) action.args.push_back(address(id, frame));
        add_operands(n, frame, *out);
        out->action.Set(std::move(action));
        return out;
      }
      case ir::Lowering::kContraction:
        out->label = n.op->name;
        out->action.Set(gemm(n, frame, out->operands));
        return out;
      case ir::Lowering::kConvolution:
        out->label = n.op->name;
        out->action.Set(convolution(n, frame, out->operands));
        return out;
      case ir::Lowering::kHost:
        out->label = n.op->name;
        out->action.Set(debug(n, frame));
        return out;
      default: {
        Diagnostic d = error(Code::kNoLowering, "{} has no instruction", n.op->name);
        d.location = n.location;
        return d;
      }
    }
  }

  format::DebugT debug(const ir::Node& n, const Frame& frame) {
    format::DebugT out;
    out.text = n.attrs.get_string("text");
    out.callback = n.attrs.get_string("callback");
    for (ir::ValueId id : n.operands) {
      const ir::Type& type = frame.f.type(id);
      out.operands.push_back(address(id, frame));
      out.tensors.push_back(std::make_unique<format::DebugTensorT>());
      out.tensors.back()->dtype = static_cast<format::DType>(type.dtype);
      for (const ir::Dim& d : type.shape) out.tensors.back()->shape.push_back(most(d));
      if (type.is_static()) continue;
      for (const ir::Dim& d : type.shape) out.tensors.back()->sizes.push_back(reference(d));
    }
    return out;
  }

  // Without its arguments.
  format::LaunchT launch(const std::string& name) {
    format::LaunchT out;
    out.kernel = kernel_of_.at(name);
    const kernel_ir::Kernel& kernel = *m_.kernels[out.kernel];
    out.units = most(kernel.schedule.units);
    out.units_size = reference(kernel.schedule.units);
    for (const ir::SymbolRef& s : kernel_ir::symbols_of(kernel))
      out.extents.push_back(reference(ir::Dim::symbol(s)) - 1);
    out.max_threads = static_cast<uint16_t>(kernel.schedule.max_threads);
    return out;
  }

  format::GemmT gemm(const ir::Node& n, const Frame& frame, std::vector<format::Operand>& operands) {
    format::GemmT g = gemm_of(n, frame.f, target_, sizes_);
    libraries_.insert(g.implementation);
    std::vector<ir::ValueId> values = n.operands;
    values.push_back(n.results[0]);
    g.a = address(values[0], frame), g.b = address(values[1], frame), g.c = address(n.results[0], frame);
    for (ir::ValueId id : {values[0], values[1], n.results[0]})
      operands.push_back(operand(frame.f.type(id), id == n.results[0]));
    if (!n.attrs.find("alternative")) return g;
    ir::GemmExtras extras = ir::gemm_extras(n);
    bool biased = extras.bias >= 0;
    if (biased) g.bias = address(values[extras.bias], frame);
    operands.push_back(biased ? operand(frame.f.type(values[extras.bias]), false) : format::Operand(g.dtype, false, 0));
    g.workspace = library_workspace(n, frame);
    operands.emplace_back(format::DType::U8, true, 0);
    if (extras.addend >= 0) {
      g.addend = address(values[extras.addend], frame);
      operands.push_back(operand(frame.f.type(values[extras.addend]), false));
    }
    g.alternative = alternative(n, frame, g.alternative_operands);
    return g;
  }

  std::unique_ptr<format::AddressT> library_workspace(const ir::Node& n, const Frame& frame) {
    auto out = address(frame.plan.workspaces.at(static_cast<int>(&n - frame.f.nodes.data())), frame);
    out->offset = (out->offset + ir::kLibraryWorkspaceAlignment - 1) &
                  ~static_cast<uint64_t>(ir::kLibraryWorkspaceAlignment - 1);
    out->bytes = static_cast<uint64_t>(n.attrs.get_int("workspace"));
    return out;
  }

  /// The launch in the place of a library's call.
  std::unique_ptr<format::LaunchT> alternative(const ir::Node& n, const Frame& frame,
                                               std::vector<format::Operand>& operands) {
    auto out = std::make_unique<format::LaunchT>(launch(n.attrs.get_string("alternative")));
    std::vector<ir::ValueId> values;
    for (int64_t i : n.attrs.get_ints("order")) values.push_back(n.operands[static_cast<size_t>(i)]);
    values.push_back(n.results[0]);
    for (ir::ValueId id : values) {
      out->args.push_back(address(id, frame));
      operands.push_back(operand(frame.f.type(id), id == n.results[0]));
    }
    format::AddressT room = *library_workspace(n, frame);
    for (int64_t bytes : n.attrs.get_ints("scratch")) {
      out->args.push_back(std::make_unique<format::AddressT>(room));
      out->args.back()->bytes = static_cast<uint64_t>(bytes);
      operands.emplace_back(format::DType::U8, true, 0);
      room.offset += (out->args.back()->bytes + ir::kLibraryWorkspaceAlignment - 1) &
                     ~static_cast<uint64_t>(ir::kLibraryWorkspaceAlignment - 1);
    }
    return out;
  }

  format::ConvolutionT convolution(const ir::Node& n, const Frame& frame, std::vector<format::Operand>& operands) {
    const ir::Function& f = frame.f;
    ir::ConvolutionRoles roles = ir::convolution_roles(n);
    format::ConvolutionT c = convolution_of(n, f, target_, sizes_);
    libraries_.insert(c.implementation);
    c.input = address(roles.input, frame);
    c.filter = address(roles.filter, frame);
    c.output = address(roles.output, frame);
    for (ir::ValueId id : {roles.input, roles.filter, roles.output})
      operands.push_back(operand(f.type(id), id == n.results[0]));
    operands.emplace_back(format::DType::U8, true, 0);
    if (n.attrs.find("alternative")) {
      c.workspace = library_workspace(n, frame);
      c.alternative = alternative(n, frame, c.alternative_operands);
      return c;
    }
    auto scratch = frame.plan.workspaces.find(static_cast<int>(&n - f.nodes.data()));
    bool none = scratch == frame.plan.workspaces.end();
    c.workspace = address(none ? ir::Placement{ir::Base::kArena, 0, 0, 0} : scratch->second, frame);
    return c;
  }

  const ir::Module& m_;
  const ir::Target& target_;
  const std::vector<VariantEntry>& variants_;
  format::ProgramT program_;
  SizeTable sizes_{program_};
  std::map<std::string, uint32_t> kernel_of_, location_of_;
  std::map<std::string, int64_t> instructions_of_;  // by function
  std::set<std::string> libraries_;                 // implementations that are called
};

}  // namespace

Result<EmittedProgram> emit_programs(std::vector<PlannedProgram> programs, const Members& more) {
  EmittedProgram out;
  std::vector<format::BundleMember> members;
  std::vector<std::unique_ptr<Emitter>> emitters;
  std::vector<const format::ProgramT*> packed;
  std::map<std::string, std::string> constants;  // bytes to the member that holds them
  const ir::Target* cpu = nullptr;
  for (PlannedProgram& p : programs) {
    NABLA_CHECK(p.module->stage == ir::Stage::kPlanned && p.module->plan, "a module of stage {} is not planned",
                name_of(p.module->stage));
    if (!p.target->is_cuda() && cpu)
      return error(Code::kBadOption, "targets `{}` and `{}`: a bundle has at most one CPU program", cpu->name,
                   p.target->name);
    if (!p.target->is_cuda()) cpu = p.target;
    out.kernels += p.module->kernels.size();
    out.code_bytes += p.code.code_bytes;
    emitters.push_back(std::make_unique<Emitter>(*p.module, *p.target, p.variants));
    NABLA_TRY(emitters.back()->run(p.code));
    format::ProgramT& program = emitters.back()->program();
    for (auto& symbol : program.symbols)
      if (auto declared = p.buckets.find(symbol->name); declared != p.buckets.end()) symbol->buckets = declared->second;
    packed.push_back(&program);
    if (p.module->plan->constants_bytes > 0) {
      std::string bytes = emitters.back()->constants();
      auto [it, fresh] = constants.try_emplace(
          bytes, constants.empty() ? std::string(format::kConstantsMember) : "constants_" + p.target->name + ".bin");
      program.constants = it->second;
      if (fresh) members.push_back({it->second, std::move(bytes)});
    }
    for (auto& [name, bytes] : p.code.members) members.push_back({name, std::move(bytes)});
  }
  for (const auto& [name, bytes] : more) members.push_back({name, bytes});
  out.bytes = NABLA_TRY(format::bundle_bytes(packed, members));
  return out;
}

Result<EmittedProgram> emit_program(const ir::Module& module, const ir::Target& target, const EmitOptions& options) {
  std::vector<PlannedProgram> programs(1);
  TargetCode code = NABLA_TRY(compile_kernels(module, target, options.toolchain));
  programs[0] = {&module, &target, std::move(code), {}};
  return emit_programs(std::move(programs), options.members);
}

}  // namespace nabla::driver

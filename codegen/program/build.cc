#include "codegen/program/build.h"

#include <algorithm>
#include <set>

#include "codegen/program/overlap.h"
#include "ir/cost/least_work.h"
#include "ir/op_def.h"
#include "ir/typed.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::program {
namespace {

bool has_instruction(const ir::Node& n) {
  return n.op->lower != ir::Lowering::kView && n.op->lower != ir::Lowering::kConstant;
}

int64_t aligned(int64_t offset) {
  return (offset + ir::kLibraryWorkspaceAlignment - 1) / ir::kLibraryWorkspaceAlignment *
         ir::kLibraryWorkspaceAlignment;
}

// A function where it runs: an entry, or the function of a branch or a loop, whose operands and results are the
// caller's.
struct Frame {
  const ir::Function& f;
  const ir::FunctionPlan& plan;
  std::vector<Address> params = {}, results = {};  // of a called function
  int64_t temporaries = 0;                         // where its temporaries start in the arena
  Register free_register = 0;

  int index_of(const ir::Node& n) const { return static_cast<int>(&n - f.nodes.data()); }
};

class Builder {
 public:
  Builder(const ir::Module& m, const ir::Target& target, const BuildOptions& options)
      : m_(m), plan_(*m.plan), flat_(options.flat), predicted_us_(options.predicted_us), moved_(m) {
    out_.target = target, out_.buckets = options.buckets, out_.groups = options.groups;
    for (size_t i = 0; i < m.kernels.size(); ++i) kernel_of_[m.kernels[i]->name] = static_cast<uint32_t>(i);
  }

  Result<LocalProgram> run() {
    out_.arena_bytes = plan_.arena_bytes, out_.state_bytes = plan_.state_bytes, out_.host_bytes = plan_.host_bytes;
    out_.constants = plan_.constants, out_.constants_bytes = plan_.constants_bytes;
    out_.constraints = m_.constraints, out_.kernels = m_.kernels;
    for (size_t i = 0; i < m_.state.size(); ++i)
      out_.state.push_back({m_.state[i].name, m_.state[i].type, plan_.leaves[i].base, plan_.leaves[i].offset});
    for (const ir::Entry& e : m_.entries) {
      Entry made = NABLA_TRY(entry(e));
      if (e.variant_of.empty())
        out_.entries.push_back(std::move(made));
      else
        base_of(e).variants.push_back({e.sizes, std::move(made.instructions)});
    }
    return std::move(out_);
  }

 private:
  Entry& base_of(const ir::Entry& variant) {
    auto is_base = [&](const Entry& e) { return e.name == variant.variant_of; };
    auto base = std::find_if(out_.entries.begin(), out_.entries.end(), is_base);
    NABLA_CHECK(base != out_.entries.end(), "the base of variant {} comes later", variant.name);
    return *base;
  }

  Result<Entry> entry(const ir::Entry& e) {
    const ir::Function& f = *m_.find(e.function);
    Entry out{.name = e.name, .reads = e.reads, .writes = e.writes};
    if (auto us = predicted_us_.find(e.name); us != predicted_us_.end()) out.predicted_us = us->second;
    for (size_t i = 0; i < e.inputs.size(); ++i)
      out.inputs.push_back({e.inputs[i], f.type(f.params[e.reads.size() + i])});
    for (size_t i = 0; i < e.outputs.size(); ++i)
      out.outputs.push_back({e.outputs[i], f.type(f.results[e.writes.size() + i])});
    Frame top{f, plan_.functions.at(f.name)};
    top.temporaries = plan_.state_bytes;
    ir::Dim moved = 0;
    for (const ir::Node& n : f.nodes)
      if (has_instruction(n)) moved = moved + moved_.of(f, n);
    out.bytes = moved.bounds().max;
    NABLA_TRY(check_size(e, f));
    out.instructions = NABLA_TRY(instructions(top));
    if (std::optional<ir::Dim> work = work_of(out.instructions); work && work->is_static()) out.flops = work->value();
    out.sources = NABLA_TRY(ir::size_sources(e, f, ir::without_coordinates(symbols_of(out))));
    return out;
  }

  // The reader's limit, before so much is made. One entry alone is counted here; the writer counts all of them.
  Status check_size(const ir::Entry& e, const ir::Function& f) {
    constexpr auto kMost = static_cast<int64_t>(format::kMaxInstructions);
    int64_t count = size_of(f.name);
    if (count <= kMost) return Ok{};
    Diagnostic d = error(Code::kTooLarge, "entry `{}` would have {}{} instructions, at most {} are allowed", e.name,
                         count == INT64_MAX ? "more than " : "", count, kMost);
    d.location = f.location;
    d.help = "branches and loops repeat their functions' instructions wherever they stand: share them less deeply";
    return d;
  }

  // Instructions of a function where it runs, with those of its blocks; INT64_MAX where they are more. The copies of
  // carries are not counted: there are as many as the loops have results.
  int64_t size_of(const std::string& name) {
    if (auto known = size_of_.find(name); known != size_of_.end()) return known->second;
    const ir::Function& f = *m_.find(name);
    ir::Dim out = 0;  // saturates
    for (const ir::Node& n : f.nodes) {
      if (!has_instruction(n)) continue;
      out = out + 1;
      if (n.op->lower != ir::Lowering::kControl) continue;
      for (const std::string& callee : ir::control_of(f, n).functions) out = out + size_of(callee);
    }
    return size_of_[name] = out.value();
  }

  // ---- Sizes that a run of the entry must know

  void add_symbols(const ir::Dim& d, std::vector<ir::SymbolRef>& out) const {
    for (const ir::SymbolRef& s : d.symbols())
      if (std::none_of(out.begin(), out.end(), [&](const auto& t) { return t->name == s->name; })) out.push_back(s);
  }
  void add_symbols(const Operand& operand, std::vector<ir::SymbolRef>& out) const {
    for (const ir::Dim& d : operand.type.shape) add_symbols(d, out);
    for (const Address::Term& t : operand.address.terms) add_symbols(t.stride, out);
  }
  void add_symbols(const Launch& launch, std::vector<ir::SymbolRef>& out) const {
    const kernel_ir::Kernel& kernel = *m_.kernels[launch.kernel];
    for (const ir::SymbolRef& s : kernel_ir::symbols_of(kernel)) add_symbols(ir::Dim::symbol(s), out);
    for (const Operand& o : launch.operands) add_symbols(o, out);
  }
  void add_symbols(const Instructions& list, std::set<uint32_t>& seen, std::vector<ir::SymbolRef>& out) const {
    for (const Instruction& i : list) {
      for (const Operand& o : operands_of(i)) add_symbols(o, out);
      if (const auto* launch = std::get_if<Launch>(&i.action)) add_symbols(*launch, out);
      if (const auto* call = std::get_if<LibraryCall>(&i.action); call && call->fallback)
        add_symbols(*call->fallback, out);
      if (const auto* loop = std::get_if<Loop>(&i.action)) add_symbols(loop->trips, out);
      for (uint32_t block : blocks_of(i))
        if (seen.insert(block).second) add_symbols(out_.blocks[block], seen, out);
    }
  }
  std::vector<ir::SymbolRef> symbols_of(const Entry& e) const {
    std::vector<ir::SymbolRef> out;
    for (const auto* tensors : {&e.inputs, &e.outputs})
      for (const Named& t : *tensors)
        for (const ir::Dim& d : t.type.shape) add_symbols(d, out);
    std::set<uint32_t> seen;
    add_symbols(e.instructions, seen, out);
    return out;
  }

  // ---- Addresses

  Address address(const ir::Placement& p, const Frame& frame) const {
    Address a{p.base, p.index, 0, 0, {}};
    const auto& given = p.base == ir::Base::kInput ? frame.params : frame.results;
    bool called = (p.base == ir::Base::kInput || p.base == ir::Base::kOutput) && !given.empty();
    if (called) a = given[p.index];
    a.offset += p.offset;
    bool temporary = p.base == ir::Base::kArena && p.offset >= plan_.state_bytes;
    if (temporary) a.offset += frame.temporaries - plan_.state_bytes;
    a.bytes = p.bytes;
    return a;
  }
  Address address(ir::ValueId id, const Frame& frame) const { return address(frame.plan.values[id], frame); }

  Operand operand(ir::ValueId id, const Frame& frame, bool written = false) const {
    return {address(id, frame), frame.f.type(id), written};
  }

  // ---- Instructions

  Result<Instructions> instructions(const Frame& frame) {
    Instructions out;
    for (const ir::Node& n : frame.f.nodes) {
      if (!has_instruction(n)) continue;
      if (n.op->lower == ir::Lowering::kControl)
        (void)NABLA_TRY(control(n, frame, out));
      else if (n.op->lower == ir::Lowering::kCollective)
        (void)NABLA_TRY(collective(n, frame, out));
      else if (n.op->lower == ir::Lowering::kTransfer)
        transfer(n, frame, out);
      else
        out.push_back(NABLA_TRY(instruction(n, frame)));
    }
    std::vector<int> makers = ir::producers(frame.f);
    for (const auto& staged : frame.plan.staged_writes) {
      Operand from = operand(staged.value, frame), leaf = from;
      leaf.address = {ir::Base::kArena, 0, plan_.leaves[staged.leaf].offset, from.address.bytes, {}};
      copy(frame.f.nodes[makers[staged.value]], m_.state[staged.leaf].name, from, leaf, out);
    }
    return out;
  }

  Result<Instruction> instruction(const ir::Node& n, const Frame& frame) {
    switch (n.op->lower) {
      case ir::Lowering::kCall: {
        const std::string& kernel = n.attrs.get_string("kernel");
        Launch launch{kernel_of_.at(kernel), {}, 0};
        for (ir::ValueId id : n.operands) launch.operands.push_back(operand(id, frame));
        for (ir::ValueId id : n.results) launch.operands.push_back(operand(id, frame, true));
        const ir::Function* flat = flat_ ? flat_->find(frame.f.name) : nullptr;
        launch.flops = known_to(launch, ir::launch_flops(n, flat, m_.kernels[launch.kernel].get()));
        launch.bytes = known_to(launch, moved_.of(frame.f, n));
        return Instruction{std::move(launch), kernel, n.location};
      }
      case ir::Lowering::kLibrary:
        return Instruction{library(n, frame), n.op->name, n.location};
      case ir::Lowering::kHost: {
        Debug debug{n.attrs.get_string("text"), n.attrs.get_string("callback"), {}};
        for (ir::ValueId id : n.operands) debug.operands.push_back(operand(id, frame));
        return Instruction{std::move(debug), n.op->name, n.location};
      }
      default: {
        Diagnostic d = error(Code::kNoLowering, "{} has no instruction", n.op->name);
        d.location = n.location;
        return d;
      }
    }
  }

  // What a list runs: a loop counts its trips, a branch its costlier side; nullopt where a while decides.
  std::optional<ir::Dim> work_of(const Instructions& list) const {
    ir::Dim out = 0;
    for (const Instruction& i : list) {
      if (std::holds_alternative<While>(i.action)) return std::nullopt;
      if (const auto* launch = std::get_if<Launch>(&i.action)) out = out + launch->flops;
      if (const auto* call = std::get_if<LibraryCall>(&i.action)) out = out + call->flops;
      ir::Dim most = 0;
      for (uint32_t block : blocks_of(i)) {
        std::optional<ir::Dim> inside = work_of(out_.blocks[block]);
        if (!inside) return std::nullopt;
        most = ir::Dim::max(most, *inside);
      }
      const auto* loop = std::get_if<Loop>(&i.action);
      out = out + (loop ? most * loop->trips : most);
    }
    return out;
  }

  // A figure for profiles. Sizes that the launch itself does not need are not asked of a run for its sake: then it is 0.
  ir::Dim known_to(const Launch& launch, const ir::Dim& out) const {
    std::vector<ir::SymbolRef> needed, asked;
    add_symbols(launch, needed);
    add_symbols(out, asked);
    bool known = std::all_of(asked.begin(), asked.end(), [&](const ir::SymbolRef& s) {
      return std::any_of(needed.begin(), needed.end(), [&](const ir::SymbolRef& t) { return t->name == s->name; });
    });
    bool fits = out.is_static() || out.bounds().max <= kMaxArrayBytes;
    return known && fits ? out : ir::Dim(0);
  }

  LibraryCall library(const ir::Node& n, const Frame& frame) const {
    ir::LibraryCall made = ir::library_call(n, frame.f, out_.target);
    LibraryCall call{.flops = made.flops()};
    call.problem = std::move(made.problem), call.library = made.library;
    call.implementation = std::move(made.implementation);
    for (const ir::LibraryRole& r : made.roles) call.roles.push_back({r.name, operand(r.value, frame, r.written)});
    if (auto scratch = frame.plan.workspaces.find(frame.index_of(n)); scratch != frame.plan.workspaces.end())
      call.workspace = address(scratch->second, frame);
    if (!made.fallback) return call;
    NABLA_CHECK(call.workspace, "{} has no workspace", n.op->name);
    call.workspace->offset = aligned(call.workspace->offset);
    call.workspace->bytes = made.workspace_bytes;
    call.fallback = fallback(*made.fallback, *call.workspace, frame);
    return call;
  }

  Launch fallback(const ir::LibraryFallback& f, Address scratch, const Frame& frame) const {
    Launch out{kernel_of_.at(f.kernel), {}, 0};
    for (ir::ValueId id : f.args) out.operands.push_back(operand(id, frame, id == f.args.back()));
    for (int64_t bytes : f.scratch) {
      scratch.bytes = bytes;
      out.operands.push_back({scratch, ir::Type(DType::kU8, {bytes}), true});
      scratch.offset += aligned(bytes);
    }
    return out;
  }

  void copy(const ir::Node& n, const std::string& label, Operand from, Operand to, Instructions& out) const {
    const Address &a = from.address, &b = to.address;
    if (a.bytes == 0 || (a.base == b.base && a.index == b.index && a.offset == b.offset)) return;
    from.written = false, to.written = true;
    out.push_back({Copy{std::move(from), std::move(to)}, label, n.location});
  }

  // Awaited where it starts; delay_waits moves the wait.
  void transfer(const ir::Node& n, const Frame& frame, Instructions& out) const {
    Transfer t{0, operand(n.operands[0], frame), operand(n.results[0], frame, true)};
    if (t.from.address.bytes == 0) return;
    Wait wait{t.handle, {t.from, t.to}};
    out.push_back({std::move(t), n.op->name, n.location});
    out.push_back({std::move(wait), n.op->name, n.location});
  }

  // ---- Communication

  static Diagnostic too_early(const ir::Node& n) {
    Diagnostic d = error(Code::kNoLowering, "{} has no instruction before the pass lower-collectives", n.op->name);
    d.location = n.location;
    return d;
  }
  // Awaited where it starts; delay_waits moves the wait.
  Status collective(const ir::Node& n, const Frame& frame, Instructions& out) const {
    const std::string& name = n.op->name;
    if (!n.op->collective) return too_early(n);
    const CollectiveDef& def = *n.op->collective;
    Collective c{.kind = def.kind, .group = group(n), .handle = 0, .from = operand(n.operands[0], frame),
                 .to = operand(n.results[0], frame, true)};
    if (def.combines) c.reduction = reduction(n.attrs.get_string("combiner"));
    // An instruction can split and join values along dimension 0 only.
    for (const char* dim : {"dim", "split", "join"})
      if (const ir::Attr* at = n.attrs.find(dim); at && std::get<int64_t>(*at) != 0) return too_early(n);
    if (def.kind == CollectiveKind::kPermute) {
      c.targets.assign(static_cast<size_t>(n.attrs.get_int("shards")), -1);
      const ir::Ints& pairs = n.attrs.get_ints("pairs");
      for (size_t i = 0; i < pairs.size(); i += 2) c.targets[pairs[i]] = static_cast<int32_t>(pairs[i + 1]);
    }
    Wait wait{c.handle, {c.from, c.to}};
    out.push_back({std::move(c), name, n.location});
    out.push_back({std::move(wait), name, n.location});
    return Ok{};
  }

  uint32_t group(const ir::Node& n) const {
    const ir::Axes& axes = n.attrs.get_axes("axes");
    auto found = std::find(out_.groups.begin(), out_.groups.end(), axes);
    NABLA_CHECK(found != out_.groups.end(), "{} along {}, of which the program has no group", n.op->name, ir::str(axes));
    return static_cast<uint32_t>(found - out_.groups.begin());
  }
  static_assert(static_cast<int>(Reduction::kOr) == static_cast<int>(kernel_ir::Combiner::kOr));
  static Reduction reduction(const std::string& combiner) {
    return static_cast<Reduction>(*kernel_ir::combiner_from_name(combiner));
  }

  // ---- Control flow

  uint32_t block(Instructions instructions) {
    out_.blocks.push_back(std::move(instructions));
    return static_cast<uint32_t>(out_.blocks.size() - 1);
  }

  Frame callee(const std::string& name, const Frame& caller, const ir::Placement& workspace) const {
    Frame out{*m_.find(name), plan_.functions.at(name)};
    out.temporaries = address(workspace, caller).offset;
    out.free_register = caller.free_register;
    return out;
  }

  // The functions of a branch or a loop become blocks, once for every place that runs them: addresses are the caller's.
  Status control(const ir::Node& n, const Frame& frame, Instructions& out) {
    ir::ControlFlow c = ir::control_of(frame.f, n);
    ir::Placement workspace{ir::Base::kArena, 0, plan_.state_bytes, 0};
    if (auto scratch = frame.plan.workspaces.find(frame.index_of(n)); scratch != frame.plan.workspaces.end())
      workspace = scratch->second;
    if (c.kind == ir::ControlFlow::Kind::kBranch) return branch(n, c, frame, workspace, out);
    return loop(n, c, frame, workspace, out);
  }

  Status branch(const ir::Node& n, const ir::ControlFlow& c, const Frame& frame, const ir::Placement& workspace,
                Instructions& out) {
    Branch action{operand(n.operands[0], frame), {}};
    for (const std::string& name : c.functions) {
      Frame inner = callee(name, frame, workspace);
      for (size_t i = 1; i < n.operands.size(); ++i) inner.params.push_back(address(n.operands[i], frame));
      for (ir::ValueId id : n.results) inner.results.push_back(address(id, frame));
      Instructions steps = NABLA_TRY(instructions(inner));
      action.blocks.push_back(block(std::move(steps)));
    }
    out.push_back({std::move(action), n.op->name, n.location});
    return Ok{};
  }

  // One slice of a stacked value, which moves with the counter.
  Address slice(ir::ValueId id, Register counter, const Frame& frame) const {
    Address a = address(id, frame);
    ir::Type one = frame.f.type(id);
    one.shape.erase(one.shape.begin());
    a.bytes = one.bytes().bounds().max;
    a.terms.push_back({counter, one.bytes()});
    return a;
  }

  Status loop(const ir::Node& n, const ir::ControlFlow& c, const Frame& frame, const ir::Placement& workspace,
              Instructions& out) {
    bool counts = c.kind == ir::ControlFlow::Kind::kLoop;
    const ir::ControlPlan& plan = frame.plan.controls.at(frame.index_of(n));
    auto scratch_at = [&](int64_t offset, int64_t bytes) {
      ir::Placement p = workspace;
      p.offset += offset, p.bytes = bytes;
      return address(p, frame);
    };
    Frame body = callee(c.functions.back(), frame, workspace);
    Register counter = frame.free_register;
    if (counts) ++body.free_register;
    for (size_t i = 0; i < n.operands.size(); ++i) {
      int carry = static_cast<int>(i) - c.consts;
      bool carried = carry >= 0 && carry < c.carries, sliced = carry >= c.carries;
      body.params.push_back(sliced ? slice(n.operands[i], counter, frame)
                                   : address(carried ? n.results[carry] : n.operands[i], frame));
      if (carried) copy(n, n.op->name + " carry", operand(n.operands[i], frame), operand(n.results[carry], frame), out);
    }
    Instructions copies;  // after the body, of what it does not make in place
    for (size_t r = 0; r < n.results.size(); ++r) {
      if (static_cast<int>(r) >= c.carries) {
        body.results.push_back(slice(n.results[r], counter, frame));
        continue;
      }
      Operand home = operand(n.results[r], frame), next = home;
      if (int64_t staged = plan.staged[r]; staged >= 0) next.address = scratch_at(staged, home.address.bytes);
      body.results.push_back(next.address);
      copy(n, n.op->name + " carry", std::move(next), std::move(home), copies);
    }
    if (counts && c.trips.is(0)) return Ok{};  // the results are the first carries
    Instructions steps = NABLA_TRY(instructions(body));
    for (Instruction& i : copies) steps.push_back(std::move(i));
    if (counts) {
      uint32_t made = block(std::move(steps));
      out.push_back({Loop{made, counter, c.trips, c.reverse}, n.op->name, n.location});
      return Ok{};
    }
    Frame condition = callee(c.functions.front(), frame, workspace);
    condition.params = body.params;
    condition.results = {scratch_at(plan.predicate, 1)};
    Instructions tests = NABLA_TRY(instructions(condition));
    uint32_t asked = block(std::move(tests)), made = block(std::move(steps));
    out.push_back({While{asked, condition.results[0], made}, n.op->name, n.location});
    return Ok{};
  }

  const ir::Module& m_;
  const ir::MemoryPlan& plan_;
  const ir::Module* flat_;  // may be null
  const std::map<std::string, double>& predicted_us_;
  const ir::MovedBytes moved_;
  LocalProgram out_;
  std::map<std::string, uint32_t> kernel_of_;
  std::map<std::string, int64_t> size_of_;  // instructions by function
};

}  // namespace

std::vector<ir::Axes> groups_of(const std::vector<const ir::Module*>& planned) {
  std::vector<ir::Axes> out;
  auto add = [&](const ir::Axes& axes) {
    if (std::find(out.begin(), out.end(), axes) == out.end()) out.push_back(axes);
  };
  for (const ir::Module* m : planned)
    for (const ir::SymbolRef& s : m->symbols)
      if (!s->axis.empty()) add({{s->axis}});
  for (const ir::Module* m : planned)
    for (const ir::FunctionPtr& f : m->functions)
      for (const ir::Node& n : f->nodes)
        if (n.op->lower == ir::Lowering::kCollective) add(n.attrs.get_axes("axes"));
  return out;
}

Result<LocalProgram> build(const ir::Module& m, const ir::Target& target, const BuildOptions& options) {
  NABLA_CHECK(m.stage == ir::Stage::kPlanned && m.plan, "a module of stage {} is not planned", name_of(m.stage));
  LocalProgram out = NABLA_TRY(Builder(m, target, options).run());
  if (options.overlap) delay_waits(out);
  return out;
}

}  // namespace nabla::program

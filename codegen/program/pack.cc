#include "codegen/program/pack.h"

#include <algorithm>
#include <set>

#include "codegen/program/agree.h"
#include "codegen/program/pack_library.h"
#include "codegen/program/size_table.h"
#include "ir/library/implementation.h"
#include "runtime/format/program_generated.h"

namespace nabla::program {
namespace {

format::DType packed(DType dtype) { return static_cast<format::DType>(dtype); }

using Base = format::BaseKind;
static_assert(agree<Base, ir::Base>({{Base::Arena, ir::Base::kArena},
                                     {Base::Constants, ir::Base::kConstants},
                                     {Base::Input, ir::Base::kInput},
                                     {Base::Output, ir::Base::kOutput},
                                     {Base::Host, ir::Base::kHost}}));
static_assert(agree<format::Reduction, Reduction>({{format::Reduction::None, Reduction::kNone},
                                                   {format::Reduction::Sum, Reduction::kSum},
                                                   {format::Reduction::Prod, Reduction::kProd},
                                                   {format::Reduction::Max, Reduction::kMax},
                                                   {format::Reduction::Min, Reduction::kMin},
                                                   {format::Reduction::And, Reduction::kAnd},
                                                   {format::Reduction::Or, Reduction::kOr}}));
using Relation = ir::SizeRelation::Kind;
static_assert(agree<format::Relation, Relation>({{format::Relation::Equal, Relation::kEqual},
                                                 {format::Relation::Less, Relation::kLess},
                                                 {format::Relation::LessEqual, Relation::kLessEqual}}));
static_assert(static_cast<int>(format::DType::MAX) + 1 == kDTypeCount);  // runtime/format/problems.cc compares them

template <class Problem>
struct TableOf;
template <>
struct TableOf<ir::GemmProblem> {
  using type = format::GemmT;
};
template <>
struct TableOf<ir::ConvolutionProblem> {
  using type = format::ConvolutionT;
};

class Packer {
 public:
  explicit Packer(const LocalProgram& program) : in_(program) {
    out_.locations.push_back(std::make_unique<format::LocationT>());  // 0: unknown
  }

  Result<Ok> run(const codegen::TargetCode& code) {
    const ir::Target& target = in_.target;
    out_.target = target.name, out_.cpu_features = target.cpu_features;
    out_.compute = static_cast<uint16_t>(target.cuda.compute);
    out_.specific = target.cuda.specific, out_.ptx = target.cuda.ptx, out_.cuda = static_cast<uint32_t>(code.cuda);
    out_.arena_bytes = in_.arena_bytes, out_.state_bytes = in_.state_bytes;
    out_.constants_bytes = in_.constants_bytes, out_.host_bytes = in_.host_bytes;
    for (size_t i = 0; i < in_.kernels.size(); ++i) out_.kernels.push_back(kernel(*in_.kernels[i], code.kernels[i]));
    for (const ir::SizeConstraint& c : in_.constraints) out_.constraints.push_back(constraint(c));
    for (const LocalProgram::Leaf& l : in_.state) {
      out_.state.push_back(std::make_unique<format::StateLeafT>());
      out_.state.back()->tensor = tensor(l.name, l.type);
      out_.state.back()->offset = l.offset, out_.state.back()->host = l.base == ir::Base::kHost;
    }
    for (const Instructions& block : in_.blocks) {
      out_.blocks.push_back(std::make_unique<format::BlockT>());
      out_.blocks.back()->instructions = NABLA_TRY(instructions(block));
    }
    for (const Entry& e : in_.entries) out_.entries.push_back(NABLA_TRY(entry(e)));
    for (auto& symbol : out_.symbols)
      if (auto declared = in_.buckets.find(symbol->name); declared != in_.buckets.end())
        symbol->buckets = declared->second;
    add_records();
    return Ok{};
  }

  format::ProgramT take() { return std::move(out_); }

  // What library_table asks for.
  uint32_t reference(const ir::Dim& size) { return sizes_.reference(size); }
  std::unique_ptr<format::AddressT> address(const Address& a) {
    auto out = std::make_unique<format::AddressT>();
    out->base = static_cast<format::BaseKind>(a.base), out->index = static_cast<uint16_t>(a.index);
    out->offset = static_cast<uint64_t>(a.offset), out->bytes = static_cast<uint64_t>(a.bytes);
    bool symbolic = false, remainders = false;
    for (const Address::Term& t : a.terms) {
      out->terms.push_back(format::RegisterTerm(t.counter, most(t.stride)));
      out->stride_sizes.push_back(reference(t.stride));
      out->moduli.push_back(t.modulus);
      symbolic |= !t.stride.is_static(), remainders |= t.modulus > 0;
    }
    if (!symbolic) out->stride_sizes.clear();
    if (!remainders) out->moduli.clear();
    return out;
  }
  format::Operand operand(const Operand& o) { return {packed(o.type.dtype), o.written, reference(o.type.bytes())}; }
  format::LaunchT launch(const Launch& l, std::vector<format::Operand>& operands) {
    const kernel_ir::Kernel& kernel = *in_.kernels[l.kernel];
    format::LaunchT out;
    out.kernel = l.kernel;
    const auto* cpu = std::get_if<kernel_ir::CpuSchedule>(&*kernel.schedule);
    const ir::Dim& units = cpu ? cpu->units : cuda_schedule_of(kernel).work;
    out.units = most(units), out.units_size = reference(units);
    for (const ir::SymbolRef& s : kernel_ir::symbols_of(kernel))
      out.extents.push_back(reference(ir::Dim::symbol(s)) - 1);
    out.max_threads = static_cast<uint16_t>(cpu ? cpu->max_threads : 1);
    out.flops = static_cast<uint64_t>(most(l.flops)), out.flops_size = reference(l.flops);
    out.bytes = static_cast<uint64_t>(most(l.bytes)), out.bytes_size = reference(l.bytes);
    for (const Operand& o : l.operands) {
      out.args.push_back(address(o.address));
      operands.push_back(operand(o));
    }
    return out;
  }

 private:
  // ---- Tables

  static int64_t most(const ir::Dim& size) { return SizeTable::most(size); }

  std::unique_ptr<format::KernelT> kernel(const kernel_ir::Kernel& kernel, const codegen::TargetCode::Kernel& code) {
    auto out = std::make_unique<format::KernelT>();
    out->symbol = code.symbol, out->object = code.object, out->name = kernel.name;
    const kernel_ir::WantedSpecials wanted = kernel_ir::wanted_specials(kernel);
    out->infinite = wanted.infinity, out->nan = wanted.nan;
    bool exact = kernel.procedure && kernel.procedure->user;  // may depend on gridDim
    for (const codegen::CodeGrid& g : code.grids) {
      auto grid = std::make_unique<format::GridT>();
      grid->symbol = g.symbol;
      grid->blocks = most(g.blocks), grid->blocks_size = reference(g.blocks);
      grid->threads = static_cast<uint32_t>(g.threads), grid->shared_bytes = static_cast<uint32_t>(g.shared_bytes);
      grid->exact = exact;
      for (const kernel_ir::TensorMap& m : g.maps) grid->maps.push_back(tensor_map(m));
      out->grids.push_back(std::move(grid));
    }
    return out;
  }

  static std::unique_ptr<format::TensorMapT> tensor_map(const kernel_ir::TensorMap& m) {
    auto out = std::make_unique<format::TensorMapT>();
    out->arg = static_cast<uint32_t>(m.buffer), out->element_bytes = static_cast<uint32_t>(m.element_bytes);
    out->offset = static_cast<uint64_t>(m.offset);
    out->sizes.assign(m.sizes.begin(), m.sizes.end()), out->strides.assign(m.strides.begin(), m.strides.end());
    out->box.assign(m.box.begin(), m.box.end());
    return out;
  }

  std::unique_ptr<format::ConstraintT> constraint(const ir::SizeConstraint& c) {
    auto out = std::make_unique<format::ConstraintT>();
    out->left = sizes_.formula(c.relation.left), out->right = sizes_.formula(c.relation.right);
    out->relation = static_cast<format::Relation>(c.relation.kind);
    out->location = location(c.location);
    return out;
  }

  std::unique_ptr<format::TensorT> tensor(const std::string& name, const ir::Type& type) {
    auto out = std::make_unique<format::TensorT>();
    out->name = name, out->dtype = packed(type.dtype);
    out->symbols.resize(type.shape.size());
    for (size_t d = 0; d < type.shape.size(); ++d) {
      out->shape.push_back(most(type.shape[d]));
      if (!type.shape[d].is_static()) out->symbols[d] = type.shape[d].str();
    }
    if (!type.is_static())
      for (const ir::Dim& d : type.shape) out->sizes.push_back(reference(d));
    return out;
  }

  std::unique_ptr<format::SymbolSourceT> source(const ir::SizeSource& s) {
    auto out = std::make_unique<format::SymbolSourceT>();
    out->symbol = sizes_.symbol(*s.symbol);
    out->input = static_cast<uint32_t>(s.input), out->dimension = static_cast<uint32_t>(s.dimension);
    if (s.scale.is_static() && s.scale.value() > 0)
      out->scale = s.scale.value();
    else
      out->scale_size = sizes_.formula(s.scale);
    if (s.offset.is_static())
      out->offset = s.offset.value();
    else
      out->offset_size = sizes_.formula(s.offset);
    return out;
  }

  uint32_t location(const LocationRef& at) {
    if (!at) return 0;
    auto [it, fresh] = location_of_.try_emplace(fmt::format("{}:{}:{}", at->file, at->line, at->function), 0);
    if (fresh) {
      auto l = std::make_unique<format::LocationT>();
      l->file = at->file, l->line = at->line, l->function = at->function, l->text = at->text;
      it->second = static_cast<uint32_t>(out_.locations.size());
      out_.locations.push_back(std::move(l));
    }
    return it->second;
  }

  Result<std::unique_ptr<format::EntryT>> entry(const Entry& e) {
    auto out = std::make_unique<format::EntryT>();
    out->name = e.name, out->bytes = static_cast<uint64_t>(e.bytes);
    out->flops = static_cast<uint64_t>(e.flops), out->predicted_us = e.predicted_us;
    out->reads.assign(e.reads.begin(), e.reads.end()), out->writes.assign(e.writes.begin(), e.writes.end());
    for (const Named& t : e.inputs) out->inputs.push_back(tensor(t.name, t.type));
    for (const Named& t : e.outputs) out->outputs.push_back(tensor(t.name, t.type));
    out->instructions = NABLA_TRY(instructions(e.instructions));
    for (const ir::SizeSource& s : e.sources) out->sources.push_back(source(s));
    for (const Variant& v : e.variants) {
      auto variant = std::make_unique<format::VariantT>();
      for (const ir::SizeSource& s : e.sources) {
        auto value = v.values.find(s.symbol->name);
        variant->values.push_back(value == v.values.end() ? -1 : value->second);
      }
      variant->instructions = NABLA_TRY(instructions(v.instructions));
      out->variants.push_back(std::move(variant));
    }
    return out;
  }

  // Algorithms that were measured for the program's calls. Their problems say more than the calls' keys.
  void add_records() {
    for (const GemmRecord& r : in_.target.records) {
      bool called = std::any_of(keys_.begin(), keys_.end(), [&](const auto& k) { return r.problem.starts_with(k + " "); });
      if (!called) continue;
      auto record = std::make_unique<format::GemmRecordT>();
      record->gpu = r.gpu, record->library = r.library, record->problem = r.problem;
      record->algorithm.assign(r.algorithm.begin(), r.algorithm.end());
      out_.gemm_records.push_back(std::move(record));
    }
  }

  void add_library(std::string_view name) {
    for (const auto& known : out_.libraries)
      if (known->name == name) return;
    const ir::LibraryFile* row = ir::find_library_file(name);
    NABLA_CHECK(row, "library {} has no row", name);
    out_.libraries.push_back(std::make_unique<format::LibraryT>());
    format::LibraryT& out = *out_.libraries.back();
    out.name = row->name, out.soname = row->soname, out.min_version = row->min_version;
  }

  // ---- Instructions

  Result<std::vector<std::unique_ptr<format::InstructionT>>> instructions(const Instructions& list) {
    std::vector<std::unique_ptr<format::InstructionT>> out;
    for (const Instruction& i : list) {
      out.push_back(std::make_unique<format::InstructionT>());
      out.back()->location = location(i.location), out.back()->label = i.label;
      Status made = std::visit([&](const auto& action) { return pack(action, *out.back()); }, i.action);
      if (made.ok()) continue;
      Diagnostics errors = made.errors();
      for (Diagnostic& d : errors) d.location = i.location;
      return errors;
    }
    return out;
  }

  Status pack(const Launch& l, format::InstructionT& out) {
    out.action.Set(launch(l, out.operands));
    return Ok{};
  }

  Status pack(const LibraryCall& call, format::InstructionT& out) {
    add_library(call.library);
    if (call.fallback) keys_.insert(std::visit([](const auto& p) { return p.key(); }, call.problem));
    auto set = [&](const auto& problem) {
      using Table = typename TableOf<std::remove_cvref_t<decltype(problem)>>::type;
      out.action.Set(library_table<Table>(call, problem, *this, out.operands));
    };
    std::visit(set, call.problem);
    return Ok{};
  }

  Status pack(const Copy& c, format::InstructionT& out) {
    format::CopyT copy;
    copy.from = address(c.from.address), copy.to = address(c.to.address);
    copy.bytes = static_cast<uint64_t>(c.from.address.bytes), copy.bytes_size = reference(c.from.type.bytes());
    out.operands = {operand(c.from), operand(c.to)};
    out.action.Set(std::move(copy));
    return Ok{};
  }

  Status pack(const Transfer& t, format::InstructionT& out) {
    format::TransferT transfer;
    transfer.handle = t.handle;
    transfer.from = address(t.from.address), transfer.to = address(t.to.address);
    transfer.bytes = static_cast<uint64_t>(t.from.address.bytes);
    out.operands = {operand(t.from), operand(t.to)};
    out.action.Set(std::move(transfer));
    return Ok{};
  }

  Status pack(const Loop& l, format::InstructionT& out) {
    format::LoopT loop;
    loop.body = l.body, loop.register_ = l.counter, loop.reverse = l.reverse;
    loop.trips = most(l.trips), loop.trips_size = reference(l.trips);
    out.action.Set(std::move(loop));
    return Ok{};
  }

  Status pack(const While& w, format::InstructionT& out) {
    format::WhileT loop;
    loop.condition = w.condition, loop.predicate = address(w.predicate), loop.body = w.body;
    out.action.Set(std::move(loop));
    return Ok{};
  }

  Status pack(const Branch& b, format::InstructionT& out) {
    format::BranchT branch;
    branch.index = address(b.index.address), branch.index_dtype = packed(b.index.type.dtype);
    branch.blocks = b.blocks;
    out.action.Set(std::move(branch));
    return Ok{};
  }

  Status pack(const Call& c, format::InstructionT& out) {
    format::CallT call;
    call.block = c.block;
    for (const Call::Set& s : c.registers) call.registers.emplace_back(s.counter, s.value);
    out.action.Set(std::move(call));
    return Ok{};
  }

  Status pack(const Debug& d, format::InstructionT& out) {
    format::DebugT debug;
    debug.text = d.text, debug.callback = d.callback;
    for (const Operand& o : d.operands) {
      debug.operands.push_back(address(o.address));
      debug.tensors.push_back(std::make_unique<format::DebugTensorT>());
      format::DebugTensorT& t = *debug.tensors.back();
      t.dtype = packed(o.type.dtype);
      for (const ir::Dim& size : o.type.shape) t.shape.push_back(most(size));
      if (o.type.is_static()) continue;
      for (const ir::Dim& size : o.type.shape) t.sizes.push_back(reference(size));
    }
    out.action.Set(std::move(debug));
    return Ok{};
  }

  Status pack(const Collective& c, format::InstructionT& out) {
    format::CollectiveT collective;
    collective.kind = static_cast<format::CollectiveKind>(c.kind);
    collective.reduction = static_cast<format::Reduction>(c.reduction);
    collective.dtype = packed(c.from.type.dtype);
    collective.group = c.group, collective.handle = c.handle;
    collective.from = address(c.from.address), collective.to = address(c.to.address);
    collective.bytes = static_cast<uint64_t>(c.from.address.bytes);
    collective.bytes_size = reference(c.from.type.bytes());
    collective.root = c.root, collective.targets = c.targets;
    out.operands = {operand(c.from), operand(c.to)};
    out.action.Set(std::move(collective));
    return Ok{};
  }

  Status pack(const Send& s, format::InstructionT& out) {
    format::SendT send;
    send.from = address(s.from.address);
    return pack_message(s, s.from, std::move(send), out);
  }

  Status pack(const Recv& r, format::InstructionT& out) {
    format::RecvT recv;
    recv.to = address(r.to.address);
    return pack_message(r, r.to, std::move(recv), out);
  }

  template <class Message, class Table>
  Status pack_message(const Message& m, const Operand& at, Table table, format::InstructionT& out) {
    table.channel = m.channel, table.handle = m.handle;
    table.bytes = static_cast<uint64_t>(at.address.bytes), table.bytes_size = reference(at.type.bytes());
    out.operands = {operand(at)};
    out.action.Set(std::move(table));
    return Ok{};
  }

  Status pack(const Wait& w, format::InstructionT& out) {
    format::WaitT wait;
    wait.handle = w.handle;
    out.action.Set(std::move(wait));
    return Ok{};
  }

  const LocalProgram& in_;
  format::ProgramT out_;
  SizeTable sizes_{out_, in_.groups};
  std::map<std::string, uint32_t> location_of_;
  std::set<std::string> keys_;  // of library calls that have algorithms to choose from
};

}  // namespace

Result<std::shared_ptr<format::ProgramT>> pack(const LocalProgram& program, const codegen::TargetCode& code) {
  Packer packer(program);
  NABLA_TRY(packer.run(code));
  return std::make_shared<format::ProgramT>(packer.take());
}

std::string constants_of(const LocalProgram& program) {
  std::string bytes(static_cast<size_t>(program.constants_bytes), '\0');
  for (const auto& c : program.constants)
    bytes.replace(static_cast<size_t>(c.offset), c.value.size_bytes(), static_cast<const char*>(c.value.data()),
                  c.value.size_bytes());
  return bytes;
}

}  // namespace nabla::program

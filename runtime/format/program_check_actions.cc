// The part of ProgramCheck that looks at single instructions.
#include <algorithm>
#include <utility>

#include "runtime/base/debug.h"
#include "runtime/base/dtype.h"
#include "runtime/base/literal.h"
#include "runtime/format/collective.h"
#include "runtime/format/problems.h"
#include "runtime/format/program_check.h"

namespace nabla::format {
namespace {

using Wide = unsigned __int128;
using Extents = flatbuffers::Vector<int64_t>;

constexpr int64_t kMaxExtent = kMaxBytes;  // what fits into an array has no larger one
constexpr int kMaxNesting = 64;

bool plausible(int64_t extent) { return extent >= 0 && extent <= kMaxExtent; }

/// Elements from the first to past the last of `batch` matrices.
Wide span_of(int64_t batch, int64_t batch_stride, int64_t rows, int64_t cols, int64_t leading) {
  if (batch == 0 || rows == 0 || cols == 0) return 0;
  return static_cast<Wide>(batch - 1) * static_cast<Wide>(batch_stride) +
         static_cast<Wide>(rows - 1) * static_cast<Wide>(leading) + static_cast<Wide>(cols);
}

std::vector<int64_t> list(const Extents* extents) {
  return extents == nullptr ? std::vector<int64_t>() : std::vector<int64_t>(extents->begin(), extents->end());
}

/// Elements of a shape whose extents are plausible, capped where a product would no longer fit.
Wide count_elements(const std::vector<int64_t>& shape) {
  Wide n = 1;
  for (int64_t extent : shape) n = std::min<Wide>(n * static_cast<Wide>(extent), static_cast<Wide>(1) << 80);
  return n;
}

}  // namespace

std::vector<const Address*> arguments_of(const Launch& launch) {
  if (launch.args() == nullptr) return {};
  return {launch.args()->begin(), launch.args()->end()};
}

bool communicates(const Instruction& i) { return i.action_as_Collective() || i.action_as_Send() || i.action_as_Recv(); }

bool starts(const Instruction& i) { return communicates(i) || i.action_as_Transfer(); }

uint32_t handle_of(const Instruction& i) {
  if (const Transfer* transfer = i.action_as_Transfer()) return transfer->handle();
  if (const Collective* c = i.action_as_Collective()) return c->handle();
  if (const Send* send = i.action_as_Send()) return send->handle();
  return i.action_as_Recv()->handle();
}

std::vector<uint32_t> blocks_of(const Instruction& i) {
  if (const Loop* loop = i.action_as_Loop()) return {loop->body()};
  if (const While* loop = i.action_as_While()) return {loop->condition(), loop->body()};
  if (const Call* call = i.action_as_Call()) return {call->block()};
  if (const Branch* branch = i.action_as_Branch()) return {branch->blocks()->begin(), branch->blocks()->end()};
  return {};
}

std::vector<const Address*> addresses_of(const Instruction& instruction) {
  std::vector<const Address*> out;
  if (const Launch* launch = instruction.action_as_Launch()) {
    out = arguments_of(*launch);
  } else if (const Gemm* gemm = instruction.action_as_Gemm()) {
    out = addresses_of_call(*gemm);
  } else if (const Convolution* c = instruction.action_as_Convolution()) {
    out = addresses_of_call(*c);
  } else if (const Copy* copy = instruction.action_as_Copy()) {
    out = {copy->from(), copy->to()};
  } else if (const Transfer* transfer = instruction.action_as_Transfer()) {
    out = {transfer->from(), transfer->to()};
  } else if (const Collective* c = instruction.action_as_Collective()) {
    out = {c->from(), c->to()};
  } else if (const Send* send = instruction.action_as_Send()) {
    out = {send->from()};
  } else if (const Recv* recv = instruction.action_as_Recv()) {
    out = {recv->to()};
  }
  return out;
}

Status ProgramCheck::check_operands(const flatbuffers::Vector<const Operand*>* operands,
                                    const std::vector<const Address*>& addresses) {
  uint32_t count = operands == nullptr ? 0 : operands->size();
  if (count == 0) return Ok{};
  size_t present = addresses.size();
  while (present > 0 && addresses[present - 1] == nullptr) --present;
  if (count < present || count > addresses.size()) return damaged("{} operands for {} addresses", count, present);
  for (uint32_t i = 0; i < count; ++i) {
    const Operand& operand = *operands->Get(i);
    std::string role = fmt::format("operand {}", i);
    uint64_t element = element_bytes(operand.dtype());
    if (element == 0)
      return error(Code::kNewerVersion, "{}: {}{} has unknown element type {}", what_, where(), role,
                   static_cast<int>(operand.dtype()));
    if (addresses[i] == nullptr) continue;  // a role that the call does not have
    (void)NABLA_TRY(check_address(addresses[i], role, operand.written(), 0));
    if (addresses[i]->bytes() % element != 0)
      return damaged("{} has {} bytes, which are no elements of {}", role, addresses[i]->bytes(), element);
    auto bytes = static_cast<int64_t>(addresses[i]->bytes());
    (void)NABLA_TRY(check_reference(operand.bytes_size(), bytes, role));
  }
  return Ok{};
}

Status ProgramCheck::check_instruction(const Instruction& instruction) {
  transfers_ = instruction.action_as_Transfer() != nullptr;
  (void)NABLA_TRY(check_action(instruction));
  return check_operands(instruction.operands(), addresses_of(instruction));
}

template <class Message>
Status ProgramCheck::check_message(const Message& message, const Address* at, bool sends) {
  uint32_t channel = message.channel();
  uint64_t bytes = message.bytes();
  if (channel >= row_.channels.size()) return damaged("channel {} of {}", channel, row_.channels.size());
  const CommunicationRow::Channel& row = row_.channels[channel];
  if (row.sends != sends) return damaged("channel {} {}", channel, row.sends ? "sends" : "receives");
  if (bytes > row.bytes) return damaged("{} bytes over channel {}, which takes {}", bytes, channel, row.bytes);
  (void)NABLA_TRY(check_reference(message.bytes_size(), static_cast<int64_t>(bytes), "the message"));
  (void)NABLA_TRY(check_address(at, "the message", !sends, bytes));
  return open_handle(message.handle());
}

Status ProgramCheck::check_action(const Instruction& instruction) {
  // FlatBuffers' verifier takes a union whose kind is known and whose value is missing.
  if (instruction.action() == nullptr) return damaged("it has no action");
  switch (instruction.action_type()) {
    case Action::Launch:
      return check_launch(*instruction.action_as_Launch());
    case Action::Gemm:
      return check_gemm(*instruction.action_as_Gemm());
    case Action::Convolution:
      return check_convolution(*instruction.action_as_Convolution());
    case Action::Copy:
      return check_copy(*instruction.action_as_Copy());
    case Action::Loop:
      return check_loop(*instruction.action_as_Loop());
    case Action::While:
      return check_while(*instruction.action_as_While());
    case Action::Branch:
      return check_branch(*instruction.action_as_Branch());
    case Action::Debug:
      return check_debug(*instruction.action_as_Debug());
    case Action::Call:
      return check_call(*instruction.action_as_Call());
    case Action::Collective:
      return check_collective(*instruction.action_as_Collective());
    case Action::Send:
      return check_message(*instruction.action_as_Send(), instruction.action_as_Send()->from(), true);
    case Action::Recv:
      return check_message(*instruction.action_as_Recv(), instruction.action_as_Recv()->to(), false);
    case Action::Wait: {
      uint32_t handle = instruction.action_as_Wait()->handle();
      if (handles_.erase(handle) == 0) return damaged("handle {} was not started in this list", handle);
      return Ok{};
    }
    case Action::Transfer:
      return check_transfer(*instruction.action_as_Transfer());
    case Action::NONE:
      return damaged("it has no action");
  }
  return error(Code::kNewerVersion, "{}: {}unknown kind of instruction {}", what_, where(),
               static_cast<int>(instruction.action_type()));
}

Status ProgramCheck::check_address(const Address* address, std::string_view role, bool written, Wide needed) {
  if (address == nullptr) return damaged("{} has no address", role);
  uint64_t limit = 0;
  size_t index = address->index();
  switch (address->base()) {
    case BaseKind::Arena:
      limit = program_.arena_bytes();
      break;
    case BaseKind::Host:
      if (!transfers_) return damaged("{} is in the host's memory, where transfers alone go", role);
      limit = program_.host_bytes();
      break;
    case BaseKind::Constants:
      limit = program_.constants_bytes();
      break;
    case BaseKind::Input:
      if (index >= input_bytes_.size()) return damaged("{} is input {} of {}", role, index, input_bytes_.size());
      limit = input_bytes_[index];
      break;
    case BaseKind::Output:
      if (index >= output_bytes_.size()) return damaged("{} is output {} of {}", role, index, output_bytes_.size());
      limit = output_bytes_[index];
      break;
    default:
      return error(Code::kNewerVersion, "{}: {}{} has an unknown base {}", what_, where(), role,
                   static_cast<int>(address->base()));
  }
  if (address->offset() > limit || address->bytes() > limit - address->offset())
    return damaged("{} ({} bytes at {}) lies outside the {} bytes of its base", role, address->bytes(),
                   address->offset(), limit);
  (void)NABLA_TRY(check_terms(*address, role, limit));
  if (needed > address->bytes()) return damaged("{} is accessed beyond its {} bytes", role, address->bytes());
  if (written && (address->base() == BaseKind::Constants || address->base() == BaseKind::Input))
    return damaged("{} is written, but lies in {}", role,
                   address->base() == BaseKind::Input ? "an input" : "the constants");
  return Ok{};
}

// The offset is that of register value 0, and within the base; so must be every other place that registers move to.
Status ProgramCheck::check_terms(const Address& address, std::string_view role, uint64_t limit) {
  __int128 lowest = address.offset(), highest = lowest + address.bytes();
  uint32_t sizes = address.stride_sizes() == nullptr ? 0 : address.stride_sizes()->size();
  if (sizes > 0 && (address.terms() == nullptr || address.terms()->size() != sizes))
    return damaged("{} has {} sizes of strides", role, sizes);
  uint32_t moduli = address.moduli() == nullptr ? 0 : address.moduli()->size();
  if (moduli > 0 && (address.terms() == nullptr || address.terms()->size() != moduli))
    return damaged("{} has {} moduli", role, moduli);
  for (uint32_t i = 0; address.terms() != nullptr && i < address.terms()->size(); ++i) {
    const RegisterTerm& term = *address.terms()->Get(i);
    if (sizes > 0) (void)NABLA_TRY(check_reference(address.stride_sizes()->Get(i), term.stride(), role));
    auto found = registers_.find(term.register_());
    if (found == registers_.end())
      return damaged("{} moves with register {}, in which nothing counts", role, term.register_());
    Range range = found->second;
    int64_t modulus = moduli > 0 ? address.moduli()->Get(i) : 0;
    if (modulus < 0) return damaged("{} moves with a remainder by {}", role, modulus);
    if (modulus > 0) range = {0, std::min(modulus - 1, range.high)};
    auto first = static_cast<__int128>(term.stride()) * range.low, last = static_cast<__int128>(term.stride()) * range.high;
    lowest += std::min(first, last), highest += std::max(first, last);
  }
  if (lowest < 0 || highest > static_cast<__int128>(limit))
    return damaged("{} moves beyond the {} bytes of its base", role, limit);
  return Ok{};
}

Status ProgramCheck::check_launch(const Launch& launch) {
  uint32_t kernels = program_.kernels() == nullptr ? 0 : program_.kernels()->size();
  if (launch.kernel() >= kernels) return damaged("kernel {} of {}", launch.kernel(), kernels);
  if (!plausible(launch.units())) return damaged("{} units", launch.units());
  (void)NABLA_TRY(check_reference(launch.units_size(), launch.units(), "the number of units"));
  (void)NABLA_TRY(check_reference(launch.flops_size(), static_cast<int64_t>(launch.flops()), "the number of FLOPs"));
  (void)NABLA_TRY(check_reference(launch.bytes_size(), static_cast<int64_t>(launch.bytes()), "the number of bytes"));
  uint32_t sizes = program_.sizes() == nullptr ? 0 : program_.sizes()->size();
  for (uint32_t i = 0; launch.extents() != nullptr && i < launch.extents()->size(); ++i)
    if (launch.extents()->Get(i) >= sizes) return damaged("extent {} is size {}", i, launch.extents()->Get(i));
  for (uint32_t i = 0; launch.args() != nullptr && i < launch.args()->size(); ++i)
    (void)NABLA_TRY(check_address(launch.args()->Get(i), fmt::format("argument {}", i), false, 0));
  return Ok{};
}

// Types of A, B and C are one, or the factors are 8-bit floats and C has more bits.
Status ProgramCheck::check_gemm_types(const Gemm& gemm) {
  auto bytes = [](DType d) { return d == DType::F8E4M3 || d == DType::F8E5M2; };
  auto wide = [](DType d) { return d == DType::F32 || d == DType::BF16 || d == DType::F16; };
  const DType a = gemm.dtype(), b = gemm.dtype_b(), c = gemm.dtype_c();
  if (bytes(a) ? (b == DType::Bool || bytes(b)) && wide(c) : (wide(a) || a == DType::F64) && b == DType::Bool && c == DType::Bool)
    return Ok{};
  return damaged("a gemm of element types {}, {}, {}", static_cast<int>(a), static_cast<int>(b), static_cast<int>(c));
}

Status ProgramCheck::check_gemm(const Gemm& gemm) {
  (void)NABLA_TRY(check_gemm_types(gemm));
  if (view(gemm.implementation()).empty()) return damaged("a gemm without an implementation");
  const GemmProblemOf<int64_t> p = problem_of(gemm);
  // Everything below grows with the sizes, so that what holds at the bounds holds at every tuple.
  if (std::string bad = implausible_fields(p, kMaxExtent); !bad.empty()) return damaged("a gemm with {}", bad);
  std::vector<int64_t> sizes;
  p.for_each_size([&](int64_t n) { sizes.push_back(n); });
  if (uint32_t count = size_of(gemm.sizes()); count > 0) {
    if (count != sizes.size()) return damaged("a gemm with {} sizes", count);
    for (uint32_t i = 0; i < count; ++i)
      (void)NABLA_TRY(check_reference(gemm.sizes()->Get(i), sizes[i], "a size of a gemm"));
  }
  int64_t a_rows = p.transpose_a ? p.k : p.m, a_cols = p.transpose_a ? p.m : p.k;
  int64_t b_rows = p.transpose_b ? p.n : p.k, b_cols = p.transpose_b ? p.k : p.n;
  if (p.lda < a_cols || p.ldb < b_cols || p.ldc < p.n)
    return damaged("a gemm with a leading dimension below its row: {}, {}, {}", p.lda, p.ldb, p.ldc);
  if (p.batch > 1 && static_cast<Wide>(p.stride_c) < span_of(1, 0, p.m, p.n, p.ldc))
    return damaged("a gemm whose results overlap: batch stride {}", p.stride_c);
  auto span = [&](nabla::DType type, int64_t stride, int64_t rows, int64_t cols, int64_t leading) {
    return static_cast<Wide>(bytes_of(type)) * span_of(p.batch, stride, rows, cols, leading);
  };
  (void)NABLA_TRY(check_address(gemm.a(), "operand a", false, span(p.dtype, p.stride_a, a_rows, a_cols, p.lda)));
  (void)NABLA_TRY(check_address(gemm.b(), "operand b", false, span(p.type_b(), p.stride_b, b_rows, b_cols, p.ldb)));
  (void)NABLA_TRY(check_address(gemm.c(), "operand c", true, span(p.type_c(), p.stride_c, p.m, p.n, p.ldc)));
  return check_gemm_extras(gemm, static_cast<Wide>(bytes_of(p.type_c())));
}

Status ProgramCheck::check_gemm_extras(const Gemm& gemm, Wide element) {
  if (gemm.epilogue() > Epilogue::Gelu)
    return error(Code::kNewerVersion, "{}: {}unknown epilogue {} of a gemm", what_, where(),
                 static_cast<int>(gemm.epilogue()));
  if (gemm.bias() != nullptr)
    (void)NABLA_TRY(check_address(gemm.bias(), "the bias", false, element * static_cast<Wide>(gemm.n())));
  if (gemm.addend() != nullptr)
    (void)NABLA_TRY(check_address(gemm.addend(), "the addend", false,
                                  element * span_of(gemm.batch(), gemm.stride_c(), gemm.m(), gemm.n(), gemm.ldc())));
  if (gemm.workspace() != nullptr) (void)NABLA_TRY(check_address(gemm.workspace(), "the workspace", true, 0));
  return check_fallback(gemm.fallback(), gemm.fallback_operands());
}

Status ProgramCheck::check_fallback(const Launch* fallback, const flatbuffers::Vector<const Operand*>* operands) {
  if (fallback == nullptr) return Ok{};
  (void)NABLA_TRY(check_launch(*fallback));
  return check_operands(operands, arguments_of(*fallback));
}

Status ProgramCheck::check_convolution(const Convolution& c) {
  if (c.kind() > ConvKind::FilterGrad)
    return error(Code::kNewerVersion, "{}: {}unknown kind of convolution {}", what_, where(),
                 static_cast<int>(c.kind()));
  if (c.dtype() != DType::F32 && c.dtype() != DType::BF16 && c.dtype() != DType::F16)
    return damaged("a convolution of element type {}", static_cast<int>(c.dtype()));
  if (view(c.implementation()).empty()) return damaged("a convolution without an implementation");
  const ConvolutionSpec p = problem_of(c);
  const std::vector<int64_t>&in = p.input_shape, &filter = p.filter_shape, &out = p.output_shape;
  const std::vector<int64_t>&stride = p.strides, &dilation = p.dilations, &low = p.padding_low, &high = p.padding_high;
  size_t rank = in.size();
  if (rank < 3 || rank > 5 || filter.size() != rank || out.size() != rank)
    return damaged("a convolution of ranks {}, {}, {}", in.size(), filter.size(), out.size());
  size_t spatial = rank - 2;
  if (stride.size() != spatial || dilation.size() != spatial || low.size() != spatial || high.size() != spatial)
    return damaged("a convolution whose windows have another rank than its {} spatial axes", spatial);
  if (std::string bad = implausible_fields(p, kMaxExtent); !bad.empty()) return damaged("a convolution with {}", bad);
  for (const auto* shape : {&in, &filter, &out})
    for (int64_t extent : *shape)
      if (extent < 1) return damaged("a convolution with extent {}", extent);
  (void)NABLA_TRY(check_reference(c.batch_size(), in[0], "the batch of a convolution"));
  int64_t groups = p.groups;
  if (groups < 1 || in[rank - 1] % groups != 0 || filter[rank - 2] != in[rank - 1] / groups ||
      out[rank - 1] != filter[rank - 1] || out[rank - 1] % groups != 0 || out[0] != in[0])
    return damaged("a convolution of {} groups with input {}, filter {}, output {}", groups, shape_str(in),
                   shape_str(filter), shape_str(out));
  for (size_t d = 0; d < spatial; ++d) {
    if (stride[d] < 1 || dilation[d] < 1)
      return damaged("a convolution with stride {} and dilation {} on axis {}", stride[d], dilation[d], d);
    Wide window = static_cast<Wide>(filter[d] - 1) * static_cast<Wide>(dilation[d]) + 1;
    Wide padded = static_cast<Wide>(in[d + 1] + low[d] + high[d]);
    if (window > padded || (padded - window) / static_cast<Wide>(stride[d]) + 1 != static_cast<Wide>(out[d + 1]))
      return damaged("a convolution whose output extent {} on axis {} does not follow from its window", out[d + 1], d);
  }
  Wide element = element_bytes(c.dtype());
  (void)NABLA_TRY(check_address(c.input(), "the input", c.kind() == ConvKind::InputGrad, element * count_elements(in)));
  (void)NABLA_TRY(
      check_address(c.filter(), "the filter", c.kind() == ConvKind::FilterGrad, element * count_elements(filter)));
  (void)NABLA_TRY(
      check_address(c.output(), "the output", c.kind() == ConvKind::Forward, element * count_elements(out)));
  if (c.workspace() != nullptr) (void)NABLA_TRY(check_address(c.workspace(), "the workspace", true, 0));
  return check_fallback(c.fallback(), c.fallback_operands());
}

Status ProgramCheck::check_copy(const Copy& copy) {
  (void)NABLA_TRY(check_reference(copy.bytes_size(), static_cast<int64_t>(copy.bytes()), "the number of bytes"));
  (void)NABLA_TRY(check_address(copy.from(), "the source", false, copy.bytes()));
  return check_address(copy.to(), "the target", true, copy.bytes());
}

Status ProgramCheck::check_block(uint32_t block) {
  if (block >= block_limit_) return damaged("block {} of {} that it may use", block, block_limit_);
  if (++depth_ > kMaxNesting)
    return error(Code::kTooLarge, "{}: {}loops, branches and calls nested more than {} deep", what_, where(),
                 kMaxNesting);
  const auto* instructions = program_.blocks()->Get(block)->instructions();
  // Blocks that several instructions run are planned once for each: that is the work of loading the program.
  work_ += instructions == nullptr ? 0 : instructions->size();
  if (work_ > kMaxInstructions)
    return error(Code::kTooLarge, "{}: {}blocks run more than {} instructions, loops counted once", what_, where(),
                 kMaxInstructions);
  uint32_t outer = std::exchange(block_limit_, block);
  (void)NABLA_TRY(check_instructions(instructions));
  block_limit_ = outer;
  --depth_;
  return Ok{};
}

Status ProgramCheck::set_register(uint16_t which, int64_t low, int64_t high) {
  if (registers_.emplace(which, Range{low, high}).second) return Ok{};
  return damaged("register {} is in use around it", which);
}

Status ProgramCheck::check_loop(const Loop& loop) {
  if (!plausible(loop.trips())) return damaged("a loop of {} trips", loop.trips());
  (void)NABLA_TRY(check_reference(loop.trips_size(), loop.trips(), "the number of trips"));
  (void)NABLA_TRY(set_register(loop.register_(), 0, std::max<int64_t>(loop.trips() - 1, 0)));
  (void)NABLA_TRY(check_block(loop.body()));
  registers_.erase(loop.register_());
  return Ok{};
}

Status ProgramCheck::check_call(const Call& call) {
  uint32_t count = call.registers() == nullptr ? 0 : call.registers()->size();
  for (uint32_t i = 0; i < count; ++i) {
    const RegisterValue& set = *call.registers()->Get(i);
    if (!plausible(set.value())) return damaged("a call sets register {} to {}", set.register_(), set.value());
    (void)NABLA_TRY(set_register(set.register_(), set.value(), set.value()));
  }
  (void)NABLA_TRY(check_block(call.block()));
  for (uint32_t i = 0; i < count; ++i) registers_.erase(call.registers()->Get(i)->register_());
  return Ok{};
}

Status ProgramCheck::open_handle(uint32_t handle) {
  if (handles_.insert(handle).second) return Ok{};
  return damaged("handle {} is started twice", handle);
}

Status ProgramCheck::check_collective(const Collective& c) {
  if (c.kind() > CollectiveKind::MAX || c.reduction() > Reduction::MAX)
    return error(Code::kNewerVersion, "{}: {}unknown collective {} with reduction {}", what_, where(),
                 static_cast<int>(c.kind()), static_cast<int>(c.reduction()));
  uint64_t element = element_bytes(c.dtype());
  if (element == 0)
    return error(Code::kNewerVersion, "{}: {}a collective of unknown element type {}", what_, where(),
                 static_cast<int>(c.dtype()));
  if (c.group() >= row_.groups.size()) return damaged("group {} of {}", c.group(), row_.groups.size());
  uint32_t members = row_.groups[c.group()];
  const CollectiveDef& def = def_of(c.kind());
  if (def.combines == (c.reduction() == Reduction::None)) return damaged("{} reduction", def.combines ? "no" : "a");
  (void)NABLA_TRY(check_reference(c.bytes_size(), static_cast<int64_t>(c.bytes()), "the number of bytes"));
  if (c.bytes() > kMaxBytes || c.bytes() % (def.cuts ? element * members : element) != 0)
    return damaged("{} bytes for {} members with elements of {}", c.bytes(), members, element);
  if (c.root() >= members) return damaged("root {} of {} members", c.root(), members);
  (void)NABLA_TRY(check_targets(c, members));
  const Wide to = result_bytes<Wide>(def, c.bytes(), members);
  (void)NABLA_TRY(check_address(c.from(), "the source", false, c.bytes()));
  (void)NABLA_TRY(check_address(c.to(), "the target", true, to));
  return open_handle(c.handle());
}

Status ProgramCheck::check_transfer(const Transfer& t) {
  if (program_.compute() == 0) return damaged("a transfer in a program for CPUs, whose memory is the host's");
  (void)NABLA_TRY(check_address(t.from(), "the source", false, t.bytes()));
  (void)NABLA_TRY(check_address(t.to(), "the target", true, t.bytes()));
  if ((t.from()->base() == BaseKind::Host) == (t.to()->base() == BaseKind::Host))
    return damaged("a transfer that is none between the host's memory and the GPU's");
  for (const Address* address : {t.from(), t.to()})
    if (address->bytes() != t.bytes()) return damaged("a transfer of {} bytes with an operand of {}", t.bytes(), address->bytes());
  return open_handle(t.handle());
}

Status ProgramCheck::check_targets(const Collective& c, uint32_t members) {
  uint32_t count = c.targets() == nullptr ? 0 : c.targets()->size();
  uint32_t due = c.kind() == CollectiveKind::Permute ? members : 0;
  if (count != due) return damaged("{} targets where {} are due", count, due);
  std::set<int32_t> seen;
  for (uint32_t i = 0; i < count; ++i) {
    int32_t target = c.targets()->Get(i);
    if (target < -1 || target >= static_cast<int64_t>(members) || (target >= 0 && !seen.insert(target).second))
      return damaged("member {} sends to {}, which is none, or which another one sends to", i, target);
  }
  return Ok{};
}

Status ProgramCheck::check_while(const While& loop) {
  (void)NABLA_TRY(check_address(loop.predicate(), "the predicate", true, 1));
  (void)NABLA_TRY(check_block(loop.condition()));
  return check_block(loop.body());
}

Status ProgramCheck::check_branch(const Branch& branch) {
  if (branch.index_dtype() != DType::Bool && branch.index_dtype() != DType::I32)
    return damaged("a branch by element type {}", static_cast<int>(branch.index_dtype()));
  (void)NABLA_TRY(check_address(branch.index(), "the index", false, element_bytes(branch.index_dtype())));
  if (branch.blocks() == nullptr || branch.blocks()->size() == 0) return damaged("a branch without blocks");
  for (uint32_t block : *branch.blocks()) (void)NABLA_TRY(check_block(block));
  return Ok{};
}

Status ProgramCheck::check_debug(const Debug& debug) {
  uint32_t count = debug.operands() == nullptr ? 0 : debug.operands()->size();
  uint32_t tensors = debug.tensors() == nullptr ? 0 : debug.tensors()->size();
  if (count != tensors) return damaged("{} tensors for {} operands", tensors, count);
  std::vector<nabla::DType> dtypes;
  for (uint32_t i = 0; i < count; ++i) {
    const DebugTensor& tensor = *debug.tensors()->Get(i);
    std::string role = fmt::format("operand {}", i);
    if (element_bytes(tensor.dtype()) == 0)
      return error(Code::kNewerVersion, "{}: {}{} has unknown element type {}", what_, where(), role,
                   static_cast<int>(tensor.dtype()));
    dtypes.push_back(static_cast<nabla::DType>(tensor.dtype()));
    std::vector<int64_t> shape = list(tensor.shape());
    uint32_t sizes = tensor.sizes() == nullptr ? 0 : tensor.sizes()->size();
    if (sizes > 0 && sizes != shape.size()) return damaged("{} of rank {} has {} sizes", role, shape.size(), sizes);
    for (size_t d = 0; d < shape.size(); ++d) {
      if (!plausible(shape[d])) return damaged("{} has extent {}", role, shape[d]);
      if (sizes > 0)
        (void)NABLA_TRY(check_reference(tensor.sizes()->Get(static_cast<uint32_t>(d)), shape[d], role));
    }
    Wide bytes = element_bytes(tensor.dtype()) * count_elements(shape);
    (void)NABLA_TRY(check_address(debug.operands()->Get(i), role, false, bytes));
  }
  if (!view(debug.callback()).empty()) return Ok{};
  Status text = check_debug_text(view(debug.text()), dtypes);
  return text.ok() ? Status(Ok{}) : damaged("{}", text.errors()[0].message);
}

}  // namespace nabla::format

#include "runtime/format/program_check.h"

#include <algorithm>
#include <cstdlib>
#include <set>
#include <tuple>
#include <utility>

#include "runtime/base/dtype.h"
#include "runtime/base/literal.h"
#include "runtime/format/members.h"

namespace nabla::format {
namespace {

constexpr uint32_t kProgramVersion = 1;

}  // namespace

uint64_t element_bytes(DType dtype) {
  auto index = static_cast<int>(dtype);
  return index < kDTypeCount ? bytes_of(static_cast<nabla::DType>(index)) : 0;
}

std::string_view view(const flatbuffers::String* text) {
  return text == nullptr ? std::string_view() : std::string_view(text->c_str(), text->size());
}

Status ProgramCheck::run() {
  if (program_.version() > kProgramVersion)
    return error(Code::kNewerVersion, "{}: program version {}; this program reads up to {}", what_, program_.version(),
                 kProgramVersion);
  (void)NABLA_TRY(check_counts());
  (void)NABLA_TRY(check_tables());
  (void)NABLA_TRY(check_sizes());
  (void)NABLA_TRY(check_memory());
  (void)NABLA_TRY(check_state());
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < size_of(program_.entries()); ++i) {
    const Entry& entry = *program_.entries()->Get(i);
    std::string_view name = view(entry.name());
    if (name.empty()) return damaged("entry {} has no name", i);
    if (!names.insert(name).second) return damaged("two entries are named `{}`", name);
    where_ = fmt::format("entry `{}`: ", name);
    (void)NABLA_TRY(check_entry(entry));
    where_.clear();
  }
  return Ok{};
}

std::vector<const Instructions*> instructions_of(const Program& program) {
  std::vector<const Instructions*> out;
  for (uint32_t i = 0; i < size_of(program.blocks()); ++i) out.push_back(program.blocks()->Get(i)->instructions());
  for (uint32_t i = 0; i < size_of(program.entries()); ++i) {
    const Entry& entry = *program.entries()->Get(i);
    out.push_back(entry.instructions());
    for (uint32_t k = 0; k < size_of(entry.variants()); ++k) out.push_back(entry.variants()->Get(k)->instructions());
  }
  std::erase(out, nullptr);
  return out;
}

Status ProgramCheck::check_counts() {
  uint64_t count = 0;
  for (const Instructions* list : instructions_of(program_)) count += list->size();
  if (count <= kMaxInstructions) return Ok{};
  return error(Code::kTooLarge, "{}: the program has {} instructions, the limit is {}", what_, count, kMaxInstructions);
}

Status ProgramCheck::check_tables() {
  for (uint32_t i = 0; i < size_of(program_.kernels()); ++i) {
    const Kernel& kernel = *program_.kernels()->Get(i);
    if (view(kernel.symbol()).empty()) return damaged("kernel {} has no symbol", i);
    if (member_size_(view(kernel.object())) <= 0)
      return damaged("kernel `{}` is in member `{}`, which is not there", view(kernel.symbol()), view(kernel.object()));
    (void)NABLA_TRY(check_grids(kernel));
  }
  for (uint32_t i = 0; i < size_of(program_.libraries()); ++i) {
    const Library& library = *program_.libraries()->Get(i);
    if (view(library.name()).empty() || view(library.soname()).empty())
      return damaged("library {} has no name or soname", i);
  }
  return Ok{};
}

Status ProgramCheck::check_grids(const Kernel& kernel) {
  uint32_t grids = size_of(kernel.grids());
  if ((grids > 0) != (program_.compute() != 0))
    return damaged("kernel `{}` has {} grids in a program for {}", view(kernel.symbol()), grids,
                   program_.compute() != 0 ? "GPUs" : "CPUs");
  for (uint32_t i = 0; i < grids; ++i) {
    const Grid& grid = *kernel.grids()->Get(i);
    if (view(grid.symbol()).empty()) return damaged("grid {} of kernel `{}` has no symbol", i, view(kernel.symbol()));
    bool fits = grid.blocks() >= 1 && grid.blocks() <= kMaxBlocks && grid.threads() >= 1 &&
                grid.threads() <= kMaxBlockThreads && grid.shared_bytes() <= kMaxBlockShared;
    if (!fits)
      return damaged("grid `{}` has {} blocks of {} threads with {} bytes of shared memory", view(grid.symbol()),
                     grid.blocks(), grid.threads(), grid.shared_bytes());
    (void)NABLA_TRY(check_reference(grid.blocks_size(), grid.blocks(), "the number of blocks"));
    for (uint32_t m = 0; m < size_of(grid.maps()); ++m) (void)NABLA_TRY(check_map(*grid.maps()->Get(m), view(grid.symbol())));
  }
  return Ok{};
}

Status ProgramCheck::check_map(const TensorMap& map, std::string_view symbol) {
  const uint32_t rank = size_of(map.sizes());
  if (rank < 2 || rank > 5 || size_of(map.strides()) != rank - 1 || size_of(map.box()) != rank || map.element_bytes() < 1 ||
      map.element_bytes() > 2 || map.box()->Get(0) * map.element_bytes() != 128)
    return damaged("grid `{}` has a tensor map of {} sizes, {} strides and a box of {} for elements of {} bytes", symbol, rank,
                   size_of(map.strides()), size_of(map.box()), map.element_bytes());
  return Ok{};
}

Status ProgramCheck::check_sizes() {
  for (uint32_t i = 0; i < size_of(program_.symbols()); ++i) {
    const Symbol& s = *program_.symbols()->Get(i);
    bool sane = !view(s.name()).empty() && s.multiple() >= 1 && s.min() >= 0 && s.min() <= s.max() &&
                s.max() <= static_cast<int64_t>(kMaxBytes) && s.max() / s.multiple() * s.multiple() >= s.min();
    if (!sane)
      return damaged("symbol `{}` has no size that is in [{}, {}] and a multiple of {}", view(s.name()), s.min(),
                     s.max(), s.multiple());
    if (s.group() > row_.groups.size())
      return damaged("symbol `{}` is a place in group {} of {}", view(s.name()), s.group() - 1, row_.groups.size());
    if (s.group() > 0 && (s.min() != 0 || s.max() + 1 != row_.groups[s.group() - 1]))
      return damaged("symbol `{}` is a place among {} members, in [{}, {}]", view(s.name()), row_.groups[s.group() - 1],
                     s.min(), s.max());
    for (uint32_t b = 0; b < size_of(s.buckets()); ++b)
      if (s.buckets()->Get(b) < (b == 0 ? s.min() : s.buckets()->Get(b - 1) + 1) || s.buckets()->Get(b) > s.max())
        return damaged("symbol `{}` has a bucket up to {}", view(s.name()), s.buckets()->Get(b));
  }
  for (uint32_t i = 0; i < size_of(program_.sizes()); ++i) {
    where_ = fmt::format("size {}: ", i);
    (void)NABLA_TRY(check_size(*program_.sizes()->Get(i)));
  }
  for (uint32_t i = 0; i < size_of(program_.constraints()); ++i) {
    where_ = fmt::format("constraint {}: ", i);
    (void)NABLA_TRY(check_constraint(*program_.constraints()->Get(i)));
  }
  where_.clear();
  return Ok{};
}

Status ProgramCheck::check_size(const Size& size) {
  int depth = 0;
  if (size.max() < 0 || size.max() > static_cast<int64_t>(kMaxBytes)) return damaged("a bound of {}", size.max());
  for (uint32_t i = 0; i < (size.steps() == nullptr ? 0 : size.steps()->size()); ++i) {
    const SizeStep& step = *size.steps()->Get(i);
    if (step.op() > SizeOp::Max)
      return error(Code::kNewerVersion, "{}: {}unknown operation {}", what_, where(), static_cast<int>(step.op()));
    bool leaf = step.op() == SizeOp::Constant || step.op() == SizeOp::Symbol;
    if (step.op() == SizeOp::Symbol && (step.value() < 0 || step.value() >= size_of(program_.symbols())))
      return damaged("symbol {} of {}", step.value(), size_of(program_.symbols()));
    if (!leaf && depth < 2) return damaged("an operation without operands");
    depth += leaf ? 1 : -1;
    if (depth > kMaxSizeStack)
      return error(Code::kTooLarge, "{}: {}an expression deeper than {}", what_, where(), kMaxSizeStack);
  }
  if (depth != 1) return damaged("an expression that leaves {} values", depth);
  return Ok{};
}

Status ProgramCheck::check_constraint(const Constraint& constraint) {
  if (constraint.relation() > Relation::MAX)
    return error(Code::kNewerVersion, "{}: {}unknown relation {}", what_, where(),
                 static_cast<int>(constraint.relation()));
  if (constraint.left() == nullptr || constraint.right() == nullptr) return damaged("a side is missing");
  (void)NABLA_TRY(check_size(*constraint.left()));
  (void)NABLA_TRY(check_size(*constraint.right()));
  if (constraint.location() >= std::max<uint32_t>(size_of(program_.locations()), 1))
    return damaged("location {} of {}", constraint.location(), size_of(program_.locations()));
  return Ok{};
}

Status ProgramCheck::check_known(const Size* size, const std::set<uint32_t>& known, std::string_view what) {
  if (size == nullptr) return Ok{};
  (void)NABLA_TRY(check_size(*size));
  for (const SizeStep* step : *size->steps())
    if (step->op() == SizeOp::Symbol && !known.count(static_cast<uint32_t>(step->value())))
      return damaged("{} needs symbol {}, which no earlier source tells", what, step->value());
  return Ok{};
}

Status ProgramCheck::check_reference(uint32_t reference, int64_t constant, std::string_view what) {
  if (reference == 0) return Ok{};
  if (reference > size_of(program_.sizes()))
    return damaged("{} is size {} of {}", what, reference - 1, size_of(program_.sizes()));
  int64_t bound = program_.sizes()->Get(reference - 1)->max();
  if (bound != constant) return damaged("{} is bounded by {}, but its size by {}", what, constant, bound);
  return Ok{};
}

Status ProgramCheck::check_sources(const Entry& entry) {
  std::set<uint32_t> known;
  for (uint32_t i = 0; i < size_of(entry.sources()); ++i) {
    const SymbolSource& s = *entry.sources()->Get(i);
    if (s.symbol() >= size_of(program_.symbols())) return damaged("source {} of no symbol", i);
    if (program_.symbols()->Get(s.symbol())->group() > 0) return damaged("source {} of a rank's place", i);
    (void)NABLA_TRY(check_known(s.scale_size(), known, "a scale"));
    (void)NABLA_TRY(check_known(s.offset_size(), known, "an offset"));
    if (!known.insert(s.symbol()).second) return damaged("two sources of symbol {}", s.symbol());
    if (s.input() >= size_of(entry.inputs())) return damaged("source {} is input {}", i, s.input());
    const Tensor& tensor = *entry.inputs()->Get(s.input());
    if (s.dimension() >= size_of(tensor.sizes()) || tensor.sizes()->Get(s.dimension()) == 0)
      return damaged("source {} is dimension {}, which is no size", i, s.dimension());
    if (s.scale() < 1 || s.scale() > static_cast<int64_t>(kMaxBytes) ||
        std::abs(s.offset()) > static_cast<int64_t>(kMaxBytes))
      return damaged("source {} is {} times a symbol plus {}", i, s.scale(), s.offset());
  }
  for (uint32_t i = 0; i < size_of(entry.variants()); ++i)
    if (size_of(entry.variants()->Get(i)->values()) != known.size())
      return damaged("variant {} has {} values for {} sources", i, size_of(entry.variants()->Get(i)->values()),
                     known.size());
  return Ok{};
}

Status ProgramCheck::check_memory() {
  if (program_.arena_bytes() > kMaxBytes)
    return error(Code::kTooLarge, "{}: an arena of {} bytes; at most {}", what_, program_.arena_bytes(), kMaxBytes);
  if (program_.state_bytes() > program_.arena_bytes())
    return damaged("{} bytes of state in an arena of {}", program_.state_bytes(), program_.arena_bytes());
  if (program_.host_bytes() > kMaxBytes)
    return error(Code::kTooLarge, "{}: {} bytes of state in the host's memory; at most {}", what_, program_.host_bytes(), kMaxBytes);
  if (program_.host_bytes() > 0 && program_.compute() == 0)
    return damaged("{} bytes of state beside the arena of a program for CPUs", program_.host_bytes());
  int64_t constants = std::max<int64_t>(member_size_(constants_member(program_)), 0);
  if (program_.constants_bytes() != static_cast<uint64_t>(constants))
    return damaged("{} bytes of constants are named, {} are there", program_.constants_bytes(), constants);
  return Ok{};
}

Status ProgramCheck::check_state() {
  std::set<std::string_view> names;
  std::vector<std::tuple<bool, uint64_t, uint64_t>> ranges;  // in which memory, from where to where
  for (uint32_t i = 0; i < size_of(program_.state()); ++i) {
    const StateLeaf& leaf = *program_.state()->Get(i);
    uint64_t bytes = NABLA_TRY(check_tensor(leaf.tensor(), "state leaf"));
    std::string_view name = view(leaf.tensor()->name());
    if (!names.insert(name).second) return damaged("two state leaves are named `{}`", name);
    uint64_t room = leaf.host() ? program_.host_bytes() : program_.state_bytes();
    if (leaf.offset() > room || bytes > room - leaf.offset())
      return damaged("state leaf `{}` ({} bytes at {}) lies outside the {} bytes of state", name, bytes, leaf.offset(), room);
    if (leaf.offset() % element_bytes(leaf.tensor()->dtype()) != 0)
      return damaged("state leaf `{}` at {} is not aligned", name, leaf.offset());
    if (bytes > 0) ranges.emplace_back(leaf.host(), leaf.offset(), leaf.offset() + bytes);
  }
  std::sort(ranges.begin(), ranges.end());
  for (size_t i = 1; i < ranges.size(); ++i)
    if (auto [host, begin, end] = ranges[i]; host == std::get<0>(ranges[i - 1]) && begin < std::get<2>(ranges[i - 1]))
      return damaged("state leaves overlap at byte {}", begin);
  return Ok{};
}

Result<uint64_t> ProgramCheck::check_tensor(const Tensor* tensor, std::string_view role) {
  if (tensor == nullptr || view(tensor->name()).empty()) return damaged("{} without a name", role);
  std::string_view name = view(tensor->name());
  uint64_t element = element_bytes(tensor->dtype());
  if (element == 0)
    return error(Code::kNewerVersion, "{}: {} `{}` has unknown element type {}", what_, role, name,
                 static_cast<int>(tensor->dtype()));
  if (size_of(tensor->shape()) > kMaxRank) return damaged("{} `{}` has rank {}", role, name, tensor->shape()->size());
  unsigned __int128 bytes = element;
  for (uint32_t d = 0; d < size_of(tensor->shape()); ++d) {
    int64_t extent = tensor->shape()->Get(d);
    if (extent < 0) return damaged("{} `{}` has extent {}", role, name, extent);
    bytes *= static_cast<uint64_t>(std::min<uint64_t>(extent, kMaxBytes));
    if (bytes > kMaxBytes) return error(Code::kTooLarge, "{}: {} `{}` is above {} bytes", what_, role, name, kMaxBytes);
  }
  bool symbolic = size_of(tensor->sizes()) > 0;
  for (uint32_t d = 0; d < size_of(tensor->symbols()); ++d)
    if (!view(tensor->symbols()->Get(d)).empty() && !symbolic)
      return damaged("{} `{}` has the size {}, but no reference to it", role, name, view(tensor->symbols()->Get(d)));
  if (!symbolic) return static_cast<uint64_t>(bytes);
  if (role == "state leaf") return damaged("state leaf `{}` has a symbolic size", name);
  if (size_of(tensor->sizes()) != size_of(tensor->shape()) || size_of(tensor->symbols()) != size_of(tensor->shape()))
    return damaged("{} `{}` of rank {} has {} sizes", role, name, size_of(tensor->shape()), size_of(tensor->sizes()));
  for (uint32_t d = 0; d < size_of(tensor->sizes()); ++d)
    (void)NABLA_TRY(check_reference(tensor->sizes()->Get(d), tensor->shape()->Get(d), name));
  return static_cast<uint64_t>(bytes);
}

Status ProgramCheck::check_tensors(const flatbuffers::Vector<flatbuffers::Offset<Tensor>>* tensors,
                                   std::string_view role) {
  std::set<std::string_view> names;
  std::vector<uint64_t>& sizes = role == "input" ? input_bytes_ : output_bytes_;
  sizes.clear();
  for (uint32_t i = 0; i < size_of(tensors); ++i) {
    sizes.push_back(NABLA_TRY(check_tensor(tensors->Get(i), role)));
    if (!names.insert(view(tensors->Get(i)->name())).second)
      return damaged("two {}s are named `{}`", role, view(tensors->Get(i)->name()));
  }
  return Ok{};
}

Status ProgramCheck::check_leaves(const flatbuffers::Vector<uint32_t>* leaves, std::string_view role) {
  for (uint32_t i = 0; i < size_of(leaves); ++i)
    if (leaves->Get(i) >= size_of(program_.state()))
      return damaged("it {} state leaf {} of {}", role, leaves->Get(i), size_of(program_.state()));
  return Ok{};
}

Status ProgramCheck::check_entry(const Entry& entry) {
  entry_ = &entry;
  (void)NABLA_TRY(check_tensors(entry.inputs(), "input"));
  (void)NABLA_TRY(check_tensors(entry.outputs(), "output"));
  (void)NABLA_TRY(check_leaves(entry.reads(), "reads"));
  (void)NABLA_TRY(check_leaves(entry.writes(), "writes"));
  (void)NABLA_TRY(check_sources(entry));
  registers_.clear();
  block_limit_ = size_of(program_.blocks());
  for (uint32_t i = 0; i < size_of(entry.variants()); ++i)
    (void)NABLA_TRY(check_instructions(entry.variants()->Get(i)->instructions()));
  return check_instructions(entry.instructions());
}

Status ProgramCheck::check_instructions(const flatbuffers::Vector<flatbuffers::Offset<Instruction>>* list) {
  std::set<uint32_t> outer = std::exchange(handles_, {});
  for (uint32_t i = 0; i < size_of(list); ++i) {
    const Instruction& instruction = *list->Get(i);
    path_.emplace_back(i, view(instruction.label()));
    if (instruction.location() >= std::max<uint32_t>(size_of(program_.locations()), 1))
      return damaged("location {} of {}", instruction.location(), size_of(program_.locations()));
    (void)NABLA_TRY(check_instruction(instruction));
    path_.pop_back();
  }
  if (!handles_.empty()) return damaged("handle {} is never awaited", *handles_.begin());
  handles_ = std::move(outer);
  return Ok{};
}

std::string ProgramCheck::where() const {
  constexpr size_t kShown = 4;  // at each end
  std::string out = where_;
  for (size_t i = 0; i < path_.size(); ++i) {
    bool cut = path_.size() > 2 * kShown + 1 && i >= kShown && i + kShown < path_.size();
    if (!cut) out += fmt::format("instruction {} `{}`: ", path_[i].first, path_[i].second);
    if (cut && i == kShown) out += "...: ";
  }
  return out;
}

std::string_view constants_member(const Program& program) {
  std::string_view named = view(program.constants());
  return named.empty() ? kConstantsMember : named;
}

}  // namespace nabla::format

// Semantic checks of a program that already passed the FlatBuffers verifier: every index, address, size and shape.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/format/bundle_reader.h"
#include "runtime/format/program_generated.h"

namespace nabla::format {

inline constexpr uint32_t kMaxRank = 32;  ///< dimensions of a tensor

using Instructions = flatbuffers::Vector<flatbuffers::Offset<Instruction>>;
/// Every list of instructions in the program: those of blocks, then of each entry its own and those of its variants.
/// Lists that are absent are left out.
std::vector<const Instructions*> instructions_of(const Program& program);

/// 0 for a list that is absent.
template <class T>
uint32_t size_of(const flatbuffers::Vector<T>* list) {
  return list == nullptr ? 0 : list->size();
}

class ProgramCheck {
 public:
  /// `member_size` gives the size of a member of the bundle, or -1 when there is none; `row` is what programs of its
  /// class may name.
  ProgramCheck(const Program& program, const std::string& what,
               const std::function<int64_t(std::string_view)>& member_size, const CommunicationRow& row)
      : program_(program), what_(what), member_size_(member_size), row_(row) {}

  /// E0103 when the program uses what this version does not know, E0104 when something in it is out of bounds,
  /// E0106 for what is above a limit.
  Status run();

 private:
  Status check_counts();
  Status check_tables();
  Status check_grids(const Kernel& kernel);
  Status check_map(const TensorMap& map, std::string_view symbol);
  Status check_sizes();
  Status check_size(const Size& size);
  Status check_sources(const Entry& entry);
  /// A size of these symbols alone; null is fine.
  Status check_known(const Size* size, const std::set<uint32_t>& known, std::string_view what);
  Status check_constraint(const Constraint& constraint);
  /// `reference` is 0, or a size whose bound is `constant`.
  Status check_reference(uint32_t reference, int64_t constant, std::string_view what);
  Status check_memory();
  Status check_state();
  Status check_entry(const Entry& entry);
  Status check_tensors(const flatbuffers::Vector<flatbuffers::Offset<Tensor>>* tensors, std::string_view role);
  Result<uint64_t> check_tensor(const Tensor* tensor, std::string_view role);
  Status check_leaves(const flatbuffers::Vector<uint32_t>* leaves, std::string_view role);

  // In program_check_actions.cc: where() names the instruction under check.
  Status check_instructions(const Instructions* list);
  Status check_instruction(const Instruction& instruction);
  Status check_action(const Instruction& instruction);
  /// Operands are none, or one per address, of elements that fill it.
  Status check_operands(const flatbuffers::Vector<const Operand*>* operands,
                        const std::vector<const Address*>& addresses);
  Status check_launch(const Launch& launch);
  Status check_gemm_types(const Gemm& gemm);
  Status check_gemm(const Gemm& gemm);
  Status check_gemm_extras(const Gemm& gemm, unsigned __int128 element);
  Status check_fallback(const Launch* fallback, const flatbuffers::Vector<const Operand*>* operands);
  Status check_convolution(const Convolution& convolution);
  Status check_copy(const Copy& copy);
  Status check_loop(const Loop& loop);
  Status check_while(const While& loop);
  Status check_branch(const Branch& branch);
  Status check_debug(const Debug& debug);
  Status check_call(const Call& call);
  Status check_transfer(const Transfer& t);
  Status check_collective(const Collective& c);
  template <class Message>  // Send or Recv, and its address
  Status check_message(const Message& message, const Address* at, bool sends);
  Status check_targets(const Collective& c, uint32_t members);
  Status open_handle(uint32_t handle);
  /// The block of an instruction, at the registers that are set there: it exists and stands before the block under
  /// check. E0106 where an entry runs more instructions than a program may have, loops counted once.
  Status check_block(uint32_t block);
  Status set_register(uint16_t which, int64_t low, int64_t high);
  /// The operand's extent; `written`: constants and inputs are refused; `needed`: bytes that the action touches.
  Status check_address(const Address* address, std::string_view role, bool written, unsigned __int128 needed);
  Status check_terms(const Address& address, std::string_view role, uint64_t limit);

  std::string where() const;
  template <class... Args>
  Diagnostic damaged(fmt::format_string<Args...> format, Args&&... args) const {
    return error(Code::kCorrupt, "{}: damaged program: {}{}", what_, where(),
                 fmt::format(format, std::forward<Args>(args)...));
  }

  const Program& program_;
  const std::string& what_;
  const std::function<int64_t(std::string_view)>& member_size_;
  const CommunicationRow& row_;
  const Entry* entry_ = nullptr;
  std::vector<uint64_t> input_bytes_, output_bytes_;  ///< of entry_
  struct Range {
    int64_t low, high;
  };
  std::map<uint16_t, Range> registers_;  ///< what every register that is in use may hold
  uint64_t work_ = 0;                    ///< instructions of blocks, once for each instruction that runs them
  std::set<uint32_t> handles_;           ///< that the list under check has started and not awaited
  bool transfers_ = false;               ///< the instruction under check is a transfer
  int depth_ = 0;                        ///< of blocks
  uint32_t block_limit_ = 0;  ///< instructions under check may refer to blocks below it
  std::string where_;                                        ///< the entry, size or constraint under check
  std::vector<std::pair<uint32_t, std::string_view>> path_;  ///< instructions from the entry's list down to it
};

/// Does it start an exchange with other ranks?
bool communicates(const Instruction& instruction);
/// Does it start what a Wait ends: such an exchange, or a transfer?
bool starts(const Instruction& instruction);
/// Of an instruction that does.
uint32_t handle_of(const Instruction& instruction);
/// The blocks that it runs, in the order of its fields.
std::vector<uint32_t> blocks_of(const Instruction& instruction);
/// The arguments of a launch, in their order.
std::vector<const Address*> arguments_of(const Launch& launch);
/// What an instruction touches itself, in the order of its fields or of its roles; null: a role that a call does not have.
std::vector<const Address*> addresses_of(const Instruction& instruction);
/// The member with the constants of a program.
std::string_view constants_member(const Program& program);
/// Bytes of one element of a schema dtype, 0 when the value is unknown.
uint64_t element_bytes(DType dtype);
/// "" for a null string.
std::string_view view(const flatbuffers::String* text);

}  // namespace nabla::format

// Small programs for the tests of bundles.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/format/bundle_writer.h"
#include "runtime/format/program_generated.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::format {

/// Of f32.
std::unique_ptr<TensorT> tensor(std::string name, std::vector<int64_t> shape);
std::unique_ptr<AddressT> address(BaseKind base, uint64_t offset, uint64_t bytes);
template <class ActionT>
std::unique_ptr<InstructionT> instruction(std::string label, ActionT action) {
  auto out = std::make_unique<InstructionT>();
  out->label = std::move(label);
  out->action.Set(std::move(action));
  return out;
}
std::unique_ptr<InstructionT> copy_step(std::unique_ptr<AddressT> from, std::unique_ptr<AddressT> to, uint64_t bytes);

/// One entry that copies its input to its output through the state leaf `w`. Needs small_members.
ProgramT small_program();
std::vector<BundleMember> small_members();

/// Four ranks, pp=2 and dp=2, that train in two stages. Everything differs between the classes but the entry `step`:
///   front (ranks 0, 1)  step(x f32[2,4])  reads and writes w f32[4]; sends f32[4], sums f32[4] over dp
///   back  (ranks 2, 3)  step() -> loss f32[]  receives f32[4], sums f32[4] over dp; reads m f32[2,4]
///                       reset()  writes m and n f32[]
/// The rows of x are cut over dp, those of m too.
struct TwoClasses {
  RanksT ranks;
  ProgramT front, back;
  Result<std::string> bytes() const;
};
TwoClasses two_classes();
/// The entry does nothing but in a variant, which does what the entry did.
void move_to_variant(EntryT& entry);

}  // namespace nabla::format

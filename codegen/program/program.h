// The local program: what one rank runs on one target, as typed instructions. build() makes it of a planned module,
// print() shows it to people, pack() writes it in the bundle's format.
//
// Entries and blocks are lists of instructions. A block is what loops, branches and calls run; it refers only to blocks
// that stand before it, so blocks form a directed acyclic graph. Registers hold the counters of loops and what calls
// set; they are numbers that addresses multiply with strides.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "ir/kernel_ir/kernel.h"
#include "ir/library/call.h"
#include "ir/module.h"
#include "ir/plan.h"
#include "ir/symbols.h"
#include "ir/target.h"

namespace nabla::program {

using Register = uint16_t;

/// Base + offset + the sum over `terms` of register (or its remainder by the modulus) * stride.
struct Address {
  ir::Base base = ir::Base::kArena;
  int index = 0;       ///< of the input or output
  int64_t offset = 0;  ///< bytes
  int64_t bytes = 0;   ///< that are accessed there, at most
  struct Term {
    Register counter;
    ir::Dim stride;       ///< bytes
    int64_t modulus = 0;  ///< 0: none; 2: a double buffer
    bool operator==(const Term&) const = default;
  };
  std::vector<Term> terms = {};
  bool operator==(const Address&) const = default;
};

/// What an instruction reads or writes: dense and row-major.
struct Operand {
  Address address;
  ir::Type type;
  bool written = false;
};

/// Runs a kernel: an operand for each of its buffers.
struct Launch {
  uint32_t kernel;  ///< of LocalProgram::kernels
  std::vector<Operand> operands;
  ir::Dim flops = 0;  ///< of the ops that it computes; 0: none, or unknown
  ir::Dim bytes = 0;  ///< that it reads and writes of its operands; 0: unknown
};

struct LibraryCall {
  ir::LibraryProblem problem;
  std::string_view library;    ///< "onednn", "cublaslt", "cudnn"
  std::string implementation;  ///< the library's way: "sgemm"
  struct Role {
    std::string_view name;  ///< "a", "bias", "filter"
    Operand operand;
  };
  std::vector<Role> roles;
  std::optional<Address> workspace;  ///< its bytes bound what the call may use
  std::optional<Launch> fallback;    ///< computes the same where the library is missing
  ir::Dim flops = 0;                 ///< multiplications and additions

  const Operand* find(std::string_view role) const;  ///< null: the call has none
};

struct Copy {
  Operand from, to;
};

/// Starts a copy between the host's memory and a GPU's, beside what follows. Its operands must not be touched until the Wait of
/// the same handle. One side is of the base kHost, which nothing else touches.
struct Transfer {
  uint32_t handle;
  Operand from, to;
};

/// Runs the block with `counter` from 0 to trips - 1, or from trips - 1 down to 0.
struct Loop {
  uint32_t body;
  Register counter;
  ir::Dim trips;
  bool reverse = false;
};

/// Runs `condition`, which writes the bool at `predicate`, then `body`, until the predicate is false.
struct While {
  uint32_t condition;
  Address predicate;
  uint32_t body;
};

/// Runs one of the blocks: that of the i32 at `index`, clamped to the range, or of the bool there (0 or 1).
struct Branch {
  Operand index;
  std::vector<uint32_t> blocks;
};

/// Runs a block with registers set. Any number of calls may run one block.
struct Call {
  uint32_t block;
  struct Set {
    Register counter;
    int64_t value;
  };
  std::vector<Set> registers;
};

/// Hands operands to the process that runs the program, which prints the text or calls the callback.
struct Debug {
  std::string text, callback;
  std::vector<Operand> operands;
};

// ---- Communication. A program never holds a rank's number: groups and channels are indices into the rank's own row.

enum class Reduction : uint8_t { kNone, kSum, kProd, kMax, kMin, kAnd, kOr };

/// Starts a collective over a group of ranks. Its operands must not be touched until the Wait of the same handle.
struct Collective {
  CollectiveKind kind;
  Reduction reduction = Reduction::kNone;  ///< of all_reduce and reduce_scatter
  uint32_t group;
  uint32_t handle;
  Operand from, to;
  uint32_t root = 0;                 ///< of broadcast: the member that has the value
  std::vector<int32_t> targets = {};  ///< of permute: to which member each one sends; -1: to none
};
struct Send {
  uint32_t channel, handle;
  Operand from;
};
struct Recv {
  uint32_t channel, handle;
  Operand to;
};
/// Ends what began with `handle` in the same block. The operands are those of the start.
struct Wait {
  uint32_t handle;
  std::vector<Operand> operands;
};

using Action =
    std::variant<Launch, LibraryCall, Copy, Loop, While, Branch, Call, Debug, Collective, Send, Recv, Wait, Transfer>;

struct Instruction {
  Action action;
  std::string label;  ///< for traces and errors: the kernel's or the op's name
  LocationRef location;
};
using Instructions = std::vector<Instruction>;

struct Named {
  std::string name;
  ir::Type type;
};

/// The instructions of an entry for chosen values of some of its symbols.
struct Variant {
  std::map<std::string, int64_t> values;  ///< by symbol; a symbol that is missing may be anything
  Instructions instructions;
};

struct Entry {
  std::string name;
  std::vector<Named> inputs, outputs;
  std::vector<int> reads, writes;  ///< state leaves
  Instructions instructions;
  std::vector<ir::SizeSource> sources;  ///< how a run learns its symbols
  std::vector<Variant> variants;        ///< the first that fits runs, else `instructions`
  int64_t bytes = 0;                    ///< read and written by all instructions, at the bounds
  int64_t flops = 0;                    ///< of a run; 0 where they are unknown or depend on sizes
  double predicted_us = 0;              ///< of a run on one of several ranks; 0: not told
};

/// By symbol, ascending: up to which sizes runs on GPUs share one recording of their launches.
using Buckets = std::map<std::string, std::vector<int64_t>>;

struct LocalProgram {
  ir::Target target;
  int64_t arena_bytes = 0;  ///< state and temporaries of all entries
  std::vector<ir::MemoryPlan::Constant> constants;
  int64_t constants_bytes = 0;
  struct Leaf {
    std::string name;
    ir::Type type;
    ir::Base base;   ///< kArena or kHost
    int64_t offset;  ///< there
  };
  std::vector<Leaf> state;
  int64_t state_bytes = 0;  ///< the leading part of the arena, which outlives a call
  int64_t host_bytes = 0;   ///< of leaves in the host's memory, beside a GPU's
  std::vector<ir::SizeConstraint> constraints;
  std::vector<kernel_ir::KernelPtr> kernels;
  std::vector<Instructions> blocks;
  std::vector<Entry> entries;
  Buckets buckets;
  std::vector<ir::Axes> groups;  ///< the mesh axes along which the members of each group differ
};


/// What an instruction reads and writes itself: not its blocks, and not a fallback's scratch.
std::vector<Operand> operands_of(const Instruction& instruction);
/// The blocks that it refers to, in the order of their fields.
std::vector<uint32_t> blocks_of(const Instruction& instruction);

}  // namespace nabla::program

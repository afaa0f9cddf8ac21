// Every error that Nabla reports has one of these codes. The numbers are stable: a code is never reused.
// `nablac doc errors` prints the table; each row is: enumerator, number, title, what to do.
#pragma once

#include <cstdint>
#include <string_view>

namespace nabla {

#define NABLA_ERROR_CODES(X)                                                                                          \
  X(kSyntax, 101, "the text or JSON does not parse", "correct the text at the place shown")                           \
  X(kUnknownOp, 102, "unknown op", "use a known op, or a newer nablac")                                               \
  X(kNewerVersion, 103, "made by a newer version", "use a nablac or nabla-run at least as new as the writer")         \
  X(kCorrupt, 104, "the bytes are damaged", "make or copy the file again")                                            \
  X(kForeignFile, 105, "not a file of this kind", "pass a file of the kind that the message names")                   \
  X(kTooLarge, 106, "a size exceeds its limit", "make it smaller; if a file names it, make the file again")           \
  X(kUnknownName, 107, "a name is not defined", "use one of the names that the message lists")                        \
  X(kDuplicateName, 108, "a name is defined twice", "rename one of the two")                                          \
  X(kNotSigned, 109, "a bundle is not signed as asked", "take one from who has that key; `nablac sign` signs bundles")  \
  X(kOperandCount, 201, "wrong number of operands or results", "pass what the op's documentation lists")              \
  X(kDTypeMismatch, 202, "operand dtypes do not fit", "convert one of the operands")                                  \
  X(kShapeMismatch, 203, "operand shapes do not fit", "reshape, transpose or broadcast one of the operands")          \
  X(kBadAttribute, 204, "an attribute is missing, unknown or out of range", "")                                       \
  X(kWrongStage, 205, "an op is not legal at this stage", "run the passes in the order of `nablac doc passes`")       \
  X(kTypeDisagrees, 206, "a stated type is not the inferred one", "correct the stated type")                          \
  X(kUndecidable, 207, "a symbolic size comparison cannot be decided", "add the constraint that the message names")   \
  X(kInvalidModule, 208, "the module breaks a structural rule", "see docs/ir-format.md")                              \
  X(kBadState, 209, "a state leaf is declared or used wrongly", "a leaf keeps one type in all entries")               \
  X(kBadSharding, 210, "a sharding does not fit", "change the sharding, the mesh or the shape")                       \
  X(kNotDifferentiable, 301, "no derivative exists", "do what the message says, or stop_gradient the operand")        \
  X(kNotScalar, 302, "grad needs a scalar floating result", "reduce the result to a scalar, or use vjp")              \
  X(kRecursion, 303, "functions call each other in a cycle", "write the loop with a bounded op")                      \
  X(kNoRule, 304, "an op has no rule for this transform", "")                                                         \
  X(kDonationFailed, 401, "a state leaf cannot be updated in place", "write the copy with nabla::copy")               \
  X(kOverBudget, 402, "the program exceeds a limit", "shrink the program, or raise the limit if an option sets it")   \
  X(kNoLowering, 403, "no backend code exists for an op", "")                                                         \
  X(kUnknownTarget, 404, "unknown target", "use one of the targets that the message lists")                           \
  X(kUnknownPass, 405, "unknown pass or option of a pass", "see `nablac doc passes`")                                 \
  X(kCompilerMissing, 501, "the host compiler is not there", "install g++ or set NABLA_CXX")                          \
  X(kCompilerFailed, 502, "the host compiler refused generated code", "report the reproducer that the message names") \
  X(kBadTuning, 503, "the tuning file is not usable", "run `nablac tune` again")                                      \
  X(kUserCode, 504, "a compiler refused code of the user's", "correct the line that the message shows")               \
  X(kNvrtcMissing, 505, "NVRTC is not there",                                                                         \
    "run ./quickstart --cuda, or set NABLA_NVRTC to libnvrtc.so.12 or later")                                         \
  X(kNvrtcFailed, 506, "NVRTC refused generated code", "report the reproducer that the message names")                \
  X(kCpuTooOld, 601, "this CPU lacks an instruction set", "compile the bundle for this CPU with --target")            \
  X(kMissingLibrary, 602, "a library that the bundle names is not there", "install it, or compile with --no-library") \
  X(kUnknownEntry, 603, "no such entry point", "use one of the entries that the message lists")                       \
  X(kKernelLoad, 604, "a kernel object cannot be loaded", "compile the bundle again on this kind of machine")         \
  X(kNoGpu, 605, "there is no usable GPU", "compile a CPU program too: --target cpu,sm_90a")                          \
  X(kWrongGpu, 606, "no program of the bundle runs on this GPU",                                                      \
    "compile the bundle for the target that the message names")                                                       \
  X(kGpuFailed, 607, "a call of the GPU's driver failed",                                                             \
    "run again with --sync-debug to see which instruction it was")                                                    \
  X(kNeedsPeers, 608, "the program communicates with other ranks",                                                     \
    "run all ranks of the bundle on this machine's CPUs: nabla-run without --class, a program for `cpu`")             \
  X(kRanksDiverge, 609, "ranks that wait for each other do not meet",                                                 \
    "no rank may leave out a collective: branches and loops around one must go the same way on all ranks")            \
  X(kPeerLost, 610, "another rank is gone or has failed",                                                             \
    "see the first cause, which the message names; with --checkpoint-dir, run again with --resume latest")            \
  X(kTooLate, 611, "a rank did not come in time",                                                                     \
    "see what it did in the report of --postmortem; --comm-timeout sets how long the others wait")                    \
  X(kCoordinatorLost, 612, "the coordinator of the ranks cannot be reached",                                          \
    "see the output of the process that started the ranks, and the network between the machines")                     \
  X(kPayloadCorrupt, 613, "a message came damaged", "check the network and the memory of both machines")              \
  X(kRanksDisagree, 614, "the ranks do not fit together", "start every rank once, all with the same bundle")          \
  X(kTransportFailed, 615, "the engine of communication failed", "see what it says; its own settings may help")       \
  X(kNoCheckpoint, 616, "there is no valid checkpoint",                                                                 \
    "see what is wrong with each; resume from a copy, or begin anew with another --checkpoint-dir")                   \
  X(kUnknownInput, 701, "no such input or output", "use one of the names that the message lists")                     \
  X(kInputMissing, 702, "an input has no value", "pass --input NAME=FILE")                                            \
  X(kInputShape, 703, "an input has another shape", "give it the shape that the entry declares: nablac inspect shows it") \
  X(kInputDType, 704, "an input has another dtype", "convert it to the dtype that the message names")                 \
  X(kStateMissing, 705, "state has no value yet", "run `init` first, or pass --state")                                \
  X(kStateMismatch, 706, "a file of state or weights does not fit", "`nablac inspect` lists the program's state")     \
  X(kMisuse, 707, "the call is not legal now", "")                                                                    \
  X(kNotFinite, 708, "an instruction made NaN or infinity",                                                           \
    "see the operands' ranges; compile with --no-fuse where the kernel has several ops")                              \
  X(kCallbackFailed, 709, "a debug callback failed", "mend the function that the message names")                      \
  X(kNotFound, 801, "a file cannot be opened", "check the path and its permissions")                                  \
  X(kReadFailed, 802, "reading failed", "check the file and the disk")                                                \
  X(kWriteFailed, 803, "writing failed", "see the reason in the message; check the path and its permissions")         \
  X(kOutOfMemory, 804, "memory could not be had", "use a machine with more memory or a smaller program")              \
  X(kInterrupted, 805, "a signal stopped the work", "run it again, from the saved state if there is one")             \
  X(kBadOption, 901, "a command-line option is wrong", "see --help")

enum class Code : uint16_t {
#define NABLA_CODE_ENUM(name, number, title, help) name = number,
  NABLA_ERROR_CODES(NABLA_CODE_ENUM)
#undef NABLA_CODE_ENUM
};

struct CodeInfo {
  Code code;
  std::string_view title;
  std::string_view help;
};

/// All codes in ascending order; count in `count`.
const CodeInfo* all_codes(int& count);
/// Null: no code has this number.
const CodeInfo* find_code(int number);
const CodeInfo& code_info(Code code);

}  // namespace nabla

// The options of all passes, as values. The struct of each pass lists its fields in `fields()`. The options of nablac, the texts of
// `nablac doc` and the reading of Python's arguments all follow from these lists.
//
// To add an option, add a field here and read it in the pass from PassContext::options. A pass may read the options of another.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "passes/option_text.h"
#include "runtime/base/diagnostic.h"

namespace nabla::passes {

// ---- Choices

/// The state that programs for GPUs keep in the memory of the host.
enum class Offload : uint8_t { kNone, kOptimizer, kParameters, kAll };
std::span<const std::string_view> names_of(Offload);
/// After a search, intermediate values get their layouts from the search or from propagation.
enum class SearchedValues : uint8_t { kFound, kPropagated };
std::span<const std::string_view> names_of(SearchedValues);
/// What the compiler does about a mesh axis over which nothing is sharded: it prints a note, or refuses the program.
enum class IdleAxes : uint8_t { kNote, kError };
std::span<const std::string_view> names_of(IdleAxes);
/// When ranks exchange the gradients of microbatches: after the last microbatch, or in each of them. With kShares, each microbatch
/// exchanges the gradients of which a rank keeps only a share, and the others are exchanged after the last one.
enum class GradSync : uint8_t { kLast, kEach, kShares };
std::span<const std::string_view> names_of(GradSync);
/// The type to which sums are rounded before ranks exchange them. With kAsProgram they keep the type that the program gives them.
enum class ReduceDType : uint8_t { kAsProgram, kF32, kBF16, kF16 };
std::span<const std::string_view> names_of(ReduceDType);
/// Whether a kernel computes as many ops as can be fused, or a single one.
enum class KernelsOf : uint8_t { kFused, kOp };
std::span<const std::string_view> names_of(KernelsOf);

// ---- Fields

/// Which commands of nablac have the option as `--NAME`.
enum class Flag : uint8_t {
  kNone,     ///< no command has it
  kLayout,   ///< `nablac why`, and commands that compile; it needs a module for several ranks
  kRanks,    ///< commands that compile; it needs a module for several ranks
  kProgram,  ///< commands that compile, for every module
};

/// An option of a pass with the options `O`. A number lies in [low, high].
template <class O, class T>
struct OptionField {
  std::string_view name;
  T O::*member;
  std::string_view doc;
  Flag flag = Flag::kNone;
  int64_t low = 0, high = INT64_MAX;
};
template <class O, class T, class... More>
OptionField(std::string_view, T O::*, std::string_view, More...) -> OptionField<O, T>;

// ---- Options by pass

struct ApplyStrategyOptions {
  std::string layouts;
  Names data_axes, zero_axes;
  bool open_batch = false;
  int64_t zero = 0;
  Offload offload = Offload::kNone;

  bool operator==(const ApplyStrategyOptions&) const = default;
  static auto fields() {
    using O = ApplyStrategyOptions;
    return std::tuple(
        OptionField{"layouts", &O::layouts,
                    "of leaves by their names, PATTERN=WORDS;...: a regular expression, and a word per dimension, such as ,tp"},
        OptionField{"data-axes", &O::data_axes, "axes of the mesh along which the batch lies: dp, or dp,mb", Flag::kLayout},
        OptionField{"open-batch", &O::open_batch, "true: other axes may cut the batch too, as where auto-shard chooses them"},
        OptionField{"zero", &O::zero, "1 or 2: ranks share the optimizer's state; 3: and the parameters", Flag::kLayout, 0, 3},
        OptionField{"zero-axes", &O::zero_axes, "data axes whose ranks share it; empty: all of them", Flag::kLayout},
        OptionField{"offload", &O::offload,
                    "state that programs for GPUs keep in the host's memory, beside what the program says: the optimizer's (opt), "
                    "parameters (params), or all",
                    Flag::kProgram});
  }
};

struct AutoShardOptions {
  bool search = false;
  std::optional<Bytes> max_bytes, max_memory;
  std::optional<SearchedValues> values;
  std::string target;

  static auto fields() {
    using O = AutoShardOptions;
    return std::tuple(
        OptionField{"search", &O::search, "true: choose what nothing is said of"},
        OptionField{"max-bytes", &O::max_bytes, "of the state on a rank; empty: no limit"},
        OptionField{"max-memory", &O::max_memory, "of the state and of what lives at once for the way back; empty: no limit"},
        OptionField{"values", &O::values,
                    "propagated: only state and inputs get what was found; propagate lays out all other values; empty: found, "
                    "but a compile takes what is quicker"},
        OptionField{"target", &O::target, "for whose products times are predicted; empty: the target that is compiled for"});
  }
};

struct PropagateOptions {
  std::optional<IdleAxes> idle_axes;

  static auto fields() {
    return std::tuple(OptionField{"idle-axes", &PropagateOptions::idle_axes,
                                  "error: an axis of several ranks over which nothing is sharded is refused; note, the default: a "
                                  "remark says so"});
  }
};

struct PartitionOptions {
  std::optional<GradSync> grad_sync;
  ReduceDType reduce_dtype = ReduceDType::kAsProgram;

  static auto fields() {
    using O = PartitionOptions;
    return std::tuple(
        OptionField{"grad-sync", &O::grad_sync,
                    "of microbatches: ranks exchange sums once after all of them (last), in each (each), or in each those of which "
                    "they keep shares (shares); empty: last, or shares where `zero` is 2 or 3",
                    Flag::kRanks},
        OptionField{"reduce-dtype", &O::reduce_dtype,
                    "bf16 or f16: ranks exchange sums of this type rounded to it, in half the bytes; f32, the default: all are "
                    "combined in float32 and rounded once",
                    Flag::kRanks});
  }
};

struct HoistCollectivesOptions {
  Names ops = {"all_reduce", "reduce_scatter", "all_to_all", "permute"};

  static auto fields() {
    return std::tuple(OptionField{"ops", &HoistCollectivesOptions::ops, "collectives that may leave loops"});
  }
};

struct RegatherOptions {
  bool reshard_after_forward = true;

  static auto fields() {
    return std::tuple(OptionField{"reshard-after-forward", &RegatherOptions::reshard_after_forward,
                                  "gather parameters again for the backward pass instead of keeping them: true or false", Flag::kRanks});
  }
};

struct BucketCollectivesOptions {
  Bytes bucket_bytes{1 << 20}, first_bucket_bytes{256 << 10};

  static auto fields() {
    using O = BucketCollectivesOptions;
    return std::tuple(
        OptionField{"bucket-bytes", &O::bucket_bytes, "bytes up to which collectives of one group are joined; 0: none are", Flag::kRanks},
        OptionField{"first-bucket-bytes", &O::first_bucket_bytes, "the same for the first bucket, which so starts earlier",
                    Flag::kRanks});
  }
};

struct SpecialiseOptions {
  SizeLists sizes;

  static auto fields() {
    return std::tuple(OptionField{"sizes", &SpecialiseOptions::sizes, "lists such as `batch=1;8;len=16`"});
  }
};

struct FuseOptions {
  KernelsOf kernels = KernelsOf::kFused;

  static auto fields() {
    return std::tuple(OptionField{"kernels", &FuseOptions::kernels,
                                  "`op`: one for every op that computes, to see what each of them makes"});
  }
};

struct StreamHostStateOptions {
  Bytes keep_bytes;

  static auto fields() {
    return std::tuple(OptionField{
        "keep-bytes", &StreamHostStateOptions::keep_bytes,
        "a copy stays for its next reader where at most so many bytes of other leaves are copied meanwhile"});
  }
};

struct RecomputeOptions {
  std::optional<Bytes> remat_bytes;

  static auto fields() {
    return std::tuple(OptionField{"remat-bytes", &RecomputeOptions::remat_bytes,
                                  "what state and temporaries of an entry may need: values are computed again instead of kept",
                                  Flag::kProgram});
  }
};

struct ScheduleCollectivesOptions {
  bool overlap = true;
  Bytes overlap_bytes;
  std::optional<int64_t> prefetch;

  static auto fields() {
    using O = ScheduleCollectivesOptions;
    return std::tuple(
        OptionField{"overlap", &O::overlap, "false: they stay where they are"},
        OptionField{"overlap-bytes", &O::overlap_bytes,
                    "bytes by which temporaries may grow so that collectives start earlier", Flag::kRanks},
        OptionField{"prefetch", &O::prefetch,
                    "gathers of parameters that are under way ahead of their use; 0: each at its use; empty: as their times say",
                    Flag::kRanks});
  }
};

struct PlanMemoryOptions {
  std::optional<Bytes> max_bytes;

  static auto fields() {
    return std::tuple(
        OptionField{"max-bytes", &PlanMemoryOptions::max_bytes, "fail when state and temporaries together need more"});
  }
};

/// The options of all passes. Several passes read those at the end; their rows in passes/registry.cc say what each pass does with them.
struct PassOptions {
  ApplyStrategyOptions apply_strategy;
  AutoShardOptions auto_shard;
  PropagateOptions propagate;
  PartitionOptions partition;
  HoistCollectivesOptions hoist_collectives;
  RegatherOptions regather;
  BucketCollectivesOptions bucket_collectives;
  SpecialiseOptions specialise;
  FuseOptions fuse;
  StreamHostStateOptions stream_host_state;
  RecomputeOptions recompute;
  ScheduleCollectivesOptions schedule_collectives;
  PlanMemoryOptions plan_memory;

  bool deterministic = false;        ///< the same bits, whatever the number of ranks
  bool keep_order = false;           ///< programs for several targets exchange the same, in the same order
  Bytes max_gather_bytes{16 << 20};  ///< the largest value that ranks may gather for an op that cannot be sharded
};

/// When ranks exchange the gradients of microbatches. Without the option grad-sync, it follows from the stage of ZeRO: with 2 and 3 a
/// rank keeps only shares of gradients, so ranks exchange those in each microbatch.
GradSync grad_sync_of(const PassOptions& options);

// ---- Options by name

/// An option of one pass.
struct PassOption {
  std::string name, doc, default_value;
  std::string domain;  ///< the values that are allowed, in words: "true or false"
  Flag flag = Flag::kNone;
  std::function<std::string(const PassOptions&)> text;
  /// Sets the option from its text. E0901 if the text is no allowed value; the error calls the option `spelled`.
  std::function<Status(PassOptions&, const std::string& text, const std::string& spelled)> set;
};

/// Describes the option whose value `at(options)` refers to.
template <class At>
PassOption option_at(std::string_view name, std::string_view doc, Flag flag, int64_t low, int64_t high, At at) {
  PassOptions standard;
  using T = std::remove_cvref_t<decltype(at(standard))>;
  PassOption out{std::string(name), std::string(doc), option_text::print(at(standard)),
                 option_text::domain_of(at(standard), low, high), flag, nullptr, nullptr};
  out.text = [at](const PassOptions& o) { return option_text::print(at(o)); };
  out.set = [at, low, high, domain = out.domain](PassOptions& o, const std::string& text, const std::string& spelled) -> Status {
    T value{};
    if (!option_text::read(text, value) || !option_text::fits(value, low, high))
      return option_text::refused(spelled, domain, text);
    at(o) = std::move(value);
    return Ok{};
  };
  return out;
}

/// Describes the options of a pass: the fields of its struct, followed by those that it shares with other passes.
template <class O>
std::vector<PassOption> options_of(O PassOptions::*of_pass, std::vector<PassOption> shared = {}) {
  std::vector<PassOption> out;
  auto add = [&](const auto& field) {
    out.push_back(option_at(field.name, field.doc, field.flag, field.low, field.high,
                            [of_pass, member = field.member](auto& o) -> auto& { return o.*of_pass.*member; }));
  };
  std::apply([&](const auto&... field) { (add(field), ...); }, O::fields());
  for (PassOption& o : shared) out.push_back(std::move(o));
  return out;
}
/// Describes an option that several passes have. `doc` says what this pass does with it.
template <class T>
PassOption shared_option(std::string_view name, T PassOptions::*member, std::string_view doc, Flag flag = Flag::kNone) {
  return option_at(name, doc, flag, 0, INT64_MAX, [member](auto& o) -> auto& { return o.*member; });
}

}  // namespace nabla::passes

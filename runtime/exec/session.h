// A loaded bundle: its state, and its entries ready to run. The C API, nabla-run and the jit sit on it.
#pragma once

#include <csignal>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"
#include "runtime/format/bundle_reader.h"

namespace nabla::comm {
class World;
struct Board;
}

namespace nabla::exec {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;      ///< upper bounds where the caller decides
  std::vector<std::string> sizes;  ///< empty, or per dimension: "" or the expression over symbols
  bool is_static() const { return sizes.empty(); }
  /// "f32[2,3]", "f32[batch,3]"
  std::string type_str() const;
};

/// A size that the caller's arrays decide; of several ranks, that of the part of one.
struct SymbolInfo {
  std::string name;
  int64_t min = 1, max = 1, multiple = 1;
};

struct EntryInfo {
  std::string name;
  std::vector<TensorInfo> inputs, outputs;
  std::vector<int> reads, writes;  ///< state leaves
  uint64_t flops = 0;              ///< of one run
  uint64_t bytes = 0;              ///< read and written by one run
  double predicted_us = 0;         ///< of one run of several ranks, by the compiler's model; 0: not told
  std::vector<SymbolInfo> symbols;
};

struct SessionOptions {
  int threads = 0;          ///< of each rank of a program for CPUs; 0: the ranks share the CPUs of the process
  std::string trace;        ///< not empty: the file that `finish` writes the trace to
  /// Every process of these ranks has the option `trace`, and calls `finish` when its work is done: rank 0 writes one trace of all.
  bool traces_together = false;
  bool profile = false;     ///< `profile` tells where the time went, and so does the trace
  bool check_nan = false;   ///< stop at the first instruction that makes NaN or infinity (E0708); slow
  std::string target;       ///< the program for this target; empty: the first that this machine can run
  /// Of a bundle for several ranks: run one rank of this class, which needs no partners. Empty: run all ranks, a thread
  /// each, on whole arrays.
  std::string rank_class;
  double comm_timeout_s = 300;  ///< how long a rank of this process waits for others (E0611)
  /// Of a bundle for several ranks: makes the way from a rank of this process to those elsewhere, for its table and the
  /// most exchanges that a program has under way. Null: all ranks run here.
  std::function<Result<std::unique_ptr<comm::World>>(const format::Ranks&, uint32_t in_flight)> world = nullptr;
  /// Which of this machine's GPUs, modulo their number, the rank of this process takes. None: rank r takes GPU r, modulo.
  std::optional<uint32_t> gpu;
  bool sync_debug = false;  ///< wait after every instruction of a GPU, so that a failure names it; slow. E0901 on CPUs
  /// Where it turns from 0, a while loop ends its run with E0805; state that the entry writes is then undefined.
  const volatile std::sig_atomic_t* stop = nullptr;
  /// Of several ranks: where a rank of this process writes what it exchanges; null: nowhere.
  std::function<comm::Board*(uint32_t rank)> board = nullptr;
  /// So does everything else, between two instructions; runs of entries that write no state always stop there.
  bool stop_all_loops = false;
  bool pin_caller = false;  ///< pin the calling thread when the pool takes all CPUs; for programs that only do this
};

/// "4 ranks of mesh pod (dp=2, tp=2)"
std::string ranks_of(const format::Ranks& table);

struct Profile;

/// Collectives of one kind and dtype over one group that a rank has started.
struct ExchangeCount {
  std::string op;     ///< as the IR names it: "all_reduce"
  std::string group;  ///< "dp"
  int64_t ranks = 0;  ///< of the group
  DType dtype = DType::kF32;
  uint64_t calls = 0;
  uint64_t payload_bytes = 0;  ///< of the whole buffers: what all_gather brings together, what the others start from
};

struct WeightOptions {
  std::string path;
  std::vector<std::string> maps;  ///< rows of the mapping: "PATTERN=TARGET"
  bool partial = false;           ///< leaves without a tensor may stay without a value
  /// Called before anything is loaded when leaves would stay without a value: makes them. May be null.
  std::function<Status()> init = nullptr;
};

/// Of a leaf, what one rank of this process holds: elements [begin, begin + extent) of every dimension, row-major.
struct StatePiece {
  int leaf = 0;
  uint32_t rank = 0;
  std::vector<int64_t> begin, extent;
  uint64_t bytes = 0;
};
/// The same where it lies, at any alignment.
struct StateView {
  int leaf = 0;
  std::vector<int64_t> begin, extent;
  const void* data = nullptr;
};

/// Used by one thread at a time.
class Session {
 public:
  /// E06xx when this machine cannot run the bundle (CPU features, GPU, libraries, kernels), E0404 when it has no
  /// program for the target, E0107 when it has no such class, E0608 for a class that communicates and is to run alone or on
  /// GPUs, E0106 for more ranks than RankTeam runs, E0804 without memory,
  /// and the errors of Bundle::open. Says on stderr which programs it skipped, and why matrix products of a GPU program
  /// run without their library.
  static Result<std::unique_ptr<Session>> open(const std::string& path, const SessionOptions& options);
  static Result<std::unique_ptr<Session>> create(format::Bundle bundle, const SessionOptions& options);
  /// Writes the trace if `finish` was not called; an error then goes to stderr.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  const std::vector<EntryInfo>& entries() const { return entries_; }
  /// -1 when there is none.
  int find_entry(std::string_view name) const;
  /// E0603 with the nearest name.
  Result<int> need_entry(std::string_view name) const;
  const std::vector<TensorInfo>& state_leaves() const { return leaves_; }
  std::string_view target() const;
  uint64_t arena_bytes() const;
  uint64_t state_bytes() const;
  int threads() const;
  /// "4 ranks of mesh pod (dp=2, tp=2) on this machine, 1 thread each"; empty: one rank runs alone. Arena, state and
  /// threads are those of one rank.
  std::string team() const;

  /// Takes the sizes of the following runs of an entry from the shapes of its inputs, whose ranks fit. Sizes that were
  /// set before cost a comparison and allocate nothing. E0703 names argument, symbol, value and range. Entries with
  /// static types need no call; others stand at their upper bounds before the first.
  Status set_shapes(int entry, std::span<const int64_t* const> input_shapes);
  /// At the sizes that were set last.
  const std::vector<int64_t>& output_shape(int entry, int output) const;

  /// Where ranks run in other processes, every process calls run, collect and the functions of state in the same order.
  /// Arrays are whole everywhere: of inputs a process reads the parts of its ranks, of outputs it writes them.
  bool alone() const;
  /// The rows [begin, end) of an input's first axis that a run reads here, at the sizes that were set last.
  std::pair<int64_t, int64_t> rows_here(int entry, int input) const;
  /// Does rank 0, which speaks for all, run in this process?
  bool first() const;

  /// Runs an entry on raw arrays in the order of its inputs and outputs, of exactly their dtypes and shapes.
  /// Allocates nothing. E0705 when the entry reads state without a value, E0708 with check_nan, E0609 when ranks do not meet.
  Status run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs);
  /// After a run: brings the outputs that other processes wrote to that of rank 0. Null: an output is not asked for.
  Status collect(int entry, std::span<void* const> outputs);
  /// The same with checks (E0702, E0703, E0704), and outputs made here, which are collected.
  Result<std::vector<Literal>> call(int entry, const std::vector<Literal>& inputs);

  /// Has the entry loops, which `stop` may end?
  bool loops(int entry) const;
  /// True when a leaf was written by an entry, set or loaded.
  bool has_value(int leaf) const { return has_value_[leaf]; }
  /// Copies all of a leaf out or in; out to the process of rank 0 alone, elsewhere `to` may be null. get_state: E0705
  /// without a value. E0607 when the GPU fails.
  Status get_state(int leaf, void* to) const;
  Status set_state(int leaf, const void* from);
  /// The state of the ranks here in pieces. Of equal parts the lowest rank has the piece, so that those of all processes
  /// together have every element of every leaf once.
  const std::vector<StatePiece>& state_pieces() const { return pieces_; }
  /// Copies the elements of a piece that a rank of this process has, also if another rank has it too. No other process takes part.
  /// E0607 when the GPU fails.
  Status get_piece(const StatePiece& piece, void* to) const;
  /// Fills what the ranks here have from pieces of any shapes, which together have every element that is needed here; others are
  /// not read. All leaves then have a value.
  Status set_pieces(std::span<const StateView> pieces);
  /// A safetensors file with exactly the program's leaves. All or nothing: E0706 names the leaf that does not fit.
  /// `metadata` gets the texts that the file carries beside its arrays.
  Status load_state(const std::string& path, std::map<std::string, std::string>* metadata = nullptr);
  /// Loads tensors of a .safetensors or .npz file into leaves (runtime/format/weights.h). All or nothing: E0706 where
  /// anything does not fit. Returns lines that say what was loaded, converted, kept and not used.
  Result<std::string> load_weights(const WeightOptions& options);
  /// E0705 when a leaf has no value. The process of rank 0 writes the file.
  Status save_state(const std::string& path, const std::map<std::string, std::string>& metadata = {}) const;

  /// What rank 0 has exchanged since the session was made; empty where one rank runs alone. `nablac inspect` states the same
  /// before a run.
  std::vector<ExchangeCount> exchanges() const;
  /// With the option `profile`, before `finish`: where the time of the runs so far went (runtime/exec/profile.h).
  /// Measures the limits of this machine when it is called first.
  Profile profile();

  /// Writes the trace, once. E0803 when that fails.
  Status finish();

 private:
  struct Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  Diagnostic state_missing(int entry) const;
  Status set_leaf(int leaf, std::span<const StateView> pieces);

  std::unique_ptr<Impl> impl_;
  std::vector<EntryInfo> entries_;
  std::vector<TensorInfo> leaves_;
  std::vector<char> has_value_;
  std::vector<StatePiece> pieces_;
};

}  // namespace nabla::exec

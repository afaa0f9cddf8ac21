#include "runtime/exec/rank_team.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>
#include <system_error>
#include <thread>

#include "runtime/base/option_name.h"
#include "runtime/base/spin.h"
#include "runtime/comm/local.h"
#include "runtime/comm/neighbours.h"
#include "runtime/comm/recorder.h"
#include "runtime/comm/traffic.h"
#include "runtime/device/cpu.h"
#include "runtime/exec/choose_program.h"
#include "runtime/exec/memory_limit.h"
#include "runtime/exec/parts.h"
#include "runtime/exec/rank.h"
#include "runtime/exec/wholes.h"
#include "runtime/format/collective.h"
#include "runtime/format/program_check.h"
#include "runtime/format/rank_digits.h"
#include "runtime/format/ranks_generated.h"

namespace nabla::exec {
namespace {

using format::size_of;
using format::view;

// For ranks that end together, as they do after an exchange.
constexpr int64_t kSpinNs = 2000;

/// Memory for a part that does not lie in the caller's array as it is.
struct Room {
  struct Free {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, Free> data;
  size_t bytes = 0;
  char* of(size_t wanted) {
    if (wanted > bytes || !data) {
      bytes = (std::max<size_t>(wanted, 1) + 63) / 64 * 64;
      data.reset(static_cast<char*>(std::aligned_alloc(64, bytes)));
      if (!data) throw std::bad_alloc();
    }
    return data.get();
  }
};

int64_t bytes_of(DType dtype, const std::vector<int64_t>& shape) { return count_of(shape) * nabla::bytes_of(dtype); }

struct Entry {
  EntryInfo info;
  std::vector<Whole> inputs, outputs;
  std::vector<int> of_rank;                         ///< its index there; -1: the rank's class does not have it
  std::vector<std::vector<int64_t>> output_shapes;  ///< at the sizes that were set last
};

}  // namespace

struct RankTeam::Impl {
  Impl(const format::Bundle& b, const SessionOptions& o)
      : table(*b.ranks()), options(o), class_of(format::classes_of(table)) {}
  ~Impl() {
    stop = true;
    add_job();
    for (std::thread& t : threads) t.join();
  }

  // Not by std::atomic's `wait`, which yields first: on a busy machine that gives the CPU away for milliseconds.
  void add_job() {
    job.fetch_add(1);
    futex_wake(job, INT_MAX);
  }
  Status open(const format::Bundle& bundle);
  Status make_world(const std::vector<Chosen>& chosen);
  void add_entries();
  void find_wholes();
  void serve(uint32_t rank);
  void work(uint32_t rank);
  Status run_part(uint32_t rank);
  const std::vector<uint32_t>& here() const { return world->here(); }
  bool all_here() const { return here().size() == table.count(); }
  /// Of a rank here.
  const Part& own(const Whole& whole, uint32_t rank) const { return whole.here[static_cast<size_t>(slot_of[rank])]; }

  const format::Ranks& table;
  SessionOptions options;
  std::vector<uint32_t> class_of;                      // by rank
  std::vector<int> slot_of;                            // by rank: its place in here(); -1: it runs elsewhere
  std::vector<std::vector<EntryInfo>> class_entries;   // by class
  std::vector<std::vector<TensorInfo>> class_leaves;
  std::unique_ptr<comm::World> world;
  std::unique_ptr<comm::CountingCommunicator> counted;  // the end of the first rank here
  std::vector<std::unique_ptr<comm::RecordingCommunicator>> recorded;
  std::vector<comm::Board*> boards;
  std::vector<std::string> gpus;                        // names of those that the ranks here have
  std::vector<std::unique_ptr<Rank>> ranks;             // null: it runs elsewhere
  std::vector<Entry> entries;
  std::vector<Whole> leaves;
  // ---- The run that is under way
  int entry = 0;
  std::span<const void* const> inputs;
  std::span<void* const> outputs;
  std::vector<std::vector<std::vector<int64_t>>> input_shapes;  // by entry, of wholes
  std::vector<std::map<std::pair<bool, size_t>, Room>> rooms;   // by rank: of input or output i
  std::atomic<uint32_t> job{0}, left{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;  // of the ranks here but the first, whose thread is the caller's
};

Status RankTeam::Impl::make_world(const std::vector<Chosen>& chosen) {
  std::vector<uint32_t> in_flight;
  for (const Chosen& c : chosen) in_flight.push_back(comm::in_flight(*c.program));
  if (options.world) {
    world = NABLA_TRY(options.world(table, *std::max_element(in_flight.begin(), in_flight.end())));
    return Ok{};
  }
  auto cpus = static_cast<int>(device::allowed_cpus().size()), count = static_cast<int>(table.count());
  if (options.threads == 0) options.threads = std::max(1, cpus / count);
  world = std::make_unique<comm::LocalRanks>(
      table, comm::LocalOptions{.deadline_s = options.comm_timeout_s,
                                .spin = options.threads * count <= cpus,
                                .in_flight = std::move(in_flight)});
  return Ok{};
}

Status RankTeam::Impl::open(const format::Bundle& bundle) {
  if (!options.world && table.count() > kMostRanks) {
    Diagnostic d = error(Code::kTooLarge, "{} is for {}, and at most {} ranks are threads of one process", bundle.what(),
                         ranks_of(table), kMostRanks);
    d.help = fmt::format("run a process per rank ({}), a class that needs no partners with {}, or compile for a smaller mesh",
                         OptionName{"engine", "mpi"}, OptionName{"class"});
    return d;
  }
  options.pin_caller = false;
  std::vector<Chosen> chosen;
  for (const format::BundleClass& of : bundle.classes()) {
    chosen.push_back(NABLA_TRY(choose_program(bundle, of, options.target)));
    if (!chosen.back().skipped.empty()) std::fprintf(stderr, "%s\n", chosen.back().skipped.c_str());
    class_entries.push_back(entries_of(*chosen.back().program));
    class_leaves.push_back(leaves_of(*chosen.back().program));
  }
  (void)NABLA_TRY(make_world(chosen));
  uint32_t first = here()[0];
  counted = std::make_unique<comm::CountingCommunicator>(world->rank(first));
  uint64_t bytes = 0;
  for (uint32_t r : here()) {
    const Chosen& of = chosen[class_of[r]];
    bytes += of.gpu ? of.program->host_bytes() : of.program->arena_bytes();
  }
  std::string who = here().size() == 1 ? fmt::format("rank {} needs", first) : fmt::format("{} ranks need", here().size());
  (void)NABLA_TRY(check_memory(bytes, who));
  ranks.resize(table.count());
  for (uint32_t r : here()) {
    RankPlace place{r == first ? counted.get() : &world->rank(r), {}, r == first};
    std::vector<std::string> groups;
    place.here = options.traces_together ? table.count() : here().size();
    for (const comm::Neighbours::Group& g : comm::neighbours_of(table, r).groups) {
      place.places.push_back(g.me);
      groups.push_back(g.name);
    }
    if (comm::Board* board = options.board ? options.board(r) : nullptr) {
      recorded.push_back(std::make_unique<comm::RecordingCommunicator>(*place.peers, *board, *chosen[class_of[r]].program,
                                                                       std::move(groups)));
      place.peers = recorded.back().get();
      boards.push_back(board);
    }
    Chosen own = chosen[class_of[r]];
    own.gpu = NABLA_TRY(gpu_of(bundle, bundle.classes()[class_of[r]], own, options.gpu.value_or(r)));
    if (own.gpu && std::count(gpus.begin(), gpus.end(), own.gpu->name) == 0) gpus.push_back(own.gpu->name);
    ranks[r] = NABLA_TRY(Rank::create(bundle, own, options, std::move(place)));
  }
  add_entries();
  find_wholes();
  rooms.resize(ranks.size());
  try {
    for (size_t i = 1; i < here().size(); ++i) threads.emplace_back([this, r = here()[i]] { serve(r); });
  } catch (const std::system_error&) {
    return error(Code::kOutOfMemory, "the system gives {} of {} threads", threads.size() + 1, here().size());
  }
  return Ok{};
}

// In the order of their first appearance: entries of one name run together.
void RankTeam::Impl::add_entries() {
  for (uint32_t r = 0; r < ranks.size(); ++r)
    for (size_t i = 0; i < class_entries[class_of[r]].size(); ++i) {
      const EntryInfo& part = class_entries[class_of[r]][i];
      auto known =
          std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.info.name == part.name; });
      if (known == entries.end()) {
        Entry made;
        made.info.name = part.name, made.info.symbols = part.symbols;
        made.of_rank.assign(ranks.size(), -1);
        entries.push_back(std::move(made));
        known = entries.end() - 1;
      }
      known->of_rank[r] = static_cast<int>(i);
      known->info.flops += part.flops, known->info.bytes += part.bytes;
      known->info.predicted_us = std::max(known->info.predicted_us, part.predicted_us);
    }
}

void RankTeam::Impl::find_wholes() {
  slot_of.assign(table.count(), -1);
  for (size_t i = 0; i < here().size(); ++i) slot_of[here()[i]] = static_cast<int>(i);
  auto entry_of = [&](const format::Whole& w) {
    return std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.info.name == view(w.entry()); });
  };
  for (uint32_t i = 0; i < size_of(table.state()); ++i)
    leaves.emplace_back(table, *table.state()->Get(i), class_of, here());
  for (uint32_t i = 0; i < size_of(table.inputs()); ++i) {
    const format::Whole& w = *table.inputs()->Get(i);
    entry_of(w)->inputs.emplace_back(table, w, class_of, here());
  }
  for (uint32_t i = 0; i < size_of(table.outputs()); ++i) {
    const format::Whole& w = *table.outputs()->Get(i);
    entry_of(w)->outputs.emplace_back(table, w, class_of, here());
  }
  for (Entry& e : entries) {
    for (const Whole& w : e.inputs) e.info.inputs.push_back(w.info);
    for (const Whole& w : e.outputs) {
      e.info.outputs.push_back(w.info);
      e.output_shapes.push_back(w.info.shape);
    }
    std::vector<std::vector<int64_t>>& shapes = input_shapes.emplace_back();
    for (const Whole& w : e.inputs) shapes.push_back(w.info.shape);
    for (size_t l = 0; l < leaves.size(); ++l) {
      bool reads = false, writes = false;
      for (uint32_t c = 0; c < class_entries.size(); ++c) {
        int index = leaves[l].index_in(c), of_class = e.of_rank[table.classes()->Get(c)->first()];
        if (of_class < 0 || index < 0) continue;
        const EntryInfo& part = class_entries[c][static_cast<size_t>(of_class)];
        auto names = [&](const std::vector<int>& list) { return std::count(list.begin(), list.end(), index) > 0; };
        reads |= names(part.reads), writes |= names(part.writes);
      }
      if (reads) e.info.reads.push_back(static_cast<int>(l));
      if (writes) e.info.writes.push_back(static_cast<int>(l));
    }
  }
}

void RankTeam::Impl::serve(uint32_t rank) {
  for (uint32_t seen = 0;;) {
    while (job.load() == seen) futex_wait(job, seen);
    seen = job.load();
    if (stop) return;
    work(rank);
    if (left.fetch_sub(1) == 1) futex_wake(left);
  }
}

void RankTeam::Impl::work(uint32_t rank) {
  Status status = Ok{};
  try {
    status = run_part(rank);
  } catch (const std::bad_alloc&) {
    status = error(Code::kOutOfMemory, "the parts of rank {} do not fit into memory", rank);
  }
  if (!status.ok()) {
    Diagnostic d = status.errors()[0];
    if (d.code != Code::kInterrupted && d.code != Code::kRanksDiverge)
      d.notes.push_back(fmt::format("on rank {}", rank));
    status = d;
  }
  world->end(rank, status);
}

// Parts that lie in the caller's arrays as they are stay there; others are copied.
Status RankTeam::Impl::run_part(uint32_t rank) {
  Entry& e = entries[entry];
  int mine = e.of_rank[rank];
  if (mine < 0) return Ok{};
  const EntryInfo& info = ranks[rank]->entries()[mine];
  std::vector<const void*> in(info.inputs.size());
  std::vector<void*> out(info.outputs.size());
  for (size_t i = 0; i < e.inputs.size(); ++i) {
    const Part& part = own(e.inputs[i], rank);
    if (part.index < 0) continue;
    const std::vector<int64_t>& whole = input_shapes[entry][i];
    std::vector<int64_t> shape = info.inputs[part.index].shape;
    for (size_t d = 0; d < shape.size(); ++d)
      if (!info.inputs[part.index].is_static() && !info.inputs[part.index].sizes[d].empty())
        shape[d] = whole[d] / part.dims[d].count;
    Box box = part.box(shape);
    DType dtype = e.inputs[i].info.dtype;
    if (std::optional<int64_t> at = contiguous_at(box, whole)) {
      in[part.index] = static_cast<const char*>(inputs[i]) + *at * nabla::bytes_of(dtype);
      continue;
    }
    char* room = rooms[rank][{true, i}].of(static_cast<size_t>(bytes_of(dtype, shape)));
    copy_out(box, whole, nabla::bytes_of(dtype), inputs[i], room);
    in[part.index] = room;
  }
  struct Back {
    Box box;
    size_t output;
    const void* part;
  };
  std::vector<Back> back;
  for (size_t i = 0; i < e.outputs.size(); ++i) {
    const Part& part = own(e.outputs[i], rank);
    if (part.index < 0) continue;
    const std::vector<int64_t>& shape = ranks[rank]->output_shape(mine, part.index);
    DType dtype = e.outputs[i].info.dtype;
    Box box = part.box(shape);
    std::optional<int64_t> at = contiguous_at(box, e.output_shapes[i]);
    bool wanted = part.owner || (!all_here() && rank == here()[0]);  // each process has what its ranks have
    if (wanted && at) {
      out[part.index] = static_cast<char*>(outputs[i]) + *at * nabla::bytes_of(dtype);
      continue;
    }
    out[part.index] = rooms[rank][{false, i}].of(static_cast<size_t>(bytes_of(dtype, shape)));
    if (wanted) back.push_back({std::move(box), i, out[part.index]});
  }
  (void)NABLA_TRY(ranks[rank]->run(mine, in, out));
  for (const Back& b : back)
    copy_back(b.box, e.output_shapes[b.output], nabla::bytes_of(e.outputs[b.output].info.dtype), b.part,
              outputs[b.output]);
  return Ok{};
}

RankTeam::RankTeam(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RankTeam::~RankTeam() = default;

Result<std::unique_ptr<RankTeam>> RankTeam::create(const format::Bundle& bundle, const SessionOptions& options) {
  auto impl = std::make_unique<Impl>(bundle, options);
  (void)NABLA_TRY(impl->open(bundle));
  return std::unique_ptr<RankTeam>(new RankTeam(std::move(impl)));
}

std::vector<EntryInfo> RankTeam::entries() const {
  std::vector<EntryInfo> out;
  for (const Entry& e : impl_->entries) out.push_back(e.info);
  return out;
}
std::vector<TensorInfo> RankTeam::leaves() const {
  std::vector<TensorInfo> out;
  for (const Whole& w : impl_->leaves) out.push_back(w.info);
  return out;
}
std::vector<ExchangeCount> RankTeam::exchanges() const {
  const auto* groups = impl_->table.classes()->Get(impl_->class_of[impl_->here()[0]])->groups();
  std::vector<ExchangeCount> out;
  for (const comm::Traffic& t : impl_->counted->counted()) {
    const format::Group& group = *impl_->table.groups()->Get(groups->Get(t.group));
    auto ranks = static_cast<int64_t>(impl_->counted->members(t.group));
    out.push_back({format::def_of(t.kind).name, std::string(view(group.name())), ranks, dtype_of(t.dtype), t.calls, t.payload_bytes});
  }
  return out;
}

Rank& RankTeam::rank(uint32_t r) { return *impl_->ranks[r]; }
Rank& RankTeam::first() { return *impl_->ranks[impl_->here()[0]]; }
const std::vector<uint32_t>& RankTeam::here() const { return impl_->here(); }
uint32_t RankTeam::count() const { return impl_->table.count(); }

std::string ranks_of(const format::Ranks& table) {
  std::string meshes;
  for (uint32_t m = 0; m < size_of(table.meshes()); ++m) {
    const format::Mesh& mesh = *table.meshes()->Get(m);
    meshes += fmt::format("{}mesh {} ({})", meshes.empty() ? " of " : " and ", view(mesh.name()), format::sizes_of(mesh));
  }
  return fmt::format("{} ranks{}", table.count(), meshes);
}

std::string RankTeam::str() const {
  int threads = impl_->ranks[impl_->here()[0]]->engine().threads();
  std::string each = fmt::format("{} thread{} each", threads, threads == 1 ? "" : "s");
  for (size_t i = 0; i < impl_->gpus.size(); ++i) each = (i == 0 ? "on " : each + ", ") + impl_->gpus[i];
  return fmt::format("{} {}, {}", ranks_of(impl_->table), impl_->all_here() ? "on this machine" : "in several processes", each);
}

Status RankTeam::set_shapes(int entry, std::span<const int64_t* const> shapes) {
  Impl& t = *impl_;
  Entry& e = t.entries[entry];
  for (size_t i = 0; i < e.inputs.size(); ++i)
    for (size_t d = 0; d < e.inputs[i].info.shape.size(); ++d) {
      const TensorInfo& info = e.inputs[i].info;
      int64_t got = shapes[i][d], count = e.inputs[i].most_parts(d);
      bool fixed = info.is_static() || info.sizes[d].empty();
      if (fixed && got != info.shape[d])
        return error(Code::kInputShape, "entry `{}`: dimension {} of input `{}` is {}, got {}", e.info.name, d,
                     info.name, info.shape[d], got);
      if (!fixed && got % count != 0)
        return error(Code::kInputShape,
                     "entry `{}`: dimension {} of input `{}` is {}, which {} ranks cannot share evenly", e.info.name, d,
                     info.name, got, count);
      t.input_shapes[entry][i][d] = got;
    }
  for (uint32_t r : t.here()) {
    if (e.of_rank[r] < 0) continue;
    const EntryInfo& info = t.ranks[r]->entries()[e.of_rank[r]];
    std::vector<std::vector<int64_t>> own(info.inputs.size());
    for (size_t i = 0; i < e.inputs.size(); ++i) {
      const Part& part = t.own(e.inputs[i], r);
      if (part.index < 0) continue;
      const TensorInfo& type = info.inputs[part.index];
      own[part.index] = type.shape;
      for (size_t d = 0; d < type.shape.size(); ++d)
        if (!type.is_static() && !type.sizes[d].empty()) own[part.index][d] = shapes[i][d] / part.dims[d].count;
    }
    std::vector<const int64_t*> pointers;
    for (const auto& shape : own) pointers.push_back(shape.data());
    if (Status set = t.ranks[r]->set_shapes(e.of_rank[r], pointers); !set.ok()) {
      Diagnostic d = set.errors()[0];
      std::string cut;
      for (size_t i = 0; i < e.inputs.size(); ++i)
        if (int index = t.own(e.inputs[i], r).index; index >= 0 && own[index] != t.input_shapes[entry][i])
          cut += fmt::format("{}`{}` is {} of {}", cut.empty() ? ": " : ", ", e.info.inputs[i].name, shape_str(own[index]),
                             shape_str(t.input_shapes[entry][i]));
      d.notes.push_back(fmt::format("these are sizes of what rank {} has of the inputs{}", r, cut));
      return d;
    }
    for (size_t i = 0; i < e.outputs.size(); ++i) {
      const Part& part = t.own(e.outputs[i], r);
      if (part.index < 0) continue;
      const TensorInfo& type = info.outputs[part.index];
      const std::vector<int64_t>& shape = t.ranks[r]->output_shape(e.of_rank[r], part.index);
      for (size_t d = 0; d < shape.size(); ++d)
        if (!type.is_static() && !type.sizes[d].empty()) e.output_shapes[i][d] = shape[d] * part.dims[d].count;
    }
  }
  return Ok{};
}

const std::vector<int64_t>& RankTeam::output_shape(int entry, int output) const {
  return impl_->entries[entry].output_shapes[output];
}

Status RankTeam::run(int entry, std::span<const void* const> inputs, std::span<void* const> outputs) {
  Impl& t = *impl_;
  t.entry = entry, t.inputs = inputs, t.outputs = outputs;
  t.world->begin();
  for (comm::Board* b : t.boards) b->run.fetch_add(1);
  t.left = static_cast<uint32_t>(t.threads.size());
  t.add_job();
  t.work(t.here()[0]);
  spin_until(kSpinNs, [&] { return t.left.load() == 0; });
  for (uint32_t n; (n = t.left.load()) != 0;) futex_wait(t.left, n);
  if (std::optional<Diagnostic> failed = t.world->failure()) return *failed;
  return Ok{};
}

Status RankTeam::pass(uint32_t from, uint32_t to, void* data, uint64_t bytes) { return impl_->world->pass(from, to, data, bytes); }

bool RankTeam::loops(int entry) const {
  const Entry& e = impl_->entries[entry];
  for (uint32_t r : impl_->here())
    if (e.of_rank[r] >= 0 && impl_->ranks[r]->loops(e.of_rank[r])) return true;
  return false;
}

// Of a rank elsewhere too: sizes that the caller decides are those of the whole.
std::vector<int64_t> part_shape(const TensorInfo& part, const Part& of, const std::vector<int64_t>& whole) {
  std::vector<int64_t> out = part.shape;
  for (size_t d = 0; d < out.size(); ++d)
    if (!part.is_static() && !part.sizes[d].empty()) out[d] = whole[d] / of.dims[d].count;
  return out;
}

Status RankTeam::collect(int entry, std::span<void* const> outputs) {
  Impl& t = *impl_;
  Entry& e = t.entries[entry];
  bool root = t.ranks[0] != nullptr;
  for (size_t i = 0; !t.all_here() && i < e.outputs.size(); ++i) {
    const std::vector<int64_t>& whole = e.output_shapes[i];
    int64_t element = nabla::bytes_of(e.outputs[i].info.dtype);
    for (uint32_t r = 0; outputs[i] != nullptr && r < t.ranks.size(); ++r) {
      if (root == (t.ranks[r] != nullptr) || !e.outputs[i].owned_by(r)) continue;
      const Part part = e.outputs[i].part(r);
      const EntryInfo& info = t.class_entries[t.class_of[r]][static_cast<size_t>(e.of_rank[r])];
      Box box = part.box(part_shape(info.outputs[static_cast<size_t>(part.index)], part, whole));
      auto bytes = static_cast<size_t>(count_of(box.size) * element);
      char* room = t.rooms[root ? 0 : r][{false, i}].of(bytes);
      if (!root) copy_out(box, whole, element, outputs[i], room);
      (void)NABLA_TRY(t.world->pass(r, 0, room, bytes));
      if (root) copy_back(box, whole, element, room, outputs[i]);
    }
  }
  return Ok{};
}

std::pair<int64_t, int64_t> RankTeam::rows_here(int entry, int input) const {
  const Impl& t = *impl_;
  const Entry& e = t.entries[entry];
  const std::vector<int64_t>& whole = t.input_shapes[entry][input];
  std::pair<int64_t, int64_t> rows{0, 0};
  for (uint32_t r : t.here()) {
    const Part& part = t.own(e.inputs[input], r);
    if (part.index < 0) continue;
    const EntryInfo& info = t.class_entries[t.class_of[r]][static_cast<size_t>(e.of_rank[r])];
    Box box = part.box(part_shape(info.inputs[static_cast<size_t>(part.index)], part, whole));
    int64_t begin = std::min(box.begin[0], whole[0]), end = std::min(box.begin[0] + box.size[0], whole[0]);
    rows = rows.second == 0 ? std::pair(begin, end) : std::pair(std::min(rows.first, begin), std::max(rows.second, end));
  }
  return rows;
}

Status RankTeam::get_leaf(int leaf, void* to) const {
  Impl& t = *impl_;
  const Whole& w = t.leaves[leaf];
  bool root = t.ranks[0] != nullptr;
  for (uint32_t r = 0; r < t.ranks.size(); ++r) {
    bool mine = t.ranks[r] != nullptr;
    if ((!root && !mine) || !w.owned_by(r)) continue;
    const Part part = w.part(r);
    Literal own(w.info.dtype, t.class_leaves[t.class_of[r]][static_cast<size_t>(part.index)].shape);
    auto bytes = static_cast<size_t>(own.size_bytes());
    if (mine) (void)NABLA_TRY(t.ranks[r]->engine().download(own.mutable_data(), t.ranks[r]->leaf_data(part.index), bytes));
    if (!root || !mine) (void)NABLA_TRY(t.world->pass(r, 0, own.mutable_data(), bytes));
    if (root) copy_back(part.box(own.shape()), w.info.shape, nabla::bytes_of(w.info.dtype), own.data(), to);
  }
  return Ok{};
}

Status RankTeam::set_leaf(int leaf, std::span<const StateView> pieces) {
  for (uint32_t r : impl_->here()) {
    const Part& part = impl_->own(impl_->leaves[leaf], r);
    if (part.index < 0) continue;
    Rank& rank = *impl_->ranks[r];
    (void)NABLA_TRY(fill_leaf(rank, part.index, part.box(rank.leaves()[part.index].shape), pieces));
  }
  return Ok{};
}

std::vector<StatePiece> RankTeam::pieces() const {
  std::vector<StatePiece> out;
  for (uint32_t r : impl_->here())
    for (size_t i = 0; i < impl_->leaves.size(); ++i) {
      const Whole& w = impl_->leaves[i];
      const Part& part = impl_->own(w, r);
      if (part.index < 0 || !part.owner) continue;
      Box box = part.box(impl_->ranks[r]->leaves()[part.index].shape);
      for (size_t d = 0; d < w.info.shape.size(); ++d)  // padding belongs to no piece
        box.size[d] = std::clamp<int64_t>(w.info.shape[d] - box.begin[d], 0, box.size[d]);
      int64_t bytes = nabla::exec::bytes_of(w.info.dtype, box.size);
      if (bytes > 0) out.push_back({static_cast<int>(i), r, box.begin, box.size, static_cast<uint64_t>(bytes)});
    }
  return out;
}

Status RankTeam::get_piece(const StatePiece& piece, void* to) const {
  const Whole& w = impl_->leaves[piece.leaf];
  const Part& part = impl_->own(w, piece.rank);
  Rank& rank = *impl_->ranks[piece.rank];
  Box box = part.box(rank.leaves()[part.index].shape);
  if (box.size == piece.extent) return rank.engine().download(to, rank.leaf_data(part.index), piece.bytes);
  Literal own(w.info.dtype, box.size);
  (void)NABLA_TRY(rank.engine().download(own.mutable_data(), rank.leaf_data(part.index), static_cast<size_t>(own.size_bytes())));
  copy_overlap(box, own.data(), {piece.begin, piece.extent}, to, nabla::bytes_of(w.info.dtype));
  return Ok{};
}

}  // namespace nabla::exec

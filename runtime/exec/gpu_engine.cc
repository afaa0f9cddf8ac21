#include "runtime/exec/gpu_engine.h"

#include <algorithm>
#include <cstring>

#include "runtime/exec/gpu_machine.h"
#include "runtime/exec/walker.h"
#include "runtime/format/program_check.h"

namespace nabla::exec {
namespace {

using device::CudaAddress;
using format::view;

constexpr int kStaticShared = 1;        // CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES
constexpr int kMaxDynamicShared = 8;    // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

/// Nodes of the graph of some steps, or why there is none.
/// `on_gpu`: collectives run there.
int64_t nodes_of(const Bound& bound, StepRange range, bool on_gpu) {
  int64_t nodes = 0;
  for (uint32_t i = range.first; i < range.last && nodes <= GpuEngine::kMaxNodes; ++i) {
    const Step& s = bound.steps[i];
    if (s.kernel != nullptr) nodes += static_cast<int64_t>(static_cast<const GpuKernel*>(s.kernel)->grids.size());
    if (s.kernel == nullptr && s.control < 0) ++nodes;
    if (s.control < 0) continue;
    const Control& control = bound.controls[s.control];
    bool starts = control.kind == Control::Kind::kStart;  // a copy, or a collective; a wait is none
    if (starts && control.exchange->action_type() != format::Action::Transfer &&
        (!on_gpu || control.exchange->action_type() != format::Action::Collective))
      return GpuEngine::kExchanges;
    if (starts) ++nodes;
    if (starts || control.kind == Control::Kind::kWait) continue;
    bool loop = control.kind == Control::Kind::kLoop;
    if (!loop && control.kind != Control::Kind::kCall) return GpuEngine::kDecides;
    int64_t body = nodes_of(bound, control.ranges[0], on_gpu);
    if (body < 0) return body;
    nodes += body * (loop ? std::min(control.trips, GpuEngine::kMaxNodes + 1) : 1);
  }
  return nodes;
}

/// All that a graph holds of its steps, beside what their plan says: nothing but the sizes that kernels read may differ
/// between tuples that replay it.
std::vector<int64_t> recorded(const Bound& bound) {
  std::vector<int64_t> out = bound.blocks;
  auto pointer = [](const void* p) { return static_cast<int64_t>(reinterpret_cast<intptr_t>(p)); };
  for (const Step& s : bound.steps) {
    bool copies = s.kernel == nullptr && s.library == nullptr;
    out.insert(out.end(), {pointer(s.kernel), pointer(s.library), copies ? s.units : s.units > 0});
  }
  for (const Control& c : bound.controls) {
    out.insert(out.end(), {c.trips, c.kind == Control::Kind::kStart ? c.bytes : 0});
    for (const Control::Moving& m : c.moving) out.push_back(m.stride);
  }
  return out;
}

}  // namespace

GpuLaunches::~GpuLaunches() {
  (void)driver->context_set(context);  // any thread may end a session
  drop();
  exchanged.reset();
  if (extents != 0) (void)driver->memory_free(extents);
}

void GpuLaunches::drop() {
  if (graph != nullptr) (void)driver->exec_destroy(graph);
  graph = nullptr;
}

GpuEngine::GpuEngine(const format::Bundle& bundle, const format::Program& program, device::CudaDevice device,
                     const EngineOptions& options)
    : bundle_(bundle),
      program_(program),
      device_(std::move(device)),
      driver_(*device_.driver),
      sync_debug_(options.sync_debug),
      peers_(options.peers) {}

GpuEngine::~GpuEngine() {
  if (context_ == nullptr) return;
  (void)driver_.context_set(context_);
  if (stream_ != nullptr) (void)driver_.stream_synchronize(stream_);
  if (peers_ != nullptr) peers_->detach();
  libraries_.reset();
  exchanges_.reset();
  staging_.reset();
  transfers_.reset();
  for (device::CudaEvent event : events_) (void)driver_.event_destroy(event);
  for (CudaAddress memory : {arena_, constants_, arrays_})
    if (memory != 0) (void)driver_.memory_free(memory);
  for (const Module& module : modules_) (void)driver_.module_unload(module.module);
  if (stream_ != nullptr) (void)driver_.stream_destroy(stream_);
  (void)driver_.context_release(device_.device);
}

void GpuEngine::drop_graphs() {
  for (auto& [of, known] : launches_)
    if (std::shared_ptr<GpuLaunches> launches = known.lock()) launches->drop();
}

Status GpuEngine::load() {
  if (program_.libraries() != nullptr)
    for (const format::Library* library : *program_.libraries())
      if (view(library->name()) != device::CublasLt::kName && view(library->name()) != device::Cudnn::kName)
        return error(Code::kMissingLibrary, "{} needs the library `{}`, which this runtime does not use on GPUs",
                     bundle_.what(), view(library->name()));
  (void)NABLA_TRY(driver_.check("opening the GPU", driver_.context_retain(&context_, device_.device)));
  (void)NABLA_TRY(enter());
  (void)NABLA_TRY(driver_.check("making a stream", driver_.stream_create(&stream_, device::kNonBlocking)));
  if (peers_ != nullptr) {
    (void)NABLA_TRY(peers_->attach(device_, stream_, &program_));
    peers_->drop_graphs_by([this] { drop_graphs(); });
  }
  (void)NABLA_TRY(staging_.emplace(peers_).open(driver_, stream_));
  (void)NABLA_TRY(transfers_.emplace().open(driver_, stream_, program_.host_bytes()));
  exchanges_.emplace(driver_, stream_);
  algorithms_.emplace(program_, device_, stream_);
  libraries_.emplace(bundle_, program_, stream_, *algorithms_);
  (void)NABLA_TRY(load_kernels());
  (void)NABLA_TRY(allocate("an arena", program_.arena_bytes(), arena_));
  if (arena_ != 0)
    (void)NABLA_TRY(driver_.check("clearing the arena", driver_.fill(arena_, 0, program_.arena_bytes(), stream_)));
  (void)NABLA_TRY(allocate("constants", program_.constants_bytes(), constants_));
  if (constants_ != 0) {
    const void* data = bundle_.member(format::constants_member(program_)).data();
    (void)NABLA_TRY(staging_->upload(constants_, data, program_.constants_bytes()));
  }
  (void)NABLA_TRY(place_arrays());
  return staging_->finish();
}

Status GpuEngine::allocate(std::string_view what, uint64_t bytes, CudaAddress& out) {
  if (bytes == 0) return Ok{};
  int status = driver_.memory_alloc(&out, bytes);
  if (status != device::kCudaOutOfMemory) return driver_.check("allocating memory on the GPU", status);
  out = 0;
  size_t free = 0, total = 0;
  (void)driver_.memory_info(&free, &total);
  return error(Code::kOutOfMemory, "the program needs {} of {} bytes on {}, where {} of {} bytes are free", what, bytes,
               device_.name, free, total);
}

/// Room for the caller's arrays at their bounds. One entry runs at a time, so that they share it.
Status GpuEngine::place_arrays() {
  uint64_t most = 0;
  for (uint32_t e = 0; program_.entries() != nullptr && e < program_.entries()->size(); ++e) {
    uint64_t end = 0;
    auto place = [&](const auto* tensors, std::vector<void*>& out) {
      for (uint32_t i = 0; tensors != nullptr && i < tensors->size(); ++i) {
        uint64_t bytes = format::element_bytes(tensors->Get(i)->dtype());
        if (const auto* shape = tensors->Get(i)->shape())
          for (int64_t extent : *shape) bytes *= static_cast<uint64_t>(extent);
        out.push_back(reinterpret_cast<void*>(end));
        end += (bytes + 255) / 256 * 256;
      }
    };
    Arrays& arrays = entries_.emplace_back();
    place(program_.entries()->Get(e)->inputs(), arrays.inputs);
    place(program_.entries()->Get(e)->outputs(), arrays.outputs);
    most = std::max(most, end);
  }
  (void)NABLA_TRY(allocate("room for inputs and outputs", most, arrays_));
  for (Arrays& arrays : entries_)
    for (std::vector<void*>* list : {&arrays.inputs, &arrays.outputs})
      for (void*& at : *list) at = reinterpret_cast<void*>(arrays_ + device::address(at));
  return Ok{};
}

Status GpuEngine::load_kernels() {
  size_t most = 0, most_maps = 0;
  for (uint32_t i = 0; program_.kernels() != nullptr && i < program_.kernels()->size(); ++i) {
    const format::Kernel& kernel = *program_.kernels()->Get(i);
    GpuKernel& loaded = kernels_.emplace_back();
    for (const format::Grid* grid : *kernel.grids())
      loaded.grids.push_back(NABLA_TRY(load_grid(*grid, std::string(view(kernel.object())))));
    for (const GpuGrid& grid : loaded.grids) {
      most = std::max(most, static_cast<size_t>(std::max(0, grid.parameters)));
      most_maps = std::max<size_t>(most_maps, grid.maps());
    }
  }
  args_.reserve(most), maps_.reserve(most_maps);
  return Ok{};
}

Result<device::CudaModule> GpuEngine::module_of(const std::string& name) {
  for (const Module& module : modules_)
    if (module.name == name) return module.module;
  format::Bytes bytes = bundle_.member(name);
  // PTX is text that ends with a 0; the driver knows the length of anything else from its header.
  std::string text(program_.ptx() ? format::as_text(bytes) : std::string_view());
  device::CudaModule module = nullptr;
  int status = driver_.module_load(&module, program_.ptx() ? static_cast<const void*>(text.c_str()) : bytes.data());
  if (status == device::kCudaOutOfMemory) return driver_.failure(fmt::format("loading `{}`", name), status);
  if (status != device::kCudaOk)
    return error(Code::kKernelLoad, "cannot load `{}` on {}: {}", name, device_.name, driver_.text(status));
  modules_.push_back({name, module});
  return module;
}

Result<GpuGrid> GpuEngine::load_grid(const format::Grid& grid, const std::string& object) {
  GpuGrid out{nullptr, grid.threads(), grid.shared_bytes(), -1, &grid};
  device::CudaModule module = NABLA_TRY(module_of(object));
  std::string symbol(view(grid.symbol()));
  int status = driver_.module_function(&out.function, module, symbol.c_str());
  if (status == device::kCudaOutOfMemory) return driver_.failure(fmt::format("loading `{}`", symbol), status);
  if (status != device::kCudaOk)
    return error(Code::kKernelLoad, "`{}` has no kernel `{}`: {}", object, symbol, driver_.text(status));
  (void)NABLA_TRY(ask_for_shared(out.function, grid.shared_bytes(), symbol));
  if (driver_.function_parameter != nullptr) (void)NABLA_TRY(read_parameters(out, object));
  return out;
}

// Pointers, then as many tensor maps as the grid says.
Status GpuEngine::read_parameters(GpuGrid& grid, const std::string& object) const {
  using device::CudaTensorMap;
  struct Parameter {
    size_t offset, bytes;
  };
  std::vector<Parameter> all;
  Parameter next{};
  while (driver_.function_parameter(grid.function, all.size(), &next.offset, &next.bytes) == device::kCudaOk) all.push_back(next);
  const size_t pointers = all.size() - std::min<size_t>(grid.maps(), all.size());
  size_t offset = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool map = i >= pointers;
    const size_t bytes = map ? sizeof(CudaTensorMap) : sizeof(CudaAddress);
    if (map) offset = (offset + alignof(CudaTensorMap) - 1) / alignof(CudaTensorMap) * alignof(CudaTensorMap);
    if (all[i].bytes != bytes || all[i].offset != offset)
      return error(Code::kKernelLoad, "`{}`: parameter {} of kernel `{}` is {} bytes at {}, no {}", object, i,
                   view(grid.grid->symbol()), all[i].bytes, all[i].offset, map ? "tensor map" : "pointer");
    offset += bytes;
  }
  grid.parameters = static_cast<int>(all.size());
  return Ok{};
}

// Without being asked a driver gives 48 KB to what a kernel declares and a launch adds, together.
Status GpuEngine::ask_for_shared(device::CudaFunction function, unsigned dynamic, const std::string& symbol) {
  if (dynamic == 0) return Ok{};
  int own = 0;
  const int most = device_.block_shared;
  (void)NABLA_TRY(
      driver_.check("asking for a kernel's shared memory", driver_.function_get(&own, kStaticShared, function)));
  if (int64_t{own} + dynamic > most) {
    Diagnostic d =
        error(Code::kKernelLoad,
              "kernel `{}` needs {} bytes of shared memory per block, {} of its own and {} dynamic; {} has {}", symbol,
              int64_t{own} + dynamic, own, dynamic, device_.name, most);
    d.help = "compile for this GPU; of a kernel of one's own, less of either";
    return d;
  }
  int status = driver_.function_set(function, kMaxDynamicShared, static_cast<int>(dynamic));
  if (status == device::kCudaOk) return Ok{};
  return error(Code::kKernelLoad, "kernel `{}` needs {} bytes of shared memory per block, which {} refuses: {}", symbol,
               dynamic, device_.name, driver_.text(status));
}

Status GpuEngine::check_parameters(const Plan& plan, const Bound& bound) const {
  for (size_t i = 0; i < bound.steps.size(); ++i) {
    const Step& s = bound.steps[i];
    if (s.kernel == nullptr) continue;
    for (const GpuGrid& grid : static_cast<const GpuKernel*>(s.kernel)->grids) {
      const int given = static_cast<int>(s.args + grid.maps()) + (s.extents > 0 ? 1 : 0);
      if (grid.parameters >= 0 && grid.parameters != given)
        return error(Code::kKernelLoad, "{}: instruction `{}` gives kernel `{}` {} arguments; it takes {}",
                     bundle_.what(), view(plan.instructions[i]->label()), view(grid.grid->symbol()), given,
                     grid.parameters);
      for (uint32_t m = 0; m < grid.maps(); ++m)
        if (grid.grid->maps()->Get(m)->arg() >= s.args)
          return error(Code::kKernelLoad, "{}: kernel `{}` maps argument {} of {}", bundle_.what(), view(grid.grid->symbol()),
                       grid.grid->maps()->Get(m)->arg(), s.args);
    }
  }
  return Ok{};
}

Status GpuEngine::bind(const Plan& plan, Bound& bound) {
  (void)NABLA_TRY(check_parameters(plan, bound));
  (void)NABLA_TRY(enter());
  for (const Control& c : bound.controls)
    if (c.kind == Control::Kind::kStart && c.exchange->action_type() == format::Action::Transfer)
      (void)NABLA_TRY(transfers_->reserve(c.ticket));
  std::erase_if(launches_, [](const auto& known) { return known.second.expired(); });
  std::weak_ptr<GpuLaunches>& known = launches_[{&plan, recorded(bound)}];
  std::shared_ptr<GpuLaunches> launches = known.lock();
  if (launches == nullptr) {
    launches = std::make_shared<GpuLaunches>(device_.driver, context_);
    launches->nodes = nodes_of(bound, {0, plan.top_steps}, peers_ != nullptr);
    (void)NABLA_TRY(allocate("a table of sizes", bound.extents.size() * sizeof(long), launches->extents));
    known = launches;
  }
  bound.machine = std::make_unique<GpuBound>(std::move(launches));
  return Ok{};
}

Status GpuEngine::place_sizes(const Bound& bound) {
  const auto& own = static_cast<const GpuBound&>(*bound.machine);
  if (own.launches->current == &own) return Ok{};
  own.launches->current = &own;
  return staging_->upload(own.launches->extents, bound.extents.data(), bound.extents.size() * sizeof(long));
}

std::string_view GpuEngine::entry_name(const RunRequest& r) const {
  return view(program_.entries()->Get(static_cast<uint32_t>(r.entry))->name());
}

Status GpuEngine::run(const RunRequest& r) {
  (void)NABLA_TRY(enter());
  algorithms_->loaded();
  bool by_peers = false;
  auto failed = [&](Status status) -> Status {
    if (peers_ != nullptr) peers_->abort();  // what others do not come to would never end
    staging_->drop();
    transfers_->drop();
    exchanges_->drop();
    static_cast<GpuBound&>(*r.bound.machine).launches->current = nullptr;
    Diagnostic& d = status.errors()[0];
    if (!by_peers && (d.code == Code::kGpuFailed || d.code == Code::kOutOfMemory) && d.location == nullptr)
      d.message = fmt::format("entry `{}` on {}: {}", entry_name(r), device_.name, d.message);
    return status;
  };
  const Arrays& arrays = entries_[static_cast<size_t>(r.entry)];
  int64_t start = r.trace == nullptr ? 0 : now_ns();
  if (Status s = place_sizes(r.bound); !s.ok()) return failed(std::move(s));
  for (size_t i = 0; i < arrays.inputs.size(); ++i)
    if (Status s = staging_->upload(device::address(arrays.inputs[i]), r.inputs[i], r.bound.input_bytes[i]); !s.ok())
      return failed(std::move(s));
  r.plan.patch(arrays.inputs.data(), arrays.outputs.data());
  if (Status s = run_steps(r, by_peers); !s.ok()) return failed(std::move(s));
  for (size_t i = 0; i < arrays.outputs.size(); ++i)
    if (Status s = staging_->download(r.outputs[i], device::address(arrays.outputs[i]), r.bound.output_bytes[i]); !s.ok())
      return failed(std::move(s));
  if (Status s = staging_->finish(); !s.ok()) return failed(std::move(s));
  if (r.trace != nullptr) r.trace->span(r.plan.entry_label, start, now_ns());
  return Ok{};
}

Status GpuEngine::run_steps(const RunRequest& r, bool& by_peers) {
  GpuLaunches& launches = *static_cast<GpuBound&>(*r.bound.machine).launches;
  bool first = !launches.ran;
  launches.ran = true;
  if (r.trace != nullptr && first) note_graph(r, launches);
  bool watched = r.trace != nullptr || r.check != nullptr || sync_debug_;
  if (first || watched || launches.nodes <= 0 || launches.nodes > kMaxNodes) return issue(r, by_peers);
  if (launches.graph == nullptr) {
    (void)NABLA_TRY(record(r, launches, by_peers));
  } else if (launches.exchanged != nullptr) {
    peers_->replay(*launches.exchanged);
    Status told = exchanges_->replay(*r.peers, launches.exchanges);
    peers_->replayed();
    if (!told.ok()) return by_peers = true, told;
  }
  return driver_.check("replaying the graph", driver_.graph_launch(launches.graph, stream_));
}

void GpuEngine::note_graph(const RunRequest& r, const GpuLaunches& l) const {
  std::string how = fmt::format("{} {}, one graph without a trace", l.nodes, l.nodes == 1 ? "launch" : "launches");
  if (l.nodes == kDecides) how = "a loop or branch decides on the host, so that it never runs as a graph";
  if (l.nodes == kExchanges)
    how = fmt::format("ranks {}, so that it never runs as a graph",
                      peers_ == nullptr ? "exchange values through the host" : "send each other messages");
  if (l.nodes > kMaxNodes) how = fmt::format("more than {} launches, so that it never runs as a graph", kMaxNodes);
  for (size_t i = 0; i < r.bound.bucket.size(); ++i) {
    const format::SymbolSource& source = *program_.entries()->Get(static_cast<uint32_t>(r.entry))->sources()->Get(i);
    how += fmt::format("{}{} up to {}", i == 0 ? "; launched for " : ", ",
                       view(program_.symbols()->Get(source.symbol())->name()), r.bound.bucket[i]);
  }
  r.trace->note(fmt::format("entry `{}`: {}", entry_name(r), how));
}

Status GpuEngine::issue(const RunRequest& r, bool& by_peers) {
  GpuMachine machine(*this, r);
  (void)NABLA_TRY(machine.start_trace());
  int64_t failed = Walker<GpuMachine>(r.plan, r.bound, machine).run();
  if (failed < 0) return machine.finish_trace();
  const format::Instruction& i = *r.plan.instructions[static_cast<size_t>(failed)];
  if (r.check != nullptr && r.check->found()) return r.check->report(program_, std::string(entry_name(r)), i);
  if (r.stopped() && !machine.failure()) return stopped_in(std::string(entry_name(r)), i);
  Diagnostic d = *machine.failure();
  bool settled = d.code >= Code::kRanksDiverge && d.code <= Code::kTransportFailed;  // that of a wait for the stream
  if ((by_peers = machine.by_peers() || settled)) return d;
  d.message = fmt::format("instruction {} `{}`: {}", failed, view(i.label()), d.message);
  if (!sync_debug_) return d;
  d.message = fmt::format("entry `{}` on {}: {}", entry_name(r), device_.name, d.message);
  d.location = location_of(program_, i);
  d.help = "every instruction before this one came to its end";
  return d;
}

Status GpuEngine::record(const RunRequest& r, GpuLaunches& launches, bool& by_peers) {
  if (peers_ != nullptr) launches.exchanged = NABLA_TRY(peers_->record(static_cast<size_t>(launches.nodes)));
  (void)NABLA_TRY(driver_.begin_recording(stream_));
  Status issued = record_steps(r, launches, by_peers);
  int recorded = driver_.end_recording(stream_, issued.ok(), launches.graph);
  if (!issued.ok()) return issued;
  (void)NABLA_TRY(driver_.check("recording a graph", recorded));
  return driver_.check("sending a graph", driver_.graph_upload(launches.graph, stream_));
}

// The steps of the graph, and with other ranks what it exchanges.
Status GpuEngine::record_steps(const RunRequest& r, GpuLaunches& launches, bool& by_peers) {
  if (peers_ == nullptr) return issue(r, by_peers);
  launches.exchanges.clear();
  exchanges_->record(&launches.exchanges);
  Status issued = issue(r, by_peers);
  exchanges_->record(nullptr);
  Status joined = peers_->recorded();
  if (launches.exchanges.empty()) launches.exchanged = nullptr;
  if (issued.ok() && !joined.ok()) return by_peers = true, joined;
  return issued;
}

// No run is under way: a run ends when all of its copies have.
Status GpuEngine::upload(void* to, const void* from, size_t bytes) {
  (void)NABLA_TRY(enter());
  if (transfers_->holds(to)) return std::memcpy(to, from, bytes), Ok{};
  Status status = staging_->upload(device::address(to), from, bytes);
  if (status.ok()) return staging_->finish();
  staging_->drop();
  return status;
}

Status GpuEngine::download(void* to, const void* from, size_t bytes) {
  (void)NABLA_TRY(enter());
  if (transfers_->holds(from)) return std::memcpy(to, from, bytes), Ok{};
  Status status = staging_->download(to, device::address(from), bytes);
  if (status.ok()) return staging_->finish();
  staging_->drop();
  return status;
}

const void* GpuEngine::look(const void* at, size_t bytes, std::vector<char>& room) {
  room.resize(bytes + 1);  // never empty, so that there is an address
  return download(room.data(), at, bytes).ok() ? room.data() : nullptr;
}

Result<std::unique_ptr<Engine>> make_gpu_engine(const format::Bundle& bundle, const format::Program& program,
                                                device::CudaDevice device, const EngineOptions& options) {
  auto engine = std::make_unique<GpuEngine>(bundle, program, std::move(device), options);
  Status loaded = engine->load();
  if (loaded.ok()) return std::unique_ptr<Engine>(std::move(engine));
  Diagnostic& d = loaded.errors()[0];
  if (d.code == Code::kGpuFailed) d.help = "no instruction ran; nvidia-smi shows the state of the GPU";
  return std::move(loaded.errors());
}

}  // namespace nabla::exec

#include "runtime/checkpoint/writer.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <new>
#include <set>

#include "runtime/base/system.h"

namespace nabla::checkpoint {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

std::string file_of(uint32_t process) { return fmt::format("rank-{}.safetensors", process); }

/// "w" of a whole leaf, "w[0:32,64:128]" of a part.
std::string name_of_piece(const exec::TensorInfo& leaf, const exec::StatePiece& piece) {
  if (piece.extent == leaf.shape) return leaf.name;
  std::string out;
  for (size_t d = 0; d < piece.begin.size(); ++d)
    out += fmt::format("{}{}:{}", d == 0 ? "" : ",", piece.begin[d], piece.begin[d] + piece.extent[d]);
  return fmt::format("{}[{}]", leaf.name, out);
}

/// The pieces of this process, as the manifest of a run of one process has them.
std::vector<Placement> placements_of(const std::vector<exec::StatePiece>& pieces) {
  std::vector<Placement> out;
  for (const exec::StatePiece& piece : pieces) {
    Placement& p = out.emplace_back();
    p.leaf = piece.leaf;
    for (size_t d = 0; d < piece.begin.size(); ++d) p.cuts.push_back({piece.begin[d], piece.extent[d], {}});
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Writer>> Writer::create(const exec::Session& session, WriterOptions options, Party party) {
  Status made = make_folder(options.dir);
  std::optional<FolderLock> lock;
  if (party.first()) {
    if (made.ok()) lock.emplace(NABLA_TRY(FolderLock::take(options.dir)));
    if (made.ok()) remove_unfinished(options.dir);
    (void)NABLA_TRY(party.put("begun", ""));
  }
  (void)NABLA_TRY(std::move(made));
  (void)NABLA_TRY(party.get("begun"));  // from here on every unfinished folder is one of this start
  std::unique_ptr<Writer> out(new Writer(session, std::move(options), party, std::move(lock)));
  (void)NABLA_TRY(start_thread(out->thread_, "writes checkpoints", [writer = out.get()] { writer->serve(); }));
  return out;
}

Writer::Writer(const exec::Session& session, WriterOptions options, Party party, std::optional<FolderLock> lock)
    : session_(session), options_(std::move(options)), party_(party), lock_(std::move(lock)), leaves_(leaves_of(session)) {
  std::vector<format::SafetensorsEntry> entries;
  std::set<std::string> names;
  uint64_t bytes = 0;
  if (party_.processes == 1) {
    pieces_ = session.state_pieces(), placements_ = placements_of(pieces_);
  } else {
    placements_ = options_.layout.written();
    for (Piece& p : pieces_in(party_.process, leaves_, placements_))
      pieces_.push_back({p.leaf, party_.process, std::move(p.begin), std::move(p.extent), p.bytes});
  }
  for (const exec::StatePiece& piece : pieces_) {
    const exec::TensorInfo& leaf = session.state_leaves()[static_cast<size_t>(piece.leaf)];
    std::string name = name_of_piece(leaf, piece);
    while (!names.insert(name).second) name += "'";
    entries.push_back({name, leaf.dtype, piece.extent});
    bytes += piece.bytes;
  }
  header_ = format::safetensors_header(entries);
  copy_.resize(bytes);
}

Writer::~Writer() {
  {
    std::lock_guard lock(mutex_);
    quit_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status Writer::save(int64_t step, format::Metadata metadata) {
  Status before = finish();
  auto begin = Clock::now();
  uint64_t at = 0;
  for (const exec::StatePiece& piece : pieces_) {
    (void)NABLA_TRY(session_.get_piece(piece, copy_.data() + at));
    at += piece.bytes;
  }
  cost_.copy_s += seconds_since(begin);
  std::lock_guard lock(mutex_);
  work_ = Work{count_++, step, std::move(metadata)};
  changed_.notify_all();
  return before;
}

Status Writer::finish() {
  auto begin = Clock::now();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return !work_; });
  cost_.wait_s += seconds_since(begin);
  return take_result();
}

Status Writer::ended() {
  std::lock_guard lock(mutex_);
  return take_result();
}

// With the lock.
Status Writer::take_result() {
  if (!result_) return Ok{};
  Status out = std::move(*result_);
  result_.reset();
  cost_.write_s += result_s_;
  ++(out.ok() ? cost_.written : cost_.failed);
  if (out.ok()) cost_.bytes = result_bytes_, newest_ = result_folder_;
  return out;
}

void Writer::serve() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return work_ || quit_; });
    if (!work_) return;
    Work work = std::move(*work_);
    lock.unlock();
    auto begin = Clock::now();
    Status status = Ok{};
    try {
      status = write(work);
    } catch (const std::bad_alloc&) {
      status = error(Code::kOutOfMemory, "no memory for the manifest of a checkpoint");
    }
    lock.lock();
    result_ = std::move(status), result_s_ = seconds_since(begin);
    result_folder_ = options_.dir + "/" + name_of(work.step);
    work_.reset();
    changed_.notify_all();
  }
}

// The first phase: all processes write, and tell the first one, which decides. Nobody writes there any more when it does.
Status Writer::write(const Work& work) {
  std::string folder = options_.dir + "/" + unfinished(work.step, party_.epoch), key = std::to_string(work.number);
  format::Bytes bytes[] = {format::as_bytes(header_), format::as_bytes({copy_.data(), copy_.size()})};
  Result<File> own = write_part(folder, file_of(party_.process), bytes);
  std::string said = own.ok() ? fmt::format("ok {} {}", own->size, own->checksum) : text_of(own.errors().front());
  (void)NABLA_TRY(party_.put(fmt::format("{}/{}", key, party_.process), said));
  if (party_.first()) {
    Status committed = commit_all(work, folder);
    (void)NABLA_TRY(party_.put(key + "/done", committed.ok() ? "ok" : text_of(committed.errors().front())));
    return committed;
  }
  std::string done = NABLA_TRY(party_.get(key + "/done"));
  return done == "ok" ? Status(Ok{}) : diagnostic_of(done);
}

// The second phase.
Status Writer::commit_all(const Work& work, const std::string& folder) {
  Result<Manifest> manifest = collect(work, folder);
  Status committed = manifest.ok() ? commit(options_.dir, unfinished(work.step, party_.epoch), *manifest) : manifest.errors();
  if (!committed.ok()) {
    remove_checkpoint(folder);
    return committed;
  }
  uint64_t bytes = 0;
  for (const File& file : manifest->files) bytes += file.size;
  {
    std::lock_guard lock(mutex_);
    result_bytes_ = bytes;
  }
  // One that cannot be listed or removed costs room alone.
  if (Result<std::vector<int64_t>> steps = steps_in(options_.dir); steps.ok())
    for (int64_t step : superseded(*steps, work.step, options_.keep)) remove_checkpoint(options_.dir + "/" + name_of(step));
  return Ok{};
}

Result<Manifest> Writer::collect(const Work& work, const std::string& folder) {
  Manifest out{work.step, party_.epoch, options_.written_by, work.metadata, leaves_, {}, placements_};
  std::optional<Diagnostic> problem;
  for (uint32_t p = 0; p < party_.processes; ++p) {
    std::string said = NABLA_TRY(party_.get(fmt::format("{}/{}", work.number, p)));
    File file{file_of(p), 0, 0};
    if (std::sscanf(said.c_str(), "ok %" SCNu64 " %" SCNu32, &file.size, &file.checksum) != 2) {
      if (problem) continue;
      problem = diagnostic_of(said);
      if (party_.processes > 1) problem->message = fmt::format("rank {}: {}", p, problem->message);
      continue;
    }
    struct stat info {};
    if (::stat((folder + "/" + file.name).c_str(), &info) != 0 || static_cast<uint64_t>(info.st_size) != file.size) {
      if (!problem) {
        problem = error(Code::kWriteFailed, "rank {} has written `{}/{}`, which rank 0 does not see", p, folder, file.name);
        problem->help = "use a --checkpoint-dir on a file system that all ranks share";
      }
      continue;
    }
    out.files.push_back(std::move(file));
  }
  if (problem) return *problem;
  return out;
}

}  // namespace nabla::checkpoint

#include "cli/nabla_run/checkpoint.h"

#include <cstdio>

#include "cli/nabla_run/ranks.h"
#include "runtime/base/text.h"
#include "runtime/checkpoint/reader.h"
#include "runtime/format/file.h"

namespace nabla::cli {
namespace {

/// The store of the coordinator.
class MemberMeeting final : public checkpoint::Meeting {
 public:
  explicit MemberMeeting(control::Member& member) : member_(member) {}
  Status put(const std::string& key, const std::string& value) override { return member_.put(key, value); }
  Result<std::string> get(const std::string& key, double timeout_s) override { return member_.get(key, timeout_s); }

 private:
  control::Member& member_;
};

/// Runs of all entries but `init`: what the folders of checkpoints are numbered by.
int64_t step_of(const ProgressOf& progress) {
  int64_t out = 0;
  for (const auto& [entry, p] : progress)
    if (entry != "init") out += p.step;
  return out;
}

void tell(const std::string& line) { std::fputs(printable(line, "").append("\n").c_str(), stderr); }

std::string bytes_str(uint64_t bytes) {
  return bytes < 10'000'000 ? fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1e3)
                            : fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

Status check_empty(const std::string& dir) {
  std::vector<int64_t> steps = NABLA_TRY(checkpoint::steps_in(dir));
  if (steps.empty()) return Ok{};
  Diagnostic d = error(Code::kBadOption, "--checkpoint-dir `{}` has checkpoints, up to step {}", dir, steps.back());
  d.help = "go on from there with --resume latest, or begin anew in another folder";
  return d;
}

}  // namespace

Result<std::unique_ptr<Checkpoints>> Checkpoints::begin(exec::Session& session, const RunOptions& options, RankProcess* rank,
                                                        checkpoint::Layout layout, ProgressOf& progress) {
  std::unique_ptr<Checkpoints> out(new Checkpoints(session, options));
  if (rank != nullptr) out->layout_ = layout;
  const CheckpointOptions& o = options.checkpoints;
  if (rank != nullptr)
    out->meeting_ = std::make_unique<MemberMeeting>(rank->member());
  else
    out->meeting_ = std::make_unique<checkpoint::LocalMeeting>();
  out->party_ = {out->meeting_.get(), 0, 1, 0};
  if (rank != nullptr) out->party_ = {out->meeting_.get(), rank->rank(), rank->ranks(), rank->epoch()};
  // The folder is this run's before it is read: another that is at work there would write more.
  std::string team = session.team();
  checkpoint::WriterOptions writing{o.dir, {o.keep, o.keep_every}, team.empty() ? "1 rank" : team, std::move(layout)};
  out->writer_ = NABLA_TRY(checkpoint::Writer::create(session, std::move(writing), out->party_));
  // A start after the first goes on with what the ones before have left.
  std::string which = !o.resume.empty() || out->party_.epoch == 0 ? o.resume : "latest";
  if (!which.empty())
    (void)NABLA_TRY(out->resume(which, progress));
  else if (out->party_.first())
    (void)NABLA_TRY(check_empty(o.dir));
  return out;
}

Status Checkpoints::resume(const std::string& which, ProgressOf& progress) {
  const std::string& dir = options_.checkpoints.dir;
  std::optional<checkpoint::Checkpoint> found =
      NABLA_TRY(checkpoint::find({dir, which, tell}, checkpoint::leaves_of(session_), party_));
  if (!found) {
    if (party_.first()) tell(fmt::format("note: `{}` has no checkpoint yet: the run begins anew", dir));
    return Ok{};
  }
  (void)NABLA_TRY(found->load(session_, layout_, party_.process));
  progress = NABLA_TRY(read_progress(found->manifest().metadata, found->folder()));
  resumed_ = true, loaded_ = found->folder(), last_ = step_of(progress);
  if (party_.first()) tell(fmt::format("resumed from {}", loaded_));
  if (options_.state.empty()) return Ok{};
  // The first start went on from there: what the line asks for counts from its end.
  std::shared_ptr<const format::FileBytes> file = NABLA_TRY(format::FileBytes::map(options_.state));
  format::Metadata metadata = NABLA_TRY(format::safetensors_metadata(file->bytes(), options_.state));
  for (const auto& [entry, p] : NABLA_TRY(read_progress(metadata, options_.state))) goals_[entry] = p.step;
  return Ok{};
}

Checkpoints::~Checkpoints() {
  // Others may never write their parts, and this process is about to end hard.
  if (!ended_ && party_.processes > 1) (void)writer_.release(), (void)meeting_.release();
}

int64_t Checkpoints::goal(const std::string& entry, int64_t done, int64_t runs, std::optional<int64_t> start_step) {
  if (!resumed_) return done + runs;
  int64_t& goal = goals_[entry];
  if (start_step) goal = *start_step - 1;
  goal = runs > INT64_MAX - goal ? INT64_MAX : goal + runs;
  return goal;
}

Status Checkpoints::after_run(const ProgressOf& progress) {
  (void)NABLA_TRY(judge(writer_->ended(), false));
  const std::optional<int64_t>& every = options_.checkpoints.every;
  return every && step_of(progress) % *every == 0 ? save(progress) : Ok{};
}

Status Checkpoints::save(const ProgressOf& progress) {
  for (size_t i = 0; i < session_.state_leaves().size(); ++i)
    if (!session_.has_value(static_cast<int>(i)))
      return error(Code::kStateMissing, "a checkpoint needs all state, and `{}` has no value yet", session_.state_leaves()[i].name);
  (void)NABLA_TRY(judge(writer_->finish(), false));
  last_ = step_of(progress);
  return writer_->save(last_, progress_metadata(progress));
}

// Nobody goes on after the last one, so that it is no warning.
Status Checkpoints::judge(const Status& written, bool last) {
  if (written.ok()) return Ok{};
  Diagnostic why = written.errors().front();
  if (last || options_.checkpoints.required) {
    why.notes.push_back(newest().empty() ? "no checkpoint has been written" : fmt::format("the last checkpoint is {}", newest()));
    return why;
  }
  if (party_.first()) tell(fmt::format("warning: a checkpoint is not written: {}", why.message));
  return Ok{};
}

Status Checkpoints::end(const ProgressOf& progress, bool usable) {
  if (!usable && party_.processes > 1) return Ok{};
  int64_t step = step_of(progress);
  if (usable && step > 0 && step != last_) (void)NABLA_TRY(save(progress));
  Status last = judge(writer_->finish(), true);
  ended_ = true;
  const checkpoint::Cost& c = writer_->cost();
  if (party_.first() && c.written + c.failed > 0) {
    std::string failed = c.failed > 0 ? fmt::format(", {} failed", c.failed) : "";
    std::string last_one = c.written > 0 ? fmt::format(", the last {} with {}", newest(), bytes_str(c.bytes)) : "";
    tell(fmt::format("checkpoints: {} written{}{}; the run stood {:.1f} ms to copy and {:.1f} ms to wait, writing took {:.1f} ms",
                     c.written, failed, last_one, c.copy_s * 1e3, c.wait_s * 1e3, c.write_s * 1e3));
  }
  return last;
}

}  // namespace nabla::cli

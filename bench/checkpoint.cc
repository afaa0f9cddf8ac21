// What checkpoints cost a run that goes on meanwhile.
#include "runtime/checkpoint/writer.h"

#include <algorithm>

#include "bench/bench.h"
#include "examples/charlm/charlm.h"

namespace nabla::bench {
namespace {

constexpr int kSteps = 40, kEvery = 10;

/// Training steps of the language model, by themselves or with a checkpoint every ten.
class Training {
 public:
  static Result<Training> open(const Paths& paths) {
    Training out;
    out.session_ = NABLA_TRY(open_program(charlm::make_program({}).module(), 0));
    uint32_t seed[2] = {0, 0};
    const void* inputs[] = {seed};
    NABLA_TRY(out.session_->run(out.session_->find_entry("init"), inputs, {}));
    out.entry_ = out.session_->find_entry("step");
    out.buffers_ = std::make_unique<Buffers>(out.session_->entries()[static_cast<size_t>(out.entry_)]);
    out.meeting_ = std::make_unique<checkpoint::LocalMeeting>();
    checkpoint::WriterOptions writing{paths.scratch + "/checkpoints", {}, ""};
    out.writer_ = NABLA_TRY(checkpoint::Writer::create(*out.session_, writing, {out.meeting_.get(), 0, 1, 0}));
    return out;
  }
  /// Seconds. The last write ends within the steps that follow it.
  Result<double> run(bool checkpoints) {
    double begin = now();
    for (int i = 0; i < kSteps; ++i) {
      NABLA_TRY(session_->run(entry_, buffers_->in, buffers_->out));
      if (checkpoints && i % kEvery == kEvery / 2 - 1) NABLA_TRY(writer_->save(++saved_, {}));
    }
    double seconds = now() - begin;
    NABLA_TRY(writer_->finish());
    return seconds;
  }

 private:
  std::unique_ptr<exec::Session> session_;
  int entry_ = 0;
  std::unique_ptr<Buffers> buffers_;
  std::unique_ptr<checkpoint::Meeting> meeting_;
  std::unique_ptr<checkpoint::Writer> writer_;
  int64_t saved_ = 0;
};

// Rounds alternate, so that both see the same machine; the best of each counts.
Result<Measurement> cost(const Paths& paths) {
  Training training = NABLA_TRY(Training::open(paths));
  double with = 1e9, without = 1e9;
  for (int round = 0; round < 7; ++round) {
    without = std::min(without, NABLA_TRY(training.run(false)));
    with = std::min(with, NABLA_TRY(training.run(true)));
  }
  return against_budget(with / without, "", 1.03);
}

}  // namespace

std::vector<Bench> checkpoint_benches() {
  return {{"checkpoint_cost", "time of charlm's steps with an asynchronous checkpoint every 10, over that without", cost}};
}

}  // namespace nabla::bench

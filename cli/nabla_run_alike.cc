#include "cli/nabla_run_alike.h"

#include <unistd.h>

#include <set>

#include "cli/nabla_run_data.h"
#include "runtime/control/wire.h"
#include "runtime/format/content.h"
#include "runtime/format/sha256.h"

namespace nabla::cli {
namespace {

std::string short_digest(const std::string& bytes) { return format::sha256_hex(format::as_bytes(bytes)).substr(0, 8); }

/// Of "NAME=FILE:ARRAY" or "NAME=NUMBER". Names may hold `=`, and which there are is not known yet: a file that is there counts.
std::string input_line(const Assignment& input) {
  std::string text = input.name + "=" + input.value;
  for (size_t at = input.name.size(); at != text.npos; at = text.find('=', at + 1)) {
    Assignment split{text.substr(0, at), text.substr(at + 1)};
    std::string file = file_of(split);
    if (file.empty() || ::access(file.c_str(), F_OK) != 0) continue;
    std::string array = split.value.substr(file.size());
    return fmt::format("{}{} {}", split.name, array, format::content_of_file(file));
  }
  std::string file = file_of(input);
  return file.empty() ? text : fmt::format("{} {}", input.name, format::content_of_file(file));
}

}  // namespace

std::string job_of(const RunOptions& o) {
  std::string out;
  auto say = [&](const char* option, const auto& value) { out += fmt::format("{}\t{}\n", option, value); };
  auto number = [&](const char* option, const auto& value) {
    if (value) say(option, *value);
  };
  auto there = [&](const char* option, bool given) {
    if (given) out += std::string(option) + "\n";
  };
  auto file = [&](const char* option, const std::string& path) {
    if (!path.empty()) say(option, format::content_of_file(path));
  };
  auto in_any_order = [&](const char* option, const std::vector<Assignment>& all, std::string (*text)(const Assignment&)) {
    std::set<std::string> lines;
    for (const Assignment& a : all) lines.insert(text(a));
    for (const std::string& line : lines) say(option, line);
  };
  say("--engine", o.ranks.engine == "nccl" ? "nccl" : "mpi");
  for (const JobOptions& job : o.jobs) {
    say("--entry", job.entry);
    in_any_order("--map", job.maps, [](const Assignment& a) { return a.name + "=" + a.value; });
    in_any_order("--input", job.inputs, input_line);
    file("--data", job.data);
    number("--steps", job.steps), number("--epochs", job.epochs), number("--bench", job.bench), number("--batch", job.batch);
    number("--start-step", job.start_step), number("--skip", job.skip);
  }
  number("--seed", o.seed);
  file("--state", o.state), file("--weights", o.weights);
  for (const std::string& map : o.weight_maps) say("--weights-map", map);
  there("--weights-partial", o.weights_partial), there("--save-state", !o.save_state.empty());
  there("--check-nan", o.check_nan), there("--check-messages", o.ranks.check_messages);
  there("--trace", !o.trace.empty());  // which all bring together at the end
  say("--heartbeat", o.ranks.heartbeat_s), number("--comm-timeout", o.comm_timeout_s);
  const CheckpointOptions& c = o.checkpoints;
  there("--checkpoint-dir", !c.dir.empty()), there("--checkpoint-required", c.required);
  number("--checkpoint-every", c.every);
  if (!c.resume.empty()) say("--resume", c.resume);
  // The first message to the coordinator is short.
  constexpr size_t kMost = control::kMostHello / 2;
  if (out.size() <= kMost) return out;
  size_t end = out.rfind('\n', kMost - 1) + 1;
  return out.substr(0, end) + fmt::format("further options\t(digest {})\n", short_digest(out.substr(end)));
}

}  // namespace nabla::cli

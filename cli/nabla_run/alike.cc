#include "cli/nabla_run/alike.h"

#include <unistd.h>

#include <algorithm>

#include "cli/nabla_run/data.h"
#include "cli/nabla_run/option_rows.h"
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

// Describes one option as lines of text, by which ranks compare what they were started with.
struct Lines {
  const OptionRow& row;

  std::vector<std::string> operator()(const std::string* text) const {
    if (text->empty() && !row.of_entry()) return {};
    if (row.alike == Alike::kContent) return text->empty() ? std::vector<std::string>() : std::vector{format::content_of_file(*text)};
    return {*text};
  }
  std::vector<std::string> operator()(const std::vector<std::string>* texts) const { return *texts; }
  // The order on the command line does not matter.
  std::vector<std::string> operator()(const std::vector<Assignment>* all) const {
    std::vector<std::string> out;
    for (const Assignment& a : *all) out.push_back(row.alike == Alike::kContent ? input_line(a) : a.name + "=" + a.value);
    std::sort(out.begin(), out.end());
    out.erase(std::unique(out.begin(), out.end()), out.end());
    return out;
  }
  std::vector<std::string> operator()(const comm::Engine* const* engine) const {
    return *engine ? std::vector<std::string>{(*engine)->name} : std::vector<std::string>();
  }
  std::vector<std::string> operator()(const bool* given) const {
    return *given ? std::vector<std::string>{""} : std::vector<std::string>();
  }
  template <class T>
  std::vector<std::string> operator()(const T* number) const {
    return {fmt::format("{}", *number)};
  }
  template <class T>
  std::vector<std::string> operator()(const std::optional<T>* number) const {
    return *number ? std::vector{fmt::format("{}", **number)} : std::vector<std::string>();
  }
};

}  // namespace

std::string job_of(const RunOptions& options) {
  RunOptions o = options;
  JobOptions none;
  std::string out = fmt::format("--engine\t{}\n", (o.ranks.engine ? o.ranks.engine : comm::engine_named("mpi"))->name);
  auto say = [&](const OptionRow& row, JobOptions& job) {
    if (row.alike == Alike::kNothing) return;
    for (const std::string& text : std::visit(Lines{row}, row.place(o, job))) {
      const bool bare = row.alike == Alike::kPresence;
      out += bare ? fmt::format("{}\n", row.flag) : fmt::format("{}\t{}\n", row.flag, text);
    }
  };
  for (JobOptions& job : o.jobs)
    for (const OptionRow& row : option_rows())
      if (row.of_entry()) say(row, job);
  for (const OptionRow& row : option_rows())
    if (!row.of_entry()) say(row, none);
  // The first message to the coordinator is short.
  constexpr size_t kMost = control::kMostHello / 2;
  if (out.size() <= kMost) return out;
  size_t end = out.rfind('\n', kMost - 1) + 1;
  return out.substr(0, end) + fmt::format("further options\t(digest {})\n", short_digest(out.substr(end)));
}

}  // namespace nabla::cli

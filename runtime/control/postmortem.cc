// Boards on disk, and what they say.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <nlohmann/json.hpp>

#include "runtime/control/keeper.h"
#include "runtime/format/file.h"

namespace nabla::control {
namespace {

using Json = nlohmann::ordered_json;

std::string dumped(const Json& value) { return value.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n"; }

Status write(const std::string& folder, const std::string& name, const Json& value) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return error(Code::kWriteFailed, "{}: {}", folder, std::strerror(errno));
  return format::write_file(folder + "/" + name, dumped(value));
}

Result<Json> read(const std::string& path) {
  auto file = NABLA_TRY(format::FileBytes::map(path));
  Json value = Json::parse(file->bytes().begin(), file->bytes().end(), nullptr, false);
  if (!value.is_object()) return error(Code::kCorrupt, "{} is no report of a rank", path);
  return value;
}

Result<std::vector<std::string>> boards_in(const std::string& folder) {
  DIR* open = ::opendir(folder.c_str());
  if (open == nullptr) return error(Code::kNotFound, "{}: {}", folder, std::strerror(errno));
  std::vector<std::string> names;
  while (const dirent* e = ::readdir(open))
    if (std::string n = e->d_name; n.starts_with("rank-") && n.ends_with(".json")) names.push_back(n);
  ::closedir(open);
  return names;
}

}  // namespace

std::string board_file(uint32_t rank) { return fmt::format("rank-{}.json", rank); }

Status write_board(const comm::Board& board, uint32_t rank, uint32_t epoch, const std::string& folder) {
  Json events = Json::array();
  for (const comm::Event& e : comm::events_of(board))
    events.push_back({{"sequence", e.sequence},
                      {"run", e.run},
                      {"what", comm::text_of(board, e.sequence)},
                      {"bytes", e.bytes},
                      {"started_us", e.started},
                      {"waited_us", e.waited},
                      {"done_us", e.done}});
  int64_t since = board.waiting_since.load(), now = comm::steady_us();
  Json out{{"rank", rank}, {"epoch", epoch}, {"run", board.run.load()}, {"sequence", comm::reached(board)}};
  out["waiting_us"] = since == 0 ? 0 : now - since;
  out["waiting_for"] = since == 0 ? 0 : board.waiting_for.load();
  out["what"] = comm::text_of(board, since == 0 ? comm::reached(board) : board.waiting_for.load());
  out["now_us"] = now;
  out["events"] = std::move(events);
  return write(folder, board_file(rank), out);
}

Status write_cause(const Diagnostic& why, const std::string& folder) {
  std::string text = why.message;
  for (const std::string& note : why.notes) text += "\n" + note;
  return write(folder, "cause.json", {{"code", static_cast<int>(why.code)}, {"text", text}});
}

Status check_reports(const std::string& folder) {
  // Ranks of one machine try at once: one that another has just made may be gone at the second look.
  for (int again = 0; again < 1000; ++again) {
    if (::mkdir(folder.c_str(), 0777) == 0) return (void)::rmdir(folder.c_str()), Ok{};  // only a run that fails leaves one
    if (errno != EEXIST) break;
    if (::access((folder + "/.").c_str(), W_OK | X_OK) == 0) return Ok{};
    if (errno != ENOENT) break;
  }
  return error(Code::kWriteFailed, "--reports: nothing can be written into {}: {}", folder, std::strerror(errno));
}

void clear_reports(const std::string& folder) {
  Result<std::vector<std::string>> names = boards_in(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names) ::unlink((folder + "/" + name).c_str());
  ::unlink((folder + "/cause.json").c_str());
}

Result<std::string> postmortem(const std::string& folder) {
  std::vector<std::string> names = NABLA_TRY(boards_in(folder));
  std::string out;
  if (Result<Json> cause = read(folder + "/cause.json"); cause.ok() && cause->value("text", Json()).is_string()) {
    std::string text = (*cause)["text"];
    out = text.substr(0, text.find('\n')) + ".\n";
  }
  std::vector<std::pair<int64_t, std::string>> lines;
  for (const std::string& name : names) {
    Json rank = NABLA_TRY(read(folder + "/" + name));
    auto number = [&](const char* key) { return rank.value(key, Json()).is_number() ? rank[key].get<int64_t>() : 0; };
    std::string what = rank.value("what", Json()).is_string() ? rank["what"].get<std::string>() : "";
    int64_t waiting = number("waiting_us");
    std::string line = waiting > 0 ? fmt::format("rank {} waited {:.2f} s in run {} for exchange {}: {}", number("rank"),
                                                 static_cast<double>(waiting) / 1e6, number("run"), number("waiting_for"), what)
                       : number("sequence") == 0
                           ? fmt::format("rank {} was in run {}, before its first exchange", number("rank"), number("run"))
                           : fmt::format("rank {} computed in run {}, after it began exchange {}: {}", number("rank"),
                                         number("run"), number("sequence"), what);
    lines.emplace_back(number("rank"), line);
  }
  if (out.empty() && lines.empty()) return error(Code::kNotFound, "{} holds no reports of ranks", folder);
  std::sort(lines.begin(), lines.end());
  for (const auto& [rank, line] : lines) out += "  " + line + "\n";
  return out;
}

}  // namespace nabla::control

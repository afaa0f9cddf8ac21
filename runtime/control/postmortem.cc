// Boards on disk, and what they say.
#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <set>

#include <nlohmann/json.hpp>

#include "runtime/control/keeper.h"
#include "runtime/format/file.h"

namespace nabla::control {
namespace {

using Json = nlohmann::json;

// By which a file is known again as one that was written here.
constexpr const char *kFormat = "nabla report", *kCause = "cause.json";

std::string json_str(const std::string& text) { return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace); }

Result<Json> read(const std::string& path) {
  auto file = NABLA_TRY(format::FileBytes::map(path));
  Json value = Json::parse(file->bytes().begin(), file->bytes().end(), nullptr, false);
  if (!value.is_object()) return error(Code::kCorrupt, "{} is no report of a rank", path);
  return value;
}

bool is_report(const std::string& path) {
  Result<Json> value = read(path);
  return value.ok() && value->value("format", Json()) == kFormat;
}

/// Only a report makes room for another.
Status check_place(const std::string& path) {
  if (is_report(path) || ::access(path.c_str(), F_OK) != 0) return Ok{};  // in this order: others may remove it meanwhile
  Diagnostic d = error(Code::kWriteFailed, "{} is no report of nabla-run, and its place is where one goes", path);
  d.help = "give another folder, or move this file away";
  return d;
}

/// `members`: of a JSON object.
Status write(const std::string& folder, const std::string& name, const std::string& members) {
  if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    return error(Code::kWriteFailed, "{}: {}", folder, std::strerror(errno));
  (void)NABLA_TRY(check_place(folder + "/" + name));
  return format::write_file(folder + "/" + name, fmt::format("{{\"format\":\"{}\",{}}}\n", kFormat, members));
}

/// "rank-3.json"
bool is_board(const std::string& name) {
  constexpr std::string_view kBegin = "rank-", kEnd = ".json";
  if (name.size() <= kBegin.size() + kEnd.size() || !name.starts_with(kBegin) || !name.ends_with(kEnd)) return false;
  return name.find_first_not_of("0123456789", kBegin.size()) == name.size() - kEnd.size();
}

Result<std::vector<std::string>> boards_in(const std::string& folder) {
  DIR* open = ::opendir(folder.c_str());
  if (open == nullptr) return error(Code::kNotFound, "{}: {}", folder, std::strerror(errno));
  std::vector<std::string> names;
  while (const dirent* e = ::readdir(open))
    if (is_board(e->d_name)) names.emplace_back(e->d_name);
  ::closedir(open);
  return names;
}

/// What a rank was at.
std::string line_of(const Json& rank) {
  auto number = [&](const char* key) { return rank.value(key, Json()).is_number_integer() ? rank[key].get<int64_t>() : 0; };
  std::string what = rank.value("what", Json()).is_string() ? rank["what"].get<std::string>() : "";
  std::string out = fmt::format("rank {} ", number("rank")), run = fmt::format(" in run {}", number("run"));
  if (int64_t waiting = number("waiting_us"); waiting > 0)
    return out + fmt::format("waited {:.2f} s{} for exchange {}: {}", static_cast<double>(waiting) / 1e6, run, number("waiting_for"), what);
  if (number("sequence") == 0) return out + "was" + run + ", before its first exchange";
  return out + fmt::format("computed{}, after it began exchange {}: {}", run, number("sequence"), what);
}

}  // namespace

std::string board_file(uint32_t rank) { return fmt::format("rank-{}.json", rank); }

Status write_board(const comm::Board& board, uint32_t rank, uint32_t epoch, const std::string& folder) {
  std::string events;
  for (const comm::Event& e : comm::events_of(board))
    events += fmt::format("{}{{\"sequence\":{},\"run\":{},\"what\":{},\"bytes\":{},\"started_us\":{},\"waited_us\":{},\"done_us\":{}}}",
                          events.empty() ? "" : ",", e.sequence, e.run, json_str(comm::text_of(board, e.sequence)), e.bytes, e.started,
                          e.waited, e.done);
  int64_t since = board.waiting_since.load(), now = comm::steady_us();
  uint64_t waits_for = since == 0 ? 0 : board.waiting_for.load(), reached = comm::reached(board);
  return write(folder, board_file(rank),
               fmt::format("\"rank\":{},\"epoch\":{},\"run\":{},\"sequence\":{},\"waiting_us\":{},\"waiting_for\":{},\"what\":{},"
                           "\"now_us\":{},\"events\":[{}]", rank, epoch, board.run.load(), reached, since == 0 ? 0 : now - since, waits_for,
                           json_str(comm::text_of(board, since == 0 ? reached : waits_for)), now, events));
}

Status write_cause(const Diagnostic& why, const std::string& folder) {
  std::string text = why.message;
  for (const std::string& note : why.notes) text += "\n" + note;
  return write(folder, kCause, fmt::format("\"code\":{},\"text\":{}", static_cast<int>(why.code), json_str(text)));
}

Status check_reports(const std::string& folder) {
  // Ranks of one machine try at once: one that another has just made may be gone at the second look.
  for (int again = 0; again < 1000; ++again) {
    if (::mkdir(folder.c_str(), 0777) == 0) return (void)::rmdir(folder.c_str()), Ok{};  // only a run that fails leaves one
    if (errno != EEXIST) break;
    if (::access((folder + "/.").c_str(), W_OK | X_OK) == 0) {
      Result<std::vector<std::string>> found = boards_in(folder);
      std::vector<std::string> names = found.ok() ? *found : std::vector<std::string>();
      names.emplace_back(kCause);
      for (const std::string& name : names) (void)NABLA_TRY(check_place(folder + "/" + name));
      return Ok{};
    }
    if (errno != ENOENT) break;
  }
  return error(Code::kWriteFailed, "--reports: nothing can be written into {}: {}", folder, std::strerror(errno));
}

void clear_reports(const std::string& folder) {
  Result<std::vector<std::string>> names = boards_in(folder);
  if (!names.ok()) return;
  names->emplace_back(kCause);
  for (const std::string& name : *names)
    if (std::string path = folder + "/" + name; is_report(path)) ::unlink(path.c_str());
}

Result<std::string> postmortem(const std::string& folder) {
  std::vector<std::string> names = NABLA_TRY(boards_in(folder));
  std::set<std::string> lines, damaged;
  std::string out;
  Result<Json> cause = read(folder + "/" + kCause);
  if (cause.ok() && cause->value("text", Json()).is_string()) {
    std::string text = (*cause)["text"];
    out = text.substr(0, text.find('\n')) + ".\n";
  } else if (cause.ok() || cause.errors().front().code != Code::kNotFound) {
    damaged.insert(kCause);
  }
  constexpr size_t kDigits = 20;  // of the greatest number: so lines come in the order of ranks
  for (const std::string& name : names) {
    Result<Json> rank = read(folder + "/" + name);
    if (rank.ok() && rank->value("rank", Json()).is_number_unsigned())
      lines.insert(fmt::format("{:020}{}", (*rank)["rank"].get<uint64_t>(), line_of(*rank)));
    else
      damaged.insert(name);
  }
  if (out.empty() && lines.empty() && damaged.empty()) return error(Code::kNotFound, "{} holds no reports of ranks", folder);
  if (out.empty() && lines.empty()) return error(Code::kCorrupt, "{}/{} is damaged, or no report of a rank", folder, *damaged.begin());
  for (const std::string& line : lines) out += "  " + line.substr(kDigits) + "\n";
  for (const std::string& name : damaged) out += fmt::format("note: {}/{} is damaged, or no report of a rank\n", folder, name);
  return out;
}

}  // namespace nabla::control

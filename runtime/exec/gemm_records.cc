#include "runtime/exec/gemm_records.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>

#include "runtime/format/file.h"

namespace nabla::exec {

std::string gemm_records_file() {
  auto named = [](const char* variable) {
    const char* value = std::getenv(variable);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string own = named("NABLA_CACHE"); !own.empty()) return own + "/gemm.records";
  if (std::string cache = named("XDG_CACHE_HOME"); !cache.empty()) return cache + "/nabla/gemm.records";
  std::string home = named("HOME");
  return home.empty() ? "" : home + "/.cache/nabla/gemm.records";
}

std::vector<GemmRecord> read_gemm_records(const std::string& file) {
  std::vector<GemmRecord> out;
  auto mapped = format::FileBytes::map(file);
  if (!mapped.ok()) return out;
  std::string_view text = format::as_text((*mapped)->bytes());
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (std::optional<GemmRecord> record = GemmRecord::parse(line)) out.push_back(std::move(*record));
  }
  return out;
}

Status keep_gemm_records(const std::string& file, const std::vector<GemmRecord>& records) {
  struct stat info {};
  if (::stat(file.c_str(), &info) == 0 && !S_ISREG(info.st_mode))
    return error(Code::kWriteFailed, "`{}` is not a regular file", file);
  std::vector<GemmRecord> all = read_gemm_records(file);  // another process may have written since we read
  for (const GemmRecord& r : records) {
    std::erase_if(all, [&](const GemmRecord& old) { return r.replaces(old); });
    all.push_back(r);
  }
  for (size_t slash = file.find('/', 1); slash != std::string::npos; slash = file.find('/', slash + 1))
    ::mkdir(file.substr(0, slash).c_str(), 0777);  // where it fails, so does the write below
  std::string text;
  for (const GemmRecord& r : all) text += r.str() + "\n";
  return format::write_file(file, text);
}

}  // namespace nabla::exec

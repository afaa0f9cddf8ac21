#include "ir/remark.h"

#include <fmt/format.h>

#include <algorithm>

namespace nabla::ir {

std::vector<std::string> texts_of(const std::vector<Remark>& remarks) {
  std::vector<std::string> out;
  for (const Remark& remark : remarks) out.push_back(remark.text);
  return out;
}

std::vector<std::string> notes_of(const std::vector<Remark>& remarks) {
  struct Note {
    const Remark* shown;
    size_t count;
  };
  std::vector<Note> notes;
  for (const Remark& remark : remarks) {
    if (remark.kind == RemarkKind::kEarlierCollectives) continue;  // users need not act on it
    auto note = std::find_if(notes.begin(), notes.end(), [&](const Note& n) { return n.shown->kind == remark.kind; });
    if (note == notes.end()) {
      notes.push_back({&remark, 1});
      continue;
    }
    ++note->count;
    if (remark.bytes > note->shown->bytes) note->shown = &remark;
  }
  std::vector<std::string> out;
  for (const auto& [shown, count] : notes)
    out.push_back(count == 1 ? shown->text
                             : fmt::format("{} ({} of {} notes of this kind)", shown->text,
                                           shown->bytes ? "the one with the most bytes" : "the first", count));
  return out;
}

}  // namespace nabla::ir

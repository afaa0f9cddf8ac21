#include "cli/driver/report_ranks.h"

#include "cli/driver/report_text.h"
#include "runtime/base/option_name.h"
#include "runtime/format/rank_digits.h"

namespace nabla::driver {
namespace {

using format::size_of;
using format::view;

std::string join(std::string list, std::string_view item) {
  if (!list.empty()) list += ", ";
  return list.append(item);
}

std::string class_text(const format::Ranks& ranks, const format::Class& k, const format::BundleClass& of) {
  const format::Program& program = *of.programs[0];
  std::string entries, groups;
  for (uint32_t e = 0; e < size_of(program.entries()); ++e)
    entries = join(entries, view(program.entries()->Get(e)->name()));
  for (uint32_t g = 0; g < size_of(k.groups()); ++g) {
    const format::Group& group = *ranks.groups()->Get(k.groups()->Get(g));
    groups = join(groups, fmt::format("{} of {}", view(group.name()), count_of(format::digits_of(group.digits()))));
  }
  std::string out = fmt::format("\nclass {}: {} from rank {} on\n", of.name,
                                counted(count_of(format::digits_of(k.digits())), "rank"), k.first());
  out += fmt::format("  targets  {}\n  entries  {}\n", targets_of(of), entries);
  out += fmt::format("  state    {} in {} bytes; arena {} bytes\n", counted(size_of(program.state()), "tensor"),
                     program.state_bytes(), program.arena_bytes());
  if (!groups.empty()) out += fmt::format("  groups   {}\n", groups);
  for (uint32_t i = 0; i < size_of(k.channels()); ++i) {
    const format::Channel& c = *k.channels()->Get(i);
    out += fmt::format("  channel  {} rank {:+}, {} bytes at most\n", c.sends() ? "to" : "from", c.offset(), c.bytes());
  }
  return out;
}

}  // namespace

std::string ranks_text(const format::Bundle& bundle) {
  const format::Ranks& ranks = *bundle.ranks();
  std::string out = fmt::format("bundle for {} of {}\n", counted(ranks.count(), "rank"),
                                counted(bundle.classes().size(), "class"));
  for (uint32_t i = 0; i < size_of(ranks.meshes()); ++i) {
    const format::Mesh& mesh = *ranks.meshes()->Get(i);
    out += fmt::format("mesh {}: {}\n", view(mesh.name()), format::sizes_of(mesh));
  }
  for (uint32_t c = 0; c < bundle.classes().size(); ++c)
    out += class_text(ranks, *ranks.classes()->Get(c), bundle.classes()[c]);
  return out + fmt::format("\n{} shows the report of one\n", OptionName{"class", "NAME"});
}

}  // namespace nabla::driver

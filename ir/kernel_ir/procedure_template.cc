#include "ir/kernel_ir/procedure_template.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace nabla::kernel_ir {
namespace {

using Facts = const TemplateFacts&;

bool calls_user(const Procedure& p, Facts f) { return f.gpu && p.user; }
bool attends(const Procedure& p, Facts f) {
  return f.gpu && (p.def->algorithm == Algorithm::kAttention || p.def->algorithm == Algorithm::kAttentionGrad);
}
bool sorts_in_block(const Procedure& p, Facts f) { return f.gpu && elements_sorted_by_a_block(p, f.shared_bytes) > 0; }
bool merges(const Procedure& p, Facts f) { return f.gpu && elements_sorted_in_parts(p, f.shared_bytes) > 0; }
bool scans(const Procedure& p, Facts f) {
  return f.gpu && (p.def->algorithm == Algorithm::kScan || p.def->algorithm == Algorithm::kScanPosition);
}
bool has_parts(const Procedure& p, Facts f) {
  return f.gpu && p.def->parallel_in_row != nullptr && p.def->parallel_in_row(p.most()) > 0;
}
bool always(const Procedure&, Facts) { return true; }

int64_t of_the_procedure(const Procedure& p) { return p.def->scratch(p.most()); }
int64_t pairs(const Procedure& p, int key_bytes) { return merged_bytes(p, key_bytes); }

constexpr ProcedureTemplate kTemplates[] = {
    {TemplateKind::kUser, "user", calls_user, nullptr, nullptr},
    {TemplateKind::kAttention, "attention", attends, nullptr, nullptr},
    {TemplateKind::kSortInBlock, "sort-in-block", sorts_in_block, nullptr, nullptr},
    {TemplateKind::kMergeSort, "merge-sort", merges, nullptr, pairs},
    {TemplateKind::kTeamScan, "team-scan", scans, of_the_procedure, nullptr},
    {TemplateKind::kBlockPerRow, "block-per-row", has_parts, of_the_procedure, nullptr},
    {TemplateKind::kThreadPerRow, "thread-per-row", always, of_the_procedure, nullptr},
};

}  // namespace

const ProcedureTemplate& template_of(const Procedure& p, const TemplateFacts& facts) {
  auto found = std::ranges::find_if(kTemplates, [&](const ProcedureTemplate& t) { return t.applies(p, facts); });
  NABLA_CHECK(found != std::end(kTemplates), "no template for {}", p.def->name);
  return *found;
}

const ProcedureTemplate& template_for(TemplateKind kind) {
  return *std::ranges::find(kTemplates, kind, &ProcedureTemplate::kind);
}
std::string_view name_of(TemplateKind kind) { return template_for(kind).name; }

std::optional<TemplateKind> template_named(std::string_view name) {
  auto found = std::ranges::find(kTemplates, name, &ProcedureTemplate::name);
  return found == std::end(kTemplates) ? std::nullopt : std::optional(found->kind);
}

}  // namespace nabla::kernel_ir

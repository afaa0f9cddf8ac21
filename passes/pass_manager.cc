#include "passes/pass_manager.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "ir/lexer.h"
#include "passes/pipeline.h"

namespace nabla::passes {

using ir::Module;
using ir::Stage;

namespace {

std::vector<std::string> pass_names() {
  std::vector<std::string> out;
  for (const Pass& p : all_passes()) out.push_back(p.name);
  return out;
}

Result<const Pass*> known_pass(const std::string& name, std::string_view where) {
  if (const Pass* p = find_pass(name)) return p;
  return error(Code::kUnknownPass, "{}unknown pass `{}`{}", where, name, did_you_mean(name, pass_names()));
}

// The pass of a step, with its options.
struct Bound {
  const Pass* pass;
  PassOptions options;
};

// Passes over tensors stop where kernels begin.
bool keeps_stage(const Pass& p) { return p.stage_in == p.stage_out; }

bool too_late(const Pass& p, Stage stage) {
  return keeps_stage(p) ? p.stage_in < Stage::kKernels && stage >= Stage::kKernels : stage >= p.stage_out;
}

Status check_stage(const Pass& p, Stage stage) {
  if (stage < p.stage_in) {
    Diagnostic d = error(Code::kWrongStage, "pass `{}` needs a module at stage {}, got {}", p.name, name_of(p.stage_in),
                         name_of(stage));
    auto brings = [&](const Pass& other) { return !keeps_stage(other) && other.stage_out == p.stage_in; };
    if (auto maker = std::ranges::find_if(all_passes(), brings); maker != all_passes().end())
      d.help = fmt::format("`{}` brings modules there: run it before", maker->name);
    return d;
  }
  if (!too_late(p, stage)) return Ok{};
  return error(Code::kWrongStage, "pass `{}` comes too late: {}, and this one is at stage {} already", p.name,
               keeps_stage(p) ? "it works on tensors, in modules that are not lowered to kernels yet"
                              : fmt::format("it brings modules to stage {}", name_of(p.stage_out)),
               name_of(stage));
}

bool asked_to_print(const ManagerOptions& o, const Pass& p, bool changed) {
  return o.print_after_all || (o.print_changed && changed) ||
         std::find(o.print_after.begin(), o.print_after.end(), p.name) != o.print_after.end();
}

Stage stage_after(const Pass& p, Stage stage) { return keeps_stage(p) ? stage : p.stage_out; }

Diagnostics with_note(Diagnostics errors, const std::string& note) {
  for (Diagnostic& d : errors) d.notes.push_back(note);
  return errors;
}

Result<Module> run_one(const Bound& bound, const Module& module, const ir::OpTable& ops, const ir::Target& target,
                       const ManagerOptions& options, const std::function<void()>& our_bug, PassReport& report) {
  const Pass& pass = *bound.pass;
  ScopedRescue rescue(our_bug);
  PassContext context{ops, target, bound.options};
  auto start = std::chrono::steady_clock::now();
  Result<Module> out = pass.run(module, context);
  std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  if (!out.ok()) return with_note(out.errors(), fmt::format("in pass `{}`", pass.name));
  Stage expected = stage_after(pass, module.stage);
  NABLA_CHECK(out->stage == expected, "pass {} left the module at stage {}, not {}", pass.name, name_of(out->stage),
              name_of(expected));
  bool changed = !same_module(module, *out);
  if (options.verify && changed) {
    Status status = options.verify(*out);
    if (!status.ok()) {
      our_bug();
      Diagnostics errors = with_note(status.errors(), fmt::format("after pass `{}`, which made it", pass.name));
      for (Diagnostic& d : errors) d.help = "this is a bug in Nabla, not in your program: report the reproducer";
      return errors;
    }
  }
  report = {pass.name, elapsed.count(), changed, std::move(context.remarks), std::move(context.found)};
  return out;
}

}  // namespace

std::string Step::str() const {
  std::string out = pass, separator = "{";
  const Pass* known = find_pass(pass);
  for (const PassOption& o : known ? known->options : std::vector<PassOption>()) {
    const std::string value = o.text(options);
    if (value == o.default_value) continue;
    const bool special = value.find_first_of(",{}\"") != value.npos;
    out += std::exchange(separator, ",") + o.name + "=" + (special ? ir::quoted(value) : value);
  }
  return separator == "{" ? out : out + "}";
}

namespace {

// Takes VALUE or "VALUE", with escapes, off the front of the text, and the comma behind it. False for what is neither.
bool take_value(std::string_view& text, std::string& value) {
  value.clear();
  size_t i = 0;
  if (text.starts_with('"')) {
    for (i = 1; i < text.size() && text[i] != '"'; ++i) value += text[i == text.size() - 1 || text[i] != '\\' ? i : ++i];
    if (i++ >= text.size()) return false;
  } else {
    i = std::min(text.find(','), text.size());
    value = text.substr(0, i);
  }
  if (i < text.size() && text[i] != ',') return false;
  text.remove_prefix(std::min(i + 1, text.size()));
  return true;
}

}  // namespace

Status set_option(PassOptions& options, const Pass& pass, const std::string& name, const std::string& text,
                  const std::string& spelled) {
  std::vector<std::string> known;
  for (const PassOption& o : pass.options) {
    if (o.name == name) return o.set(options, text, spelled);
    known.push_back(o.name);
  }
  return error(Code::kUnknownPass, "pass `{}` has no option `{}`{}", pass.name, name,
               known.empty() ? "; it has none" : did_you_mean(name, known));
}

Result<Step> parse_step(std::string_view text) {
  auto bad = [&] { return error(Code::kSyntax, "`{}` is not NAME or NAME{{OPTION=VALUE,...}}", text); };
  Step step;
  size_t open = text.find('{');
  step.pass = text.substr(0, open);
  if (step.pass.empty() || step.pass.find('}') != std::string::npos) return bad();
  if (open != std::string_view::npos && text.back() != '}') return bad();
  const Pass* pass = NABLA_TRY(known_pass(step.pass, ""));
  if (open == std::string_view::npos) return step;
  std::set<std::string> given;
  for (std::string_view rest = text.substr(open + 1, text.size() - open - 2); !rest.empty();) {
    size_t equals = rest.find('=');
    if (equals == 0 || equals == rest.npos || equals > rest.find(',')) return bad();
    std::string name(rest.substr(0, equals)), value;
    rest.remove_prefix(equals + 1);
    if (!take_value(rest, value)) return bad();
    if (!given.insert(name).second)
      return error(Code::kDuplicateName, "`{}` gives option `{}` twice", text, name);
    (void)NABLA_TRY(set_option(step.options, *pass, name, value, fmt::format("{}: {}", pass->name, name)));
  }
  return step;
}

std::vector<Step> default_steps(Stage from, Stage to) {
  std::vector<Step> out;
  for (const PipelineStep& s : default_pipeline()) {
    const Pass* pass = find_pass(s.pass);
    NABLA_CHECK(pass != nullptr, "the pipeline names the unknown pass {}", s.pass);
    if (pass->stage_out > to) break;
    if (!too_late(*pass, from)) out.push_back({s.pass});
  }
  return out;
}

std::vector<Step> lowering_steps() {
  std::vector<Step> out = default_steps(Stage::kLocal);
  auto first = std::find_if(out.begin(), out.end(), [](const Step& s) { return s.pass == "prepare"; });
  out.erase(out.begin(), first);
  return out;
}

namespace {

// What passes run on: a module, and the class whose it is where there are several.
struct Subject {
  Module* module;
  std::string of_class;
};

Result<std::vector<Bound>> bind_all(const std::vector<Step>& steps, const ManagerOptions& options) {
  std::vector<Bound> out;
  for (const Step& s : steps) out.push_back({NABLA_TRY(known_pass(s.pass, "")), s.options});
  for (const std::string& name : options.print_after) NABLA_TRY(known_pass(name, "print-after: "));
  if (options.stop_after.empty()) return out;
  NABLA_TRY(known_pass(options.stop_after, "stop-after: "));
  if (std::none_of(steps.begin(), steps.end(), [&](const Step& s) { return s.pass == options.stop_after; }))
    return error(Code::kUnknownPass, "stop-after: pass `{}` does not run here", options.stop_after);
  return out;
}

Status check_order(const std::vector<Bound>& bound, Stage stage, const ManagerOptions& options) {
  for (const Bound& b : bound) {
    NABLA_TRY(check_stage(*b.pass, stage));
    stage = stage_after(*b.pass, stage);
    if (b.pass->name == options.stop_after) break;
  }
  return Ok{};
}

// Every pass on all modules before the next one.
Result<std::vector<PassReport>> run_all(const std::vector<Subject>& subjects, const std::vector<Step>& steps,
                                        const ir::OpTable& ops, const ir::Target& target,
                                        const ManagerOptions& options) {
  const std::vector<Bound> bound = NABLA_TRY(bind_all(steps, options));
  for (const Subject& s : subjects) NABLA_TRY(check_order(bound, s.module->stage, options));
  for (const Subject& s : subjects)
    if (options.verify) NABLA_TRY(options.verify(*s.module));
  std::vector<PassReport> reports;
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const Subject& s : subjects) {
      PassReport report;
      auto our_bug = [&] {
        // The name of a GPU may have spaces.
        std::string command = fmt::format("nablac opt '--target={}' '--pass={}' FILE", target.name, steps[i].str());
        if (options.reproduce) options.reproduce(*s.module, command);
      };
      Result<Module> next = run_one(bound[i], *s.module, ops, target, options, our_bug, report);
      if (!next.ok() && s.of_class.empty()) return next.errors();
      if (!next.ok()) return with_note(next.errors(), fmt::format("in class `{}`", s.of_class));
      *s.module = std::move(*next);
      if (options.print && asked_to_print(options, *bound[i].pass, report.changed))
        options.print(*bound[i].pass, *s.module, report.changed);
      reports.push_back(std::move(report));
    }
    if (steps[i].pass == options.stop_after) break;
  }
  return reports;
}

}  // namespace

std::vector<ir::Remark> remarks_of(const std::vector<PassReport>& reports) {
  std::vector<ir::Remark> out;
  for (const PassReport& report : reports)
    for (const ir::Remark& remark : report.remarks)
      if (std::find(out.begin(), out.end(), remark) == out.end()) out.push_back(remark);
  return out;
}

Result<ManagerResult> run_passes(const Module& module, const std::vector<Step>& steps, const ir::OpTable& ops,
                                 const ir::Target& target, const ManagerOptions& options) {
  ManagerResult result{module, {}};
  result.reports = NABLA_TRY(run_all({{&result.module, ""}}, steps, ops, target, options));
  return result;
}

Result<SetResult> run_passes(const ir::ProgramSet& set, const std::vector<Step>& steps, const ir::OpTable& ops,
                             const ir::Target& target, const ManagerOptions& options) {
  SetResult result{set, {}};
  std::vector<Subject> subjects;
  for (ir::RankClass& c : result.set.classes)
    subjects.push_back({&c.module, set.classes.size() > 1 ? c.name : std::string()});
  result.reports = NABLA_TRY(run_all(subjects, steps, ops, target, options));
  return result;
}

bool same_module(const Module& a, const Module& b) {
  auto same_leaf = [](const ir::StateLeaf& x, const ir::StateLeaf& y) { return x.name == y.name && x.type == y.type; };
  auto same_constraint = [](const ir::SizeConstraint& x, const ir::SizeConstraint& y) {
    return x.relation == y.relation;
  };
  return a.stage == b.stage && a.functions == b.functions && a.kernels == b.kernels && a.plan == b.plan &&
         a.symbols == b.symbols && std::ranges::equal(a.constraints, b.constraints, same_constraint) &&
         a.entries == b.entries && std::ranges::equal(a.state, b.state, same_leaf);
}

}  // namespace nabla::passes

#include "passes/strategy/layout_rules.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "ir/verifier.h"
#include "runtime/base/option_error.h"

namespace nabla::passes {
namespace {

// The pieces between separators; an empty text is one empty piece.
std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> out(1);
  for (char c : text)
    if (c == separator)
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

constexpr std::string_view kPadding = " allow_padding";  // as after a layout in the text of a module

// For messages.
std::string shortened(const std::string& text) {
  constexpr size_t kMost = 200;
  return text.size() <= kMost ? text : text.substr(0, kMost) + "...";
}

Diagnostic no_rule(const std::string& text, const std::string& why) {
  Diagnostic d = error(Code::kBadOption, "layout `{}`: {}", shortened(text), why);
  d.help = "such as attn.*=,tp: a regular expression of names, `=`, and a word per dimension: axes joined by +, nothing, or ?; after them "
           "allow_padding where axes need not divide: attn.*=,tp allow_padding";
  return d;
}

// Where padding helps, how a rule says so.
Diagnostics in_words_of_rules(Diagnostics problems, const std::string& rule) {
  constexpr std::string_view kBeside = "say allow_padding beside the layout";
  for (Diagnostic& d : problems)
    if (d.help.starts_with(kBeside)) d.help.replace(0, kBeside.size(), fmt::format("say `{}{}`", rule, kPadding));
  return problems;
}

constexpr std::string_view kInput = "input ";

std::string pattern_of(const LayoutRule& rule) {
  std::string out = rule.text.substr(0, rule.text.rfind('='));
  return rule.of_inputs ? out.substr(kInput.size()) : out;
}

/// What a rule may lay out.
struct Named {
  std::string what, name;  // "state leaf", "w"; "input", "step.x"
  const ir::Type* type;
  ir::ShardingRef* layout;
};

// The layout of the first rule that matches.
Status lay_out(const ir::Mesh& mesh, const std::vector<LayoutRule>& rules, const Named& named, std::vector<bool>& used) {
  for (size_t r = 0; r < rules.size(); ++r) {
    if (rules[r].of_inputs != (named.what == "input") || !rules[r].pattern.matches(named.name)) continue;
    used[r] = true;
    if (*named.layout) break;  // the program says how
    std::string what = fmt::format("layout `{}` of {} {}", shortened(rules[r].text), named.what, named.name);
    ir::Sharding layout = rules[r].layout;
    if (named.type->rank() == 0 && layout.dims == std::vector<ir::DimSharding>(1)) layout.dims.clear();  // no word
    Status fits = ir::check_sharding(mesh, layout, *named.type, what);
    if (!fits.ok()) return in_words_of_rules(std::move(fits.errors()), rules[r].text);
    *named.layout = std::make_shared<const ir::Sharding>(std::move(layout));
    break;
  }
  return Ok{};
}

ir::DimSharding dim_of(std::string word) {
  if (word == "?") return {{}, true};
  ir::DimSharding out;
  size_t mark = word.rfind(" p");
  if (mark != word.npos && mark + 3 == word.size() && word.back() >= '0' && word.back() <= '9')
    out.priority = word.back() - '0', word.resize(mark);
  if (word.empty()) return out;
  for (std::string& axis : split(word, '+')) out.axes.push_back({std::move(axis)});
  return out;
}

}  // namespace

Result<std::vector<LayoutRule>> parse_layout_rules(const std::string& text) {
  std::vector<LayoutRule> out;
  if (text.empty()) return out;
  for (const std::string& rule : split(text, ';')) {
    size_t equals = rule.rfind('=');
    if (equals == rule.npos) return no_rule(rule, "it has no `=`, and no word for a dimension after it");
    if (equals == 0) return no_rule(rule, "it has no name before `=`");
    LayoutRule made{rule, {}, {}, rule.starts_with(kInput)};
    std::string pattern = pattern_of(made), words = rule.substr(equals + 1);
    made.layout.allow_padding = words.ends_with(kPadding);
    if (made.layout.allow_padding) words.resize(words.size() - kPadding.size());
    std::string why;
    std::optional<NamePattern> parsed = NamePattern::parse(pattern, why);
    if (!parsed) return no_rule(rule, fmt::format("{} is no regular expression: {}", pattern, why));
    made.pattern = *parsed;
    for (const LayoutRule& earlier : out)
      if (earlier.of_inputs == made.of_inputs && pattern_of(earlier) == pattern)
        return no_rule(rule, fmt::format("`{}` is a rule of the same names, and the first one counts: say one of them", earlier.text));
    constexpr size_t kMostDims = 32;
    if (size_t count = static_cast<size_t>(std::count(words.begin(), words.end(), ',')) + 1; count > kMostDims)
      return no_rule(rule, fmt::format("it has {} words, and tensors have {} dimensions at most", count, kMostDims));
    for (const std::string& word : split(words, ',')) {
      made.layout.dims.push_back(dim_of(word));
      for (const ir::AxisRef& a : made.layout.dims.back().axes)
        if (a.name.find(' ') != a.name.npos) return no_rule(rule, fmt::format("`{}` has a space: words stand between commas", words));
    }
    out.push_back(std::move(made));
  }
  return out;
}

Status apply_layout_rules(ir::Module& module, const std::vector<LayoutRule>& rules) {
  std::vector<bool> used(rules.size(), false);
  std::vector<std::string> leaves, inputs;
  for (ir::StateLeaf& leaf : module.state) {
    leaves.push_back(leaf.name);
    (void)NABLA_TRY(lay_out(*module.mesh(), rules, {"state leaf", leaf.name, &leaf.type, &leaf.sharding}, used));
  }
  bool of_inputs = std::any_of(rules.begin(), rules.end(), [](const LayoutRule& r) { return r.of_inputs; });
  for (size_t e = 0; of_inputs && e < module.entries.size(); ++e) {
    const ir::Entry& entry = module.entries[e];
    ir::Function f = *module.find(entry.function);
    for (size_t i = 0; i < entry.inputs.size(); ++i) {
      ir::Value& v = f.values[f.params[entry.reads.size() + i]];
      inputs.push_back(entry.name + "." + entry.inputs[i]);
      (void)NABLA_TRY(lay_out(*module.mesh(), rules, {"input", inputs.back(), &v.type, &v.sharding}, used));
    }
    module.set(std::make_shared<const ir::Function>(std::move(f)));
  }
  for (size_t r = 0; r < rules.size(); ++r) {
    if (used[r]) continue;
    const std::vector<std::string>& names = rules[r].of_inputs ? inputs : leaves;
    auto named = std::find_if(names.begin(), names.end(), [&](const std::string& n) { return rules[r].pattern.matches(n); });
    if (named != names.end()) {
      auto first = std::find_if(rules.begin(), rules.end(), [&](const LayoutRule& earlier) {
        return earlier.of_inputs == rules[r].of_inputs && earlier.pattern.matches(*named);
      });
      return option_error("put this one before it, or leave it out",
                          "layout `{}`: an earlier rule, `{}`, lays out {}, and the first one counts", rules[r].text, first->text, *named);
    }
    constexpr size_t kMost = 200;
    const std::string all = fmt::format("{}", fmt::join(names, ", "));
    const std::string help = names.empty() ? "there are none" : "names are " + (all.size() <= kMost ? all : all.substr(0, kMost) + "...");
    return option_error(help, "layout `{}`: no {} has such a name{}", rules[r].text, rules[r].of_inputs ? "input" : "leaf of the state",
                        did_you_mean(pattern_of(rules[r]), names));
  }
  return Ok{};
}

}  // namespace nabla::passes

#include "passes/strategy/layout_rules.h"

#include <sstream>

#include "ir/verifier.h"

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

Diagnostic no_rule(const std::string& text, const std::string& why) {
  Diagnostic d = error(Code::kBadOption, "layout `{}`: {}", text, why);
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

ir::DimSharding dim_of(const std::string& word) {
  if (word == "?") return {{}, true};
  ir::DimSharding out;
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
    LayoutRule made{rule, {}, {}};
    std::string words = rule.substr(equals + 1);
    made.layout.allow_padding = words.ends_with(kPadding);
    if (made.layout.allow_padding) words.resize(words.size() - kPadding.size());
    if (words.find(' ') != words.npos) return no_rule(rule, fmt::format("`{}` has a space: words stand between commas", words));
    try {
      made.pattern = std::regex(rule.substr(0, equals));
    } catch (const std::regex_error& e) {
      return no_rule(rule, fmt::format("{} is no regular expression", rule.substr(0, equals)));
    }
    for (const std::string& word : split(words, ',')) made.layout.dims.push_back(dim_of(word));
    out.push_back(std::move(made));
  }
  return out;
}

Status apply_layout_rules(ir::Module& module, const std::vector<LayoutRule>& rules) {
  std::vector<bool> used(rules.size(), false);
  for (ir::StateLeaf& leaf : module.state)
    for (size_t r = 0; r < rules.size(); ++r) {
      if (!std::regex_match(leaf.name, rules[r].pattern)) continue;
      used[r] = true;
      if (leaf.sharding) break;  // the program says how
      std::string what = fmt::format("layout `{}` of state leaf {}", rules[r].text, leaf.name);
      Status fits = ir::check_sharding(*module.mesh(), rules[r].layout, leaf.type, what);
      if (!fits.ok()) return in_words_of_rules(std::move(fits.errors()), rules[r].text);
      leaf.sharding = std::make_shared<const ir::Sharding>(rules[r].layout);
      break;
    }
  for (size_t r = 0; r < rules.size(); ++r) {
    if (used[r]) continue;
    std::vector<std::string> names;
    for (const ir::StateLeaf& leaf : module.state) names.push_back(leaf.name);
    std::string pattern = rules[r].text.substr(0, rules[r].text.rfind('='));
    return error(Code::kBadOption, "layout `{}`: no leaf of the state that an earlier rule leaves has such a name{}", rules[r].text,
                 did_you_mean(pattern, names));
  }
  return Ok{};
}

}  // namespace nabla::passes

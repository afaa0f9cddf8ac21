// Layouts of state and inputs by their names.
#pragma once

#include <string>
#include <vector>

#include "ir/module.h"
#include "passes/strategy/name_pattern.h"

namespace nabla::passes {

struct LayoutRule {
  std::string text;  ///< "attn.*\\.w=,tp"
  NamePattern pattern;
  ir::Sharding layout;
  bool of_inputs = false;  ///< "input step.x=dp,": of inputs by ENTRY.INPUT; else of leaves
};

/// "PATTERN=WORDS;PATTERN=WORDS": a regular expression (NamePattern), and a word per dimension, with commas between them:
/// axes joined by `+`, nothing for a dimension that is whole, `?` for one that is open; after ` p` a priority; " allow_padding" at the
/// end lets axes cut unevenly. Scalars have no words: "step=". `input ` before the pattern: a rule of inputs. E0901 for other text, and
/// for two rules of one pattern.
Result<std::vector<LayoutRule>> parse_layout_rules(const std::string& text);

/// The leaves and inputs of which the module says nothing get the layout of the first rule whose pattern matches their whole
/// name. E0210 where that does not fit them, E0901 for a rule that no name matches.
Status apply_layout_rules(ir::Module& module, const std::vector<LayoutRule>& rules);

}  // namespace nabla::passes

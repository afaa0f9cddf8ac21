// Options of passes by their texts, as command lines have them.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "passes/pass_manager.h"

namespace nabla {

using OptionTexts = std::map<std::string, std::string>;

/// Sets options of a pass. The test fails if the pass refuses one.
inline void set_options(passes::PassOptions& options, const std::string& pass, const OptionTexts& texts) {
  for (const auto& [name, text] : texts) {
    Status set = passes::set_option(options, *passes::find_pass(pass), name, text, name);
    EXPECT_TRUE(set.ok()) << pass << ": " << (set.ok() ? "" : to_string(set.errors()));
  }
}
inline passes::PassOptions options_of(const std::string& pass, const OptionTexts& texts) {
  passes::PassOptions out;
  set_options(out, pass, texts);
  return out;
}

}  // namespace nabla

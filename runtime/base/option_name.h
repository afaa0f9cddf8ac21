// The names of options in texts for people. A text holds the identity of an option, and the front end decides how it is spelled.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <string>
#include <string_view>

namespace nabla {

/// An option of the tools, as a message mentions it. nablac and nabla-run spell it `--zero-axes`, the Python package `zero_axes`.
struct OptionName {
  std::string_view name;        ///< without dashes: "zero-axes"
  std::string_view value = {};  ///< a value that the text shows with it, in the form that nablac takes: "dp=2,tp=4"
};

/// How the texts of a process spell options. Those of nablac and nabla-run are `--zero-axes` and `--mesh dp=2,tp=4`.
struct OptionSpelling {
  std::string (*one)(const OptionName&);
  const char* between;  ///< separates options that are given together
};
/// A front end whose options have other names calls this once, at its start.
void set_option_spelling(const OptionSpelling& spelling);
/// Returns the option in the words of the interface that the user of this process is using.
std::string spelled(const OptionName& option);
/// Returns options that are given together, such as "--mesh dp=4 --data-axes dp".
std::string spelled_together(std::initializer_list<OptionName> options);

}  // namespace nabla

template <>
struct fmt::formatter<nabla::OptionName> : fmt::formatter<std::string_view> {
  auto format(const nabla::OptionName& option, fmt::format_context& context) const -> fmt::format_context::iterator {
    return fmt::formatter<std::string_view>::format(nabla::spelled(option), context);
  }
};

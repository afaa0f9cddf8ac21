// Checks of options that nablac and nabla-run share, and what is wrong with a command line.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <string>
#include <vector>

#include "runtime/base/diagnostic.h"
#include "runtime/base/text.h"

namespace nabla::cli {

/// A path: "" is what an unset variable of a script gives, not a file.
inline CLI::Validator file_name() {
  return CLI::Validator([](std::string& text) { return std::string(text.empty() ? "the file name is empty" : ""); },
                        "");
}

/// What parse_bytes reads.
inline CLI::Validator number_of_bytes() {
  return CLI::Validator(
      [](std::string& text) {
        return parse_bytes(text) ? "" : fmt::format("`{}` is no number of {}", text, kByteUnits);
      },
      "");
}

/// What is wrong with a command line. An option that `app` does not have is named with the nearest that it has.
inline std::string problem_of(const CLI::ParseError& problem, const CLI::App& app, const std::vector<std::string>& args) {
  if (problem.get_exit_code() != static_cast<int>(CLI::ExitCodes::ExtrasError)) return problem.what();
  std::vector<std::string> known;
  for (const CLI::Option* option : app.get_options())
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  for (const std::string& arg : args) {
    std::string name = arg.substr(0, arg.find('='));
    if (name.starts_with("--") && name.size() > 2 && std::find(known.begin(), known.end(), name) == known.end())
      return fmt::format("there is no option `{}`{}", name, did_you_mean(name, known));
  }
  return problem.what();
}

}  // namespace nabla::cli

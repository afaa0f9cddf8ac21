// Command lines of Nabla's programs: checks of options, and what is wrong with a line. The code for that is in exit_codes.h.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/option_error.h"
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

/// Digits only: the parser itself takes signs, octal and hexadecimal, and cuts what does not fit.
inline CLI::Validator whole(uint64_t low, uint64_t high, const char* what) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        uint64_t value = 0;
        auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
        bool whole = problem == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
        bool octal = text.size() > 1 && text[0] == '0';
        return whole && !octal ? "" : fmt::format("`{}` is not {}", text, what);
      },
      "");
}

/// A number, which "nan" is not.
inline CLI::Validator seconds(double low, double high) {
  return CLI::Validator(
      [=](const std::string& text) -> std::string {
        double value = 0;
        auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
        bool fine = problem == std::errc() && end == text.data() + text.size() && value >= low && value <= high;
        return fine ? "" : fmt::format("`{}` is not a number of seconds from {} to {}", text, low, high);
      },
      "");
}

/// Of all flags of `app` and of its subcommands: the parser counts --flag=7 as given, and --flag=-1 as not.
inline void check_flags(CLI::App& app) {
  const CLI::Validator yes_or_no(
      [](const std::string& text) -> std::string {
        static constexpr const char* kKnown[] = {"true", "false", "yes", "no", "on", "off", "1", "0"};
        bool known = std::find(std::begin(kKnown), std::end(kKnown), text) != std::end(kKnown);
        return known ? "" : fmt::format("`{}` is not true, false, yes, no, on, off, 1 or 0; the flag needs no value", text);
      },
      "");
  for (CLI::Option* option : app.get_options())
    if (option->get_expected_max() == 0) option->check(yes_or_no);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) check_flags(*command);
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

/// E0901 for `--option=` without a value. CLI11 would take the next argument as the value.
inline Status check_values(const std::vector<std::string>& args) {
  for (const std::string& arg : args)
    if (arg.starts_with("--") && arg.find('=') == arg.size() - 1)
      return option_error("give it a value, or leave it out", "{}: nothing stands after the `=`", arg.substr(0, arg.size() - 1));
  return Ok{};
}

/// Parses the line of a program without subcommands: the text of --help or --version, or "" where neither is asked for. E0901.
inline Result<std::string> parse(CLI::App& app, const std::vector<std::string>& args) {
  check_flags(app);
  (void)NABLA_TRY(check_values(args));
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // the parser takes them from the back
  } catch (const CLI::CallForHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion& e) {
    return std::string(e.what());
  } catch (const CLI::ParseError& e) {
    return option_error(fmt::format("`{} --help` lists what it takes", app.get_name()), "{}", problem_of(e, app, args));
  }
  return std::string();
}

}  // namespace nabla::cli

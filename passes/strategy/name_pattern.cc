#include "passes/strategy/name_pattern.h"

#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <cctype>

namespace nabla::passes {
namespace {

constexpr size_t kLongest = 500;       // characters of a pattern
constexpr int64_t kMostCopies = 1000;  // of what counts repeat: (x{30}){30} stands for 900 copies of x, each of which takes memory

bool is_sign(char c) { return !std::isalnum(static_cast<unsigned char>(c)); }

// A text in the words of POSIX; `why` where it says what these cannot.
class Translation {
 public:
  Translation(const std::string& text, std::string& why) : text_(text), why_(why) {}

  std::optional<std::string> run() {
    while (at_ < text_.size()) {
      char c = text_[at_];
      bool done = c == '\\' ? escape() : c == '[' ? bracket() : c == '{' ? count() : other();
      if (!done) return {};
    }
    return std::move(out_);
  }

 private:
  bool refuse(std::string why) {
    why_ = std::move(why);
    return false;
  }

  bool escape() {
    if (at_ + 1 == text_.size()) return refuse("`\\` at the end stands before nothing");
    char c = text_[at_ + 1];
    at_ += 2;
    if (c == 'd')
      out_ += "[0-9]";
    else if (std::string_view("<>`'").find(c) != std::string_view::npos)
      out_ += c;  // with `\` they are anchors of GNU's
    else if (is_sign(c) || std::string_view("wWsSbB").find(c) != std::string_view::npos)
      out_ += {'\\', c};
    else
      return refuse(fmt::format("`\\{}` is not known here; \\d, \\w, \\s, \\b and signs are", c));
    return true;
  }

  // In brackets a `\` of POSIX stands for itself.
  bool bracket() {
    out_ += text_[at_++];
    if (at_ < text_.size() && text_[at_] == '^') out_ += text_[at_++];
    for (bool first = true; at_ < text_.size() && (first || text_[at_] != ']'); first = false) {
      char c = text_[at_++];
      if (c == '[') return refuse("`[` in brackets is not known here");
      if (c == '\\' && at_ < text_.size()) {
        c = text_[at_++];
        if (c == 'd' || c == 'w' || c == 's') {
          out_ += c == 'd' ? "0-9" : c == 'w' ? "a-zA-Z0-9_" : " \t\n";
          continue;
        }
        if (!is_sign(c) || c == ']' || c == '^' || c == '-')
          return refuse(fmt::format("`\\{}` in brackets is not known here: `]` stands first in them, `-` last, `^` anywhere but first", c));
      }
      out_ += c;
    }
    if (at_ == text_.size()) return refuse("`[` has no `]`");
    out_ += text_[at_++];
    return true;
  }

  // {2}, {2,}, {2,3}. What is repeated may hold counts itself, so that their product is what counts.
  bool count() {
    size_t end = text_.find('}', at_);
    std::string inside = text_.substr(at_ + 1, end == text_.npos ? end : end - at_ - 1);
    size_t comma = inside.find(',');
    std::string least = inside.substr(0, comma), most = comma == inside.npos ? least : inside.substr(comma + 1);
    auto number = [](const std::string& digits) { return digits.size() < 5 && std::all_of(digits.begin(), digits.end(), ::isdigit); };
    if (end == text_.npos || least.empty() || !number(least) || !number(most))
      return refuse(fmt::format("`{{{}}}` is no count of repetitions; a brace of a name is `\\{{`", inside));
    copies_ *= std::max<int64_t>(1, std::stoll(most.empty() ? least : most));
    if (copies_ > kMostCopies) return refuse(fmt::format("its counts repeat something more than {} times", kMostCopies));
    out_ += "{" + inside + "}";
    at_ = end + 1;
    return true;
  }

  bool other() {
    bool group = text_.compare(at_, 3, "(?:") == 0;
    if (!group && text_.compare(at_, 2, "(?") == 0) return refuse("`(?` begins what is not known here");
    out_ += text_[at_];
    at_ += group ? 3 : 1;
    return true;
  }

  const std::string& text_;
  std::string& why_;
  std::string out_;
  size_t at_ = 0;
  int64_t copies_ = 1;
};

}  // namespace

struct NamePattern::Compiled {
  regex_t regex;
  ~Compiled() { ::regfree(&regex); }
};

std::optional<NamePattern> NamePattern::parse(const std::string& text, std::string& why) {
  if (text.size() > kLongest) return why = fmt::format("it has {} characters, more than {}", text.size(), kLongest), std::nullopt;
  std::optional<std::string> posix = Translation(text, why).run();
  if (!posix) return {};
  regex_t regex;
  if (int code = ::regcomp(&regex, posix->c_str(), REG_EXTENDED)) {
    char message[200];
    ::regerror(code, &regex, message, sizeof message);
    return why = message, std::nullopt;
  }
  NamePattern out;
  out.compiled_ = std::shared_ptr<const Compiled>(new Compiled{regex});
  return out;
}

// Of several matches POSIX finds the first, and of these the longest: the whole name where anything matches it.
bool NamePattern::matches(const std::string& name) const {
  regmatch_t found;
  return ::regexec(&compiled_->regex, name.c_str(), 1, &found, 0) == 0 && found.rm_so == 0 && found.rm_eo == int(name.size());
}

}  // namespace nabla::passes

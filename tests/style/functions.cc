#include "tests/style/functions.h"

#include <cctype>

namespace nabla::style {
namespace {

class Scanner {
 public:
  explicit Scanner(const std::string& text) : s_(text) {}

  std::vector<FunctionLines> run() {
    while (at_ < s_.size()) {
      if (skip_blank() || skip_string()) continue;
      char c = s_[at_];
      if (c == '{')
        open();
      else if (c == '}')
        close();
      else if (c == ';' && parens_ == 0)
        head_.clear();
      else {
        if (c == '(') ++parens_;
        if (c == ')' && parens_ > 0) --parens_;
        if (head_.empty()) head_line_ = line_;
        head_ += c;
      }
      advance();
    }
    return std::move(found_);
  }

 private:
  struct Block {
    bool function;
    int first, parens;
    std::string head;
  };

  void advance() {
    if (s_[at_++] == '\n')
      ++line_, line_start_ = true;
    else
      line_start_ = line_start_ && isspace(static_cast<unsigned char>(s_[at_ - 1]));
  }
  bool starts(const char* text) const { return s_.compare(at_, std::char_traits<char>::length(text), text) == 0; }
  void skip_until(const std::string& end) {
    size_t stop = s_.find(end, at_);
    stop = stop == std::string::npos ? s_.size() : stop + end.size();
    while (at_ < stop) advance();
  }

  // White space, comments and preprocessor lines.
  bool skip_blank() {
    char c = s_[at_];
    if (isspace(static_cast<unsigned char>(c))) {
      if (!head_.empty() && head_.back() != ' ') head_ += ' ';
      advance();
    } else if (starts("//")) {
      skip_until("\n");
    } else if (starts("/*")) {
      skip_until("*/");
    } else if (c == '#' && line_start_) {
      bool more = true;
      while (more && at_ < s_.size()) {
        size_t end = std::min(s_.find('\n', at_), s_.size());
        more = end > 0 && s_[end - 1] == '\\';
        while (at_ < end) advance();
        if (at_ < s_.size()) advance();
      }
    } else {
      return false;
    }
    return true;
  }
  bool skip_string() {
    char c = s_[at_];
    bool after_word = at_ > 0 && isalnum(static_cast<unsigned char>(s_[at_ - 1]));
    if (starts("R\"") && !after_word) {
      size_t open = s_.find('(', at_);
      if (open == std::string::npos) return false;
      skip_until(")" + s_.substr(at_ + 2, open - at_ - 2) + "\"");
    } else if (c == '"' || (c == '\'' && !after_word)) {
      advance();
      while (at_ < s_.size() && s_[at_] != c) {
        if (s_[at_] == '\\') advance();
        advance();
      }
      if (at_ < s_.size()) advance();
    } else {
      return false;
    }
    head_ += '"';
    return true;
  }

  void open() {
    bool inside = false;
    for (const Block& b : blocks_) inside |= b.function;
    blocks_.push_back({!inside && is_function_head(), head_.empty() ? line_ : head_line_, parens_, head_});
    head_.clear();
    parens_ = 0;
  }
  void close() {
    if (blocks_.empty()) return;
    Block b = std::move(blocks_.back());
    blocks_.pop_back();
    if (b.function) found_.push_back({b.head, b.first, line_});
    parens_ = b.parens;
    // A braced list may stand in the middle of a head: `: member_{1} {`.
    head_ = b.function || (parens_ == 0 && b.head.find('(') == std::string::npos) ? "" : b.head + "{}";
    if (!head_.empty()) head_line_ = b.first;
  }
  bool is_function_head() const {
    if (parens_ > 0 || head_.find('(') == std::string::npos) return false;
    size_t end = head_.find_first_not_of(' ');
    size_t word = end;
    while (end < head_.size() && (isalnum(static_cast<unsigned char>(head_[end])) || head_[end] == '_')) ++end;
    std::string first = head_.substr(word, end - word);
    for (const char* other :
         {"namespace", "class", "struct", "enum", "union", "if", "for", "while", "switch", "else", "do"})
      if (first == other) return false;
    // The braces of `S() : x_{1} {`: the first belong to a member.
    char last = head_.back() == ' ' && head_.size() > 1 ? head_[head_.size() - 2] : head_.back();
    bool members = head_.find(") :") != std::string::npos;
    if (members && (isalnum(static_cast<unsigned char>(last)) || last == '_')) return false;
    // A value with an initialiser: `=` outside parentheses, other than in an operator's name.
    int depth = 0;
    for (size_t i = 0; i < head_.size(); ++i) {
      depth += head_[i] == '(' ? 1 : head_[i] == ')' ? -1 : 0;
      if (head_[i] == '=' && depth == 0 && head_.rfind("operator", i) == std::string::npos &&
          head_.find("template") != 0)
        return false;
    }
    return true;
  }

  const std::string& s_;
  size_t at_ = 0;
  int line_ = 1, head_line_ = 1, parens_ = 0;
  bool line_start_ = true;
  std::string head_;
  std::vector<Block> blocks_;
  std::vector<FunctionLines> found_;
};

}  // namespace

std::vector<FunctionLines> find_functions(const std::string& text) { return Scanner(text).run(); }

}  // namespace nabla::style

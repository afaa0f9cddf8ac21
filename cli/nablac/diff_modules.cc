// What differs between two modules, function by function and node by node.
#include <algorithm>
#include <map>
#include <set>

#include "cli/nablac/commands.h"
#include "ir/text.h"

namespace nabla::cli {
namespace {

using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines out;
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find('\n', at), text.size());
    out.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// A line with the numbers of its values taken out.
struct Shape {
  std::string text;
  std::vector<int> numbers;
  size_t defined = 0;  ///< how many of them stand before " = "
};

Shape shape_of(const std::string& line) {
  Shape out;
  size_t equals = line.find(" = ");
  for (size_t i = 0; i < line.size(); ++i) {
    out.text += line[i];
    if (line[i] != '%' || i + 1 >= line.size() || !isdigit(static_cast<unsigned char>(line[i + 1]))) continue;
    size_t end = i + 1;
    while (end < line.size() && isdigit(static_cast<unsigned char>(line[end]))) ++end;
    out.numbers.push_back(std::stoi(line.substr(i + 1, std::min<size_t>(end - i - 1, 9))));
    if (line.starts_with("func") || (equals != std::string::npos && i < equals)) out.defined = out.numbers.size();
    i = end - 1;
  }
  return out;
}

struct Edit {
  char kind;  // ' ', '-', '+'
  std::string line;
};

/// Longest common subsequence of the shapes, by Myers' greedy algorithm. Returns for each line of `a` its partner in
/// `b`, or -1. Above kMaxEdits the middle parts count as different.
constexpr int kMaxEdits = 4000;

std::vector<int> align(const std::vector<Shape>& a, const std::vector<Shape>& b) {
  int n = static_cast<int>(a.size()), m = static_cast<int>(b.size()), begin = 0, end = 0;
  std::vector<int> partner(n, -1);
  while (begin < n && begin < m && a[begin].text == b[begin].text) partner[begin] = begin, ++begin;
  while (end < n - begin && end < m - begin && a[n - 1 - end].text == b[m - 1 - end].text) {
    partner[n - 1 - end] = m - 1 - end;
    ++end;
  }
  int rows = n - begin - end, columns = m - begin - end, limit = std::min(rows + columns, kMaxEdits);
  std::vector<std::vector<int>> trace;
  std::vector<int> reach(2 * limit + 2, 0);
  for (int d = 0; d <= limit; ++d) {
    for (int k = -d; k <= d; k += 2) {
      bool down = k == -d || (k != d && reach[limit + k - 1] < reach[limit + k + 1]);
      int x = down ? reach[limit + k + 1] : reach[limit + k - 1] + 1;
      while (x < rows && x - k < columns && x - k >= 0 && a[begin + x].text == b[begin + x - k].text) ++x;
      reach[limit + k] = x;
    }
    trace.push_back(reach);
    int k = rows - columns;
    if (std::abs(k) > d || (d - k) % 2 != 0 || reach[limit + k] < rows) continue;
    // Walk back along the recorded frontiers.
    int x = rows, y = columns;
    for (int step = d; step > 0; --step) {
      const std::vector<int>& v = trace[step - 1];
      int diagonal = x - y;
      bool down = diagonal == -step || (diagonal != step && v[limit + diagonal - 1] < v[limit + diagonal + 1]);
      int from = down ? diagonal + 1 : diagonal - 1;
      int px = v[limit + from], py = px - from;
      while (x > px + (down ? 0 : 1) && y > py + (down ? 1 : 0)) partner[begin + --x] = begin + --y;
      x = px, y = py;
    }
    while (x > 0 && y > 0) partner[begin + --x] = begin + --y;
    break;
  }
  return partner;
}

/// Lines that are equal up to numbers are the same when their numbers stand for the same values.
std::vector<Edit> edits_of(const Lines& a, const Lines& b) {
  std::vector<Shape> sa, sb;
  for (const std::string& line : a) sa.push_back(shape_of(line));
  for (const std::string& line : b) sb.push_back(shape_of(line));
  std::vector<int> partner = align(sa, sb);
  std::map<int, int> known;  // number in a -> number in b, within the current function
  std::vector<Edit> out;
  size_t next = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].starts_with("func")) known.clear();
    if (partner[i] < 0) {
      out.push_back({'-', a[i]});
      continue;
    }
    for (; next < static_cast<size_t>(partner[i]); ++next) out.push_back({'+', b[next]});
    const Shape &x = sa[i], &y = sb[next];
    bool same = x.defined == y.defined;
    for (size_t k = 0; same && k < x.numbers.size(); ++k) {
      if (k < x.defined)
        known[x.numbers[k]] = y.numbers[k];
      else
        same = known.count(x.numbers[k]) && known[x.numbers[k]] == y.numbers[k];
    }
    if (same)
      out.push_back({' ', b[next]});
    else
      out.push_back({'-', a[i]}), out.push_back({'+', b[next]});
    ++next;
  }
  for (; next < b.size(); ++next) out.push_back({'+', b[next]});
  return out;
}

std::string unified(const std::vector<Edit>& edits, bool color) {
  constexpr int kContext = 3;
  std::string out;
  std::vector<bool> shown(edits.size(), false);
  int n = static_cast<int>(edits.size());
  for (int i = 0; i < n; ++i)
    for (int j = std::max(0, i - kContext); edits[i].kind != ' ' && j <= std::min(n - 1, i + kContext); ++j)
      shown[j] = true;
  int line_a = 1, line_b = 1;
  for (int i = 0; i < n; ++i) {
    if (shown[i] && (i == 0 || !shown[i - 1])) {
      int count_a = 0, count_b = 0;
      for (int j = i; j < n && shown[j]; ++j) count_a += edits[j].kind != '+', count_b += edits[j].kind != '-';
      out += fmt::format("{}@@ -{},{} +{},{} @@{}\n", color ? "\033[36m" : "", line_a, count_a, line_b, count_b,
                         color ? "\033[0m" : "");
    }
    if (shown[i]) {
      const char* paint = !color || edits[i].kind == ' ' ? "" : edits[i].kind == '-' ? "\033[31m" : "\033[32m";
      out += fmt::format("{}{}{}{}\n", paint, edits[i].kind, edits[i].line, *paint ? "\033[0m" : "");
    }
    line_a += edits[i].kind != '+';
    line_b += edits[i].kind != '-';
  }
  return out;
}

bool different(const std::vector<Edit>& edits) {
  return std::any_of(edits.begin(), edits.end(), [](const Edit& e) { return e.kind != ' '; });
}

std::string words(std::string_view what, const std::vector<std::string>& names) {
  if (names.empty()) return "";
  std::string out = std::string(what) + ":";
  for (const std::string& name : names) out += " " + name;
  return out + "\n";
}

/// What changed, by kind: added and removed things, and functions whose bodies differ.
std::string in_words(const ir::Module& a, const ir::Module& b) {
  std::string out;
  if (a.stage != b.stage) out += fmt::format("stage: {} -> {}\n", name_of(a.stage), name_of(b.stage));
  auto compare = [&](const char* what, auto names, auto changed) {
    std::vector<std::string> added, removed, altered, before = names(a), after = names(b);
    std::set<std::string> in_a(before.begin(), before.end()), in_b(after.begin(), after.end());
    for (const std::string& n : before)
      if (!in_b.count(n))
        removed.push_back(n);
      else if (changed(n))
        altered.push_back(n);
    for (const std::string& n : after)
      if (!in_a.count(n)) added.push_back(n);
    out += words(fmt::format("{} removed", what), removed) + words(fmt::format("{} added", what), added) +
           words(fmt::format("{} changed", what), altered);
  };
  compare(
      "state",
      [](const ir::Module& m) {
        std::vector<std::string> names;
        for (const ir::StateLeaf& l : m.state) names.push_back(l.name);
        return names;
      },
      [&](const std::string& n) {
        const ir::StateLeaf &x = a.state[a.find_state(n)], &y = b.state[b.find_state(n)];
        return x.type != y.type || x.memory != y.memory;
      });
  compare(
      "entries", [](const ir::Module& m) { return m.entry_names(); },
      [&](const std::string& n) {
        const ir::Entry &x = *a.find_entry(n), &y = *b.find_entry(n);
        auto leaves = [](const ir::Module& m, const std::vector<int>& ids) {
          std::vector<std::string> names;
          for (int i : ids) names.push_back(m.state[i].name);
          return names;
        };
        return x.function != y.function || x.inputs != y.inputs || x.outputs != y.outputs ||
               leaves(a, x.reads) != leaves(b, y.reads) || leaves(a, x.writes) != leaves(b, y.writes);
      });
  compare(
      "functions", [](const ir::Module& m) { return m.function_names(); },
      [&](const std::string& n) {
        return different(edits_of(lines_of(print(*a.find(n))), lines_of(print(*b.find(n)))));
      });
  return out;
}

}  // namespace

std::string diff_modules(const ir::Module& a, const ir::Module& b, const std::string& name_a, const std::string& name_b,
                         bool locations, bool color) {
  auto text = [&](const ir::Module& m) { return lines_of(print(m, {.locations = locations, .hash_constants = true})); };
  std::vector<Edit> edits = edits_of(text(a), text(b));
  if (!different(edits)) return "";
  return in_words(a, b) + fmt::format("--- {}\n+++ {}\n", name_a, name_b) + unified(edits, color);
}

}  // namespace nabla::cli

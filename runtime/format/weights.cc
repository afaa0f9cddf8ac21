#include "runtime/format/weights.h"

#include <algorithm>
#include <map>
#include <optional>

#include "runtime/base/option_error.h"
#include "runtime/base/option_name.h"
#include "runtime/format/npy.h"
#include "runtime/format/safetensors.h"
#include "runtime/format/zip.h"

namespace nabla::format {
namespace {

constexpr size_t kMostListed = 20;

// Captures of `pattern` in `name`, or nothing. Shortest first.
std::optional<std::vector<std::string>> match(std::string_view pattern, std::string_view name) {
  size_t star = pattern.find('*');
  if (star == std::string_view::npos) {
    if (pattern != name) return std::nullopt;
    return std::vector<std::string>{};
  }
  if (name.substr(0, star) != pattern.substr(0, star)) return std::nullopt;
  std::string_view rest = pattern.substr(star + 1), from = name.substr(star);
  std::string_view literal = rest.substr(0, rest.find('*'));
  if (rest.size() == literal.size()) {  // the last star takes what is left
    if (from.size() < literal.size() + 1 || !from.ends_with(literal)) return std::nullopt;
    return std::vector<std::string>{std::string(from.substr(0, from.size() - literal.size()))};
  }
  for (size_t length = 1; length <= from.size(); ++length) {
    if (from.substr(length, literal.size()) != literal) continue;
    auto more = match(rest, from.substr(length));
    if (!more) return std::nullopt;  // the next star could take what a later place leaves out
    more->insert(more->begin(), std::string(from.substr(0, length)));
    return more;
  }
  return std::nullopt;
}

std::string filled(const std::string& target, const std::vector<std::string>& captures) {
  std::string out;
  size_t next = 0;
  for (char c : target) out += c == '*' ? captures[next++] : std::string(1, c);
  return out;
}

std::vector<std::string> names_of(const std::vector<TensorType>& list) {
  std::vector<std::string> out;
  for (const TensorType& t : list) out.push_back(t.name);
  return out;
}

// "`a`, `b` and 3 more"
template <class T, class Text>
std::string listed(const std::vector<T>& items, Text text) {
  std::string out;
  for (size_t i = 0; i < std::min(items.size(), kMostListed); ++i) out += (i ? ", " : "") + text(items[i]);
  if (items.size() > kMostListed) out += fmt::format(" and {} more", items.size() - kMostListed);
  return out;
}

bool fits(const TensorType& leaf, const TensorType& tensor, const WeightRule* rule, bool& transpose) {
  if (!can_convert(tensor.dtype, leaf.dtype)) return false;
  transpose = rule && rule->transpose;
  if (transpose) return leaf.shape.size() == 2 && tensor.shape == std::vector<int64_t>{leaf.shape[1], leaf.shape[0]};
  if (rule && rule->reshape) return count_of(tensor.shape) == count_of(leaf.shape);
  return tensor.shape == leaf.shape;
}

Diagnostic no_leaf(const WeightRule& rule, const std::string& name, const std::string& target,
                   const std::vector<TensorType>& leaves, const std::string& what) {
  Diagnostic d = error(Code::kStateMismatch, "{}: `{}` sends `{}` to `{}`, which the program does not have{}", what,
                       rule.text, name, target, did_you_mean(target, names_of(leaves)));
  if (size_t colon = target.rfind(':'); colon != target.npos)
    d.help = fmt::format("a row of {} ends in :transpose, :reshape or neither; `{}` is taken for a part of the name",
                         OptionName{"weights-map"}, target.substr(colon));
  return d;
}

std::string size_str(int64_t bytes) {
  if (bytes < 10000) return fmt::format("{} B", bytes);
  if (bytes < 10000000) return fmt::format("{:.1f} KB", static_cast<double>(bytes) / 1e3);
  return fmt::format("{:.1f} MB", static_cast<double>(bytes) / 1e6);
}

}  // namespace

std::string TensorType::str() const {
  if (problem) return "cannot be read";
  return fmt::format("{}{}", name_of(dtype), shape_str(shape));
}

Result<WeightFile> WeightFile::open(const std::string& path) {
  WeightFile out;
  out.path_ = path;
  out.file_ = NABLA_TRY(FileBytes::map(path));
  Bytes bytes = out.file_->bytes();
  auto add = [&](ArrayView v) {
    out.tensors_.push_back({std::move(v.name), v.dtype, std::move(v.shape), std::move(v.problem)});
    out.data_.push_back(v.data);
  };
  if (path.ends_with(".safetensors")) {
    for (ArrayView& v : NABLA_TRY(view_safetensors(bytes, path))) add(std::move(v));
    return out;
  }
  if (!path.ends_with(".npz"))
    return error(Code::kForeignFile, "{}: weights are read from .safetensors and .npz files", path);
  ZipReader zip = NABLA_TRY(ZipReader::open(bytes, path));
  // What cannot be taken is remembered with the tensor; damage is the whole file's.
  auto refused = [](auto& read, std::optional<ArrayView>& view) {
    if (read.ok() || !concerns_one_array(read.errors()[0])) return false;
    view = ArrayView{};
    view->problem = std::move(read.errors()[0]);
    return true;
  };
  for (const ZipMember& member : zip.members()) {
    if (member.name.ends_with('/')) continue;  // a folder
    std::string name = member.name.ends_with(".npy") ? member.name.substr(0, member.name.size() - 4) : member.name;
    std::string what = fmt::format("{}: array `{}`", path, name);
    std::optional<ArrayView> view;
    if (member.method == 0) {
      if (crc32_of(member.data) != member.crc) return error(Code::kCorrupt, "{}: the checksum is wrong", what);
      Result<std::optional<ArrayView>> read = view_npy(member.data, what);
      if (!refused(read, view)) view = NABLA_TRY(std::move(read));
    }
    if (!view) {
      std::string contents = NABLA_TRY(zip.read(member));
      Result<Literal> read = parse_npy(as_bytes(contents), what);
      if (!refused(read, view)) {
        out.unpacked_.push_back(NABLA_TRY(std::move(read)));
        const Literal& x = out.unpacked_.back();
        view = ArrayView{"", x.dtype(), x.shape(), static_cast<const uint8_t*>(x.data())};
      }
    }
    view->name = name;
    add(std::move(*view));
  }
  return out;
}

Result<WeightRule> parse_weight_rule(const std::string& text) {
  size_t at = text.find('=');
  if (at == 0 || at == std::string::npos || at + 1 == text.size())
    return option_error("such as h.*.attn.w=layers.*.attn.w, or with :transpose or :reshape after it",
                        "{} takes PATTERN=TARGET, not `{}`", OptionName{"weights-map"}, text);
  WeightRule rule{text.substr(0, at), text.substr(at + 1), false, false, text};
  for (auto [suffix, flag] : {std::pair{std::string_view(":transpose"), &rule.transpose}, {":reshape", &rule.reshape}})
    if (rule.target.ends_with(suffix)) {
      rule.target.resize(rule.target.size() - suffix.size());
      *flag = true;
      break;
    }
  auto stars = [](const std::string& s) { return std::count(s.begin(), s.end(), '*'); };
  if (rule.target.empty() || stars(rule.pattern) != stars(rule.target))
    return option_error("what a `*` of the pattern stands for goes where one of the target is: as many in both, such as h.*.w=layers.*.w",
                        "{} `{}`: {} `*` in the pattern, {} in the target", OptionName{"weights-map"}, text, stars(rule.pattern),
                        stars(rule.target));
  return rule;
}

Result<WeightPlan> plan_weights(const std::vector<TensorType>& leaves, const std::vector<TensorType>& tensors,
                                const std::vector<WeightRule>& rules, const std::string& what) {
  std::map<std::string, int> leaf_of;
  for (size_t i = 0; i < leaves.size(); ++i) leaf_of[leaves[i].name] = static_cast<int>(i);
  struct Choice {
    int tensor;
    const WeightRule* rule;
  };
  std::map<int, Choice> chosen;
  std::vector<bool> matches(rules.size(), false);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const std::string& name = tensors[t].name;
    const WeightRule* rule = nullptr;
    std::string target = name;
    for (size_t r = 0; r < rules.size(); ++r) {
      auto captures = match(rules[r].pattern, name);
      if (!captures) continue;
      matches[r] = true;
      rule = &rules[r];
      target = filled(rules[r].target, *captures);
    }
    auto leaf = leaf_of.find(target);
    if (leaf == leaf_of.end()) {
      if (!rule) continue;
      return no_leaf(*rule, name, target, leaves, what);
    }
    auto [other, first] = chosen.emplace(leaf->second, Choice{static_cast<int>(t), rule});
    if (first) continue;
    if (rule && other->second.rule)
      return error(Code::kStateMismatch, "{}: `{}` and `{}` both go to state `{}`, by `{}` and `{}`", what,
                   tensors[static_cast<size_t>(other->second.tensor)].name, name, target, other->second.rule->text,
                   rule->text);
    if (rule) other->second = {static_cast<int>(t), rule};  // not the tensor that only has the leaf's name
  }
  for (size_t r = 0; r < rules.size(); ++r)
    if (!matches[r])
      return error(Code::kStateMismatch, "{}: no tensor matches `{}` of `{}`{}", what, rules[r].pattern, rules[r].text,
                   did_you_mean(rules[r].pattern, names_of(tensors)));
  WeightPlan plan;
  std::vector<bool> used(tensors.size(), false);
  for (size_t i = 0; i < leaves.size(); ++i) {
    auto choice = chosen.find(static_cast<int>(i));
    if (choice == chosen.end()) {
      plan.left_leaves.push_back(static_cast<int>(i));
      continue;
    }
    auto tensor = static_cast<size_t>(choice->second.tensor);
    used[tensor] = true;
    if (tensors[tensor].problem) return *tensors[tensor].problem;
    WeightPlan::Load load{static_cast<int>(i), choice->second.tensor};
    bool good = fits(leaves[i], tensors[tensor], choice->second.rule, load.transpose);
    (good ? plan.loads : plan.misfits).push_back(load);
  }
  for (size_t t = 0; t < tensors.size(); ++t)
    if (!used[t]) plan.unused.push_back(static_cast<int>(t));
  return plan;
}

Status check_weights(const WeightPlan& plan, const std::vector<TensorType>& leaves,
                     const std::vector<TensorType>& tensors, const std::vector<bool>& has_value, bool partial,
                     const std::string& what) {
  Diagnostics out;
  auto leaf_at = [&](int i) -> const TensorType& { return leaves[static_cast<size_t>(i)]; };
  if (!plan.misfits.empty()) {
    out.push_back(error(Code::kStateMismatch, "{}: {} of {} leaves do not fit: {}", what, plan.misfits.size(),
                        leaves.size(), listed(plan.misfits, [&](const WeightPlan::Load& l) {
                          const TensorType& t = tensors[static_cast<size_t>(l.tensor)];
                          return fmt::format("`{}` is {}, `{}` in the file is {}{}", leaf_at(l.leaf).name,
                                             leaf_at(l.leaf).str(), t.name, t.str(),
                                             l.transpose ? " (to be transposed)" : "");
                        })));
    out.back().help =
        fmt::format("end a row of {} in :transpose or :reshape where only the order or the shape differs", OptionName{"weights-map"});
  }
  std::vector<int> without;
  for (int leaf : plan.left_leaves)
    if (!has_value[static_cast<size_t>(leaf)]) without.push_back(leaf);
  if (!without.empty() && !partial) {
    out.push_back(error(
        Code::kStateMismatch, "{}: no tensor for {} of {} leaves: {}", what, without.size(), leaves.size(),
        listed(without, [&](int leaf) { return fmt::format("`{}` ({})", leaf_at(leaf).name, leaf_at(leaf).str()); })));
    if (!plan.unused.empty())
      out.back().notes.push_back(fmt::format("the file also has {}", listed(plan.unused, [&](int t) {
                                               const TensorType& tensor = tensors[static_cast<size_t>(t)];
                                               return fmt::format("`{}` ({})", tensor.name, tensor.str());
                                             })));
    out.back().help = fmt::format("map tensors to them with {}, or pass {} to leave them to `init`", OptionName{"weights-map"},
                                  OptionName{"weights-partial"});
  }
  if (!out.empty()) return out;
  return Ok{};
}

std::string weights_report(const WeightPlan& plan, const std::vector<TensorType>& leaves, const WeightFile& file,
                           const std::vector<int64_t>& lost) {
  int64_t bytes = 0;
  std::map<std::string, int> conversions;
  std::string infinite;
  for (size_t i = 0; i < plan.loads.size(); ++i) {
    const TensorType& leaf = leaves[static_cast<size_t>(plan.loads[i].leaf)];
    DType from = file.tensors()[static_cast<size_t>(plan.loads[i].tensor)].dtype;
    bytes += leaf.bytes();
    if (from != leaf.dtype)
      ++conversions[fmt::format("{} -> {}{}", name_of(from), name_of(leaf.dtype),
                                narrows(from, leaf.dtype) ? ", narrower" : "")];
    if (lost[i] > 0)
      infinite +=
          fmt::format("  infinite    {} numbers of `{}`, too large for {}\n", lost[i], leaf.name, name_of(leaf.dtype));
  }
  std::string out = fmt::format("weights: {} of {} leaves from {} ({})\n", plan.loads.size(), leaves.size(),
                                file.path(), size_str(bytes));
  for (const auto& [text, count] : conversions) out += fmt::format("  converted   {} leaves {}\n", count, text);
  out += infinite;
  if (!plan.left_leaves.empty())
    out += fmt::format("  kept        {}\n", listed(plan.left_leaves, [&](int leaf) {
                         const TensorType& t = leaves[static_cast<size_t>(leaf)];
                         return fmt::format("`{}` ({})", t.name, t.str());
                       }));
  if (!plan.unused.empty())
    out += fmt::format("  not used    {}\n", listed(plan.unused, [&](int t) {
                         const TensorType& tensor = file.tensors()[static_cast<size_t>(t)];
                         return fmt::format("`{}` ({})", tensor.name, tensor.str());
                       }));
  return out;
}

}  // namespace nabla::format

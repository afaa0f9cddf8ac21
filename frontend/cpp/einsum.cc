// einsum: operands lose the letters that nobody else needs, then meet pair by pair in matrix products.
#include <algorithm>
#include <map>

#include "frontend/cpp/array.h"
#include "frontend/cpp/emit.h"
#include "frontend/cpp/frame.h"

namespace nabla {
namespace {

bool holds(const std::string& list, char letter) { return list.find(letter) != std::string::npos; }

/// A tensor and the letter of each of its dimensions. Digits stand for the dimensions of an ellipsis, from the end.
struct Term {
  Tensor value;
  std::string letters;
};

class Einsum {
 public:
  Einsum(const std::string& spec, const std::vector<Tensor>& operands, const Site& site) : spec_(spec), site_(site) {
    parse(operands);
  }

  Tensor run() {
    for (size_t i = 0; i < terms_.size(); ++i) {
      take_diagonals(terms_[i]);
      drop(terms_[i], needed_by_others(i));
    }
    Term product = terms_[0];
    for (size_t i = 1; i < terms_.size(); ++i) {
      std::string later = output_;
      for (size_t j = i + 1; j < terms_.size(); ++j) later += terms_[j].letters;
      product = multiply(product, terms_[i], later);
    }
    return arranged(product);
  }

 private:
  template <class... Args>
  Error fail(fmt::format_string<Args...> format, Args&&... args) const {
    return error_at(site_, Code::kBadAttribute, "einsum \"{}\": {}", spec_,
                    fmt::format(format, std::forward<Args>(args)...));
  }

  void parse(const std::vector<Tensor>& operands) {
    std::string text;
    for (char c : spec_)
      if (c != ' ') text += c;
    size_t arrow = text.find("->");
    std::vector<std::string> inputs = {""};
    for (char c : text.substr(0, arrow)) {
      if (c == ',')
        inputs.emplace_back();
      else
        inputs.back().push_back(c);
    }
    if (inputs.size() != operands.size()) throw fail("{} terms for {} operands", inputs.size(), operands.size());
    for (size_t i = 0; i < inputs.size(); ++i) {
      int named = letters_in(inputs[i]), rank = operands[i].rank();
      bool dots = inputs[i].find("...") != std::string::npos;
      if (dots ? named > rank : named != rank)
        throw fail("term \"{}\" does not fit {}", inputs[i], operands[i].type().str());
      if (rank - named > 9) throw fail("an ellipsis of more than 9 dimensions");
      ellipsis_ = std::max(ellipsis_, dots ? rank - named : 0);
      terms_.push_back({operands[i], expanded(inputs[i], rank - named)});
      check_extents(terms_.back());
    }
    output_ = arrow == std::string::npos ? implicit_output() : expanded(text.substr(arrow + 2), ellipsis_);
    for (size_t i = 0; i < output_.size(); ++i) {
      if (!extents_.count(output_[i])) throw fail("the result's letter `{}` is in no operand", output_[i]);
      if (output_.find(output_[i], i + 1) != std::string::npos) throw fail("the result names `{}` twice", output_[i]);
    }
  }
  int letters_in(const std::string& term) const {
    size_t at = term.find("...");
    std::string rest = at == std::string::npos ? term : term.substr(0, at) + term.substr(at + 3);
    for (char c : rest)
      if (!isalpha(static_cast<unsigned char>(c))) throw fail("`{}` is no letter", c);
    return static_cast<int>(rest.size());
  }
  static std::string expanded(const std::string& term, int ellipsis) {
    size_t at = term.find("...");
    if (at == std::string::npos) return term;
    std::string digits;
    for (int i = ellipsis; i-- > 0;) digits += static_cast<char>('0' + i);
    return term.substr(0, at) + digits + term.substr(at + 3);
  }
  void check_extents(const Term& t) {
    for (size_t d = 0; d < t.letters.size(); ++d) {
      auto [it, fresh] = extents_.try_emplace(t.letters[d], t.value.shape()[d]);
      if (!fresh && !(it->second == t.value.shape()[d]))
        throw error_at(site_, Code::kShapeMismatch, "einsum \"{}\": `{}` is {} and {}", spec_, t.letters[d],
                       it->second.str(), t.value.shape()[d].str());
    }
  }
  std::string implicit_output() const {
    std::string out;
    for (int i = ellipsis_; i-- > 0;) out += static_cast<char>('0' + i);
    for (const auto& [letter, extent] : extents_) {
      int64_t times = 0;
      for (const Term& t : terms_) times += std::count(t.letters.begin(), t.letters.end(), letter);
      if (times == 1 && isalpha(static_cast<unsigned char>(letter))) out += letter;
    }
    return out;
  }

  /// Of two dimensions with one letter the diagonal is kept: all else counts as 0 and one of them is summed over.
  static void take_diagonals(Term& t) {
    for (size_t i = 0; i < t.letters.size(); ++i)
      for (size_t j; (j = t.letters.find(t.letters[i], i + 1)) != std::string::npos;) {
        const Shape& shape = t.value.shape();
        Tensor same =
            eq(iota(shape, static_cast<int64_t>(i), DType::kI64), iota(shape, static_cast<int64_t>(j), DType::kI64));
        t.value = sum(select(same, t.value, zeros_like(t.value)), {static_cast<int64_t>(j)});
        t.letters.erase(j, 1);
      }
  }
  std::string needed_by_others(size_t i) const {
    std::string out = output_;
    for (size_t j = 0; j < terms_.size(); ++j)
      if (j != i) out += terms_[j].letters;
    return out;
  }
  static void drop(Term& t, const std::string& needed) {
    Ints axes;
    std::string kept;
    for (size_t d = 0; d < t.letters.size(); ++d)
      holds(needed, t.letters[d]) ? kept.push_back(t.letters[d]) : axes.push_back(static_cast<int64_t>(d));
    if (!axes.empty()) t.value = sum(t.value, axes);
    t.letters = kept;
  }
  static Term multiply(const Term& a, const Term& b, const std::string& later) {
    Ints a_batch, b_batch, a_contract, b_contract;
    std::string batch, a_free, b_free;
    for (size_t d = 0; d < a.letters.size(); ++d) {
      char letter = a.letters[d];
      if (!holds(b.letters, letter)) {
        a_free += letter;
        continue;
      }
      bool kept = holds(later, letter);
      (kept ? a_batch : a_contract).push_back(static_cast<int64_t>(d));
      (kept ? b_batch : b_contract).push_back(static_cast<int64_t>(b.letters.find(letter)));
      if (kept) batch += letter;
    }
    for (char letter : b.letters)
      if (!holds(a.letters, letter)) b_free += letter;
    return {dot_general(a.value, b.value, a_contract, b_contract, a_batch, b_batch), batch + a_free + b_free};
  }
  Tensor arranged(const Term& t) const {
    Ints order;
    for (char letter : output_) order.push_back(static_cast<int64_t>(t.letters.find(letter)));
    return std::is_sorted(order.begin(), order.end()) ? t.value : transpose(t.value, order);
  }

  std::string spec_, output_;
  Site site_;
  std::vector<Term> terms_;
  std::map<char, ir::Dim> extents_;
  int ellipsis_ = 0;
};

}  // namespace

Tensor einsum(const std::string& spec, const std::vector<Tensor>& operands, Site site) {
  AtSite at(site);
  return Einsum(spec, operands, site).run();
}

}  // namespace nabla

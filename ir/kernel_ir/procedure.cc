#include "ir/kernel_ir/procedure.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/kernel_ir/procedure_families.h"
#include "runtime/base/check.h"

namespace nabla::kernel_ir {
namespace {

using Numbers = std::span<const int64_t>;
using Operands = std::span<const Literal* const>;
using Results = std::span<Literal* const>;

/// f(position of the row's first element, distance of neighbours) for every row of [outer, count, inner].
template <class F>
void for_each_row(int64_t outer, int64_t count, int64_t inner, F f) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) f(o * count * inner + i, inner);
}

/// Does element i stand before element j in ascending order? NaN is the largest number.
bool less(const Literal& x, int64_t i, int64_t j) {
  if (is_float(x.dtype())) {
    double a = x.get(i), b = x.get(j);
    return std::isnan(b) ? !std::isnan(a) : a < b;
  }
  int64_t a = x.get_i(i), b = x.get_i(j);
  return is_unsigned(x.dtype()) ? static_cast<uint64_t>(a) < static_cast<uint64_t>(b) : a < b;
}

void copy(Literal& to, int64_t i, const Literal& from, int64_t j) {
  if (is_float(from.dtype()))
    to.set(i, from.get(j));
  else
    to.set_i(i, from.get_i(j));
}

// ---- Running sums and products: numbers are reverse, exclusive.

template <bool product>
void cumulate(Numbers n, Operands in, Results out) {
  const Literal& x = *in[0];
  Literal& y = *out[0];
  bool reverse = n[3], exclusive = n[4];
  for_each_row(n[0], n[1], n[2], [&](int64_t first, int64_t stride) {
    double f = product;
    uint64_t whole = product;
    for (int64_t i = 0; i < n[1]; ++i) {
      int64_t at = first + (reverse ? n[1] - 1 - i : i) * stride;
      double f_before = f;
      uint64_t whole_before = whole;
      if (is_float(x.dtype())) {
        f = product ? f * x.get(at) : f + x.get(at);
        y.set(at, exclusive ? f_before : f);
      } else {
        uint64_t v = static_cast<uint64_t>(x.get_i(at));
        whole = product ? whole * v : whole + v;
        y.set_i(at, static_cast<int64_t>(exclusive ? whole_before : whole));
      }
    }
  });
}

// ---- Running extremes. The first of equal ones is kept; NaN wins.

template <bool max>
bool beats(const Literal& x, int64_t i, int64_t best) {
  if (is_float(x.dtype())) {
    if (std::isnan(x.get(best))) return false;
    if (std::isnan(x.get(i))) return true;
  }
  return max ? less(x, best, i) : less(x, i, best);
}

void set_identity(Literal& y, int64_t at, bool max) {
  DType d = y.dtype();
  double inf = std::numeric_limits<double>::infinity();
  if (is_float(d)) return y.set(at, max ? -inf : inf);
  int bits = 8 * bytes_of(d);
  if (is_unsigned(d)) return y.set_i(at, max ? 0 : -1);
  int64_t lowest = bits == 64 ? INT64_MIN : -(int64_t{1} << (bits - 1));
  y.set_i(at, max ? lowest : ~lowest);
}

template <bool max>
void extreme(Numbers n, Operands in, Results out) {
  const Literal& x = *in[0];
  bool reverse = n[3], exclusive = n[4];
  for_each_row(n[0], n[1], n[2], [&](int64_t first, int64_t stride) {
    int64_t best = -1;
    for (int64_t i = 0; i < n[1]; ++i) {
      int64_t at = first + (reverse ? n[1] - 1 - i : i) * stride, before = best;
      if (best < 0 || beats<max>(x, at, best)) best = at;
      int64_t shown = exclusive ? before : best;
      if (shown < 0)
        set_identity(*out[0], at, max);
      else
        copy(*out[0], at, x, shown);
    }
  });
}

template <bool max>
void extreme_position(Numbers n, Operands in, Results out) {
  const Literal& x = *in[0];
  for_each_row(n[0], n[1], n[2], [&](int64_t first, int64_t stride) {
    int64_t best = -1;
    for (int64_t i = 0; i < n[1]; ++i) {
      int64_t at = first + (n[3] ? n[1] - 1 - i : i) * stride;
      if (best < 0 || beats<max>(x, at, best)) best = at;
      out[0]->set_i(at, (best - first) / stride);
    }
  });
}

// ---- Sorting: the permutation that sorts rows by the operands, the first one first.

std::vector<int64_t> sorted_row(Operands keys, int64_t count, int64_t first, int64_t stride, bool descending) {
  std::vector<int64_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
    for (const Literal* key : keys) {
      int64_t i = first + a * stride, j = first + b * stride;
      if (less(*key, i, j)) return !descending;
      if (less(*key, j, i)) return descending;
    }
    return false;
  });
  return order;
}

void argsort(Numbers n, Operands in, Results out) {
  for_each_row(n[0], n[1], n[2], [&](int64_t first, int64_t stride) {
    std::vector<int64_t> order = sorted_row(in, n[1], first, stride, n[3]);
    for (int64_t i = 0; i < n[1]; ++i) out[0]->set_i(first + i * stride, order[i]);
  });
}

void top_k(Numbers n, Operands in, Results out) {
  if (n[1] == 0) return;
  int64_t inner = n[2], k = n[3];
  for_each_row(n[0], n[1], inner, [&](int64_t first, int64_t stride) {
    std::vector<int64_t> order = sorted_row(in, n[1], first, stride, n[4]);
    int64_t to = first / (n[1] * inner) * k * inner + first % inner;
    for (int64_t i = 0; i < k; ++i) {
      copy(*out[0], to + i * inner, *in[0], first + order[i] * stride);
      out[1]->set_i(to + i * inner, order[i]);
    }
  });
}

int64_t nothing(Numbers) { return 0; }
double one_pass(Numbers n) { return 2.0 * static_cast<double>(n[1]); }
double sorting(Numbers n) {
  double count = static_cast<double>(n[1]);
  return 8 * count * std::log2(count + 2);
}
double selecting(Numbers n) { return 4 * static_cast<double>(n[1]); }
// Sorting moves pairs of a key and a position to and fro.
int64_t two_rows_of_pairs(Numbers n) { return 2 * 16 * n[1]; }
int64_t pairs_of_k(Numbers n) { return 16 * n[3]; }

// Only a host compiler knows what it means: the op's `reference` stands for it in front of lowering.
void no_meaning(Numbers, Operands, Results) { NABLA_CHECK(false, "C++ of the user's is not interpreted"); }

const ProcedureDef kProcedures[] = {
    {"cumsum", {"reverse", "exclusive"}, nothing, one_pass, cumulate<false>},
    {"cumprod", {"reverse", "exclusive"}, nothing, one_pass, cumulate<true>},
    {"cummax", {"reverse", "exclusive"}, nothing, one_pass, extreme<true>},
    {"cummin", {"reverse", "exclusive"}, nothing, one_pass, extreme<false>},
    {"cumargmax", {"reverse"}, nothing, one_pass, extreme_position<true>},
    {"cumargmin", {"reverse"}, nothing, one_pass, extreme_position<false>},
    {"argsort", {"descending"}, two_rows_of_pairs, sorting, argsort},
    {"top_k", {"k", "largest"}, pairs_of_k, selecting, top_k},
    {"user", {}, nothing, selecting, no_meaning},
};

}  // namespace

std::vector<int64_t> Procedure::values() const {
  std::vector<int64_t> out;
  for (const ir::Dim& d : numbers) out.push_back(d.value());
  return out;
}

std::vector<std::string> Procedure::names() const {
  std::vector<std::string> out = {"outer", "count", "inner"};
  if (user) out.insert(out.end(), user->sizes.begin(), user->sizes.end());
  if (user && !user->cuda.text.empty()) out.emplace_back("blocks");
  for (std::string_view n : def->numbers) out.emplace_back(n);
  return out;
}

const ir::Dim& Procedure::cuda_blocks() const {
  NABLA_CHECK(user && !user->cuda.text.empty(), "blocks of a procedure without text for CUDA");
  return numbers.back();
}

bool Procedure::operator==(const Procedure& other) const {
  bool same = !user || !other.user ? user == other.user : *user == *other.user;
  return same && def == other.def && numbers == other.numbers;
}

int64_t elements_sorted_by_a_block(const Procedure& p, int64_t shared_bytes) {
  bool whole = p.def->name == "argsort", some = p.def->name == "top_k";
  if (!whole && !some) return 0;
  int64_t count = p.numbers[1].bounds().max, least = whole ? count : 2 * p.numbers[3].bounds().max, n = 64;
  if (count > INT32_MAX) return 0;
  while (n < count && 2 * n * kSortedBytes <= shared_bytes) n *= 2;
  return n >= std::min(least, count) && n * kSortedBytes <= shared_bytes ? n : 0;
}

const ProcedureDef* find_procedure(std::string_view name) {
  for (std::span<const ProcedureDef> family :
       {std::span<const ProcedureDef>(kProcedures), linalg_procedures(), fft_procedures(), attention_procedures()})
    for (const ProcedureDef& p : family)
      if (p.name == name) return &p;
  return nullptr;
}

Procedure procedure(std::string_view name, std::vector<ir::Dim> numbers) {
  const ProcedureDef* def = find_procedure(name);
  NABLA_CHECK(def, "no procedure is named {}", name);
  NABLA_CHECK(numbers.size() == def->numbers.size() + 3, "{} takes {} numbers, not {}", name, def->numbers.size() + 3,
              numbers.size());
  return {def, std::move(numbers)};
}

Procedure user_procedure(UserCode code, std::vector<ir::Dim> numbers) {
  size_t count = code.sizes.size() + (code.cuda.text.empty() ? 3 : 4);
  NABLA_CHECK(numbers.size() == count, "{} takes {} numbers, not {}", code.name, count, numbers.size());
  return {find_procedure("user"), std::move(numbers), std::make_shared<const UserCode>(std::move(code))};
}

}  // namespace nabla::kernel_ir

#include "ir/kernel_ir/procedure.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <type_traits>

#include "ir/kernel_ir/procedure_families.h"
#include "ir/kernel_ir/rows.h"
#include "runtime/base/check.h"

namespace nabla::kernel_ir {
namespace {

using Numbers = std::span<const int64_t>;
using Operands = std::span<const Literal* const>;
using Results = std::span<Literal* const>;

constexpr NumberNames<2> kRunning = {"reverse", "exclusive"};
constexpr NumberNames<1> kRunningPlace = {"reverse"}, kSorting = {"descending"};
constexpr NumberNames<2> kSelecting = {"k", "largest"};
constexpr size_t kReverse = place_of(kRunning, "reverse"), kExclusive = place_of(kRunning, "exclusive");
static_assert(kReverse == place_of(kRunningPlace, "reverse"));  // walk_extremes reads it for both
constexpr size_t kDescending = place_of(kSorting, "descending");
constexpr size_t kBest = place_of(kSelecting, "k"), kLargest = place_of(kSelecting, "largest");

/// f(position of the row's first element, distance of neighbours) for every row of [outer, count, inner].
template <class F>
void for_each_row(int64_t outer, int64_t count, int64_t inner, F f) {
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) f(o * count * inner + i, inner);
}

/// u64 comes as the bits of a signed number: turned round half-way it has the right order, and so have all integers.
int64_t turned(DType dtype, int64_t v) { return dtype == DType::kU64 ? v ^ INT64_MIN : v; }

// ---- Running sums and products

/// x with running values along the middle, which `next(before, element)` makes.
template <class Wide, class F>
void run_along(Numbers n, const Literal& x, Literal& y, Wide start, F next) {
  bool reverse = n[kReverse], exclusive = n[kExclusive];
  std::vector<Wide> row(n[kCount]);
  for_each_row(n[kOuter], n[kCount], n[kInner], [&](int64_t first, int64_t stride) {
    read_row(x, first, stride, n[kCount], row.data());
    if (reverse) std::reverse(row.begin(), row.end());
    Wide value = start;
    for (Wide& v : row) {
      Wide before = value;
      value = next(value, v);
      v = exclusive ? before : value;
    }
    if (reverse) std::reverse(row.begin(), row.end());
    write_row(y, first, stride, n[kCount], row.data());
  });
}

template <bool product>
void cumulate(Numbers n, Operands in, Results out) {
  if (is_float(in[0]->dtype()))
    return run_along<double>(n, *in[0], *out[0], product, [](double a, double b) { return product ? a * b : a + b; });
  run_along<int64_t>(n, *in[0], *out[0], product, [](int64_t a, int64_t b) {
    uint64_t x = static_cast<uint64_t>(a), y = static_cast<uint64_t>(b);
    return static_cast<int64_t>(product ? x * y : x + y);
  });
}

// ---- Running extremes. The first of equal ones is kept; NaN wins.

template <bool max>
bool beats(DType, double v, double best) {
  if (max ? v > best : v < best) return true;
  return std::isnan(v) && !std::isnan(best);
}
template <bool max>
bool beats(DType dtype, int64_t v, int64_t best) {
  return max ? turned(dtype, v) > turned(dtype, best) : turned(dtype, v) < turned(dtype, best);
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

/// f(first, stride, best elements so far, their places) for every row; kReverse says where it begins.
template <bool max, class Wide, class F>
void walk_extremes(Numbers n, const Literal& x, F f) {
  std::vector<Wide> row(n[kCount]);
  std::vector<int64_t> places(n[kCount]);
  for_each_row(n[kOuter], n[kCount], n[kInner], [&](int64_t first, int64_t stride) {
    read_row(x, first, stride, n[kCount], row.data());
    int64_t place = -1;
    for (int64_t k = 0; k < n[kCount]; ++k) {
      int64_t i = n[kReverse] ? n[kCount] - 1 - k : k;
      if (place < 0 || beats<max>(x.dtype(), row[i], row[n[kReverse] ? i + 1 : i - 1])) place = i;
      places[i] = place;
      if (place != i) row[i] = row[n[kReverse] ? i + 1 : i - 1];
    }
    f(first, stride, row.data(), places.data());
  });
}

template <bool max, class Wide>
void extreme_of(Numbers n, const Literal& x, Literal& y) {
  bool reverse = n[kReverse], exclusive = n[kExclusive];
  walk_extremes<max, Wide>(n, x, [&](int64_t first, int64_t stride, const Wide* best, const int64_t*) {
    if (!exclusive) return write_row(y, first, stride, n[kCount], best);
    write_row(y, reverse ? first : first + stride, stride, n[kCount] - 1, reverse ? best + 1 : best);
    set_identity(y, reverse ? first + (n[kCount] - 1) * stride : first, max);
  });
}

template <bool max>
void extreme(Numbers n, Operands in, Results out) {
  if (n[kCount] == 0) return;
  is_float(in[0]->dtype()) ? extreme_of<max, double>(n, *in[0], *out[0]) : extreme_of<max, int64_t>(n, *in[0], *out[0]);
}

template <bool max>
void extreme_position(Numbers n, Operands in, Results out) {
  auto write = [&](int64_t first, int64_t stride, auto, const int64_t* places) {
    write_row(*out[0], first, stride, n[kCount], places);
  };
  is_float(in[0]->dtype()) ? walk_extremes<max, double>(n, *in[0], write)
                           : walk_extremes<max, int64_t>(n, *in[0], write);
}

// ---- Sorting: the permutation that sorts rows by the operands, the first one first.

/// An element: a number that is ordered as elements are, NaN being the largest, and its place in the row.
template <class Key>
struct Keyed {
  Key key;
  Key place;
  bool operator<(const Keyed& o) const { return key != o.key ? key < o.key : place < o.place; }
};

/// Key is an unsigned integer as large as the element or larger.
template <class Key>
Key key_of(DType, double v) {
  constexpr Key kTop = Key{1} << (8 * sizeof(Key) - 1);
  if (std::isnan(v)) return ~Key{0};
  if (v == 0) return kTop;
  Key bits = std::bit_cast<Key>(static_cast<std::conditional_t<sizeof(Key) == 4, float, double>>(v));
  return bits & kTop ? ~bits : bits | kTop;
}
template <class Key>
Key key_of(DType dtype, int64_t v) {
  if (is_unsigned(dtype)) return static_cast<Key>(v);
  return static_cast<Key>(v) ^ (Key{1} << (8 * sizeof(Key) - 1));
}

/// Rows of one shape, sorted by their keys; equal keys stay in their order.
template <class Key>
class RowSorter {
 public:
  RowSorter(Operands keys, int64_t count, bool descending)
      : keys_(keys), descending_(descending), row_(count), next_(count) {}

  /// Places in the order of the row.
  std::span<const Keyed<Key>> sorted(int64_t first, int64_t stride) {
    start();
    for (size_t k = keys_.size(); k-- > 0;) {  // the last key first: later sorts keep what is equal to them
      set_keys(*keys_[k], first, stride);
      sort();
    }
    return row_;
  }

  /// The first k of them.
  std::span<const Keyed<Key>> first_sorted(int64_t k, int64_t first, int64_t stride) {
    if (keys_.size() > 1 || 4 * k > size()) return sorted(first, stride).first(k);
    start();
    set_keys(*keys_[0], first, stride);
    std::nth_element(row_.begin(), row_.begin() + k, row_.end());
    std::sort(row_.begin(), row_.begin() + k);
    return std::span<const Keyed<Key>>(row_).first(k);
  }

 private:
  int64_t size() const { return static_cast<int64_t>(row_.size()); }

  void start() {
    for (int64_t i = 0; i < size(); ++i) row_[i].place = static_cast<Key>(i);
  }

  void set_keys(const Literal& x, int64_t first, int64_t stride) {
    is_float(x.dtype()) ? set_keys(x, first, stride, floats_) : set_keys(x, first, stride, ints_);
  }
  template <class Wide>
  void set_keys(const Literal& x, int64_t first, int64_t stride, std::vector<Wide>& wide) {
    Key turn = descending_ ? ~Key{0} : 0;
    wide.resize(size());
    read_row(x, first, stride, size(), wide.data());
    for (Keyed<Key>& e : row_) e.key = key_of<Key>(x.dtype(), wide[e.place]) ^ turn;
  }

  // By the digits of the keys' distances from the least, the lowest digit first; those in which no two differ are left
  // out.
  void sort() {
    constexpr int64_t kFew = 64, kMany = 8192;
    if (size() < kFew)
      return std::stable_sort(row_.begin(), row_.end(),
                              [](const Keyed<Key>& a, const Keyed<Key>& b) { return a.key < b.key; });
    Key least = ~Key{0}, differing = 0;
    for (const Keyed<Key>& e : row_) least = std::min(least, e.key);
    for (Keyed<Key>& e : row_) differing |= e.key -= least;
    int bits = size() < kMany ? 8 : 11;
    counts_.resize(size_t{1} << bits);
    int end = std::bit_width(differing);
    for (int shift = std::countr_zero(differing); shift < end; shift += bits)
      sort_by_digit(shift, (Key{1} << bits) - 1);
  }

  void sort_by_digit(int shift, Key mask) {
    std::fill(counts_.begin(), counts_.end(), 0);
    for (const Keyed<Key>& e : row_) ++counts_[(e.key >> shift) & mask];
    std::exclusive_scan(counts_.begin(), counts_.end(), counts_.begin(), int64_t{0});
    for (const Keyed<Key>& e : row_) next_[counts_[(e.key >> shift) & mask]++] = e;
    row_.swap(next_);
  }

  Operands keys_;
  bool descending_;
  std::vector<Keyed<Key>> row_, next_;
  std::vector<double> floats_;
  std::vector<int64_t> ints_, counts_;
};

/// f(sorter) with keys as large as the operands need.
template <class F>
void with_sorter(Operands keys, int64_t count, bool descending, F f) {
  bool wide = count > UINT32_MAX;
  for (const Literal* key : keys) wide = wide || bytes_of(key->dtype()) > 4;
  wide ? f(RowSorter<uint64_t>(keys, count, descending)) : f(RowSorter<uint32_t>(keys, count, descending));
}

void argsort(Numbers n, Operands in, Results out) {
  std::vector<int64_t> places(n[kCount]);
  with_sorter(in, n[kCount], n[kDescending], [&](auto sorter) {
    for_each_row(n[kOuter], n[kCount], n[kInner], [&](int64_t first, int64_t stride) {
      auto row = sorter.sorted(first, stride);
      for (size_t i = 0; i < row.size(); ++i) places[i] = static_cast<int64_t>(row[i].place);
      write_row(*out[0], first, stride, n[kCount], places.data());
    });
  });
}

void copy(Literal& to, int64_t i, const Literal& from, int64_t j) {
  if (is_float(from.dtype()))
    to.set(i, from.get(j));
  else
    to.set_i(i, from.get_i(j));
}

void top_k(Numbers n, Operands in, Results out) {
  if (n[kCount] == 0) return;
  int64_t inner = n[kInner], k = n[kBest];
  with_sorter(in, n[kCount], n[kLargest], [&](auto sorter) {
    for_each_row(n[kOuter], n[kCount], inner, [&](int64_t first, int64_t stride) {
      int64_t to = first / (n[kCount] * inner) * k * inner + first % inner;
      for (const auto& e : sorter.first_sorted(k, first, stride)) {
        copy(*out[0], to, *in[0], first + static_cast<int64_t>(e.place) * stride);
        out[1]->set_i(to, static_cast<int64_t>(e.place));
        to += inner;
      }
    });
  });
}

double one_pass(Numbers n) { return 2.0 * static_cast<double>(n[kCount]); }
double sorting(Numbers n) {
  double count = static_cast<double>(n[kCount]);
  return 8 * count * std::log2(count + 2);
}
double selecting(Numbers n) { return 4 * static_cast<double>(n[kCount]); }
// Sorting moves pairs of a key and a position to and fro.
int64_t two_rows_of_pairs(Numbers n) { return 2 * 16 * n[kCount]; }
int64_t pairs_of_k(Numbers n) { return 16 * n[kBest]; }

// Only a host compiler knows what the user's code means; before lowering the op's `reference` says it.
void no_meaning(Numbers, Operands, Results) { NABLA_CHECK(false, "C++ of the user's is not interpreted"); }

const ProcedureDef kProcedures[] = {
    {"cumsum", Algorithm::kScan, list_of(kRunning), nothing, one_pass, cumulate<false>},
    {"cumprod", Algorithm::kScan, list_of(kRunning), nothing, one_pass, cumulate<true>},
    {"cummax", Algorithm::kScan, list_of(kRunning), nothing, one_pass, extreme<true>},
    {"cummin", Algorithm::kScan, list_of(kRunning), nothing, one_pass, extreme<false>},
    {"cumargmax", Algorithm::kScanPosition, list_of(kRunningPlace), nothing, one_pass, extreme_position<true>},
    {"cumargmin", Algorithm::kScanPosition, list_of(kRunningPlace), nothing, one_pass, extreme_position<false>},
    {"argsort", Algorithm::kSort, list_of(kSorting), two_rows_of_pairs, sorting, argsort},
    {"top_k", Algorithm::kSelect, list_of(kSelecting), pairs_of_k, selecting, top_k},
    {"user", Algorithm::kUser, {}, nothing, selecting, no_meaning},
};

}  // namespace

std::vector<int64_t> Procedure::values() const {
  std::vector<int64_t> out;
  for (const ir::Dim& d : numbers) out.push_back(d.value());
  return out;
}

std::vector<int64_t> Procedure::most() const {
  std::vector<int64_t> out;
  for (const ir::Dim& d : numbers) out.push_back(d.bounds().max);
  return out;
}

const ir::Dim& Procedure::number(std::string_view name) const {
  std::vector<std::string> known = names();
  auto it = std::find(known.begin(), known.end(), name);
  NABLA_CHECK(it != known.end(), "the procedure {} has no number {}", def->name, name);
  return numbers[static_cast<size_t>(it - known.begin())];
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

bool is_sort(const Procedure& p) {
  return p.def->algorithm == Algorithm::kSort || p.def->algorithm == Algorithm::kSelect;
}

int64_t elements_sorted_by_a_block(const Procedure& p, int64_t shared_bytes) {
  if (!is_sort(p)) return 0;
  bool whole = p.def->algorithm == Algorithm::kSort;
  int64_t count = p.count().bounds().max, least = whole ? count : 2 * p.number("k").bounds().max, n = 64;
  if (count > INT32_MAX) return 0;
  while (n < count && 2 * n * kSortedBytes <= shared_bytes) n *= 2;
  return n >= std::min(least, count) && n * kSortedBytes <= shared_bytes ? n : 0;
}

int64_t elements_sorted_in_parts(const Procedure& p, int64_t shared_bytes) {
  if (!is_sort(p) || elements_sorted_by_a_block(p, shared_bytes) > 0) return 0;
  constexpr int64_t kMost = 4096;
  int64_t n = 64;
  while (n < kMost && 2 * n * kSortedBytes <= shared_bytes) n *= 2;
  return n;
}

int merged_bytes(const Procedure& p, int key_bytes) {
  return key_bytes > 4 || p.count().bounds().max > UINT32_MAX ? 16 : 8;
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

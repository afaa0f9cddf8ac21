// Attention and its way back, as one kernel each. `outer` counts heads of all examples, `count` queries. After their
// own operands stands a mask where mask_batch is not 0, of bools or of numbers that are added to scores, then the keys
// of `streams` streams of random words where those are not 0. `scale` and `kept` are the bits of floats: what
// multiplies products, and weights whose word is at least `least`. `diagonal` is the last key that query 0 sees where
// attention is causal. Weight [b, h, i, j] of a stream has word
// word + b * word_batch + h * word_head + i * word_query + j: the scores may be a part of more.
#include <bit>
#include <cmath>
#include <limits>

#include "ir/kernel_ir/procedure_families.h"
#include "ir/kernel_ir/scalar.h"

namespace nabla::kernel_ir {
namespace {

using Numbers = std::span<const int64_t>;
using Operands = std::span<const Literal* const>;
using Results = std::span<Literal* const>;

constexpr NumberNames<17> kNumbers = {"heads",      "kv_heads",   "keys",       "features",  "out",       "causal",
                                      "mask_batch", "mask_heads", "scale",      "streams",   "least",     "kept",
                                      "diagonal",   "word",       "word_batch", "word_head", "word_query"};
template <size_t N>
struct Name {
  char text[N];
  consteval Name(const char (&name)[N]) {  // NOLINT: a text is a name
    for (size_t i = 0; i < N; ++i) text[i] = name[i];
  }
};
template <Name name>
int64_t attention_number(Numbers n) {
  return n[place_of(kNumbers, name.text)];
}

struct Sizes {
  explicit Sizes(Numbers n)
      : rows(n[kOuter]),
        queries(n[kCount]),
        heads(attention_number<"heads">(n)),
        kv_heads(attention_number<"kv_heads">(n)),
        keys(attention_number<"keys">(n)),
        features(attention_number<"features">(n)),
        out(attention_number<"out">(n)),
        causal(attention_number<"causal">(n) != 0),
        mask_batch(attention_number<"mask_batch">(n)),
        mask_heads(attention_number<"mask_heads">(n)),
        scale(std::bit_cast<float>(static_cast<uint32_t>(attention_number<"scale">(n)))),
        streams(attention_number<"streams">(n)),
        least(attention_number<"least">(n)),
        kept(std::bit_cast<float>(static_cast<uint32_t>(attention_number<"kept">(n)))),
        diagonal(attention_number<"diagonal">(n)),
        word(attention_number<"word">(n)),
        word_batch(attention_number<"word_batch">(n)),
        word_head(attention_number<"word_head">(n)),
        word_query(attention_number<"word_query">(n)) {}
  int64_t rows, queries, heads, kv_heads, keys, features, out;
  bool causal;
  int64_t mask_batch, mask_heads;
  float scale;
  int64_t streams, least;
  float kept;
  int64_t diagonal, word, word_batch, word_head, word_query;

  /// Of head `row` of all examples: its head of keys, among those of all examples.
  int64_t keys_of(int64_t row) const { return row / heads * kv_heads + row % heads / (heads / kv_heads); }
  /// What is added to a score: -infinity where the query does not see the key.
  double added(int64_t row, int64_t i, int64_t j, const Literal* mask) const {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    if (causal && j > i + diagonal) return kHidden;
    if (mask_batch == 0) return 0;
    int64_t b = row / heads * mask_batch / (rows / heads), h = mask_heads == 1 ? 0 : row % heads;
    int64_t at = ((b * mask_heads + h) * queries + i) * keys + j;
    return is_float(mask->dtype()) ? mask->get(at) : mask->get_i(at) != 0 ? 0 : kHidden;
  }
  /// What multiplies a weight.
  double dropout(int64_t row, int64_t i, int64_t j, const Literal* stream) const {
    if (streams == 0) return 1;
    int64_t sharing = rows / streams, key = row / sharing * 2;
    uint32_t k0 = static_cast<uint32_t>(stream->get_i(key)), k1 = static_cast<uint32_t>(stream->get_i(key + 1));
    int64_t own = row % sharing, index = word + own / heads * word_batch + own % heads * word_head + i * word_query + j;
    return philox_word(k0, k1, static_cast<uint64_t>(index)) >= least ? kept : 0;
  }
};

double dot(const Literal& x, int64_t i, const Literal& y, int64_t j, int64_t n) {
  double sum = 0;
  for (int64_t d = 0; d < n; ++d) sum += x.get(i * n + d) * y.get(j * n + d);
  return sum;
}

/// The scaled products of a query with all keys, and what a mask adds; -infinity where it does not see one.
std::vector<double> scores(const Sizes& s, Operands in, size_t first_extra, int64_t row, int64_t i) {
  std::vector<double> out;
  for (int64_t j = 0; j < s.keys; ++j) {
    double added = s.added(row, i, j, s.mask_batch == 0 ? nullptr : in[first_extra]);
    if (added != -std::numeric_limits<double>::infinity())
      added += dot(*in[0], row * s.queries + i, *in[1], s.keys_of(row) * s.keys + j, s.features) * s.scale;
    out.push_back(added);
  }
  return out;
}

void attention(Numbers n, Operands in, Results results) {
  Sizes s(n);
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t i = 0; i < s.queries; ++i) {
      std::vector<double> weights = scores(s, in, 3, row, i);
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (double w : weights) top = std::fmax(top, w);
      for (double& w : weights) sum += w = top == -std::numeric_limits<double>::infinity() ? 0 : std::exp(w - top);
      int64_t at = row * s.queries + i;
      results[1]->set(at, top + std::log(sum));
      for (int64_t j = 0; j < s.keys; ++j) weights[static_cast<size_t>(j)] *= s.dropout(row, i, j, in.back());
      for (int64_t d = 0; d < s.out; ++d) {
        double total = 0;
        for (int64_t j = 0; j < s.keys; ++j)
          total += weights[static_cast<size_t>(j)] * in[2]->get((s.keys_of(row) * s.keys + j) * s.out + d);
        results[0]->set(at * s.out + d, sum > 0 ? total / sum : 0);
      }
    }
}

// Operands: q, k, v, logsumexp, delta, the result's cotangent. Sums in doubles, as heads share keys.
void attention_grad(Numbers n, Operands in, Results results) {
  Sizes s(n);
  std::vector<std::vector<double>> sums;
  for (Literal* r : results) sums.emplace_back(static_cast<size_t>(r->size()));
  auto add = [&](int which, int64_t at, double x) { sums[static_cast<size_t>(which)][static_cast<size_t>(at)] += x; };
  for (int64_t row = 0; row < s.rows; ++row)
    for (int64_t i = 0; i < s.queries; ++i) {
      std::vector<double> weights = scores(s, in, 6, row, i);
      int64_t at = row * s.queries + i;
      double logsumexp = std::isinf(in[3]->get(at)) ? 0 : in[3]->get(at);
      for (int64_t j = 0; j < s.keys; ++j) {
        int64_t key = s.keys_of(row) * s.keys + j;
        double p = std::exp(weights[static_cast<size_t>(j)] - logsumexp), m = s.dropout(row, i, j, in.back());
        double ds = p * (dot(*in[5], at, *in[2], key, s.out) * m - in[4]->get(at)) * s.scale;
        for (int64_t d = 0; d < s.out; ++d) add(2, key * s.out + d, p * m * in[5]->get(at * s.out + d));
        for (int64_t d = 0; d < s.features; ++d) {
          add(0, at * s.features + d, ds * in[1]->get(key * s.features + d));
          add(1, key * s.features + d, ds * in[0]->get(at * s.features + d));
        }
      }
    }
  for (size_t r = 0; r < sums.size(); ++r)
    for (size_t i = 0; i < sums[r].size(); ++i) results[r]->set(static_cast<int64_t>(i), sums[r][i]);
}

double products(Numbers n, int of_features, int of_out) {
  return 2.0 * static_cast<double>(n[kCount] * attention_number<"keys">(n) *
                                   (of_features * attention_number<"features">(n) + of_out * attention_number<"out">(n)));
}
double forward_work(Numbers n) { return products(n, 1, 1); }
double backward_work(Numbers n) { return products(n, 3, 2); }

const ProcedureDef kAttention[] = {
    {"attention", Algorithm::kAttention, list_of(kNumbers), nothing, forward_work, attention, true},
    {"attention_grad", Algorithm::kAttentionGrad, list_of(kNumbers), nothing, backward_work, attention_grad, true},
};

}  // namespace

std::span<const ProcedureDef> attention_procedures() { return kAttention; }

}  // namespace nabla::kernel_ir

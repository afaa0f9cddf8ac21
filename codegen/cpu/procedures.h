// Templates of kernel_ir's procedures, after the prelude in sources that need them. Every function works on rows
// [row, last) of tensors seen as [outer, count, inner], row r being (r / inner, r % inner); `scratch` belongs to the
// caller's unit alone. Meanings: ir/kernel_ir/procedure.cc.

template <class T> struct nb_wide_of { using type = T; };
template <> struct nb_wide_of<nb_f16> { using type = float; };
template <> struct nb_wide_of<nb_bf16> { using type = float; };
template <> struct nb_wide_of<nb_f8e4m3> { using type = float; };
template <> struct nb_wide_of<nb_f8e5m2> { using type = float; };
template <class T> using nb_wide = typename nb_wide_of<T>::type;

// ---- Running combinations, of elements that are converted to W. Neighbouring rows are adjacent in memory: up to 64 of them advance
// together.
template <class Op, class W, class T>
NB_FN void nb_cumulate(Op op, W identity, long row, long last, long count, long inner, bool reverse, bool exclusive, T* y,
                       const T* x) {
  while (row < last) {
    long i = row % inner, base = row / inner * count * inner + i, width = inner - i;
    if (width > last - row) width = last - row;
    if (width > 64) width = 64;
    W sum[64];
    for (long l = 0; l < width; ++l) sum[l] = identity;
    for (long c = 0; c < count; ++c) {
      const T* from = x + base + (reverse ? count - 1 - c : c) * inner;
      T* to = y + base + (reverse ? count - 1 - c : c) * inner;
      for (long l = 0; l < width; ++l) {
        W next = op(sum[l], W(nb_widen(from[l])));
        to[l] = nb_narrow(T{}, nb_wide<T>(exclusive ? sum[l] : next));
        sum[l] = next;
      }
    }
    row += width;
  }
}
// Sums and products of f32 run in f64: from 2^24 on a running sum of ones would not grow any more.
template <class W> struct nb_running_of { using type = W; };
template <> struct nb_running_of<float> { using type = double; };
template <class T> using nb_running = typename nb_running_of<nb_wide<T>>::type;
template <class T> NB_FN nb_wide<T> nb_extreme_of(bool max) {
  using W = nb_wide<T>;
  if constexpr (nb_is_float<W>) return max ? -W(__builtin_inf()) : W(__builtin_inf());
  else if constexpr (nb_is_signed<W>) {
    W low = W(1ul << (8 * sizeof(W) - 1));
    return max ? low : W(~low);
  } else return max ? W(0) : W(~W(0));
}
template <class T>
NB_FN void nb_cumsum(char*, long row, long last, long count, long inner, long reverse, long exclusive, T* y,
                     const T* x) {
  nb_cumulate(nb_add_op{}, nb_running<T>(0), row, last, count, inner, reverse, exclusive, y, x);
}
template <class T>
NB_FN void nb_cumprod(char*, long row, long last, long count, long inner, long reverse, long exclusive, T* y,
                      const T* x) {
  nb_cumulate(nb_mul_op{}, nb_running<T>(1), row, last, count, inner, reverse, exclusive, y, x);
}
template <class T>
NB_FN void nb_cummax(char*, long row, long last, long count, long inner, long reverse, long exclusive, T* y,
                     const T* x) {
  nb_cumulate(nb_maximum_op{}, nb_extreme_of<T>(true), row, last, count, inner, reverse, exclusive, y, x);
}
template <class T>
NB_FN void nb_cummin(char*, long row, long last, long count, long inner, long reverse, long exclusive, T* y,
                     const T* x) {
  nb_cumulate(nb_minimum_op{}, nb_extreme_of<T>(false), row, last, count, inner, reverse, exclusive, y, x);
}

template <bool max, class I, class T>
NB_FN void nb_extreme_positions(long row, long last, long count, long inner, bool reverse, I* y, const T* x) {
  for (; row < last; ++row) {
    long base = row / inner * count * inner + row % inner, at = 0;
    nb_wide<T> best{};
    for (long c = 0; c < count; ++c) {
      long p = reverse ? count - 1 - c : c;
      nb_wide<T> v = nb_widen(x[base + p * inner]);
      bool wins = c == 0 || (best == best && (v != v || (max ? v > best : v < best)));
      if (wins) best = v, at = p;
      y[base + p * inner] = I(at);
    }
  }
}
template <class I, class T>
NB_FN void nb_cumargmax(char*, long row, long last, long count, long inner, long reverse, I* y, const T* x) {
  nb_extreme_positions<true>(row, last, count, inner, reverse, y, x);
}
template <class I, class T>
NB_FN void nb_cumargmin(char*, long row, long last, long count, long inner, long reverse, I* y, const T* x) {
  nb_extreme_positions<false>(row, last, count, inner, reverse, y, x);
}

// ---- Sorting
// An unsigned number whose order is that of x: NaN last, -0 equal to 0.
template <class T> NB_FN unsigned long nb_sort_key(T stored) {
  auto x = nb_widen(stored);
  using W = decltype(x);
  if constexpr (nb_same<W, float>) {
    if (x != x) return 0xfffffffful;
    unsigned u = unsigned(nb_bits(x == 0 ? 0.0f : x));
    return u & 0x80000000u ? unsigned(~u) : u | 0x80000000u;
  } else if constexpr (nb_same<W, double>) {
    if (x != x) return ~0ul;
    union { double d; unsigned long u; } bits = {x == 0 ? 0.0 : x};
    return bits.u >> 63 ? ~bits.u : bits.u | 1ul << 63;
  } else if constexpr (nb_is_signed<W>) {
    return ((unsigned long)x ^ 1ul << (8 * sizeof(W) - 1)) & (~0ul >> (64 - 8 * sizeof(W)));
  } else {
    return (unsigned long)x;
  }
}
template <class T> constexpr int nb_sort_bytes = sizeof(nb_wide<T>);
struct nb_pair { unsigned long key; long at; };
NB_FN bool nb_before(nb_pair a, nb_pair b) { return a.key < b.key || (a.key == b.key && a.at < b.at); }

// Stable, by the low `bytes` bytes of the keys: byte after byte, skipping those that all keys share; few elements by
// insertion. The result is in `a`.
NB_FN void nb_sort_pairs(nb_pair* a, nb_pair* b, long n, int bytes) {
  if (n <= 48) {
    for (long i = 1; i < n; ++i) {
      nb_pair p = a[i];
      long j = i;
      for (; j > 0 && a[j - 1].key > p.key; --j) a[j] = a[j - 1];
      a[j] = p;
    }
    return;
  }
  nb_pair *from = a, *to = b;
  for (int digit = 0; digit < bytes; ++digit) {
    long places[256] = {};
    for (long i = 0; i < n; ++i) ++places[from[i].key >> 8 * digit & 255];
    if (places[from[0].key >> 8 * digit & 255] == n) continue;
    long sum = 0;
    for (long& p : places) {
      long c = p;
      p = sum;
      sum += c;
    }
    for (long i = 0; i < n; ++i) to[places[from[i].key >> 8 * digit & 255]++] = from[i];
    nb_pair* t = from;
    from = to, to = t;
  }
  if (from != a)
    for (long i = 0; i < n; ++i) a[i] = from[i];
}
template <class T>
NB_FN void nb_sort_by(nb_pair* a, nb_pair* b, long base, long count, long inner, bool descending, const T* x) {
  for (long i = 0; i < count; ++i) {
    unsigned long key = nb_sort_key(x[base + a[i].at * inner]);
    a[i].key = descending ? ~key : key;
  }
  nb_sort_pairs(a, b, count, nb_sort_bytes<T>);
}
// The least significant key first: each sort keeps the order of the ones before.
NB_FN void nb_sort_by_all(nb_pair*, nb_pair*, long, long, long, bool) {}
template <class T, class... Rest>
NB_FN void nb_sort_by_all(nb_pair* a, nb_pair* b, long base, long count, long inner, bool descending, const T* x,
                          const Rest*... rest) {
  nb_sort_by_all(a, b, base, count, inner, descending, rest...);
  nb_sort_by(a, b, base, count, inner, descending, x);
}
template <class I, class... T>
NB_FN void nb_argsort(char* scratch, long row, long last, long count, long inner, long descending, I* y,
                      const T*... keys) {
  nb_pair *a = (nb_pair*)scratch, *b = a + count;
  for (; row < last; ++row) {
    long base = row / inner * count * inner + row % inner;
    for (long i = 0; i < count; ++i) a[i].at = i;
    nb_sort_by_all(a, b, base, count, inner, descending, keys...);
    for (long i = 0; i < count; ++i) y[base + i * inner] = I(a[i].at);
  }
}

// Moves heap[i] down: every parent stands after its children, the last of all at the top.
NB_FN void nb_sift(nb_pair* heap, long n, long i) {
  nb_pair p = heap[i];
  for (long child; (child = 2 * i + 1) < n; i = child) {
    if (child + 1 < n && nb_before(heap[child], heap[child + 1])) ++child;
    if (!nb_before(p, heap[child])) break;
    heap[i] = heap[child];
  }
  heap[i] = p;
}
template <class I, class T>
NB_FN void nb_top_k(char* scratch, long row, long last, long count, long inner, long k, long largest, T* values, I* y,
                    const T* x) {
  nb_pair* heap = (nb_pair*)scratch;
  for (; row < last && k > 0; ++row) {
    long base = row / inner * count * inner + row % inner, to = row / inner * k * inner + row % inner;
    for (long i = 0; i < count; ++i) {
      unsigned long key = nb_sort_key(x[base + i * inner]);
      nb_pair p = {largest ? ~key : key, i};
      if (i < k) {
        heap[i] = p;
        if (i == k - 1)
          for (long j = k / 2; j-- > 0;) nb_sift(heap, k, j);
      } else if (nb_before(p, heap[0])) {
        heap[0] = p;
        nb_sift(heap, k, 0);
      }
    }
    for (long n = k; n-- > 0;) {
      nb_pair p = heap[0];
      values[to + n * inner] = x[base + p.at * inner];
      y[to + n * inner] = I(p.at);
      heap[0] = heap[n];
      nb_sift(heap, n, 0);
    }
  }
}

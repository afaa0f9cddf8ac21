// Sorting by a block, in shared memory. Keys, their order and the templates of longer rows: codegen/cpu/procedures.h.

// What is sorted: `order` decides between equal keys, `at` goes along.
struct nb_sorted { unsigned long key; int order, at; };
NB_FN bool nb_before(const nb_sorted& a, const nb_sorted& b) { return a.key < b.key || (a.key == b.key && a.order < b.order); }

// Batcher's bitonic sorting network (1968) over n elements, a power of two. A warp's 32 pairs lie within 64 neighbours
// where they are up to 32 apart, and wait for each other alone.
NB_FN void nb_sort_block(nb_sorted* a, int n) {
  int gap_before = n;
  for (int size = 2; size <= n; size *= 2)
    for (int gap = size / 2; gap > 0; gap /= 2) {
      if (gap > 32 || gap_before > 32) __syncthreads();
      else __syncwarp();
      gap_before = gap;
      for (int p = threadIdx.x; p < n / 2; p += blockDim.x) {
        const int i = 2 * p - (p & (gap - 1)), j = i + gap;
        const nb_sorted x = a[i], y = a[j];
        if (nb_before(y, x) == ((i & size) == 0)) a[i] = y, a[j] = x;
      }
    }
  __syncthreads();
}
NB_FN int nb_power_of_two(long count) {
  int n = 64;
  while (n < count) n *= 2;
  return n;
}

// By one key; what stands at equal keys keeps its order. Elements behind `count` stay behind.
template <class T>
NB_FN void nb_sort_block_by(nb_sorted* a, int n, long base, long count, long inner, bool descending, const T* x) {
  for (int i = threadIdx.x; i < n; i += blockDim.x) {
    const int at = a[i].at;
    unsigned long key = ~0ul;
    if (i < count) {
      key = nb_sort_key(x[base + at * inner]);
      if (descending) key = ~key;
    }
    a[i] = {key, i, at};
  }
  nb_sort_block(a, n);
}
// The least significant key first: each sort keeps the order of the ones before.
NB_FN void nb_sort_block_by_all(nb_sorted*, int, long, long, long, bool) {}
template <class T, class... Rest>
NB_FN void nb_sort_block_by_all(nb_sorted* a, int n, long base, long count, long inner, bool descending, const T* x,
                                const Rest*... rest) {
  nb_sort_block_by_all(a, n, base, count, inner, descending, rest...);
  nb_sort_block_by(a, n, base, count, inner, descending, x);
}
// A block per row of up to as many elements as `a` has room for. Threads begin and end with elements of their own.
template <class I, class... T>
NB_FN void nb_block_argsort(nb_sorted* a, int, long rows, long count, long inner, long descending, I* y,
                            const T*... keys) {
  const int n = nb_power_of_two(count);
  for (long row = blockIdx.x; row < rows; row += gridDim.x) {
    const long base = row / inner * count * inner + row % inner;
    for (int i = threadIdx.x; i < n; i += blockDim.x) a[i].at = i;
    nb_sort_block_by_all(a, n, base, count, inner, descending, keys...);
    for (int i = threadIdx.x; i < count; i += blockDim.x) y[base + i * inner] = I(a[i].at);
  }
}

// A block per row of any length: the first k so far stand in front of the next elements, and all are sorted again. `room`
// is a power of two above k.
template <class I, class T>
NB_FN void nb_block_top_k(nb_sorted* a, int room, long rows, long count, long inner, long k, long largest, T* values,
                          I* y, const T* x) {
  const int n = count < room ? nb_power_of_two(count) : room;
  for (long row = blockIdx.x; row < rows; row += gridDim.x) {
    const long base = row / inner * count * inner + row % inner, to = row / inner * k * inner + row % inner;
    int kept = 0;
    for (long done = 0; done < count; done += n - kept, kept = int(k)) {
      for (int i = threadIdx.x; i < n; i += blockDim.x) {
        if (i < kept) continue;
        const long at = done + i - kept;
        nb_sorted next = {~0ul, 0x7fffffff, 0};
        if (at < count) {
          const unsigned long key = nb_sort_key(x[base + at * inner]);
          next = {largest ? ~key : key, int(at), int(at)};
        }
        a[i] = next;
      }
      nb_sort_block(a, n);
    }
    for (int i = threadIdx.x; i < k; i += blockDim.x) {
      values[to + i * inner] = x[base + a[i].at * inner];
      y[to + i * inner] = I(a[i].at);
    }
  }
}

// ---- Rows that shared memory does not hold: sorted parts in global memory, which are merged pair by pair.
template <class Key, class At> struct nb_merged { Key key; At at; };

// Parts of n elements, a power of two, a block each. Positions come from a sort by a less significant key, where there
// was one. Threads begin and end with elements of their own.
template <int n, class Key, class At, class T>
NB_FN void nb_sort_parts(nb_sorted* a, long rows, long count, long inner, bool descending, nb_merged<Key, At>* to,
                         const nb_merged<Key, At>* from, const T* x) {
  const long parts = (count + n - 1) / n;
  for (long part = blockIdx.x; part < rows * parts; part += gridDim.x) {
    const long row = part / parts, first = part % parts * n, start = row * count + first;
    const long base = row / inner * count * inner + row % inner;
    const int some = count - first < n ? int(count - first) : n, room = nb_power_of_two(some);
    for (int i = threadIdx.x; i < room; i += blockDim.x) {
      unsigned long key = ~0ul;
      if (i < some) {
        key = nb_sort_key(x[base + long(from ? from[start + i].at : At(first + i)) * inner]);
        if (descending) key = ~key;
      }
      a[i] = {key, i, i};
    }
    nb_sort_block(a, room);
    for (int i = threadIdx.x; i < some; i += blockDim.x)
      to[start + i] = {Key(a[i].key), from ? from[start + a[i].at].at : At(first + a[i].at)};
  }
}

// How many of the first d elements of two merged runs come from the first; it goes first where keys are equal.
template <class R> NB_FN long nb_split(const R* a, long count_a, const R* b, long count_b, long d) {
  long low = d > count_b ? d - count_b : 0, high = d < count_a ? d : count_a;
  while (low < high) {
    const long middle = (low + high) / 2;
    if (b[d - 1 - middle].key < a[middle].key) high = middle;
    else low = middle + 1;
  }
  return low;
}
// Runs of `width` elements, pair by pair; a block per `tile` of the result (Odeh, Green, Mwassi, Shmueli, Birk: Merge
// Path, 2012). put(row, position, element) takes the first `most` of a row.
template <int tile, class R, class Put>
NB_FN void nb_merge_runs(R* room, long rows, long count, long most, long width, const R* from, Put put) {
  constexpr int each = sizeof(R) > 8 ? 4 : 8;
  long* const ends = (long*)(room + tile);
  const long tiles = (most + tile - 1) / tile;
  for (long u = blockIdx.x; u < rows * tiles; u += gridDim.x) {
    const long row = u / tiles, first = u % tiles * tile, pair = first / (2 * width) * (2 * width), d = first - pair;
    const long left = count - pair, count_a = left < width ? left : width;
    const long count_b = left - count_a < width ? left - count_a : width;
    const R *const a = from + row * count + pair, *const b = a + count_a;
    const int n = count_a + count_b - d < tile ? int(count_a + count_b - d) : tile;
    if (threadIdx.x < 2) ends[threadIdx.x] = nb_split(a, count_a, b, count_b, threadIdx.x ? d + n : d);
    __syncthreads();
    const long a0 = ends[0], b0 = d - a0;
    const int of_a = int(ends[1] - a0), of_b = n - of_a, done = threadIdx.x * each;
    for (int i = threadIdx.x; i < n; i += blockDim.x) room[i] = i < of_a ? a[a0 + i] : b[b0 + i - of_a];
    __syncthreads();
    R mine[each];
    if (done < n) {
      int i = int(nb_split(room, of_a, room + of_a, of_b, done)), j = done - i;
#pragma unroll
      for (int e = 0; e < each; ++e)
        if (done + e < n) {
          const bool second = i >= of_a || (j < of_b && room[of_a + j].key < room[i].key);
          mine[e] = room[second ? of_a + j : i];
          if (second) ++j;
          else ++i;
        }
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < each; ++e)
      if (done + e < n) room[done + e] = mine[e];
    __syncthreads();
    for (int i = threadIdx.x; i < n && first + i < most; i += blockDim.x) put(row, first + i, room[i]);
  }
}
template <int tile, class R>
NB_FN void nb_merge(R* room, long rows, long count, long width, R* to, const R* from) {
  nb_merge_runs<tile>(room, rows, count, count, width, from,
                      [=](long row, long i, const R& r) { to[row * count + i] = r; });
}
template <int tile, class R, class I>
NB_FN void nb_merge_argsort(R* room, long rows, long count, long inner, long width, I* y, const R* from) {
  nb_merge_runs<tile>(room, rows, count, count, width, from, [=](long row, long i, const R& r) {
    y[row / inner * count * inner + row % inner + i * inner] = I(r.at);
  });
}
template <int tile, class R, class I, class T>
NB_FN void nb_merge_top_k(R* room, long rows, long count, long inner, long k, long width, T* values, I* y,
                          const R* from, const T* x) {
  nb_merge_runs<tile>(room, rows, count, k, width, from, [=](long row, long i, const R& r) {
    const long to = row / inner * k * inner + row % inner + i * inner;
    values[to] = x[row / inner * count * inner + row % inner + long(r.at) * inner];
    y[to] = I(r.at);
  });
}

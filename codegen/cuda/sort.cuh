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

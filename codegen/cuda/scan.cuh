// Running sums, products and extremes by teams of threads. Meanings: ir/kernel_ir/procedure.cc.

template <class T> NB_FN T nb_shuffle_up(T x, int lanes) {
  if constexpr (sizeof(T) < 4) return T(__shfl_up_sync(0xffffffffu, int(x), lanes));
  else return __shfl_up_sync(0xffffffffu, x, lanes);
}
// The best so far and where it stands; -1: there is none yet. The first of equal ones is kept, NaN wins.
template <class T, class At> struct nb_best { T value; At at; };
template <class T, class At> NB_FN nb_best<T, At> nb_shuffle_up(nb_best<T, At> x, int lanes) {
  return {nb_shuffle_up(x.value, lanes), nb_shuffle_up(x.at, lanes)};
}
template <class T, class At> NB_FN nb_best<T, At> nb_shuffle(nb_best<T, At> x, int lane) {
  return {nb_shuffle(x.value, lane), nb_shuffle(x.at, lane)};
}
template <bool max> struct nb_best_op {
  template <class T, class At> __device__ nb_best<T, At> operator()(nb_best<T, At> a, nb_best<T, At> b) const {
    const bool wins = b.value != b.value || (max ? b.value > a.value : b.value < a.value);
    const bool later = a.at < 0 || (b.at >= 0 && a.value == a.value && wins);
    return {later ? b.value : a.value, later ? b.at : a.at};  // chosen whole, they would go through local memory
  }
};

// A thread per row.
template <class Op, class S, class Read, class Write>
NB_FN void nb_scan_alone(Op op, S none, long rows, long count, long inner, bool reverse, bool exclusive, Read read,
                         Write write) {
  for (long row = nb_team<1>(); row < rows; row += nb_teams<1>()) {
    const long base = row / inner * count * inner + row % inner;
    S so_far = none;
    for (long c = 0; c < count; ++c) {
      const long p = reverse ? count - 1 - c : c;
      const S next = op(so_far, read(base + p * inner, p));
      write(base + p * inner, exclusive ? so_far : next);
      so_far = next;
    }
  }
}

// A team per strip of `columns` neighbours of `inner`, a power of two: lane l of a warp takes column l % columns and
// position l / columns, so that a warp's accesses are neighbours. The team goes along the strip part after part, each
// warp through `steps` neighbouring pieces of a part; `room` has 2 * columns * size / 32 places. read(place, position)
// makes an element, write(place, combination) takes it. All is combined in one fixed order.
template <int size, int columns, class Op, class S, class Read, class Write>
NB_FN void nb_scan_team(S* room, Op op, S none, long outer, long count, long inner, bool reverse, bool exclusive,
                        Read read, Write write) {
  constexpr int steps = sizeof(S) > 8 ? 2 : 4, down = 32 / columns;
  constexpr int part = size / columns * steps, places = size / 32 * columns;
  const int lane = threadIdx.x % 32, warp = threadIdx.x % size / 32, column = lane % columns;
  const long strips = (inner + columns - 1) / columns;
  int turn = 0;
  for (long u = nb_team<size>(); u < outer * strips; u += nb_teams<size>()) {
    const long i = u % strips * columns + column, base = u / strips * count * inner + i;
    S carry = none;
    for (long first = 0; first < count; first += part) {
      const long c0 = first + warp * steps * down + lane / columns;
      S at[steps], so_far = none;
#pragma unroll
      for (int v = 0; v < steps; ++v) {
        const long c = c0 + v * down, p = reverse ? count - 1 - c : c;
        at[v] = none;
        if (i < inner && c < count) at[v] = read(base + p * inner, p);
      }
#pragma unroll
      for (int v = 0; v < steps; ++v) {
#pragma unroll
        for (int lanes = columns; lanes < 32; lanes *= 2) {
          const S other = nb_shuffle_up(at[v], lanes);
          if (lane >= lanes) at[v] = op(other, at[v]);
        }
        S all = op(so_far, at[v]), before = so_far;
        so_far = all;
        if constexpr (columns < 32) {
          const S other = nb_shuffle_up(all, columns);
          if (lane >= columns) before = other;
          so_far = nb_shuffle(all, 32 - columns + column);
        }
        at[v] = all;
        if (exclusive) at[v] = before;
      }
      S before = carry;
      if constexpr (size == 32) {
        carry = op(carry, so_far);
      } else {
        S* const totals = room + turn * places;  // in turns: those of the part before may still be read
        turn ^= 1;
        if (lane < columns) totals[warp * columns + column] = so_far;
        __syncthreads();
#pragma unroll 4
        for (int w = 0; w < size / 32; ++w) {
          if (w == warp) before = carry;
          carry = op(carry, totals[w * columns + column]);
        }
      }
#pragma unroll
      for (int v = 0; v < steps; ++v) {
        const long c = c0 + v * down, p = reverse ? count - 1 - c : c;
        if (i < inner && c < count) write(base + p * inner, op(before, at[v]));
      }
    }
  }
}
template <int size, int columns, class Op, class S, class Read, class Write>
NB_FN void nb_scan(S* room, Op op, S none, long outer, long count, long inner, bool reverse, bool exclusive, Read read,
                   Write write) {
  if constexpr (size == 1) nb_scan_alone(op, none, outer * inner, count, inner, reverse, exclusive, read, write);
  else nb_scan_team<size, columns>(room, op, none, outer, count, inner, reverse, exclusive, read, write);
}

template <int size, int columns, class Op, class T>
NB_FN void nb_scan_numbers(void* room, Op op, nb_wide<T> none, long outer, long count, long inner, bool reverse,
                           bool exclusive, T* y, const T* x) {
  using W = nb_wide<T>;
  nb_scan<size, columns>((W*)room, op, none, outer, count, inner, reverse, exclusive,
                         [=](long at, long) { return W(nb_widen(x[at])); },
                         [=](long at, W v) { y[at] = nb_narrow(T{}, v); });
}
#define NB_SCAN(name, op, none)                                                                                       \
  template <int size, int columns, class T>                                                                           \
  NB_FN void nb_team_##name(void* room, long outer, long count, long inner, long reverse, long exclusive, T* y,       \
                            const T* x) {                                                                             \
    nb_scan_numbers<size, columns>(room, op{}, nb_wide<T>(none), outer, count, inner, reverse, exclusive, y, x);      \
  }
NB_SCAN(cumsum, nb_add_op, 0)
NB_SCAN(cumprod, nb_mul_op, 1)
NB_SCAN(cummax, nb_maximum_op, nb_extreme_of<T>(true))
NB_SCAN(cummin, nb_minimum_op, nb_extreme_of<T>(false))
#undef NB_SCAN

// `At` is as large as the numbers, 4 bytes at least, and holds every position; the number beside it has its size.
template <bool first, class A, class B> struct nb_either { using type = A; };
template <class A, class B> struct nb_either<false, A, B> { using type = B; };
template <class W, class At, bool large = sizeof(At) == 8>
using nb_beside = typename nb_either<
    nb_is_float<W>, typename nb_either<large, double, float>::type,
    typename nb_either<nb_is_signed<W>, At, typename nb_either<large, unsigned long, unsigned>::type>::type>::type;
template <int size, int columns, class At, bool max, class I, class T>
NB_FN void nb_scan_places(void* room, long outer, long count, long inner, bool reverse, I* y, const T* x) {
  using V = nb_beside<nb_wide<T>, At>;
  using S = nb_best<V, At>;
  nb_scan<size, columns>((S*)room, nb_best_op<max>{}, S{0, -1}, outer, count, inner, reverse, false,
                         [=](long at, long p) { return S{V(nb_widen(x[at])), At(p)}; },
                         [=](long at, S best) { y[at] = I(best.at); });
}
template <int size, int columns, class At, class I, class T>
NB_FN void nb_team_cumargmax(void* room, long outer, long count, long inner, long reverse, I* y, const T* x) {
  nb_scan_places<size, columns, At, true>(room, outer, count, inner, reverse, y, x);
}
template <int size, int columns, class At, class I, class T>
NB_FN void nb_team_cumargmin(void* room, long outer, long count, long inner, long reverse, I* y, const T* x) {
  nb_scan_places<size, columns, At, false>(room, outer, count, inner, reverse, y, x);
}

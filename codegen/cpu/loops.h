// Loops and reductions of generated kernels, after the prelude.
//
// Sums of floats are computed in blocks of nb_block terms for each accumulator. The sums of the blocks are added in f64, so that
// a sum neither stops to grow after 2^24 terms nor gets less accurate with its length. Products of f32 numbers are computed in f64.

// Calls f(position, n) with n lanes from position on: first whole vectors, then one tail.
template <class F> NB_FN void nb_for(long begin, long end, F f) {
  long j = begin;
  for (; j + NB_L <= end; j += NB_L) f(j, nb_full{});
  if (j < end) f(j, end - j);
}
#define NB_OP(name) struct name##_op { template <class V> NB_INLINE V operator()(V a, V b) const { return name(a, b); } };
NB_OP(nb_add) NB_OP(nb_mul) NB_OP(nb_maximum) NB_OP(nb_minimum) NB_OP(nb_and) NB_OP(nb_or)
#undef NB_OP
constexpr long nb_block = 32;
template <class Op, class V> constexpr bool nb_blocks = nb_same<Op, nb_add_op> && nb_same<nb_scalar<V>, float>;
template <class Op, class V> constexpr bool nb_in_f64 = nb_same<Op, nb_mul_op> && nb_same<nb_scalar<V>, float>;
// A number or a vector in f64.
template <class V> NB_FN auto nb_to_f64(V v) { return nb_convert<double>(v); }
// Where the next block of at most `block` terms ends.
template <class Op, class V> NB_FN long nb_block_end(long first, long end, long block) {
  return nb_blocks<Op, V> && end - first > block ? first + block : end;
}

// The tail of a reduction, whose missing lanes count as `identity`.
template <class V, class F> NB_FN V nb_rest(nb_scalar<V> identity, long j, long end, F f) {
  long n = end - j < NB_L ? end - j : NB_L;
  V v = f(j, n);
  __asm__("" : "+m"(v));  // gcc 12 miscompiles writes to lanes of a constant vector: it must not know one here
  for (long l = n; l < NB_L; ++l) v[l] = identity;
  return v;
}
// The reduction of a vector's lanes by a tree.
template <class T, class Op, class V> NB_FN T nb_lanes(Op op, V v) {
  T t[sizeof(V) / sizeof(T)];
  __builtin_memcpy(t, &v, sizeof t);
  for (int s = sizeof(V) / sizeof(T) / 2; s; s /= 2)
    for (int l = 0; l < s; ++l) t[l] = op(t[l], t[l + s]);
  return t[0];
}
// The lanes of the two halves of v, added and in f64: one register.
NB_FN auto nb_halves_in_f64(nb_vec<float> v) {
  typedef float Half __attribute__((vector_size(sizeof(v) / 2)));
  typedef double Wide __attribute__((vector_size(sizeof(v))));
  Half halves[2];
  __builtin_memcpy(halves, &v, sizeof v);
  return __builtin_convertvector(halves[0] + halves[1], Wide);
}
// Reduction over lanes with four accumulators.
template <class V, class Op, class F> NB_FN nb_scalar<V> nb_reduce(Op op, nb_scalar<V> identity, long end, F f) {
  if constexpr (nb_in_f64<Op, V>) {
    auto wide = [&](long j, auto n) NB_INLINE { return nb_to_f64(f(j, n)); };
    return nb_convert<float>(nb_reduce<nb_vec<double>>(op, double(identity), end, wide));
  } else {
    constexpr long block = 4 * NB_L * nb_block;
    decltype(nb_halves_in_f64(nb_vec<float>{})) total = {};
    for (long j = 0;;) {
      const long stop = nb_block_end<Op, V>(j, end, block);
      V a0 = nb_splat<V>(identity), a1 = a0, a2 = a0, a3 = a0;
      for (long rounds = (stop - j) / (4 * NB_L); rounds > 0; --rounds, j += 4 * NB_L) {
        a0 = op(a0, f(j, nb_full{})), a1 = op(a1, f(j + NB_L, nb_full{}));
        a2 = op(a2, f(j + 2 * NB_L, nb_full{})), a3 = op(a3, f(j + 3 * NB_L, nb_full{}));
      }
      for (; j + NB_L <= stop; j += NB_L) a0 = op(a0, f(j, nb_full{}));
      if (j < stop) a1 = op(a1, nb_rest<V>(identity, j, stop, f));
      a0 = op(op(a0, a1), op(a2, a3));
      if constexpr (!nb_blocks<Op, V>) {
        return nb_lanes<nb_scalar<V>>(op, a0);
      } else {
        if (end <= block) return nb_lanes<float>(op, a0);
        j = stop, total = total + nb_halves_in_f64(a0);
        if (j >= end) return float(nb_lanes<double>(op, total));
      }
    }
  }
}
template <class V, class Op, class F> NB_FN bool nb_reduce_mask(Op op, bool identity, long end, F f) {
  return nb_reduce<V>(op, -int(identity), end, f) != 0;
}
// Reduction over a serial axis with four accumulators.
template <class V, class Op, class F> NB_FN V nb_fold(Op op, V identity, long end, F f) {
  if constexpr (nb_in_f64<Op, V>) {
    auto wide = [&](long k) NB_INLINE { return nb_to_f64(f(k)); };
    return nb_convert<float>(nb_fold<decltype(nb_to_f64(V{}))>(op, nb_to_f64(identity), end, wide));
  } else {
    constexpr long block = 4 * nb_block;
    decltype(nb_to_f64(V{})) total = {};
    for (long k = 0;;) {
      const long stop = nb_block_end<Op, V>(k, end, block);
      V a0 = identity, a1 = identity, a2 = identity, a3 = identity;
      for (; k + 4 <= stop; k += 4)
        a0 = op(a0, f(k)), a1 = op(a1, f(k + 1)), a2 = op(a2, f(k + 2)), a3 = op(a3, f(k + 3));
      for (; k < stop; ++k) a0 = op(a0, f(k));
      a0 = op(op(a0, a1), op(a2, a3));
      if constexpr (!nb_blocks<Op, V>) {
        return a0;
      } else {
        if (end <= block) return a0;
        total = total + nb_to_f64(a0);
        if (k >= end) return nb_convert<float>(total);
      }
    }
  }
}
// The same with one accumulator, for the outer ones of nested folds.
template <class V, class Op, class F> NB_FN V nb_fold_once(Op op, V identity, long end, F f) {
  if constexpr (nb_in_f64<Op, V> || nb_blocks<Op, V>) {
    auto total = nb_to_f64(identity);
    for (long k = 0; k < end; ++k) total = op(total, nb_to_f64(f(k)));
    return nb_convert<float>(total);
  } else {
    for (long k = 0; k < end; ++k) identity = op(identity, f(k));
    return identity;
  }
}
// Deterministic sums: whoever computes them, element k is added to sum k % 16, and a tree adds the sixteen.
template <class Op, class T> NB_FN T nb_sixteen(Op op, T* t) {
  for (int s = 8; s; s /= 2)
    for (int l = 0; l < s; ++l) t[l] = op(t[l], t[l + s]);
  return t[0];
}
// Along lanes:
template <class V, class Op, class F> NB_FN nb_scalar<V> nb_reduce_fixed(Op op, nb_scalar<V> identity, long end, F f) {
  if constexpr (nb_in_f64<Op, V>) {
    auto wide = [&](long j, auto n) NB_INLINE { return nb_to_f64(f(j, n)); };
    return nb_convert<float>(nb_reduce_fixed<nb_vec<double>>(op, double(identity), end, wide));
  } else {
    constexpr long block = 16 * nb_block;
    constexpr int parts = 16 / NB_L;
    static_assert(parts * NB_L == 16);
    decltype(nb_to_f64(V{})) total[parts] = {};
    for (long j = 0;;) {
      const long stop = nb_block_end<Op, V>(j, end, block);
      V a[parts];
      for (V& v : a) v = nb_splat<V>(identity);
      for (; j + 16 <= stop; j += 16)
        for (int p = 0; p < parts; ++p) a[p] = op(a[p], f(j + p * NB_L, nb_full{}));
      for (int p = 0; j < stop; ++p, j += NB_L) a[p] = op(a[p], nb_rest<V>(identity, j, stop, f));
      if (!nb_blocks<Op, V> || end <= block) {
        nb_scalar<V> t[16];
        __builtin_memcpy(t, a, sizeof t);
        return nb_sixteen(op, t);
      }
      j = stop;
      for (int p = 0; p < parts; ++p) total[p] = total[p] + nb_to_f64(a[p]);
      if (j >= end) {
        double t[16];
        __builtin_memcpy(t, total, sizeof t);
        return nb_scalar<V>(nb_sixteen(op, t));
      }
    }
  }
}
// Along a serial axis:
template <class V, class Op, class F> NB_FN V nb_fold_fixed(Op op, V identity, long end, F f) {
  if constexpr (nb_in_f64<Op, V>) {
    auto wide = [&](long k) NB_INLINE { return nb_to_f64(f(k)); };
    return nb_convert<float>(nb_fold_fixed<decltype(nb_to_f64(V{}))>(op, nb_to_f64(identity), end, wide));
  } else {
    constexpr long block = 16 * nb_block;
    decltype(nb_to_f64(V{})) total[16] = {};
    for (long k = 0;;) {
      const long stop = nb_block_end<Op, V>(k, end, block);
      V a[16];
      for (V& v : a) v = identity;
      for (; k + 16 <= stop; k += 16)
        for (int l = 0; l < 16; ++l) a[l] = op(a[l], f(k + l));
      for (int l = 0; k < stop; ++k, ++l) a[l] = op(a[l], f(k));
      if (!nb_blocks<Op, V> || end <= block) return nb_sixteen(op, a);
      for (int l = 0; l < 16; ++l) total[l] = total[l] + nb_to_f64(a[l]);
      if (k >= end) return nb_convert<nb_scalar<V>>(nb_sixteen(op, total));
    }
  }
}

// What the templates of procedures, which are the same C++ on every target, want besides the prelude.
#define __builtin_sqrt sqrt
#define __builtin_fabs fabs
#define __builtin_sin sin
#define __builtin_cos cos
template <class A, class B> constexpr bool nb_same = false;
template <class A> constexpr bool nb_same<A, A> = true;
template <class T> constexpr bool nb_is_float = nb_same<T, float> || nb_same<T, double>;
template <class T> constexpr bool nb_is_signed = T(-1) < T(0);
NB_FN int nb_bits(float x) { return __float_as_int(x); }

// What the templates of procedures, which are the same C++ on every target, want besides the prelude.
#define __builtin_sqrt sqrt
#define __builtin_fabs fabs
#ifdef NB_EMULATOR
#define __builtin_sin sin
#define __builtin_cos cos
#else  // of angles up to an eighth of the circle; sin and cos would bring local memory along, for large ones
#define __builtin_sin(angle) sinpi((angle) * 0.31830988618379067)
#define __builtin_cos(angle) cospi((angle) * 0.31830988618379067)
#endif
template <class A, class B> constexpr bool nb_same = false;
template <class A> constexpr bool nb_same<A, A> = true;
template <class T> constexpr bool nb_is_float = nb_same<T, float> || nb_same<T, double>;
template <class T> constexpr bool nb_is_signed = T(-1) < T(0);
NB_FN int nb_bits(float x) { return __float_as_int(x); }

// The meanings of the procedures on matrices, in f64: the shortest algorithms that are accurate.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "ir/kernel_ir/procedure_families.h"

namespace nabla::kernel_ir {
namespace {

using Numbers = std::span<const int64_t>;
using Operands = std::span<const Literal* const>;
using Results = std::span<Literal* const>;
using Vector = std::vector<double>;

// A matrix has kCount rows; of a solution it is a square, of a factorisation it has "n" columns.
constexpr NumberNames<1> kColumnsOf = {"n"};
constexpr size_t kColumns = place_of(kColumnsOf, "n");
constexpr NumberNames<5> kSolving = {"k", "left", "lower", "transpose", "unit"};
constexpr size_t kSides = place_of(kSolving, "k");

struct Matrix {
  int64_t rows, columns;
  Vector at;
  Matrix(int64_t r, int64_t c) : rows(r), columns(c), at(static_cast<size_t>(r * c), 0.0) {}
  double& operator()(int64_t i, int64_t j) { return at[static_cast<size_t>(i * columns + j)]; }
  double operator()(int64_t i, int64_t j) const { return at[static_cast<size_t>(i * columns + j)]; }
  Vector column(int64_t j) const {
    Vector out;
    for (int64_t i = 0; i < rows; ++i) out.push_back((*this)(i, j));
    return out;
  }
  void set_column(int64_t j, const Vector& v) {
    for (int64_t i = 0; i < rows; ++i) (*this)(i, j) = v[static_cast<size_t>(i)];
  }
};

Matrix matrix_at(const Literal& x, int64_t which, int64_t rows, int64_t columns) {
  Matrix m(rows, columns);
  for (int64_t i = 0; i < rows * columns; ++i) m.at[static_cast<size_t>(i)] = x.get(which * rows * columns + i);
  return m;
}
void store(Literal& x, int64_t which, const Matrix& m) {
  for (int64_t i = 0; i < m.rows * m.columns; ++i) x.set(which * m.rows * m.columns + i, m.at[static_cast<size_t>(i)]);
}
Matrix transposed(const Matrix& m) {
  Matrix t(m.columns, m.rows);
  for (int64_t i = 0; i < m.rows; ++i)
    for (int64_t j = 0; j < m.columns; ++j) t(j, i) = m(i, j);
  return t;
}
Matrix identity(int64_t n) {
  Matrix m(n, n);
  for (int64_t i = 0; i < n; ++i) m(i, i) = 1;
  return m;
}
double inner(const Vector& a, const Vector& b) { return std::inner_product(a.begin(), a.end(), b.begin(), 0.0); }
void add_times(Vector& y, double f, const Vector& x) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += f * x[i];
}
const double kNan = std::numeric_limits<double>::quiet_NaN();

void cholesky(Numbers n, Operands in, Results out) {
  for (int64_t o = 0; o < n[kOuter]; ++o) {
    Matrix a = matrix_at(*in[0], o, n[kCount], n[kCount]), l(n[kCount], n[kCount]);
    bool positive = true;
    for (int64_t j = 0; j < n[kCount]; ++j)
      for (int64_t i = j; i < n[kCount]; ++i) {
        double rest = a(i, j);
        for (int64_t k = 0; k < j; ++k) rest -= l(i, k) * l(j, k);
        if (i == j) positive = positive && rest > 0 && std::isfinite(rest);
        l(i, j) = i == j ? std::sqrt(rest) : rest / l(j, j);
      }
    for (int64_t i = 0; i < n[kCount] && !positive; ++i)
      for (int64_t j = 0; j <= i; ++j) l(i, j) = kNan;
    store(*out[0], o, l);
  }
}

void triangular_solve(Numbers n, Operands in, Results out) {
  int64_t size = n[kCount], k = n[kSides];
  bool left = n[place_of(kSolving, "left")], lower = n[place_of(kSolving, "lower")];
  bool transpose = n[place_of(kSolving, "transpose")], unit = n[place_of(kSolving, "unit")];
  for (int64_t o = 0; o < n[kOuter]; ++o) {
    Matrix a = matrix_at(*in[0], o, size, size);
    Matrix b = left ? matrix_at(*in[1], o, size, k) : transposed(matrix_at(*in[1], o, k, size));
    bool turned = transpose == left;  // a system from the right is the transposed one from the left
    if (turned) a = transposed(a);
    bool down = lower != turned;
    for (int64_t s = 0; s < size; ++s) {
      int64_t i = down ? s : size - 1 - s;
      for (int64_t c = 0; c < k; ++c) {
        for (int64_t j = down ? 0 : i + 1; j < (down ? i : size); ++j) b(i, c) -= a(i, j) * b(j, c);
        if (!unit) b(i, c) /= a(i, i);
      }
    }
    store(*out[0], o, left ? b : transposed(b));
  }
}

/// A unit vector orthogonal to the first `count` columns, which are orthonormal: of the axes the one farthest from
/// them.
Vector completion(const Matrix& q, int64_t count) {
  Vector best;
  for (int64_t axis = 0; axis < q.rows; ++axis) {
    Vector v(static_cast<size_t>(q.rows), 0.0);
    v[static_cast<size_t>(axis)] = 1;
    for (int again = 0; again < 2; ++again)
      for (int64_t j = 0; j < count; ++j) add_times(v, -inner(q.column(j), v), q.column(j));
    if (best.empty() || inner(v, v) > inner(best, best) * (1 + 1e-12)) best = v;
  }
  double norm = std::sqrt(inner(best, best));
  for (double& v : best) v /= norm;
  return best;
}

// Gram and Schmidt's, each column twice.
void qr(Numbers n, Operands in, Results out) {
  for (int64_t o = 0; o < n[kOuter]; ++o) {
    Matrix q = matrix_at(*in[0], o, n[kCount], n[kColumns]), r(n[kColumns], n[kColumns]);
    for (int64_t j = 0; j < n[kColumns]; ++j) {
      Vector v = q.column(j);
      double before = std::sqrt(inner(v, v));
      for (int again = 0; again < 2; ++again)
        for (int64_t k = 0; k < j; ++k) {
          double share = inner(q.column(k), v);
          r(k, j) += share;
          add_times(v, -share, q.column(k));
        }
      double norm = r(j, j) = std::sqrt(inner(v, v));
      for (double& e : v) e /= norm;
      q.set_column(j, norm <= 1e-15 * before ? completion(q, j) : v);
    }
    store(*out[0], o, q);
    store(*out[1], o, r);
  }
}

void lu(Numbers n, Operands in, Results out) {
  for (int64_t o = 0; o < n[kOuter]; ++o) {
    Matrix a = matrix_at(*in[0], o, n[kCount], n[kCount]);
    std::vector<int64_t> order(static_cast<size_t>(n[kCount]));
    std::iota(order.begin(), order.end(), 0);
    for (int64_t k = 0; k < n[kCount]; ++k) {
      int64_t best = k;
      for (int64_t i = k + 1; i < n[kCount]; ++i)
        if (std::fabs(a(i, k)) > std::fabs(a(best, k))) best = i;
      std::swap(order[k], order[best]);
      for (int64_t j = 0; j < n[kCount]; ++j) std::swap(a(k, j), a(best, j));
      for (int64_t i = k + 1; i < n[kCount] && a(k, k) != 0; ++i) {
        a(i, k) /= a(k, k);
        for (int64_t j = k + 1; j < n[kCount]; ++j) a(i, j) -= a(i, k) * a(k, j);
      }
    }
    store(*out[0], o, a);
    for (int64_t i = 0; i < n[kCount]; ++i) out[1]->set_i(o * n[kCount] + i, order[i]);
  }
}

struct Rotation {
  double c, s;
};
/// Makes the element `off` between the diagonal elements a and b zero.
Rotation rotation(double a, double b, double off) {
  double zeta = (b - a) / (2 * off);
  double t = (zeta < 0 ? -1 : 1) / (std::fabs(zeta) + std::sqrt(1 + zeta * zeta)), c = 1 / std::sqrt(1 + t * t);
  return {c, c * t};
}
void rotate_columns(Matrix& m, int64_t p, int64_t q, Rotation r) {
  for (int64_t i = 0; i < m.rows; ++i) {
    double a = m(i, p), b = m(i, q);
    m(i, p) = r.c * a - r.s * b;
    m(i, q) = r.s * a + r.c * b;
  }
}
double sign_of_largest(const Vector& v) {
  double best = 0;
  for (double e : v)
    if (std::fabs(e) > std::fabs(best)) best = e;
  return best < 0 ? -1 : 1;
}
std::vector<int64_t> sorted(const Vector& keys, bool descending) {
  std::vector<int64_t> order(keys.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](int64_t a, int64_t b) { return descending ? keys[a] > keys[b] : keys[a] < keys[b]; });
  return order;
}
bool finite(const Matrix& m) {
  return std::all_of(m.at.begin(), m.at.end(), [](double v) { return std::isfinite(v); });
}

// Jacobi's original method: the largest element beside the diagonal goes first.
void eigh(Numbers n, Operands in, Results out) {
  int64_t size = n[kCount];
  for (int64_t o = 0; o < n[kOuter]; ++o) {
    Matrix a = matrix_at(*in[0], o, size, size), v = identity(size), vectors(size, size), values(1, size);
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < i; ++j) a(j, i) = a(i, j);
    bool good = finite(a);
    double total = std::sqrt(inner(a.at, a.at));
    for (int64_t step = 0; step < 100 * size * size && good; ++step) {
      int64_t p = 0, q = 0;
      double most = 1e-17 * total;
      for (int64_t i = 0; i < size; ++i)
        for (int64_t j = i + 1; j < size; ++j)
          if (std::fabs(a(i, j)) > most) most = std::fabs(a(i, j)), p = i, q = j;
      if (p == q) break;
      Rotation r = rotation(a(p, p), a(q, q), a(p, q));
      rotate_columns(a, p, q, r);
      a = transposed(a);
      rotate_columns(a, p, q, r);
      rotate_columns(v, p, q, r);
    }
    Vector keys;
    for (int64_t i = 0; i < size; ++i) keys.push_back(good ? a(i, i) : kNan);
    std::vector<int64_t> order = good ? sorted(keys, false) : sorted(Vector(keys.size(), 0), false);
    for (int64_t k = 0; k < size; ++k) {
      Vector column = v.column(order[k]);
      double sign = good ? sign_of_largest(column) : kNan;
      values(0, k) = keys[order[k]];
      for (double& e : column) e *= sign;
      vectors.set_column(k, column);
    }
    store(*out[0], o, values);
    store(*out[1], o, vectors);
  }
}

/// Rotates the columns of g until they are orthogonal, and those of v with them (Hestenes).
void orthogonalise(Matrix& g, Matrix& v) {
  bool turning = finite(g);
  for (int sweep = 0; sweep < 100 && turning; ++sweep) {
    turning = false;
    for (int64_t p = 0; p < g.columns; ++p)
      for (int64_t q = p + 1; q < g.columns; ++q) {
        Vector a = g.column(p), b = g.column(q);
        double between = inner(a, b), na = inner(a, a), nb = inner(b, b);
        if (std::fabs(between) <= 4.5e-16 * std::sqrt(static_cast<double>(g.rows) * na) * std::sqrt(nb)) continue;
        turning = true;
        Rotation r = rotation(na, nb, between);
        rotate_columns(g, p, q, r);
        rotate_columns(v, p, q, r);
      }
  }
}

// One-sided, on the columns of the matrix or of its transpose, whichever is tall.
void svd(Numbers n, Operands in, Results out) {
  bool tall = n[kCount] >= n[kColumns];
  int64_t p = std::max(n[kCount], n[kColumns]), k = std::min(n[kCount], n[kColumns]);
  for (int64_t o = 0; o < n[kOuter]; ++o) {
    Matrix g = matrix_at(*in[0], o, n[kCount], n[kColumns]);
    if (!tall) g = transposed(g);
    bool good = finite(g);
    Matrix v = identity(k), lefts(p, k), rights(k, k), values(1, k);
    orthogonalise(g, v);
    Vector norms;
    for (int64_t j = 0; j < k; ++j) norms.push_back(good ? std::sqrt(inner(g.column(j), g.column(j))) : 0);
    std::vector<int64_t> order = sorted(norms, true);
    for (int64_t j = 0; j < k; ++j) {
      double size = norms[order[j]];
      Vector left = g.column(order[j]), right = v.column(order[j]);
      if (size <= 2.3e-16 * static_cast<double>(p) * norms[order[0]])
        left = completion(lefts, j);
      else
        for (double& e : left) e /= size;
      lefts.set_column(j, left);
      rights.set_column(j, right);
      values(0, j) = good ? size : kNan;
    }
    Matrix &u = tall ? lefts : rights, &w = tall ? rights : lefts;
    for (int64_t j = 0; j < k; ++j) {
      double sign = good ? sign_of_largest(u.column(j)) : kNan;
      for (Matrix* side : {&u, &w})
        for (int64_t i = 0; i < side->rows; ++i) (*side)(i, j) *= sign;
    }
    store(*out[0], o, u);
    store(*out[1], o, values);
    store(*out[2], o, transposed(w));
  }
}

double size_of(Numbers n, size_t i) { return static_cast<double>(n[i]); }
int64_t one_square(Numbers n) { return 8 * n[kCount] * n[kCount]; }
int64_t square_and_sides(Numbers n) { return 8 * (n[kCount] * n[kCount] + n[kCount] * n[kSides]); }
int64_t reflectors(Numbers n) { return 8 * (n[kCount] * n[kColumns] + 2 * n[kColumns] + n[kCount]); }
int64_t squares_and_values(Numbers n) { return 8 * (2 * n[kCount] * n[kCount] + n[kCount]); }
int64_t both_sides(Numbers n) {
  int64_t k = std::min(n[kCount], n[kColumns]);
  return 8 * (n[kCount] * n[kColumns] + k * k + k);
}
double third_power(Numbers n) { return size_of(n, kCount) * size_of(n, kCount) * size_of(n, kCount) / 4; }
double solving(Numbers n) { return size_of(n, kCount) * size_of(n, kCount) * size_of(n, kSides) / 2; }
double reflecting(Numbers n) { return size_of(n, kCount) * size_of(n, kColumns) * size_of(n, kColumns); }
double eight_sweeps(Numbers n) { return 20 * size_of(n, kCount) * size_of(n, kCount) * size_of(n, kCount); }
double one_sided_sweeps(Numbers n) {
  return 10 * size_of(n, kCount) * size_of(n, kColumns) * std::min(size_of(n, kCount), size_of(n, kColumns));
}

constexpr int64_t kSmallMatrix = 16;  // a thread computes such a matrix
int64_t columns(Numbers n) { return n[kCount] > kSmallMatrix ? n[kCount] : 0; }
int64_t sides(Numbers n) { return n[kCount] > kSmallMatrix ? n[kCount] * n[kSides] : 0; }

const ProcedureDef kMatrixProcedures[] = {
    {"cholesky", Algorithm::kMatrix, {}, one_square, third_power, cholesky, false, columns},
    {"triangular_solve", Algorithm::kMatrix, list_of(kSolving), square_and_sides, solving, triangular_solve, false,
     sides},
    {"qr", Algorithm::kMatrix, list_of(kColumnsOf), reflectors, reflecting, qr},
    {"lu", Algorithm::kMatrix, {}, one_square, third_power, lu},
    {"eigh", Algorithm::kMatrix, {}, squares_and_values, eight_sweeps, eigh},
    {"svd", Algorithm::kMatrix, list_of(kColumnsOf), both_sides, one_sided_sweeps, svd},
};

}  // namespace

std::span<const ProcedureDef> linalg_procedures() { return kMatrixProcedures; }

}  // namespace nabla::kernel_ir

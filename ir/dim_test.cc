#include "ir/dim.h"

#include <gtest/gtest.h>

#include <random>

#include "ir/symbols.h"

namespace nabla::ir {
namespace {

Dim symbol(std::string name, int64_t min, int64_t max, int64_t multiple = 1) {
  return Dim::symbol(std::make_shared<Symbol>(Symbol{std::move(name), min, max, multiple}));
}

class DimTest : public ::testing::Test {
 protected:
  const Dim n = symbol("n", 1, 100), m = symbol("m", 2, 50), b = symbol("b", 8, 64, 8);
};

TEST_F(DimTest, PolynomialsHaveOneForm) {
  EXPECT_EQ((n + 1) * (n - 1), n * n - 1);
  EXPECT_EQ((n + m) * (n + m), n * n + m * m + Dim(2) * m * n);
  EXPECT_EQ(n - n, Dim(0));
  EXPECT_TRUE((n * 0).is(0));
  EXPECT_EQ(((n + m) * 8 + 1).str(), "8*m+8*n+1");
  EXPECT_EQ((Dim(1) - n).str(), "-n+1");
}

// Each level would compare all levels below it again, and these theirs: the test would not end in a day.
TEST_F(DimTest, NestedMinimaAndMaximaCostLittle) {
  auto facts = std::make_shared<const std::vector<Dim>>(std::vector<Dim>{n - 3, n * 2 - m});
  Dim told = Dim::symbol(std::make_shared<Symbol>(Symbol{"n", 1, 100, 1, facts}));
  Dim both = Dim::symbol(std::make_shared<Symbol>(
      Symbol{"b", 8, 64, 8, std::make_shared<const std::vector<Dim>>(std::vector<Dim>{b - 16})}));
  for (const Dim& x : {n, b, told, both}) {
    Dim nested = x;
    for (int level = 1; level <= 24; ++level)
      nested = level % 2 ? Dim::min(nested + 3, x * level - 2) : Dim::max(nested - 2, Dim::floordiv(x, level) + 5);
    EXPECT_LE(nested.bounds().min, nested.bounds().max);
    EXPECT_EQ(nested.substitute([](const SymbolRef& s) { return Dim::symbol(s); }), nested);
    EXPECT_GE(nested.eval([](const Symbol&) { return 16; }), nested.bounds().min);
  }
}

TEST_F(DimTest, ASymbolWithOneValueIsThatValue) { EXPECT_TRUE(symbol("k", 7, 7).is(7)); }

TEST_F(DimTest, DivisionTakesOutWhatTheDivisorDivides) {
  EXPECT_EQ(Dim::floordiv(n * 8 + 5, 8), n);
  EXPECT_EQ(Dim::floordiv(n * 8 + 11, 8), n + 1);
  EXPECT_EQ(Dim::floordiv(n * m, m), n);
  EXPECT_EQ(Dim::floordiv(n * m * 6, m * 3), n * 2);
  EXPECT_EQ(Dim::floordiv(n * 4, 8), Dim::floordiv(n, 2));
  EXPECT_EQ(Dim::floordiv(n, n), Dim(1));
  EXPECT_EQ(Dim::floordiv(0, n * 2), Dim(0));
  EXPECT_EQ(Dim::floordiv(m - 2, 49), Dim(0));  // its bounds say so
  EXPECT_EQ(Dim::floordiv(-7, 2), Dim(-4));
  EXPECT_EQ(Dim::ceildiv(n * 8 + 1, 8), n + 1);
}

TEST_F(DimTest, RemaindersDropMultiplesOfTheDivisor) {
  EXPECT_EQ(Dim::mod(n * 16 + 3, 8), Dim(3));
  EXPECT_EQ(Dim::mod(n * 9, 8), Dim::mod(n, 8));
  EXPECT_EQ(Dim::mod(b, 8), Dim(0));
  EXPECT_EQ(Dim::mod(b * 3 + n, 4), Dim::mod(n, 4));
  EXPECT_EQ(Dim::mod(n * m, m), Dim(0));
  EXPECT_EQ(Dim::mod(n * 4, 8), Dim::mod(n, 2) * 4);
  EXPECT_EQ(Dim::mod(m, 51), m);
  EXPECT_EQ(Dim::mod(-3, 8), Dim(5));
}

TEST_F(DimTest, APartOfASymbolIsAMultipleWhereTheSymbolIs) {
  Dim part = Dim::floordiv(b, 2);  // b is a multiple of 8
  EXPECT_EQ(Dim::mod(part, 4), Dim(0));
  EXPECT_EQ(Dim::mod(part * 3 + n, 4), Dim::mod(n, 4));
  EXPECT_EQ(Dim::mod(part * 2, 8), Dim(0));
  EXPECT_FALSE(Dim::mod(part, 8).is_static());
  EXPECT_FALSE(Dim::mod(Dim::floordiv(n, 4), 4).is_static());
  EXPECT_EQ(Dim::mod(Dim::floordiv(part, 2), 2), Dim(0));
}

TEST_F(DimTest, ASymbolIsMadeAMultipleSoThatPartsDivideASize) {
  EXPECT_EQ(multiples_for(n, 4), (Multiples{{"n", 4}}));
  EXPECT_EQ(multiples_for(Dim::floordiv(n, 4), 4), (Multiples{{"n", 16}}));
  EXPECT_EQ(multiples_for(n * m * 2, 4), (Multiples{{"m", 2}, {"n", 2}}));
  EXPECT_EQ(multiples_for(b, 24), (Multiples{{"b", 24}}));
  EXPECT_EQ(multiples_for(n + 1, 4), Multiples());
  EXPECT_EQ(help_to_divide(n, 4), "declare symbol n as a multiple of 4");
  EXPECT_EQ(help_to_divide(n + 1, 4), "");
}

TEST_F(DimTest, MinAndMaxAreDecidedByBoundsWhereTheyCanBe) {
  EXPECT_EQ(Dim::min(n, n + 1), n);
  EXPECT_EQ(Dim::max(n, 100), Dim(100));
  EXPECT_EQ(Dim::min(n, m), Dim::min(m, n));
  EXPECT_EQ(Dim::min(n, m).str(), "min(m,n)");
}

TEST_F(DimTest, ComparisonsSayYesNoOrUndecidable) {
  EXPECT_EQ(Dim::equal(n + m, m + n), true);
  EXPECT_EQ(Dim::equal(n, n + 1), false);
  EXPECT_EQ(Dim::equal(n, m), std::nullopt);
  EXPECT_EQ(Dim::equal(n, 200), false);
  EXPECT_EQ(Dim::less_equal(n, 100), true);
  EXPECT_EQ(Dim::less_equal(n + 100, n), false);
  EXPECT_EQ(Dim::less_equal(n, m), std::nullopt);
  EXPECT_EQ(Dim::less_equal(n, n * 1), true);
}

TEST_F(DimTest, MultiplesOfASymbolCancelInComparisons) {
  EXPECT_EQ(Dim::equal(Dim::floordiv(b, 8) * 8, b), true);
  EXPECT_EQ(Dim::equal(Dim::floordiv(b, 4), Dim::floordiv(b, 8) * 2), true);
  EXPECT_EQ(Dim::equal(Dim::floordiv(n, 8) * 8, n), std::nullopt);
}

TEST_F(DimTest, SumsAndProductsSaturate) {
  EXPECT_TRUE((Dim(int64_t{1} << 40) * Dim(int64_t{1} << 40)).is(INT64_MAX));
  EXPECT_TRUE((Dim(INT64_MAX) + 1).is(INT64_MAX));
  EXPECT_EQ((n * (int64_t{1} << 62)).bounds().max, INT64_MAX);
}

TEST_F(DimTest, SymbolsAreListedOnceAndSubstituted) {
  Dim d = Dim::floordiv(n + m, 3) * n + m;
  ASSERT_EQ(d.symbols().size(), 2u);
  EXPECT_EQ(d.eval([](const Symbol& s) { return s.name == "n" ? 10 : 4; }), 10 * 4 + 4);
  EXPECT_EQ(d.substitute([&](const SymbolRef& s) { return s->name == "m" ? n * 2 : Dim::symbol(s); }), n * n + n * 2);
}

TEST_F(DimTest, AnExtentTellsASymbolWhereItIsAMultipleOfItPlusAConstant) {
  auto linear = (n * 8 + 1).linear();
  ASSERT_TRUE(linear.has_value());
  EXPECT_EQ(linear->symbol->name, "n");
  EXPECT_EQ(linear->scale, 8);
  EXPECT_EQ(linear->offset, 1);
  for (const Dim& d : {Dim(3), n + m, n * n, n * m, Dim(5) - n, Dim::floordiv(n, 2)})
    EXPECT_FALSE(d.linear()) << d.str();
}

// What machines do with a size's steps.
int64_t run(const std::vector<SizeStep>& steps, const std::function<int64_t(const Symbol&)>& value_of) {
  using Op = SizeStep::Op;
  std::vector<int64_t> stack;
  for (const SizeStep& s : steps) {
    if (s.op == Op::kConstant || s.op == Op::kSymbol) {
      stack.push_back(s.symbol ? value_of(*s.symbol) : s.value);
      continue;
    }
    int64_t b = stack.back(), &a = (stack.pop_back(), stack.back());
    int64_t quotient = b > 0 ? a / b - (a % b < 0) : 0;
    a = s.op == Op::kAdd        ? a + b
        : s.op == Op::kMul      ? a * b
        : s.op == Op::kFloorDiv ? quotient
        : s.op == Op::kMod      ? a - b * quotient
        : s.op == Op::kMin      ? std::min(a, b)
                                : std::max(a, b);
  }
  EXPECT_EQ(stack.size(), 1u);
  return stack.back();
}

// Random expressions, built symbolically and beside it in integers: the value is the same and within the bounds.
TEST_F(DimTest, EveryExpressionHasTheValueOfItsIntegers) {
  std::mt19937_64 rng(1);
  auto below = [&](int64_t k) { return static_cast<int64_t>(rng() % static_cast<uint64_t>(k)); };
  for (int trial = 0; trial < 3000; ++trial) {
    int64_t values[] = {1 + below(100), 2 + below(49), 8 * (1 + below(8))};
    std::vector<std::pair<Dim, int64_t>> pool = {
        {n, values[0]}, {m, values[1]}, {b, values[2]}, {Dim(below(9) - 4), 0}};
    pool[3].second = pool[3].first.value();
    for (int step = 0; step < 5; ++step) {
      auto [x, vx] = pool[below(static_cast<int64_t>(pool.size()))];
      auto [y, vy] = pool[below(static_cast<int64_t>(pool.size()))];
      int64_t k = 1 + below(12), floor = vx / k - (vx % k < 0);
      switch (below(7)) {
        case 0:
          pool.push_back({x + y, vx + vy});
          break;
        case 1:
          pool.push_back({x - y, vx - vy});
          break;
        case 2:
          pool.push_back({x * Dim(k), vx * k});
          break;
        case 3:
          pool.push_back({Dim::floordiv(x, k), floor});
          break;
        case 4:
          pool.push_back({Dim::mod(x, k), vx - k * floor});
          break;
        case 5:
          pool.push_back({Dim::min(x, y), std::min(vx, vy)});
          break;
        case 6:
          pool.push_back({Dim::max(x, y), std::max(vx, vy)});
          break;
      }
      auto [d, v] = pool.back();
      auto value_of = [&](const Symbol& s) { return values[s.name == "n" ? 0 : s.name == "m" ? 1 : 2]; };
      ASSERT_EQ(d.eval(value_of), v) << d.str();
      ASSERT_EQ(run(d.steps(), value_of), v) << d.str();
      ASSERT_LE(d.bounds().min, v) << d.str();
      ASSERT_GE(d.bounds().max, v) << d.str();
      auto [other, w] = pool[below(static_cast<int64_t>(pool.size()))];
      ASSERT_EQ(Dim::equal(d, other).value_or(v == w), v == w) << d.str() << " and " << other.str();
      ASSERT_EQ(Dim::less_equal(d, other).value_or(v <= w), v <= w) << d.str() << " and " << other.str();
    }
  }
}

// Memory is planned at the bound of a tensor's elements, and arrays are checked against the bounds of their sizes.
TEST(Dim, BoundsOfAProductAreTheProductOfTheBounds) {
  auto symbol = [](const char* name, int64_t min, int64_t max) {
    return Dim::symbol(std::make_shared<const Symbol>(Symbol{name, min, max, 1}));
  };
  Dim b = symbol("b", 1, 8), n = symbol("n", 2, 16), h = symbol("h", 3, 5);
  for (const std::vector<Dim>& shape : std::vector<std::vector<Dim>>{{b, n - 1},
                                                                     {n, n - 1},
                                                                     {b, n - 2, h},
                                                                     {n - 1, n - 2, b * h},
                                                                     {b, h - 3, n - 1},
                                                                     {b, b * n - 1, h},
                                                                     {Dim::floordiv(n - 1, 2), b * 3 - 2}}) {
    Dim count = 1;
    Interval product{1, 1};
    for (const Dim& d : shape) {
      count = count * d;
      product = {product.min * d.bounds().min, product.max * d.bounds().max};
    }
    EXPECT_EQ(count.bounds().min, product.min) << count.str();
    EXPECT_EQ(count.bounds().max, product.max) << count.str();
  }
  EXPECT_EQ((b - n).bounds().min, -15);
  EXPECT_EQ((b - n).bounds().max, 6);
}

TEST(Dim, QuotientsAreComparedWithWhatTheyDivide) {
  Dim n = Dim::symbol(std::make_shared<const Symbol>(Symbol{"n", 1, 64, 1}));
  auto half = [](const Dim& d) { return Dim::floordiv(d, 2); };
  EXPECT_EQ(Dim::less_equal(half(n), n), true);
  EXPECT_EQ(Dim::less_equal(half(n) + Dim::floordiv(n, 3), n), true);
  EXPECT_EQ(Dim::less_equal(Dim::floordiv(n + 7, 8) * 8, n + 7), true);
  EXPECT_EQ(Dim::less_equal(n, Dim::floordiv(n + 7, 8) * 8), true);
  EXPECT_EQ(Dim::less_equal(half(n) * 3, n), std::nullopt);
  EXPECT_EQ(Dim::less_equal(n + 1, half(n)), false);
  EXPECT_EQ((n - half(n)).bounds().min, 1);
  EXPECT_EQ((n - half(n)).bounds().max, 32);
  EXPECT_EQ((half(n) * (n - half(n))).bounds().max, 32 * 32);
}

TEST(Dim, BoundsOfAMultipleAreTheMultipleOfTheBounds) {
  Dim n = Dim::symbol(std::make_shared<const Symbol>(Symbol{"n", 2, 16}));
  for (int64_t k : {2, 3, 5}) {
    Dim rest = n - Dim::floordiv(n, k), part = Dim::floordiv(rest + 1, 2);
    for (const Dim& size : {rest, part, rest - part, Dim(3) - rest}) {
      Interval one = size.bounds(), bytes = (Dim(16) * size + 5).bounds();
      EXPECT_EQ(bytes.min, 16 * one.min + 5) << size.str();
      EXPECT_EQ(bytes.max, 16 * one.max + 5) << size.str();
    }
  }
}

TEST(Dim, FactsDecideWhatBoundsCannot) {
  auto plain = [](const char* name) { return std::make_shared<const Symbol>(Symbol{name, 1, 8, 1}); };
  Dim a = Dim::symbol(plain("a")), b = Dim::symbol(plain("b")), c = Dim::symbol(plain("c"));
  EXPECT_EQ(Dim::less_equal(a, b), std::nullopt);
  std::vector<SymbolRef> with = with_facts({plain("a"), plain("b"), plain("c")}, {{a + 1 <= b, nullptr}});
  Dim x = Dim::symbol(with[0]), y = Dim::symbol(with[1]), z = Dim::symbol(with[2]);
  EXPECT_EQ(Dim::less_equal(x, y), true);
  EXPECT_EQ(Dim::less_equal(x + 1, y), true);
  EXPECT_EQ(Dim::less_equal(x + 2, y), std::nullopt);
  EXPECT_EQ(Dim::less_equal(y, x), false);
  EXPECT_EQ((y - x).bounds().min, 1);
  EXPECT_EQ((x - y).bounds().min, -7);
  EXPECT_EQ(Dim::equal(x, y), false);
  EXPECT_EQ(Dim::less_equal(x, y + z), true);
  EXPECT_EQ(Dim::less_equal(x, z), std::nullopt);
  EXPECT_EQ(Dim::min(x, y), x);
  EXPECT_EQ(with[2]->facts, nullptr);
  EXPECT_TRUE((y <= x).impossible());
  EXPECT_FALSE((x < y).impossible());
  EXPECT_FALSE((x < z).impossible());
}

TEST(Dim, SplitsAtASymbolWhereItIsLinear) {
  auto symbol = [](const char* name) { return Dim::symbol(std::make_shared<const Symbol>(Symbol{name, 1, 8, 1})); };
  Dim n = symbol("n"), m = symbol("m");
  auto text = [](const Dim& d, const char* name) {
    std::optional<SymbolSplit> s = split_at(d, name);
    return s ? s->factor.str() + " | " + s->rest.str() : "";
  };
  EXPECT_EQ(text(n * 2 + 1, "n"), "2 | 1");
  EXPECT_EQ(text(n * m + m * 3 + 5, "n"), "m | 3*m+5");
  EXPECT_EQ(text(n * m + m * 3 + 5, "m"), "n+3 | 5");
  EXPECT_EQ(text(Dim(9) - n, "n"), "-1 | 9");
  EXPECT_EQ(text(n * n, "n"), "");
  EXPECT_EQ(text(Dim::floordiv(n, 2), "n"), "");
  EXPECT_EQ(text(m, "n"), "");
}

TEST(Dim, SizesAreChosenForSymbolsOfTheProgramOnly) {
  std::vector<SymbolRef> symbols = {std::make_shared<const Symbol>(Symbol{"batch", 2, 8, 2}),
                                    std::make_shared<const Symbol>(Symbol{.name = "dp.index", .max = 3, .axis = "dp"})};
  EXPECT_TRUE(check_size(symbols, "batch", 4).ok());
  EXPECT_EQ(check_size(symbols, "batch", 3).errors()[0].message, "batch = 3 is not a multiple of 2 in [2, 8]");
  const Diagnostic rank = check_size(symbols, "dp.index", 0).errors()[0];
  EXPECT_EQ(rank.message, "the module has no symbolic size `dp.index`");
  EXPECT_EQ(rank.help, "its sizes are batch; one that equals an expression of others is none");
}

}  // namespace
}  // namespace nabla::ir

// Rules of partition: each op along a dimension that ranks share gives what one rank gives, in values and in gradients,
// and sends no more than the best form that is known.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/shard/rules_run.h"

namespace nabla::shard_tests {
namespace {

constexpr double kF32 = 4, kI32 = 4;
double gathered(int ranks, double part) { return (ranks - 1) * part; }
double reduced(int ranks, double bytes) { return 2.0 * (ranks - 1) / ranks * bytes; }

// ---- argmax, argmin

TEST(Rules, ExtremesAreFoundWhereTheyAre) {
  for (const char* op : {"argmax", "argmin"})
    for (const char* shape : {"6,8@a", "6@b,8@a"}) {
      Sent sent = expect_same({"a=4, b=2",
                               fmt::format("%x: f32[{}]", shape),
                               fmt::format(" %y = {}(%x) {{axis=1}}\n return %y\n", op),
                               {},
                               true});
      double rows = std::string(shape).find('b') == std::string::npos ? 6 : 3;
      EXPECT_EQ(sent.ops, "all_reduce all_reduce") << sent.text;
      // Of b, whose result is whole, nothing: its rows come back as they are laid out.
      EXPECT_LE(sent.forward, reduced(4, rows * (kF32 + kI32))) << sent.text;
    }
}

Literal row(std::vector<double> values) {
  Literal out = Literal::uninitialized(DType::kF32, {static_cast<int64_t>(values.size())});
  for (size_t i = 0; i < values.size(); ++i) out.set(static_cast<int64_t>(i), values[i]);
  return out;
}

// The lowest position of those that tie; the first NaN; -0 equals 0.
TEST(Rules, ExtremesThatTie) {
  for (const std::vector<double>& x : {std::vector<double>{1, 3, 3, 0, 3, 2, 3, -1},
                                       {1, 3, 2, NAN, 0, NAN, 9, 1},
                                       {-0.0, 0, -1, 0, 0, -0.0, -3, 0},
                                       {NAN, 1, 2, 3, 4, 5, 6, 7}})
    for (const char* op : {"argmax", "argmin"})
      expect_same(
          {"a=4", "%x: f32[8@a]", fmt::format(" %y = {}(%x) {{axis=0}}\n return %y\n", op), {}, false, {row(x)}});
}

TEST(Rules, TheBestOfEachRankAreCandidates) {
  for (int k : {1, 3, 7})
    for (bool largest : {true, false}) {
      Sent sent =
          expect_same({"a=4",
                       "%x: f32[5,64@a]",
                       fmt::format(" %y, %i = top_k(%x) {{axis=1, k={}, largest={}}}\n return %y\n", k, largest),
                       {0}});
      EXPECT_EQ(sent.ops, "all_gather") << sent.text;  // positions have no reader
      EXPECT_LE(sent.forward, gathered(4, 5 * k * kF32));
      expect_same({"a=4",
                   "%x: f32[5,64@a]",
                   fmt::format(" %y, %i = top_k(%x) {{axis=1, k={}, largest={}}}\n return %i\n", k, largest),
                   {},
                   k == 3});
    }
  for (const std::vector<double>& x : {std::vector<double>{1, 3, 3, 0, 3, 2, 3, -1}, {1, 3, 2, NAN, 0, NAN, 9, 1}})
    for (const char* op : {"true", "false"})
      expect_same({"a=4",
                   "%x: f32[8@a]",
                   fmt::format(" %y, %i = top_k(%x) {{axis=0, k=5, largest={}}}\n return %i\n", op),
                   {},
                   false,
                   {row(x)}});
}

// ---- Running combinations

TEST(Rules, RunningCombinationsSendASlice) {
  for (const char* op : {"cumsum", "cumprod", "cummax", "cummin"})
    for (bool reverse : {false, true})
      for (bool exclusive : {false, true}) {
        Sent sent = expect_same(
            {"a=4",
             "%x: f32[3,16@a,2]",
             fmt::format(" %y = {}(%x) {{axis=1, reverse={}, exclusive={}}}\n return %y\n", op, reverse, exclusive),
             {0},
             reverse && exclusive});
        EXPECT_EQ(sent.ops, "all_gather") << sent.text;
        EXPECT_LE(sent.forward, gathered(4, 3 * 2 * kF32)) << sent.text;
        EXPECT_TRUE(sent.remarks.empty());
      }
}

TEST(Rules, RunningPositions) {
  for (const char* op : {"cumargmax", "cumargmin"})
    for (bool reverse : {false, true}) {
      std::string body = fmt::format(" %y = {}(%x) {{axis=0, reverse={}}}\n return %y\n", op, reverse);
      Sent sent = expect_same({"a=4", "%x: f32[16@a,3]", body, {}, reverse});
      EXPECT_LE(sent.forward, gathered(4, 3 * (kF32 + kI32))) << sent.text;
      for (const std::vector<double>& x : {std::vector<double>{1, 3, 3, 0, 3, 2, 3, -1},
                                           {1, 3, 2, NAN, 0, NAN, 9, 1},
                                           {-0.0, 0, -1, 0, 0, -0.0, -3, 0}})
        expect_same({"a=4", "%x: f32[8@a]", body, {}, false, {row(x)}});
    }
}

// ---- Cutting and joining

TEST(Rules, SlicesSendWhatChangesRanks) {
  struct Case {
    const char* x;
    const char* slice;
    double bytes;
  };
  for (const Case& c : {Case{"f32[16@a,3]", "starts=[4, 0], limits=[12, -1], strides=[1, 1]", 4 * 3 * kF32},
                        Case{"f32[16@a,3]", "starts=[0, 0], limits=[8, -1], strides=[1, 1]", 4 * 3 * kF32},
                        Case{"f32[16@a,3]", "starts=[1, 1], limits=[16, -1], strides=[4, 1]", 0},
                        Case{"f32[16@a,3]", "starts=[0, 0], limits=[16, -1], strides=[2, 1]", 0},
                        // Five rows, which four ranks do not share: a sum over them.
                        Case{"f32[16@a,3]", "starts=[2, 0], limits=[7, -1], strides=[1, 1]", reduced(4, 5 * 3 * kF32)},
                        Case{"f32[16@a,6@b]", "starts=[4, 2], limits=[12, 4], strides=[1, 1]", 4 * 2 * 3 * kF32}}) {
    Sent sent = expect_same({"a=4, b=2",
                             fmt::format("%x: {}", c.x),
                             fmt::format(" %y = slice(%x) {{{}}}\n return %y\n", c.slice),
                             {0},
                             true});
    EXPECT_LE(sent.forward, c.bytes) << sent.text;
    EXPECT_TRUE(sent.remarks.empty()) << sent.text;
  }
}

TEST(Rules, SectionsAreSlices) {
  Sent sent =
      expect_same({"a=2", "%x: f32[3,12@a]", " %y = section(%x) {axis=1, range=[3, 6]}\n return %y\n", {0}, true});
  EXPECT_LE(sent.forward, 3 * 3 * kF32) << sent.text;
}

TEST(Rules, PadsShiftElementsToTheirRanks) {
  struct Case {
    const char* pad;
    double rows;  ///< that a rank sends
  };
  for (const Case& c :
       {Case{"low=[1, 0], high=[-1, 0], interior=[0, 0]", 1}, Case{"low=[-2, 0], high=[2, 0], interior=[0, 0]", 2},
        Case{"low=[7, 0], high=[-7, 0], interior=[0, 0]", 4}, Case{"low=[4, 0], high=[4, 0], interior=[0, 0]", 4},
        Case{"low=[0, 1], high=[1, 1], interior=[1, 0]", 0}, Case{"low=[-4, 0], high=[-4, 0], interior=[0, 0]", 4}}) {
    Sent sent = expect_same({"a=4",
                             "%x: f32[16@a,3], %v: f32[]",
                             fmt::format(" %y = pad(%x, %v) {{{}}}\n return %y\n", c.pad),
                             {0, 1},
                             true});
    EXPECT_LE(sent.forward, c.rows * 3 * kF32) << sent.text;
    EXPECT_TRUE(sent.remarks.empty()) << sent.text;
  }
}

TEST(Rules, PartsChangePlacesWhereTheyAreTurnedRound) {
  Sent sent =
      expect_same({"a=4, b=2", "%x: f32[16@a,6@b,3]", " %y = reverse(%x) {axes=[0, 1, 2]}\n return %y\n", {0}, true});
  EXPECT_EQ(sent.ops, "permute permute");
  EXPECT_LE(sent.forward, 2 * 4 * 3 * 3 * kF32) << sent.text;
}

TEST(Rules, JoinedPiecesGoToTheirRanks) {
  std::string body = " %z = concatenate(%x, %y) {axis=0}\n return %z\n";
  Sent sent = expect_same({"a=4", "%x: f32[16@a,3], %y: f32[8@a,3]", body, {0, 1}, true});
  EXPECT_TRUE(sent.remarks.empty());
  EXPECT_LE(sent.forward, gathered(4, 6 * 3 * kF32)) << sent.text;
  // One that every rank has: nothing is sent for it.
  sent = expect_same({"a=2", "%x: f32[2@{},3], %y: f32[8@a,3]", body, {0, 1}, true});
  EXPECT_LE(sent.forward, 3 * kF32) << sent.text;
}

// numpy's roll, by any number: neighbours send so many elements, and the last rank the first one.
// A sum over ranks that is joined to a value which every rank has: only where all pieces are sums may it wait.
TEST(Rules, JoinedPiecesAreSumsTogetherOrNotAtAll) {
  auto ops = [](const char* first, const char* second) {
    return expect_same({"a=4", "%x: f32[4,8@a], %y: f32[4,8@a], %z: f32[4]",
                        fmt::format(" %s = reduce_sum(%x) {{axes=[1]}}\n %t = reduce_sum(%y) {{axes=[1]}}\n"
                                    " %r = concatenate(%{}, %{}) {{axis=0}}\n return %r\n", first, second),
                        {0, 1, 2}, true}).ops;
  };
  EXPECT_EQ(ops("s", "z"), "all_reduce");
  EXPECT_EQ(ops("z", "s"), "all_reduce");
  EXPECT_EQ(ops("s", "t"), "all_reduce");  // of both in one
}

TEST(Rules, RollsSendWhatChangesRanks) {
  for (int by : {1, 3, 4, 6, 13}) {
    Sent sent = expect_same({"a=4",
                             "%x: f32[2,16@a]",
                             fmt::format(" %e = slice(%x) {{starts=[0, {0}], limits=[-1, -1], strides=[1, 1]}}\n"
                                         " %b = slice(%x) {{starts=[0, 0], limits=[-1, {0}], strides=[1, 1]}}\n"
                                         " %y = concatenate(%e, %b) {{axis=1}}\n return %y\n",
                                         16 - by),
                             {0},
                             by == 3});
    EXPECT_TRUE(sent.remarks.empty()) << sent.text;
    // Each of two shifts sends a shard at most, in two pieces where it does not end with one.
    EXPECT_LE(sent.forward, by < 4 ? 2 * by * 2 * kF32 : 2 * 4 * 2 * kF32) << by << sent.text;
    EXPECT_LE(sent.gradient, 2 * (by < 4 ? 2 * by * 2 * kF32 : 2 * 4 * 2 * kF32)) << by << sent.text;
  }
}

// A projection for queries, keys and values together, cut into the three along the ranks' dimension.
TEST(Rules, APartOfAProjection) {
  Sent sent = expect_same({"tp=2",
                           "%x: f32[4,6], %w: f32[6,12@tp]",
                           " %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}\n"
                           " %q = slice(%h) {starts=[0, 0], limits=[-1, 4], strides=[1, 1]}\n"
                           " %k = slice(%h) {starts=[0, 4], limits=[-1, 8], strides=[1, 1]}\n"
                           " %v = slice(%h) {starts=[0, 8], limits=[-1, 12], strides=[1, 1]}\n"
                           " %s = mul(%q, %k)\n %y = add(%s, %v)\n return %y\n",
                           {0, 1}});
  EXPECT_TRUE(sent.remarks.empty()) << sent.text;
  EXPECT_LE(sent.forward, 4 * 4 * 2 * kF32) << sent.text;
}

// ---- Windows

TEST(Rules, ConvolutionsExchangeHalos) {
  struct Case {
    const char *x, *w, *attrs;
    double rows;  ///< of the input that a rank sends
    bool compiled;
  };
  for (const Case& c : {Case{"f32[2,16@a,5,3]", "f32[3,3,3,4]",
                             "strides=[1, 1], padding_low=[1, 1], padding_high=[1, 1], dilation=[1, 1]", 2, true},
                        Case{"f32[2,16@a,5,3]", "f32[4,3,3,4]",
                             "strides=[2, 1], padding_low=[1, 1], padding_high=[1, 1], dilation=[1, 1]", 2, true},
                        Case{"f32[2,16@a,5,3]", "f32[1,1,3,4]",
                             "strides=[2, 2], padding_low=[0, 0], padding_high=[0, 0], dilation=[1, 1]", 0, false},
                        // Taps three apart reach over whole shards.
                        Case{"f32[2,8@a,5,3]", "f32[3,1,3,4]",
                             "strides=[1, 1], padding_low=[3, 0], padding_high=[3, 0], dilation=[3, 1]", 6, true},
                        // Patches.
                        Case{"f32[2,16@a,4,3]", "f32[4,4,3,4]",
                             "strides=[4, 4], padding_low=[0, 0], padding_high=[0, 0], dilation=[1, 1]", 0, false},
                        // Outputs that do not stand where the inputs do.
                        Case{"f32[2,16@a,4,3]", "f32[5,1,3,4]",
                             "strides=[1, 1], padding_low=[0, 0], padding_high=[0, 0], dilation=[1, 1]", 16, true}}) {
    Sent sent = expect_same({"a=4",
                             fmt::format("%x: {}, %w: {}", c.x, c.w),
                             fmt::format(" %y = convolution(%x, %w) {{{}}}\n return %y\n", c.attrs),
                             {0, 1},
                             c.compiled});
    EXPECT_TRUE(sent.remarks.empty()) << sent.text;
    EXPECT_LE(sent.forward, c.rows * 2 * 5 * 3 * kF32) << c.attrs << sent.text;
  }
}

// Both spatial dimensions, images and features at once.
TEST(Rules, ConvolutionsOnTwoAxes) {
  Sent sent = expect_same({"a=2, b=2, n=2",
                           "%x: f32[4@n,8@a,8@b,3], %w: f32[3,3,3,4]",
                           " %y = convolution(%x, %w) {strides=[1, 1], padding_low=[1, 1], padding_high=[1, 1], "
                           "dilation=[1, 1]}\n return %y\n",
                           {0, 1},
                           true});
  EXPECT_LE(sent.forward, (4 + 6) * 2 * 2 * 3 * kF32) << sent.text;
  sent = expect_same({"a=2, tp=2",
                      "%x: f32[2,8@a,8,4@tp], %w: f32[3,3,4@tp,4]",
                      " %y = convolution(%x, %w) {strides=[1, 1], padding_low=[1, 1], padding_high=[1, 1], "
                      "dilation=[1, 1]}\n return %y\n",
                      {0, 1}});
  EXPECT_TRUE(sent.remarks.empty()) << sent.text;
}

TEST(Rules, PoolingExchangesHalos) {
  struct Case {
    const char* attrs;
    double rows;
  };
  for (const char* op : {"reduce_window_sum", "reduce_window_max"})
    for (const Case& c :
         {Case{"window=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding_low=[0, 0, 0, 0], padding_high=[0, 0, 0, 0]", 0},
          Case{"window=[1, 3, 3, 1], strides=[1, 2, 2, 1], padding_low=[0, 1, 1, 0], padding_high=[0, 0, 1, 0]", 1},
          Case{"window=[1, 5, 1, 1], strides=[1, 1, 1, 1], padding_low=[0, 2, 0, 0], padding_high=[0, 2, 0, 0]", 4}}) {
      Sent sent = expect_same({"a=4",
                               "%x: f32[2,16@a,6,3]",
                               fmt::format(" %y = {}(%x) {{{}, dilation=[1, 1, 1, 1]}}\n return %y\n", op, c.attrs),
                               {0},
                               true});
      EXPECT_TRUE(sent.remarks.empty()) << sent.text;
      EXPECT_LE(sent.forward, c.rows * 2 * 6 * 3 * kF32) << op << c.attrs << sent.text;
    }
}

// ---- Attention

struct Attention {
  const char* what;
  const char *q, *k;
  const char* extras;  ///< after q, k and v: ", %m" and more
  const char* params;  ///< of those
  const char* attrs;
  bool compiled = false;
};

std::string body_of(const Attention& a) {
  return fmt::format(" %y, %l = attention(%q, %k, %v{}) {{{}}}\n return %y\n", a.extras, a.attrs);
}
std::string params_of(const Attention& a) { return fmt::format("%q: {}, %k: {}, %v: {}{}", a.q, a.k, a.k, a.params); }

// Queries and keys along one axis: keys and values go round once, forward; once more with their gradients on the way
// back.
TEST(Rules, KeysGoRoundTheRing) {
  for (const Attention& a :
       {Attention{"plain", "f32[2,3,8@a,4]", "f32[2,3,8@a,4]", "", "", "scale=0.5", true},
        Attention{"causal", "f32[2,3,8@a,4]", "f32[2,3,8@a,4]", "", "", "causal=true", true},
        Attention{"more keys than queries", "f32[2,3,4@a,4]", "f32[2,3,12@a,4]", "", "", "causal=true"},
        Attention{"more queries than keys", "f32[2,3,12@a,4]", "f32[2,3,4@a,4]", "", "", "causal=true"},
        Attention{"shared heads", "f32[2,6,8@a,4]", "f32[2,3,8@a,4]", "", "", "causal=true"},
        Attention{"mask", "f32[2,3,8@a,4]", "f32[2,3,8@a,4]", ", %m", ", %m: bool[2,1,8,8]", "causal=true", true},
        Attention{"dropout", "f32[2,3,8@a,4]", "f32[2,3,8@a,4]", ", %r", ", %r: u32[2]", "dropout=0.25", true},
        Attention{"batches and heads elsewhere", "f32[2@d,3,8@a,4]", "f32[2@d,3,8@a,4]", "", "", "causal=true",
                  true}}) {
    Sent sent = expect_same({"a=4, d=2", params_of(a), body_of(a), {0, 1, 2}, a.compiled});
    EXPECT_TRUE(sent.remarks.empty()) << a.what;
    double part =
        std::string(a.k).find("12@") != std::string::npos ? 2 * 3 * 3 * 4 * kF32
        : std::string(a.k).find("4@a") != std::string::npos && std::string(a.k).find("8@a") == std::string::npos
            ? 2 * 3 * 1 * 4 * kF32
            : 2 * 3 * 2 * 4 * kF32;
    if (std::string(a.k).find("@d") != std::string::npos) part /= 2;
    EXPECT_LE(sent.forward, gathered(4, 2 * part)) << a.what << sent.text;
    EXPECT_EQ(sent.ops.find("all_gather"), std::string::npos) << a.what << sent.text;
    // Forward, and back with the gradients; no value goes whole to all ranks.
    EXPECT_LE(sent.gradient, gathered(4, 6 * part)) << a.what << sent.text;
    EXPECT_EQ(sent.text.find("all_gather"), std::string::npos) << a.what << sent.text;
  }
}

// Few queries, which all ranks have, and a long cache of keys: what is sent does not grow with the keys.
TEST(Rules, RanksAttendToTheirOwnKeys) {
  for (const Attention& a :
       {Attention{"plain", "f32[2,3,2@{},4]", "f32[2,3,64@a,4]", "", "", "scale=0.5", true},
        Attention{"causal", "f32[2,3,2@{},4]", "f32[2,3,64@a,4]", "", "", "causal=true"},
        Attention{"mask", "f32[2,3,2@{},4]", "f32[2,3,64@a,4]", ", %m", ", %m: bool[2,1,2,64@a]", "scale=0.5", true},
        Attention{"dropout", "f32[2,3,2@{},4]", "f32[2,3,64@a,4]", ", %r", ", %r: u32[2]", "dropout=0.25"}}) {
    Sent sent = expect_same({"a=4", params_of(a), body_of(a), {0, 1, 2}, a.compiled});
    EXPECT_TRUE(sent.remarks.empty()) << a.what;
    double rows = 2 * 3 * 2;
    EXPECT_LE(sent.forward, reduced(4, rows * (4 + 2) * kF32)) << a.what << sent.text;
  }
}

int count_of(const std::string& text, const std::string& what) {
  int count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}
Sent ring_of(int64_t ranks, const char* causal) {
  std::string positions = fmt::format("f32[1,1,{}@a,4]", 2 * ranks);
  return expect_same({fmt::format("a={}", ranks), fmt::format("%q: {0}, %k: {0}, %v: {0}", positions),
                      fmt::format(" %y, %l = attention(%q, %k, %v) {{causal={}}}\n return %y\n", causal), {0, 1, 2}, true});
}

// What comes after all queries of a rank is not computed: a branch for each block but its own.
TEST(Rules, RingsSkipWhatACausalMaskHides) {
  EXPECT_EQ(count_of(ring_of(4, "false").text, " cond("), 0);
  EXPECT_EQ(count_of(ring_of(2, "true").text, " cond("), 1 + 1 + 1);  // @f, and forward and back in its gradient
  EXPECT_EQ(count_of(ring_of(3, "true").text, " cond("), 2 + 2 + 2);
}

// The steps between the first and the last are a loop: the program of 8 ranks is as long as that of 5. Each block
// travels as often as it must.
TEST(Rules, RingsAreLoops) {
  for (const char* causal : {"false", "true"}) {
    Sent five = ring_of(5, causal), eight = ring_of(8, causal);
    for (const char* op : {" attention(", " attention_grad(", " permute(", " cond(", " scan("})
      EXPECT_EQ(count_of(five.text, op), count_of(eight.text, op)) << op << five.text << eight.text;
    EXPECT_EQ(count_of(eight.text, " scan("), 3) << eight.text;
    double part = 2 * 4 * kF32;
    EXPECT_EQ(eight.forward, 7 * 2 * part) << eight.text;
    EXPECT_LE(eight.gradient, 7 * 6 * part) << eight.text;
  }
}

// Where heads divide, positions and heads change places: fewer bytes than the ring.
TEST(Rules, HeadsInsteadOfPositions) {
  Sent sent = expect_same({"a=4",
                           "%q: f32[2,4,8@a,4], %k: f32[2,4,8@a,4], %v: f32[2,4,8@a,4]",
                           " %y, %l = attention(%q, %k, %v) {causal=true}\n %z = shard(%y) {sharding=<{}, {}, a, {}>}\n"
                           " return %z\n",
                           {0, 1, 2},
                           true});
  EXPECT_EQ(sent.ops, "all_to_all all_to_all all_to_all all_to_all") << sent.text;
  EXPECT_LE(sent.forward, 4 * 0.75 * (2 * 4 * 2 * 4 * kF32));
}

// ---- Windows at computed places

Literal drawn_row(int64_t rows, int64_t columns) {
  Literal out = Literal::uninitialized(DType::kF32, {rows, columns});
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, static_cast<double>(i * 7 % 23) / 4 - 2);
  return out;
}
Literal index(int64_t i) { return Literal::scalar_int(DType::kI32, i); }

TEST(Rules, WindowsAreReadAndWrittenWhereTheyAre) {
  for (int64_t start : {-3, 0, 2, 3, 5, 7, 13, 40}) {
    Sent sent = expect_same({"a=4",
                             "%x: f32[16@a,3], %i: i32[], %j: i32[]",
                             " %y = dynamic_slice(%x, %i, %j) {sizes=[3, 2]}\n return %y\n",
                             {0},
                             start == 3,
                             {drawn_row(16, 3), index(start), index(1)}});
    EXPECT_TRUE(sent.remarks.empty()) << sent.text;
    EXPECT_LE(sent.forward, reduced(4, 3 * 2 * kF32)) << sent.text;
    for (int64_t rows : {1, 4}) {
      sent = expect_same({"a=4",
                          fmt::format("%x: f32[16@a,3], %u: f32[{},2], %i: i32[], %j: i32[]", rows),
                          " %y = dynamic_update_slice(%x, %u, %i, %j)\n return %y\n",
                          {0, 1},
                          start == 3,
                          {drawn_row(16, 3), drawn_row(rows, 2), index(start), index(1)}});
      EXPECT_TRUE(sent.remarks.empty()) << sent.text;
      EXPECT_EQ(sent.forward, 0) << sent.text;
    }
  }
}

// Along a dimension that is no table's rows: what sorting and its gradient ask for.
TEST(Rules, ElementsAreReadAndWrittenWhereTheyAre) {
  const char* dims =
      "{offset_dims=[], collapsed_slice_dims=[1], operand_batching_dims=[0], start_indices_batching_dims=[0], "
      "start_index_map=[1], index_vector_dim=2, slice_sizes=[1, 1]";
  for (const char* mode : {"clamp", "zero"}) {
    Sent sent = expect_same({"a=2, b=2",
                             "%x: f32[4@b,8@a], %i: i32[4@b,3]",
                             fmt::format(" %y = gather(%x, %i) {}, out_of_range=\"{}\"}}\n return %y\n", dims, mode),
                             {0},
                             true});
    EXPECT_TRUE(sent.remarks.empty()) << sent.text;
    EXPECT_LE(sent.forward, reduced(2, 2 * 3 * kF32)) << sent.text;
  }
  const char* into =
      "{update_window_dims=[], inserted_window_dims=[1], operand_batching_dims=[0], "
      "scatter_indices_batching_dims=[0], scatter_dims_to_operand_dims=[1], index_vector_dim=2, "
      "out_of_range=\"drop\"}";
  Literal places = Literal::uninitialized(DType::kI32, {4, 4});
  for (int64_t i = 0; i < 16; ++i) places.set_i(i, (i * 5 + i / 4) % 9);
  for (const char* op : {"scatter_add", "scatter_set", "scatter_max"}) {
    Sent sent = expect_same({"a=2, b=2",
                             "%x: f32[4@b,8@a], %i: i32[4@b,4], %u: f32[4@b,4]",
                             fmt::format(" %y = {}(%x, %i, %u) {}\n return %y\n", op, into),
                             {0, 2},
                             true,
                             {drawn_row(4, 8), places, drawn_row(4, 4)}});
    EXPECT_TRUE(sent.remarks.empty()) << sent.text;
    EXPECT_EQ(sent.forward, 0) << sent.text;
  }
  // Updates that ranks share: a sum, onto the shards.
  Sent sent = expect_same({"a=2",
                           "%x: f32[4,8@a], %i: i32[4,64@a], %u: f32[4,64@a]",
                           fmt::format(" %y = scatter_add(%x, %i, %u) {}\n return %y\n", into),
                           {0, 2},
                           true,
                           {drawn_row(4, 8)}});
  EXPECT_TRUE(sent.remarks.empty()) << sent.text;
  EXPECT_LE(sent.forward, 4 * 8 * kF32 / 2) << sent.text;
}

// Ranks that do not have an element add nothing to it, not even 0.0 to -0.0.
TEST(Rules, ZerosKeepTheirSigns) {
  Literal x = Literal::uninitialized(DType::kF32, {64}), ids(DType::kI32, {6});
  for (int64_t i = 0; i < 64; ++i) x.set(i, i % 3 == 0 ? -0.0 : i % 3 - 1);
  for (int64_t i = 0; i < 6; ++i) ids.set_i(i, i * 12);
  for (const std::string lookup :
       {"embedding(%t, %i)",
        "gather(%x, %i) {offset_dims=[], collapsed_slice_dims=[0], start_index_map=[0], index_vector_dim=1, slice_sizes=[1], "
        "out_of_range=\"clamp\"}",
        "dynamic_slice(%x, %j) {sizes=[6]}", "slice(%x) {starts=[1], limits=[7], strides=[1]}"}) {
    std::string body = lookup.find("%t") == std::string::npos ? "" : " %t = reshape(%x) {shape=[64, 1]}\n";
    Sent sent = expect_same({"a=4", "%x: f32[64@a], %i: i32[6], %j: i32[]",
                             fmt::format("{} %v = {}\n %w = reshape(%v) {{shape=[6]}}\n %one = constant() {{value=f32[6] {{splat 1}}}}\n"
                                         " %y = div(%one, %w)\n return %y\n", body, lookup),
                             {}, true, {x, ids, index(2)}});
    EXPECT_EQ(sent.ops, "all_reduce") << lookup;
  }
}

// ---- Composites across a row that ranks share: so many numbers per row, forward and on the way back

TEST(Rules, RowsAcrossRanksSendAFewNumbers) {
  struct Case {
    const char* params;
    const char* body;
    std::vector<int64_t> wrt;
    double forward, gradient;  ///< numbers per row that are all_reduced
  };
  for (const Case& c :
       {Case{"%x: f32[8,12@a]", " %y = softmax(%x) {axis=1}\n return %y\n", {0}, 2, 3},
        Case{"%x: f32[8,12@a]", " %y = log_softmax(%x) {axis=1}\n return %y\n", {0}, 2, 3},
        Case{"%x: f32[8,12@a]", " %y = logsumexp(%x) {axis=1}\n return %y\n", {0}, 2, 2},
        Case{"%x: f32[8,12@a], %g: f32[12@a]", " %y, %r = rms_norm(%x, %g)\n return %y\n", {0, 1}, 1, 2},
        Case{"%x: f32[8,12@a], %g: f32[12@a], %b: f32[12@a]",
             " %y, %m, %r = layer_norm(%x, %g, %b)\n return %y\n",
             {0, 1, 2},
             2,
             4},
        // And which rank has the label: a byte per row.
        Case{"%x: f32[8,12@a], %l: i32[8]", " %y, %s = cross_entropy(%x, %l)\n return %y\n", {0}, 3.25, 3.25}}) {
    Sent sent = expect_same({"a=4", c.params, c.body, c.wrt, true});
    EXPECT_TRUE(sent.remarks.empty()) << c.body;
    EXPECT_LE(sent.forward, reduced(4, c.forward * 8 * kF32)) << c.body << sent.text;
    EXPECT_LE(sent.gradient, reduced(4, c.gradient * 8 * kF32)) << c.body << sent.text;
  }
}

// ---- Sizes that are known only at run time

Literal drawn_array(std::vector<int64_t> shape) {
  Literal out = Literal::uninitialized(DType::kF32, std::move(shape));
  for (int64_t i = 0; i < out.size(); ++i) out.set(i, static_cast<double>(i * 37 % 101) / 25 - 2);
  return out;
}

TEST(Rules, SizesAreSymbols) {
  std::string symbols = "symbol n in [4, 64] multiple 4\n";
  Sent sent = expect_same({"a=4",
                           "%x: f32[n,16@a,2]",
                           " %y = cumsum(%x) {axis=1}\n return %y\n",
                           {0},
                           true,
                           {drawn_array({8, 16, 2})},
                           symbols});
  EXPECT_EQ(sent.ops, "all_gather") << sent.text;
  sent = expect_same({"a=4",
                      "%x: f32[n,16@a]",
                      " %z = constant() {value=f32[] {0}}\n %y = pad(%x, %z) {low=[0, 1], high=[0, -1], interior=[0, "
                      "0]}\n return %y\n",
                      {0},
                      true,
                      {drawn_array({8, 16})},
                      symbols});
  EXPECT_EQ(sent.ops, "permute") << sent.text;
  sent = expect_same(
      {"a=4", "%x: f32[3,n@a]", " %y = argmax(%x) {axis=1}\n return %y\n", {}, true, {drawn_array({3, 12})}, symbols});
  EXPECT_EQ(sent.ops, "all_reduce all_reduce") << sent.text;
  Literal q = drawn_array({1, 3, 12, 4});
  sent = expect_same({"a=4",
                      "%q: f32[1,3,n@a,4], %k: f32[1,3,n@a,4], %v: f32[1,3,n@a,4]",
                      " %y, %l = attention(%q, %k, %v) {causal=true}\n return %y\n",
                      {0, 1, 2},
                      true,
                      {q, q, q},
                      symbols});
  EXPECT_TRUE(sent.remarks.empty()) << sent.text;
  EXPECT_EQ(sent.text.find("all_gather"), std::string::npos) << sent.text;
  for (const char* op : {"cumsum", "cummax", "cumargmax"})
    for (const char* reverse : {"true", "false"}) {
      sent = expect_same({"a=4",
                          "%x: f32[3,n@a]",
                          fmt::format(" %y = {}(%x) {{axis=1, reverse={}}}\n return %y\n", op, reverse),
                          {},
                          true,
                          {drawn_array({3, 12})},
                          symbols});
      EXPECT_TRUE(sent.remarks.empty()) << sent.text;
      EXPECT_LE(sent.forward, gathered(4, 3 * (kF32 + kI32))) << sent.text;
    }
  // What needs the size gathers, and each rank has its part again.
  sent = expect_same({"a=4",
                      "%x: f32[3,n@a]",
                      " %y = argsort(%x) {axis=1}\n %z = shard(%y) {sharding=<{}, a>}\n return %z\n",
                      {},
                      true,
                      {drawn_array({3, 12})},
                      symbols});
  EXPECT_EQ(sent.remarks.size(), 1u) << sent.text;
}

// ---- Exchanges

TEST(Rules, SortsExchangeTheirRows) {
  Sent sent = expect_same({"a=4", "%x: f32[8,16@a]", " %y = argsort(%x) {axis=1}\n return %y\n", {}, true});
  EXPECT_EQ(sent.ops, "all_gather") << sent.text;  // all ranks want all of it
  sent = expect_same(
      {"a=4", "%x: f32[8,16@a]", " %y = argsort(%x) {axis=1}\n %z = shard(%y) {sharding=<{}, a>}\n return %z\n", {}});
  EXPECT_EQ(sent.ops, "all_to_all all_to_all") << sent.text;
  EXPECT_LE(sent.forward, 2 * 0.75 * 8 * 4 * kF32);
}

}  // namespace
}  // namespace nabla::shard_tests

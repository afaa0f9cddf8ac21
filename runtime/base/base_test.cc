// Diagnostics, codes, dtypes and literals.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"
#include "runtime/base/text.h"

namespace nabla {
namespace {

TEST(DType, EveryHalfPrecisionBitPatternSurvivesARoundTrip) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    uint32_t patterns = 1u << (8 * bytes_of(dtype));
    for (uint32_t bits = 0; bits < patterns; ++bits) {
      uint32_t out = 0;
      double value = get_float(dtype, &bits, 0);
      set_float(dtype, &out, 0, value);
      if (std::isnan(value))
        EXPECT_TRUE(std::isnan(get_float(dtype, &out, 0)));
      else
        EXPECT_EQ(bits, out) << name_of(dtype);
    }
  }
}

TEST(DType, RoundsToNearestEvenAndOverflowsToInfinity) {
  EXPECT_EQ(round_to(DType::kBF16, 1 + 1.0 / 256), 1);  // a tie goes to the even neighbour
  EXPECT_EQ(round_to(DType::kBF16, 1 + 3.0 / 256), 1 + 1.0 / 64);
  EXPECT_EQ(round_to(DType::kF16, 65519), 65504);
  EXPECT_TRUE(std::isinf(round_to(DType::kF16, 65520)));
  EXPECT_TRUE(std::isnan(round_to(DType::kF8E4M3, 1000)));  // e4m3fn has no infinity
}

TEST(DType, FloatToIntegerSaturates) {
  EXPECT_EQ(Literal::scalar(DType::kF32, 1e20).converted(DType::kI32).get_i(0), 2147483647);
  EXPECT_EQ(Literal::scalar(DType::kF32, std::nan("")).converted(DType::kI32).get_i(0), 0);
  EXPECT_EQ(Literal::scalar(DType::kF32, -3.9).converted(DType::kI8).get_i(0), -3);
}

TEST(Literal, CopiesAreIndependentOnceWritten) {
  Literal a = Literal::scalar(DType::kF32, 1);
  Literal b = a;
  b.set(0, 2);
  EXPECT_EQ(a.get(0), 1);
  EXPECT_EQ(b.get(0), 2);
}

TEST(Diagnostic, ShowsWhatWhereAndWhatToDo) {
  Diagnostic d = error(Code::kShapeMismatch, "dot: contracted sizes differ (C2): {} vs {}", 512, 256);
  d.location = std::make_shared<Location>(Location{"model.cc", 14, 0, "mlp_loss", "h = dot(x, w1);"});
  d.notes.push_back("%w1 is parameter \"w1\"");
  EXPECT_EQ(d.str(),
            "error[E0203]: dot: contracted sizes differ (C2): 512 vs 256\n"
            "  --> model.cc:14  in mlp_loss\n"
            "   | h = dot(x, w1);\n"
            "   = note: %w1 is parameter \"w1\"\n"
            "   = help: reshape, transpose or broadcast one of the operands\n");
}

TEST(Diagnostic, EscapesWhatATerminalWouldObey) {
  Diagnostic d = error(Code::kNotFound, "cannot open `{}`", "a\x1b[31m\nerror[E9999]: b");
  d.location = std::make_shared<Location>(Location{"x\x07.cc", 1, 2, "f\r", "\tone\xC2\x9Btwo"});
  d.notes.push_back("gr\xC3\xBC\xC3\x9F \xFF\x7F");
  EXPECT_EQ(d.str(),
            "error[E0801]: cannot open `a\\x1b[31m\\nerror[E9999]: b`\n"
            "  --> x\\x07.cc:1:2  in f\\r\n"
            "   | \tone\\xc2\\x9btwo\n"
            "   |  ^\n"
            "   = note: gr\xC3\xBC\xC3\x9F \\xff\\x7f\n"
            "   = help: check the path and its permissions\n");
}

TEST(Text, NumbersOfBytesHaveUnits) {
  EXPECT_EQ(parse_bytes("4096"), 4096);
  EXPECT_EQ(parse_bytes("64K"), 64000);
  EXPECT_EQ(parse_bytes("64KiB"), 65536);
  EXPECT_EQ(parse_bytes("1.5 GB"), 1500000000);
  EXPECT_EQ(parse_bytes("2GiB"), int64_t{2} << 30);
  EXPECT_EQ(parse_bytes("9223372036854775807"), INT64_MAX);
  for (const char* text : {"", "K", "-1", "-1K", "1.5", "12 bytes", "1k", "1e3", "0x10", "99999999G", "nan", "1  K"})
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
}

TEST(Diagnostic, SuggestsTheNearestName) {
  EXPECT_EQ(did_you_mean("soft_max", {"softmax", "sum"}), "; did you mean `softmax`?");
  EXPECT_EQ(did_you_mean("xyzzy", {"softmax", "sum"}), "");
}

}  // namespace
}  // namespace nabla

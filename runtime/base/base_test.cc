// Diagnostics, codes, dtypes and literals.
#include <gtest/gtest.h>

#include <cmath>

#include "runtime/base/debug.h"
#include "runtime/base/check.h"
#include "runtime/base/check_handler.h"
#include "runtime/base/diagnostic.h"
#include "runtime/base/literal.h"
#include "runtime/base/text.h"

namespace nabla {
namespace {

TEST(DType, EveryBitPatternOfNarrowFloatsSurvivesARoundTrip) {
  for (DType dtype : {DType::kF16, DType::kBF16, DType::kF8E4M3, DType::kF8E5M2}) {
    uint32_t patterns = 1u << (8 * bytes_of(dtype));
    for (uint32_t bits = 0; bits < patterns; ++bits) {
      uint32_t out = 0;
      double value = get_float(dtype, &bits, 0);
      set_float(dtype, &out, 0, value);
      ASSERT_EQ(bits, out) << name_of(dtype) << " " << value;
      double copy = 0;
      set_float(DType::kF64, &copy, 0, value);
      set_float(dtype, &out, 0, get_float(DType::kF64, &copy, 0));
      ASSERT_EQ(bits, out) << name_of(dtype) << " through f64";
      uint32_t f32 = 0;
      set_float(DType::kF32, &f32, 0, value);
      set_float(dtype, &out, 0, get_float(DType::kF32, &f32, 0));
      ASSERT_EQ(bits, out) << name_of(dtype) << " through f32";
    }
  }
}

TEST(DType, NaNsOfF32KeepTheirBits) {
  for (uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xff800001u, 0xffffffffu, 0x7fa12345u}) {
    uint32_t out = 0;
    set_float(DType::kF32, &out, 0, get_float(DType::kF32, &bits, 0));
    EXPECT_EQ(bits, out);
  }
  uint16_t half = 0;  // a NaN of which the half would keep no bit
  uint32_t small = 0x7f800001;
  set_float(DType::kF16, &half, 0, get_float(DType::kF32, &small, 0));
  EXPECT_EQ(half, 0x7e00);
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

TEST(Diagnostic, PlacesFollowWhatLiesThere) {
  auto at = [](const std::string& file, int line) { return at_place(std::make_shared<Location>(Location{file, line, 0, "", ""})); };
  EXPECT_EQ(at("model.cc", 14), " at model.cc:14");
  EXPECT_EQ(at("model.nir", 0), " in model.nir");
  EXPECT_EQ(at("", 14), "");
  EXPECT_EQ(at_place(nullptr), "");
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

TEST(Text, QuotesOfFilesAreShort) {
  EXPECT_EQ(shortened("gemm = x", 8), "gemm = x");
  EXPECT_EQ(shortened("gemm = xy", 8), "gemm = x... (9 bytes)");
  EXPECT_EQ(shortened("abc\xC3\xA9-", 4), "abc... (6 bytes)") << "no half of a character";
  EXPECT_LT(shortened(std::string(3 << 20, '\xBF')).size(), 150u) << "no text at all";
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

[[noreturn]] void throw_text(const std::string& report) { throw report; }

TEST(Check, FailsThroughTheHandlerOfTheProcessThatHasOne) {
  std::string kept;
  set_check_handler(&throw_text);
  try {
    ScopedRescue rescue([&] { kept = "kept"; });
    ScopedActivity activity("a test");
    NABLA_CHECK(kept == "never", "of {}", 3);
    FAIL();
  } catch (const std::string& report) {
    EXPECT_NE(report.find("internal check failed: kept == \"never\": of 3\n  while: a test\n"), std::string::npos);
    EXPECT_EQ(kept, "kept");
  }
  set_check_handler(nullptr);
  EXPECT_DEATH(NABLA_CHECK(kept.empty()), "internal check failed: kept.empty\\(\\)");
}

TEST(Diagnostic, SuggestsTheNearestName) {
  EXPECT_EQ(did_you_mean("soft_max", {"softmax", "sum"}), "; did you mean `softmax`?");
  EXPECT_EQ(did_you_mean("xyzzy", {"softmax", "sum"}), "");
  EXPECT_EQ(nearest_name("softmxa", {"sum", "softmin", "softmax"}), "softmax");
  EXPECT_EQ(nearest_name("bacht", {"len", "batch"}), "batch");
}

TEST(Diagnostic, SuggestsNoNameThatIsAnother) {
  for (const char* name : {"zz", "a", "x", "dptp", "ring", "pd2"}) EXPECT_EQ(nearest_name(name, {"dp", "tp", "m"}), "") << name;
  EXPECT_EQ(nearest_name("rows", {"cols"}), "");
  EXPECT_EQ(nearest_name("pd", {"tp", "dp"}), "dp");
  EXPECT_EQ(nearest_name("ep", {"tp", "dp"}), "tp");
  EXPECT_EQ(nearest_name("d", {"tp", "dp"}), "dp");
  EXPECT_EQ(nearest_name("tpp", {"dp", "tp"}), "tp");
  EXPECT_EQ(nearest_name("", {"m"}), "");
}

std::string shown(std::string_view text, std::vector<Literal> operands) {
  return debug_line({.text = text, .operands = operands});
}

TEST(Debug, FieldsTakeOperandsInTheirOrder) {
  Literal row = Literal::from_bytes(DType::kF32, {2}, std::vector<float>{0.1f, 2}.data());
  EXPECT_EQ(shown("a {} b {:.2f} {{}}", {row, row}), "a [0.1, 2] b [0.10, 2.00] {}");
  EXPECT_EQ(shown("{} {}", {Literal(DType::kBool, {}), Literal::scalar_int(DType::kU64, -1)}),
            "False 18446744073709551615");
  EXPECT_EQ(shown("{}", {Literal(DType::kI8, {0, 3})}), "[]");
  EXPECT_EQ(shown("{:d}", {Literal(DType::kI8, {2, 1})}), "[[0], [0]]");
  Literal large(DType::kI32, {2, 600});
  for (int i = 0; i < 1200; ++i) large.set_i(i, i);
  EXPECT_EQ(shown("{}", {large}), "[[0, 1, 2, ..., 597, 598, 599], [600, 601, 602, ..., 1197, 1198, 1199]]");
  EXPECT_EQ(debug_line({.callback = "watch", .operands = std::span(&row, 1)}), "watch([0.1, 2])");
}

TEST(Debug, TextsThatDoNotFitTheirOperandsAreRefused) {
  auto why = [](std::string_view text, std::vector<DType> operands) {
    Status status = check_debug_text(text, operands);
    return status.ok() ? "" : status.errors()[0].message;
  };
  EXPECT_EQ(why("{} {{ {:8.3e}", {DType::kI32, DType::kBF16}), "");
  EXPECT_EQ(why("{}", {}), "`{}` has 1 fields for 0 operands");
  EXPECT_EQ(why("{x}", {DType::kF32}), "`{x}`: a field is {} or {:SPEC}, got `{x`");
  EXPECT_EQ(why("{", {DType::kF32}), "`{`: a field is {} or {:SPEC}, got `{`");
  EXPECT_EQ(why("a}", {}), "`a}`: a single `}`; write `}}`");
  EXPECT_TRUE(why("{:d}", {DType::kF32}).starts_with("`{:d}`: field 0 `{:d}` does not format f32: "));
  EXPECT_TRUE(why("{:.1f}", {DType::kI32}).starts_with("`{:.1f}`: field 0 `{:.1f}` does not format i32: "));
}

TEST(Debug, EventsGoToTheSinkOfTheProcess) {
  std::string got;
  set_debug_sink([&](const DebugEvent& event) -> Status {
    got = fmt::format("{} {} {}", event.entry, event.run, debug_line(event));
    return error(Code::kCallbackFailed, "no more");
  });
  EXPECT_EQ(debug({.text = "x", .operands = {}, .entry = "step", .run = 3}).errors()[0].code, Code::kCallbackFailed);
  EXPECT_EQ(got, "step 3 x");
  set_debug_sink({});
  testing::internal::CaptureStdout();
  EXPECT_TRUE(debug({.text = "x", .operands = {}, .entry = "step", .run = 3}).ok());
  EXPECT_TRUE(debug({.text = "y", .operands = {}}).ok());
  EXPECT_EQ(testing::internal::GetCapturedStdout(), "step 3: x\ny\n");
}

}  // namespace
}  // namespace nabla

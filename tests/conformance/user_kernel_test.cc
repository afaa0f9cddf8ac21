// Kernels of the user's from the frontend to a running bundle: against their references, under transforms, at every
// size, on several threads, and what is said of code that does not compile.
#include <gtest/gtest.h>

#include <random>

#include "cli/driver/compile.h"
#include "frontend/nabla.h"
#include "ir/kernel_ir/kernel.h"
#include "ir/ops/all_ops.h"
#include "ir/reference/interpreter.h"
#include "ir/serialize.h"
#include "ir/text.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/property/compare.h"

namespace nabla {
namespace {

Result<driver::CompiledBundle> compile(const ir::Module& module) {
  driver::CompileOptions options;
  options.target = "cpu:native";
  return driver::compile(module, options);
}

std::unique_ptr<exec::Session> session_of(const ir::Module& module) {
  driver::CompiledBundle bundle = compile(module).value();
  format::Bundle opened =
      format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle.bytes)), "test").value();
  return exec::Session::create(std::move(opened), {.threads = 2}).value();
}

Literal drawn(DType dtype, std::vector<int64_t> shape, uint64_t seed) {
  std::mt19937_64 rng(seed);
  Literal x(dtype, std::move(shape));
  for (int64_t i = 0; i < x.size(); ++i) x.set(i, std::uniform_real_distribution<double>(-2, 2)(rng));
  return x;
}

// Entry 0 of the program against the interpreter, which knows the kernel by its reference.
void check(const Program& program, const std::vector<std::vector<Literal>>& runs, double tolerance = 1e-5) {
  ir::Module flat = driver::simplify_module(program.module(), ir::find_target("cpu").value()).value();
  auto session = session_of(program.module());
  for (const std::vector<Literal>& inputs : runs) {
    std::vector<Literal> want = ir::interpret(flat, flat.entries[0].function, inputs).value();
    Result<std::vector<Literal>> got = session->call(0, inputs);
    ASSERT_TRUE(got.ok()) << to_string(got.errors());
    EXPECT_EQ(property::difference(want, *got, property::Tolerance{tolerance}).value_or(""), "");
  }
}

UserKernel swish() {
  return cpp_kernel("swish", "T[n] -> T[n]", R"(
#include <math.h>
#define HALF T(0.5)
static T sigmoid(T x) { return HALF + HALF * T(tanh(double(HALF * x))); }
void swish(const T* x, T* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * sigmoid(x[i]);
})")
      .reference([](Tensor x) { return x * logistic(x); })
      .factors("n->n");
}

// Row sums of x * s, and how many elements of each row are positive.
UserKernel weighted(Batching batching) {
  bool leads = batching == leading();
  std::string text = R"(
void weighted(const float* x, const float* s, float* y, int32_t* count, BATCH int64_t n, int64_t d) {
  for (int64_t b = 0; b < EXAMPLES; ++b)
    for (int64_t i = 0; i < n; ++i) {
      float sum = 0;
      int32_t positive = 0;
      for (int64_t j = 0; j < d; ++j) {
        float v = x[(b * n + i) * d + j];
        sum += v * s[b * d + j];
        positive += v > 0;
      }
      y[b * n + i] = sum;
      count[b * n + i] = positive;
    }
})";
  auto put = [&](const std::string& what, const std::string& with) {
    text.replace(text.find(what), what.size(), with);
  };
  put("BATCH", leads ? "int64_t batch," : "");
  put("EXAMPLES", leads ? "batch" : "1");
  return cpp_kernel("weighted", "f32[n,d], f32[d] -> f32[n], i32[n]", text)
      .reference([](Tensor x, Tensor s) { return std::pair(sum(x * s, {1}), sum(convert(x > 0.0, i32), {1})); })
      .factors("nd,d->n,n")
      .batching(batching);
}

TEST(UserKernels, AgreeWithTheirReferenceInSeveralDtypes) {
  for (DType dtype : {f32, f64})
    for (int64_t n : {0, 1, 7, 64, 1009}) {
      Program program;
      program.entry("main", {{"x", dtype, {n}}}, [&](Tensor x) -> Outputs { return {{"y", swish()(x)}}; });
      check(program, {{drawn(dtype, {n}, 1)}});
    }
}

TEST(UserKernels, RunAtEverySizeOfASymbol) {
  Program program;
  ir::Dim n = program.symbol("n", 0, 70000), d = program.symbol("d", 1, 64);
  program.entry("main", {{"x", f32, {n, d}}, {"s", f32, {d}}}, [&](Tensor x, Tensor s) -> Outputs {
    std::vector<Tensor> all = weighted(sequential()).results({x, s});
    return {{"y", all[0]}, {"count", all[1]}};
  });
  std::vector<std::vector<Literal>> runs;
  for (auto [rows, columns] : {std::pair<int64_t, int64_t>{0, 1}, {1, 1}, {13, 7}, {4099, 31}, {70000, 3}})
    runs.push_back({drawn(f32, {rows, columns}, 2), drawn(f32, {columns}, 3)});
  check(program, runs);
}

// Rows go to threads in fixed blocks: the plan has several units, and the answer is that of one call.
TEST(UserKernels, RowsAreSharedOutToThreads) {
  Program program;
  program.entry("main", {{"x", f32, {100003}}}, [&](Tensor x) -> Outputs { return {{"y", swish()(x)}}; });
  driver::CompiledModule lowered = driver::lower_module(program.module(), {.target = "cpu:x86-64-v3"}).value();
  ASSERT_EQ(lowered.planned.kernels.size(), 1u);
  EXPECT_EQ(lowered.planned.functions.size(), 1u) << "the reference is not part of the program";
  EXPECT_EQ(lowered.planned.kernels[0]->name, "swish");
  EXPECT_GT(cpu_schedule_of(*lowered.planned.kernels[0]).units.value(), 4);
  check(program, {{drawn(f32, {100003}, 4)}});
}

TEST(UserKernels, HaveDerivativesAndBatches) {
  for (Batching batching : {sequential(), leading()}) {
    Program program;
    program.entry("main", {{"x", f32, {5, 3, 4}}, {"s", f32, {4}}}, [&](Tensor x, Tensor s) -> Outputs {
      auto loss = [&](Tensor a, Tensor b) { return sum(exp(weighted(batching).results({a, b})[0])); };
      Tensor each = vmap(grad(loss), {.in_axes = {0, unmapped}})(x, s);
      Tensor whole = grad([&](Tensor v) {
        return sum(vmap([&](Tensor a) { return weighted(batching).results({a, s})[0]; })(v) * 2.0);
      })(x);
      auto nested = vmap(vmap(
                             [&](Tensor a, Tensor b) {
                               return weighted(batching).results({a, b})[0];
                             },
                             {.in_axes = {unmapped, 0}}),
                         {.in_axes = {0, unmapped}})(x, broadcast_to(s, {2, 4}));
      return {{"each", each}, {"whole", whole}, {"nested", nested}};
    });
    check(program, {{drawn(f32, {5, 3, 4}, 5), drawn(f32, {4}, 6)}}, 3e-5);
  }
}

TEST(UserKernels, TakeTheirDerivativeFromAKernel) {
  UserKernel backward = cpp_kernel("cube_back", "f32[n], f32[n] -> f32[n]", R"(
void cube_back(const float* x, const float* ct, float* dx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) dx[i] = 3 * x[i] * x[i] * ct[i];
})")
                            .reference([](Tensor x, Tensor ct) { return 3.0 * x * x * ct; });
  UserKernel cube = cpp_kernel("cube", "f32[n] -> f32[n]", R"(
void cube(const float* x, float* y, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * x[i] * x[i];
})")
                        .vjp([&](Tensor x, Tensor, Tensor ct) { return backward(x, ct); });
  Program program;
  program.entry("main", {{"x", f32, {6}}}, [&](Tensor x) -> Outputs {
    Tensor g = grad([&](Tensor v) { return sum(cube(v)); })(x);
    Tensor t = jvp([&](Tensor v) { return cube(v); }, x, x).second;  // the vjp's transpose
    return {{"g", g}, {"t", t}};
  });
  Literal x = drawn(f32, {6}, 8);
  std::vector<Literal> got = session_of(program.module())->call(0, {x}).value();
  for (int64_t i = 0; i < 6; ++i) {
    EXPECT_NEAR(got[0].get(i), 3 * x.get(i) * x.get(i), 1e-5);
    EXPECT_NEAR(got[1].get(i), 3 * x.get(i) * x.get(i) * x.get(i), 1e-4);
  }
  // The interpreter does not know what `cube` means.
  ir::Module flat = driver::simplify_module(program.module(), ir::find_target("cpu").value()).value();
  Program forward;
  forward.entry("main", {{"x", f32, {6}}}, [&](Tensor v) -> Outputs { return {{"y", cube(v)}}; });
  Result<std::vector<Literal>> unknown = ir::interpret(forward.module(), forward.module().entries[0].function, {x});
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.errors()[0].message, "custom_call has no reference: give `cube` one with .reference(f)");
}

TEST(UserKernels, WithoutARuleTheDerivativeIsRefusedAtTheCall) {
  UserKernel plain = cpp_kernel("plain", "f32[n] -> f32[n]", "void plain(const float*, float*, int64_t) {}");
  Program program;
  int line = __LINE__ + 2;
  program.entry("main", {{"x", f32, {6}}}, [&](Tensor x) -> Outputs {
    Tensor g = grad([&](Tensor v) { return sum(plain(v)); })(x);
    return {{"g", g}};
  });
  Result<driver::CompiledBundle> bundle = compile(program.module());
  ASSERT_FALSE(bundle.ok());
  EXPECT_NE(bundle.errors()[0].message.find("`plain` has neither a `vjp` nor a `reference`"), std::string::npos);
  EXPECT_EQ(bundle.errors()[0].location->line, line);
}

// Two kernels may use one name for different things, and what headers declare.
TEST(UserKernels, ShareNothing) {
  UserKernel a = cpp_kernel("round", "f32[n] -> f32[n]", R"(
#include <math.h>
#define STEP 1.0f
float helper(float x) { return x + STEP; }
void round(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = helper(x[i]); })");
  UserKernel b = cpp_kernel("round", "f32[n] -> f32[n]", R"(
#if 0
#include <no_such_header>
#endif
/* not here:
#include <no_such_header> */
float helper(float x) { return x * 2; }
#ifdef STEP
#error seen
#endif
void round(const float* x, float* y, int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = helper(x[i]); })");
  Program program;
  program.entry("main", {{"x", f32, {3}}}, [&](Tensor x) -> Outputs { return {{"y", b(a(x))}}; });
  Literal x(f32, {3});
  EXPECT_EQ(session_of(program.module())->call(0, {x}).value()[0].get(0), 2);
}

Diagnostic refused(const std::string& source) {
  Program program;
  program.entry("main", {{"x", f32, {3}}}, [&](Tensor x) -> Outputs {
    return {{"y", cpp_kernel("twice", "T[n] -> T[n]", source)(x)}};
  });
  Result<driver::CompiledBundle> bundle = compile(program.module());
  if (!bundle.ok()) return bundle.errors()[0];
  ADD_FAILURE() << source << " compiles";
  return error(Code::kMisuse, "none");
}

TEST(UserKernels, CodeThatDoesNotCompileIsShownAtItsLine) {
  Diagnostic d = refused("\nvoid twice(const T* x, T* y, int64_t n) {\n  y[0] = undeclared;\n}\n");
  EXPECT_EQ(d.code, Code::kUserCode);
  EXPECT_NE(d.message.find("kernel `twice` does not compile: "), std::string::npos) << d.message;
  EXPECT_NE(d.message.find("undeclared"), std::string::npos) << d.message;
  ASSERT_TRUE(d.location);
  EXPECT_TRUE(d.location->file.ends_with("user_kernel_test.cc")) << d.location->file;
  EXPECT_EQ(d.location->text, "  y[0] = undeclared;");
  EXPECT_EQ(d.location->column, 10);
  EXPECT_EQ(d.help, "the source must define void twice(const float* x0, float* y0, int64_t n)");
  EXPECT_EQ(d.str().find("reproducer"), std::string::npos);

  Diagnostic type = refused("void twice(const T* x, T* y, int n) {}");
  EXPECT_NE(type.message.find("expected void twice(const float* x0, float* y0, int64_t n)"), std::string::npos)
      << type.message;
  Diagnostic missing = refused("void thrice(const T* x, T* y, int64_t n) {}");
  EXPECT_EQ(missing.message, "kernel `twice`: its source defines no function `twice`; it defines `thrice`");
  EXPECT_EQ(missing.str().find("nb_"), std::string::npos) << missing.str();
  Diagnostic file = refused("/*\n#include \"old.h\"\n*/\n#include \"mine.h\"\nvoid twice(const T* x, T* y, int64_t n) {}");
  EXPECT_EQ(file.message, "kernel `twice` reads a file of its own: `#include \"mine.h\"`");
  EXPECT_EQ(file.help, "put its text into the source; headers of the system are included by <name>");
  Diagnostic library = refused(
      "void twice(const T* x, T* y, int64_t n) { y[0] = T(long(operator new(static_cast<unsigned long>(n)))); }");
  EXPECT_EQ(library.code, Code::kUserCode);
  EXPECT_NE(library.message.find("which neither its source nor libc or libm defines"), std::string::npos)
      << library.message;
}

// What a text defines reaches neither the check of its function's type nor the code that calls it.
TEST(UserKernels, TheTypeCheckStandsOutsideOfTheText) {
  const std::string body = " { for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i]; }\n";
  const std::string good = "void twice(const float* x, float* y, int64_t n)";
  const std::string expected = "expected void twice(const float* x0, float* y0, int64_t n)";
  for (const std::string& text :
       {"#define float double\n" + good + body, "#include <math.h>\n#define float double\n" + good + body,
        "#define int64_t short\n" + good + body,
        "#define static_assert(...)\n#define decltype(x) void(const float*, float*, int64_t)\n"
        "#define float double\n" +
            good + body}) {
    Diagnostic d = refused(text);
    EXPECT_EQ(d.code, Code::kUserCode) << text;
    EXPECT_NE(d.message.find(expected), std::string::npos) << text << d.message;
  }
  EXPECT_EQ(refused("#define twice other\n" + good + body).code, Code::kUserCode);
  EXPECT_EQ(refused("#define float double\n#include <math.h>\n" + good + body).code, Code::kUserCode);
  for (const std::string& text :
       {good + body + "}\nnamespace nabla_user {\n", good + body + "}}\nnamespace { namespace a {\n",
        "}\n" + good + body + "namespace {\n"}) {
    Diagnostic d = refused(text);
    EXPECT_NE(d.message.find("the source closes a brace that it does not open"), std::string::npos) << d.message;
  }
  EXPECT_EQ(refused(good + body + "}\n").code, Code::kUserCode);
  EXPECT_EQ(refused(good + body + "namespace a {\n").code, Code::kUserCode);
  EXPECT_EQ(refused(good + body + "/*").code, Code::kUserCode);
  EXPECT_NE(refused("#define const\n" + good + body).message.find(expected), std::string::npos);
  for (const std::string& text :
       {good + " noexcept" + body, "#define args 1\n#define begin 2\n" + good + body + "// the end \\"}) {
    Program program;
    program.entry("main", {{"x", f32, {3}}}, [&](Tensor x) -> Outputs {
      return {{"y", cpp_kernel("twice", "f32[n] -> f32[n]", text)(x)}};
    });
    Literal x(f32, {3});
    x.set(1, 1.5);
    EXPECT_EQ(session_of(program.module())->call(0, {x}).value()[0].get(1), 3);
  }
}

TEST(UserKernels, PlacesThatNoCompilerTakesAreRefused) {
  auto message = [](const std::string& attrs) {
    Result<ir::Module> m =
        ir::parse_module("nabla 1 traced\nfunc @f(%x: f32[3]) {\n  %y = custom_call(%x) {name=\"twice\", cpp=\"\", " +
                             attrs + ", signature=\"T[n] -> T[n]\"}\n  return %y\n}\n",
                         "m.nbl", ops::all_ops());
    return m.ok() ? std::string() : m.errors()[0].message;
  };
  EXPECT_EQ(message("line=2147483648"), "custom_call: line is 2147483648, expected 1 to 1000000000 (C7)");
  EXPECT_EQ(message("file=\"a\\nb\""),
            "custom_call: file is \"a\\nb\", expected a name without quotes and control characters (C7)");
  EXPECT_EQ(message("batching=\"leading\", batch_dims=9223372036854775807"),
            "custom_call: batch_dims is 9223372036854775807, but operand 0, f32[3], has 1 dimensions (C3)");
  EXPECT_EQ(message("file=\"a.cc\", line=1000000000"), "");
}

// Files from before there was `cuda` have none of its attributes.
TEST(UserKernels, OlderFilesAreRead) {
  ir::Module m = ir::parse_module(
                     "nabla 1 traced\nfunc @f(%x: f32[3]) {\n  %y = custom_call(%x) {name=\"twice\", cpp=\"text\", "
                     "file=\"a.cc\", line=3, signature=\"T[n] -> T[n]\"}\n  return %y\n}\n",
                     "m.nbl", ops::all_ops())
                     .value();
  const ir::Attrs& attrs = m.functions[0]->nodes[0].attrs;
  EXPECT_EQ(attrs.get_string("cuda"), "");
  EXPECT_EQ(attrs.get_int("threads"), 256);
  EXPECT_EQ(ir::print(m).find("cuda"), std::string::npos);
}

// Text, JSON and binary forms hold the source exactly; so does the text of the kernel after lowering.
TEST(UserKernels, SurviveEveryForm) {
  const std::string odd =
      "// \"quotes\", \\n, tab \t, braces }{ and umlauts \xc3\xbc\r\nvoid odd(const T* x, T* y, "
      "int64_t n) { for (int64_t i = 0; i < n; ++i) y[i] = x[i] + '}' - '}'; }\n";
  Program program;
  program.entry("main", {{"x", f32, {40000}}}, [&](Tensor x) -> Outputs {
    return {{"y", cpp_kernel("odd", "T[n] -> T[n]", odd)
                      .cuda(odd + "// for GPUs\n", {.threads = 96, .blocks = "ceildiv(n, 96)", .shared_bytes = 32})
                      .factors("n->n")(x)}};
  });
  const ir::Module m = program.module();
  std::string text = ir::print(m);
  ir::Module parsed = ir::parse_module(text, "text", ops::all_ops()).value();
  EXPECT_EQ(ir::print(parsed), text);
  for (ir::Form form : {ir::Form::kJson, ir::Form::kBinary}) {
    ir::Encoded encoded = ir::encode(m, form, "consts").value();
    EXPECT_EQ(ir::print(ir::decode(encoded.bytes, form, "again", ops::all_ops()).value()), text);
  }
  ir::Module lowered = driver::lower_module(m, {.target = "cpu:x86-64-v3"}).value().planned;
  std::string kernel = kernel_ir::print(*lowered.kernels[0]);
  kernel_ir::Kernel again = kernel_ir::parse_kernel(kernel, "kernel").value();
  EXPECT_EQ(again.procedure->user->cpp.text, odd);
  EXPECT_EQ(again.procedure->user->cuda.text, odd + "// for GPUs\n");
  EXPECT_EQ(again.procedure->user->cuda_threads, 96);
  EXPECT_EQ(again.procedure->user->cuda_shared_bytes, 32);
  EXPECT_TRUE(again.procedure->cuda_blocks().is(417));
  EXPECT_TRUE(again.procedure->user->by_rows[0]);
  EXPECT_EQ(kernel_ir::print(again), kernel);
  std::string module = "nabla 1 kernels\n\n" + kernel;
  EXPECT_NE(ir::print(ir::parse_module(module, "kernels", ops::all_ops()).value()).find(kernel), std::string::npos);
}

}  // namespace
}  // namespace nabla

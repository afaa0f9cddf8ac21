#include "tests/shard/rules_run.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/driver/compile.h"
#include "ir/ops/all_ops.h"
#include "ir/text.h"
#include "passes/simplify/simplify.h"
#include "runtime/exec/session.h"
#include "runtime/format/bundle_reader.h"
#include "tests/property/compare.h"
#include "tests/shard/collectives_of.h"
#include "tests/shard/sharded_run.h"
#include "tests/transforms/random_function.h"

namespace nabla::shard_tests {
namespace {

// @f, and @loss, the sum of the squares of what @f makes.
ir::Module parsed(const Scene& s) {
  std::string text =
      "nabla 1 traced\n" + s.symbols + "mesh m = {" + s.mesh + "}\nfunc @f(" + s.params + ") {\n" + s.body + "}\n";
  Result<ir::Module> m = ir::parse_module(text, "test.nbl", ops::all_ops());
  EXPECT_TRUE(m.ok()) << text << (m.ok() ? "" : to_string(m.errors()));
  return m.ok() ? *m : ir::Module();
}

}  // namespace

void add_gradient(ir::Module& m, const std::vector<int64_t>& wrt) {
  const ir::Function& f = *m.find("f");
  ir::FunctionBuilder b("loss", ops::all_ops(), &m);
  std::vector<ir::Val> params;
  for (ir::ValueId id : f.params) params.push_back(b.param(f.values[id].name, f.type(id)));
  ir::Val y = b.op("call", params, {{"callee", ir::FunctionRef{"f"}}});
  ir::Val scaled = y * b.like(y, 0.25);
  m.set(std::make_shared<const ir::Function>(b.finish({ir::reduce_sum(scaled * y, ir::iota_ints(y.rank()))})));
  transforms::add_wrapper(m, "g", "grad", "loss", {{"wrt", ir::Ints(wrt)}});
}

void lay_out_as(ir::Module& m, const std::string& name, const ir::Function& like) {
  ir::Function f = *m.find(name);
  for (size_t i = 0; i < f.params.size(); ++i) f.values[f.params[i]].sharding = like.values[like.params[i]].sharding;
  m.set(std::make_shared<const ir::Function>(std::move(f)));
}

namespace {

// Floats are the shuffled multiples of a step, so that none tie; integers lie in [0, 7].
Literal drawn(const ir::Type& type, ir::Rng& rng) {
  Literal out = Literal::uninitialized(type.dtype, type.extents());
  std::vector<int64_t> order(static_cast<size_t>(out.size()));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int64_t>(i);
  std::shuffle(order.begin(), order.end(), rng);
  auto count = static_cast<double>(order.size());
  for (int64_t i = 0; i < out.size(); ++i)
    if (is_float(type.dtype))
      out.set(i, (static_cast<double>(order[static_cast<size_t>(i)]) + 0.5) / count * 4 - 1.9);
    else
      out.set_i(i, type.dtype == DType::kBool ? static_cast<int64_t>(rng() % 2) : static_cast<int64_t>(rng() % 8));
  return out;
}

ir::Module simplified(const ir::Module& local) {
  ir::Target target;
  passes::PassContext context{ops::all_ops(), target};
  ir::Module merged = passes::merge_common_subexpressions(local, context).value();
  return passes::eliminate_dead_code(merged, context).value();
}

void run_compiled(ir::Module flat, const std::string& name, const std::vector<Literal>& args,
                  const std::vector<Literal>& expected) {
  const ir::Function& f = *flat.find(name);
  ir::Entry e{name, name, {}, {}, {}, {}};
  for (size_t i = 0; i < f.params.size(); ++i) e.inputs.push_back(fmt::format("a{}", i));
  for (size_t i = 0; i < f.results.size(); ++i) e.outputs.push_back(fmt::format("r{}", i));
  flat.entries.push_back(std::move(e));
  auto bundle = driver::compile(flat, {.target = "cpu", .library = false, .jobs = 2});
  ASSERT_TRUE(bundle.ok()) << to_string(bundle.errors()) << print(flat);
  auto opened = format::Bundle::from_bytes(format::FileBytes::copy_of(format::as_bytes(bundle->bytes)), "test");
  ASSERT_TRUE(opened.ok()) << to_string(opened.errors());
  auto session = exec::Session::create(std::move(*opened), {.threads = 1});
  ASSERT_TRUE(session.ok()) << to_string(session.errors());
  auto got = (*session)->call((*session)->find_entry(name), args);
  ASSERT_TRUE(got.ok()) << to_string(got.errors());
  auto text = property::difference(expected, *got, property::Tolerance{.relative = 2e-5, .least_scale = 1});
  EXPECT_FALSE(text) << "compiled @" << name << ": " << *text << "\n" << print(flat);
}

}  // namespace

double bytes_sent(const ir::Module& m, const std::string& function) {
  double out = 0;
  for_each_collective(m, function, [&](const ir::Function& f, const ir::Node& n, int64_t times) {
    auto ranks = static_cast<double>(n.attrs.get_int("shards"));
    auto bytes = static_cast<double>(times) * static_cast<double>(f.type(n.operands[0]).bytes().bounds().max);
    const std::string& op = n.op->name;
    if (op == "all_gather") out += (ranks - 1) * bytes;
    if (op == "all_reduce") out += 2 * (ranks - 1) / ranks * bytes;
    if (op == "reduce_scatter" || op == "all_to_all") out += (ranks - 1) / ranks * bytes;
    if (op == "permute") out += bytes;
  });
  return out;
}

Sent expect_same(const Scene& s) {
  Sent out;
  ir::Module traced = parsed(s);
  if (!traced.find("f")) return out;
  const ir::Function written = *traced.find("f");
  ir::Rng rng(7);
  std::vector<Literal> args = s.args;
  while (args.size() < written.params.size()) args.push_back(drawn(written.type(written.params[args.size()]), rng));
  if (!s.wrt.empty()) add_gradient(traced, s.wrt);
  ir::Module flat = transforms::flattened(traced);
  for (const char* name : {"f", "g"}) {
    if (!flat.find(name)) continue;
    lay_out_as(flat, name, written);
    ir::Module one = flat;
    one.functions = {std::make_shared<const ir::Function>(*flat.find(name))};
    std::vector<Literal> expected = transforms::run(one, name, args);
    Result<ShardedRun> got = run_sharded(one, name, args);
    EXPECT_TRUE(got.ok()) << (got.ok() ? "" : to_string(got.errors())) << print(one);
    if (!got.ok()) return out;
    auto text = property::difference(expected, got->results, property::Tolerance{.relative = 2e-6, .least_scale = 1});
    EXPECT_FALSE(text) << "@" << name << ": " << *text << "\n" << print(got->sharded) << print(got->local);
    ir::Module local = simplified(got->local);
    (name[0] == 'f' ? out.forward : out.gradient) = bytes_sent(local, name);
    for (const auto& f : local.functions) out.text += print(*f);
    if (name[0] == 'f') out.remarks = got->remarks;
    // Cases that leave an axis of the mesh alone are none the worse for it.
    std::erase_if(out.remarks, [](const ir::Remark& r) { return r.kind == ir::RemarkKind::kIdleAxis; });
    for (const ir::Node& n : local.find(name)->nodes)
      if (name[0] == 'f' && n.op->lower == ir::Lowering::kCollective) out.ops += (out.ops.empty() ? "" : " ") + n.op->name;
    if (s.compiled) run_compiled(one, name, args, expected);
  }
  return out;
}

}  // namespace nabla::shard_tests

// The pages of `nablac inspect --html` in a real browser: a script clicks and types, and writes down what it sees.
#include "tests/page/page_run.h"

namespace nabla::page_tests {
namespace {

TEST_F(Page, ABundleOfTheDigitsIsShownWhole) {
  string bundle = scratch("mlp.nbundle");
  must("examples/digits/mlp " + scratch("mlp.nir"));
  must("cli/nablac compile " + scratch("mlp.nir") + " -o " + bundle);
  string page = page_of(bundle);
  string first = read(page);
  EXPECT_EQ(first, read(page_of(bundle))) << "equal input, other bytes";
  Json found = drive(page, R"js(
    tour();
    press("/");
    findings.focused = document.activeElement.id;
    type("search", "mlp.h:27 dot_general");
    findings.hits = textOf("#found .hit");
    press("Enter", document.getElementById("search"));
    findings.tab = view.tab;
    findings.details = document.getElementById("details").textContent;
    findings.chosen = all("#boxes .chosen").map((e) => e.getAttribute("aria-label"));
    findings.traced = all("#traced path").length;
    click(all("#details button.link.mono")[0]);
    findings.code = document.querySelector("#kernel-text .generated").textContent;
    findings.lines = document.querySelector("#kernel-text .lines").textContent;
    tabNamed("memory");
    click(all("#arena rect.buffer")[0]);
    findings.buffer = document.getElementById("details").textContent;
    press("Escape");
    findings.closed = document.getElementById("details").hidden;
    type("search", "nothing is called this");
    findings.none = document.getElementById("found").textContent;
    press("Escape", document.getElementById("search"));
    findings.searchClosed = document.getElementById("found").hidden;
    tabNamed("work");
    click(all("#work-table th button")[1]);
    findings.sorted = textOf("#work-table tbody tr td:nth-child(2)")
                   .map(Number);
  click(document.querySelector("[data-by=line]"));
  findings.workLines = textOf("#work-table tbody tr td:first-child");
  )js");
  expect_counts(found, report_of(bundle));
  EXPECT_EQ(found["focused"], "search");
  EXPECT_EQ(found["tab"], "graph");
  EXPECT_FALSE(found["hits"].empty());
  EXPECT_NE(found["details"].get<string>().find("mlp.h:27 in logits"), string::npos)
      << "the source line: " << found["details"];
  ASSERT_EQ(found["chosen"].size(), 1u) << found["chosen"];
  EXPECT_NE(found["chosen"][0].get<string>().find("mlp.h:27"), string::npos) << found["chosen"];
  EXPECT_GT(found["traced"], 0);
  EXPECT_EQ(found["code"].get<string>().find("extern \"C\" void nk_"), 0u) << found["code"];
  EXPECT_EQ(found["code"].get<string>().find("extern \"C\"", 1), string::npos) << "one kernel alone";
  EXPECT_NE(found["lines"].get<string>().find("mlp.h:27"), string::npos) << found["lines"];
  EXPECT_NE(found["buffer"].get<string>().find("reserved"), string::npos) << found["buffer"];
  EXPECT_TRUE(found["closed"]);
  EXPECT_NE(found["none"].get<string>().find("Nothing has"), string::npos);
  EXPECT_TRUE(found["searchClosed"]);
  EXPECT_TRUE(std::is_sorted(found["sorted"].rbegin(), found["sorted"].rend())) << found["sorted"];
  EXPECT_GE(found["workLines"].size(), 5u);
}

TEST_F(Page, AProfileStandsBesideThePredictions) {
  string bundle = scratch("profiled.nbundle"), trace = scratch("trace.json");
  must("examples/digits/mlp " + scratch("mlp.nir"));
  must("cli/nablac compile " + scratch("mlp.nir") + " -o " + bundle);
  string table = must("cli/nabla-run " + bundle + " --entry init --entry step --bench 5 --profile --trace " + trace);
  EXPECT_NE(table.find(" GFLOP/s at the minimum"), string::npos) << table;
  Json profile = Json::parse(read(trace))["profile"];
  double computed = 0, counted = 0;
  for (const Json& row : profile[1]["rows"]) computed += row["flops"].get<double>();
  const Json report = report_of(bundle);
  for (const Json& e : report["entries"])
    if (e["name"] == "step") counted = e["flops"].get<double>();
  EXPECT_GE(computed, counted) << "what several kernels compute counts in each";
  EXPECT_LT(computed, 1.5 * counted);
  ASSERT_EQ(profile.size(), 2u) << profile;
  EXPECT_EQ(profile[1]["entry"], "step");
  EXPECT_EQ(profile[1]["runs"], 7) << "five and three that warm up, without the first";
  Json found = drive(page_of(bundle, "--profile " + trace), R"js(
    tabNamed("profile");
    findings.what = textOf("#profile-table tbody tr td:first-child");
    findings.shown = document.getElementById("profile").textContent;
    click(document.querySelector("#profile-table button.link.mono"));
    findings.kernelTab = view.tab;
  )js");
  EXPECT_EQ(found["what"].size(), profile[1]["rows"].size());
  EXPECT_NE(found["shown"].get<string>().find("step: "), string::npos) << found["shown"];
  EXPECT_NE(found["shown"].get<string>().find("mlp.h:27"), string::npos) << found["shown"];
  EXPECT_EQ(found["kernelTab"], "kernels");
  for (const auto& row : profile[1]["rows"]) {
    string what = row["problem"].get<string>().empty() ? row["name"] : row["problem"];
    EXPECT_NE(table.find(what), string::npos) << table;
  }
  // A page without a profile has no such tab, and other files are refused.
  EXPECT_EQ(drive(page_of(bundle), "findings.tab = document.getElementById('tab-profile') === null;")["tab"], true);
  must("cli/nabla-run " + bundle + " --entry init --trace " + trace);
  EXPECT_NE(run("cli/nablac inspect " + bundle + " --html x.html --profile " + trace + " 2>&1").text.find(
                "has no profile"), string::npos);
  EXPECT_NE(run("cli/nablac inspect " + bundle + " --profile " + trace + " 2>&1").text.find("is for --html"),
            string::npos);
}

TEST_F(Page, TheLanguageModelIsShownWholeAndFitsAPhone) {
  string bundle = scratch("charlm.nbundle");
  must("examples/charlm/charlm " + scratch("charlm.nir"));
  must("cli/nablac compile " + scratch("charlm.nir") + " -o " + bundle);
  string page = page_of(bundle);
  EXPECT_LT(std::filesystem::file_size(page), 6'000'000u);
  Json report = report_of(bundle);
  Json found = drive(page, R"js(
    tour();
    tabNamed("graph");
    click(all("#program .function").find((b) => b.dataset.function === "step"));
    const group = all("#boxes g.group").find((g) => g.getAttribute("aria-label").includes("charlm.cc:23"));
    const before = all("#boxes g.node").length, size = Number(group.querySelector("text.count").textContent);
    click(group);
    findings.grown = all("#boxes g.node").length - before - size;
    findings.frame = all("#boxes g.frame").length;
    findings.details = document.getElementById("details").textContent;
    press("Enter", document.querySelector("#boxes .caption"));
    findings.closedAgain = all("#boxes g.node").length - before;
    findings.flops = document.querySelector("#program [aria-current=true] .note").textContent;
    tabNamed("kernels");
    findings.texts = (report.kernels || []).filter((k) => !Object.hasOwn(kernelTexts, k.name)).map((k) => k.name);
  )js");
  expect_counts(found, report);
  EXPECT_EQ(found["grown"], 0) << "a box opens into as many nodes as it says";
  EXPECT_EQ(found["frame"], 1);
  EXPECT_EQ(found["closedAgain"], 0);
  EXPECT_NE(found["details"].get<string>().find("causal"), string::npos) << found["details"];
  EXPECT_EQ(found["texts"], Json::array()) << "kernels without text";
  EXPECT_LT(found["functions"]["step"]["closed"], 250);
  Json phone =
      drive(page,
            "findings.inner = innerWidth; for (const t of ['graph', 'memory', 'work', 'kernels', 'overview']) {"
            " tabNamed(t); (findings.widths = findings.widths || []).push(document.documentElement.scrollWidth); }",
            "500,844");
  for (const auto& width : phone["widths"]) EXPECT_LE(width, phone["inner"]) << "the page is wider than the screen";
}

// Beside the CPU's program: each page has its own kernels' text.
TEST_F(Page, AGpusProgramHasItsGridsTimesAndText) {
  string bundle = scratch("gpu.nbundle"), model = write("gpu.nbl", R"nbl(nabla 1 traced
symbol batch in [1, 512]
entry main calls @main {
  inputs x, w, v
  outputs y, z
}
func @main(%x: f32[batch,256], %w: f32[256,512], %v: f32[512,384]) {
  %h = dot_general(%x, %w) {lhs_contract=[1], rhs_contract=[0]}
  %y = dot_general(%h, %v) {lhs_contract=[1], rhs_contract=[0]}
  %z = reduce_sum(%y) {axes=[1]}
  return %y, %z
}
)nbl");
  must("cli/nablac compile " + model + " -o " + bundle + " --target cpu,sm_80 --buckets batch=8,64");
  string scenario = R"js(
    tour();
    tabNamed("kernels");
    findings.columns = textOf("#kernel-table th");
    findings.notes = document.querySelector("#kernels .quiet").textContent;
    findings.kernelTexts = kernelTexts;
    findings.rows = {};
    for (let i = 0; i < all("#kernel-table tbody tr").length; ++i) {
      const button = all("#kernel-table tbody tr button")[i], name = button.textContent;
      click(button);
      findings.rows[name] = {
        text: document.getElementById("kernel-text").textContent,
        grids: textOf("#kernel-text .grids tbody td"),
        generated: textOf("#kernel-text .generated").join("")
      };
    }
    findings.sizes = document.getElementById("sizes").textContent;
    tabNamed("overview");
    findings.time = textOf("td[data-fact=least_us]").join("");
    type("size-batch", "8");
    findings.shorter = textOf("td[data-fact=least_us]").join("");
  )js";
  string page = scratch("page.html");
  must("cli/nablac inspect " + bundle + " --target sm_80 --html " + page);
  Json found = drive(page, scenario), report = Json::parse(must("cli/nablac inspect --json --target sm_80 " + bundle));
  EXPECT_EQ(found["columns"].dump().find("threads"), string::npos) << found["columns"];
  EXPECT_NE(found["notes"].get<string>().find("A100"), string::npos) << found["notes"];
  EXPECT_EQ(found["notes"].get<string>().find("L2"), string::npos) << found["notes"];
  ASSERT_EQ(report["library_calls"].size(), 2u) << report["library_calls"];
  for (const auto& call : report["library_calls"]) {
    const Json& row = found["rows"][call["problem"].get<string>()];
    EXPECT_NE(row["text"].get<string>().find("without it" + call["fallback"].get<string>()), string::npos) << row;
    EXPECT_EQ(row["generated"].get<string>().find("extern \"C\" __global__ void __launch_bounds__("), 0u) << row;
  }
  EXPECT_EQ(found["rows"].size(), 3u) << found["rows"];
  for (const auto& [name, row] : found["rows"].items()) EXPECT_GE(row["grids"].size(), 7u) << name << row;
  for (const auto& k : report["kernels"]) {
    string text = found["kernelTexts"].value(k["name"].get<string>(), "");
    for (const auto& g : k["grids"]) {
      EXPECT_NE(text.find(" " + g["symbol"].get<string>() + "("), string::npos) << k << text;
      int64_t warps = g["blocks"].get<int64_t>() * ((g["threads"].get<int64_t>() + 31) / 32);
      EXPECT_LE(g.value("resident_warps", int64_t{0}), warps) << g;
    }
    EXPECT_EQ(text.find("extern \"C\" void"), string::npos) << text;
  }
  EXPECT_NE(found["sizes"].get<string>().find("launched up to 8, 64"), string::npos) << found["sizes"];
  string at_most = must("cli/nablac inspect --target sm_80 --at batch=8 " + bundle);
  EXPECT_NE(at_most.find("  time       at least " + found["time"].get<string>() + "\n"), string::npos) << at_most;
  EXPECT_NE(at_most.find("temporary, at least " + found["shorter"].get<string>() + "\n"), string::npos)
      << found["shorter"] << at_most;
  must("cli/nablac inspect " + bundle + " --html " + page);
  Json cpu = drive(page, scenario);
  EXPECT_NE(cpu["columns"].dump().find("fits"), string::npos) << cpu["columns"];
  EXPECT_EQ(cpu["kernelTexts"].dump().find("__global__"), string::npos);
  EXPECT_FALSE(cpu["kernelTexts"].empty());
}

TEST_F(Page, StateInTheHostsMemoryStandsApart) {
  string page = scratch("page.html"), model = write("host.nbl", R"nbl(nabla 1 traced
state total: f32[1024] @host
entry add calls @add {
  reads total
  writes total
  inputs x
}
func @add(%total: f32[1024], %x: f32[1024]) {
  %new = add(%total, %x)
  return %new
}
)nbl");
  must("cli/nablac inspect " + model + " --target sm_90a --html " + page);
  Json found = drive(page, R"js(
    tour();
    tabNamed("memory");
    findings.host = textOf("#host-memory").join("");
    tabNamed("overview");
    findings.state = document.getElementById("overview").textContent;
  )js");
  EXPECT_EQ(found["host"],
            "In the host's memory: other state 4096 B. A run copies 4096 B to the GPU in at least 64.0 ns, 4096 B to the "
            "host in at least 64.0 ns.");
  EXPECT_NE(found["state"].get<string>().find("and 4096 B of the host"), string::npos) << found["state"];
  EXPECT_NE(found["state"].get<string>().find("in the host's memory"), string::npos) << found["state"];
}

constexpr const char* kLoops = R"nbl(nabla 1 traced
entry main calls @main {
  inputs w, x, n, xs
  outputs y, count
}
func @cell(%w: f32[8], %h: f32[8], %x: f32[8]) {
  %p = mul(%w, %h) loc("loops.py":3 "cell" "p = w * h")
  %s = add(%p, %x) loc("loops.py":4 "cell" "return tanh(p + x)")
  %t = tanh(%s) loc("loops.py":4 "cell" "return tanh(p + x)")
  return %t
}
func @big(%x: f32[8]) {
  %e = exp(%x) loc("loops.py":7 "big" "return exp(x)")
  return %e
}
func @small(%x: f32[8]) {
  %e = neg(%x) loc("loops.py":8 "small" "return -x")
  return %e
}
func @below(%count: i32[], %y: f32[8]) {
  %ten = constant() {value=i32[] {10}}
  %p = lt(%count, %ten)
  return %p
}
func @twice(%count: i32[], %y: f32[8]) {
  %one = constant() {value=i32[] {1}}
  %next = add(%count, %one) loc("loops.py":12 "twice" "return count + 1, y * y")
  %z = mul(%y, %y) loc("loops.py":12 "twice" "return count + 1, y * y")
  return %next, %z
}
func @main(%w: f32[8], %x: f32[8], %n: i32[], %xs: f32[100,8]) {
  %last = scan(%w, %x, %xs) {body=@cell, consts=1, carries=1, length=[100]} loc("loops.py":20 "main" "scan(cell, x, xs)")
  %zero = constant() {value=i32[] {0}}
  %go = lt(%n, %zero)
  %c = cond(%go, %last) {then=@big, else=@small} loc("loops.py":21 "main" "cond(n < 0, big, small)")
  %count, %y = while(%n, %c) {cond=@below, body=@twice, consts=0} loc("loops.py":22 "main" "while_loop(below, twice)")
  return %y, %count
}
)nbl";

TEST_F(Page, LoopsAndBranchesAreATreeWithTheirTrips) {
  string model = write("loops.nbl", kLoops);
  Json report = report_of(model);
  Json found = drive(page_of(model), R"js(
    tour();
    findings.tree = all("#program .function").map((b) => [b.dataset.function, b.querySelector(".note").textContent]);
    click(document.querySelector("#program button.fold"));
    findings.folded = all("#program .function").length;
    click(document.querySelector("#program button.fold"));
    findings.unfolded = all("#program .function").length;
    tabNamed("work");
    click(all("#program .function")[0]);
    findings.tanh = document.querySelector('[data-row="tanh"]').textContent;
    tabNamed("kernels");
    findings.text = document.getElementById("kernel-text").textContent;
    findings.runs = Math.max(...textOf("#kernel-table tbody tr td:nth-child(2)").map(Number));
    tabNamed("graph");
    const scan = all("#boxes g.node").find((g) => g.getAttribute("aria-label").startsWith("scan"));
    press("Enter", scan);
    findings.source = document.querySelector("#details .source").textContent;
    click(all("#details button.link").find((b) => b.textContent === "@cell"));
    findings.opened = view.current.name;
    tabNamed("overview");
    findings.shown = document.querySelector('[data-entry="main"][data-fact="flops"]').textContent;
  )js");
  expect_counts(found, report);
  Json tree = Json::array({Json::array({"main", found["tree"][0][1]}), Json::array({"cell", "100 times"}),
                           Json::array({"small", "if false"}), Json::array({"big", "if true"}),
                           Json::array({"below", "while"}), Json::array({"twice", "do"})});
  EXPECT_EQ(found["tree"], tree);
  EXPECT_EQ(found["source"], "loops.py:20 in mainscan(cell, x, xs)");
  EXPECT_EQ(found["folded"], 1);
  EXPECT_EQ(found["unfolded"], 6);
  EXPECT_NE(found["tanh"].get<string>().find("tanh1"), string::npos) << found["tanh"];
  EXPECT_EQ(found["opened"], "cell");
  EXPECT_EQ(found["runs"], 100);
  EXPECT_NE(found["text"].get<string>().find("Kernels exist after compiling"), string::npos) << found["text"];
  EXPECT_EQ(found["shown"].get<string>().find("≥ "), 0u) << "a while counts one round: " << found["shown"];
  EXPECT_GE(report["entries"][0]["flops"], 100 * 3 * 8);
}

constexpr const char* kSymbolic = R"nbl(nabla 1 traced
symbol batch in [1, 64]
symbol len in [8, 128] multiple 8
state "w</script><script>pageErrors.push('state')</script>": f32[16,16] loc("a.py":1 "f" "<img src=x>")
entry "mean<b>" calls @mean {
  reads "w</script><script>pageErrors.push('state')</script>"
  inputs "x\"><i>"
  outputs "y'&amp;"
}
func @mean(%w: f32[16,16], %"x<!--": f32[batch,len,16]) {
  %d = dot_general(%"x<!--", %w) {lhs_contract=[2], rhs_contract=[0]} loc("<u>.py":7 "<s>" "y = '</script>' @ \"w\" & <script>")
  %e = exp(%d) loc("<u>.py":8 "<s>" "return exp(y)")
  %s = reduce_sum(%e) {axes=[1]} loc("<u>.py":9 "<s>" "]]> --> {{report}}")
  return %s
}
)nbl";

TEST_F(Page, SizesChangeTheNumbersAndNamesAreTexts) {
  string model = write("sizes.nbl", kSymbolic);
  string bundle = scratch("sizes.nbundle");
  must("cli/nablac compile " + model + " -o " + bundle);
  for (const string& file : {model, bundle}) {
    Json found = drive(page_of(file, "--at batch=3,len=40"), R"js(
      tour();
      const number = (k) => document.querySelector(`td[data-fact=${k}]`).textContent;
      const numbers = () => ["flops", "bytes_moved", "temporary_bytes"].map(number);
      findings.first = numbers();
      type("size-len", "64");
      type("size-batch", "7");
      findings.second = numbers();
      type("size-len", "65");
      findings.refused = textOf(".problem").join("");
      findings.kept = numbers();
      findings.entry = textOf("#entries th button");
      findings.input = textOf("#entries .tensor");
      findings.state = textOf(".state .name");
      tabNamed("graph");
      findings.edges = all("#stage .edge").length;
      type("search", "'<\/script>'");
      press("Enter", document.getElementById("search"));
      findings.source = document.querySelector("#details .source").textContent;
      type("search", "{{report}}");
      findings.braces = all("#found .hit").length;
      findings.scripts = document.scripts.length;
      findings.markup = all("main img, main u, main s, main i, main b, nav b").length;
    )js");
    expect_counts(found, report_of(file));
    for (const auto& [at, which] :
         {std::pair<string, string>{"batch=3,len=40", "first"}, {"batch=7,len=64", "second"}}) {
      string text = must("cli/nablac inspect " + file + " --at " + at);
      string want = "at " + at + ": " + found[which][0].get<string>() + ", " + found[which][1].get<string>() +
                    " moved, " + found[which][2].get<string>() + " temporary";
      EXPECT_NE(text.find(want), string::npos) << want << "\n" << text;
    }
    EXPECT_NE(found["first"], found["second"]);
    EXPECT_EQ(found["kept"], found["second"]);
    EXPECT_EQ(found["refused"], "len is 8 to 128, a multiple of 8");
    EXPECT_EQ(found["entry"], Json::array({"mean<b>"}));
    EXPECT_EQ(found["input"][0].get<string>().find("x\"><i>: f32[batch,len,16]"), 0u) << found["input"];
    EXPECT_EQ(found["state"], Json::array({"w</script><script>pageErrors.push('state')</script>"}));
    EXPECT_NE(found["source"].get<string>().find("y = '</script>' @ \"w\" & <script>"), string::npos)
        << found["source"];
    EXPECT_EQ(found["braces"], 1);
    EXPECT_EQ(found["markup"], 0);
    EXPECT_EQ(found["scripts"], 8) << "five of the page, three of this test";
  }
}

TEST_F(Page, WhatCannotBeShownIsSaid) {
  string model = write("sizes.nbl", kSymbolic), page = scratch("never.html");
  auto refuses = [&](const string& arguments, const string& text) {
    auto r = run("cli/nablac inspect " + arguments);
    EXPECT_NE(r.code, 0) << arguments;
    EXPECT_NE(r.text.find(text), string::npos) << r.text;
    EXPECT_FALSE(std::filesystem::exists(page)) << arguments;
  };
  refuses(model + " --html " + page + " --at len=65", "error[E0901]: --at: len = 65 is not a multiple of 8 in [8, 128]");
  refuses(model + " --html " + page + " --at length=8", "error[E0901]: --at: the module has no symbolic size `length`");
  refuses(model + " --html " + page + " --at len=8,16",
          "error[E0901]: --html starts at one value of each size; len has 2");
  refuses(model + " --html " + page + " --json", "--json, --source and --html exclude each other");
  refuses(model + " --html " + scratch("no/such/folder/page.html"), "error[E0803]");
  string bundle = scratch("damaged.nbundle");
  must("cli/nablac compile " + model + " -o " + bundle);
  string bytes = read(bundle);
  size_t at = bytes.find("\"report_version\"");
  ASSERT_NE(at, string::npos);
  bytes[at + 3] = 'x';
  std::ofstream(bundle, std::ios::binary) << bytes;
  refuses(bundle + " --html " + page, "error[E0104]");
}

}  // namespace
}  // namespace nabla::page_tests

// What the page draws of programs for several ranks: the mesh, parts of tensors, a run's two lines, exchanges.
#include "tests/page/page_run.h"

namespace nabla::page_tests {
namespace {

using Ranks = Page;

// What ranks exchange, of the entry that is chosen; a program of one rank has no such tab.
TEST_F(Ranks, WhatRanksExchangeIsATable) {
  must("examples/digits/mlp " + scratch("mlp.nir"));
  string page = page_of(scratch("mlp.nir"), "--mesh dp=2 --data-axes dp --zero 1");
  Json found = drive(page, R"js(
    tabNamed("ranks");
    findings.head = textOf("#ranks p").join(" ");
    findings.ops = textOf("#ranks-table tbody tr td:first-child");
    click(all("#ranks-table th button")[5]);
    findings.reasons = textOf("#ranks-table tbody tr td:nth-child(10)");
    findings.payload = all("#ranks-table tbody tr").length;
    const predict = all("#program .function").find((b) => b.dataset.function === "init");
    click(predict);
    findings.init = document.getElementById("ranks").textContent;
    findings.functions = {};
  )js");
  Json report = report_of(scratch("mlp.nir") + " --mesh dp=2 --data-axes dp --zero 1");
  std::set<string> ops, shown(found["ops"].begin(), found["ops"].end());
  for (const Json& e : report["entries"])
    if (e["name"] == "step")
      for (const Json& c : e["collectives"]) ops.insert(c["op"]);
  EXPECT_EQ(shown, ops);
  EXPECT_NE(found["head"].get<string>().find("step: a rank sends "), string::npos) << found["head"];
  EXPECT_GE(found["payload"], 3);
  for (const Json& reason : found["reasons"]) EXPECT_NE(reason.get<string>().find(" need"), string::npos) << reason;
  EXPECT_NE(found["init"].get<string>().find("Ranks exchange nothing here. They do in: step, eval"), string::npos) << found["init"];
  Json one = drive(page_of(scratch("mlp.nir")),
                   "findings.tab = document.getElementById('tab-ranks') !== null; "
                   "findings.whose = document.getElementById('whose') !== null; findings.functions = {};");
  EXPECT_FALSE(one["tab"]);
  EXPECT_FALSE(one["whose"]);
}

// The mesh is a grid, a tensor a rectangle per part, in the colours of the ranks that have them; a run is two lines.
TEST_F(Ranks, RanksTheirPartsAndTheirTimeAreDrawn) {
  must("examples/digits/mlp " + scratch("mlp.nir"));
  const string options = "--mesh dp=2,tp=3 --data-axes dp --zero 1 --layout 'fc1.w=,tp allow_padding'";
  string page = page_of(scratch("mlp.nir"), options);
  const char* scenario = R"js(
    tabNamed("ranks");
    const hue = (e) => e.querySelector("rect").getAttribute("style");
    const at = (e) => ["x", "y"].map((k) => Number(e.querySelector("rect").getAttribute(k)));
    const choose = (name) => click(all("#wholes-table [data-whole]").find((b) => b.textContent === name));
    const seen = () => {
      const parts = all(".beside .placement g"), ranks = all("#mesh g.rank");
      return {
        ranks: ranks.map((r) => [r.textContent, ...at(r)]),
        parts: parts.map((p) => p.textContent),
        same: ranks.every((r) => parts.some((p) => hue(p) === hue(r) && p.textContent.split(" ").includes(r.textContent))),
        words: document.querySelector(".beside p").textContent
      };
    };
    findings.tensors = {};
    for (const name of ["fc1.w", "fc2.w", "adamw.m.fc1.w", "x"]) choose(name), findings.tensors[name] = seen();
    findings.mesh = document.getElementById("mesh").getAttribute("aria-label");
    findings.inside = all("#timeline .piece").every((r) => {
      const x = Number(r.getAttribute("x")), w = Number(r.getAttribute("width"));
      return x >= 75.9 && x + w <= Number(document.getElementById("timeline").getAttribute("width"));
    });
    findings.pieces = ["computes", "exchanges"].map((lane) => all(`#timeline .${lane}`).length);
    findings.title = document.querySelector("#ranks h2").textContent;
    findings.inner = innerWidth;
    findings.ranksWidth = document.documentElement.scrollWidth;
    tabNamed("overview");
    findings.notes = textOf("#notes li");
    findings.whose = document.getElementById("whose").textContent;
    tabNamed("memory");
    findings.classes = all("#class-bar rect").map((r) => r.dataset.class);
    findings.functions = {};
  )js";
  Json found = drive(page, scenario), report = report_of(scratch("mlp.nir") + " " + options);
  EXPECT_EQ(found["mesh"], "mesh ranks: dp=2, tp=3; 6 ranks");
  EXPECT_EQ(found["whose"], "All numbers are those of one rank. Each of the 6 ranks of mesh ranks (dp=2, tp=3) runs this program on "
                            "its own parts.");
  // Rows are dp, columns tp: ranks 0, 1, 2 above 3, 4, 5.
  const Json& ranks = found["tensors"]["fc1.w"]["ranks"];
  ASSERT_EQ(ranks.size(), 6u) << ranks;
  for (int r = 0; r < 6; ++r) {
    EXPECT_EQ(ranks[r][0], std::to_string(r));
    EXPECT_EQ(ranks[r][1] == ranks[(r + 3) % 6][1], true) << ranks;
    EXPECT_EQ(ranks[r][2], ranks[r / 3 * 3][2]) << ranks;
  }
  EXPECT_EQ(found["tensors"]["fc1.w"]["parts"], Json::array({"0 3", "1 4", "2 5"}));
  EXPECT_EQ(found["tensors"]["fc1.w"]["words"],
            "dimension 1 (128) in 3 along tp. 64 elements of padding make the parts even. 2 ranks have the same part.");
  EXPECT_EQ(found["tensors"]["fc2.w"]["parts"], Json::array({"0 1 2 3 4 5"}));
  EXPECT_EQ(found["tensors"]["adamw.m.fc1.w"]["parts"], Json::array({"0", "1", "2", "3", "4", "5"}));
  EXPECT_EQ(found["tensors"]["x"]["parts"], Json::array({"0 1 2", "3 4 5"}));
  for (const auto& [name, tensor] : found["tensors"].items()) EXPECT_TRUE(tensor["same"]) << name << tensor;
  for (const Json& e : report["entries"]) {
    if (e["name"] != "step") continue;
    EXPECT_EQ(found["pieces"], Json::array({e["timeline"]["compute"].size(), e["timeline"]["exchange"].size()}));
    size_t classes = 0;
    for (const auto& [key, bytes] : e["memory"].items()) classes += bytes != 0;
    EXPECT_EQ(found["classes"].size(), classes) << found["classes"];
  }
  EXPECT_TRUE(found["inside"]);
  EXPECT_EQ(found["notes"], report["notes"]);
  EXPECT_FALSE(found["notes"].empty());
  EXPECT_EQ(found["title"].get<string>().find("A run of step, predicted: "), 0u) << found["title"];
  Json phone = drive(page, scenario, "500,844");
  EXPECT_LE(phone["ranksWidth"], phone["inner"]) << "the page is wider than the screen";
}

}  // namespace
}  // namespace nabla::page_tests

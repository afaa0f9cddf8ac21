// A page of `nablac inspect --html` in a headless browser, and a script that works it.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "tests/e2e/commands.h"

namespace nabla::page_tests {

using e2e::must;
using e2e::run;
using e2e::scratch;
using Json = nlohmann::json;
using std::string;

inline string read(const string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline string browser() {
  for (const char* path : {"/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"})
    if (std::filesystem::exists(path)) return path;
  return "";
}

inline string unescaped(string text) {
  const std::pair<string, string> kEntities[] = {{"&lt;", "<"}, {"&gt;", ">"}, {"&nbsp;", "\u00a0"}, {"&amp;", "&"}};
  for (const auto& [from, to] : kEntities)
    for (size_t at = 0; (at = text.find(from, at)) != string::npos; at += to.size()) text.replace(at, from.size(), to);
  return text;
}

class Page : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    setenv("NABLA_CACHE", scratch("cache").c_str(), 1);
    setenv("HOME", scratch("home").c_str(), 1);
  }
  void SetUp() override {
    ASSERT_NE(browser(), "") << "no browser: apt-get install --no-install-recommends chromium (./run_tests does)";
  }

  // Opens a copy of the page with the driver and a scenario after it. What the scenario found.
  Json drive(const string& page, const string& scenario, const string& window = "1280,800") {
    string html = read(page), head = "<head>\n";
    size_t at = html.find(head), policy = html.find("<meta http-equiv");
    EXPECT_NE(at, string::npos);
    EXPECT_NE(policy, string::npos) << "the page does not forbid itself the network";
    html.insert(at + head.size(),
                "<script>window.pageErrors = [];\n"
                "window.onerror = (message, file, line) => { pageErrors.push(`${message} at ${line}`); };\n"
                "console.error = (...parts) => { pageErrors.push(parts.join(' ')); };\n"
                "document.addEventListener('securitypolicyviolation', (e) => pageErrors.push(e.violatedDirective));\n"
                "</script>\n");
    html += "<script>" + read("tests/page/driver.js") + "</script><script>try {\n" + scenario +
            "\n} catch (e) { pageErrors.push(`${e.message} ${e.stack}`); }\nfinish();</script>\n";
    string copy = scratch("driven.html"), dom = scratch("dom.html");
    std::ofstream(copy, std::ios::binary) << html;
    string command = "timeout 60 " + browser() +
                     " --headless=new --no-sandbox --disable-gpu --disable-dev-shm-usage --no-first-run "
                     "--disable-extensions --disable-background-networking --virtual-time-budget=2000 --window-size=" +
                     window + " --user-data-dir=" + scratch("profile") + " --dump-dom file://" + copy + " > " + dom +
                     " 2> " + scratch("browser.log");
    EXPECT_EQ(run(command).code, 0) << read(scratch("browser.log")).substr(0, 3000);
    string shown = read(dom), mark = "<pre id=\"findings\">";
    size_t begin = shown.rfind(mark), end = shown.rfind("</pre>");
    if (begin == string::npos) {
      ADD_FAILURE() << "the driver did not end:\n" << read(scratch("browser.log")).substr(0, 3000);
      return Json::object({{"functions", Json::object()}});
    }
    begin += mark.size();
    Json found = Json::parse(unescaped(shown.substr(begin, end - begin)));
    EXPECT_EQ(found["errors"], Json::array()) << found["errors"].dump(1);
    return found;
  }

  // What the page draws of every function is what the report counts.
  static void expect_counts(const Json& found, const Json& report) {
    std::set<string> shown;
    for (const auto& f : report["functions"]) {
      string name = f["name"];
      if (!found["functions"].contains(name)) continue;
      shown.insert(name);
      const Json& seen = found["functions"][name];
      size_t computed = 0;
      std::set<string> ops, kernels;
      for (const auto& n : f["nodes"]) ops.insert(n[0]), ++computed;
      for (const auto& i : f["instructions"])
        if (i[1] != "control") kernels.insert(i[0]);
      EXPECT_EQ(seen["open"], computed) << name;
      EXPECT_EQ(seen["groups"], 0) << name << ": a box stayed closed";
      EXPECT_LE(seen["closed"], seen["open"]) << name;
      EXPECT_EQ(seen["overlaps"], 0) << name;
      EXPECT_TRUE(seen["reachable"]) << name;
      double flops = seen["flops"], by_kernel = seen["kernelFlops"];
      EXPECT_NEAR(by_kernel, flops, 1e-9 * flops) << name << ": kernels compute what the ops cost";
      EXPECT_EQ(seen["buffers"], f["buffers"].size()) << name;
      if (f["calls"].empty()) {
        EXPECT_EQ(seen["ops"], ops.size()) << name;
        EXPECT_EQ(std::set<string>(seen["kernels"].begin(), seen["kernels"].end()), kernels) << name;
      }
    }
    EXPECT_EQ(shown.size(), report["functions"].size()) << "functions without a place in the tree";
  }

  string write(const string& name, const string& text) {
    std::ofstream(scratch(name)) << text;
    return scratch(name);
  }
  Json report_of(const string& file) { return Json::parse(must("cli/nablac inspect --json " + file)); }
  string page_of(const string& file, const string& options = "") {
    string page = scratch("page.html");
    must("cli/nablac inspect " + file + " --html " + page + " " + options);
    return page;
  }
};

}  // namespace nabla::page_tests

// Tabs, and what is drawn again when a function, a tab or a size is chosen.

const tabs = {
  overview: ["Overview", drawOverview],
  graph: ["Graph", () => graph.draw()],
  memory: ["Memory", () => memory.draw()],
  work: ["Work", () => work.draw()],
  kernels: ["Kernels", () => kernelView.draw()],
  ...(report.mesh || exchanging.length ? {ranks: ["Ranks", () => ranksView.draw()]} : {}),
  ...(profiles.length ? {profile: ["Profile", () => profileView.draw()]} : {}),
};

function refresh() {
  evaluateSizes();
  drawTree();
  tip.hide();
  tabs[view.tab][1]();
}

function showTab(name, keepHash) {
  view.tab = name;
  for (const key of Object.keys(tabs)) {
    $(key).hidden = key !== name;
    const tab = $(`tab-${key}`);
    tab.setAttribute("aria-selected", key === name ? "true" : "false");
    tab.tabIndex = key === name ? 0 : -1;
  }
  if (name !== "graph" && name !== "memory") $("details").hidden = true;
  if (!keepHash) history.replaceState(null, "", `#/${name}`);
  refresh();
}

function chooseFunction(f, root) {
  view.current = f;
  view.root = root;
  graph.selected = null;
  $("details").hidden = true;
  refresh();
}

function setUpTabs() {
  const names = Object.keys(tabs);
  $("tabs").append(...names.map(
      (key) => h(
          "button", {id: `tab-${key}`, role: "tab", "aria-controls": key, onclick: () => showTab(key)}, tabs[key][0])));
  $("tabs").addEventListener("keydown", (e) => {
    const by = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!by) return;
    showTab(names[(names.indexOf(view.tab) + by + names.length) % names.length]);
    $(`tab-${view.tab}`).focus();
  });
}

function start() {
  $("target").textContent = `for ${report.target}`;
  evaluateSizes();
  if (functions.length === 0) {
    $("overview").append(h("p", null, "The program has no functions."));
    return;
  }
  showSizes();
  setUpTabs();
  graph.setUp();
  search.setUp();
  const wanted = () => location.hash.slice(2);  // "#/memory"; not an element's id, to which browsers scroll
  showTab(Object.hasOwn(tabs, wanted()) ? wanted() : "overview", true);
  const measure = () =>
      document.documentElement.style.setProperty("--head", `${document.querySelector("header").offsetHeight}px`);
  measure();
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth === width) return;  // a keyboard that slides in
    width = innerWidth;
    measure();
    refresh();
  });
  addEventListener("hashchange", () => {
    if (Object.hasOwn(tabs, wanted())) showTab(wanted(), true);
  });
}

start();

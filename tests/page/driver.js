// Works the page as a person would, and notes what it shows. Runs after the page's own script.
const findings = {};
const all = (selector, root) => [...(root || document).querySelectorAll(selector)];
const press = (key, target) =>
    (target || document.body).dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
const click = (element) => element.dispatchEvent(new MouseEvent("click", {bubbles: true, cancelable: true}));
function type(id, text) {
  const box = document.getElementById(id);
  box.value = text;
  box.dispatchEvent(new Event("input", {bubbles: true}));
}
const textOf = (selector) => all(selector).map((e) => e.textContent);
const tabNamed = (name) => click(document.getElementById(`tab-${name}`));

// Every function in every tab: what is drawn of it.
function tour() {
  findings.functions = {};
  const count = all("#program .function").length;
  for (let i = 0; i < count; ++i) {
    const button = () => all("#program .function")[i];
    const name = button().dataset.function;
    tabNamed("graph");
    click(button());
    const closed = all("#boxes g.node, #boxes g.group").length;
    click(all("#graph .tool").find((b) => b.textContent === "Open all"));
    const seen = {
      closed,
      open: all("#boxes g.node").length,
      groups: all("#boxes g.group").length,
      edges: all("#stage .edge").length
    };
    seen.reachable = all("#boxes g.node").every((e) => e.tabIndex === 0 && e.getAttribute("aria-label"));
    seen.overlaps = overlaps();
    click(all("#graph .tool").find((b) => b.textContent === "Close all"));
    tabNamed("memory");
    seen.buffers = all("#arena rect.buffer").length;
    tabNamed("work");
    seen.ops = all("#work-table tbody tr").length;
    tabNamed("kernels");
    seen.flops = totalFlops(view.current);
    seen.kernelFlops = kernelRows().reduce((sum, row) => sum + row.flops, 0);
    seen.kernels = textOf("#kernel-table tbody tr td:first-child");
    findings.functions[name] = seen;
  }
  tabNamed("overview");
}

// Pairs of boxes on one level that lie on each other.
function overlaps() {
  const boxes = all("#boxes > g").map((g) => g.querySelector("rect.body, rect").getBBox());
  let bad = 0;
  for (let i = 0; i < boxes.length; ++i)
    for (let k = i + 1; k < boxes.length; ++k) {
      const a = boxes[i], b = boxes[k];
      if (a.x + a.width > b.x + 1 && b.x + b.width > a.x + 1 && a.y + a.height > b.y + 1 && b.y + b.height > a.y + 1)
        ++bad;
    }
  return bad;
}

function finish() {
  findings.errors = window.pageErrors;
  findings.width = document.documentElement.scrollWidth;
  const out = document.createElement("pre");
  out.id = "findings";
  out.textContent = JSON.stringify(findings);
  document.body.append(out);
}

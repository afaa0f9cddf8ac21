// What runs: kernels and library calls of one function, their generated text and the source lines that they come from.

// A kernel and a library call may have one name.
const runKey = (s) => `${s[step.kind]} ${s[step.what]}`;

// Rows of one run of the current function by kernel or library op.
function kernelRows() {
  const rows = new Map(), facts = new Map((report.kernels || []).map((k) => [k.name, k]));
  for (const [f, times] of runsFrom(view.current))
    for (const s of f.instructions) {
      if (s[step.kind] === "control") continue;
      const key = runKey(s);
      if (!rows.has(key))
        rows.set(key, {
          key,
          name: s[step.what],
          kind: s[step.kind],
          fact: s[step.kind] === "kernel" ? facts.get(s[step.what]) : null,
          launches: 0,
          flops: 0,
          bytes: 0,
          lines: new Map(),
          attributes: {"data-kernel": s[step.what]}
        });
      const row = rows.get(key);
      row.launches += times;
      row.flops += times * stepFlops(f, s);
      row.bytes += times * sizeOf(s[step.bytes]);
      for (const i of s[step.computes]) {
        const p = f.nodes[i][node.place], line = placeLong(p);
        if (!row.lines.has(line)) row.lines.set(line, {place: p, ops: new Set()});
        row.lines.get(line).ops.add(f.nodes[i][node.op]);
      }
    }
  return [...rows.values()];
}

// The smallest cache of the target that holds what one launch touches; a recorded fact of the target, not a
// measurement.
function cacheOf(row) {
  const bytes = row.launches ? row.bytes / row.launches : 0;
  return bytes <= report.machine.l1_bytes ? "L1" : bytes <= report.machine.l2_bytes ? "L2" : "memory";
}

const kernelView = {
  chosen: null,
  state: {column: 2, down: true, draw: () => kernelView.draw()},
  draw() {
    const rows = kernelRows();
    const row = rows.find((r) => r.key === this.chosen) || [...rows].sort((a, b) => b.flops - a.flops)[0];
    for (const r of rows)
      if (r === row) r.attributes["class"] = "chosen";
    const columns = [
      {
        title: "kernel",
        value: (r) => r.name,
        class: "clip",
        cell: (r) => h("button", {class: "link mono", title: r.name, onclick: () => goToKernel(r.key)}, r.name)
      },
      {title: "runs", value: (r) => r.launches, cell: (r) => r.launches, number: true},
      {title: "FLOPs", value: (r) => r.flops, cell: (r) => flopsText(r.flops), number: true, bar: true},
      {title: "bytes moved", value: (r) => r.bytes, cell: (r) => bytesText(r.bytes), number: true, bar: true},
      {
        title: "FLOP / B",
        value: (r) => (r.bytes ? r.flops / r.bytes : 0),
        cell: (r) => intensityText(r.flops, r.bytes),
        number: true
      },
      {
        title: "threads",
        value: (r) => (r.fact ? r.fact.threads : 0),
        cell: (r) => (r.fact ? r.fact.threads : "library"),
        number: true
      },
      {title: "fits", value: (r) => r.bytes / Math.max(1, r.launches), cell: cacheOf, number: true},
    ];
    $("kernels").replaceChildren(
        h("p", {class: "quiet"},
          `${functionTitle(view.current)} runs ${
              plural(rows.filter((r) => r.kind === "kernel").length, "generated kernel")} and ${
              plural(rows.filter((r) => r.kind === "library").length, "kind")} of library call. `,
          `Fits: the cache of the target that holds all bytes of a run (L1 ${bytesText(report.machine.l1_bytes)}, L2 ${
              bytesText(report.machine.l2_bytes)}). An op that several kernels compute counts in equal parts.`),
        h("div", {class: "split"}, sortable("kernel-table", columns, rows, this.state),
          row ? this.text(row) : h("div", {id: "kernel-text"})));
  },
  text(row) {
    const lines = [...row.lines.values()].sort((a, b) => a.place - b.place);
    const code = row.kind === "kernel" && Object.hasOwn(kernelTexts, row.name) ? kernelTexts[row.name] : null;
    const why = row.kind === "library" ? "A call of the library that the bundle names; no text is generated." :
        compiled                       ? "The bundle holds no text of this kernel." :
                   "Kernels exist after compiling: nablac compile MODEL -o MODEL.nbundle, then inspect the bundle.";
    return h(
        "div", {id: "kernel-text"}, h("h2", {class: "mono"}, row.name), h("h3", null, "From these lines"),
        h("ul", {class: "lines"},
          lines.slice(0, 40).map(
              (l) =>
                  h("li", null, h("div", {class: "quiet"}, placeLong(l.place), " · ", [...l.ops].join(", ")),
                    h("pre", null, report.places[l.place].text.trim() || " "))),
          lines.length > 40 ? h("li", {class: "quiet"}, `and ${lines.length - 40} more`) : null,
          lines.length === 0 ? h("li", {class: "quiet"}, "No op of the program: a copy that the plan needs.") : null),
        h("h3", null, "Generated C++"),
        code === null ? h("p", {class: "quiet", id: "no-text"}, why) :
                        h("pre", {class: "generated", tabindex: 0}, code));
  },
};

function goToKernel(key) {
  const runs = (f) => [...runsFrom(f).keys()].some((g) => g.instructions.some((s) => runKey(s) === key));
  if (!runs(view.current)) {
    const other = functions.find((f) => f.entry && runs(f));
    if (other) chooseFunction(other, other);
  }
  kernelView.chosen = key;
  if (view.tab === "kernels")
    kernelView.draw();
  else
    showTab("kernels");
  const text = $("kernel-text");
  if (text && innerWidth < 1100) text.scrollIntoView();
}

// What runs: kernels and library calls of one function, their generated text and the source lines that they come from.

// A kernel and a library call may have one name; calls of a GPU's library differ by their problem.
const runKey = (s) => `${s[step.kind]} ${s[step.call] < 0 ? s[step.what] : s[step.call]}`;
// Where a kernel is shown: one that no launch names stands in for a library's call.
const keyOfKernel = (k) => k.launches > 0 || !libraryCalls.length ?
    `kernel ${k.name}` :
    `library ${libraryCalls.findIndex((c) => c.fallback === k.name)}`;
const kernelFacts = new Map((report.kernels || []).map((k) => [k.name, k]));

// Rows of one run of the current function by kernel or library op.
function kernelRows() {
  const rows = new Map();
  for (const [f, times] of runsFrom(view.current))
    for (const s of f.instructions) {
      if (s[step.kind] === "control") continue;
      const key = runKey(s);
      if (!rows.has(key))
        rows.set(key, {
          key,
          name: stepName(s),
          kind: s[step.kind],
          fact: s[step.kind] === "kernel" ? kernelFacts.get(s[step.what]) : null,
          call: s[step.call] < 0 ? null : libraryCalls[s[step.call]],
          launches: 0,
          flops: 0,
          bytes: 0,
          lines: new Map(),
          attributes: {"data-kernel": stepName(s)}
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

// Columns for CPUs and for GPUs.
const cpuColumns = [
  {
    title: "threads",
    value: (r) => (r.fact ? r.fact.threads : 0),
    cell: (r) => (r.fact ? r.fact.threads : "library"),
    number: true
  },
  {title: "fits", value: (r) => r.bytes / Math.max(1, r.launches), cell: cacheOf, number: true},
];
const leastTime = (r) => r.launches * (r.fact || r.call ? entryNumber(r.fact || r.call, "least_us") : 0);
const mostOf = (r, which) => Math.max(0, ...((r.fact && r.fact.grids) || []).map((g) => g[which] || 0));
const gpuColumns = [
  {title: "least time", value: leastTime, cell: (r) => timeText(leastTime(r)), number: true, bar: true},
  {
    title: "registers",
    value: (r) => mostOf(r, "registers"),
    cell: (r) => (r.call ? "library" : mostOf(r, "registers") || "–"),
    number: true
  },
];

// The grids of a GPU's kernel, one after the other, as the compiler made them.
function gridTable(fact) {
  if (!fact || !fact.grids) return null;
  const head = ["grid", "blocks", "threads", "registers", "shared", "local", "warps"];
  const known = (g, text) => (g.registers === undefined ? "–" : text());
  const row = (g) =>
      [g.blocks.toLocaleString("en"), g.threads, known(g, () => g.registers),
       bytesText(g.shared_bytes + (g.static_shared_bytes || 0)), known(g, () => bytesText(g.local_bytes)),
       known(g, () => `${g.resident_warps} of ${report.machine.resident_warps}`)];
  return [
    h("h3", null, "Grids"),
    h("div", {class: "scroll"},
      h("table", {class: "grids"},
        h("thead", null, h("tr", null, head.map((t, i) => h("th", {scope: "col", class: i ? "number" : null}, t)))),
        h("tbody", null,
          fact.grids.map((g) => h("tr", null, h("td", {class: "mono clip", title: g.symbol}, g.symbol),
                                  row(g).map((cell) => h("td", {class: "number"}, cell))))))),
    h("p", {class: "quiet"},
      "Registers and local memory of a thread, shared memory of a block, warps that a multiprocessor holds at once." +
          (symbols.length ? " Blocks are those of the largest sizes." : ""))
  ];
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
      ...(gpu ? gpuColumns : cpuColumns),
    ];
    $("kernels").replaceChildren(
        h("p", {class: "quiet"},
          `${functionTitle(view.current)} runs ${
              plural(rows.filter((r) => r.kind === "kernel").length, "generated kernel")} and ${
              plural(rows.filter((r) => r.kind === "library").length, "kind")} of library call. `,
          gpu ? `Least time: what the bytes and the products of all runs need on ${gpuName} (${
                    report.machine.copy_gbs} GB/s, ${report.machine.f32_tflops} TFLOP/s in f32, ${
                    report.machine.tensor_tflops} on tensor cores). ` :
                `Fits: the cache of the target that holds all bytes of a run (L1 ${
                    bytesText(report.machine.l1_bytes)}, L2 ${bytesText(report.machine.l2_bytes)}). `,
          "An op that several kernels compute counts in equal parts."),
        h("div", {class: "split"}, sortable("kernel-table", columns, rows, this.state),
          row ? this.text(row) : h("div", {id: "kernel-text"})));
  },
  text(row) {
    const lines = [...row.lines.values()].sort((a, b) => a.place - b.place);
    // A library's call has no text; what runs where the library is missing has.
    const kernel = row.call ? row.call.fallback : row.kind === "kernel" ? row.name : null;
    const code = kernel !== null && Object.hasOwn(kernelTexts, kernel) ? kernelTexts[kernel] : null;
    const why = kernel === null ? "A call of the library that the bundle names; no text is generated." :
        compiled                ? "The bundle holds no text of this kernel." :
                   "Kernels exist after compiling: nablac compile MODEL -o MODEL.nbundle, then inspect the bundle.";
    const call = row.call && list(
        ["library", row.call.library], ["sums", row.call.compute === "tf32" ? "f32, factors tf32" : row.call.compute],
        ["scratch memory", bytesText(row.call.workspace_bytes)], ["without it", h("span", {class: "mono"}, kernel)]);
    return h(
        "div", {id: "kernel-text"}, h("h2", {class: "mono"}, row.name), h("h3", null, "From these lines"),
        h("ul", {class: "lines"},
          lines.slice(0, 40).map(
              (l) =>
                  h("li", null, h("div", {class: "quiet"}, placeLong(l.place), " · ", [...l.ops].join(", ")),
                    h("pre", null, report.places[l.place].text.trim() || " "))),
          lines.length > 40 ? h("li", {class: "quiet"}, `and ${lines.length - 40} more`) : null,
          lines.length === 0 ? h("li", {class: "quiet"}, "No op of the program: a copy that the plan needs.") : null),
        call ? [h("h3", null, "Library call"), call] : null, kernel === null ? null : gridTable(kernelFacts.get(kernel)),
        h("h3", null, gpu ? "Generated CUDA C++" : "Generated C++"),
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

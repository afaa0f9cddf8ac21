// What a run measured (nabla-run --profile --trace), beside what the compiler predicts.

const profiles = data("profile-data");  // of entries; empty: nothing was measured

// What this machine, or the target's GPU, needs at least for all calls of a row; NaN: unknown.
function leastOf(row) {
  if (row.of_peak >= 0) return row.of_peak * row.seconds * 1e6;
  if (!gpu) return NaN;
  const known = row.problem ? libraryCalls.find((c) => row.problem.startsWith(c.problem)) : kernelFacts.get(row.name);
  return known ? row.calls * entryNumber(known, "least_us") : NaN;
}

const orDash = (x, text) => (x > 0 ? text(x) : "–");  // NaN, too
const rateText = (amount, seconds) => orDash(amount / seconds / 1e9, (x) => fixed(x, x < 9.95 ? 2 : x < 99.5 ? 1 : 0));

const profileView = {
  state: {column: 3, down: true, draw: () => profileView.draw()},
  draw() {
    const entry = view.root && view.root.entry && profiles.find((p) => p.entry === view.root.entry.name);
    if (!entry) {
      $("profile").replaceChildren(
          h("p", {class: "quiet"}, `The profile has no run of ${functionTitle(view.root)}; it has those of ${
                                       profiles.map((p) => p.entry).join(", ")}.`));
      return;
    }
    const rows = entry.rows.map(
        (r) => ({...r, least: leastOf(r), what: r.problem || r.name, attributes: {"data-row": r.problem || r.name}}));
    const rows_us = rows.reduce((sum, r) => sum + r.seconds * 1e6, 0);
    const us = entry.seconds * 1e6;
    const what = (r) =>
        kernelFacts.has(r.name) && r.kind === "kernel" ?
        h("button", {class: "link mono", title: r.what, onclick: () => goToKernel(`kernel ${r.name}`)}, r.what) :
        h("span", {class: "mono", title: r.what}, r.what);
    const columns = [
      {title: "what", value: (r) => r.what, class: "clip", cell: what},
      {title: "source line", value: (r) => r.source, cell: (r) => r.source.split("/").pop() || "–"},
      {title: "calls", value: (r) => r.calls, cell: (r) => fixed(r.calls, r.calls % 1 ? 1 : 0), number: true},
      {title: "measured", value: (r) => r.seconds, cell: (r) => timeText(r.seconds * 1e6), number: true, bar: true},
      {
        title: "share",
        value: (r) => r.seconds,
        cell: (r) => orDash(us, () => `${fixed(100 * r.seconds / entry.seconds, 1)} %`),
        number: true
      },
      {title: "least time", value: (r) => r.least || 0, cell: (r) => orDash(r.least, timeText), number: true},
      {
        title: "of peak",
        value: (r) => r.least / r.seconds || 0,
        cell: (r) => orDash(r.least / r.seconds, (x) => `${fixed(1e-4 * x, 0)} %`),
        number: true
      },
      {title: "GFLOP/s", value: (r) => r.flops / r.seconds, cell: (r) => rateText(r.flops, r.seconds), number: true},
      {title: "GB/s", value: (r) => r.bytes / r.seconds, cell: (r) => rateText(r.bytes, r.seconds), number: true},
    ];
    $("profile").replaceChildren(
        h("p", {class: "quiet"},
          `${entry.entry}: ${timeText(us)} a run, the median of ${entry.runs}; ${
              timeText(Math.max(0, us - rows_us))} of it between instructions. Least time: what the FLOPs or the bytes ` +
              (gpu ? `need on ${gpuName}.` : "need by the rates that were measured on the same machine.")),
        sortable("profile-table", columns, rows, this.state));
  },
};

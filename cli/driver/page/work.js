// FLOPs and bytes by op and by source line, in sortable tables with bars.

// columns: [{title, value(row) for sorting, cell(row), number, bar}]; `state` keeps the order between drawings.
function sortable(id, columns, rows, state) {
  const column = columns[state.column];
  const sorted = [...rows].sort((a, b) => {
    const x = column.value(a), y = column.value(b),
          order = typeof x === "string" ? (x < y     ? -1 :
                                               x > y ? 1 :
                                                       0) :
                                          x - y;
    return state.down ? -order : order;
  });
  const most = columns.map((c) => (c.bar ? Math.max(1e-9, ...rows.map(c.value)) : 0));
  const head = columns.map(
      (c, i) =>
          h("th", {
            scope: "col",
            class: c.number ? "number" : null,
            "aria-sort": i !== state.column ? "none" :
                state.down                  ? "descending" :
                                              "ascending"
          },
            h("button", {
              onclick: () => {
                state.down = state.column === i ? !state.down : Boolean(c.number);
                state.column = i;
                state.draw();
              }
            },
              c.title,
              h("span", {class: "arrow", "aria-hidden": "true"},
                i !== state.column ? "" :
                    state.down     ? " ↓" :
                                     " ↑"))));
  const cell = (c, i, row) => {
    const content = c.cell(row);
    if (!c.bar) return h("td", {class: c.class || (c.number ? "number" : null)}, content);
    return h(
        "td", {class: "number bar"},
        h("span", {class: "fill", style: `width:${(100 * c.value(row) / most[i]).toFixed(2)}%`}),
        h("span", null, content));
  };
  return h(
      "div", {class: "scroll"},
      h("table", {id}, h("thead", null, h("tr", null, head)),
        h("tbody", null,
          sorted.map((row) => h("tr", row.attributes || null, columns.map((c, i) => cell(c, i, row)))))));
}

// Nodes of one run of the current function, summed by a key.
function workBy(keyOf) {
  const rows = new Map();
  for (const [f, times] of runsFrom(view.current))
    f.nodes.forEach((n, i) => {
      const key = keyOf(n);
      if (!rows.has(key)) rows.set(key, {key, place: n[node.place], count: 0, flops: 0, bytes: 0, first: [f, i]});
      const row = rows.get(key);
      ++row.count;
      row.flops += times * nodeFlops(n);
      row.bytes += times * sizeOf(n[node.bytes]);
    });
  return [...rows.values()];
}

const work = {
  by: "op",
  state: {column: 2, down: true, draw: () => work.draw()},
  draw() {
    const lines = this.by === "line";
    const rows = workBy((n) => (lines ? placeLong(n[node.place]) : n[node.op]));
    const total = rows.reduce((sum, r) => sum + r.flops, 0);
    rows.forEach((r) => (r.attributes = {"data-row": r.key}));
    const columns = [
      {
        title: lines ? "source line" : "op",
        value: (r) => r.key,
        cell: (r) =>
            h("button", {class: "link" + (lines ? "" : " mono"), onclick: () => goToNode(...r.first)},
              lines ? placeShort(r.place) : r.key)
      },
      {title: "nodes", value: (r) => r.count, cell: (r) => r.count, number: true},
      {title: "FLOPs", value: (r) => r.flops, cell: (r) => flopsText(r.flops), number: true, bar: true},
      {
        title: "share",
        value: (r) => r.flops,
        cell: (r) => (total ? `${fixed(100 * r.flops / total, 1)} %` : "–"),
        number: true
      },
      {title: "bytes, each op alone", value: (r) => r.bytes, cell: (r) => bytesText(r.bytes), number: true, bar: true},
      {
        title: "FLOP / B",
        value: (r) => (r.bytes ? r.flops / r.bytes : 0),
        cell: (r) => intensityText(r.flops, r.bytes),
        number: true
      },
    ];
    if (lines)
      columns.push({
        title: "text",
        value: (r) => report.places[r.place].text,
        cell: (r) => report.places[r.place].text.trim(),
        class: "mono clip"
      });
    if (this.state.column >= columns.length) this.state.column = 2;
    const choice = (value, label) =>
        h("button", {
          class: "tool",
          "aria-pressed": this.by === value ? "true" : "false",
          "data-by": value,
          onclick: () => {
            this.by = value;
            this.draw();
          }
        },
          label);
    $("work").replaceChildren(
        h("div", {class: "tools"},
          h("span", {class: "quiet"},
            `${functionTitle(view.current)}: ${flopsText(total)} in ${
                plural(rows.reduce((s, r) => s + r.count, 0), "node")}`),
          choice("op", "By op"), choice("line", "By source line")),
        sortable("work-table", columns, rows, this.state),
        h("p", {class: "quiet"},
          "Bytes are what each op would read and write by itself; fusion saves most of them: what kernels really move " +
              "stands under Kernels. Loops count their trips, branches their costlier side."));
  },
};

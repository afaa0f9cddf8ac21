// The mesh as a grid of ranks, and of every tensor which part each of them has. A part and its ranks have one colour.

const wholes = report.wholes || [];
const product = (list) => list.reduce((a, b) => a * b, 1);
const maxDrawnRanks = 1024;

// In how many parts a dimension is cut, and which of them a rank has.
const partsOf = (cut) => product(cut[1].map(([, count]) => count));
const partOf = (cut, rank) => cut[1].reduce((n, [stride, count]) => n * count + Math.floor(rank / stride) % count, 0);
const partHue = (part, parts) => Math.round(360 * part / parts + 210) % 360;

// Rows are the parts of the first dimension that is cut, columns those of all others; of the last dimension alone columns.
function placement(whole) {
  const cut = whole.cuts.map((c, d) => ({cut: c, d, parts: partsOf(c)})).filter((c) => c.parts > 1);
  const down = cut.length > 1 || (cut.length === 1 && cut[0].d < whole.shape.length - 1);
  const rows = down ? cut[0].parts : 1, columns = product(cut.map((c) => c.parts)) / rows;
  const of = (rank) => cut.reduce((n, c) => n * c.parts + partOf(c.cut, rank), 0);
  const ranks = Array.from({length: rows * columns}, () => []);
  for (let r = 0; r < Math.min(report.mesh.ranks, maxDrawnRanks); ++r) ranks[of(r)].push(r);
  return {cut, rows, columns, parts: rows * columns, of, ranks};
}

// As --layout takes it.
function layoutWords(whole) {
  if (!whole.cuts.some((c) => partsOf(c) > 1)) return "whole on every rank";
  return whole.cuts.map((c) => c[1].map(([, , axis]) => axis).join("+")).join(",");
}

// A rectangle for the tensor, one in it for every part; with the ranks that have it where there is room.
function placementPicture(whole, width, height, large) {
  const p = placement(whole), w = width / p.columns, tall = height / p.rows;
  const words = (k) => p.ranks[k].length > 1 ? `ranks ${p.ranks[k].join(", ")}` : `rank ${p.ranks[k][0]}`;
  return svg(
      "svg", {
        class: "placement",
        width: width + 1,
        height: height + 1,
        role: "img",
        "aria-label": `${whole.name}: ${p.ranks.map((_, k) => `part ${k} on ${words(k)}`).join("; ")}`
      },
      p.ranks.map((_, k) => {
        const x = (k % p.columns) * w, y = Math.floor(k / p.columns) * tall;
        return svg(
            "g", {
              "data-part": k,
              onmousemove: (e) => tip.show(e, [`${whole.name}, part ${k} of ${p.parts}`, words(k)]),
              onmouseleave: () => tip.hide()
            },
            svg("rect", {class: "part", x: x + 0.5, y: y + 0.5, width: w, height: tall, style: `--hue:${partHue(k, p.parts)}`}),
            large && w > 30 && tall > 14 &&
                svg("text", {x: x + w / 2, y: y + tall / 2 + 4, "text-anchor": "middle"},
                    fitted(p.ranks[k].join(" "), w - 8, smallFont)));
      }));
}

// Columns are the last axis, rows the one before; of the others each coordinate has a block.
function meshPicture(whole, width) {
  const {axes, ranks} = report.mesh, p = placement(whole);
  if (ranks > maxDrawnRanks) return h("p", {class: "quiet"}, `${ranks} ranks are too many for a picture.`);
  const [across, columns] = axes.at(-1), [down, rows] = axes.length > 1 ? axes.at(-2) : ["", 1], blocks = ranks / rows / columns;
  const left = down ? 46 : 4, top = 34, gap = 22;
  const cell = Math.max(14, Math.min(52, (width - left) / columns)), tall = Math.min(cell, 30, Math.max(13, 480 / rows));
  const blockWidth = left + columns * cell, blockHeight = top + rows * tall;
  const beside = Math.max(1, Math.min(blocks, Math.floor((width + gap) / (blockWidth + gap))));
  const blockName = (b) => axes.slice(0, -2)
                               .map(([name, size], i) => {
                                 const stride = product(axes.slice(i + 1, -2).map(([, n]) => n));
                                 return `${name}=${Math.floor(b / stride) % size}`;
                               })
                               .join(" ");
  const block = (b) => {
    const x0 = (b % beside) * (blockWidth + gap), y0 = Math.floor(b / beside) * (blockHeight + gap);
    const head = [
      svg("text", {class: "strong", x: x0 + left, y: y0 + 12}, blocks > 1 ? `${blockName(b)}, ${across} →` : `${across} →`),
      down && svg("text", {class: "strong", x: x0, y: y0 + 12}, `${down} ↓`)
    ];
    const label = (x, y, text, anchor) => svg("text", {class: "faint", x, y, "text-anchor": anchor}, text);
    return [
      head, Array.from({length: columns}, (_, c) => label(x0 + left + (c + 0.5) * cell, y0 + 28, c, "middle")),
      down && Array.from({length: rows}, (_, r) => label(x0 + left - 8, y0 + top + (r + 0.5) * tall + 4, r, "end")),
      Array.from({length: rows * columns}, (_, i) => {
        const rank = b * rows * columns + i, x = x0 + left + (i % columns) * cell, y = y0 + top + Math.floor(i / columns) * tall;
        return svg(
            "g", {
              class: "rank",
              "data-rank": rank,
              onmousemove: (e) => tip.show(e, [`rank ${rank}`, `part ${p.of(rank)} of ${whole.name}`]),
              onmouseleave: () => tip.hide()
            },
            svg("rect", {class: "part", x: x + 1, y: y + 1, width: cell - 2, height: tall - 2, rx: 3,
                         style: `--hue:${partHue(p.of(rank), p.parts)}`}),
            cell >= 22 && svg("text", {x: x + cell / 2, y: y + tall / 2 + 4, "text-anchor": "middle"}, rank));
      })
    ].flat(2);
  };
  return svg(
      "svg", {
        id: "mesh",
        width: Math.min(width, beside * (blockWidth + gap)),
        height: Math.ceil(blocks / beside) * (blockHeight + gap),
        role: "img",
        "aria-label": `mesh ${report.mesh.name}: ${axes.map(([name, size]) => `${name}=${size}`).join(", ")}; ${ranks} ranks`
      },
      Array.from({length: blocks}, (_, b) => block(b)).flat());
}

// The first that is cut, until one is chosen.
const meshView = {
  chosen: Math.max(0, wholes.findIndex((w) => w.cuts.some((c) => partsOf(c) > 1))),
  state: {column: 2, down: true, draw: () => ranksView.draw()},
  // Of the state, and of the entry's inputs and outputs.
  table(entry) {
    const rows = wholes.map((whole, i) => ({whole, i})).filter(({whole}) => whole.kind === "state" || whole.entry === entry);
    const choose = (i) => () => {
      this.chosen = i;
      ranksView.draw();
      document.querySelector(`#wholes-table [data-whole="${i}"]`).focus({preventScroll: true});
    };
    const columns = [
      {title: "parts", value: (r) => r.i, cell: (r) => placementPicture(r.whole, 44, 22, false)},
      {
        title: "tensor",
        value: (r) => r.whole.name,
        cell: (r) => h("button", {class: "link mono", "data-whole": r.i, onclick: choose(r.i)}, r.whole.name),
        class: "clip"
      },
      {title: "is", value: (r) => r.whole.kind, cell: (r) => r.whole.kind},
      {title: "whole", value: (r) => r.whole.type, cell: (r) => r.whole.type, class: "mono"},
      {title: "cut as", value: (r) => layoutWords(r.whole), cell: (r) => layoutWords(r.whole), class: "mono"},
      {title: "copies", value: (r) => r.whole.copies, cell: (r) => r.whole.copies, number: true},
    ];
    rows.forEach((r) => (r.attributes = r.i === this.chosen ? {class: "chosen"} : {}));
    return h("div", {class: "tensors"}, sortable("wholes-table", columns, rows, this.state));
  },
  pictures(width) {
    const whole = wholes[this.chosen], p = placement(whole);
    const dims = p.cut.map((c) => `dimension ${c.d} (${whole.shape[c.d]}) in ${c.parts} along ${
                               c.cut[1].map(([, , axis]) => axis).join(", ")}`);
    return h(
        "div", {class: "beside"},
        h("div", null, h("h2", null, `Mesh ${report.mesh.name}`), meshPicture(whole, Math.min(560, width))),
        h("div", null, h("h2", null, `${whole.name}: ${whole.type}`),
          placementPicture(whole, Math.min(320, width - 2), 150, true),
          h("p", {class: "quiet small"},
            `${dims.length ? dims.join("; ") : "Whole on every rank"}. ${
                whole.padding ? `${plural(whole.padding, "element")} of padding make the parts even. ` : ""}${
                whole.copies > 1 ? `${plural(whole.copies, "rank")} have the same part.` : "Every rank has a part of its own."}`)));
  },
};

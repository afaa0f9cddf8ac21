// What ranks do in a run of an entry: the mesh and its tensors, when it computes and exchanges, and a row per collective, equal ones
// once.

const exchanging = entries.filter((e) => (e.collectives || []).length > 0);

function exchangeRows(entry) {
  const rows = new Map();
  for (const c of entry.collectives) {
    const key = [c.op, c.axes, c.of, c.source, c.dtype, c.elements, JSON.stringify(c.values || [])].join("|");
    if (!rows.has(key)) rows.set(key, {...c, times: 0, payload: 0, padding: 0, sent: 0, time: 0});
    const row = rows.get(key);
    row.times += c.times;
    row.payload += c.times * c.payload_bytes;
    row.padding += c.times * c.padding_bytes;
    row.sent += c.times * c.sent_bytes;
    row.time += c.times * c.us;
  }
  return [...rows.values()];
}

// What lies in a bucket, a line each.
const insideText = (row) => (row.values || []).map((v) => `${v.of} ${v.source}`).join("\n");

const ranksView = {
  state: {column: 7, down: true, draw: () => ranksView.draw()},
  exchanges(entry) {
    if (!(entry.collectives || []).length) {
      const names = exchanging.map((e) => e.name).join(", ");
      return [h("p", {class: "quiet"}, `Ranks exchange nothing here.${names ? ` They do in: ${names}.` : ""}`)];
    }
    const rows = exchangeRows(entry);
    const columns = [
      {title: "collective", value: (r) => r.op, cell: (r) => r.op, class: "mono"},
      {title: "of", value: (r) => r.of, cell: (r) => h("span", {title: insideText(r)}, r.of), class: "mono clip"},
      {title: "along", value: (r) => r.axes, cell: (r) => `${r.axes} of ${r.ranks}`},
      {title: "times", value: (r) => r.times, cell: (r) => r.times, number: true},
      {title: "elements", value: (r) => r.elements, cell: (r) => `${r.elements} ${r.dtype}`, number: true},
      {title: "payload", value: (r) => r.payload, cell: (r) => bytesText(r.payload), number: true, bar: true},
      {title: "padding", value: (r) => r.padding, cell: (r) => (r.padding ? bytesText(r.padding) : "–"), number: true},
      {title: "sent by a rank", value: (r) => r.sent, cell: (r) => bytesText(r.sent), number: true, bar: true},
      {title: "time of links", value: (r) => r.time, cell: (r) => timeText(r.time), number: true, bar: true},
      {title: "reason", value: (r) => r.reason, cell: (r) => r.reason, class: "small"},
      {title: "source", value: (r) => r.source, cell: (r) => r.source, class: "clip"},
    ];
    rows.forEach((r) => (r.attributes = {"data-row": r.op}));
    const count = rows.reduce((sum, r) => sum + r.times, 0);
    return [
      h("p", {class: "quiet"},
        `${entry.name}: a rank sends ${bytesText(entry.sent_bytes)} in ${plural(count, "collective")}, ${
            timeText(entry.exchange_us)} of the links.`),
      sortable("ranks-table", columns, rows, this.state),
      h("p", {class: "quiet"},
        "Payload is the whole buffer: what all_gather brings together, what others start from; its padding is that of " +
            "unevenly cut tensors, the mean over the ranks. Loops count their " +
            "trips. Times are messages and bytes over links, one after the other; computing may go on meanwhile.")
    ];
  },
  draw() {
    const entry = view.root.entry && entries.find((e) => e.name === view.root.entry.name);
    const width = Math.max(280, $("ranks").clientWidth);
    $("ranks").replaceChildren(
        ...(entry && entry.timeline ? timelineView(entry, width) : []),
        ...(wholes.length ? [meshView.pictures(width), meshView.table(entry ? entry.name : "")] : []),
        ...(entry ? [h("h2", null, "Exchanges"), ...this.exchanges(entry)] : []));
  },
};

// A run of an entry as it is predicted: what a rank computes on one line, what it exchanges on the other.

function timelinePicture(line, width) {
  const left = 76, right = 12, top = 6, tall = 30, gap = 8, inner = width - left - right, total = Math.max(line.us, 1e-9);
  const x = (us) => left + us / total * inner;
  const lane = (name, items, row) => {
    const y = top + row * (tall + gap);
    return [
      svg("text", {x: left - 8, y: y + tall / 2 + 4, "text-anchor": "end"}, name),
      svg("rect", {class: "lane", x: left, y, width: inner, height: tall}),
      items.map(([begin, us, what, source]) => {
        const w = Math.max(0.5, us / total * inner - 0.4);
        return svg(
            "g", {
              class: name,
              onmousemove: (e) => tip.show(e, [what, `${timeText(us)} from ${timeText(begin)} on`, source]),
              onmouseleave: () => tip.hide()
            },
            svg("rect", {class: "piece", x: x(begin).toFixed(2), y, width: w.toFixed(2), height: tall}),
            w > 44 && svg("text", {x: x(begin) + 5, y: y + tall / 2 + 4}, fitted(what, w - 10, smallFont)));
      })
    ];
  };
  const bottom = top + 2 * tall + gap;
  return svg(
      "svg", {
        id: "timeline",
        width,
        height: bottom + 22,
        role: "img",
        "aria-label": `${timeText(line.us)}: ${timeText(line.compute_us)} of computing, ${timeText(line.exchange_us)} of exchanges`
      },
      byteTicks(total, 6).map((t) => {
        const mark = svg("line", {x1: x(t), x2: x(t), y1: top, y2: bottom + 4});
        return svg("g", {class: "tick"}, mark,
                   svg("text", {x: x(t), y: bottom + 17, "text-anchor": t ? "middle" : "start"}, t ? timeText(t) : "0"));
      }),
      lane("computes", line.compute, 0), lane("exchanges", line.exchange, 1));
}

function timelineView(entry, width) {
  const line = entry.timeline, both = Math.max(0, line.compute_us + line.exchange_us - line.us);
  return [
    h("h2", null, `A run of ${entry.name}, predicted: ${timeText(line.us)}`),
    h("div", {class: "chart"}, timelinePicture(line, width)),
    h("p", {class: "quiet"},
      `${timeText(line.compute_us)} of computing, ${timeText(line.exchange_us)} of exchanges` +
          (both > 0.0005 ? `, ${timeText(both)} of them beside it` : ", none beside it") +
          `. Many trips of a loop end in one piece for those that are left; nothing here was measured.${symbols.length ? " Sizes are the largest." : ""}`)
  ];
}

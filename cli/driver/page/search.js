// The search box: ops, values, source lines and kernels of every function.

const kMostHits = 40;

// [{text, note, go}], the current function's first.
function searchAll(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean), hits = [];
  if (words.length === 0) return hits;
  const matches = (text) => words.every((w) => text.toLowerCase().includes(w));
  for (const k of report.kernels || [])
    if (matches(k.name)) hits.push({text: k.name, note: "kernel", go: () => goToKernel(keyOfKernel(k)), rank: 2});
  for (const f of functions) {
    const lines = new Map();
    f.nodes.forEach((n, i) => {
      const place = placeLong(n[node.place]), names = n[node.results].map((v) => valueName(f, v)).join(" ");
      const rank = f === view.current ? 0 : 3;
      if (n[node.place] && matches(`${place} ${report.places[n[node.place]].text}`)) {
        if (!lines.has(place))
          lines.set(place, {
            text: placeShort(n[node.place]),
            note: `line of ${functionTitle(f)}`,
            more: report.places[n[node.place]].text.trim(),
            count: 0,
            rank: rank + 0.5,
            go: () => goToNode(f, i)
          });
        ++lines.get(place).count;
      }
      if (matches(`${n[node.op]} ${names} ${place}`) && !matches(place))
        hits.push({
          text: `${n[node.op]}  ${names}`,
          note: `${functionTitle(f)}, ${placeShort(n[node.place])}`,
          rank,
          go: () => goToNode(f, i)
        });
    });
    for (const l of lines.values()) hits.push({...l, note: `${plural(l.count, "node")}, ${l.note}`});
    f.params.forEach((v) => {
      const user = f.users[v][0];
      if (user !== undefined && f.values[v][1] && matches(valueName(f, v)))
        hits.push({
          text: valueName(f, v),
          note: `${isState(f, v) ? "state" : "parameter"} of ${functionTitle(f)}`,
          rank: f === view.current ? 1 : 4,
          go: () => goToNode(f, user)
        });
    });
  }
  return hits.sort((a, b) => a.rank - b.rank);
}

const search = {
  hits: [],
  at: 0,
  close() {
    $("found").hidden = true;
    this.hits = [];
  },
  draw() {
    const query = $("search").value.trim(), all = searchAll(query);
    this.hits = all.slice(0, kMostHits);
    this.at = 0;
    $("found").hidden = query === "";
    const rows = this.hits.map(
        (hit, i) =>
            h("button",
              {role: "option", class: "hit", "aria-selected": i === 0 ? "true" : "false", onclick: () => this.take(i)},
              h("span", {class: "mono"}, hit.text), h("span", {class: "note"}, hit.note),
              hit.more ? h("span", {class: "more mono"}, hit.more) : null));
    const summary = all.length === 0 ? `Nothing has “${query}” in its name or line.` :
        all.length > kMostHits ? `${kMostHits} of ${all.length}` :
                                 plural(all.length, "hit");
    $("found").replaceChildren(h("div", {class: "summary"}, summary), ...rows);
    $("found").scrollTop = 0;
  },
  mark(by) {
    if (this.hits.length === 0) return;
    this.at = (this.at + by + this.hits.length) % this.hits.length;
    [...$("found").querySelectorAll(".hit")].forEach((row, i) => {
      row.setAttribute("aria-selected", i === this.at ? "true" : "false");
      if (i === this.at) row.scrollIntoView({block: "nearest"});
    });
  },
  take(i) {
    const hit = this.hits[i];
    if (!hit) return;
    this.close();
    $("search").blur();
    hit.go();
  },
  setUp() {
    const box = $("search");
    box.addEventListener("input", () => this.draw());
    box.addEventListener("focus", () => {
      if (box.value.trim()) this.draw();
    });
    box.addEventListener("keydown", (e) => {
      if (e.key === "ArrowDown" || e.key === "ArrowUp") {
        e.preventDefault();
        this.mark(e.key === "ArrowDown" ? 1 : -1);
      }
      if (e.key === "Enter") this.take(this.at);
    });
    addEventListener("pointerdown", (e) => {
      if (!e.target.closest(".search")) this.close();
    });
    addEventListener("keydown", (e) => {
      const typing = /^(INPUT|TEXTAREA)$/.test(e.target.tagName);
      if (e.key === "/" && !typing && !e.ctrlKey && !e.metaKey && !e.altKey) {
        e.preventDefault();
        box.focus();
        box.select();
      }
      if (e.key !== "Escape") return;
      if (!$("found").hidden || e.target === box) {
        box.value = "";
        this.close();
        box.blur();
      } else {
        closeDetails();
      }
      tip.hide();
    });
  },
};

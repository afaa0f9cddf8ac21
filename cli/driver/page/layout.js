// A layered layout: every edge points down, neighbours stand near each other.

const kLongEdge = 5;  // an edge over more layers is drawn as two stubs, in full only when one of its ends is chosen

// Distance to the sources; what has no input stands just above its first user.
function layersOf(count, edges) {
  const after = Array.from({length: count}, () => []), waits = new Int32Array(count), layer = new Int32Array(count);
  for (const [a, b] of edges) after[a].push(b), ++waits[b];
  const inputs = Int32Array.from(waits), order = [];
  for (let i = 0; i < count; ++i)
    if (waits[i] === 0) order.push(i);
  for (let k = 0; k < order.length; ++k)
    for (const b of after[order[k]]) {
      layer[b] = Math.max(layer[b], layer[order[k]] + 1);
      if (--waits[b] === 0) order.push(b);
    }
  for (const i of order.reverse())
    if (inputs[i] === 0 && after[i].length) layer[i] = Math.min(...after[i].map((b) => layer[b])) - 1;
  return layer;
}

// The places nearest to `wanted` (least squares) that keep the order and the distances between neighbours.
function spread(wanted, width, gap) {
  const shift = [], blocks = [];
  let sum = 0;
  for (let i = 0; i < wanted.length; ++i) {
    if (i) sum += (width[i - 1] + width[i]) / 2 + gap;
    shift.push(sum);
    let block = {total: wanted[i] - sum, count: 1};
    while (blocks.length && blocks.at(-1).total / blocks.at(-1).count > block.total / block.count) {
      const last = blocks.pop();
      block = {total: last.total + block.total, count: last.count + block.count};
    }
    blocks.push(block);
  }
  const out = [];
  for (const b of blocks)
    for (let i = 0; i < b.count; ++i) out.push(b.total / b.count + shift[out.length]);
  return out;
}

// items: [{w, h}]; edges: [[from, to]] without cycles. Gives each item a centre x and a top y, each edge its points, or
// null where it is too long to be followed by the eye, and the size of it all.
function layered(items, edges) {
  const layer = layersOf(items.length, edges);
  const cells = items.map((it, i) => ({w: it.w, h: it.h, layer: layer[i], up: [], down: [], x: 0}));
  const chains = edges.map(([a, b]) => {
    if (layer[b] - layer[a] > kLongEdge) return null;
    const chain = [a];
    for (let l = layer[a] + 1; l < layer[b]; ++l) {
      chain.push(cells.length);
      cells.push({w: 8, h: 0, layer: l, up: [], down: [], x: 0});
    }
    chain.push(b);
    for (let k = 1; k < chain.length; ++k)
      cells[chain[k - 1]].down.push(chain[k]), cells[chain[k]].up.push(chain[k - 1]);
    return chain;
  });
  const rows = [];
  cells.forEach((c, i) => (rows[c.layer] = rows[c.layer] || []).push(i));
  for (let l = 0; l < rows.length; ++l) rows[l] = rows[l] || [];

  // Order within layers: by the mean place of the neighbours above, then below, some times over.
  const place = new Float64Array(cells.length);
  const number = (row) => row.forEach((c, k) => (place[c] = (k + 0.5) / row.length));
  rows.forEach(number);
  for (let round = 0; round < 12; ++round) {
    const side = round % 2 ? "down" : "up";
    for (const row of round % 2 ? [...rows].reverse() : rows) {
      const key = new Map(row.map((c) => {
        const near = cells[c][side];
        return [c, near.length ? near.reduce((sum, n) => sum + place[n], 0) / near.length : place[c]];
      }));
      row.sort((a, b) => key.get(a) - key.get(b) || a - b);
      number(row);
    }
  }
  const gap = 18;
  const set = (row, wanted) => spread(wanted, row.map((c) => cells[c].w), gap).forEach((x, k) => (cells[row[k]].x = x));
  for (const row of rows) set(row, row.map(() => 0));
  for (let round = 0; round < 10; ++round)
    for (const row of round % 2 ? [...rows].reverse() : rows)
      set(row, row.map((c) => {
        const near = [...cells[c].up, ...cells[c].down, ...cells[c][round % 2 ? "down" : "up"]];
        return near.length ? near.reduce((sum, n) => sum + cells[n].x, 0) / near.length : cells[c].x;
      }));

  let y = 0;
  const top = rows.map((row) => {
    const at = y, height = Math.max(0, ...row.map((c) => cells[c].h));
    y += height + (height ? 34 : 12);
    return {at, height};
  });
  const left = Math.min(0, ...cells.map((c) => c.x - c.w / 2)), right = Math.max(0, ...cells.map((c) => c.x + c.w / 2));
  const at = items.map((it, i) => ({x: cells[i].x - left, y: top[layer[i]].at}));
  const middle = (c) => ({x: cells[c].x - left, y: top[cells[c].layer].at + top[cells[c].layer].height / 2});
  const routes = chains.map((chain) => chain && [
    {x: at[chain[0]].x, y: at[chain[0]].y + items[chain[0]].h},
    ...chain.slice(1, -1).map(middle),
    at[chain.at(-1)],
  ]);
  return {at, routes, width: right - left, height: Math.max(0, y - 34)};
}

// A curve through points that leaves and enters vertically.
function curve(points) {
  let path = `M${points[0].x.toFixed(1)} ${points[0].y.toFixed(1)}`;
  for (let i = 1; i < points.length; ++i) {
    const a = points[i - 1], b = points[i], bend = (b.y - a.y) / 2;
    path += `C${a.x.toFixed(1)} ${(a.y + bend).toFixed(1)} ${b.x.toFixed(1)} ${(b.y - bend).toFixed(1)} ${
        b.x.toFixed(1)} ${b.y.toFixed(1)}`;
  }
  return path;
}

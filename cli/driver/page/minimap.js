// The whole graph as a strip beside the drawing: where one is, and a way to be elsewhere.

const minimap = {
  width: 64,

  draw() {
    const {width, height} = graph.size, tall = $("stage").clientHeight;
    const needed = width * graph.at.k > $("stage").clientWidth || height * graph.at.k > tall;
    $("strip").toggleAttribute("hidden", !needed || tall === 0);
    this.x = (this.width - 8) / Math.max(1, width);
    this.y = Math.min((tall - 10) / Math.max(1, height), this.x * 8);
    const boxes =
        [...graph.boxes].filter(([key]) => !graph.inner.has(key)).map(([key, b]) => svg("rect", {
                                                                        class: "spine",
                                                                        x: 4 + b.x * this.x,
                                                                        y: 4 + b.y * this.y,
                                                                        width: Math.max(2, b.w * this.x),
                                                                        height: Math.max(1, b.h * this.y),
                                                                        style: `--hue:${graph.hues.get(key) ?? 0}`
                                                                      }));
    $("strip").replaceChildren(...boxes, svg("rect", {id: "window", rx: 2}));
    this.move();
  },
  move() {
    const {x, y, k} = graph.at, window = $("window");
    if (!window) return;
    const shown = {
      x: 4 - x / k * this.x,
      y: 4 - y / k * this.y,
      width: $("stage").clientWidth / k * this.x,
      height: $("stage").clientHeight / k * this.y
    };
    const left = Math.max(1, shown.x), top = Math.max(1, shown.y);
    window.setAttribute("x", left.toFixed(1));
    window.setAttribute("y", top.toFixed(1));
    window.setAttribute("width", Math.max(0, Math.min(this.width - 1, shown.x + shown.width) - left).toFixed(1));
    window.setAttribute("height", Math.max(0, shown.y + shown.height - top).toFixed(1));
  },
  goTo(e) {
    const box = $("strip").getBoundingClientRect(), k = graph.at.k;
    graph.at.x = $("stage").clientWidth / 2 - (e.clientX - box.left - 4) / this.x * k;
    graph.at.y = $("stage").clientHeight / 2 - (e.clientY - box.top - 4) / this.y * k;
    graph.move();
  },
  element() {
    return svg("svg", {
      id: "strip",
      width: this.width,
      "aria-hidden": "true",
      onpointerdown: (e) => {
        $("strip").setPointerCapture(e.pointerId);
        this.goTo(e);
      },
      onpointermove: (e) => {
        if (e.buttons) this.goTo(e);
      }
    });
  },
};

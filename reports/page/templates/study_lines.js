// Parallel coordinates of a study: every point a line through all its parameters and values.
"use strict";
(() => {
  const { showTip, hideTip, onPaint } = npusim;
  const { data, count, all, objectives, columns, ranges, passes, shown, setRange, marks, mark, choose, open, on, speak, BEYOND } = study;
  const { FONT, MANY, SHADES, later, layers, palette, scaleOf, fitted, ramp } = kit;
  const ROW = 54, BAND = 0.28, MOST_LEFT = 600;
  const hash = (i) => (((i + 1) * 2654435761) % 4294967296) / 4294967296 - 0.5;
  function parallel(host, coloured) {
    const places = new Float32Array(count * columns.length);
    let plot = null, placed = "", axis = 0, drag = null, byKey = false, by = objectives[0];
    const scales = () => columns.map((column) => {
      const [low, high] = column.range;
      return column.levels ? scaleOf(column, low - 0.5, high + 0.5, false) : scaleOf(column, low, high, column.log && low > 0);
    });
    // On a wide screen axes stand and lines run to the right; on a narrow one axes lie and lines run down.
    function layout() {
      const narrow = host.clientWidth < 720, height = narrow ? columns.length * ROW + 8 : 400;
      const { width, under, over } = layers(host, height);
      const box = narrow ? { from: 10, to: width - 10 } : { from: height - 30, to: 58 };
      const gap = narrow ? ROW : (width - 110) / Math.max(columns.length - 1, 1);
      const place = (n) => (narrow ? n * ROW + 30 : 55 + n * gap);
      const own = scales();
      const along = (n, value) => box.from + own[n].of(value) * (box.to - box.from);
      const spread = columns.map((column) => (column.levels ? BAND * Math.min(Math.abs(box.to - box.from) / column.levels.length, 60) : 0));
      plot = { narrow, width, height, under, over, place, gap, own, along, box, spread, colours: palette() };
      const key = [width, height, study.model, study.least].join();
      if (key === placed) return;  // a filter moves nothing
      placed = key;
      all.filter(complete).forEach((i) => columns.forEach((column, n) => { places[i * columns.length + n] = along(n, column.at(i)) + hash(i) * spread[n]; }));
    }
    const value = (n, i) => places[i * columns.length + n];
    const move = (context, n, i) => (plot.narrow ? context.lineTo(value(n, i), plot.place(n)) : context.lineTo(plot.place(n), value(n, i)));
    function line(context, i) {
      context.beginPath();
      for (let n = 0; n < columns.length; n += 1) move(context, n, i);
      context.stroke();
    }
    const complete = (i) => data.state[i] >= BEYOND;
    function draw(most = Infinity) {
      layout();
      const { under, colours } = plot, part = scaleOf(by, ...by.range, by.log);
      const inside = all.filter((i) => complete(i) && data.state[i] >= study.least);
      const kept = inside.filter((i) => passes[i]), every = Math.ceil(kept.length / most), left = inside.filter((i) => !passes[i]);
      under.lineWidth = 1;
      under.strokeStyle = colours.rule;
      under.globalAlpha = left.length > 400 ? 0.25 : 0.6;
      left.filter((_, k) => k % Math.ceil(left.length / MOST_LEFT) === 0).forEach((i) => line(under, i));
      under.globalAlpha = Math.max(0.18, Math.min(0.85, 60 / Math.max(kept.length, 1)));
      under.lineWidth = kept.length > 300 ? 0.8 : 1.3;
      const shades = ramp();
      kept.forEach((i, k) => {
        if (k % every) return;
        under.strokeStyle = shades[Math.round(Math.min(Math.max(part.of(by.at(i)), 0), 1) * (SHADES - 1))];
        line(under, i);
      });
      under.globalAlpha = 1;
      columns.forEach((_, n) => axisOf(under, n));
      marked();
    }
    function axisOf(context, n) {
      const { colours, place, along, own, narrow, gap } = plot, column = columns[n], at = Math.round(place(n)) + 0.5;
      const put = (text, x, y, ink) => { context.strokeStyle = colours.paper; context.lineWidth = 3; context.lineJoin = "round"; context.strokeText(text, x, y); context.fillStyle = ink; context.fillText(text, x, y); };
      const range = ranges.get(column.id);
      context.lineWidth = 1;
      context.strokeStyle = colours.soft;
      context.beginPath();
      if (narrow) { context.moveTo(plot.box.from, at); context.lineTo(plot.box.to, at); } else { context.moveTo(at, plot.box.to); context.lineTo(at, plot.box.from); }
      context.stroke();
      if (range) {
        const half = column.levels ? 0.5 : 0;
        const [a, b] = [along(n, Math.max(range[0] - half, own[n].low)), along(n, Math.min(range[1] + half, own[n].high))];
        context.fillStyle = colours.accent;
        context.globalAlpha = 0.28;
        context.fillRect(...(narrow ? [Math.min(a, b), at - 9, Math.abs(b - a), 18] : [at - 9, Math.min(a, b), 18, Math.abs(b - a)]));
        context.globalAlpha = 1;
      }
      const ticks = own[n].ticks(narrow ? 5 : 8).filter((each) => each >= own[n].low && each <= own[n].high);
      let last = -1e9;
      context.textAlign = narrow ? "center" : "left";
      ticks.forEach((each) => {
        const text = fitted(context, column.tick(each), narrow ? 90 : gap - 12), p = along(n, each), size = narrow ? context.measureText(text).width : 12;
        if (narrow) {
          if (p - size / 2 < last + 6) return;
          last = p + size / 2;
          put(text, Math.min(Math.max(p, size / 2), plot.width - size / 2), at + 14, colours.soft);
        } else put(text, at + 5, p + 4, colours.soft);
      });
      const title = column.short + (column.goal ? (column.goal === "max" ? (narrow ? " \u2192 better" : " \u2191") : narrow ? " \u2190 better" : " \u2193") : "");
      if (narrow) {
        context.textAlign = "left";
        put(fitted(context, column.title + title.slice(column.short.length), plot.width - 20), 2, at - 13, colours.ink);
      } else {
        const first = n === 0, end = n === columns.length - 1;
        context.textAlign = "center";
        const room = Math.min(gap - 4, first || end ? 106 : gap), at_ = Math.min(Math.max(at, 54), plot.width - 54);
        put(fitted(context, column.above, room), at_, 18, colours.soft);
        if (context.measureText(title).width > room) context.font = FONT.replace("12px", "11px");
        put(fitted(context, title, room), at_, 34, colours.ink);
        context.font = FONT;
      }
      if (document.activeElement === host && n === axis) {
        context.fillStyle = colours.ink;
        context.fillRect(...(narrow ? [plot.box.from - 8, at - 4, 5, 8] : [at - 4, plot.height - 20, 8, 5]));
      }
    }
    function marked() {
      const { over, colours } = plot;
      over.clearRect(0, 0, plot.width + 2, plot.height + 2);
      [[marks.chosen, 2.6], [marks.here, 2]].forEach(([i, wide]) => {
        if (i < 0 || !complete(i)) return;
        over.strokeStyle = colours.paper; over.lineWidth = wide + 3; line(over, i);
        over.strokeStyle = colours.ink; over.lineWidth = wide; line(over, i);
      });
    }
    function nearest(px, py) {
      const [across, along] = plot.narrow ? [py, px] : [px, py];
      const gap = plot.gap, n = Math.min(Math.max(Math.floor((across - plot.place(0)) / gap), 0), columns.length - 2);
      if (columns.length < 2) return -1;
      const part = (across - plot.place(n)) / gap;
      let found = -1, least = 10;
      all.forEach((i) => {
        if (!shown(i) || !complete(i)) return;
        const distance = Math.abs(value(n, i) + (value(n + 1, i) - value(n, i)) * part - along);
        if (distance < least) [found, least] = [i, distance];
      });
      return found;
    }
    const local = (event) => { const box = host.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    function axisAt([px, py]) {
      const across = plot.narrow ? py : px, n = Math.round((across - plot.place(0)) / plot.gap);
      return n >= 0 && n < columns.length && Math.abs(across - plot.place(n)) < (plot.narrow ? 16 : 20) ? n : -1;
    }
    function brush(n, a, b) {
      const column = columns[n], back = (p) => plot.own[n].back((p - plot.box.from) / (plot.box.to - plot.box.from));
      const [low, high] = [back(a), back(b)].sort((one, two) => one - two);
      setRange(column.id, column.levels ? [Math.ceil(low - 0.35), Math.floor(high + 0.35)] : [low, high]);
    }
    host.addEventListener("pointerdown", (event) => {
      const at = local(event), n = axisAt(at);
      drag = { n, from: plot.narrow ? at[0] : at[1], moved: false };
      if (n >= 0 && event.pointerType !== "touch") host.setPointerCapture(event.pointerId);
    });
    host.addEventListener("pointermove", (event) => {
      const at = local(event), along = plot.narrow ? at[0] : at[1];
      byKey = false;
      if (drag && drag.n >= 0 && (drag.moved || Math.abs(along - drag.from) > 4)) {
        drag.moved = true;
        hideTip();
        brush(drag.n, drag.from, along);
        return;
      }
      const i = nearest(...at);
      mark(i);
      speak(i, event.clientX, event.clientY);
    });
    host.addEventListener("pointerup", (event) => {
      if (!drag) return;
      const { n, moved } = drag;
      drag = null;
      if (moved) return;
      if (n >= 0 && ranges.has(columns[n].id)) { setRange(columns[n].id, null); return; }
      const i = nearest(...local(event));
      choose(i);
      mark(i);
    });
    host.addEventListener("pointercancel", () => { drag = null; });
    host.addEventListener("pointerleave", () => { if (!byKey && !drag?.moved) { mark(-1); hideTip(); } });
    host.addEventListener("focus", () => draw());
    host.addEventListener("blur", () => { if (byKey) { byKey = false; mark(-1); hideTip(); } draw(); });
    host.addEventListener("keydown", (event) => {
      const turn = { ArrowLeft: -1, ArrowRight: 1 }[event.key], step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (turn) axis = Math.min(Math.max(axis + turn, 0), columns.length - 1);
      if (turn || step) {
        const column = columns[axis], order = all.filter((i) => shown(i) && complete(i)).sort((a, b) => column.at(a) - column.at(b) || a - b);
        const now = order.indexOf(marks.here), i = order[now < 0 ? 0 : Math.min(Math.max(now + (step ?? 0), 0), order.length - 1)];
        if (i === undefined) return;
        byKey = true;
        mark(i);
        draw();
        const box = host.getBoundingClientRect(), along = value(axis, i), across = plot.place(axis);
        showTip([`${column.title}: ${column.text(i)}`, ...study.describe(i)], box.left + (plot.narrow ? along : across), box.top + (plot.narrow ? across : along), true);
      } else if (event.key === "Enter" && marks.here >= 0) open(marks.here);
      else if (event.key === " " && marks.here >= 0) choose(marks.here);
      else if (event.key === "Escape") { mark(-1); hideTip(); }
      else return;
      event.preventDefault();
    });
    columns.forEach((column, n) => coloured.append(Object.assign(document.createElement("option"), { value: n, textContent: column.title, selected: column === by })));
    const legend = () => {
      const [low, high] = by.range;
      document.querySelector("[data-ramp=low]").textContent = `${by.title} ${by.tick(low)}`;
      document.querySelector("[data-ramp=high]").textContent = by.tick(high);
      document.querySelector(".ramp i").style.background = `linear-gradient(to right, ${ramp().join(", ")})`;
    };
    const redraw = () => { draw(); legend(); };
    coloured.addEventListener("change", () => { by = columns[coloured.value]; redraw(); });
    onPaint(redraw);
    const full = later(redraw);
    on("filter", () => {
      if (count <= MANY) { redraw(); return; }
      draw(MANY / 4);
      legend();
      full();
    });
    on("model", redraw);
    on("mark", marked);
    let width = host.clientWidth;
    new ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; draw(); } }).observe(host);
  }

  const lines = document.getElementById("lines");
  if (lines && objectives.length) parallel(lines, document.querySelector("[data-colour]"));
})();

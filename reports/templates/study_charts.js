// The charts of a study: every pair of objectives, parallel coordinates, the growth of the front.
"use strict";
(() => {
  const { show, colour, showTip, hideTip, onPaint } = npusim;
  const { data, count, all, front, parameters, values, objectives, columns, worth, ranges, passes, shown, setRange, marks, mark, choose, open, on, speak, BEYOND, FEASIBLE, FRONT } = study;
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
  const NEAR = 18, ROOM = 0.6;
  const baseOf = (column) => data.base[values.indexOf(column)]?.[study.model] ?? null;

  // --- canvases and axes -----------------------------------------------------------------------------------------
  function layers(host, height) {  // what is heavy below, what follows the pointer above
    const width = Math.max(host.clientWidth, 200), scale = Math.max(devicePixelRatio || 1, matchMedia("print").matches ? 2 : 1);
    let pair = [...host.querySelectorAll("canvas")];
    if (!pair.length) {
      pair = [0, 1].map((n) => Object.assign(document.createElement("canvas"), { className: n ? "layer" : "" }));
      pair.forEach((each) => each.setAttribute("aria-hidden", "true"));
      host.append(...pair);
    }
    const contexts = pair.map((canvas) => {
      if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
        canvas.width = Math.round(width * scale);
        canvas.height = Math.round(height * scale);
        canvas.style.height = height + "px";
      }
      const context = canvas.getContext("2d");
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = FONT;
      return context;
    });
    return { width, height, under: contexts[0], over: contexts[1] };
  }
  function palette() {
    return Object.fromEntries(["ink", "soft", "rule", "faint", "paper", "accent", "on-front", "dot"].map((name) => [name, colour(name)]));
  }
  const nice = (low, high, most) => {
    const rough = (high - low) / Math.max(most, 1), power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= rough * 0.999);
    const found = [];
    for (let n = Math.ceil(low / step - 1e-9); n * step <= high * (1 + 1e-12) + 1e-12; n += 1) found.push(Number((n * step).toPrecision(12)));
    return found;
  };
  function decades(low, high, most) {
    for (const parts of [[1, 2, 3, 5], [1, 2, 5], [1, 3], [1]]) {
      const found = [];
      for (let n = Math.floor(Math.log10(low)); n <= Math.log10(high); n += 1) found.push(...parts.map((part) => Number((part * 10 ** n).toPrecision(6))).filter((each) => each >= low * 0.999 && each <= high * 1.001));
      if (found.length <= most || parts.length === 1) return found.length > 1 ? found : nice(low, high, most);
    }
    return [];
  }
  // A scale: of(value) is 0 to 1, back(part) its inverse.
  function scaleOf(column, low, high, log) {
    if (high === low) [low, high] = column.levels ? [low - 0.5, high + 0.5] : [low - Math.abs(low) * 0.05 - 1e-9, high + Math.abs(high) * 0.05 + 1e-9];
    const f = log ? Math.log : (x) => x, g = log ? Math.exp : (x) => x;
    const a = f(low), span = f(high) - a;
    return {
      low, high, log, of: (value) => (f(value) - a) / span, back: (part) => g(a + part * span),
      ticks: (most) => (column.levels ? nice(Math.ceil(low), Math.floor(high), most).filter(Number.isInteger) : log ? decades(low, high, most) : nice(low, high, most)),
    };
  }
  function fitted(context, text, width) {
    if (context.measureText(text).width <= width) return text;
    for (let keep = text.length - 1; keep > 2; keep -= 1) {
      const short = text.slice(0, keep) + "\u2026";
      if (context.measureText(short).width <= width) return short;
    }
    return "";
  }
  function ramp(part) {  // blue, grey, orange: told apart with every common colour blindness
    const dark = colour("paper").startsWith("#1"), stops = dark ? [[92, 168, 240], [150, 158, 168], [245, 150, 70]] : [[31, 100, 178], [136, 140, 150], [214, 98, 18]];
    const at = Math.min(Math.max(part, 0), 1) * 2, n = Math.min(Math.floor(at), 1);
    return `rgb(${stops[n].map((from, k) => Math.round(from + (stops[n + 1][k] - from) * (at - n))).join(" ")})`;
  }

  // --- every pair of objectives ----------------------------------------------------------------------------------
  const options = { near: true, log: true };
  const plots = [];
  function scatter(host, x, y) {
    const places = new Float32Array(count * 2);
    let plot = null, byKey = false;
    const drawn = (i) => data.state[i] >= BEYOND && !Number.isNaN(places[2 * i]);

    function scale(column) {
      const known = (options.near && front.length > 1 ? front : all.filter((i) => data.state[i] >= FEASIBLE)).map((i) => column.at(i));
      if (column.levels) return scaleOf(column, column.range[0] - 0.4, column.range[1] + 0.4, false);
      let low = Math.min(...known), high = Math.max(...known);
      const log = options.log && column.log && low > 0;
      const place = baseOf(column);
      if (options.near) {  // the front, and as much again of what lies behind it
        const [f, g] = log ? [Math.log, Math.exp] : [(v) => v, (v) => v], reach = (f(high) - f(low)) * ROOM;
        if (column.goal === "max") low = log ? g(f(low) - reach) : low - reach;
        else high = g(f(high) + reach);
      } else if (place !== null) [low, high] = [Math.min(low, place), Math.max(high, place)];
      const pad = log ? (high / low) ** 0.05 : (high - low) * 0.05;
      return scaleOf(column, log ? low / pad : low - pad, log ? high * pad : high + pad, log);
    }
    function draw() {
      const colours = palette(), height = host.clientWidth > 620 ? 420 : 300;
      const { width, under, over } = layers(host, height);
      const box = { left: 52, right: width - 8, top: 22, bottom: height - 40 };
      const sx = scale(x), sy = scale(y);
      const X = (value) => box.left + sx.of(value) * (box.right - box.left), Y = (value) => box.bottom - sy.of(value) * (box.bottom - box.top);
      plot = { box, over, colours, X, Y };
      axes(under, colours, box, sx, sy, X, Y);
      under.save();
      under.beginPath();
      under.rect(box.left, box.top - 6, box.right - box.left + 8, box.bottom - box.top + 6);
      under.clip();
      for (let i = 0; i < count; i += 1) {
        const known = data.state[i] >= BEYOND, px = known ? X(x.at(i)) : NaN, py = known ? Y(y.at(i)) : NaN;
        const inside = px >= box.left - 1 && px <= box.right + 1 && py >= box.top - 1 && py <= box.bottom + 1;
        places[2 * i] = inside ? px : NaN;
        places[2 * i + 1] = inside ? py : NaN;
      }
      dots(under, colours);
      stairs(under, colours, box, X, Y);
      best(under, colours);
      under.restore();
      marked();
    }
    function axes(context, colours, box, sx, sy, X, Y) {
      context.strokeStyle = colours.rule;
      context.fillStyle = colours.soft;
      context.lineWidth = 1;
      context.beginPath();
      context.textAlign = "center";
      let last = -1e9;
      sx.ticks(6).forEach((value) => {
        const at = Math.round(X(value)) + 0.5, text = x.tick(value), half = context.measureText(text).width / 2;
        context.moveTo(at, box.top);
        context.lineTo(at, box.bottom);
        if (at - half < last + 8 || at + half > box.right + 8) return;
        context.fillText(text, at, box.bottom + 16);
        last = at + half;
      });
      context.textAlign = "right";
      sy.ticks(6).forEach((value) => {
        const at = Math.round(Y(value)) + 0.5;
        context.moveTo(box.left, at);
        context.lineTo(box.right, at);
        context.fillText(y.tick(value), box.left - 7, at + 4);
      });
      context.stroke();
      context.fillStyle = colours.ink;
      context.textAlign = "right";
      context.fillText(x.title + (x.goal ? (x.goal === "max" ? " \u2192 better" : " \u2190 better") : ""), box.right, box.bottom + 34);
      context.textAlign = "left";
      context.fillText(y.title + (y.goal ? (y.goal === "max" ? " \u2191 better" : " \u2193 better") : ""), box.left - 46, 11);
    }
    function dots(context, colours) {
      const groups = [["rule", 0.9, (i) => data.state[i] < FRONT && !passes[i], 1.2], ["dot", 0.5, (i) => data.state[i] === FEASIBLE && passes[i], count > 2000 ? 1.5 : 2.2]];
      groups.forEach(([name, alpha, fits, radius]) => {
        context.fillStyle = colours[name];
        context.globalAlpha = alpha;
        for (let i = 0; i < count; i += 1) {
          if (!drawn(i) || !fits(i)) continue;
          if (count > 2000) context.fillRect(places[2 * i] - radius, places[2 * i + 1] - radius, 2 * radius, 2 * radius);
          else { context.beginPath(); context.arc(places[2 * i], places[2 * i + 1], radius, 0, 7); context.fill(); }
        }
      });
      context.globalAlpha = 0.5;
      context.strokeStyle = colours.dot;
      context.beginPath();
      for (let i = 0; i < count; i += 1) {
        if (data.state[i] !== BEYOND || !passes[i] || !drawn(i)) continue;
        const [px, py] = [places[2 * i], places[2 * i + 1]];
        context.moveTo(px - 2.2, py - 2.2); context.lineTo(px + 2.2, py + 2.2);
        context.moveTo(px - 2.2, py + 2.2); context.lineTo(px + 2.2, py - 2.2);
      }
      context.stroke();
      context.globalAlpha = 1;
    }
    function stairs(context, colours, box, X, Y) {  // what is best in these two values alone
      if (!x.goal || !y.goal) return;
      const good = all.filter((i) => data.state[i] >= FEASIBLE).sort((a, b) => worth(x, a) - worth(x, b) || worth(y, a) - worth(y, b));
      let bestY = Infinity, at = null;
      context.strokeStyle = colours["on-front"];
      context.globalAlpha = 0.7;
      context.lineWidth = 1.2;
      context.beginPath();
      good.forEach((i) => {
        if (worth(y, i) >= bestY) return;
        bestY = worth(y, i);
        const px = X(x.at(i)), py = Y(y.at(i));
        if (at === null) context.moveTo(px, y.goal === "max" ? box.bottom : box.top);
        else context.lineTo(px, at);
        context.lineTo(px, py);
        at = py;
      });
      if (at !== null) context.lineTo(x.goal === "max" ? box.left : box.right, at);
      context.stroke();
      context.globalAlpha = 1;
      context.lineWidth = 1;
    }
    function best(context, colours) {
      const radius = front.length > 150 ? 3 : 4;
      front.forEach((i) => {
        if (!drawn(i)) return;
        context.beginPath();
        context.arc(places[2 * i], places[2 * i + 1], passes[i] ? radius : 2, 0, 7);
        context.fillStyle = passes[i] ? colours["on-front"] : colours.rule;
        context.fill();
        if (!passes[i]) return;
        context.strokeStyle = colours.paper;
        context.stroke();
      });
      const [bx, by] = [x, y].map(baseOf);
      if (bx === null || by === null) return;
      const [px, py] = [plot.X(bx), plot.Y(by)];
      context.fillStyle = colours.ink;
      context.strokeStyle = colours.paper;
      context.beginPath();
      context.moveTo(px, py - 7); context.lineTo(px + 7, py); context.lineTo(px, py + 7); context.lineTo(px - 7, py);
      context.closePath();
      context.fill();
      context.stroke();
    }
    function marked() {
      const { over, box, colours } = plot;
      over.clearRect(0, 0, box.right + 20, box.bottom + 60);
      [[marks.chosen, 2.4, 8], [marks.here, 1.5, 6.5]].forEach(([i, line, radius]) => {
        if (i < 0 || !drawn(i)) return;
        over.strokeStyle = colours.ink;
        over.lineWidth = line;
        over.beginPath();
        over.arc(places[2 * i], places[2 * i + 1], radius, 0, 7);
        over.stroke();
      });
    }
    function nearest(px, py) {
      let found = -1, least = NEAR;
      for (let i = 0; i < count; i += 1) {
        if (!passes[i] || !drawn(i)) continue;
        const distance = Math.hypot(places[2 * i] - px, places[2 * i + 1] - py) - (data.state[i] === FRONT ? 5 : 0);
        if (distance < least) [found, least] = [i, distance];
      }
      return found;
    }
    const from = (event) => { const box = host.getBoundingClientRect(); return nearest(event.clientX - box.left, event.clientY - box.top); };
    host.addEventListener("pointermove", (event) => { byKey = false; const i = from(event); mark(i); speak(i, event.clientX, event.clientY); });
    host.addEventListener("pointerleave", () => { if (!byKey) { mark(-1); hideTip(); } });
    host.addEventListener("click", (event) => { const i = from(event); choose(i); mark(i); speak(i, event.clientX, event.clientY); });
    host.addEventListener("blur", () => { if (byKey) { byKey = false; mark(-1); hideTip(); } });
    host.addEventListener("keydown", (event) => {
      const along = { ArrowLeft: x, ArrowRight: x, ArrowUp: y, ArrowDown: y, Home: x, End: x }[event.key];
      if (along) {
        const order = front.filter((i) => passes[i] && drawn(i)).sort((a, b) => along.at(a) - along.at(b) || a - b), now = order.indexOf(marks.here);
        const next = { Home: 0, End: order.length - 1 }[event.key] ?? (now < 0 ? 0 : now + (["ArrowRight", "ArrowUp"].includes(event.key) ? 1 : -1));
        const i = order[Math.min(Math.max(next, 0), order.length - 1)];
        if (i === undefined) return;
        byKey = true;
        mark(i);
        const box = host.getBoundingClientRect();
        speak(i, box.left + places[2 * i], box.top + places[2 * i + 1], true);
      } else if (event.key === "Enter" && marks.here >= 0) open(marks.here);
      else if (event.key === " " && marks.here >= 0) choose(marks.here);
      else if (event.key === "Escape") { mark(-1); hideTip(); }
      else return;
      event.preventDefault();
    });
    return { draw, marked };
  }
  function pairs() {
    if (objectives.length > 1) return objectives.flatMap((x, n) => objectives.slice(n + 1).map((y) => [x, y]));
    return parameters.map((x) => [x, objectives[0]]);  // one objective: along each parameter
  }
  function front_() {
    const host = document.getElementById("plots");
    if (!host || !objectives.length) return;
    const wanted = pairs();
    host.classList.toggle("one", wanted.length === 1);
    wanted.forEach(([x, y]) => {
      const each = Object.assign(document.createElement("div"), { className: "chart", tabIndex: 0 });
      each.setAttribute("role", "application");
      each.setAttribute("aria-label", `${y.title} against ${x.title}. Arrow keys: points of the front, Enter: hardware file`);
      host.append(each);
      plots.push(scatter(each, x, y));
    });
    const [near, log] = [document.querySelector("[data-near]"), document.querySelector("[data-log]")];
    near.parentElement.hidden = front.length < 2;
    log.parentElement.hidden = !objectives.some((each) => each.log);
    [[near, "near"], [log, "log"]].forEach(([box, name]) => box.addEventListener("change", () => { options[name] = box.checked; redraw(); }));
    const redraw = () => plots.forEach((plot) => plot.draw());
    onPaint(redraw);
    on("filter", redraw);
    on("model", redraw);
    on("mark", () => plots.forEach((plot) => plot.marked()));
    let width = host.clientWidth;
    new ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; redraw(); } }).observe(host);
  }

  // --- parallel coordinates --------------------------------------------------------------------------------------
  const ROW = 54, BAND = 0.28;
  const hash = (i) => (((i + 1) * 2654435761) % 4294967296) / 4294967296 - 0.5;
  function parallel(host, coloured) {
    let plot = null, axis = 0, drag = null, byKey = false, by = objectives[0];
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
    }
    const value = (n, i) => plot.along(n, columns[n].at(i)) + hash(i) * plot.spread[n];
    const move = (context, n, i) => (plot.narrow ? context.lineTo(value(n, i), plot.place(n)) : context.lineTo(plot.place(n), value(n, i)));
    function line(context, i) {
      context.beginPath();
      columns.forEach((_, n) => move(context, n, i));
      context.stroke();
    }
    const complete = (i) => data.state[i] >= BEYOND;
    function draw() {
      layout();
      const { under, colours } = plot, part = scaleOf(by, ...by.range, by.log);
      const inside = all.filter((i) => complete(i) && data.state[i] >= study.least);
      const kept = inside.filter((i) => passes[i]), left = inside.filter((i) => !passes[i]);
      under.lineWidth = 1;
      under.strokeStyle = colours.rule;
      under.globalAlpha = left.length > 400 ? 0.25 : 0.6;
      left.forEach((i) => line(under, i));
      under.globalAlpha = Math.max(0.18, Math.min(0.85, 60 / Math.max(kept.length, 1)));
      under.lineWidth = kept.length > 300 ? 0.8 : 1.3;
      kept.forEach((i) => { under.strokeStyle = ramp(part.of(by.at(i))); line(under, i); });
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
        put(fitted(context, [column.above, title].filter(Boolean).join(column.goal || !column.levels ? " " : "."), plot.width - 20), 2, at - 13, colours.ink);
      } else {
        const first = n === 0, end = n === columns.length - 1;
        context.textAlign = "center";
        const room = Math.min(gap - 8, first || end ? 106 : gap), at_ = Math.min(Math.max(at, 54), plot.width - 54);
        put(fitted(context, column.above, room), at_, 18, colours.soft);
        put(fitted(context, title, room), at_, 34, colours.ink);
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
      document.querySelector(".ramp i").style.background = `linear-gradient(to right, ${[0, 0.5, 1].map(ramp).join(", ")})`;
    };
    const redraw = () => { draw(); legend(); };
    coloured.addEventListener("change", () => { by = columns[coloured.value]; redraw(); });
    onPaint(redraw);
    on("filter", draw);
    on("model", redraw);
    on("mark", marked);
    let width = host.clientWidth;
    new ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; draw(); } }).observe(host);
  }

  // --- the growth of the front -----------------------------------------------------------------------------------
  function growth(host) {
    const { points, share } = data.progress, last = points[points.length - 1];
    const column = { levels: null };
    let plot = null, here = -1;
    function draw() {
      const colours = palette(), height = 240, { width, under, over } = layers(host, height);
      const box = { left: 52, right: width - 10, top: 10, bottom: height - 38 };
      const sx = scaleOf(column, 0, last, false), sy = scaleOf(column, 0, 1, false);
      const X = (value) => box.left + sx.of(value) * (box.right - box.left), Y = (value) => box.bottom - sy.of(value) * (box.bottom - box.top);
      under.strokeStyle = colours.rule;
      under.fillStyle = colours.soft;
      under.beginPath();
      under.textAlign = "center";
      sx.ticks(width > 620 ? 8 : 4).forEach((value) => { under.fillText(show.whole(value), X(value), box.bottom + 16); });
      under.textAlign = "right";
      sy.ticks(4).forEach((value) => {
        under.moveTo(box.left, Math.round(Y(value)) + 0.5);
        under.lineTo(box.right, Math.round(Y(value)) + 0.5);
        under.fillText(`${Math.round(value * 100)} %`, box.left - 7, Y(value) + 4);
      });
      under.stroke();
      under.fillStyle = colours.ink;
      under.fillText("points computed", box.right, box.bottom + 33);
      under.strokeStyle = colours.accent;
      under.lineWidth = 1.8;
      under.beginPath();
      under.moveTo(X(0), Y(0));
      points.forEach((at, k) => { under.lineTo(X(at), Y(k ? share[k - 1] : 0)); under.lineTo(X(at), Y(share[k])); });
      under.stroke();
      plot = { over, X, Y, width, height, colours };
    }
    function tell(k, aloud) {
      const { over, X, Y, colours } = plot, box = host.getBoundingClientRect();
      here = k;
      over.clearRect(0, 0, plot.width + 2, plot.height + 2);
      over.fillStyle = colours.ink;
      over.beginPath();
      over.arc(X(points[k]), Y(share[k]), 4.5, 0, 7);
      over.fill();
      showTip([`${show.whole(points[k])} points`, `${show.percent(share[k])} of the final hypervolume`], box.left + X(points[k]), box.top + Y(share[k]), aloud);
    }
    const quiet = () => { plot.over.clearRect(0, 0, plot.width + 2, plot.height + 2); hideTip(); };
    host.addEventListener("pointermove", (event) => {
      const px = event.clientX - host.getBoundingClientRect().left;
      tell(points.reduce((found, at, k) => (plot.X(at) <= px ? k : found), 0), false);
    });
    host.addEventListener("pointerleave", quiet);
    host.addEventListener("blur", quiet);
    host.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (!step) return;
      tell(Math.min(Math.max(here + step, 0), points.length - 1), true);
      event.preventDefault();
    });
    onPaint(draw);
    let width = host.clientWidth;
    new ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; draw(); } }).observe(host);
  }

  front_();
  const lines = document.getElementById("lines"), grows = document.getElementById("growth");
  if (lines && objectives.length) parallel(lines, document.querySelector("[data-colour]"));
  if (grows) growth(grows);
})();

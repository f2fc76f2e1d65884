// The points of a study by every pair of objectives, and the growth of the front.
"use strict";
(() => {
  const { show, showTip, hideTip, onPaint } = npusim;
  const { data, count, all, front, parameters, values, objectives, worth, passes, marks, mark, choose, open, on, speak, BEYOND, FEASIBLE, FRONT } = study;
  const { MANY, later, layers, palette, scaleOf } = kit;
  const NEAR = 18, ROOM = 0.25;  // pixels to a point; how much of what lies behind the front is shown
  const baseOf = (column) => data.base[values.indexOf(column)]?.[study.model] ?? null;

  // --- every pair of objectives ----------------------------------------------------------------------------------
  const options = { near: true, log: true };
  const plots = [];
  function scatter(host, x, y) {
    const places = new Float32Array(count * 2);
    let plot = null, byKey = false, placed = "", steps = [];
    const drawn = (i) => data.state[i] >= BEYOND && !Number.isNaN(places[2 * i]);

    function scale(column) {
      const known = (options.near && front.length > 1 ? front : all.filter((i) => data.state[i] >= BEYOND)).map((i) => column.at(i));
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
      place(box, X, Y);
      dots(under, colours);
      stairs(under, colours, box, X, Y);
      best(under, colours);
      under.restore();
      marked();
    }
    function place(box, X, Y) {
      const key = [box.right, box.bottom, options.near, options.log, study.model].join();
      if (key === placed) return;  // a filter moves nothing
      placed = key;
      for (let i = 0; i < count; i += 1) {
        const known = data.state[i] >= BEYOND, px = known ? X(x.at(i)) : NaN, py = known ? Y(y.at(i)) : NaN;
        const inside = px >= box.left - 1 && px <= box.right + 1 && py >= box.top - 1 && py <= box.bottom + 1;
        places[2 * i] = inside ? px : NaN;
        places[2 * i + 1] = inside ? py : NaN;
      }
      let bestY = Infinity;
      const good = x.goal && y.goal ? all.filter((i) => data.state[i] >= FEASIBLE) : [];
      steps = good.sort((a, b) => worth(x, a) - worth(x, b) || worth(y, a) - worth(y, b))
        .filter((i) => { const better = worth(y, i) < bestY; if (better) bestY = worth(y, i); return better; });
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
      let at = null;
      context.strokeStyle = colours["on-front"];
      context.globalAlpha = 0.7;
      context.lineWidth = 1.2;
      context.beginPath();
      steps.forEach((i) => {
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
  function plotted() {
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
    on("filter", count > MANY ? later(redraw) : redraw);
    on("model", redraw);
    on("mark", () => plots.forEach((plot) => plot.marked()));
    let width = host.clientWidth;
    new ResizeObserver(() => { if (host.clientWidth !== width) { width = host.clientWidth; redraw(); } }).observe(host);
  }

  // --- the growth of the front -----------------------------------------------------------------------------------
  function growth(host) {
    const { points, share } = data.progress, last = points[points.length - 1];
    const column = { levels: null };
    let plot = null, here = -1;
    function draw() {
      const colours = palette(), height = 240, { width, under, over } = layers(host, height);
      const box = { left: 52, right: width - 18, top: 10, bottom: height - 38 };
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

  plotted();
  const grows = document.getElementById("growth");
  if (grows) growth(grows);
})();

// The charts of served requests: requests above units over time, and the roofline of the phases.
"use strict";
(() => {
  const { data, show, colour, onPaint } = npusim;
  const { total, time, chart, changed } = overTime;
  const { arrival, start, first, end, row, tenant, outcome, tokens } = data.requests;
  const rows = Math.max(...row, 0) + 1, windows = data.lanes.length ? data.lanes[0].shares.length : 1;
  const language = tokens.length > 0;
  // Bars of few requests are as high as those of other timelines; of many a pixel, or less.
  const bar = Math.min(Math.max(420 / rows, 0.5), 22), above = rows * bar + 14, lane = 30;
  const top = (n) => above + n * (lane + 16) + 16;

  const place = (i) => ({ kind: "request", i, begin: arrival[i], end: end[i], cycle: (arrival[i] + end[i]) / 2 });
  const windowOf = (cycle) => Math.min(Math.max(Math.floor(cycle / total * windows), 0), windows - 1);
  const laneAt = (n, cycle) => ({ kind: "lane", n, begin: 0, end: 0, cycle: Math.min(Math.max(cycle, 0), total - 0.5) });

  function request(plot, i) {
    const { context } = plot, y = row[i] * bar, high = Math.max(bar - (bar > 4 ? 1 : 0), 0.7);
    const part = (from, to, name, alpha) => {
      const x = plot.x(from), width = Math.max(plot.x(to) - x, 0.6);
      context.globalAlpha = alpha;
      context.fillStyle = colours[name];
      context.fillRect(x, y, width, high);
    };
    if (outcome[i]) part(arrival[i], Math.max(end[i], arrival[i]), "worse", 1);
    else {
      part(arrival[i], start[i], "soft", 0.4);
      if (language) { part(start[i], first[i], "k-constants", 1); part(first[i], end[i], "accent", 1); }
      else part(start[i], end[i], "accent", 1);
    }
    context.globalAlpha = 1;
    if (plot.here && plot.here.kind === "request" && plot.here.i === i) {
      context.strokeStyle = plot.ink;
      context.lineWidth = 2;
      context.strokeRect(plot.x(arrival[i]) - 1, y - 1, Math.max(plot.x(end[i]) - plot.x(arrival[i]), 1) + 2, high + 2);
    }
  }
  let colours = {};

  const make = {
    height: () => top(data.lanes.length),
    left: () => 0,
    draw(plot) {
      const { context } = plot;
      colours = Object.fromEntries(["soft", "accent", "k-constants", "worse"].map((name) => [name, colour(name)]));
      for (let i = 0; i < arrival.length; i += 1) if (end[i] >= plot.from && arrival[i] <= plot.to) request(plot, i);
      data.lanes.forEach((each, n) => {
        const y = top(n), columns = Math.ceil(plot.inner);
        context.fillStyle = plot.faint;
        context.fillRect(plot.left, y, plot.inner, lane);
        context.fillStyle = colour(each.colour);
        for (let c = 0; c < columns; c += 1) {
          const from = windowOf(plot.cycle(plot.left + c)), to = Math.max(windowOf(plot.cycle(plot.left + c + 1)), from + 1);
          let sum = 0;
          for (let w = from; w < to; w += 1) sum += each.shares[w];
          const high = sum / (to - from) / 1000 * lane;
          context.fillRect(plot.left + c, y + lane - high, 1, high);
        }
        if (plot.here && plot.here.kind === "lane") {
          context.fillStyle = plot.ink;
          context.fillRect(plot.x(plot.here.cycle), y, 1, lane);
        }
      });
    },
    labels(plot) {
      const { context } = plot;
      data.lanes.forEach((each, n) => {
        const text = each.title + (each.most ? `, at most ${show.percent(each.top)} of ${each.most}` : "");
        context.fillStyle = plot.paper;
        context.globalAlpha = 0.85;
        context.fillRect(0, top(n) - 15, context.measureText(text).width + 4, 14);
        context.globalAlpha = 1;
        context.fillStyle = plot.soft;
        context.fillText(text, 0, top(n) - 8);
      });
    },
    at(x, y, plot) {
      const cycle = plot.cycle(x);
      if (y >= above) {
        const n = data.lanes.findIndex((_, at) => y >= top(at) - 2 && y < top(at) + lane + 2);
        return n < 0 ? null : laneAt(n, cycle);
      }
      // The nearest request within a few pixels, because a bar may be thinner than one.
      let best = -1, nearest = 5;
      for (let i = 0; i < arrival.length; i += 1) {
        const sideways = Math.max(plot.x(arrival[i]) - x, x - plot.x(end[i]), 0);
        const away = sideways + Math.max(row[i] * bar - y, y - (row[i] + 1) * bar, 0);
        if (away < nearest) [best, nearest] = [i, away];
      }
      return best < 0 ? null : place(best);
    },
    first: (plot) => place(Math.max(end.findIndex((each) => each >= plot.from), 0)),
    step(here, direction, plot) {
      if (here.kind === "lane") return laneAt(here.n, here.cycle + direction * (plot.to - plot.from) / 50);
      return place(Math.min(Math.max(here.i + direction, 0), arrival.length - 1));
    },
    lane(here, direction) {
      const n = here.kind === "lane" ? here.n + direction : direction > 0 ? 0 : -1;
      if (n >= 0) return laneAt(Math.min(n, data.lanes.length - 1), here.cycle);
      const near = arrival.findIndex((_, i) => end[i] >= here.cycle);
      return here.kind === "lane" ? place(near < 0 ? arrival.length - 1 : near) : here;
    },
    describe(here) {
      if (here.kind === "lane") {
        const each = data.lanes[here.n], at = windowOf(here.cycle);
        return [each.title, show.percent(each.shares[at] / 1000 * each.top), `around ${time(here.cycle)}`];
      }
      const { i } = here, lines = [`request ${i}${data.tenants.length > 1 ? ", " + data.tenants[tenant[i]] : ""}`];
      if (language) lines.push(`${show.whole(tokens[i][0])} tokens, ${show.whole(tokens[i][1])} new`);
      lines.push(`arrives at ${time(arrival[i])}`);
      if (outcome[i]) return [...lines, data.outcomes[outcome[i]]];
      lines.push(`waits ${time(start[i] - arrival[i])}`);
      if (language) lines.push(`first token after ${time(first[i] - arrival[i])}`);
      return [...lines, `ends after ${time(end[i] - arrival[i])}`];
    },
    spot: (here, plot) => [plot.x(here.cycle), here.kind === "lane" ? top(here.n) + lane / 2 : row[here.i] * bar + bar / 2],
  };
  chart(document.querySelector('[data-chart="requests"]'), make);
  changed();

  // --- roofline ------------------------------------------------------------------------------------------------
  const host = document.querySelector('[data-chart="phases"]'), { peak, rate, points } = data.roofline;
  const NS = "http://www.w3.org/2000/svg";
  function element(name, attributes, text) {
    const made = document.createElementNS(NS, name);
    Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function roof() {
    const width = Math.max(host.clientWidth, 200), height = 260, left = 46, bottom = 34;
    const xs = [...points.map(([, , x]) => x), peak / rate], ys = points.map(([, , , y]) => y);
    const [low, high] = [Math.min(...xs) / 4, Math.max(...xs) * 8], [under, over] = [Math.min(...ys, peak) / 6, peak * 3];
    const x = (value) => left + Math.log(value / low) / Math.log(high / low) * (width - left - 8);
    const y = (value) => height - bottom - Math.log(value / under) / Math.log(over / under) * (height - bottom - 8);
    const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Roofline of the phases" });
    const knee = peak / rate;
    const path = `M${x(Math.max(low, under / rate))},${y(Math.max(low * rate, under))} L${x(knee)},${y(peak)} L${x(high)},${y(peak)}`;
    svg.append(element("path", { d: path, fill: "none", stroke: colour("soft"), "stroke-width": 1.5 }));
    svg.append(element("text", { x: x(high) - 2, y: y(peak) - 8, "text-anchor": "end" }, `${show.whole(peak)} MACs/cycle`));
    svg.append(element("text", { x: width - 8, y: height - 8, "text-anchor": "end" }, "MACs per DRAM byte"));
    svg.append(element("text", { x: 0, y: 14 }, "MACs/cycle"));
    points.forEach(([name, tint, across, up]) => {
      svg.append(element("circle", { cx: x(across), cy: y(up), r: 6, fill: colour(tint), class: "point" }));
      // Below the point, where no roof is.
      const anchor = x(across) > width * 0.7 ? "end" : x(across) < width * 0.3 ? "start" : "middle";
      svg.append(element("text", { x: x(across), y: y(up) + 22, class: "strong", "text-anchor": anchor },
        `${name}: ${show.digits(across)}, ${show.digits(up)}`));
    });
    host.replaceChildren(svg);
  }
  if (points.length) {
    onPaint(roof);
    new ResizeObserver(roof).observe(host);
  }
})();

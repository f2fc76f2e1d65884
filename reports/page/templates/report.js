// The charts of a run: units, power, scratchpad, roofline.
"use strict";
(() => {
  const { data, show, colour, showTip, hideTip, onPaint } = npusim;
  const { total, time, ascending, axis, set, focus, chart, inkOn, fitted, changed } = overTime;
  const span = (begin, end) => `${time(begin)} to ${time(end)}, cycles ${show.whole(begin)} to ${show.whole(end)}`;
  const lasting = (begin, end) => `${show.whole(end - begin)} cycles, ${time(end - begin)}`;

  // The last of ascending numbers that is not above a value; -1 if all are.
  function below(numbers, value) {
    let low = 0, high = numbers.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (numbers[middle] <= value) low = middle + 1;
      else high = middle;
    }
    return low - 1;
  }

  // --- units ---------------------------------------------------------------------------------------------------
  // Below a pixel per item, pixels are filled in proportion, as `npusim.reports.run.series` does: of each column every
  // kind has as many pixels as it has of its time, and what rounding takes is given to the next column of that kind.
  function filled(lane, from, perColumn, columns, rows, paint) {
    const kinds = lane.kinds.length, shares = new Float64Array(columns * kinds), to = from + columns * perColumn;
    for (let i = Math.max(below(lane.begin, from), 0); i < lane.begin.length && lane.begin[i] < to; i += 1) {
      const begin = Math.max((lane.begin[i] - from) / perColumn, 0), end = Math.min((lane.end[i] - from) / perColumn, columns);
      const part = lane.busy ? lane.busy[i] / (lane.end[i] - lane.begin[i]) : 1;
      for (let c = Math.floor(begin); c < end; c += 1) shares[c * kinds + lane.kind[i]] += part * (Math.min(end, c + 1) - Math.max(begin, c));
    }
    const owed = new Float64Array(kinds), wanted = new Float64Array(kinds), number = new Int32Array(kinds);
    let before = "", first = 0;
    const flush = (column) => {
      let low = 0;
      if (before) before.split(",").forEach((each, kind) => { if (each > 0) paint(kind, first, column - first, low, Number(each)); low += Number(each); });
    };
    for (let c = 0; c < columns; c += 1) {
      let sum = 0, got = 0;
      for (let kind = 0; kind < kinds; kind += 1) {
        wanted[kind] = shares[c * kinds + kind] * rows + owed[kind];
        number[kind] = Math.max(Math.floor(wanted[kind]), 0);
        sum += wanted[kind];
        got += number[kind];
      }
      const together = Math.min(Math.max(Math.floor(sum + 0.5 + 1e-6), 0), rows);
      while (got !== together) {
        const step = got < together ? 1 : -1;
        let best = -1;
        for (let kind = 0; kind < kinds; kind += 1) {
          if (!shares[c * kinds + kind] || number[kind] + step < 0) continue;
          if (best < 0 || step * (wanted[kind] - number[kind]) > step * (wanted[best] - number[best])) best = kind;
        }
        if (best < 0) break;
        number[best] += step;
        got += step;
      }
      for (let kind = 0; kind < kinds; kind += 1) owed[kind] = wanted[kind] - number[kind];
      const now = number.join(",");
      if (now === before) continue;
      flush(c);
      [before, first] = [now, c];
    }
    flush(columns);
  }
  const layerName = (index) => data.layers[index] ?? "";
  const between = "between";
  function lanes() {
    const found = [];
    const ends = ascending(data.turns.ends);
    if (data.pieces) {
      const { device, name } = data.pieces, last = ascending(data.pieces.ends);
      const who = (i) => data.devices[device[i]] ?? between;
      found.push({
        title: "device", begin: last.map((_, i) => (i ? last[i - 1] : 0)), end: last,
        kinds: [["faint", 1], ["rule", 1], ["paper", 1]], kind: device.map((each) => (each < 0 ? 2 : each % 2)), plain: true,
        label: who, lines: (i) => [who(i), name[i] || "copies, and the host hands over"],
      });
    }
    found.push({
      title: "layer", begin: ends.map((_, i) => (i ? ends[i - 1] : 0)), end: ends,
      kinds: [["faint", 1], ["rule", 1]], kind: data.turns.layer.map((layer) => layer % 2), plain: true,
      label: (i) => data.short[data.turns.layer[i]] ?? "",
      lines: (i) => [layerName(data.turns.layer[i]), data.ops[data.turns.layer[i]] ?? "", "owns these cycles"],
    });
    let above = -1;
    data.tracks.forEach((track) => {
      const begin = ascending(track.begin), device = data.devices[track.device] ?? "";
      const group = track.device === above ? "" : device;
      above = track.device;
      found.push({
        title: track.title, group, begin, end: begin.map((at, i) => at + track.length[i]),
        kinds: [["r-" + track.colour, 1], ["r-" + track.colour, 0.62]], kind: track.layer.map((layer) => layer % 2), busy: track.busy,
        label: (i) => data.short[track.layer[i]] ?? "",
        lines: (i) => [layerName(track.layer[i]), `${device && device + ", "}${track.title}: ${track.words[track.word[i]]}` +
          (track.number && track.number[i] > 1 ? `, ${show.whole(track.number[i])} instructions` : "")],
      });
    });
    const { stalls } = data, begin = ascending(stalls.begin);
    found.push({
      title: "nothing computes", begin, end: begin.map((at, i) => at + stalls.length[i]),
      kinds: stalls.words.map((word) => ["c-" + word, 1]), kind: stalls.word,
      label: (i) => data.causes[stalls.words[stalls.word[i]]][0],
      lines: (i) => [...data.causes[stalls.words[stalls.word[i]]], "before " + layerName(stalls.layer[i])],
    });
    return found;
  }

  function units() {
    const all = lanes();
    const high = 24, gap = 7;
    // The name of a device stands above its first track.
    const groups = all.map((_, n) => all.slice(0, n + 1).filter((lane) => lane.group).length + (n + 1 === all.length && data.devices.length ? 0.5 : 0));
    const top = (lane, narrow) => lane * (high + gap + (narrow ? 15 : 0)) + (narrow ? 15 : 0) + 4 + (groups[lane] ?? groups[all.length - 1] ?? 0) * 20;
    const place = (lane, i) => ({ lane, i, begin: all[lane].begin[i], end: all[lane].end[i], cycle: (all[lane].begin[i] + all[lane].end[i]) / 2 });
    const nearest = (lane, cycle) => {
      const { begin, end } = all[lane];
      if (!begin.length) return null;
      const i = below(begin, cycle);
      if (i < 0) return place(lane, 0);
      if (cycle < end[i] || i + 1 === begin.length) return place(lane, i);
      return place(lane, cycle - end[i] < begin[i + 1] - cycle ? i : i + 1);
    };
    // In pixels of the screen, so that no edge mixes two colours.
    function paint({ context, left, inner, from, to, ratio }, lane, y) {
      const columns = Math.round(inner * ratio), rows = Math.round(high * ratio);
      const x0 = Math.round(left * ratio), y1 = Math.round(y * ratio) + rows, kinds = lane.kinds.map(([name, alpha]) => [colour(name), alpha]);
      context.save();
      context.setTransform(1, 0, 0, 1, 0, 0);
      filled(lane, from, (to - from) / columns, columns, rows, (kind, column, width, low, number) => {
        [context.fillStyle, context.globalAlpha] = kinds[kind];
        context.fillRect(x0 + column, y1 - low - number, width, number);
      });
      context.restore();
    }
    return {
      height: (narrow) => top(all.length, narrow) - (narrow ? 15 : 0),
      left: (narrow) => (narrow ? 0 : 116),
      draw(plot) {
        const { context } = plot;
        all.forEach((lane, n) => {
          const y = top(n, plot.narrow);
          context.fillStyle = plot.faint;
          if (!lane.plain) context.fillRect(plot.left, y, plot.inner, high);
          paint(plot, lane, y);
          for (let i = Math.max(below(lane.begin, plot.from), 0); i < lane.begin.length && lane.begin[i] <= plot.to; i += 1) {
            const x = Math.max(plot.x(lane.begin[i]), plot.left - 2), end = Math.min(plot.x(lane.end[i]), plot.right + 2);
            const width = end - x;
            if (plot.here && plot.here.lane === n && plot.here.i === i) {
              context.strokeStyle = plot.ink;
              context.lineWidth = 2;
              context.strokeRect(x + 1, y + 1, Math.max(width - 2, 1), high - 2);
            }
            if (width < 34) continue;
            context.fillStyle = plot.paper;
            context.globalAlpha = 0.5;
            context.fillRect(end - 0.6, y, 0.6, high);
            context.globalAlpha = 1;
            const text = fitted(context, lane.label(i), width - 10);
            if (!text) continue;
            const [name, alpha] = lane.kinds[lane.kind[i]];
            context.fillStyle = lane.plain ? plot.ink : inkOn(colour(name), alpha, plot.paper);
            context.fillText(text, x + 5, y + high / 2 + 0.5);
          }
        });
      },
      labels(plot) {
        const { context } = plot;
        all.forEach((lane, n) => {
          const y = top(n, plot.narrow);
          context.fillStyle = plot.soft;
          context.fillText(lane.title, 0, y + (plot.narrow ? -7 : high / 2 + 0.5));
          if (!lane.group) return;
          context.fillStyle = plot.ink;
          context.fillText(fitted(context, lane.group, plot.right) || lane.group, 0, y - (plot.narrow ? 24 : 10));
        });
      },
      at(x, y, plot) {
        const lane = all.findIndex((_, n) => y >= top(n, plot.narrow) - 2 && y < top(n, plot.narrow) + high + 2);
        if (lane < 0 || x < plot.left) return null;
        const found = nearest(lane, plot.cycle(x));
        return found && plot.x(found.begin) - 3 <= x && x <= plot.x(found.end) + 3 ? found : null;
      },
      first: (plot) => nearest(0, plot.from + 1) ?? nearest(1, plot.from),
      step: (here, direction) => place(here.lane, Math.min(Math.max(here.i + direction, 0), all[here.lane].begin.length - 1)),
      lane(here, direction) {
        for (let n = here.lane + direction; n >= 0 && n < all.length; n += direction) if (all[n].begin.length) return nearest(n, here.cycle);
        return here;
      },
      describe: ({ lane, i, begin, end }) => [...all[lane].lines(i).filter(Boolean), lasting(begin, end), span(begin, end)],
      spot: (here, plot) => [plot.x(here.cycle), top(here.lane, plot.narrow) + high / 2],
    };
  }

  // --- amounts over time: a cursor goes along --------------------------------------------------------------------
  const cursor = (cycle) => ({ cycle, begin: 0, end: 0 });
  const along = (height, describe, value) => ({
    at: (x, y, plot) => (x < plot.left || x > plot.right ? null : cursor(plot.cycle(x))),
    first: (plot) => cursor(plot.from + (plot.to - plot.from) / 50),
    step: (here, direction, plot) => cursor(Math.min(Math.max(here.cycle + direction * (plot.to - plot.from) / 50, 0), total - 0.5)),
    lane: (here) => here,
    describe: (here) => describe(Math.min(here.cycle, total - 0.5)),
    spot: (here, plot) => [plot.x(here.cycle), plot.height * 0.3],
    height: () => height,
    left: (narrow) => (narrow ? 58 : 66),
  });
  function level(plot, y, label, dashed = true) {
    const { context } = plot;
    context.strokeStyle = plot.ink;
    context.lineWidth = 1;
    context.setLineDash(dashed ? [4, 3] : []);
    context.beginPath();
    context.moveTo(plot.left, Math.round(y) + 0.5);
    context.lineTo(plot.right, Math.round(y) + 0.5);
    context.stroke();
    context.setLineDash([]);
    const width = context.measureText(label).width;
    context.fillStyle = plot.paper;
    context.globalAlpha = 0.85;
    context.fillRect(plot.right - width - 12, y - 17, width + 12, 15);
    context.globalAlpha = 1;
    context.fillStyle = plot.ink;
    context.fillText(label, plot.right - width - 6, y - 9);
  }
  function hairline(plot) {
    if (!plot.here) return;
    plot.context.fillStyle = plot.ink;
    plot.context.fillRect(plot.x(plot.here.cycle), 0, 1, plot.height);
  }
  // Round numbers from 0 to a value, about `count` of them; steps of bytes are powers of two.
  function rounds(most, count, binary) {
    const rough = most / count;
    if (binary) return steps(2 ** Math.ceil(Math.log2(rough)), most);
    const power = 10 ** Math.floor(Math.log10(rough));
    return steps([1, 2, 5, 10].map((n) => n * power).find((step) => step >= rough), most);
  }
  const steps = (step, most) => Array.from({ length: Math.floor(most / step + 1e-9) + 1 }, (_, i) => i * step);
  function scale(plot, values, y, format) {
    const { context } = plot;
    context.textAlign = "right";
    context.fillStyle = plot.soft;
    values.forEach((value) => context.fillText(format(value), plot.left - 6, Math.min(Math.max(y(value), 7), plot.height - 6)));
    context.textAlign = "left";
  }
  // The area between two stairs over the same edges.
  function stairs(plot, edges, low, high, first, last) {
    const { context } = plot;
    context.beginPath();
    for (let i = first; i <= last; i += 1) {
      context.lineTo(plot.x(edges[i]), high(i));
      context.lineTo(plot.x(edges[i + 1]), high(i));
    }
    for (let i = last; i >= first; i -= 1) {
      context.lineTo(plot.x(edges[i + 1]), low(i));
      context.lineTo(plot.x(edges[i]), low(i));
    }
    context.fill();
  }

  function power() {
    const edges = ascending(data.power.edges), { parts, highest } = data.power;
    const sums = edges.slice(1).map((_, i) => parts.reduce((sum, part) => sum + part.mw[i], 0));
    const top = data.power.peak || 1, part = 0.88;
    const window = (cycle) => Math.min(Math.max(below(edges, cycle), 0), sums.length - 1);
    const describe = (cycle) => {
      const i = window(cycle);
      const large = parts.map((each) => [each.mw[i], each.label]).filter(([mw]) => mw > 0).sort((a, b) => b[0] - a[0]).slice(0, 5);
      return [`${show.power(sums[i])}, at most ${show.power(highest[i])}`, span(edges[i], edges[i + 1]), ...large.map(([mw, label]) => `${label} ${show.power(mw)}`)];
    };
    const at = (plot) => (mw) => plot.height * (1 - (mw / top) * part);
    return {
      ...along(210, describe),
      draw(plot) {
        const { context } = plot, y = at(plot);
        const first = window(plot.from), last = window(plot.to);
        const base = new Float64Array(last - first + 1);
        parts.forEach((each) => {
          context.fillStyle = colour("e-" + each.name);
          stairs(plot, edges, (i) => y(base[i - first]) + 0.3, (i) => y(base[i - first] + each.mw[i]), first, last);
          for (let i = first; i <= last; i += 1) base[i - first] += each.mw[i];
        });
        context.fillStyle = plot.rule;
        stairs(plot, edges, (i) => y(base[i - first]), (i) => y(Math.max(highest[i], base[i - first])), first, last);
        level(plot, y(data.power.average), "average " + show.power(data.power.average));
        level(plot, y(data.power.peak), `peak of ${data.power.window.replace("us", "\u00b5s")} ${show.power(data.power.peak)}`);
        hairline(plot);
      },
      labels: (plot) => scale(plot, rounds(top, 4), at(plot), show.power),
    };
  }

  function occupancy() {
    const at = ascending(data.occupancy.at), { bytes, size, sizes } = data.occupancy, part = 0.86;
    const index = (cycle) => Math.max(below(at, cycle), 0);
    const begins = sizes.map(([begin]) => begin);
    const sizeAt = (cycle) => sizes[Math.max(below(begins, cycle), 0)][1];
    const describe = (cycle) => {
      const i = index(cycle), all = sizeAt(cycle);
      return [`${show.size(bytes[i])} in use`, `${show.percent(bytes[i] / all)} of ${show.size(all)}`, span(at[i], at[i + 1] ?? total)];
    };
    const edges = [...at, Math.max(total, at[at.length - 1])];
    const high = (plot) => (value) => plot.height * (1 - (value / size) * part);
    return {
      ...along(130, describe),
      draw(plot) {
        const { context } = plot, y = high(plot);
        context.fillStyle = colour("e-scratchpad");
        stairs(plot, edges, () => plot.height, (i) => y(bytes[i]), index(plot.from), index(plot.to));
        if (sizes.length === 1) level(plot, y(size), "size " + show.size(size), false);
        else {
          context.fillStyle = plot.ink;
          stairs(plot, [...begins, total], (i) => y(sizes[i][1]) + 1, (i) => y(sizes[i][1]), 0, sizes.length - 1);
        }
        hairline(plot);
      },
      labels: (plot) => scale(plot, rounds(size, 2, true), high(plot), show.size),
    };
  }

  function buffers() {
    const all = data.buffers.map(([name, address, size, begin, end]) => ({ name, address, size, begin, end, cycle: (begin + end) / 2 }))
      .sort((a, b) => a.begin - b.begin || a.address - b.address);
    const { size } = data.occupancy;
    const part = 0.97, y = (address, plot) => plot.height * (1 - (address / size) * part);
    const fill = (each) => (each.name.endsWith(": constants") ? "r-dram" : "e-scratchpad");
    const step = (here, direction) => all[Math.min(Math.max(all.indexOf(here) + direction, 0), all.length - 1)];
    return {
      height: (narrow) => (narrow ? 220 : 260),
      left: (narrow) => (narrow ? 58 : 66),
      draw(plot) {
        const { context } = plot;
        all.forEach((each) => {
          if (each.end < plot.from || each.begin > plot.to) return;
          const x = Math.max(plot.x(each.begin), plot.left - 2), end = Math.min(plot.x(each.end), plot.right + 2);
          const top = y(each.address + each.size, plot), width = end - x, high = Math.max(y(each.address, plot) - top, 1);
          const here = plot.here === each, paint = colour(fill(each));
          context.fillStyle = paint;
          const alpha = here ? 1 : 0.8;
          context.globalAlpha = alpha;
          context.fillRect(x, top, width, high);
          context.globalAlpha = 1;
          context.strokeStyle = here ? plot.ink : plot.paper;
          context.lineWidth = here ? 2 : 0.7;
          if (width > 2 && high > 2) context.strokeRect(x + 0.5, top + 0.5, width - 1, high - 1);
          if (width < 40 || high < 15) return;
          context.fillStyle = inkOn(paint, alpha, plot.paper);
          context.fillText(fitted(context, each.name, width - 10), x + 5, top + high / 2);
        });
      },
      labels: (plot) => scale(plot, rounds(size, 4, true), (value) => y(value, plot), show.size),
      at(x, at, plot) {
        const cycle = plot.cycle(x), slack = 2 / plot.scale;
        const hit = all.filter((each) => cycle >= each.begin - slack && cycle <= each.end + slack &&
          at <= y(each.address, plot) + 1 && at >= y(each.address + each.size, plot) - 1);
        return hit.sort((a, b) => a.size - b.size)[0] ?? null;
      },
      first: (plot) => all.find((each) => each.end > plot.from) ?? null,
      step,
      lane: (here, direction) => step(here, direction),
      describe: (each) => [each.name, `${show.size(each.size)} at 0x${each.address.toString(16).padStart(6, "0")}`, lasting(each.begin, each.end), span(each.begin, each.end)],
      spot: (each, plot) => [plot.x(each.cycle), y(each.address + each.size / 2, plot)],
    };
  }

  // --- roofline ------------------------------------------------------------------------------------------------
  function roofline(host) {
    const { roofs, rate, gb, points } = data.roofline;
    const peak = roofs[0][1];
    const NS = "http://www.w3.org/2000/svg";
    const words = { mac: "MAC", vector: "vector unit", dram: "DRAM", host: "host", none: "nothing" };
    const ridge = peak / rate;
    const known = points.filter((point) => point.x !== null);
    const xs = [ridge, ...known.map((point) => point.x)], ys = [peak, ...points.map((point) => point.y)];
    const x0 = Math.min(...xs) / 2.5, x1 = Math.max(...xs) * 4, y0 = Math.min(...ys, peak / 8) / 2, y1 = peak * 1.7;
    const order = [...points].sort((a, b) => (a.x ?? x1) - (b.x ?? x1));
    let here = -1, spots = [];

    function draw() {
      const width = Math.max(host.clientWidth, 200), narrow = width < 620, height = narrow ? 330 : 400;
      const left = 46, bottom = height - 40, right = width - 6, top = 8;
      const X = (x) => left + (Math.log(x / x0) / Math.log(x1 / x0)) * (right - left);
      const Y = (y) => bottom - (Math.log(y / y0) / Math.log(y1 / y0)) * (bottom - top);
      const svg = document.createElementNS(NS, "svg");
      const put = (name, attributes, text) => {
        const element = document.createElementNS(NS, name);
        Object.entries(attributes).forEach(([key, value]) => element.setAttribute(key, value));
        if (text !== undefined) element.textContent = text;
        svg.append(element);
        return element;
      };
      svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
      svg.setAttribute("aria-hidden", "true");
      const decades = (low, high) => { const all = []; for (let n = Math.ceil(Math.log10(low)); n <= Math.log10(high); n += 1) all.push(10 ** n); return all; };
      const rule = colour("rule"), ink = colour("ink");
      decades(x0, x1).forEach((x) => {
        put("path", { d: `M${X(x)} ${top}V${bottom}`, stroke: rule });
        put("text", { x: X(x), y: bottom + 17, "text-anchor": "middle" }, show.digits(x));
      });
      decades(y0, y1).forEach((y) => {
        put("path", { d: `M${left} ${Y(y)}H${right}`, stroke: rule });
        put("text", { x: left - 7, y: Y(y) + 4, "text-anchor": "end" }, show.digits(y));
      });
      put("text", { x: right, y: height - 4, "text-anchor": "end" }, "MACs per byte of DRAM traffic");
      put("text", { x: left + 6, y: top + 10 }, "MACs per cycle");
      const low = Math.max(x0, y0 / rate);
      put("path", { d: `M${X(low)} ${Y(low * rate)}L${X(ridge)} ${Y(peak)}H${right}`, fill: "none", stroke: ink, "stroke-width": 1.6, "stroke-linejoin": "round" });
      put("text", { x: right - 4, y: Y(peak) - 13, "text-anchor": "end", class: "strong" }, `${show.digits(peak)} MACs/cycle${roofs[0][0] && ", " + roofs[0][0]}`);
      // Lower roofs, each with its name above it, or below where another's is.
      let above = Y(peak);
      const named = roofs.slice(1).map(([name, lower]) => {
        const y = Y(lower), at = y - above < 26 ? y + 15 : y - 6;
        const text = `${show.digits(lower)} MACs/cycle${name && ", " + name}`;
        put("path", { d: `M${X(Math.max(lower / rate, low))} ${y}H${right}`, fill: "none", stroke: ink, "stroke-width": 1, "stroke-dasharray": "5 4" });
        put("text", { x: right - 4, y: at, "text-anchor": "end", class: "strong" }, text);
        above = at;
        return [right - 4 - text.length * 6.6, at - 12, right, at + 4];
      });
      const slope = Math.atan2(Y(peak) - Y(low * rate), X(ridge) - X(low)) * 180 / Math.PI;
      const middle = low ** 0.62 * ridge ** 0.38;
      put("text", { transform: `translate(${X(middle)} ${Y(middle * rate) - 7}) rotate(${slope})`, "text-anchor": "middle", class: "strong" }, `${show.digits(gb)} GB/s`);

      const radius = (point) => 3.5 + Math.sqrt(point.cycles / total) * (narrow ? 26 : 36);
      spots = order.map((point) => [point.x === null ? right - 10 : X(point.x), Y(Math.max(point.y, y0))]);
      [...order.keys()].sort((a, b) => order[b].cycles - order[a].cycles).forEach((i) => {
        const point = order[i], [x, y] = spots[i];
        put("circle", { cx: x, cy: y, r: radius(point), fill: colour("r-" + point.colour), class: i === here ? "point here" : "point", "data-i": i });
      });
      label(put, order, spots, radius, { left, right, top, bottom, roof: Y(peak), named, line: [X(low), Y(low * rate), X(ridge), Y(peak)], most: narrow ? 3 : 9, width: narrow ? 150 : 190 });
      host.replaceChildren(svg);
    }
    // Names of the layers with most cycles, where they cover neither each other nor a larger point.
    function label(put, all, places, radius, room) {
      const taken = [[room.left, room.top - 4, room.left + 100, room.top + 16], [room.right - 110, room.roof - 26, room.right, room.roof], ...room.named];
      const free = (box) => box[0] >= room.left && box[2] <= room.right && box[1] >= room.top && box[3] <= room.bottom &&
        taken.every((other) => box[2] < other[0] || box[0] > other[2] || box[3] < other[1] || box[1] > other[3]);
      for (let part = 0; part <= 1; part += 1 / 40) {
        const [x, y] = [room.line[0] + part * (room.line[2] - room.line[0]), room.line[1] + part * (room.line[3] - room.line[1])];
        taken.push([x - 2, y - 2, x + 2, y + 2]);
      }
      all.forEach((point, i) => { const r = radius(point) * 0.7, [x, y] = places[i]; taken.push([x - r, y - r, x + r, y + r]); });
      let left = room.most;
      [...all.keys()].sort((a, b) => all[b].cycles - all[a].cycles).forEach((i) => {
        if (!left) return;
        const name = data.layers[all[i].layer], text = name.length > 26 ? "\u2026" + name.slice(-25) : name;
        const width = Math.min(text.length * 6.6, room.width), [x, y] = places[i], r = radius(all[i]) + 4;
        const tries = [[x + r, y + 4, "start"], [x - r, y + 4, "end"], [x, y - r - 2, "middle"], [x, y + r + 11, "middle"]];
        const found = tries.find(([tx, ty, anchor]) => {
          const start = anchor === "start" ? tx : anchor === "end" ? tx - width : tx - width / 2;
          const box = [start, ty - 11, start + width, ty + 3];
          return free(box) && taken.push(box);
        });
        if (!found) return;
        put("text", { x: found[0], y: found[1], "text-anchor": found[2], class: "strong" }, text);
        left -= 1;
      });
    }
    function tell(i, speak) {
      here = i;
      draw();
      if (i < 0) return hideTip();
      const point = order[i], box = host.getBoundingClientRect();
      showTip([data.layers[point.layer], data.ops[point.layer],
        `${show.digits(point.y)} MACs per cycle, ${show.percent(point.part)} of the array`, point.device,
        point.x === null ? "no DRAM traffic of its own" : `${show.digits(point.x)} MACs per byte`,
        `bound by ${point.bound}, ${show.whole(point.cycles)} cycles`].filter(Boolean), box.left + spots[i][0], box.top + spots[i][1], speak);
    }
    const under = (event) => Number(event.target.dataset?.i ?? -1);
    host.addEventListener("pointermove", (event) => { const i = under(event); if (i !== here) tell(i, false); });
    host.addEventListener("pointerleave", () => tell(-1));
    host.addEventListener("click", (event) => { const i = under(event); if (i >= 0) tell(i, true); });
    host.addEventListener("blur", () => tell(-1));
    host.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (event.key === "Escape") tell(-1);
      if (!step || !order.length) return;
      event.preventDefault();
      tell(here < 0 ? 0 : Math.min(Math.max(here + step, 0), order.length - 1), true);
    });
    let drawn = 0;
    onPaint(() => draw());
    new ResizeObserver(() => { if (host.clientWidth !== drawn) { drawn = host.clientWidth; draw(); } }).observe(host);
  }

  // The table of buffers is long and rarely read: its rows are made when it is opened.
  const list = document.getElementById("buffers");
  list?.addEventListener("toggle", () => {
    const body = list.querySelector("tbody"), hex = (address) => "0x" + address.toString(16).padStart(6, "0");
    if (body.rows.length) return;
    body.append(...data.buffers.map(([name, address, size, begin, end]) => {
      const row = document.createElement("tr"), head = document.createElement("th");
      head.scope = "row";
      head.textContent = name;
      const numbers = [[address, hex(address), "n mono"], [address + size - 1, hex(address + size - 1), "n mono"],
        ...[size, begin, end, end - begin].map((value) => [value, show.whole(value), "n"])];
      row.append(head, ...numbers.map(([value, text, kind]) => {
        const cell = document.createElement("td");
        cell.className = kind;
        cell.dataset.v = value;
        cell.textContent = text;
        return cell;
      }));
      return row;
    }));
  });

  const charts = { units, power, occupancy, buffers };
  document.querySelectorAll("[data-chart]").forEach((host) => {
    const make = charts[host.dataset.chart];
    if (make) chart(host, make());
    else roofline(host);
  });
  // The names of layers are one stop of the tab key: up and down lead from one to the next, Home and End to the ends.
  const names = [...document.querySelectorAll("a[data-layer]")];
  names.forEach((link, i) => {
    link.tabIndex = i ? -1 : 0;
    link.addEventListener("focus", () => names.forEach((each) => { each.tabIndex = each === link ? 0 : -1; }));
  });
  document.getElementById("layer-table").addEventListener("keydown", (event) => {
    // In the order of the rows, which a head may have sorted.
    const shown = [...document.querySelectorAll("#layer-table a[data-layer]")], here = shown.indexOf(document.activeElement);
    const to = { ArrowUp: here - 1, ArrowDown: here + 1, Home: 0, End: shown.length - 1 }[event.key];
    if (here < 0 || to === undefined || !shown[to]) return;
    event.preventDefault();
    shown[to].focus();
  });
  // The name of a layer shows the cycles that it owns; without any, those of its instructions.
  const ends = ascending(data.turns.ends);
  const mine = (layer) => data.turns.layer.map((each, i) => (each === layer ? i : -1)).filter((i) => i >= 0);
  document.querySelectorAll("a[data-layer]").forEach((link) => link.addEventListener("click", (event) => {
    const layer = Number(link.dataset.layer), turns = mine(layer);
    const [begin, end] = turns.length ? [ends[turns[0] - 1] ?? 0, ends[turns[turns.length - 1]]] : data.spans[layer];
    event.preventDefault();
    document.getElementById("timeline").scrollIntoView();
    document.querySelector('[data-chart="units"]').focus({ preventScroll: true });
    focus(begin, end);
  }));
  set(axis.from, axis.to);
  changed();
})();

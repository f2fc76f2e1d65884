// What the charts of a study share: canvases in two layers, scales, colours.
"use strict";
const kit = (() => {
  const { colour } = npusim;
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
  const MANY = 1500, IDLE = 90;  // so many points are drawn when the reader pauses, milliseconds
  const SHADES = 49;

  function later(draw) {
    let waiting = 0;
    return () => { clearTimeout(waiting); waiting = setTimeout(draw, IDLE); };
  }

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
      if (context.reset) context.reset();  // on paper, which repeats every call, clearRect would wipe what follows too
      else context.clearRect(0, 0, canvas.width, canvas.height);
      context.setTransform(scale, 0, 0, scale, 0, 0);
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
      if (found.length < 4 && high < 10 * low) return nice(low, high, most);
      if (found.length <= most || parts.length === 1) return found;
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
  function ramp() {  // blue, grey, orange: told apart with every common colour blindness
    const dark = colour("paper").startsWith("#1"), stops = dark ? [[92, 168, 240], [150, 158, 168], [245, 150, 70]] : [[31, 100, 178], [136, 140, 150], [214, 98, 18]];
    return [...Array(SHADES).keys()].map((shade) => {
      const at = 2 * shade / (SHADES - 1), n = Math.min(Math.floor(at), 1);
      return `rgb(${stops[n].map((from, k) => Math.round(from + (stops[n + 1][k] - from) * (at - n))).join(" ")})`;
    });
  }

  return { FONT, MANY, SHADES, later, layers, palette, scaleOf, fitted, ramp };
})();

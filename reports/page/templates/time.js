// Charts over time: one axis that all of them share, and canvases that follow it.
"use strict";
const overTime = (() => {
  const { data, show, colour, showTip, hideTip, onPaint } = npusim;
  const total = Math.max(data.cycles, 1);
  const time = (cycles) => show.time(cycles * data.us);

  // Ascending numbers come as the first and the steps between them.
  const ascending = (steps) => { let at = 0; return steps.map((step) => (at += step)); };

  // --- the axis ------------------------------------------------------------------------------------------------
  const axis = { from: 0, to: total };
  const followers = [];
  const narrowest = Math.min(total, 16);
  let pending = false;
  function changed() {
    document.querySelectorAll("[data-range]").forEach((output) => {
      const all = axis.from <= 0 && axis.to >= total;
      output.textContent = all ? `all ${time(total)}` : `${time(axis.from)} to ${time(axis.to)}, ${show.percent((axis.to - axis.from) / total)} of the run`;
    });
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; followers.forEach((draw) => draw()); });
  }
  function set(from, to) {
    const span = Math.min(Math.max(to - from, narrowest), total);
    const middle = (from + to) / 2;
    axis.from = Math.min(Math.max(middle - span / 2, 0), total - span);
    axis.to = axis.from + span;
    changed();
  }
  const zoom = (factor, at = (axis.from + axis.to) / 2) => set(at - (at - axis.from) * factor, at + (axis.to - at) * factor);
  const pan = (share) => { const step = share * (axis.to - axis.from); set(axis.from + step, axis.to + step); };
  const focus = (begin, end) => { const room = Math.max((end - begin) * 0.15, 4); set(begin - room, end + room); };
  document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => ({
    in: () => zoom(0.5), out: () => zoom(2), left: () => pan(-0.4), right: () => pan(0.4), all: () => set(0, total),
  })[button.dataset.zoom]()));

  // --- drawing -------------------------------------------------------------------------------------------------
  let paper = false;
  addEventListener("beforeprint", () => { paper = true; followers.forEach((draw) => draw()); });
  addEventListener("afterprint", () => { paper = false; followers.forEach((draw) => draw()); });
  const printed = () => paper || matchMedia("print").matches;
  const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
  const AXIS = 22;

  function ticks(from, to, room) {
    const rough = (to - from) * data.us / Math.max(room / 90, 2);
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((each) => each >= rough);
    const found = [];
    for (let n = Math.ceil(from * data.us / step - 1e-9); n * step <= to * data.us * (1 + 1e-12); n += 1) found.push(n * step);
    const [unit, factor] = to * data.us >= 1e6 ? ["s", 1e6] : to * data.us >= 1e3 ? ["ms", 1e3] : ["\u00b5s", 1];
    const places = Math.max(0, Math.min(6, -Math.floor(Math.log10(step / factor) + 1e-9)));
    return found.map((us) => ({ cycle: us / data.us, label: (us / factor).toFixed(places), unit }));
  }
  // Black or white on a colour that covers the paper by `alpha`: whichever has the larger contrast, at least 4.5 (WCAG 2.2).
  function inkOn(fill, alpha, paper) {
    const parts = (text) => [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16) / 255);
    const under = parts(paper), mixed = parts(fill).map((v, i) => v * alpha + under[i] * (1 - alpha));
    const [r, g, b] = mixed.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return (0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05) ** 2 > 1.05 * 0.05 ? "#000000" : "#ffffff";
  }
  function fitted(context, text, width) {
    if (context.measureText(text).width <= width) return text;
    const letter = context.measureText("m").width * 0.75;
    let keep = Math.floor(width / letter) - 1;
    for (; keep >= 6; keep -= 1) {  // the end is kept, where names of layers differ
      const short = "\u2026" + text.slice(text.length - keep).replace(/^.{0,3}\u2026/, "");
      if (context.measureText(short).width <= width) return short;
    }
    return "";
  }

  // A chart has: height(narrow), draw(plot), at(x, y, plot) -> place, step(place, direction, plot) -> place,
  // lane(place, direction) -> place, describe(place) -> lines, spot(place, plot) -> [x, y]. A place has cycle.
  function chart(host, make) {
    const canvas = document.createElement("canvas");
    canvas.setAttribute("aria-hidden", "true");
    canvas.style.height = make.height(host.clientWidth < 620) + AXIS + "px";
    host.append(canvas);
    let plot = null, here = null, engaged = false, byKey = false;

    // Charts that nobody sees are not drawn; on paper all are seen.
    let seen = false;
    new IntersectionObserver(([entry]) => { seen = entry.isIntersecting; if (seen) draw(); }, { rootMargin: "300px" }).observe(host);

    function draw(asked = false) {
      host.dataset.from = axis.from.toFixed(2);
      host.dataset.to = axis.to.toFixed(2);
      if (!seen && !printed() && asked !== true) return;
      const width = Math.max(host.clientWidth, 200), narrow = width < 620;
      const height = make.height(narrow) + AXIS, ratio = Math.max(devicePixelRatio || 1, printed() ? 2 : 1);
      if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.height = height + "px";
      }
      const context = canvas.getContext("2d");
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = FONT;
      context.textBaseline = "middle";
      const left = make.left(narrow), right = 2, inner = width - left - right;
      const scale = inner / (axis.to - axis.from);
      plot = { context, width, height: height - AXIS, left, right: left + inner, inner, narrow, scale,
        from: axis.from, to: axis.to, here, ratio,
        x: (cycle) => left + (cycle - axis.from) * scale, cycle: (x) => axis.from + (x - left) / scale,
        ink: colour("ink"), soft: colour("soft"), rule: colour("rule"), paper: colour("paper"), faint: colour("faint") };
      grid();
      context.save();
      context.beginPath();
      context.rect(left, 0, inner, plot.height);
      context.clip();
      make.draw(plot);
      context.restore();
      make.labels(plot);
    }
    function grid() {
      const { context } = plot;
      const marks = ticks(plot.from, plot.to, plot.inner);
      context.textAlign = "center";
      marks.forEach(({ cycle, label, unit }, i) => {
        const x = Math.round(plot.x(cycle)) + 0.5;
        context.fillStyle = plot.rule;
        context.fillRect(x, 0, 1, plot.height + 4);
        context.fillStyle = plot.soft;
        const text = i === marks.length - 1 ? label + "\u00a0" + unit : label;
        const half = context.measureText(text).width / 2;
        context.fillText(text, Math.min(Math.max(x, half), plot.width - half), plot.height + 13);
      });
      context.textAlign = "left";
    }
    function tell(place, speak) {
      here = place;
      byKey = speak === true;
      draw(true);
      if (!place) return hideTip();
      point(speak);
    }
    function point(speak) {
      const box = canvas.getBoundingClientRect(), [x, y] = make.spot(here, plot);
      showTip(make.describe(here), box.left + Math.min(Math.max(x, plot.left), plot.right), box.top + y, speak);
    }

    // Pointers: a mouse hovers and drags; one finger moves, two zoom.
    const pointers = new Map();
    let dragged = false;
    const local = (event) => { const box = canvas.getBoundingClientRect(); return [event.clientX - box.left, event.clientY - box.top]; };
    canvas.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, local(event));
      dragged = false;
      engaged = true;
    });
    // The page moved under a pointer that rests: what was asked for with keys stays.
    const rests = (event) => byKey && !event.movementX && !event.movementY;
    canvas.addEventListener("pointermove", (event) => {
      const [x, y] = local(event);
      if (!pointers.has(event.pointerId)) {
        if (rests(event)) return;
        if (event.pointerType === "mouse") tell(make.at(x, y, plot), false);
        return;
      }
      const [before] = pointers.get(event.pointerId);
      if (pointers.size === 1) {
        if (!dragged && Math.abs(x - before) < 4) return;
        dragged = true;
        host.classList.add("moving");
        hideTip();
        const step = (before - x) / plot.scale;
        set(axis.from + step, axis.to + step);
      } else {
        const [other] = [...pointers].find(([id]) => id !== event.pointerId)[1];
        const [old, now] = [Math.abs(before - other), Math.abs(x - other)];
        if (old > 8 && now > 8) zoom(old / now, plot.cycle((x + other) / 2));
        dragged = true;
      }
      pointers.set(event.pointerId, [x, y]);
    });
    const released = (event) => {
      if (pointers.delete(event.pointerId) && !dragged) tell(make.at(...local(event), plot), event.pointerType !== "mouse");
      if (!pointers.size) host.classList.remove("moving");
    };
    canvas.addEventListener("pointerup", released);
    canvas.addEventListener("pointercancel", (event) => { dragged = true; released(event); });
    canvas.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse" && !pointers.size && !rests(event)) tell(null);
    });
    canvas.addEventListener("dblclick", (event) => {
      const place = make.at(...local(event), plot);
      if (place && place.end > place.begin) focus(place.begin, place.end);
      else zoom(0.5, plot.cycle(local(event)[0]));
    });
    // The wheel scrolls the page until the chart is clicked; with Ctrl, and pinched pads send that, it zooms at once.
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !(engaged && document.activeElement === host)) return;
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / plot.inner);
      else zoom(Math.exp(Math.min(Math.max(event.deltaY, -120), 120) * 0.004), plot.cycle(local(event)[0]));
    }, { passive: false });
    host.addEventListener("blur", () => { engaged = false; tell(null); });

    host.addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (!plot) draw(true);
      const key = event.key, around = here ? here.cycle : undefined;
      const arrow = { ArrowLeft: -1, ArrowRight: 1 }[key], lane = { ArrowUp: -1, ArrowDown: 1 }[key];
      if (arrow && event.shiftKey) pan(arrow * 0.2);
      else if (arrow || lane) {
        const place = here ? (arrow ? make.step(here, arrow, plot) : make.lane(here, lane, plot)) : make.first(plot);
        if (place && (place.cycle < axis.from || place.cycle > axis.to)) {
          const span = axis.to - axis.from;
          set(place.cycle - span / 2, place.cycle + span / 2);
        }
        tell(place, true);
      } else if (key === "+" || key === "=") zoom(0.5, around);
      else if (key === "-" || key === "_") zoom(2, around);
      else if (key === "0" || key === "Home") set(0, total);
      else if (key === "Enter" && here && here.end > here.begin) focus(here.begin, here.end);
      else if (key === "Escape") tell(null);
      else return;
      event.preventDefault();
      if (key !== "Escape" && here && !arrow && !lane) tell(here, byKey);
    });
    // What was asked for with keys stays beside its item; what the mouse was over is somewhere else now.
    addEventListener("scroll", () => {
      if (here && byKey) point();
      else if (here) tell(null);
    }, { passive: true });

    followers.push(draw);
    onPaint(draw);
    new ResizeObserver(() => { if (plot && Math.max(host.clientWidth, 200) !== plot.width) draw(); }).observe(host);
  }

  return { data, total, time, ascending, axis, set, zoom, focus, chart, inkOn, fitted, changed };
})();

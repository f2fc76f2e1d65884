// The table of points: rows are made from the data as they are asked for.
"use strict";
(() => {
  const { show } = npusim;
  const { data, all, parameters, values, objectives, worth, shown, setWords, marks, mark, open, stands, on, FRONT } = study;
  const table = document.getElementById("point-table"), form = document.getElementById("find"), more = document.getElementById("more");
  const body = table.tBodies[0], heads = [...table.tHead.rows[0].cells];
  const FIRST = 100;
  let most = FIRST, order = null, rows = new Map(), pause = 0;
  const known = new Map();  // rows are made once

  const number = (column, i) => column.number(i) ?? NaN;
  const cells = [
    { sort: (i) => data.points[i], text: (i) => String(data.points[i]) },
    ...values.map((each) => ({ sort: (i) => each.of[0][i] ?? NaN, text: (i) => (each.of[0][i] === null ? "" : show.digits(each.of[0][i])), wide: !each.goal })),
    ...parameters.map((each, at) => ({ sort: (i) => (Number.isNaN(number(each, i)) ? each.at(i) : number(each, i)), text: each.text, first: !at })),
    ...(data.models.length > 1 ? data.models : []).flatMap((_, m) => objectives.map((each) => ({
      sort: (i) => each.of[m + 1][i] ?? NaN, text: (i) => (each.of[m + 1][i] === null ? "" : show.digits(each.of[m + 1][i])), wide: true,
    }))),
    { sort: (i) => stands(i), text: stands, words: true },
  ];
  const bestFirst = (a, b) => (data.state[b] === FRONT) - (data.state[a] === FRONT) || (objectives.length && data.state[a] && data.state[b] ? worth(objectives[0], a) - worth(objectives[0], b) : data.state[b] - data.state[a]) || data.points[a] - data.points[b];

  function sorted(found) {
    if (!order) return found.sort(bestFirst);
    const { column, sign } = order, key = cells[column].sort;
    if (cells[column].words) return found.sort((a, b) => sign * key(a).localeCompare(key(b), "en"));
    const keys = new Map(found.map((i) => [i, key(i)]));  // what has no value comes last
    return found.sort((a, b) => (Number.isNaN(keys.get(a)) - Number.isNaN(keys.get(b))) || sign * (keys.get(a) - keys.get(b)));
  }
  function row(i) {
    if (!known.has(i)) known.set(i, made(i));
    return known.get(i);
  }
  function made(i) {
    const row = document.createElement("tr");
    row.classList.toggle("on", data.state[i] === FRONT);
    cells.forEach((cell, at) => {
      const element = document.createElement(at ? "td" : "th");
      if (!cell.words) element.classList.add("n");
      if (cell.wide) element.classList.add("wide");
      if (cell.first) element.classList.add("first");
      if (at) element.textContent = cell.text(i);
      else {
        element.scope = "row";
        const opener = document.createElement("button");
        Object.assign(opener, { type: "button", className: "link", textContent: cell.text(i), title: "Hardware file of the point" });
        opener.addEventListener("click", () => open(i));
        element.append(opener);
      }
      row.append(element);
    });
    row.addEventListener("pointerenter", () => mark(i));
    return row;
  }
  function draw() {
    const found = sorted(all.filter(shown)), visible = found.slice(0, most);
    rows = new Map(visible.map((i) => [i, row(i)]));
    body.replaceChildren(...rows.values());
    more.hidden = visible.length === found.length;
    more.textContent = `More rows: ${show.whole(visible.length)} of ${show.whole(found.length)} are shown`;
    const among = all.filter((i) => data.state[i] >= study.least).length;
    const of = study.least === FRONT ? " on the front" : study.least ? " feasible" : "";
    form.querySelector("output").textContent = (found.length === among ? show.whole(among) : `${show.whole(found.length)} of ${show.whole(among)}`) + ` points${of}`;
    marked();
  }
  function marked() {
    rows.forEach((row, i) => { row.classList.toggle("here", i === marks.here); row.classList.toggle("chosen", i === marks.chosen); });
  }

  heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
    const before = head.getAttribute("aria-sort");
    heads.forEach((each) => each.setAttribute("aria-sort", "none"));
    const next = before === "ascending" ? "descending" : "ascending";
    head.setAttribute("aria-sort", next);
    order = { column, sign: next === "ascending" ? 1 : -1 };
    draw();
  }));
  body.addEventListener("pointerleave", () => mark(-1));
  more.addEventListener("click", () => { most += 200; draw(); });
  form.elements.text.addEventListener("input", () => setWords(form.elements.text.value));
  form.elements.wide?.addEventListener("change", () => table.classList.toggle("wide", form.elements.wide.checked));
  form.addEventListener("submit", (event) => event.preventDefault());
  on("filter", () => {  // a range that is being dragged need not make a hundred rows at every step
    clearTimeout(pause);
    pause = setTimeout(() => { most = FIRST; draw(); }, 80);
  });
  on("mark", marked);
  draw();
})();

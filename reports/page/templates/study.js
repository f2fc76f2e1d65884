// The points of a study, and what all views share: which are filtered, marked and chosen. And the file of a point.
"use strict";
const study = (() => {
  const { data, show, showTip, hideTip } = npusim;
  const count = data.points.length;
  const NO_RESULT = 0, BEYOND = 1, FEASIBLE = 2, FRONT = 3;
  const HARD = "\u00a0";
  let model = 0, least = FRONT;
  const known = new Map();
  function rangeOf(column) {  // of what is shown
    const key = `${column.key} ${model} ${least}`;
    if (!known.has(key)) {
      const found = column.of[model].filter((value, i) => value !== null && data.state[i] >= least);
      known.set(key, found.length ? [found.reduce((a, b) => Math.min(a, b)), found.reduce((a, b) => Math.max(a, b))] : [0, 1]);
    }
    return known.get(key);
  }

  // --- columns: at(i) is a place on the axis (null: none), text(i) what the reader sees ----------------------
  const parameters = data.parameters.map((each) => {
    const numbers = each.levels.map(Number);
    return {
      id: each.path, title: each.path, short: each.path.split(".").pop(), above: each.path.split(".").slice(0, -1).join("."), names: [each.path, each.path.split(".").pop()],
      levels: each.levels, goal: "", log: false, range: [0, each.levels.length - 1],
      at: (i) => each.at[i], text: (i) => each.levels[each.at[i]], tick: (at) => each.levels[at],
      number: (i) => numbers[each.at[i]],
    };
  });
  const values = data.values.map((each) => {
    const unit = each.unit ? HARD + each.unit : "";
    return {
      id: each.key, title: each.label + (each.unit ? ", " + each.unit : ""), short: each.label, above: each.unit, names: [each.label, each.key],
      levels: null, goal: each.goal, log: each.log, of: each.of,
      at: (i) => each.of[model][i], text: (i) => (each.of[model][i] === null ? "" : show.digits(each.of[model][i]) + unit),
      tick: (at) => show.digits(at), number: (i) => each.of[model][i],
      get range() { return rangeOf(each); },
    };
  });
  const objectives = values.filter((each) => each.goal);
  const columns = [...parameters, ...values];
  const byId = new Map(columns.map((each) => [each.id, each]));
  const worth = (column, i) => (column.goal === "max" ? -column.at(i) : column.at(i));  // less is better

  // --- what is filtered ----------------------------------------------------------------------------------------
  const listeners = { filter: [], mark: [], model: [] };
  const pending = new Set();
  function tell(what) {  // once per frame, whatever happens in between
    if (!pending.size) requestAnimationFrame(() => { const now = [...pending]; pending.clear(); now.forEach((each) => listeners[each].forEach((call) => call())); });
    pending.add(what);
  }
  const on = (what, call) => { listeners[what].push(call); };
  const ranges = new Map();
  const passes = new Uint8Array(count).fill(1);
  let words = "", tests = [];
  const RELATIONS = {
    "<": (a, b) => a < b, "<=": (a, b) => a <= b, ">": (a, b) => a > b, ">=": (a, b) => a >= b, "=": (a, b) => a === b,
  };
  function test(word) {
    const parts = /^([^<>=]+)(<=|>=|<|>|=)(.+)$/.exec(word);
    if (!parts) return (i) => String(data.points[i]) === word || stands(i).toLowerCase().includes(word);
    const [, name, relation, bound] = parts;
    if (name === "point") return (i) => RELATIONS[relation](data.points[i], Number(bound));
    const column = columns.find((each) => each.names.some((known) => known.toLowerCase() === name)) ??
      columns.find((each) => each.names.some((known) => known.toLowerCase().startsWith(name)));
    if (!column) return () => false;
    if (relation === "=" && column.levels) return (i) => column.text(i).toLowerCase() === bound;
    return (i) => column.number(i) !== null && RELATIONS[relation](column.number(i), Number(bound));
  }
  function filtered() {
    const limits = [...ranges].map(([id, [low, high]]) => [byId.get(id), low, high]);
    for (let i = 0; i < count; i += 1) {
      passes[i] = limits.every(([column, low, high]) => column.at(i) !== null && column.at(i) >= low && column.at(i) <= high) &&
        tests.every((fits) => fits(i)) ? 1 : 0;
    }
    tell("filter");
  }
  function setRange(id, range) {
    const [first, last] = byId.get(id).range;
    if (range && range[0] <= first && range[1] >= last) ranges.delete(id);
    else if (range) ranges.set(id, range);
    else ranges.delete(id);
    filtered();
  }
  function setWords(text) {
    words = text.trim().toLowerCase().replace(/\s*(<=|>=|<|>|=)\s*/g, "$1");
    tests = words.split(/\s+/).filter(Boolean).map(test);
    filtered();
  }
  const shown = (i) => data.state[i] >= least && passes[i];
  const all = [...Array(count).keys()];
  const front = all.filter((i) => data.state[i] === FRONT);

  // --- what is marked ------------------------------------------------------------------------------------------
  const marks = { here: -1, chosen: -1 };
  const mark = (i) => { if (marks.here !== i) { marks.here = i; tell("mark"); } };
  const choose = (i) => { marks.chosen = i; tell("mark"); };
  function stands(i) {
    return ["", "", "feasible", "front"][data.state[i]] || data.reasons[data.reason[i]] || "";
  }
  const named = (i) => `Point ${data.points[i]}`;
  function describe(i) {
    if (i < 0) return [];
    return [
      named(i) + (data.state[i] === FRONT ? ", on the front" : data.state[i] === FEASIBLE ? "" : ", " + stands(i)),
      ...values.filter((each) => each.at(i) !== null).map((each) => `${each.short}: ${each.text(i)}`),
      parameters.map((each) => `${each.short}${HARD}${each.text(i)}`).join(", "),
    ];
  }

  // --- controls that stand in several places ---------------------------------------------------------------------
  const radios = [...document.querySelectorAll("[data-show]")];
  radios.forEach((radio) => radio.addEventListener("change", () => {
    least = Number(radio.value);
    radios.forEach((other) => { other.checked = Number(other.value) === least; });
    tell("filter");
  }));
  const models = [...document.querySelectorAll("[data-model]")];
  models.forEach((select) => select.addEventListener("change", () => {
    model = Number(select.value);
    models.forEach((other) => { other.value = select.value; });
    values.forEach((each) => ranges.delete(each.id));
    filtered();
    tell("model");
  }));

  // --- ranges by keyboard ------------------------------------------------------------------------------------------
  function rangeForm(form) {
    const make = (name, attributes, ...inside) => {
      const element = Object.assign(document.createElement(name), attributes);
      element.append(...inside);
      return element;
    };
    const fields = columns.map((column) => {
      const label = (end) => `${column.title}, ${end}`;
      const ends = ["from", "to"].map((end, at) => {
        if (!column.levels) return Object.assign(make("input", { type: "number", step: "any" }), { ariaLabel: label(end) });
        const select = make("select", {}, ...column.levels.map((text, n) => make("option", { value: n, textContent: text })));
        select.value = at ? column.levels.length - 1 : 0;
        select.ariaLabel = label(end);
        return select;
      });
      const changed = () => {
        const [first, last] = column.range, [from, to] = ends.map((end) => end.value);
        setRange(column.id, from === "" && to === "" ? null : [from === "" ? first : Number(from), to === "" ? last : Number(to)]);
      };
      ends.forEach((end) => end.addEventListener("change", changed));
      form.append(make("fieldset", {}, make("legend", { textContent: column.title }), make("div", {}, ends[0], "to", ends[1])));
      return [column, ends];
    });
    form.addEventListener("submit", (event) => event.preventDefault());
    const refresh = () => fields.forEach(([column, ends]) => ends.forEach((end, at) => {
      if (document.activeElement === end) return;
      const range = ranges.get(column.id), full = column.levels ? column.range[at] : "";
      end.value = range ? (column.levels ? range[at] : Number(range[at].toPrecision(4))) : full;
      if (!column.levels) end.placeholder = show.digits(column.range[at]);
    }));
    on("filter", refresh);
    refresh();
  }

  // --- the dock: what is filtered and chosen, wherever the reader is --------------------------------------------------
  const dock = document.getElementById("dock"), dockFilter = document.getElementById("dock-filter"), dockPoint = document.getElementById("dock-point");
  function button(text, label, action) {
    const made = document.createElement("button");
    Object.assign(made, { type: "button", textContent: text, ariaLabel: label });
    made.addEventListener("click", action);
    return made;
  }
  function text(tag, words_) { const made = document.createElement(tag); made.textContent = words_; return made; }
  const spelled = (column, [low, high]) => (column.levels
    ? (low === high ? column.tick(low) : low > high ? "none" : `${column.tick(low)} to ${column.tick(high)}`)
    : `${show.digits(low)} to ${show.digits(high)}${column.above ? HARD + column.above : ""}`);
  function docked() {
    const parts = [...ranges].map(([id, range]) => button(`${byId.get(id).short} ${spelled(byId.get(id), range)} \u00d7`, `Remove the range of ${id}`, () => setRange(id, null)));
    if (words) parts.push(button(`\u201c${words}\u201d \u00d7`, "Remove the words", () => { document.querySelector("#find [name=text]").value = ""; setWords(""); }));
    dockFilter.hidden = !parts.length;
    if (parts.length) {
      dockFilter.replaceChildren(text("b", `${show.whole(front.filter((i) => passes[i]).length)} of ${show.whole(front.length)} on the front`), ...parts,
        button("Clear", "Remove all filters", () => { ranges.clear(); document.querySelector("#find [name=text]").value = ""; setWords(""); }));
    }
    const i = marks.chosen;
    dockPoint.hidden = i < 0;
    if (i >= 0) {
      dockPoint.replaceChildren(text("b", named(i)), text("span", objectives.map((each) => each.text(i)).filter(Boolean).join(", ") || stands(i)),
        button("Hardware file", `Hardware file of point ${data.points[i]}`, () => open(i)), button("\u00d7", "Choose no point", () => choose(-1)));
    }
    dock.hidden = dockFilter.hidden && dockPoint.hidden;
  }

  // --- the hardware file of a point --------------------------------------------------------------------------------
  function toml(i) {
    const { extends: preset, fixed, changes, name, description, most } = data.hardware;
    const changed = new Map();
    changes.forEach(({ path, texts, at }) => {
      const place = Array.isArray(at) ? at[i] : at;
      if (place !== null && texts.length) changed.set(path, texts[place]);
    });
    const words = description + [...changed].map(([path, literal]) => `${path} = ${literal}`).join(", ");
    const settings = new Map([
      ["name", JSON.stringify(`${name} ${data.points[i]}`)], ["description", JSON.stringify([...words].slice(0, most).join(""))],
      ...Object.entries(fixed), ...changed,
    ]);
    const tables = new Map([["", preset ? [`extends = ${preset}`] : []]]);
    settings.forEach((literal, path) => {
      const [key, ...above] = path.split(".").reverse();
      const table = above.reverse().join(".");
      if (!tables.has(table)) tables.set(table, []);
      tables.get(table).push(`${key} = ${literal}`);
    });
    return [...tables].filter(([, lines]) => lines.length).map(([table, lines]) => (table ? `[${table}]\n` : "") + lines.join("\n")).join("\n\n") + "\n";
  }
  const dialog = document.getElementById("hardware");
  function open(i) {
    choose(i);
    hideTip();
    const file = data.state[i] === FRONT ? `front/${data.points[i]}.toml` : `point-${data.points[i]}.toml`;
    dialog.querySelector("h2").textContent = named(i);
    dialog.querySelector(".standing").textContent = [stands(i), ...values.filter((each) => each.at(i) !== null).map((each) => `${each.short} ${each.text(i)}`)].join(", ");
    dialog.querySelector("[data-toml]").textContent = toml(i);
    dialog.querySelector("[data-command]").textContent = data.commands.map((name) => `npusim run ${name} --hw ${file}`).join("\n");
    dialog.querySelector("[data-note]").textContent = data.state[i] === FRONT ? "The file is in the folder of this page." : `Save the file as ${file} first.`;
    dialog.showModal();
  }
  async function copy(what, source) {
    try {
      await navigator.clipboard.writeText(source.textContent);
      what.textContent = "Copied";
    } catch {  // not allowed: selected, for the reader to copy
      getSelection().selectAllChildren(source);
      what.textContent = "Selected: copy it with Ctrl+C";
    }
    const before = what.dataset.copy === "toml" ? "Copy the file" : "Copy the command";
    setTimeout(() => { what.textContent = before; }, 2500);
  }
  dialog.querySelector("[data-close]").addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  dialog.querySelectorAll("[data-copy]").forEach((each) => each.addEventListener("click", () => copy(each, dialog.querySelector(`[data-${each.dataset.copy}]`))));
  document.querySelectorAll("[data-point]").forEach((each) => each.addEventListener("click", () => open(data.points.indexOf(Number(each.dataset.point)))));

  const form = document.querySelector("#ranges form");
  if (form) rangeForm(form);
  on("filter", docked);
  on("mark", docked);

  return {
    data, count, all, front, parameters, values, objectives, columns, worth, ranges, passes, shown, setRange, setWords, marks, mark, choose, open,
    describe, stands, on, tell, NO_RESULT, BEYOND, FEASIBLE, FRONT, get least() { return least; }, get model() { return model; },
    speak: (i, x, y, aloud) => (i < 0 ? hideTip() : showTip(describe(i), x, y, aloud)),
  };
})();

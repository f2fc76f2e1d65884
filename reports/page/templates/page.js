// What every page of npusim has: numbers as text, the theme, tables that sort and filter, the tooltip.
"use strict";
const npusim = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;

  // --- numbers, as npusim.reports.words.quantities writes them -----------------------------------------------------
  const THIN = "\u202f", HARD = "\u00a0";
  const thousands = (text) => text.replace(/\B(?=(\d{3})+(?!\d))/g, THIN);
  function digits(value) {
    if (value && Math.abs(value) < 1e-3) return value.toPrecision(3);
    const size = Math.abs(value);
    const text = value.toFixed(size >= 1000 ? 0 : size >= 100 ? 1 : size >= 10 ? 2 : 3);
    const [whole, rest] = (text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text).split(".");
    return thousands(whole) + (rest ? "." + rest : "");
  }
  function scaled(value, steps) {
    const step = (value && steps.find(([factor]) => Math.abs(value) >= factor * 0.99995)) ||
      (value ? steps[steps.length - 1] : steps.find(([factor]) => factor === 1));
    return digits(value / step[0]) + HARD + step[1];
  }
  const show = {
    digits,
    whole: (value) => thousands(String(Math.round(value))),
    percent: (share) => (share * 100).toFixed(1) + HARD + "%",
    time: (us) => scaled(us, [[1e6, "s"], [1e3, "ms"], [1, "\u00b5s"], [1e-3, "ns"]]),
    power: (mw) => scaled(mw, [[1e3, "W"], [1, "mW"], [1e-3, "\u00b5W"]]),
    size: (bytes) => scaled(bytes, [[1 << 30, "GiB"], [1 << 20, "MiB"], [1 << 10, "KiB"], [1, "B"]]),
  };

  // --- theme -------------------------------------------------------------------------------------------------
  const painters = [];
  const prefersDark = matchMedia("(prefers-color-scheme: dark)");
  const printing = matchMedia("print");
  const remembered = { get: () => { try { return localStorage.getItem("npusim-theme"); } catch { return null; } },
    set: (name) => { try { localStorage.setItem("npusim-theme", name); } catch { /* not allowed: not remembered */ } } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : prefersDark.matches);
  const colour = (name) => getComputedStyle(root).getPropertyValue("--" + name).trim();
  const repaint = () => painters.forEach((paint) => paint());
  function themed() {
    const button = document.getElementById("theme");
    const name = () => { button.textContent = isDark() ? "Light" : "Dark"; button.title = "Switch to " + button.textContent.toLowerCase() + " colours"; };
    if (["dark", "light"].includes(remembered.get())) root.dataset.theme = remembered.get();
    button.hidden = false;
    name();
    button.addEventListener("click", () => {
      root.dataset.theme = isDark() ? "light" : "dark";
      remembered.set(root.dataset.theme);
      name();
      repaint();
    });
    prefersDark.addEventListener("change", () => { name(); repaint(); });
    printing.addEventListener("change", repaint);
    addEventListener("beforeprint", repaint);
    addEventListener("afterprint", repaint);
  }

  // --- tooltip: lines of text only, never markup ---------------------------------------------------------------
  const tip = document.getElementById("tip"), spoken = document.getElementById("spoken");
  function showTip(lines, x, y, speak) {
    tip.replaceChildren(...lines.map((line, i) => {
      const element = document.createElement(i ? "div" : "b");
      element.textContent = line;
      return element;
    }));
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    const left = x + 14 + box.width > innerWidth ? Math.max(4, x - 14 - box.width) : x + 14;
    const top = y + 16 + box.height > innerHeight ? Math.max(4, y - 12 - box.height) : y + 16;
    tip.style.transform = `translate(${Math.round(left)}px, ${Math.round(top)}px)`;
    if (speak) spoken.textContent = lines.join(", ");
  }
  const hideTip = () => { tip.hidden = true; };

  // --- tables --------------------------------------------------------------------------------------------------
  const valueOf = (cell) => cell.dataset.v ?? cell.textContent.trim();
  function sortable(table) {
    const heads = [...table.tHead.rows[0].cells];
    heads.forEach((head, column) => {
      const button = head.querySelector("button");
      if (!button) return;
      button.addEventListener("click", () => {
        const numeric = head.dataset.type === "n";
        const before = head.getAttribute("aria-sort");
        const first = numeric && column ? "descending" : "ascending";
        const other = first === "ascending" ? "descending" : "ascending";
        const order = before === first ? other : first;
        heads.forEach((each) => each.hasAttribute("aria-sort") && each.setAttribute("aria-sort", "none"));
        head.setAttribute("aria-sort", order);
        const sign = order === "ascending" ? 1 : -1;
        const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[column]), row]);
        rows.sort(([a], [b]) => sign * (numeric ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true })));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }
  function filterable(form) {
    const table = document.getElementById(form.dataset.filter);
    const count = form.querySelector("output");
    const apply = () => {
      const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0, all = 0;
      for (const row of table.tBodies[0].rows) {
        const text = (row.cells[1].title + " " + row.cells[2].textContent).toLowerCase();
        const fits = words.every((word) => text.includes(word)) &&
          ["unit", "bound", "device"].every((key) => !form.elements[key]?.value || form.elements[key].value === row.dataset[key]);
        row.hidden = !fits;
        shown += fits;
        all += 1;
      }
      count.textContent = shown === all ? `${all} layers` : `${shown} of ${all} layers`;
      table.classList.toggle("wide", form.elements.wide.checked);
    };
    form.addEventListener("input", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    apply();
  }

  // --- boxes that scroll sideways: faded at the edge while there is more ---------------------------------------
  function faded(box) {
    const update = () => box.classList.toggle("further", box.scrollLeft + box.clientWidth < box.scrollWidth - 2);
    box.addEventListener("scroll", update, { passive: true });
    const observer = new ResizeObserver(update);
    observer.observe(box);
    [...box.children].forEach((child) => observer.observe(child));
    update();
  }

  // --- contents: where the reader is ---------------------------------------------------------------------------
  function followed() {
    const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
    const seen = new Set();
    const observer = new IntersectionObserver((entries) => {
      entries.forEach((entry) => seen[entry.isIntersecting ? "add" : "delete"](entry.target.id));
      const current = [...links.keys()].find((id) => seen.has(id));
      links.forEach((link, id) => id === current ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
    }, { rootMargin: "-10% 0px -70% 0px" });
    document.querySelectorAll("main > section").forEach((section) => observer.observe(section));
  }

  themed();
  document.querySelectorAll("table:not([data-own])").forEach((table) => table.tHead && sortable(table));
  document.querySelectorAll("form[data-filter]").forEach(filterable);
  document.querySelectorAll(".scroll").forEach(faded);
  followed();

  return { data, show, colour, showTip, hideTip, onPaint: (paint) => { painters.push(paint); paint(); }, repaint };
})();

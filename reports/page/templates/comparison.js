// The comparison: finds layers by what is typed.
"use strict";
(() => {
  const form = document.getElementById("find"), table = document.getElementById("layer-table");
  const rows = [...table.tBodies[0].rows];
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("input", () => {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const text = `${row.cells[0].title} ${row.cells[1].textContent}`.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      shown += !row.hidden;
    }
    form.querySelector("output").textContent =
      shown === rows.length ? `${shown} layers` : `${shown} of ${rows.length} layers`;
  });
})();

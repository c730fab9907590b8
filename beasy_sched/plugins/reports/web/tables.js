"use strict";
// Sortable tables: a click on a heading sorts by its column, best first if that is defined, and a second click
// reverses the order. Cells without a value stay last. A table that is too wide gets a note that it scrolls.
(() => {
  const valueOf = (row, place) => {
    const cell = row.cells[place];
    if (place === 0) return cell.firstChild.textContent.trim().toLowerCase();
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };

  function compare(a, b, up) {
    if (a === null || b === null) return (a === null) - (b === null);
    const order = typeof a === "string" ? a.localeCompare(b, undefined, { numeric: true }) : a - b;
    return up ? order : -order;
  }

  function sort(table, head) {
    const heads = [...table.tHead.rows[0].cells], place = heads.indexOf(head), before = head.getAttribute("aria-sort");
    const up = before === "none" ? place === 0 || head.dataset.best === "low" : before === "descending";
    heads.forEach((each) => each.setAttribute("aria-sort", "none"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(valueOf(a, place), valueOf(b, place), up) || a.dataset.place - b.dataset.place);
    table.tBodies[0].append(...rows);
  }

  /** Show below a table whether it has more columns than are visible. */
  function tellWidth(box) {
    const wide = box.scrollWidth > box.clientWidth + 1, noted = box.nextElementSibling?.classList.contains("more");
    if (wide && !noted) {
      const more = document.createElement("p");
      more.className = "more";
      more.textContent = "scroll for more columns \u2192";
      box.after(more);
    } else if (!wide && noted) box.nextElementSibling.remove();
  }

  const watch = new ResizeObserver((entries) => entries.forEach((entry) => tellWidth(entry.target)));
  document.querySelectorAll(".table").forEach((box) => watch.observe(box));

  document.querySelectorAll("table.compared").forEach((table) => {
    table.tHead.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) sort(table, button.parentElement);
    });
  });
})();

"use strict";
(() => {
  const table = document.getElementById("all");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const texts = rows.map((row) => Array.from(row.cells, (cell) => cell.textContent).join(" ").toLowerCase());
  const search = document.getElementById("search");
  const count = document.getElementById("count");

  // Every word must be somewhere in a row.
  const filter = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    rows.forEach((row, index) => {
      row.hidden = !words.every((word) => texts[index].includes(word));
      shown += row.hidden ? 0 : 1;
    });
    count.textContent = `${shown} of ${rows.length}`;
  };
  search.addEventListener("input", filter);

  const names = new Intl.Collator("en", { numeric: true });
  const numbers = (one, other) => one - other;
  const keyOf = (row, column, isNumber) => {
    const text = row.cells[column].textContent;
    return isNumber ? (text === "" ? -Infinity : Number(text)) : text;
  };

  // First press ascending, second descending; equal rows keep the order of the plan.
  const sort = (button) => {
    const heading = button.parentElement;
    const isNumber = button.dataset.number === "1";
    const direction = heading.ariaSort === "ascending" ? -1 : 1;
    const compare = isNumber ? numbers : names.compare;
    const keyed = rows.map((row) => [keyOf(row, heading.cellIndex, isNumber), row]);
    keyed.sort(([one], [other]) => (one === other ? 0 : direction * compare(one, other)));
    body.append(...keyed.map(([, row]) => row));
    for (const each of table.tHead.rows[0].cells) each.ariaSort = "none";
    heading.ariaSort = direction === 1 ? "ascending" : "descending";
  };
  for (const button of table.tHead.querySelectorAll("button")) {
    button.addEventListener("click", () => sort(button));
  }
})();

"use strict";
(() => {
  const table = document.getElementById("all");
  const body = table.tBodies[0];
  const rows = Array.from(body.rows);
  const texts = rows.map((row) => Array.from(row.cells, (cell) => `${cell.textContent} ${cell.dataset.raw ?? ""}`).join(" ").toLowerCase());
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
    const { textContent, dataset } = row.cells[column];
    return isNumber ? (dataset.raw === "" ? -Infinity : Number(dataset.raw)) : textContent;
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

  // A box that holds more to its right says so, and covers a column that is not wholly inside.
  const cue = (frame) => {
    const box = frame.querySelector(".scroll");
    const edge = box.scrollLeft + box.clientWidth;
    const heads = box.querySelectorAll("thead th");
    const ends = Array.from(heads, (head) => head.offsetLeft + head.offsetWidth);
    const cut = Math.max(...ends.filter((end) => end > box.scrollLeft && end <= edge + 1));
    const hasMore = box.scrollWidth - edge > 1 && Number.isFinite(cut);
    frame.toggleAttribute("data-more", hasMore);
    frame.style.setProperty("--cut", `${cut - box.scrollLeft}px`);
    frame.style.setProperty("--rest", `${edge - cut}px`);
  };
  const frames = Array.from(document.querySelectorAll(".frame"));
  const cueAll = () => frames.forEach(cue);
  for (const frame of frames) {
    frame.querySelector(".scroll").addEventListener("scroll", () => cue(frame), { passive: true });
  }
  document.getElementById("every").addEventListener("change", cueAll);
  addEventListener("resize", cueAll);
  cueAll();
})();

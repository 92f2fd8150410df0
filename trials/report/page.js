"use strict";
// Tables are sorted by the column whose heading is pressed; numbers that do not exist come last.
for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const down = heading.getAttribute("aria-sort") === "ascending";
      headings.forEach((each) => each.removeAttribute("aria-sort"));
      heading.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
      const numeric = heading.classList.contains("number");
      const before = (one, other) => {
        const [a, b] = [key(one), key(other)];
        if (a === "" || b === "") return (a === "") - (b === "");
        return (down ? -1 : 1) * (numeric ? a - b : a.localeCompare(b));
      };
      body.append(...[...body.rows].sort(before));
    });
  });
}
// The numbers of a point also stand under its figure, where a finger has no pointer to hold still.
for (const figure of document.querySelectorAll("figure")) {
  const told = figure.querySelector("output");
  for (const event of ["pointerover", "click"])
    figure.addEventListener(event, (happened) => {
      const title = happened.target.closest(".points circle")?.querySelector("title");
      if (title) told.textContent = title.textContent.replaceAll("\n", ", ");
    });
}

"use strict";
// The page is whole without this script: it only filters, sorts and names the point under the pointer.
(() => {
  const form = document.querySelector("[data-filter]");
  const table = document.querySelector("[data-sortable]");

  const nothing = document.querySelector("[data-empty]");

  const filter = () => {
    const only = form.querySelector('[aria-pressed="true"]').dataset.status;
    const words = form.elements.find.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const body of table.tBodies) {
      let left = 0;
      for (const row of body.querySelectorAll(".req")) {
        const text = row.textContent.toLowerCase();
        row.hidden = (only && row.dataset.status !== only) || !words.every((word) => text.includes(word));
        left += row.hidden ? 0 : 1;
      }
      body.hidden = left === 0;
      count += left;
    }
    const output = form.querySelector("output");
    output.textContent = `${count} of ${output.dataset.total} shown`;
    nothing.hidden = count > 0;
    table.hidden = count === 0;
  };

  const choose = (status) => {
    for (const one of form.querySelectorAll("[aria-pressed]")) {
      one.setAttribute("aria-pressed", String(one.dataset.status === status));
    }
    filter();
  };

  const key = (row, column, kind) => {
    const cell = row.cells[column];
    return kind === "number" ? Number(cell.dataset.value) : cell.textContent.trim();
  };

  const sort = (head) => {
    const rising = head.getAttribute("aria-sort") !== "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", rising ? "ascending" : "descending");
    const kind = head.dataset.sort;
    for (const body of table.tBodies) {
      const rows = [...body.querySelectorAll(".req")];
      rows.sort((a, b) => {
        const [left, right] = [key(a, head.cellIndex, kind), key(b, head.cellIndex, kind)];
        const order = kind === "number" ? left - right : left.localeCompare(right, "en", { numeric: true });
        return rising ? order : -order;
      });
      body.append(...rows);
    }
  };

  if (form && table) {
    form.hidden = false;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("input", filter);
    form.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      choose(button.getAttribute("aria-pressed") === "true" ? "" : button.dataset.status);
    });
    nothing.addEventListener("click", (event) => {
      if (!event.target.closest("button")) return;
      form.elements.find.value = "";
      choose("");
      form.querySelector("button").focus();
    });
    for (const head of table.querySelectorAll("thead th[data-sort]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.setAttribute("aria-label", `Sort by ${head.textContent}`);
      button.addEventListener("click", () => sort(head));
      head.append(" ", button);
    }
  }

  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  let near = null;

  const leave = () => {
    if (near) near.classList.remove("near");
    near = null;
    tip.hidden = true;
  };

  for (const chart of document.querySelectorAll("svg.chart")) {
    const points = [...chart.querySelectorAll("path > title, circle > title")].map((title) => ({ mark: title.parentNode, text: title.textContent }));
    if (!points.length) continue;
    for (const title of chart.querySelectorAll("path > title, circle > title")) title.remove();
    chart.addEventListener("pointerleave", leave);
    chart.addEventListener("pointermove", (event) => {
      let best = null;
      let closest = 32;
      for (const point of points) {
        const box = point.mark.getBoundingClientRect();
        const distance = Math.hypot(event.clientX - box.x - box.width / 2, event.clientY - box.y - box.height / 2);
        if (distance < closest) [best, closest] = [point, distance];
      }
      leave();
      if (!best) return;
      near = best.mark;
      near.classList.add("near");
      tip.textContent = best.text;
      tip.hidden = false;
      const width = tip.offsetWidth;
      tip.style.left = `${Math.max(8, Math.min(event.clientX + 14, window.innerWidth - width - 8))}px`;
      tip.style.top = `${event.clientY + 16}px`;
    });
  }
})();

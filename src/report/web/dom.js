// SPDX-License-Identifier: Apache-2.0
// Elements from data. Texts go in as text, never as markup.

export const byId = (id) => document.getElementById(id);

// el("td.number", {title: "…"}, child, "text")
export function el(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const node = document.createElement(tag);
  if (classes.length) node.className = classes.join(" ");
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on"))
      node.addEventListener(name.slice(2), value);
    else if (name === "style")
      node.style.cssText = value;
    else if (value !== undefined && value !== null && value !== false)
      node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((c) => c !== null && c !== undefined));
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren(...children.filter((c) => c !== null && c !== undefined));
}

// A table from columns [{title, right, value(row) → text or node}].
export function table(columns, rows, options = {}) {
  const head = el("tr", {}, ...columns.map((c) => el("th" + (c.right ? ".right" : ""), {scope: "col"}, c.title)));
  const body = rows.map((row) => {
    const tr = el(
      "tr", {},
      ...columns.map((c) => el("td" + (c.right ? ".right" : "") + (c.mono ? ".mono" : ""), {}, c.value(row))));
    if (options.onclick) {
      tr.className = "clickable";
      tr.tabIndex = 0;
      tr.addEventListener("click", () => options.onclick(row));
      tr.addEventListener("keydown", (e) => {
        if (e.key === "Enter" || e.key === " ") {
          e.preventDefault();
          options.onclick(row);
        }
      });
    }
    return tr;
  });
  return el("div.scroll", {tabindex: 0}, el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)));
}

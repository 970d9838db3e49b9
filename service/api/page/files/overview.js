/** All models as a table that follows the service's events. */

import { ago, byName, count, h, short } from "./dom.js";
import { onChange, rates, service } from "./service.js";

const ORDER_EVERY = 1000; // ms between two sorts while values move
const TICK = 5000; // ms between two looks at the clock
const rate = (model, name) => rates(model.id)?.[name] ?? null;
const STATES = { live: "live", restoring: "coming back", failed: "failed", held: "held elsewhere", fenced: "taken over", behind: "store behind" };

const stateOf = (m) => (m.state === "live" && m.untrained ? "untrained" : m.state);

/** Title, what is sorted by, what is written, and whether a telephone shows it. */
const COLUMNS = [
  { title: "Model", by: (m) => m.id, text: (m) => m.id, small: true },
  { title: "State", by: (m) => (stateOf(m) === "live" ? 1 : 0), text: (m) => STATES[stateOf(m)] ?? stateOf(m), small: true },
  { title: "Task", by: (m) => m.task, text: (m) => m.task },
  { title: "Examples", by: (m) => m.n_examples, text: (m) => count(m.n_examples), number: true, small: true },
  { title: "Free", by: (m) => m.n_free, text: (m) => count(m.n_free), number: true },
  { title: "Bound", by: (m) => m.n_bound, text: (m) => count(m.n_bound), number: true },
  { title: "Gap", by: (m) => m.relative_gap ?? -1, text: (m) => short(m.relative_gap), number: true },
  { title: "Version", by: (m) => m.version, text: (m) => count(m.version), number: true },
  { title: "Updates a minute", by: (m) => rate(m, "updates") ?? -1, text: (m) => short(rate(m, "updates")), number: true, moves: true },
  { title: "Rows predicted a minute", by: (m) => rate(m, "predictions") ?? -1, text: (m) => short(rate(m, "predictions")), number: true, moves: true },
  { title: "Last update", by: (m) => Date.parse(m.updated_at ?? 0), text: (m) => ago(m.updated_at), number: true, small: true, moves: true },
];

const kept = { search: "", column: 0, falling: false }; // as it was when one comes back to the page

export function overview(main) {
  const rows = new Map();
  const body = h("tbody");
  const found = h("p", { class: "quiet", role: "status" });
  const search = h("input", { type: "search", id: "search", value: kept.search, placeholder: "name, state or task", oninput: () => { kept.search = search.value; order(); } });
  const heads = COLUMNS.map((column, i) => h("th", { scope: "col", class: classes(column) },
    h("button", { type: "button", class: "sort", onclick: () => sortBy(i) }, column.title)));
  const empty = h("p", { id: "empty", hidden: true }, "There is no model yet. ", h("a", { href: "#/data" }, "Drop a file"), " to make one, or see ", h("a", { href: "docs" }, "the API"), ".");
  const list = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Models" },
    h("table", { class: "models" }, h("caption", { class: "unseen" }, "Models"), h("thead", {}, h("tr", {}, heads)), body));
  main.replaceChildren(h("h1", {}, "Models"),
    h("div", { class: "row" }, h("label", { for: "search" }, "Search"), search, found), empty, list);

  let shown = [], due = null;

  function sortBy(i) {
    kept.falling = kept.column === i ? !kept.falling : COLUMNS[i].number === true;
    kept.column = i;
    order();
  }

  function order() {
    due = null;
    const words = kept.search.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (m) => words.every((word) => `${m.id} ${stateOf(m)} ${STATES[stateOf(m)] ?? ""} ${m.task}`.toLowerCase().includes(word));
    const { by } = COLUMNS[kept.column], sign = kept.falling ? -1 : 1;
    const now = [...service.models.values()].filter(fits).map((model) => [by(model), model.id])
      .sort(([a, x], [b, y]) => sign * (typeof a === "string" ? byName(a, b) : a - b) || byName(x, y)).map(([, id]) => id);
    heads.forEach((head, i) => (i === kept.column ? head.setAttribute("aria-sort", kept.falling ? "descending" : "ascending") : head.removeAttribute("aria-sort")));
    found.textContent = `${count(now.length)} of ${count(service.models.size)} models`;
    empty.hidden = !service.health || service.models.size > 0;
    list.hidden = service.models.size === 0;
    if (now.length !== shown.length || now.some((id, i) => id !== shown[i])) body.replaceChildren(...now.map((id) => rows.get(id).row));
    shown = now;
  }

  const orderSoon = () => { due ??= setTimeout(order, ORDER_EVERY); };

  function made(model) {
    const texts = COLUMNS.map(() => document.createTextNode(""));
    const cells = COLUMNS.map((column, i) => i === 0
      ? h("th", { scope: "row" }, h("a", { href: `#/models/${model.id}` }, texts[0]))
      : h("td", { class: classes(column) }, texts[i]));
    return { row: h("tr", {}, cells), texts, state: cells[1] };
  }

  function write(model, columns = COLUMNS) {
    const row = rows.get(model.id);
    for (const column of columns) {
      const text = row.texts[COLUMNS.indexOf(column)], now = column.text(model);
      if (text.data !== now) text.data = now;
    }
    row.state.dataset.state = stateOf(model);
  }

  function take(changed, gone) {
    const fresh = changed.filter((id) => !rows.has(id));
    for (const id of changed) {
      const model = service.models.get(id);
      if (!rows.has(id)) rows.set(id, made(model));
      write(model);
    }
    for (const id of gone) rows.delete(id);
    if (fresh.length || gone.length || !shown.length) order();
    else if (kept.column || kept.search) orderSoon();
    if (fresh.length) performance.mark("models-shown");
  }

  const moving = COLUMNS.filter((column) => column.moves);
  const ticking = setInterval(() => { for (const model of service.models.values()) if (rows.has(model.id)) write(model, moving); }, TICK);
  const stop = onChange(take);
  take([...service.models.keys()], []);
  order();
  return () => { stop(); clearInterval(ticking); clearTimeout(due); };
}

const classes = (column) => [column.number && "number", !column.small && "wide"].filter(Boolean).join(" ") || null;


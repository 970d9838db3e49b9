/** Elements without markup in strings, and how values are written. */

/** An element: attributes by name, handlers as functions under `on…`; absent or false attributes are left out. */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child != null && child !== false));
  return element;
}

let named = 0;

/** A labelled control, as one block. */
export function field(label, control, hint) {
  control.id ||= `field-${++named}`;
  const told = hint && h("small", { id: `${control.id}-hint` }, hint);
  if (told) control.setAttribute("aria-describedby", told.id);
  return h("div", { class: "field" }, h("label", { for: control.id }, label), control, told);
}

/** A section under a heading of its own. */
export const section = (title, ...children) => h("section", {}, h("h2", {}, title), ...children);

/** A table: column titles, rows of cells; the first cell of a row names it. */
export function table(caption, titles, rows) {
  const line = (cells) =>
    h("tr", {}, cells.map((cell, i) => (i ? h("td", {}, cell) : h("th", { scope: "row" }, cell))));
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", { class: "unseen" }, caption),
      h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, rows.map(line))));
}

/** Names and values, side by side; what is not known is left out. */
export function facts(values) {
  const known = Object.entries(values).filter(([, value]) => value != null && value !== "");
  return h("dl", {}, known.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

/** The order of names as a person counts: l2 before l10. */
export const byName = new Intl.Collator("en", { numeric: true }).compare;

const WHOLE = new Intl.NumberFormat("en");

/** A count; a dash where it is not known. */
export const count = (value) => (value == null ? "–" : WHOLE.format(value));

/** A number in few digits. */
export function short(value) {
  if (value == null) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-3 || size >= 1e12 ? value.toExponential(1) : String(Number(value.toPrecision(4)));
}

/** A number with the digits that count beside the width of its band. */
export function precise(value, width) {
  if (value == null || !(width > 0) || width < 1e-6) return short(value);
  const digits = Math.max(0, 2 - Math.floor(Math.log10(width)));
  return value.toLocaleString("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
}

/** Seconds as a person says them. */
export function duration(seconds) {
  if (seconds < 1e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 1) return `${short(seconds * 1e3)} ms`;
  return `${short(seconds)} s`;
}

/** How long ago a moment was. */
export function ago(iso) {
  if (!iso) return "never";
  const seconds = Math.max(0, (Date.now() - Date.parse(iso)) / 1000);
  if (seconds < 5) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return day(new Date(iso));
}

const two = (value) => String(value).padStart(2, "0");
const day = (at) => `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())}`;

/** A moment as the clock here shows it, with its day where that is not today. */
export function clock(moment) {
  if (!moment) return "–";
  const at = new Date(moment), time = [at.getHours(), at.getMinutes(), at.getSeconds()].map(two).join(":");
  return day(at) === day(new Date()) ? time : `${day(at)} ${time}`;
}

/** The time of a reading as its feed has it, without seconds that are zero; a number where readings have an order alone. */
export function stamp(time) {
  if (typeof time !== "string") return count(time);
  return time.replace("T", " ").replace(/^(.{16}):00(?!\.)/, "$1");
}

/** Ascending whole numbers with runs in brief: "1 to 24, 48". */
export function runs(numbers) {
  const found = [];
  for (const one of numbers) {
    if (one - found.at(-1)?.[1] === 1) found.at(-1)[1] = one;
    else found.push([one, one]);
  }
  return found.map(([first, last]) => (last - first > 1 ? `${first} to ${last}` : last > first ? `${first}, ${last}` : String(first))).join(", ");
}

const FEW = 8; // rows of a table that is shortened
export const opened = new Set(); // captions of what is shown whole

/** A table with a row for each step: of many steps a few evenly apart, and the others on request. */
export function stepTable(caption, titles, rows) {
  if (rows.length <= FEW + 2) return table(caption, titles, rows);
  const few = Array.from({ length: FEW }, (_, i) => rows[Math.round((i * (rows.length - 1)) / (FEW - 1))]);
  const place = h("div");
  const turn = () => { if (!opened.delete(caption)) opened.add(caption); show(); place.querySelector("button").focus(); };
  function show() {
    const isOpen = opened.has(caption);
    place.replaceChildren(table(caption, titles, isOpen ? rows : few),
      h("button", { type: "button", class: "plain", "aria-expanded": String(isOpen), onclick: turn }, isOpen ? `Show ${FEW} of the ${count(rows.length)} steps` : `Show all ${count(rows.length)} steps`));
  }
  show();
  return place;
}

/** How many examples are neither free nor bound; of several classes each example is in several pairs. */
export const outside = (sizes, pairs = 1) => pairs * sizes.n_examples - sizes.n_free - sizes.n_bound;

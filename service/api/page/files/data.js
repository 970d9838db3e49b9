/** A file becomes a model: its columns are recognised, the target is chosen, examples go in piece by piece. */

import { button, call, change } from "./api.js";
import { labelOf, parse } from "./csv.js";
import { count, field, h, section, short, table } from "./dom.js";
import { dropped } from "./drop.js";
import { has } from "./service.js";

const PIECE = 500_000; // characters of one update, far below what a body may have
const SHOWN = 5; // rows of the file
const CLASSES = 50; // that words may be of, at most

export function data(main) {
  const place = h("div");
  const drop = dropped("Drop a CSV file here, or choose one", ".csv,.tsv,.txt,text/csv", "The first row may name the columns. The file goes to this service and nowhere else.", take);
  main.replaceChildren(h("h1", {}, "Data in"), drop, place);

  async function take(given) {
    try {
      const text = await given.text();
      place.replaceChildren(choices(parse(text), given.name, text));
    } catch (error) {
      place.replaceChildren(h("p", { class: "wrong", role: "alert" }, error.message));
    }
  }
}

const KINDS = { number: "numbers", time: "times", text: "words" };

/** What the model learns of a target: words and two values are classes, numbers a value. */
function taskOf(column) {
  if (!column) return "oneclass";
  if (column.distinct.size === 2) return "svc";
  if (column.kind === "number") return "svr";
  return column.kind === "text" && column.distinct.size > 1 && column.distinct.size <= CLASSES ? "svc" : null;
}

function choices(file, name, text) {
  const { columns, n } = file;
  const options = (wanted) => wanted.map((column) => h("option", { value: columns.indexOf(column) }, `${column.name} (${KINDS[column.kind]})`));
  const targets = columns.filter(taskOf);
  const target = h("select", { onchange: () => describe() }, options(targets), h("option", { value: "" }, "none: learn what is usual"));
  if (targets.length) target.value = columns.indexOf(targets.at(-1));
  const keys = h("select", { onchange: () => describe() }, h("option", { value: "" }, "none: numbers are handed out"), options(columns.filter((column) => column.kind !== "number" && column.distinct.size === n)));
  const id = h("input", { type: "text", pattern: "[a-z0-9][a-z0-9_\\-]{0,63}", required: true, value: name.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9_-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 64) || "model" });
  const window_ = h("input", { type: "number", min: "1", step: "1", placeholder: "all" });
  const told = h("p", { role: "status" }), bar = h("progress", { max: "1", hidden: true, "aria-label": "Examples learnt" });
  const features = h("fieldset", {}, h("legend", {}, "Features"), columns.map((column, i) => column.kind === "number" && h("label", { class: "choice" }, h("input", { type: "checkbox", value: i, checked: true, onchange: () => describe() }), column.name)));

  const times = columns.find((column) => column.kind === "time"), forecasts = has("/feeds") && columns.some((column) => column.kind === "number");
  const ahead = h("fieldset", {}, h("legend", {}, "Known ahead (feeds only)"), columns.map((column, i) => column.kind === "number" && h("label", { class: "choice" }, h("input", { type: "checkbox", value: i, onchange: () => describe() }), column.name)));
  const steps = h("input", { type: "text", pattern: "\\s*[0-9]+(\\s*,\\s*[0-9]+)*\\s*", placeholder: "1", oninput: () => describe() });

  const chosen = () => {
    const of = (select) => (select.value === "" ? null : columns[select.value]);
    const used = [...features.querySelectorAll("input:checked")].map((box) => columns[box.value]).filter((column) => column !== of(target));
    return { target: of(target), keys: of(keys), features: used, task: taskOf(of(target)) };
  };

  /** The columns of a feed: those known ahead are not among the others. */
  const ofFeed = () => {
    const { target: goal, features: used } = chosen();
    const known = [...ahead.querySelectorAll("input:checked")].map((box) => columns[box.value]).filter((column) => column !== goal);
    return { target: goal, features: used.filter((column) => !known.includes(column)), known };
  };

  function describe() {
    const { target: goal, features: used, task } = chosen();
    const labels = task === "svc" && [...goal.distinct].sort(goal.kind === "number" ? (a, b) => a - b : undefined);
    const means = { svc: labels && `classes: ${labels.map((label) => `“${label}”`).join(", ")}`, svr: `values of ${goal?.name}`, oneclass: "what is usual, without a target" }[task];
    told.textContent = `The model learns ${means}, from ${count(used.length)} features of ${count(n)} rows, each brought to mean 0 and variance 1.`;
    if (!forecasts || goal?.kind !== "number") return;
    const { features: past, known } = ofFeed(), list = (some) => some.map((column) => column.name).join(", ");
    told.textContent += ` A feed forecasts ${goal.name} from its own past${past.length ? `, from ${list(past)}` : ""}${known.length ? `, and from ${list(known)} as known ahead` : ""}.`;
  }

  const make = button("Make the model", async (once) => {
    if (!id.reportValidity() || !window_.reportValidity()) return "";
    const what = chosen();
    if (!what.features.length) throw new Error("Choose at least one feature.");
    const rows = complete(file, what);
    if (!rows.length) throw new Error("No row has a number in every column that was chosen.");
    await call("POST", "/models", { id: id.value, task: what.task, scale: "standard", ...(window_.value && { window: { max_examples: window_.valueAsNumber } }) });
    bar.hidden = false;
    await learn(id.value, what, rows, once, (share) => { bar.value = share; });
    location.hash = `#/models/${id.value}`;
    return `Learnt ${count(rows.length)} rows.`;
  });

  const make_feed = forecasts && button("Make a feed that forecasts it", async (once) => {
    const { target: goal, features: past, known } = ofFeed();
    if (!id.reportValidity() || !window_.reportValidity() || !steps.reportValidity()) return "";
    if (goal?.kind !== "number") throw new Error("A feed forecasts numbers: choose such a target.");
    const names = (some) => some.map((column) => column.name), asked = steps.value.split(",").map(Number);
    await call("POST", "/feeds", { id: id.value, target: goal.name, time: times?.name ?? null, features: names(past), known: names(known),
      ...(steps.value && { steps: asked.length > 1 ? asked : asked[0] }), ...(window_.value && { window: window_.valueAsNumber }) });
    bar.hidden = false;
    const { observe } = await import("./feeds.js");
    await observe(id.value, text, once, (share) => { bar.value = share; });
    location.hash = `#/feeds/${id.value}`;
    return "";
  }, { class: "plain" });

  describe();
  return section(`${name}: ${count(n)} rows, ${count(columns.length)} columns`,
    table("First rows", columns.map((column) => `${column.name}, ${KINDS[column.kind]}`), Array.from({ length: Math.min(SHOWN, n) }, (_, i) => columns.map((column) => column.cells[i]))),
    h("div", { class: "row" }, field("Name", id, "Small letters, digits, - and _."), field("Target", target), field("Key", keys), field("Window", window_, "Newest examples that count; the others leave.")),
    features, forecasts && h("div", {}, ahead, field("Steps", steps, "How far ahead a feed forecasts: 24 for each of the next 24 readings, or 1, 6, 24 for these.")), told, h("div", { class: "row" }, make, make_feed), bar);
}

/** Rows that have all that is needed: features, target, key. */
function complete({ n }, { target, keys, features, task }) {
  const label = task === "svc" ? (cell) => labelOf(target, cell) : Number;
  const rows = [];
  for (let i = 0; i < n; i++) {
    if ([target, keys, ...features].some((column) => column && column.cells[i].trim() === "")) continue;
    rows.push({ x: features.map((column) => Number(column.cells[i])), y: target && label(target.cells[i]), key: keys?.cells[i] });
  }
  return rows;
}

/** Update after update, each under a name of its own, so that none counts twice. */
async function learn(id, { target, keys }, rows, once, progress) {
  const width = JSON.stringify(rows[0]).length, step = Math.max(1, Math.floor(PIECE / width));
  for (let from = 0, part = 0; from < rows.length; from += step, part++) {
    const piece = rows.slice(from, from + step);
    await change(`/models/${id}/update`, { add: { X: piece.map((row) => row.x), ...(target && { y: piece.map((row) => row.y) }), ...(keys && { keys: piece.map((row) => row.key) }) } }, `${once}-${part}`);
    progress(Math.min(1, (from + step) / rows.length));
  }
}

/** A file becomes a feed, a fleet or a model: the service says how it understands the file, and what it takes for what is corrected here. */

import { button, call, change, get } from "./api.js";
import { inspect, sent, table as examples } from "./csv.js";
import { count, facts, field, h, section, table } from "./dom.js";
import { dropped } from "./drop.js";
import { follow } from "./jobs.js";
import { has } from "./service.js";

const PIECE = 500_000; // characters of one call, far below what a body may have
const ROWS = 500; // of one update
const MOST = 5000; // rows that a model learns where no window is given
const CLASSES = 50; // that words may be of, at most
const AMOUNTS = 20; // different numbers that are labels still, at most

export function data(main) {
  const place = h("div");
  const drop = dropped("Drop a file here, or choose one", "", "A table as it is: CSV, Excel, Parquet, JSON, an export. It goes to this service and nowhere else.", (file) => take(file));
  main.replaceChildren(h("h1", {}, "Data in"), drop, place);

  async function take(file, options = {}) {
    const parts = [], again = (corrected) => take(file, corrected);
    place.replaceChildren(h("p", { class: "quiet", role: "status" }, `Reading ${file.name} …`));
    let found = null;
    try {
      found = await inspect(file, options);
      parts.push(section(`${file.name}: ${count(found.count)} rows, ${count(found.columns.length)} columns`, understood(found)));
    } catch (error) {
      parts.push(h("p", { class: "wrong", role: "alert" }, error.message));
    }
    parts.push(correction(found, options, again, found === null));
    if (found) parts.push(choices(file, found, options));
    place.replaceChildren(...parts);
  }
}

const KINDS = { number: "numbers", time: "times", text: "words", series: "names of series" };

function understood({ understood: said, columns, rows }) {
  const known = Object.entries(said).map(([name, value]) => [name, Array.isArray(value) ? value.join("; ") : String(value)]);
  return h("div", {}, facts(Object.fromEntries(known)),
    table("First rows", columns.map(({ column, kind }) => `${column}, ${KINDS[kind]}`), rows.map((row) => columns.map(({ column }) => row[column]))));
}

/** Options that correct what was understood; each is that of `POST /inspect`. */
function correction(found, options, again, isOpen) {
  const names = found ? found.columns.map(({ column }) => column) : [];
  const select = (name, values) => h("select", { name }, h("option", { value: "" }, "as found"), Object.entries(values).map(([value, label]) => h("option", { value }, label)));
  const text = (name, placeholder) => h("input", { type: "text", name, placeholder });
  const known = h("datalist", { id: "columns-of-file" }, names.map((value) => h("option", { value })));
  const given = [
    ["Separator", select("separator", { comma: "comma", semicolon: "semicolon", tab: "tab", bar: "bar", space: "spaces" })],
    ["Decimal mark", select("decimal", { ".": "point", ",": "comma" })],
    ["Header", select("header", { true: "the first row", false: "none" })],
    ["Lines before the header", h("input", { type: "number", name: "skip", min: "0", step: "1", placeholder: "as found" })],
    ["File of a zip", text("member", "as found")],
    ["Encoding", text("encoding", "as found")],
    ["Column of times", h("input", { type: "text", name: "time", list: known.id, placeholder: "as found" }), "Or its parts: date+clock."],
    ["Format of times", text("time_format", "as found"), "Such as %d.%m.%Y %H:%M."],
    ["Zone of times", text("zone", "none"), "Such as Europe/Berlin."],
    ["Marks of missing values", text("missing", ""), "With blanks between."],
    ["Column of series", h("input", { type: "text", name: "series", list: known.id, placeholder: "as found" })],
    ["Series", select("wide", { true: "every column is one" })],
    ["Grid of times", text("align", "as found"), "nearest, mean, last or sum, also mean:1h; none: as they are."],
  ];
  for (const [, control] of given) {
    const value = options[control.name];
    if (value !== undefined) control.value = Array.isArray(value) ? value.join(" ") : String(value);
  }
  const read = button("Read it again", async () => {
    const all = given.map(([, { name, value }]) => [name, value.trim()]).filter(([, value]) => value);
    await again(Object.fromEntries(all.map(([name, value]) => [name, name === "missing" ? value.split(/\s+/) : value])));
    return "";
  });
  return h("details", { open: isOpen }, h("summary", {}, "Correct what was understood"),
    h("div", { class: "row" }, given.map(([label, control, hint]) => field(label, control, hint))), known, read);
}

/** What the model learns of a target: words and few whole numbers are classes, other numbers a value. */
function taskOf(column) {
  if (!column) return "oneclass";
  if (column.kind === "number" && (column.distinct > AMOUNTS || (column.distinct > 2 && column.values.some((cell) => !Number.isInteger(Number(cell)))))) return "svr";
  return column.distinct > 1 && column.distinct <= CLASSES ? "svc" : null;
}

function choices(file, found, options) {
  const { columns, count: n } = found;
  const choose = (wanted) => wanted.map((column) => h("option", { value: columns.indexOf(column) }, `${column.column} (${KINDS[column.kind]})`));
  const isReadings = found.time !== null && found.targets.length > 0, isFleet = found.series !== null;
  const targets = columns.filter((column) => taskOf(column) && column.kind !== "time");
  const target = h("select", { onchange: () => describe() }, choose(targets), h("option", { value: "" }, "none: learn what is usual"));
  const likely = columns.findIndex(({ column }) => column === found.targets[0]);
  if (targets.length) target.value = isReadings ? likely : columns.indexOf(targets.at(-1));
  const keys = h("select", { onchange: () => describe() }, h("option", { value: "" }, "none: numbers are handed out"), choose(columns.filter(({ kind, distinct }) => kind !== "time" && distinct === n)));
  const id = h("input", { type: "text", pattern: "[a-z0-9][a-z0-9_\\-]{0,35}", required: true, value: file.name.replace(/\.[^.]*$/, "").toLowerCase().replace(/[^a-z0-9_-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 36) || "mine" });
  const window_ = h("input", { type: "number", min: "1", step: "1", placeholder: "all" });
  const told = h("p", { role: "status" }), bar = h("progress", { max: "1", hidden: true, "aria-label": "Rows sent" });
  const boxes = (label, checked, some) => h("fieldset", {}, h("legend", {}, label), some.map((column) => h("label", { class: "choice" }, h("input", { type: "checkbox", value: columns.indexOf(column), checked, onchange: () => describe() }), column.column)));
  const features = boxes("Features", true, columns), ahead = boxes("Known ahead (feeds only)", false, columns.filter(({ kind }) => kind === "number"));
  const steps = h("input", { type: "text", pattern: "\\s*[0-9]+(\\s*,\\s*[0-9]+)*\\s*", placeholder: "1", oninput: () => describe() });
  const ticked = (set) => [...set.querySelectorAll("input:checked")].map((box) => columns[box.value]);
  const goal = () => (target.value === "" ? null : columns[target.value]);
  const key = () => (keys.value === "" ? null : columns[keys.value]);
  const used = () => ticked(features).filter((column) => column !== goal() && column !== key());
  const names = (some) => some.map(({ column }) => column);

  /** The columns of a feed: those known ahead are not among the others. */
  function ofFeed() {
    const known = ticked(ahead).filter((column) => column !== goal());
    return { known, past: used().filter((column) => column.kind === "number" && !known.includes(column)) };
  }

  function describe() {
    const task = taskOf(goal());
    const means = { svc: `classes: ${goal()?.values.map((label) => `“${label}”`).join(", ")}`, svr: `values of ${goal()?.column}`, oneclass: "what is usual, without a target" }[task];
    told.textContent = `A model learns ${means}, from ${count(used().length)} columns of ${count(n)} rows.`;
    if (!isReadings || goal()?.kind !== "number") return;
    const { past, known } = ofFeed(), list = (some) => names(some).join(", ");
    told.textContent += ` A feed forecasts ${goal().column} from its own past${past.length ? `, from ${list(past)}` : ""}${known.length ? `, and from ${list(known)} as known ahead` : ""}.`;
  }

  const isValid = () => [id, window_, steps].every((control) => control.reportValidity());
  const progress = (share) => { bar.hidden = false; bar.value = share; };

  const make = button("Make a model", async (once) => {
    if (!isValid()) return "";
    const task = taskOf(goal()), size = window_.value ? window_.valueAsNumber : null;
    if (!used().length) throw new Error("Choose at least one feature.");
    const rows = await learnable(file, options, { target: goal(), key: key(), names: names(used()), task, size });
    if (!rows.length) throw new Error("No row has a target.");
    await call("POST", "/models", { id: id.value, task, columns: "auto", ...(size && { window: { max_examples: size } }) });
    await learn(id.value, rows, once, size ?? Infinity, progress);
    await chosen(id.value, rows.length, once, told);
    location.hash = `#/models/${id.value}`;
    return `Learnt ${count(rows.length)} rows.`;
  }, { class: isReadings ? "plain" : "" });

  const forecast = isReadings && button(isFleet ? "Forecast every series" : "Forecast it", async (once) => {
    if (!isValid()) return "";
    if (goal()?.kind !== "number") throw new Error("Numbers are forecast: choose such a target.");
    const { past, known } = ofFeed(), asked = steps.value.split(",").map(Number), kind = isFleet ? "fleets" : "feeds";
    await call("POST", `/${kind}`, { id: id.value, target: goal().column, time: found.time, ...(isFleet && { series: found.series }), ...(found.zone && { timezone: found.zone }), ...(found.align && { every: found.align.split(":")[1] }),
      features: names(past), known: names(known), ...(steps.value && { steps: asked.length > 1 ? asked : asked[0] }), ...(window_.value && { window: window_.valueAsNumber }) });
    const { observe } = await import("./feeds.js");
    await observe(id.value, await sent(file, options), once, progress, kind);
    location.hash = `#/${kind}/${id.value}`;
    return "";
  });

  describe();
  return section("What to make of it",
    h("div", { class: "row" }, field("Name", id, "Small letters, digits, - and _."), field("Target", target), field("Key", keys), field("Window", window_, "Newest examples that count; the others leave.")),
    features, isReadings && has("/feeds") && h("div", {}, ahead, field("Steps", steps, "How far ahead a feed forecasts: 24 for each of the next 24 readings, or 1, 6, 24 for these.")), told,
    h("div", { class: "row" }, has("/feeds") && forecast, make), bar);
}

/** Rows with a target, as a model takes them: the last ones where it has a window, else at most 5,000, evenly apart. */
async function learnable(file, options, { target, key, names, task, size }) {
  const { series, wide, align, ...asked } = options, { columns, rows } = await examples(file, asked);
  const at = new Map(columns.map(({ column }, j) => [column, j])), isNumber = new Map(columns.map(({ column, kind }) => [column, kind === "number"]));
  const cell = (row, name) => { const text = row[at.get(name)]; return text === "" ? null : isNumber.get(name) ? Number(text) : text; };
  const there = target ? rows.filter((row) => row[at.get(target.column)] !== "") : rows;
  const most = size ?? MOST, n = there.length;
  const kept = n <= most ? there : size ? there.slice(-size) : there.filter((_, i) => i === 0 || Math.floor(i * most / n) !== Math.floor((i - 1) * most / n));
  return kept.map((row) => ({ row: Object.fromEntries(names.map((name) => [name, cell(row, name)])), y: target && (task === "svc" && !isNumber.get(target.column) ? row[at.get(target.column)] : cell(row, target.column)), key: key && row[at.get(key.column)] }));
}

/** Let a model that tunes itself choose by all rows, as its first choice is by the first call's. */
async function chosen(id, n, once, place) {
  const { tuning } = await get(`/models/${id}`);
  if (!tuning || n <= ROWS) return;
  try {
    const job = await follow(await call("POST", `/models/${id}/tune`, {}), place, []);
    await change(`/jobs/${job.id}/apply`, {}, `${once}-chosen`);
  } catch {} // rows that nothing can be chosen by, as of one class
}

/** Update after update, each under a name of its own, so that none counts twice. */
async function learn(id, rows, once, most, progress) {
  const step = Math.max(1, Math.min(ROWS, most, Math.floor(PIECE / JSON.stringify(rows[0]).length)));
  const given = (name) => rows[0][name] !== null;
  for (let from = 0, part = 0; from < rows.length; from += step, part++) {
    const piece = rows.slice(from, from + step), of = (name) => piece.map((one) => one[name]);
    await change(`/models/${id}/update`, { add: { rows: of("row"), ...(given("y") && { y: of("y") }), ...(given("key") && { keys: of("key") }) } }, `${once}-${part}`);
    progress(Math.min(1, (from + step) / rows.length));
  }
}

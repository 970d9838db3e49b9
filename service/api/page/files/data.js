/** A file becomes a feed, a fleet or a model: the service says how it understands the file, and what it takes for what is corrected here. */

import { button, call, change, get } from "./api.js";
import { inspect, sent, table as examples } from "./csv.js";
import { count, facts, field, h, section, table } from "./dom.js";
import { dropped } from "./drop.js";
import { follow } from "./jobs.js";
import { has, service } from "./service.js";

const PIECE = 500_000; // characters of one call, far below what a body may have
const ROWS = 500; // of one update
const MOST = 5000; // rows that a model learns where no window is given
const CLASSES = 50; // that words may be of, at most
const AMOUNTS = 20; // different numbers that are labels still, at most
const FORECASTS = 60_000; // that are made of the readings of a file, if nothing else is said: some ten seconds
const AHEAD = { y: 5, mo: 12, w: 8, d: 7 }; // steps by the unit of the interval
const OPTIONS = { separator: "Separator", decimal: "Decimal mark", header: "Header", skip: "Lines before the header", member: "File of a zip, or sheet", encoding: "Encoding", time: "Column of times", time_format: "Format of times",
  zone: "Zone of times", missing: "Marks of missing values", series: "Column of series", wide: "Series", align: "Grid of times" };

/** A text about a file, with the labels of this page in place of the options of commands. */
const inWords = (text) => text.replace(/(say )?--(?:no-)?([a-z-]+)/g, (all, say, name) => { const label = OPTIONS[name.replaceAll("-", "_")]; return label ? `${say ? "fill in " : ""}“${label}”` : all; });

export function data(main) {
  const place = h("div");
  let turn = 0;
  const drop = dropped("Drop a file here, or choose one", "", "A table as it is: CSV, Excel, Parquet, JSON, an export. It goes to this service and nowhere else.", (file) => take(file));
  main.replaceChildren(h("h1", {}, "Data in"), drop, place);

  async function take(file, options = {}) {
    const parts = [], again = (corrected) => take(file, corrected), mine = ++turn;
    place.replaceChildren(h("p", { class: "quiet", role: "status" }, `Reading ${file.name} …`));
    let found = null, problem = null;
    try {
      found = await inspect(file, options);
      parts.push(section(`${file.name}: ${count(found.count)} rows, ${count(found.columns.length)} columns`, understood(found)));
      const numbers = found.columns.filter(({ kind }) => kind === "number").length;
      if (found.time !== null && found.series === null && numbers > 1) parts.push(button(`Make each of the ${count(numbers)} columns a series`, () => again({ ...options, wide: true }), { class: "plain" }));
    } catch (error) {
      problem = error;
      parts.push(refused(error, options, again));
    }
    parts.push(correction(found ? found.columns.map(({ column }) => column) : [], options, again, problem, found?.understood["as readings"]));
    if (found) parts.push(choices(file, found, options));
    if (mine !== turn) return; // another file has come
    place.replaceChildren(...parts);
    if (problem || Object.keys(options).length) (place.querySelector(`[name="${problem?.document?.field}"]`) ?? place.querySelector("summary"))?.focus(); // the button that was pressed is gone
  }
}

/** Why a file or its rows are refused, and a button for each of the ways to read it that are left. */
export function refused({ message, document: { field, row, reason } = {} }, options, again) {
  const text = reason ? `${row == null ? "" : `row ${count(row + 1)}: `}${inWords(reason)}` : message;
  const ways = field === "decimal" ? [",", "."] : field === "time_format" ? [...text.matchAll(/'(%[^']+)'/g)].map(([, way]) => way) : field === "member" ? (/(?:files:|it has) ([^;]*)/.exec(text)?.[1] ?? "").split(", ") : [];
  const order = (way) => ({ ",": "decimal comma", ".": "decimal point", "%d": `day first, ${way}`, "%m": `month first, ${way}` })[way.slice(0, 2)] ?? way;
  return h("div", {}, h("p", { class: "wrong", role: "alert" }, text), h("p", { class: "row" }, ways.filter(Boolean).map((way) => button(order(way), () => again({ ...options, [field]: way })))));
}

const KINDS = { number: "numbers", time: "times", text: "words", series: "names of series" };

/** A cell as it is sent, but for times in seconds or milliseconds since 1970, which are written as dates. */
const shown = (cell, kind) => (kind === "time" && /^\d{9,13}$/.test(cell) ? `${new Date(cell * (cell.length > 11 ? 1 : 1000)).toISOString().slice(0, 19)}Z` : cell);

function understood({ understood: { rows: _, target, "as readings": __, ...said }, columns, rows }) {
  const known = Object.entries(said).map(([name, value]) => [name, inWords([value].flat().join("; "))]);
  return h("div", {}, facts(Object.fromEntries(known)),
    table("First rows", columns.map(({ column, kind }) => `${column}, ${KINDS[kind]}`), rows.map((row) => columns.map(({ column, kind }) => shown(row[column], kind)))));
}

/** Options that correct what was understood; each is that of `POST /inspect`. */
export function correction(names, options, again, problem, isOpen = problem !== null) {
  const select = (name, values) => h("select", { name }, h("option", { value: "" }, "as found"), Object.entries(values).map(([value, label]) => h("option", { value }, label)));
  const text = (name, placeholder = "as found", list) => h("input", { type: "text", name, placeholder, list });
  const listed = (id, values) => h("datalist", { id }, values.map((value) => h("option", { value })));
  const given = [
    [select("separator", { comma: "comma", semicolon: "semicolon", tab: "tab", bar: "bar", space: "spaces" })],
    [select("decimal", { ".": "point", ",": "comma" })],
    [select("header", { true: "the first row", false: "none" })],
    [h("input", { type: "number", name: "skip", min: "0", step: "1", placeholder: "as found" })],
    [text("member")],
    [text("encoding"), "Such as latin-1."],
    [text("time", "as found", "columns-of-file"), "Or its parts: date+clock."],
    [text("time_format"), "Such as %d.%m.%Y %H:%M."],
    [text("zone", "as found", "zones"), "Such as Europe/Berlin."],
    [text("missing", ""), "With blanks between."],
    [text("series", "as found", "columns-of-file"), "Or its parts: site+sensor."],
    [select("wide", { true: "every column is one" })],
    [text("align"), "nearest, mean, last or sum, also mean:1h; none: as they are."],
  ];
  for (const [control] of given) {
    const value = options[control.name];
    if (value !== undefined) control.value = [value].flat().join(" ");
    if (problem?.document?.field === control.name) control.setAttribute("aria-invalid", "true");
  }
  const read = button("Read it again", async () => {
    const all = given.map(([{ name, value }]) => [name, value.trim()]).filter(([, value]) => value);
    return again(Object.fromEntries(all.map(([name, value]) => [name, name === "missing" ? value.split(/\s+/) : value])));
  });
  return h("details", { open: Boolean(isOpen) }, h("summary", {}, "Correct what was understood"),
    h("div", { class: "row" }, given.map(([control, hint]) => field(OPTIONS[control.name], control, hint))), listed("columns-of-file", names), listed("zones", Intl.supportedValuesOf("timeZone")), read);
}

/** What the model learns of a target: words and few whole numbers are classes, other numbers a value. */
function taskOf(column) {
  if (!column) return "oneclass";
  if (column.kind === "number" && (column.distinct > AMOUNTS || (column.distinct > 2 && column.values.some((cell) => !Number.isInteger(Number(cell)))))) return "svr";
  return column.distinct > 1 && column.distinct <= CLASSES ? "svc" : null;
}

function choices(file, found, options) {
  const { columns, count: n } = found, taken = (name) => service.feeds.has(name) || service.models.has(name);
  const choose = (wanted) => wanted.map((column) => h("option", { value: columns.indexOf(column) }, `${column.column} (${KINDS[column.kind]})`));
  const isReadings = found.time !== null && found.targets.length > 0, isFleet = found.series !== null;
  const isOrder = found.understood.time?.startsWith("none found") && found.targets.length > 0; // rows without times, which may be readings in their order
  const isSeries = isReadings || isOrder;
  const targets = columns.filter((column) => taskOf(column) && column.kind !== "time");
  const target = h("select", { onchange: () => describe() }, choose(targets), h("option", { value: "" }, "none: learn what is usual"));
  const likely = columns.findIndex(({ column }) => column === found.targets[0]);
  if (targets.length) target.value = isReadings ? likely : columns.indexOf(targets.at(-1));
  const keys = h("select", { onchange: () => describe() }, h("option", { value: "" }, "none: numbers are handed out"), choose(columns.filter(({ kind, distinct }) => kind !== "time" && distinct === n)));
  const id = h("input", { type: "text", pattern: "[a-z0-9][a-z0-9_\\-]{0,35}", required: true, value: file.name.replace(/\.[^.]*(\.gz)?$/, "").toLowerCase().replace(/[^a-z0-9_-]+/g, "-").replace(/^[^a-z0-9]+/, "").slice(0, 32).replace(/[-_]+$/, "") || "mine" });
  for (let name = id.value, i = 2; taken(id.value); i++) id.value = `${name}-${i}`;
  const window_ = h("input", { type: "number", min: "1", step: "1", placeholder: "all" });
  const told = h("p", { role: "status" }), bar = h("progress", { max: "1", hidden: true, "aria-label": "Rows sent" });
  const boxes = (label, checked, some) => h("fieldset", {}, h("legend", {}, label), some.map((column) => h("label", { class: "choice" }, h("input", { type: "checkbox", value: columns.indexOf(column), checked, onchange: () => describe() }), column.column)));
  const features = boxes(isSeries ? "Features (none: a feed has its own past, a model all columns)" : "Features", !isSeries, columns), ahead = boxes("Known ahead (feeds only)", false, columns.filter(({ kind }) => kind === "number"));
  const many = isFleet ? parseInt(found.understood.series, 10) : 1, each = options.wide ? n : n / many; // series, and rows of each
  const usual = AHEAD[/\d(y|mo|w|d)\b/.exec(found.every ?? found.understood.interval)?.[1]] ?? 24;
  const steps = h("input", { type: "text", pattern: "\\s*[0-9]+(\\s*,\\s*[0-9]+)*\\s*", placeholder: "1", value: isFleet && usual * each * many > 5 * FORECASTS ? 1 : usual, oninput: () => describe() });
  const newest = h("input", { type: "number", min: "1", step: "1", oninput: () => describe() });
  const ticked = (set) => [...set.querySelectorAll("input:checked")].map((box) => columns[box.value]);
  const goal = () => (target.value === "" ? null : columns[target.value]);
  const key = () => (keys.value === "" ? null : columns[keys.value]);
  const used = (all = columns) => (ticked(features).length ? ticked(features) : all).filter((column) => column !== goal() && column !== key());
  const names = (some) => some.map(({ column }) => column);

  const asked = () => steps.value.split(",").map(Number);

  /** The window of a feed of few readings: three quarters of them, so that the others show how good it is. */
  function ownWindow() {
    const some = Math.floor(0.75 * Math.min(each, sentRows()));
    return window_.valueAsNumber || (some >= Math.max(40, 4 * Math.max(...asked())) && some < 1000 ? some : 1000);
  }

  /** How many rows are sent to a feed, the newest; of a fleet all. */
  function sentRows() {
    const all = asked(), some = Math.floor(FORECASTS / (all.length > 1 ? all.length : all[0] || 1));
    return isFleet ? Infinity : Math.min(n, newest.valueAsNumber || Math.max(1000, some));
  }

  /** The columns of a feed: those known ahead are not among the others. */
  function ofFeed() {
    const known = ticked(ahead).filter((column) => column !== goal());
    return { known, past: used([]).filter((column) => column.kind === "number" && !known.includes(column)) };
  }

  function describe() {
    for (const box of [...features.querySelectorAll("input"), ...ahead.querySelectorAll("input")]) box.parentElement.hidden = [goal(), key()].includes(columns[box.value]);
    const task = taskOf(goal()), { past, known } = ofFeed(), list = (some) => names(some).join(", ");
    const means = { svc: `classes: ${goal()?.values.map((label) => `“${label}”`).join(", ")}`, svr: `values of ${goal()?.column}`, oneclass: "what is usual, without a target" }[task];
    const model = `A model learns ${means}, from ${count(used().length)} columns of ${count(n)} rows.`;
    const feed = `A feed forecasts ${goal()?.column}, ${steps.value || 1} ${/^\s*1?\s*$/.test(steps.value) ? "step" : "steps"} ahead, from its own past${past.length ? `, from ${list(past)}` : ""}${known.length ? `, and from ${list(known)} as known ahead` : ""}.`;
    told.replaceChildren(...(isOrder ? [] : whyNot() ? [h("strong", { class: "wrong" }, `No forecast: ${inWords(whyNot())}. Correct the file, or what was understood.`)] : [feed, ...(sentRows() < n ? [` The newest ${count(sentRows())} of the ${count(n)} rows are sent to it.`] : [])]), ` ${model}`, isOrder ? " No times were found: name their column, or forecast the rows in their order." : "");
    window_.placeholder = isSeries ? `${ownWindow()}, or all` : "all";
    newest.placeholder = sentRows();
  }

  /** Why the file, or the target that is chosen, cannot be forecast. */
  function whyNot() {
    if (found.understood["as readings"]) return found.understood["as readings"].replace("no: ", "");
    if (!n) return "the file has no rows";
    if (found.time === null && !isOrder) return found.understood.time ?? "no column of times was found; say --time";
    return goal()?.kind === "number" ? "" : isSeries ? "the target has no numbers" : "no column has numbers that change";
  }

  const isValid = () => [id, window_, steps, newest].every((control) => control.reportValidity());
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

  const forecast = isSeries && button(isFleet ? "Forecast every series" : isOrder ? "Forecast the rows in their order" : "Forecast it", async (once) => {
    if (!isValid()) return "";
    if (whyNot()) throw new Error(`No forecast: ${inWords(whyNot())}.`);
    const { past, known } = ofFeed(), ahead = asked(), kind = isFleet ? "fleets" : "feeds";
    await call("POST", `/${kind}`, { id: id.value, target: goal().column, time: found.time, ...(isFleet && { series: found.series }), ...(found.zone && { timezone: found.zone }), ...(found.every && { every: found.every }),
      features: names(past), known: names(known), ...(steps.value && { steps: ahead.length > 1 ? ahead : ahead[0] }), window: ownWindow() }).catch((problem) => {
      if (problem.document?.type?.endsWith("-exists")) problem.message += `; the same click makes “${id.value += "-2"}” now`;
      throw problem;
    });
    const { observe } = await import("./feeds.js");
    try {
      const { accepted, refused: [first, ...rest] } = await observe(id.value, await sent(file, options), once, progress, { kind, newest: sentRows() });
      if (first && !accepted) throw new Error(`${first.series}: ${first.reason}`);
      if (first) return `Refused are ${first.series} (${first.reason})${rest.length ? ` and ${count(rest.length)} more` : ""}; the other series are forecast, see Feeds.`;
    } catch (error) { // the same click, of a corrected file, has to work
      await call("DELETE", `/${kind}/${id.value}`).catch(() => {});
      throw error;
    }
    location.hash = `#/${kind}/${id.value}`;
    return "";
  }, { class: isOrder ? "plain" : "" });

  describe();
  return section("What to make of it", told, h("div", { class: "row" }, ...(isOrder ? [make, has("/feeds") && forecast] : [has("/feeds") && forecast, make])), bar,
    h("div", { class: "row" }, field("Name", id, "Small letters, digits, - and _."), field("Target", target), field("Key", keys, isReadings && "Of a model alone."), field("Window", window_, isReadings ? "Newest readings that a feed learns. It is scored once they are there. A model learns all rows." : "Newest examples that count; the others leave.")),
    features, isSeries && has("/feeds") && h("div", {}, ahead, h("div", { class: "row" }, field("Steps", steps, "How far ahead a feed forecasts: 24 for each of the next 24 readings, or 1, 6, 24 for these."), !isFleet && field("Newest rows", newest, "Rows that are sent to a feed; a feed of many steps takes longer."))));
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

/** Feeds: which there are, and one with its readings, forecasts, record and what was chosen for it. */

import { button, change, get, unique } from "./api.js";
import { chart } from "./chart.js";
import { ago, byName, count, facts, field, h, opened, precise, runs, section, short, stamp, stepTable, table } from "./dom.js";
import { compare } from "./backtest.js";
import { cut, inspect, sent } from "./csv.js";
import { feedDrift } from "./drift.js";
import { eraseReadings } from "./erase.js";
import { fleets } from "./fleets.js";
import { tuning } from "./tuning.js";
import { has, may, onChange, service } from "./service.js";
import { watch } from "./stream.js";

const LENGTHS = [100, 300, 1000, 3000, 10_000, 100_000]; // readings that are looked at
const POINTS = 2000; // readings that are drawn: no more than a chart has points
const REFRESH = 1000; // ms between two looks while readings come
const EVENTS = 20;
const DRIFT = "Drift: 1 gives an alarm";
const KINDS = { live: "the window is full", suspected: "suspected reading, taken as missing", shifted: "new level", rescaled: "models trained again, as the spread has changed", drift: "errors have grown", chosen: "settings chosen", updated: "model changed", known: "known columns reach another distance" };

const percent = (share) => (share == null ? "–" : `${Math.round(100 * share)} %`);
const PIECE = 500_000; // characters of one call
const ROWS = { feeds: 1000, fleets: 10_000 }; // of one call

/** How far a feed is ahead of the better naive forecast: below 1 it is. */
const ahead = (score) => score.mae / Math.min(...[score.last_value_mae, score.seasonal_mae].filter((one) => one != null));

const scored = (feed) => (feed.recent ?? []).filter((score) => score.mae != null);

/** A reading's time in seconds since 1970, one without a zone as if it were UTC; its number where readings have an order alone. */
const seconds = (time) => (typeof time === "string" ? Date.parse(/(Z|[+-]\d\d:?\d\d)$/.test(time) ? time : `${time}Z`) / 1000 : time);

/** The values of some steps: the one, or the least and the largest. */
function range(values) {
  const [least, largest] = [Math.min(...values), Math.max(...values)].map(short);
  return least === largest ? least : `${least} to ${largest}`;
}

/** All feeds, as the service's events tell of them. */
export function feeds(main) {
  const place = h("div"), ofFleets = h("div");
  main.replaceChildren(h("h1", {}, "Feeds"), place, ofFleets);
  if (has("/fleets")) fleets(ofFleets).catch(() => {});

  function show() {
    const all = [...service.feeds.values()].sort((a, b) => byName(a.id, b.id));
    place.replaceChildren(all.length ? table("Feeds", ["Feed", "State", "Target", "Readings", "Newest", "Steps", "Error against naive", "Last call"],
      all.map((feed) => [h("a", { href: `#/feeds/${feed.id}` }, feed.id), feed.state, feed.target ?? "–", count(feed.position), stamp(feed.time),
        feed.recent?.length ? runs(feed.recent.map((score) => score.step)) : "–", scored(feed).length ? range(scored(feed).map(ahead)) : "–", ago(feed.updated_at)]))
      : h("p", {}, "There is no feed yet. ", h("a", { href: "#/data" }, "Drop a file"), " to make one."));
  }

  show();
  return onChange(show);
}

/** One feed. */
export function feed(main, id) {
  const leaving = [];
  const places = { facts: h("div"), chart: h("div"), next: h("div"), record: h("div"), chosen: h("div") };
  const log = h("div", { class: "log", role: "log", "aria-label": "Events", tabindex: "0" });
  const step = h("select", { onchange: () => refresh() }), length = h("select", { onchange: () => refresh() }, LENGTHS.map((n) => h("option", { value: n }, `${count(n)} readings`)));
  length.value = 300;
  const [fleet, series] = id.split("/"), named = decodeURIComponent(series?.replaceAll("~", "%") ?? id);
  main.replaceChildren(h("h1", {}, named), series ? h("p", {}, "A series of ", h("a", { href: `#/fleets/${fleet}` }, fleet)) : "", places.facts,
    section("Readings and forecasts", h("div", { class: "row" }, field("Step", step), field("Shown", length)), places.chart),
    section("What is to come", places.next), section("Record", places.record), may("learn") ? readings(id) : "",
    section("What was chosen", places.chosen), may("learn") && has("/feeds/{id}/drift") ? feedDrift(id, refresh) : "", may("learn") && has("/feeds/{id}/backtest") ? compare(id, leaving) : "",
    may("learn") && has("/feeds/{id}/tune") ? tuning(id, leaving, refresh) : "", may("admin") && has("/feeds/{id}/erase") ? eraseReadings(id) : "", section("Events", log));
  let rows = [], odd = new Set(), told = null, coming = [], drawn = null, due = null, settings = null;
  leaving.push(() => drawn?.end(), () => clearTimeout(due));

  async function refresh() {
    clearTimeout(due);
    due = null;
    try {
      const now = await get(`/feeds/${id}`);
      places.facts.replaceChildren(facts({ State: stateOf(now), Target: now.settings?.target, Every: now.every, Season: now.season || null, Features: now.settings?.features.join(", "), "Known ahead": now.settings?.known.join(", "), Readings: count(now.position), Newest: now.time == null ? null : stamp(now.time), Durability: now.durability, "Last call": ago(now.updated_at) }),
        now.error ? h("p", { class: "banner wrong", role: "alert" }, now.error) : "");
      places.record.replaceChildren(record(now));
      places.chosen.replaceChildren(chosen(now));
      const steps = now.scores.map((one) => one.step);
      if (steps.join() !== [...step.options].map((option) => option.value).join()) step.replaceChildren(...steps.map((one) => h("option", { value: one }, String(one))));
      const some = `limit=${length.value}&points=${POINTS}${step.value && `&step=${step.value}`}`;
      const [forecast, history] = await Promise.all([get(`/feeds/${id}/forecast`), get(`/feeds/${id}/history?${some}`)]);
      places.next.replaceChildren(forecast.forecasts.length ? stepTable("Forecasts", ["Step", "Time", "Value", "Low", "High", now.settings?.task === "direction" ? "Direction" : "Of", ...(now.settings?.known.length ? ["Known columns"] : [])], forecast.forecasts.map((one) => [String(one.step), stamp(one.time), ...[one.value, one.low, one.high].map((value) => precise(value, one.high - one.low)), one.direction ?? blendOf(one), ...(now.settings?.known.length ? [one.known] : [])]))
        : h("p", { class: "quiet" }, "No forecast before the feed knows enough readings."), experts(forecast.forecasts.find((one) => String(one.step) === step.value)),
        forecast.forecasts.length ? h("button", { type: "button", class: "plain", onclick: () => save(named, forecast.forecasts) }, "Save as CSV") : "");
      if (now.events.at(-1)?.id !== told) log.replaceChildren(...now.events.slice(-EVENTS).reverse().map(said)); // a log is read out when it changes
      told = now.events.at(-1)?.id;
      rows = history.rows;
      odd = new Set(now.events.filter(({ kind }) => kind === "suspected").map(({ time }) => time));
      settings = now.settings;
      coming = settings.task === "value" ? forecast.forecasts : []; // of directions there is no value
      draw();
    } catch (problem) {
      places.facts.replaceChildren(h("p", { class: "banner wrong", role: "alert" }, problem.message));
    }
  }

  function draw() {
    if (rows.length < 2) return;
    const isTime = typeof rows[0].time === "string", newest = seconds(rows.at(-1).time);
    const to = coming.filter((one) => seconds(one.time) > newest);
    const isValue = settings.task === "value", of = (name) => rows.map((row) => (isValue ? row.forecasts.find((one) => String(one.step) === step.value)?.[name] : null) ?? null);
    const isRun = to.every((one, i) => one.step === i + 1); // with steps left out, a band between two would be made up
    const values = rows.map((row) => (row.held || odd.has(row.time) ? null : row.value)), nothing = to.map(() => null), then = (name) => to.map((one) => (isRun || name === "value" ? one[name] : null));
    const alone = to.map((one) => (isRun ? one.experts?.find(({ expert }) => expert === "model")?.value : null) ?? null);
    const data = [[...rows, ...to].map((one) => seconds(one.time)), [...of("model"), ...alone], [...values, ...nothing], [...of("value"), ...nothing],
      [...of("low"), ...then("low")], [...of("high"), ...then("high")], [...values.map(() => null), ...then("value")]];
    if (drawn) return drawn.set(data);
    const series = [["the model's alone", "--outside", 1], ["reading", "--text"], ["forecast", "--free"], ["low", "--bound", 1], ["high", "--bound", 1], ["to come", "--bound"]];
    drawn = chart(`Readings of ${named}, what was forecast of them, what is to come, and the band`, data[0], series.map(([label, colour, width], i) => ({ label, colour, width, points: label === "to come" && !isRun, values: data[i + 1] })),
      { zone: isTime && (settings.timezone ?? "UTC"), yLabel: settings.target, bands: [{ series: [5, 4], fill: "--band" }] });
    places.chart.replaceChildren(drawn.place, h("p", { class: "quiet" }, "Drag across the chart to look closer; a double click shows all again. Suspected readings are left out; see the events."));
  }

  refresh();
  leaving.push(watch(`/feeds/${id}/events`, () => { due ??= setTimeout(refresh, REFRESH); }));
  return () => leaving.forEach((end) => end());
}

/** What a forecast is made of: the three heaviest experts of a blend with their weights. */
function blendOf(one) {
  const heavy = (one.experts ?? []).toSorted((a, b) => b.weight - a.weight).slice(0, 3);
  return heavy.map((expert) => `${expert.expert} ${Math.round(100 * expert.weight)} %`).join(", ") || (one.served ?? "model");
}

/** Save forecasts as a file for a spreadsheet. */
function save(name, forecasts) {
  const columns = ["step", "time", "value", "low", "high"], lines = [columns, ...forecasts.map((one) => columns.map((column) => one[column]))];
  const href = URL.createObjectURL(new Blob([lines.map((line) => `${line}\n`).join("")], { type: "text/csv" }));
  h("a", { href, download: `${name}.csv` }).click();
  URL.revokeObjectURL(href);
}

/** What each expert of a blend says, the heaviest first. */
function experts(one) {
  if (!one?.experts) return "";
  const known = one.experts.toSorted((a, b) => b.weight - a.weight);
  return h("details", { open: opened.has("experts"), ontoggle: ({ target }) => opened[target.open ? "add" : "delete"]("experts") }, h("summary", {}, `What each expert says of step ${one.step}`),
    table("Experts", ["Expert", "Value", "Weight"], known.map(({ expert, value, weight }) => [expert, precise(value, one.high - one.low), `${short(100 * weight)} %`])));
}

/** An event with what it tells: a reading that is suspected and the value held in its place, a level and the one before. */
function said({ kind, time, id: _, position, chosen: __, forecasts: ___, ...rest }) {
  const details = Object.entries(rest).filter(([, value]) => value != null && (typeof value !== "object" || Array.isArray(value)));
  return h("div", {}, [time == null ? `reading ${count(position)}` : stamp(time), [KINDS[kind] ?? kind, ...details.map(([name, value]) => `${name} ${text(value)}`)].join(", ")].join(" · "));
}

/** The state of a feed; while its window fills, with how far that is and what comes next. */
function stateOf({ state, filling }) {
  const [next] = filling?.coming ?? [];
  return filling ? `${state}, ${count(filling.readings)} of ${count(filling.window)} readings${next ? `; from ${count(next.readings)}: ${next.forecasts}` : ""}` : state;
}

const text = (value) => (typeof value === "number" ? short(value) : Array.isArray(value) ? runs(value) : String(value));

/** Which of a feed and the better naive forecast is ahead. */
function winner(score) {
  if (score.mae == null) return "–";
  return ahead(score) < 1 ? `the feed, by ${Math.round(100 * (1 - ahead(score)))} %` : "the naive forecast";
}

function record(now) {
  if (!scored(now).length && !now.recent.some((one) => one.n)) return h("p", { class: "quiet" }, `Nothing has been scored yet.${now.filling ? ` That begins once the window of ${count(now.filling.window)} readings is full. A smaller one, compared below, shows what the errors would have been.` : ""}`);
  if (now.settings?.task === "direction") return stepTable("Record over the newest window", ["Step", "Scored", "Right", "Last change's", "Majority's", DRIFT],
    now.recent.map((one) => [String(one.step), count(one.n), ...[one.accuracy, one.last_change_accuracy, one.majority_accuracy].map(percent), short(one.drift_evidence)]));
  return stepTable("Record over the newest window", ["Step", "Scored", "Mean error", "Model's alone", "Last value's", "Seasonal value's", "Ahead", "Coverage of the band", DRIFT],
    now.recent.map((one) => [String(one.step), count(one.n), short(one.mae), short(one.model_mae), short(one.last_value_mae), short(one.seasonal_mae), winner(one), percent(one.coverage), short(one.drift_evidence)]));
}

function chosen({ settings }) {
  if (!settings?.chosen) return h("p", { class: "quiet" }, "Nothing yet.");
  const { steps = [], ...rest } = settings.chosen;
  const known = (from) => Object.fromEntries(Object.entries(from).filter(([, value]) => value != null).map(([name, value]) => [name, text(value)]));
  const names = steps.length ? Object.keys(steps[0]).filter((name) => typeof steps[0][name] !== "object") : [];
  return h("div", {}, facts(known(rest)), names.length > 0 && stepTable("Of each step", names, steps.map((one) => names.map((name) => text(one[name])))));
}

/** The section that adds the rows of a file to a feed or a fleet. */
export function readings(id, kind = "feeds") {
  const file = h("input", { type: "file" }), place = h("div");

  /** Send the rows of the file under the names, in the zone and on the grid of the feed. */
  async function add(once, options = {}) {
    if (!file.files.length) throw new Error("Choose a file.");
    const [chosen] = file.files, now = await get(`/${kind}/${id}`), { time, timezone, every, series, late } = now.settings;
    let given = { ...(timezone && { zone: timezone }), ...options };
    place.replaceChildren();
    try {
      const found = await inspect(chosen, given);
      if (kind === "fleets" && found.series === null) given = { ...given, wide: true };
      if (!given.time && found.time !== time && found.columns.some(({ column }) => column === time)) given = { ...given, time };
      if (!given.align && found.align && every) given = { ...given, align: `${found.align.split(":")[0]}:${Number.isFinite(every) ? `${every}s` : every}` };
      const text = await sent(chosen, given), end = /\r?\n|$/.exec(text).index;
      const names = cut(text.slice(0, end))[0].map((name) => `"${(name === found.time && !given.time && time ? time : name).replaceAll('"', '""')}"`);
      const of = kind === "fleets" ? new Map((await get(`/fleets/${id}/series?limit=10000`)).series.map((one) => [one.series, one.time])) : null;
      const [at, by] = [time, series].map((name) => names.indexOf(`"${name}"`));
      const isKnown = (line) => { const [row] = cut(line), newest = of ? of.get(row[by]) : now.time; return newest != null && seconds(row[at]) <= seconds(newest); };
      const { accepted, announced, refused, known } = await observe(id, names + text.slice(end), once, () => {}, { kind, ...(at >= 0 && late !== "correct" && { isKnown }) });
      place.replaceChildren(h("p", { role: "status" }, `${count(accepted)} readings accepted${announced ? `, ${count(announced)} times to come announced` : ""}${known ? `, ${count(known)} were known` : ""}.`),
        ...refused.map(({ series, reason }) => h("p", { class: "wrong" }, `${series}: ${reason}`)));
    } catch (problem) {
      if (problem.status !== 422) throw problem;
      const { correction, refused } = await import("./data.js"), again = (corrected) => add(unique(), corrected);
      place.replaceChildren(refused(problem, options, again), correction([], options, again, problem));
    }
    return "";
  }

  return section("Add readings", field("Readings", file, "A file as it is, with the names of the feed. Rows whose target is empty, behind the newest reading, announce what is known of times to come."), button("Add", (once) => add(once)), place);
}

/** Send the newest rows of a CSV text that are not known to a feed or a fleet, piece by piece, each under a name of its own; how many readings were accepted, how many times to come announced, which series were refused, and how many rows were known. */
export async function observe(id, text, once, progress, { kind = "feeds", newest = Infinity, isKnown = () => false } = {}) {
  const [names, ...all] = text.match(/(?:"(?:[^"]|"")*"|[^"\r\n])+/g), lines = all.filter((line) => !isKnown(line));
  if (!all.length) throw new Error("The file has no rows.");
  let step = Math.max(1, Math.min(ROWS[kind], Math.floor(PIECE / (all[0].length + 1))));
  let accepted = 0, announced = 0, done = null;
  const refused = [];
  for (let from = Math.max(0, lines.length - newest), part = 0; from < lines.length; part++) {
    const body = [names, ...lines.slice(from, from + step)].join("\n");
    try {
      done = await change(`/${kind}/${id}/observations`, body, `${once}-${part}`, "text/csv");
    } catch (problem) {
      const { type, field, row, reason } = problem.document ?? {};
      if (type?.endsWith(":time-limit") && step > 10) { step = Math.ceil(step / 4); continue; }
      if (row != null) problem.document = { reason: `row ${count(from + row + 1)} of those that are sent, ${field}: ${reason}` };
      throw Object.assign(problem, row != null && { message: problem.document.reason });
    }
    accepted += done.accepted;
    refused.push(...(done.refused ?? []));
    announced += done.announced;
    from += step;
    progress(Math.min(1, from / lines.length));
  }
  return { accepted, announced, refused, known: all.length - lines.length };
}

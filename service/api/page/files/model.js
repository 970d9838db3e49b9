/** One model: its window by side, the proof that it is optimal, its versions, what it does now, predictions. */

import { asked, button, call, change, get } from "./api.js";
import { chart } from "./chart.js";
import { cut, named } from "./csv.js";
import { drift } from "./drift.js";
import { ago, clock, count, duration, facts, field, h, outside, section, short, table } from "./dom.js";
import { may, onChange, service } from "./service.js";
import { watch } from "./stream.js";

const EVENTS = 20; // that are shown
const REFRESH = 1000; // ms after an event; those that come meanwhile are shown with it
const KERNELS = { linear: [], rbf: ["gamma"], poly: ["gamma", "degree", "coef0"], sigmoid: ["gamma", "coef0"] };
const SIDES = [["free", "on the margin", "n_free"], ["bound", "at the bound", "n_bound"], ["outside", "beyond the margin", null]];

/** The heading and the screens of a model. */
export function heading(id, here) {
  const link = (end, label) => h("a", { href: `#/models/${id}${end}`, "aria-current": here === end && "page" }, label);
  return [h("h1", {}, id), h("nav", { class: "tabs", "aria-label": "Of this model" }, link("", "Model"),
    link("/path", "Regularization path"), link("/labels", "Suspected labels"), may("admin") && link("/erase", "Erase"))];
}

export function model(main, id) {
  const leaving = [];
  const places = { wrong: h("div"), state: h("div"), record: h("div"), window: h("div"), updates: h("div"), versions: h("div") };
  const log = h("div", { class: "log", role: "log", "aria-label": "Events", tabindex: "0" });
  main.replaceChildren(...heading(id, ""), places.wrong, places.state,
    section("Window", places.window), places.record, certificate(id), predictions(id), ["svc", "svr"].includes(service.models.get(id)?.task) ? drift(id, refresh) : "",
    section("Newest updates", places.updates), section("Versions", places.versions),
    section("Events", log));

  const sizes = windowOf(places.window, leaving);
  const record = recordOf(places.record, leaving);
  const history = versions(id, places.versions, refresh);
  let due = null, was = null;

  async function refresh() {
    due = null;
    try {
      const now = await get(`/models/${id}`);
      if (now.state !== was) places.wrong.replaceChildren(wrong(id, now, refresh));
      was = now.state;
      places.state.replaceChildren(known(now), ...(now.warnings ?? []).map((one) => h("p", { class: "banner", role: "status" }, one.message)));
      sizes.show(now);
      record(now.record);
      if (["live", "fenced", "behind"].includes(now.state)) {
        const { updates } = await get(`/models/${id}/recent`);
        places.updates.replaceChildren(recent(updates));
        sizes.history(updates);
        history.show(await get(`/models/${id}/versions`), now);
      }
    } catch (problem) {
      was = null;
      places.wrong.replaceChildren(h("p", { class: "banner wrong", role: "alert" }, problem.message));
    }
  }

  function hear(_, told) {
    log.prepend(h("div", {}, `${clock(told.updated_at)} · version ${count(told.version)} · ${count(told.n_examples)} examples, ${count(told.n_free)} free, ${count(told.n_bound)} bound${told.relative_gap == null ? "" : ` · gap ${short(told.relative_gap)}`}`));
    while (log.children.length > EVENTS) log.lastChild.remove();
    due ??= setTimeout(refresh, REFRESH);
  }

  refresh();
  const missing = (state, reason) => state === "over" && log.prepend(h("div", {}, reason));
  if (service.models.get(id)?.state !== "failed") leaving.push(watch(`/models/${id}/events`, hear, missing));
  leaving.push(onChange(() => { if (was && service.models.get(id)?.state !== was) refresh(); }), () => clearTimeout(due));
  return () => leaving.forEach((end) => end());
}

/** What keeps a model from being served, and what can be done about it. */
function wrong(id, now, refresh) {
  if (now.state === "live") return "";
  return h("div", { class: "banner wrong", role: "alert" }, h("p", {}, `This model is ${now.state}. ${now.error ?? ""}`),
    now.state === "behind" && may("admin") && button("Write it back to the store", async () => {
      const done = await call("POST", `/models/${id}/writeback`);
      setTimeout(refresh, REFRESH);
      return done.written ? `The store has version ${done.version} again.` : "The store had lost nothing.";
    }));
}

/** The class prior, with its interval where it was estimated. */
function priorOf({ prior, prior_estimate: found }) {
  return found ? `${short(prior)}, estimated: ${short(found.low)} to ${short(found.high)}` : prior;
}

/** What a model that tunes itself has chosen, when and why. */
function tuned({ tuning }) {
  const found = tuning?.chosen;
  if (!found) return tuning && "itself, from 40 examples on";
  const kept = found.changes ? "" : ", kept what it had";
  const valued = (value) => (value === null ? "none" : typeof value === "string" ? value : short(value));
  const values = Object.entries(found.parameters).map(([name, value]) => `${name} ${valued(value)}`).join(", ");
  return `itself, at version ${count(found.version)} (${found.reason})${kept}: ${values}, loss ${written(found.loss)}, with defaults ${written(found.defaults)}`;
}

/** How often it was right about examples before it learnt them. */
function recorded({ record }) {
  if (!record?.n) return null;
  const shown = (error) => (record.confusion ? `${(100 * (1 - error)).toFixed(1)}%` : short(error));
  const of = ({ error, naive_error: naive }) => `${shown(error)} (${record.confusion ? "majority" : record.loss.includes("pinball") ? "quantile" : "median"} ${shown(naive)})`;
  return `${of(record)} of ${count(record.n)}; lately ${of(record.lately)}`;
}

/** Parts of a history, at most 32, so merged that each has ten examples or more, but perhaps for the last. */
function merged(history) {
  const step = Math.max(Math.ceil(history.length / 32), Math.ceil(10 / history[0].n));
  return history.filter((_, i) => i % step === 0).map((_, i) => {
    const these = history.slice(i * step, (i + 1) * step), n = these.reduce((sum, one) => sum + one.n, 0);
    const mean = (name) => these.reduce((sum, one) => sum + one.n * one[name], 0) / n;
    return { n, error: mean("error"), naive_error: mean("naive_error") };
  });
}

/** The labels that it took for others before it learnt them, and its errors over time. */
function recordOf(place, leaving) {
  let drawn = null;
  leaving.push(() => drawn?.end());
  return (record) => {
    if (!record?.n) return;
    const parts = merged(record.history), shown = (name) => parts.map((one) => (record.confusion ? 1 - one[name] : one[name]));
    const ends = parts.reduce((all, one) => [...all, (all.at(-1) ?? 0) + one.n], []);
    drawn?.end();
    drawn = chart(record.confusion ? "Share of right labels before learning" : "Error before learning", ends, [{ label: "model", values: shown("error"), colour: "--free" }, { label: "naive", values: shown("naive_error"), colour: "--bound" }], { xLabel: "examples", yLabel: record.confusion ? "share of right labels" : record.loss });
    const rows = record.confusion?.map((one) => [String(one.label), String(one.predicted), count(one.n), short(one.lately)]) ?? [];
    place.replaceChildren(section("Record", drawn.place, rows.length ? table("Labels and predictions", ["Label", "Predicted", "Examples", "Lately"], rows) : ""));
  };
}

/** What it is. */
function known(now) {
  const names = KERNELS[now.kernel.name] ?? Object.keys(now.kernel).filter((name) => name !== "name");
  return facts({ State: now.warnings?.some((one) => one.name === "untrained") ? `${now.state}, untrained` : now.state, Task: now.task, Kernel: [now.kernel.name, ...names.map((name) => `${name} ${written(now.kernel[name])}`)].join(", "),
    Tunes: tuned(now), "gamma in use": now.gamma == null ? null : short(now.gamma), Scale: now.scale === "none" ? null : now.scale, Components: now.components,
    Classes: now.classes?.map(({ label, n_examples: n }) => `${label}: ${count(n)}`).join(", "), C: now.C && short(now.C), Loss: now.loss, epsilon: now.epsilon, "Scale of y": now.target_scale === "none" ? null : now.target_scale, quantile: now.quantile, nu: now.nu, prior: priorOf(now),
    Version: count(now.version), Features: now.n_features && count(now.n_features), "Support vectors": count(now.n_support),
    [now.record?.confusion ? "Right before learning" : "Error before learning"]: recorded(now),
    Drift: now.drift && (now.drift.alarm ? "alarm" : `none found, error before learning ${now.drift.error === null ? "–" : short(now.drift.error)}`), Waiting: count(now.queue_depth), Durability: now.durability, "Last update": ago(now.updated_at) });
}

/** The window by side now, and over its newest versions. */
function windowOf(place, leaving) {
  const bar = h("div", { class: "sides", role: "img" }), words = h("ul", { class: "legend" }), over = h("div");
  place.replaceChildren(bar, words, over);
  let drawn = null, pairs = 1; // pairs of classes that an example is in
  leaving.push(() => drawn?.end());
  const of = (sizes, name) => (name ? sizes[name] : outside(sizes, pairs));
  return {
    show(now) {
      pairs = now.task === "svc" ? Math.max(1, (now.classes?.length ?? 2) - 1) : 1;
      bar.replaceChildren(...SIDES.map(([side, , name]) => { const part = h("span", { class: side }); part.style.flexGrow = of(now, name); return part; }));
      words.replaceChildren(...SIDES.map(([side, means, name]) => h("li", { class: side }, `${count(of(now, name))} ${side}: ${means}${pairs > 1 ? ", in all pairs of classes" : ""}`)));
      bar.setAttribute("aria-label", `${count(now.n_examples)} examples: ${SIDES.map(([side, , name]) => `${count(of(now, name))} ${side}`).join(", ")}`);
    },
    history(updates) {
      if (updates.length < 2) return;
      const told = updates.toReversed(), sides = pairs > 1 ? SIDES.slice(0, 2) : SIDES; // older versions may have had fewer classes
      const data = [told.map((one) => one.version), ...sides.map(([, , name]) => told.map((one) => of(one, name)))];
      if (drawn) return drawn.set(data);
      drawn = chart("Examples by side over the newest versions", data[0], sides.map(([side], i) => ({ label: side, values: data[i + 1], colour: `--${side}` })), { xLabel: "version", whole: true });
      over.replaceChildren(drawn.place);
    },
  };
}

function certificate(id) {
  const told = h("div", { role: "status" });
  const prove = button("Prove it now", async () => {
    const found = await get(`/models/${id}/certificate`);
    told.replaceChildren(
      h("p", {}, found.robust
        ? `Version ${count(found.version)} is a local optimum, given its ${count(found.robust.n_outliers)} outliers are: the conditions hold to ${short(found.robust.violation)}.`
        : `Version ${count(found.version)} is optimal for the ${count(found.n_examples)} examples of its window: no model has an objective that is lower by more than ${short(found.relative_gap)} of it. This was recomputed from the examples alone.`),
      facts({ "Duality gap": short(found.duality_gap), "Relative gap": short(found.relative_gap), "Largest violation": short(found.max_violation), Primal: short(found.primal), Dual: short(found.dual), Examples: count(found.n_examples) }));
  });
  return section("Certificate", h("p", { class: "quiet" }, "Every version is the exact optimum for its window. The proof can be asked for at any time."), prove, told);
}

function predictions(id) {
  const rows = h("textarea", { rows: "3", spellcheck: "false" });
  const told = h("div", { role: "status" });
  const read = async () => {
    const { columns } = await get(`/models/${id}`);
    if (Array.isArray(columns)) return { rows: cut(rows.value.trim()).map((cells) => named(columns.map(({ name }) => name), cells.map((cell) => cell.trim()))) };
    const X = rows.value.trim().split("\n").map((line) => line.split(/[\s,;]+/).filter(Boolean).map(Number));
    if (!X[0]?.length || X.flat().some(Number.isNaN)) throw new Error("Enter numbers, one row a line.");
    return { X };
  };
  const predict = button("Predict", async () => {
    const X = await read();
    const began = performance.now();
    const found = await call("POST", `/models/${id}/predict`, X);
    const took = (performance.now() - began) / 1000;
    told.replaceChildren(h("p", { class: "quiet" }, `Version ${count(found.version)}, ${duration(took)} with the way there and back${found.stale ? "; newer data may be unknown" : ""}.`),
      table("Predictions", ["Row", "Prediction", found.pairs ? "Decision of each pair" : "Decision value"], found.prediction.map((value, i) => [String(i + 1), written(value), decided(found, i)])));
  });
  const why = button("Say why", async () => {
    const found = await call("POST", `/models/${id}/explain`, { ...(await read()), most: 5 });
    told.replaceChildren(h("p", { class: "quiet" }, `Version ${count(found.version)}. Behind each example stands by how much the decision would be another without it; above 0 the example raises the decision.`),
      table("Predictions", ["Row", "Prediction", "Decision value", "Because of"], found.rows.map((row, i) => [String(i + 1), written(row.prediction), `${short(row.decision)}${row.against === null ? "" : ` against ${row.against}`}`, row.because.map((one) => `${one.key} (${short(one.influence)})`).join(", ")])));
  });
  return section("Try a prediction", field("Features", rows, "One row a line, numbers separated by commas or spaces; of a table its cells in the order of its columns, separated by commas."), predict, why, told);
}

/** A label or a number. */
const written = (value) => (typeof value === "number" ? short(value) : value);

/** The decision of a row; of more than two classes that of each class, or by how much which of each pair is ahead. */
function decided({ decision, classes, pairs }, i) {
  if (!Array.isArray(decision[i])) return short(decision[i]);
  const ahead = (value, [first, second]) => (value > 0 ? `${first} over ${second} ${short(value)}` : `${second} over ${first} ${short(-value)}`);
  return decision[i].map((value, k) => (pairs ? ahead(value, pairs[k]) : `${classes[k]} ${short(value)}`)).join(", ");
}

function recent(updates) {
  if (!updates.length) return h("p", { class: "quiet" }, "None since the service came up.");
  const did = (one) => [one.added && `${count(one.added)} added`, one.removed && `${count(one.removed)} removed`, one.changed && `${count(one.changed)} changed`, one.C && `C ${short(one.C)}`, one.restored != null && `back to version ${one.restored}`].filter(Boolean).join(", ") || one.action;
  return table("Newest updates", ["Version", "When", "What", "Path", "Events"],
    updates.map((one) => [count(one.version), clock(one.at), did(one), duration(one.seconds), count(one.events)]));
}

/** The versions; what is being typed stays while new ones come. */
function versions(id, place, refresh) {
  const wanted = h("input", { type: "number", required: true, min: "0" });
  const told = h("p"), snapshots = h("div");
  const go = button("Restore", async (once) => {
    if (!wanted.reportValidity()) return "";
    const version = wanted.valueAsNumber;
    if (!(await asked(`Make version ${version} the newest again, as a new version? What came later leaves the model, and can be had again the same way.`, `Restore version ${version}`))) return "";
    const done = await change(`/models/${id}/restore`, { version }, once);
    refresh();
    return `Version ${count(done.version)} holds what version ${count(done.restored)} held.`;
  });
  const form = h("div", { class: "row", hidden: true }, field("Version", wanted), go);
  place.replaceChildren(told, snapshots, form);
  return {
    show(found, now) {
      told.textContent = `The current version is ${count(found.current)}; every one from ${count(found.oldest)} on can be had again.${found.erased_at ? ` Older ones went when examples were erased, at ${clock(found.erased_at)}.` : ""}`;
      snapshots.replaceChildren(found.snapshots.length ? table("Snapshots", ["Snapshot of version", "Saved", "Bytes"], found.snapshots.map((one) => [count(one.version), clock(one.saved_at), count(one.bytes)])) : "");
      wanted.min = found.oldest;
      wanted.max = found.current;
      if (wanted.value === "") wanted.value = Math.max(found.oldest, found.current - 1);
      form.hidden = !(may("learn") && now.state === "live" && found.current > found.oldest);
    },
  };
}

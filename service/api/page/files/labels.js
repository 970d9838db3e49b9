/** Suspected labels: the order along the outlier path, what is done about each, and what that did to the error. */

import { button, call, change, get } from "./api.js";
import { examplesFrom } from "./csv.js";
import { count, field, h, section, short } from "./dom.js";
import { follow, newest } from "./jobs.js";
import { heading } from "./model.js";
import { may } from "./service.js";

const SHARE = 0.2; // of the window that is held back
const PAGE = 25; // suspects that are shown at a time
const FEATURES = 6; // of each, the others are counted

export function labels(main, id) {
  const leaving = [];
  const progress = h("div"), found = h("div"), outcome = h("div", { role: "status" });
  const file = h("input", { type: "file", accept: ".csv,text/csv" });
  const start = may("learn") && button("Find them", async () => {
    await search();
    return "The path is walked.";
  });
  main.replaceChildren(...heading(id, "/labels"), section("Find suspected labels",
    h("p", { class: "quiet" }, "Along the outlier path examples that contradict the others give way, the most suspicious first. A fifth of the window is held back to see whether it helps to let them go."),
    start || h("p", { class: "quiet" }, "This key can look at what was found, and not search.")), progress, outcome, found);

  async function search() {
    outcome.replaceChildren();
    const job = await call("POST", `/models/${id}/outlier-path`, { hold_out: SHARE });
    const done = await follow(job, progress, leaving);
    await show(done);
    return done;
  }

  async function show(job) {
    const model = await get(`/models/${id}`);
    found.replaceChildren(suspects(job, model, file, decide));
  }

  /** Carry out all decisions as one update, and tell what that did. */
  async function decide(job, model, update, once) {
    const held = file.files.length ? await examplesFrom(file.files[0], model.n_features, model.task) : null;
    const before = held ? await errorOn(id, model.task, held) : startingError(job);
    const done = await change(`/models/${id}/update`, update, once);
    found.replaceChildren();
    const made = h("p", {}, `Version ${count(done.version)}: ${count(done.changed)} relabelled, ${count(done.removed.length)} removed, as one update.`);
    outcome.replaceChildren(made);
    const after = held ? await errorOn(id, model.task, held) : startingError(await search());
    const on = held ? `on the ${count(held.X.length)} examples of ${file.files[0].name}` : "of the convex model on the fifth of the window that is held back";
    if (before !== null && after !== null) outcome.replaceChildren(made, h("p", { id: "effect" }, `${what(model.task)} ${on}: ${short(before)} before, ${short(after)} after.`));
    return "";
  }

  newest(id, "outlier-path").then(async (job) => {
    if (job) await show(job.state === "done" ? await get(`/jobs/${job.id}`) : await follow(job, progress, leaving));
  }).catch((problem) => found.replaceChildren(h("p", { class: "wrong", role: "alert" }, problem.message)));
  return () => leaving.forEach((end) => end());
}

const what = (task) => (task === "svr" ? "Mean absolute error" : "Share of wrong labels");

/** The error on what was held back before any example lost its influence; null where nothing was. */
const startingError = (job) => job.result.validation?.error[0] ?? null;

async function errorOn(id, task, { X, y }) {
  const { prediction } = await call("POST", `/models/${id}/predict`, { X });
  const errors = prediction.map((value, i) => (task === "svr" ? Math.abs(value - y[i]) : Number(value !== y[i])));
  return errors.reduce((sum, one) => sum + one, 0) / errors.length;
}

/** Write the features of examples next to their keys; for an example that has left the window, say so. */
async function features(id, keys, body) {
  const known = new Map();
  for (let wanted = keys; wanted.length; ) {
    try {
      const { examples } = await get(`/models/${id}/examples?${new URLSearchParams(wanted.map((key) => ["keys", String(key)]))}`);
      for (const one of examples) known.set(String(one.key), one.x);
      break;
    } catch (problem) {
      const { field, row } = problem.document ?? {};
      if (field !== "keys" || row === undefined) throw problem;
      wanted = wanted.filter((_, i) => i !== row); // that one has left the window since
    }
  }
  for (const cell of body.querySelectorAll("td.features")) {
    if (!keys.some((key) => String(key) === cell.dataset.key)) continue;
    const values = known.get(cell.dataset.key);
    cell.textContent = !values ? "no longer in the window" : values.slice(0, FEATURES).map(short).join(", ") + (values.length > FEATURES ? `, and ${values.length - FEATURES} more` : "");
  }
}

/** On which side each outlier is: -1 where the model says too little of it, 1 where too much. */
export function sidesOf({ outliers_at_start: first, switches }) {
  const sides = new Map(first.key.map((key, i) => [key, first.side[i]]));
  switches.key.forEach((key, i) => { if (switches.side[i] && !sides.has(key)) sides.set(key, switches.side[i]); });
  return sides;
}

/** What says, of a suspect, which label it has, and which it may have instead, the likeliest first. */
function namesOf(told, sides, model) {
  const all = model.classes?.map((one) => one.label) ?? [];
  if (!told.pairs) { // of two classes the side tells
    return (key) => { const given = sides.get(key) ? all[sides.get(key) < 0 ? 1 : 0] : null; return { given, others: all.filter((one) => one !== given) }; };
  }
  const { label, others: gaveWayTo } = told.suspected;
  return (_, i) => ({ given: label[i], others: [...new Set([...gaveWayTo[i], ...all])].filter((one) => one !== label[i]) });
}

function suspects(job, model, file, decide) {
  const told = job.result, isClass = model.task === "svc";
  if (job.withheld) return section(`${count(told.suspected.value.length)} suspected`, h("p", { class: "quiet" }, "This API key may not list examples, so it does not see which these are."));
  const sides = sidesOf(told), labelsOf = namesOf(told, sides, model);
  if (!told.suspected.key.length) return section("None suspected", h("p", {}, "No label contradicts the others."));
  const decisions = new Map();
  const summary = h("p", { role: "status" });
  const say = () => {
    const n = (kind) => [...decisions.values()].filter((one) => one.kind === kind).length;
    summary.textContent = `${count(n("relabel"))} to relabel, ${count(n("remove"))} to remove, the others are kept.`;
  };

  function line(key, i) {
    const side = sides.get(key), { given, others } = isClass ? labelsOf(key, i) : { given: null, others: [] };
    const other = given !== null && others.length > 1 && h("select", { "aria-label": `New label of ${key}`, onchange: () => { group.querySelector("[value=relabel]").checked = true; choose("relabel"); } }, others.map((one, k) => h("option", { value: k }, String(one))));
    const target = !isClass && h("input", { type: "number", step: "any", "aria-label": `New target of ${key}`, oninput: () => { group.querySelector("[value=relabel]").checked = true; choose("relabel"); } });
    const choose = (kind) => {
      if (kind === "keep") decisions.delete(key);
      else decisions.set(key, { kind, y: () => (isClass ? others[other ? other.value : 0] : target.valueAsNumber) });
      say();
    };
    const choice = (kind, text) => h("label", { class: "choice" }, h("input", { type: "radio", name: `decision-${i}`, value: kind, checked: kind === "keep", onchange: () => choose(kind) }), text);
    const group = h("fieldset", {}, h("legend", { class: "unseen" }, `What to do with ${key}`), choice("keep", "keep"),
      (given !== null || !isClass) && choice("relabel", isClass && !other ? `relabel ${others[0]}` : "relabel"), target, other, choice("remove", "remove"));
    return h("tr", {}, h("th", { scope: "row" }, String(key)), may("learn") && h("td", { class: "features", "data-key": String(key) }, "…"), h("td", {}, short(told.suspected.value[i])),
      h("td", {}, isClass ? String(given ?? "–") : side < 0 ? "far above the model" : "far below the model"), h("td", {}, may("learn") ? group : "kept"));
  }

  const body = h("tbody");
  const more = h("button", { type: "button", class: "plain", onclick: () => page() }, "Show more");
  function page() {
    const from = body.children.length, keys = told.suspected.key.slice(from, from + PAGE);
    body.append(...keys.map((key, i) => line(key, from + i)));
    if (may("learn")) features(model.id, keys, body).catch((problem) => { summary.textContent = problem.message; });
    more.hidden = body.children.length >= told.suspected.key.length;
  }
  page();
  say();

  function update() {
    const of = (kind) => [...decisions].filter(([, one]) => one.kind === kind);
    const relabel = of("relabel"), remove = of("remove");
    if (!relabel.length && !remove.length) throw new Error("Every example is kept, so there is nothing to do. Choose relabel or remove first.");
    const y = relabel.map(([, one]) => one.y());
    if (y.some(Number.isNaN)) throw new Error("A new target is missing. Give one for each example to relabel.");
    return { ...(relabel.length && { relabel: { keys: relabel.map(([key]) => key), y } }), ...(remove.length && { remove: { keys: remove.map(([key]) => key) } }) };
  }

  const { best, error } = told.validation ?? {};
  return section(`${count(told.suspected.key.length)} suspected`,
    h("p", { class: "quiet" }, `Of the ${count(told.n_examples)} examples of version ${count(job.version)}.`,
      best && ` Without them the error on held-back examples changes from ${short(error[0])} to ${short(best.error)} at best.`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Suspected labels" },
      h("table", {}, h("caption", { class: "unseen" }, "Suspected labels, the most suspicious first"),
        h("thead", {}, h("tr", {}, ["Key", ...(may("learn") ? ["Features"] : []), `Suspected at ${told.parameter}`, isClass ? "Label" : "Target", "Decision"].map((title) => h("th", { scope: "col" }, title)))), body)), more,
    may("learn") && h("div", {}, summary,
      field("Held-back examples", file, "A CSV file that the model has not learnt: the features in order, then the target. Without it a fifth of the window is held back."),
      button("Carry out as one update", (once) => decide(job, model, update(), once))));
}

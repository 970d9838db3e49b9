/** Suspected labels, the worst first, with the examples that speak against each and what is done about it; of a regression suspected targets, along the outlier path. */

import { button, call, change, get } from "./api.js";
import { examplesFrom } from "./csv.js";
import { count, field, h, section, short } from "./dom.js";
import { follow, newest } from "./jobs.js";
import { heading } from "./model.js";
import { may } from "./service.js";

const SHARE = 0.2; // of the window of a regression that is held back
const PAGE = 25; // suspects that are shown at a time
const FEATURES = 6; // of each, the others are counted

export function labels(main, id) {
  const leaving = [];
  const about = h("div"), progress = h("div"), found = h("div"), outcome = h("div", { role: "status" });
  const file = h("input", { type: "file", accept: ".csv,text/csv" });
  const confirmed = new Set(); // keys of labels that were found right or corrected; a ranking leaves them out
  let before = null; // labels in doubt at the last ranking
  main.replaceChildren(...heading(id, "/labels"), about, progress, outcome, found);

  async function begin() {
    const model = await get(`/models/${id}`), isClass = model.task === "svc", kind = isClass ? "suspected-labels" : "outlier-path";
    const start = may("learn") && button("Find them", async () => {
      outcome.replaceChildren();
      show(await follow(await call("POST", `/models/${id}/${kind}`, isClass ? (confirmed.size ? { confirmed: { keys: [...confirmed] } } : {}) : { hold_out: SHARE }), progress, leaving));
      return "";
    });
    about.replaceChildren(section(isClass ? "Find suspected labels" : "Find suspected targets",
      h("p", { class: "quiet" }, isClass ? "Each label is compared with the exact decision of a model that has not seen its example." : "Along the outlier path examples that contradict the others give way, the most suspicious first. A fifth of the window is held back to see whether it helps to let them go."),
      start || h("p", { class: "quiet" }, "This key can look at what was found, and not search."),
      may("learn") && field("Held-back examples", file, "A CSV file that the model has not learnt: the features in order, then the target; of a table its columns by name. With it, each correction says what it did to the error.")));

    function show(job) {
      const doubted = job.result.n_doubted;
      if (isClass && before !== null) outcome.replaceChildren(h("p", { id: "effect" }, `Labels in doubt: ${count(before)} before, ${count(doubted)} now.`));
      before = doubted ?? null;
      (job.result.confirmed?.keys ?? []).forEach((key) => confirmed.add(key));
      found.replaceChildren(suspects(job, model, decide, confirmed));
    }

    /** Carry out one decision, and return what it did. */
    async function decide(update, once) {
      const held = file.files.length ? await examplesFrom(file.files[0], model) : null;
      const was = held && await errorOn(id, model.task, held);
      const done = await change(`/models/${id}/update`, update, once);
      if (held) outcome.replaceChildren(h("p", { id: "effect" }, `${isClass ? "Share of wrong labels" : "Mean absolute error"} on the ${count(held.y.length)} examples of ${file.files[0].name}: ${short(was)} before, ${short(await errorOn(id, model.task, held))} after.`));
      return `version ${count(done.version)}`;
    }

    const job = await newest(id, kind);
    if (job) show(job.state === "done" ? await get(`/jobs/${job.id}`) : await follow(job, progress, leaving));
  }

  begin().catch((problem) => found.replaceChildren(h("p", { class: "wrong", role: "alert" }, problem.message)));
  return () => leaving.forEach((end) => end());
}

async function errorOn(id, task, { y, ...features }) {
  const { prediction } = await call("POST", `/models/${id}/predict`, features);
  const errors = prediction.map((value, i) => (task === "svr" ? Math.abs(value - y[i]) : Number(value !== y[i])));
  return errors.reduce((sum, one) => sum + one, 0) / errors.length;
}

/** Examples by key, without those that have left the window. */
async function examplesOf(id, keys) {
  for (let wanted = [...new Set(keys)]; wanted.length; ) {
    try {
      const { examples } = await get(`/models/${id}/examples?${new URLSearchParams(wanted.map((key) => ["keys", String(key)]))}`);
      return new Map(examples.map((one) => [one.key, one]));
    } catch (problem) {
      const { field, row } = problem.document ?? {};
      if (field !== "keys" || row === undefined) throw problem;
      wanted = wanted.filter((_, i) => i !== row); // that one has left the window since
    }
  }
  return new Map();
}

/** The first features of an example: numbers, numbers other than 0 by place, or cells by name. */
function brief({ x }) {
  const text = (value) => (typeof value === "number" ? short(value) : String(value ?? "–"));
  const values = Array.isArray(x) ? x.map(text) : x.indices ? x.indices.map((place, i) => `${place}: ${text(x.values[i])}`) : Object.entries(x).map(([name, value]) => `${name} ${text(value)}`);
  return values.slice(0, FEATURES).join(", ") + (values.length > FEATURES ? `, and ${values.length - FEATURES} more` : "");
}

/** On which side each outlier is: -1 where the model says too little of it, 1 where too much. */
function sidesOf({ outliers_at_start: first, switches }) {
  const sides = new Map(first.key.map((key, i) => [key, first.side[i]]));
  switches.key.forEach((key, i) => { if (switches.side[i] && !sides.has(key)) sides.set(key, switches.side[i]); });
  return sides;
}

/** How many margins rest on paths of earlier versions, in words. */
function kept({ suspects }, { version }) {
  const older = suspects.filter(({ as_of: from }) => Number.isInteger(from) && from !== version).length;
  return older ? ` ${count(older)} margins use what earlier rankings found.` : "";
}

/** Each suspect: its key, what is written of it, its label and the others that it may have, and the examples that say why. */
function rowsOf(told, model) {
  if (model.task === "svc") {
    return told.suspects.map((one) => ({ ...one, cells: [`${Math.round(100 * one.doubt)} %`, short(one.margin), String(one.label)],
      others: [...new Set([one.better, ...model.classes.map(({ label }) => label)])].filter((label) => label !== one.label) }));
  }
  const sides = sidesOf(told);
  return told.suspected.key.map((key, i) => ({ key, why: [], others: null, cells: [short(told.suspected.value[i]), sides.get(key) < 0 ? "far above the model" : "far below the model"] }));
}

function suspects(job, model, decide, confirmed) {
  const told = job.result, isClass = model.task === "svc", n = isClass ? told.n_doubted : told.suspected.value.length;
  const title = isClass ? `${count(n)} in doubt` : `${count(n)} suspected`;
  if (job.withheld) return section(title, h("p", { class: "quiet" }, "This API key may not list examples, so it does not see which these are."));
  const rows = rowsOf(told, model), isOwner = may("learn");
  if (!rows.length) return section("None suspected", h("p", {}, `No ${isClass ? "label" : "target"} contradicts the others.`));
  const trouble = h("p", { role: "status" }), body = h("tbody"), lines = [];

  /** Carry out one decision on all rows that are ticked; `work` returns what it did, and what each row says then. */
  function together(label, work) {
    return button(label, async (once) => {
      const chosen = lines.filter(({ box }) => box.checked);
      if (!chosen.length) throw new Error("Tick the box of some first.");
      const [told, says] = await work(chosen, once);
      chosen.forEach((one, i) => { confirmed.add(one.key); one.over(says[i]); });
      return `${count(chosen.length)} ${told}`;
    });
  }

  /** The values that rows are to get; throws where one is missing. */
  function valuesOf(chosen) {
    const y = chosen.map((one) => one.wanted()), missing = y.findIndex((value) => Number.isNaN(value));
    if (missing >= 0) throw new Error(`Give the new target of ${chosen[missing].key} first.`);
    return y;
  }

  const right = isClass ? "right, not ranked again" : "left as it is";
  const several = isOwner && h("div", { class: "row", role: "group", "aria-label": "What to do with all that are ticked" },
    together("Relabel ticked", async (chosen, once) => {
      const y = valuesOf(chosen), told = await decide({ relabel: { keys: chosen.map(({ key }) => key), y } }, once);
      return [`relabelled, ${told}`, y.map((value) => `${value}, ${told}`)];
    }),
    together(isClass ? "Ticked are right" : "Leave ticked", async (chosen) => [isClass ? "not ranked again" : "left", chosen.map(() => right)]));

  /** A row, with what fills in its examples. */
  function line({ key, label, cells, others, why }) {
    const features = h("td", {}, "…"), because = h("td", {}, "…"), decision = h("td", {});
    const value = !others ? h("input", { type: "number", step: "any", "aria-label": `New target of ${key}` })
      : others.length > 1 && h("select", { "aria-label": `New label of ${key}` }, others.map((one, k) => h("option", { value: k }, String(one))));
    const wanted = () => (others ? others[value ? value.value : 0] : value.valueAsNumber);
    const box = h("input", { type: "checkbox" });
    const over = (text) => { decision.replaceChildren(text); box.checked = false; box.disabled = true; };
    lines.push({ key, box, wanted, over });
    const relabel = button(others?.length === 1 ? `Relabel ${others[0]}` : "Relabel", async (once) => {
      const [y] = valuesOf([{ key, wanted }]);
      over(`${y}, ${await decide({ relabel: { keys: [key], y: [y] } }, once)}`);
      confirmed.add(key);
    });
    const remove = button("Remove", async (once) => over(`removed, ${await decide({ remove: { keys: [key] } }, once)}`), { class: "plain" });
    const leave = h("button", { type: "button", class: "plain", onclick: () => { confirmed.add(key); over(right); } }, isClass ? "Right" : "Leave");
    decision.append(isOwner ? h("div", { class: "row", role: "group", "aria-label": `What to do with ${key}` }, value, relabel, remove, leave) : "–");
    body.append(h("tr", {}, h("th", { scope: "row" }, isOwner ? h("label", {}, box, String(key)) : String(key)), features, ...cells.map((text) => h("td", { class: "wrap" }, text)), isClass && because, decision));
    return (known) => {
      const own = known.get(key);
      features.textContent = own ? brief(own) : "no longer in the window";
      because.replaceChildren(...why.map((one) => h("div", {}, known.has(one) ? `${one}: ${brief(known.get(one))}` : `${one}: no longer in the window`)));
      if (!own || (isClass && own.y !== label)) over(own ? `now ${own.y}` : "–");
    };
  }

  const more = h("button", { type: "button", class: "plain", onclick: () => page() }, "Show more");
  function page() {
    const shown = rows.slice(body.children.length, body.children.length + PAGE), fill = shown.map(line);
    examplesOf(model.id, shown.flatMap(({ key, why }) => [key, ...why])).then((known) => fill.forEach((one) => one(known)), (problem) => { trouble.textContent = problem.message; });
    more.hidden = body.children.length >= rows.length;
  }
  page();

  const { best, error } = told.validation ?? {};
  const titles = ["Key", "Features", ...(isClass ? ["Doubt", "Margin", "Label", "Nearest of the better label"] : [`Suspected at ${told.parameter}`, "Target"]), "Decision"];
  return section(title,
    h("p", { class: "quiet" }, isClass ? `All ${count(told.n_examples)} labels of version ${count(job.version)}, the worst first.${told.confirmed?.keys.length ? ` ${count(told.confirmed.keys.length)} are confirmed and not shown.` : ""} In doubt are those with a negative margin: another label fits better.${kept(told, job)}` : `Of the ${count(told.n_examples)} examples of version ${count(job.version)}.`,
      best && ` Without them the error on held-back examples changes from ${short(error[0])} to ${short(best.error)} at best.`),
    h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Suspected labels" },
      h("table", {}, h("caption", { class: "unseen" }, "Suspected labels, the most suspicious first"),
        h("thead", {}, h("tr", {}, titles.map((one) => h("th", { scope: "col" }, one)))), body)), more, several, trouble);
}

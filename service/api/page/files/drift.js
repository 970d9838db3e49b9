/** Whether the window of a model or a feed has changed, which examples it is about, and the update that would help, made by a click. */

import { asked, button, change, get } from "./api.js";
import { clock, count, h, section, short, table } from "./dom.js";
import { may } from "./service.js";

/** The section of a model; `changed` is called when its window is another. */
export function drift(id, changed) {
  return looking(`/models/${id}/drift`, (found) => [...answer(found, (time) => clock(time * 1000)), offer(found.remedy, () => apply(id, found.remedy, changed))]);
}

/** The section of a feed, with an answer for each step. */
export function feedDrift(id, changed) {
  return looking(`/feeds/${id}/drift`, (found) => [
    ...found.steps.flatMap((one) => [h("h3", {}, `Step ${count(one.step)}`), ...answer({ ...one, false_alarms: found.false_alarms }, String)]),
    offer(found.update, () => applySteps(id, found.update, changed))]);
}

function looking(path, shown) {
  const told = h("div", { role: "status" });
  const look = button("Look for drift", async () => {
    told.replaceChildren(...shown(await get(path)));
  });
  return section("Drift", h("p", { class: "quiet" }, "Each example of the window is decided by the exact model without it, in the order of time; a test says whether these errors have grown."), look, told);
}

const offer = (found, made) => (found && may("learn") ? made() : h("p", { class: "quiet" }, found ? "" : "None is better for sure."));

function answer(found, time) {
  const rate = `A false alarm has a probability of ${short(found.false_alarms)} at most.`;
  const what = found.alarm
    ? `The errors have grown since ${time(found.alarm.began)}: ${count(found.alarm.n_since)} examples ago${found.alarm.classes.length ? `, of class ${found.alarm.classes.join(", ")}` : ""}. ${rate}`
    : `The errors have not grown. ${rate}`;
  const errors = found.rolling.map(short).join(", ");
  const before = found.before_learning;
  const rows = [{ name: "as it is", error: found.present }, ...found.remedies.map((one) => ({ ...one, name: named(one) }))];
  return [h("p", {}, what),
    h("p", {}, `Left out one by one: ${short(found.error)}; from the oldest to the newest: ${errors}.`),
    before && h("p", {}, `Before they were learnt: ${before.error === null ? "–" : short(before.error)} over the newest ${count(before.n)}; evidence ${short(before.evidence)} of the 1 that gives an alarm.`),
    table("Remedies", ["Model", `Error of the newest ${count(found.newest)}`, "Better by", "Give or take"],
      rows.map((one) => [one.name, short(one.error), one.better == null ? "–" : short(one.better), one.spread == null ? "–" : short(one.spread)]))].filter(Boolean);
}

const named = (one) => (one.kind === "window" ? `newest ${count(one.value)} alone` : `C ${short(one.value)}`);

function apply(id, remedy, changed) {
  return button("Apply the best", async (once) => {
    const [question, yes] = remedy.kind === "window" ? [`Keep the newest ${count(remedy.value)} examples and remove all others?`, "Remove them"] : [`Give the model a C of ${short(remedy.value)}?`, "Change C"];
    if (!(await asked(question, yes))) return "";
    const done = await change(`/models/${id}/update`, remedy.update, once);
    changed();
    return `Version ${count(done.version)} has ${count(done.n_examples)} examples.`;
  });
}

const stepNamed = (one) => `step ${count(one.step)}: ${one.keep ? named({ kind: "window", value: one.keep }) : named({ kind: "C", value: one.C })}`;

function applySteps(id, update, changed) {
  return button("Apply the best", async (once) => {
    if (!(await asked(`Change the models of ${update.steps.map(stepNamed).join(", ")}?`, "Change them"))) return "";
    await change(`/feeds/${id}/update`, update, once);
    changed();
    return "The next forecasts are those of the changed models.";
  });
}

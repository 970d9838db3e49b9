/** Whether a model's window has changed, which examples it is about, and the update that would help, made by a click. */

import { asked, button, change, get } from "./api.js";
import { clock, count, h, section, short, table } from "./dom.js";
import { may } from "./service.js";

/** The section of a model; `changed` is called when its window is another. */
export function drift(id, changed) {
  const told = h("div", { role: "status" });
  const look = button("Look for drift", async () => {
    told.replaceChildren(...answer(id, await get(`/models/${id}/drift`), changed));
  });
  return section("Drift", h("p", { class: "quiet" }, "Each example of the window is decided by the exact model without it, in the order of time; a test says whether these errors have grown."), look, told);
}

function answer(id, found, changed) {
  const rate = `A false alarm has a probability of ${short(found.false_alarms)} at most.`;
  const what = found.alarm
    ? `The errors have grown since ${clock(found.alarm.began * 1000)}: ${count(found.alarm.n_since)} examples ago${found.alarm.classes.length ? `, of class ${found.alarm.classes.join(", ")}` : ""}. ${rate}`
    : `The errors have not grown. ${rate}`;
  const errors = found.rolling.map(short).join(", ");
  const before = found.before_learning;
  const rows = [{ name: "as it is", error: found.present }, ...found.remedies.map((one) => ({ ...one, name: named(one) }))];
  return [h("p", {}, what),
    h("p", {}, `Left out one by one: ${short(found.error)}; from the oldest to the newest: ${errors}.`),
    before && h("p", {}, `Before they were learnt: ${before.error === null ? "–" : short(before.error)} over the newest ${count(before.n)}; evidence ${short(before.evidence)} of the 1 that gives an alarm.`),
    table("Remedies", ["Model", `Error of the newest ${count(found.newest)}`, "Better by", "Give or take"],
      rows.map((one) => [one.name, short(one.error), one.better == null ? "–" : short(one.better), one.spread == null ? "–" : short(one.spread)])),
    found.remedy && may("learn") ? apply(id, found.remedy, changed) : h("p", { class: "quiet" }, found.remedy ? "" : "None is better for sure.")].filter(Boolean);
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

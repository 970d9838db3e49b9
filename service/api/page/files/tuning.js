/** Settings chosen again over a feed's window: what is chosen beside what it has, and taken over by a click. */

import { button, call, change, get } from "./api.js";
import { count, h, section, short, stepTable } from "./dom.js";
import { follow, newest } from "./jobs.js";

/** The section of a feed that is `live`; `taken` is told when its models have learnt anew. */
export function tuning(id, leaving, taken) {
  const progress = h("div"), found = h("div");
  const run = button("Choose again", async () => {
    const job = await call("POST", `/feeds/${id}/tune`);
    show(await follow(job, progress, leaving));
    return "";
  });

  function show(job) {
    const apply = button("Take these", async (once) => {
      const done = await change(`/jobs/${job.id}/apply`, { choice: {} }, once);
      taken();
      return `Every model has learnt the window again, at ${count(done.position)} readings.`;
    });
    const told = (one) => `${one.represent}, gamma ${short(one.gamma)}, C ${short(one.C)}`;
    found.replaceChildren(stepTable("Chosen again", ["Step", "As it is", "Chosen again", "Mean error while trying"],
      job.result.steps.map((one) => [String(one.step), told(one.before), told(one), one.error === null ? "–" : short(one.error)])), apply);
  }

  newest(`feed.${id}`, "tune").then(async (job) => {
    if (job) show(job.state === "done" ? await get(`/jobs/${job.id}`) : await follow(job, progress, leaving));
  }).catch((problem) => found.replaceChildren(h("p", { class: "wrong", role: "alert" }, problem.message)));
  return section("Settings chosen again", h("p", { class: "quiet" }, "What is left to auto is tried over the window as it is now; the feed goes on as it was until they are taken."), run, progress, found);
}

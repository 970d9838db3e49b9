/** Jobs: asked for, watched until they are done, ended on request. */

import { button, call, get } from "./api.js";
import { h } from "./dom.js";
import { watch } from "./stream.js";

/** Show a job's progress in a place until it has ended; the job with its result, or an Error. `leaving` gets what stops it. */
export function follow(job, place, leaving) {
  const bar = h("progress", { max: "1", "aria-label": `Progress of ${job.kind}` });
  const told = h("span", { role: "status" }, "waiting");
  const cancel = button("Cancel", async () => { await call("DELETE", `/jobs/${job.id}`); });
  place.replaceChildren(h("p", { class: "row" }, bar, told, cancel));
  return new Promise((done, fail) => {
    const end = watch(`/jobs/${job.id}/events`, async (_, now) => {
      bar.value = now.progress;
      told.textContent = now.waits_for ? `waits for ${now.waits_for}` : `${now.state}, ${Math.round(100 * now.progress)} %`;
      if (now.state === "queued" || now.state === "running") return;
      end();
      place.replaceChildren();
      if (now.state === "done") get(`/jobs/${job.id}`).then(done, fail);
      else fail(new Error(now.state === "cancelled" ? "It was cancelled." : now.error?.detail ?? "It has failed."));
    }, (state, reason) => {
      if (state === "lost") told.textContent = `not heard: ${reason}`;
      if (state === "over") fail(new Error(reason));
    });
    leaving.push(end);
  });
}

/** The newest job of a kind that is not lost: done, or under way. */
export async function newest(model, kind) {
  const { jobs } = await get("/jobs");
  return jobs.filter((job) => job.model === model && job.kind === kind && ["queued", "running", "done"].includes(job.state)).at(-1) ?? null;
}

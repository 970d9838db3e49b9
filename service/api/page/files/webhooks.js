/** Webhooks: where messages go, what of, and how their delivery is. */

import { get } from "./api.js";
import { ago, count, h, table } from "./dom.js";

const REFRESH = 5000; // ms between two looks

export function webhooks(main) {
  const place = h("div");
  let due = null;
  main.replaceChildren(h("h1", {}, "Webhooks"), place);

  async function refresh() {
    try {
      const { webhooks: all } = await get("/webhooks");
      place.replaceChildren(all.length ? table("Webhooks", ["Webhook", "Address", "Events", "Of", "Waiting", "Given up", "Last attempt"],
        all.map((one) => [one.id, one.url, one.events.join(", "), [...(one.models ?? []), ...(one.feeds ?? [])].join(", ") || "all", count(one.waiting), count(one.dead), last(one)]))
        : h("p", {}, "There is no webhook yet. The command “livesvm webhook create” makes one."));
    } catch (problem) {
      place.replaceChildren(h("p", { class: "banner wrong", role: "alert" }, problem.message));
    }
    due = setTimeout(refresh, REFRESH);
  }

  refresh();
  return () => clearTimeout(due);
}

/** How the last attempt to deliver ended. */
const last = ({ last: one }) => (one ? `${ago(one.at)}: ${one.reason ?? one.status}` : "none yet");

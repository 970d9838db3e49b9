/** What is not well, and what to do about it. */

import { clock, h } from "./dom.js";
import { onChange, service } from "./service.js";

const REMEDIES = [
  [/store is not available/, "Updates are refused; predictions go on from memory. See that the disk of LIVESVM_DATA_DIR has free space and can be written, or that Redis answers; the service goes on by itself."],
  [/being restored/, "Nothing to do: they are served one after the other as they come back."],
  [/loaded or compiled/, "Nothing to do: at a first start this takes half a minute."],
  [/rehearsed/, "Nothing to do: it is a matter of a second."],
  [/stopping/, "No more work is taken. Start the service again if that was not meant."],
  [/cannot be restored/, "Search for “failed” and open them to read why. Bring the store back from a backup, or delete the models and train them again."],
  [/held by another service/, "They are served there; when that service stops, this one takes them over."],
  [/taken over by another service/, "They are read-only here: send updates to the service that has them now."],
  [/store, which has lost it/, "They are read-only. Bring the store back from a backup, or open them and write them back."],
  [/being compiled/, "Nothing to do: such jobs begin when that is done."],
  [/^compiling/, "Nothing to do: a first start takes a minute or two, later ones a second."],
];

const remedy = (reason) => REMEDIES.find(([pattern]) => pattern.test(reason))?.[1] ?? "See the log of the service.";
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/** An item for each remedy, with all reasons that have it. */
const items = (reasons) => [...Map.groupBy(reasons, remedy)].map(([what, all]) => h("li", {}, h("strong", {}, `${all.map(capital).join(". ")}.`), ` ${what}`));

let shown = "";

export function show() {
  const place = document.getElementById("banner"), connection = document.getElementById("connection");
  const { reasons = [], degraded = [] } = service.health ?? {};
  const lost = service.connection === "lost";
  connection.textContent = { open: "live", lost: "not connected", asking: "connecting …", over: "" }[service.connection];
  connection.dataset.state = service.connection;
  const now = JSON.stringify([lost && service.reason, reasons, degraded]);
  if (now === shown) return;
  shown = now;
  const notes = degraded.filter((reason) => !reasons.includes(reason));
  place.replaceChildren(
    ...(lost ? [h("div", { class: "banner wrong", role: "alert" },
      h("strong", {}, `The service is not heard: ${service.reason}.`),
      `${service.heardAt ? ` What is shown is as of ${clock(service.heardAt)}.` : ""} It is asked again every few seconds; see that it runs.`)] : []),
    ...(!lost && reasons.length ? [h("div", { class: "banner wrong", role: "alert" }, h("ul", {}, items(reasons)))] : []),
    ...(!lost && notes.length ? [h("div", { class: "banner note", role: "status" }, h("ul", {}, items(notes)))] : []),
  );
}

export function begin() {
  onChange(show);
  show();
}

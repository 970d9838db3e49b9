/** Erasing: keys or times in, a warning, the receipt out as a file; and whether a receipt is as it was signed. */

import { asked, button, call, change, Problem } from "./api.js";
import { count, facts, field, h, section, short, stamp, table } from "./dom.js";
import { dropped } from "./drop.js";
import { heading } from "./model.js";
import { may } from "./service.js";

const WARNING = "This cannot be undone. Earlier versions can no longer be restored, and jobs with their results go too. Backups, replicas and files that were taken along are not reached.";

/** A line's text as a key: a number where it is written as the service writes numbers. */
const keyOf = (text) => (/^(0|[1-9]\d*)$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text);
const linesOf = (area) => [...new Set(area.value.split(/\r?\n/).map((line) => line.trim()).filter(Boolean))];

/** The screen of a model. */
export function erase(main, id) {
  const keys = h("textarea", { rows: "6", spellcheck: "false", autocomplete: "off", required: true });
  const found = h("div");
  const go = button("Erase …", async (once) => {
    const wanted = linesOf(keys).map(keyOf);
    if (!wanted.length) throw new Error("Give at least one key.");
    if (!(await asked(`Erase ${count(wanted.length)} ${wanted.length > 1 ? "keys" : "key"} from ${id} for good? ${WARNING}`, "Erase for good"))) return "Nothing was erased.";
    const done = await change(`/models/${id}/erase`, { keys: wanted }, once);
    keys.value = "";
    found.replaceChildren(receiptOf(done.receipt));
    const missing = (done.not_found.length ? ` Not found: ${done.not_found.join(", ")}.` : "") + (done.respelled.length ? ` Stored too, and not erased: ${done.respelled.map((key) => JSON.stringify(key)).join(", ")}.` : "")
      + done.datasets.map((one) => ` ${count(one.rows)} rows of dataset ${one.name}.`).join("");
    return `${count(done.removed)} of the window and all that was stored of them; version ${count(done.version)} never knew them.${missing}`;
  });
  main.replaceChildren(...heading(id, "/erase"), section("Erase examples for good",
    h("p", { class: "banner note" }, WARNING),
    may("admin") ? h("div", {}, field("Keys, one a line", keys, "Of the window or not: what is stored of earlier versions is searched too, and rows of datasets with these keys."), go)
      : h("p", { class: "quiet" }, "This key cannot erase.")), found, verification());
}

/** The section of a feed. */
export function eraseReadings(id) {
  const times = h("textarea", { rows: "3", spellcheck: "false" }), from = h("input", { type: "text" }), to = h("input", { type: "text" }), found = h("div");
  const go = button("Erase …", async (once) => {
    const wanted = { ...(linesOf(times).length && { times: linesOf(times) }), ...(from.value.trim() && { from: from.value.trim() }), ...(to.value.trim() && { to: to.value.trim() }) };
    if (!Object.keys(wanted).length) throw new Error("Give times, or a range.");
    if (!(await asked(`Erase these readings from ${id} for good? ${WARNING}`, "Erase for good"))) return "Nothing was erased.";
    const done = await change(`/feeds/${id}/erase`, wanted, once);
    for (const input of [times, from, to]) input.value = "";
    found.replaceChildren(receiptOf(done.receipt));
    return `${count(done.removed)} readings, and all that was stored of them.`;
  });
  return section("Erase readings for good", h("p", { class: "quiet" }, "They become missing readings, and every model learns the window again."),
    field("Times, one a line", times, "As the readings have them."), h("div", { class: "row" }, field("From", from), field("To", to)), go, found);
}

/** A receipt in words, and as a file: its bytes are what was signed. */
function receiptOf(receipt) {
  const file = new Blob([JSON.stringify(receipt)], { type: "application/json" });
  const link = h("a", { href: URL.createObjectURL(file), download: `${receipt.receipt}.json` }, `Save ${receipt.receipt}.json`);
  return section("Receipt", h("p", {}, link, " Keep it: it is the proof that this service said so."), said(receipt));
}

function said(receipt) {
  const { keys, certificate } = receipt;
  const one = receipt.kind !== "everywhere";
  return h("div", {}, facts({ [receipt.kind === "feed" ? "Feed" : "Model"]: one ? receipt.model : receipt.parts.map((part) => part.model).join(", "), [receipt.kind === "feed" ? "Times" : "Keys"]: count(keys.count), "In the window": count(keys.in_window),
    "Asked by": receipt.asked_by ?? "a caller without a key", Erased: stamp(receipt.erased_at.replace(/\.\d+/, "")), "Kept until": receipt.kept_until.slice(0, 10),
    ...(keys.not_found?.length && { "Not found": count(keys.not_found.length) }), ...Object.fromEntries((receipt.datasets ?? []).map((one) => [`Rows of dataset ${one.name}`, count(one.rows)])), ...(receipt.elsewhere?.length && { "Also named, and not erased, in": receipt.elsewhere.join(", ") }),
    ...(one && { Version: `${count(receipt.version_before)} → ${count(receipt.version_after)}`, "Relative gap": certificate ? short(certificate.relative_gap) : "none" }) }),
  h("div", { class: "wrap" }, table("What was searched", ["Place", "What was done"], Object.entries(receipt.places))));
}

/** Receipts in, as files: whether each is as a service signed it, and whether as this one. */
function verification() {
  const found = h("div", { role: "status" });
  const place = dropped("Drop a receipt here, or choose one", "application/json,.json", "It is checked byte by byte by this service; “livesvm receipt verify” does the same without it.", async (file) => {
    try {
      const told = await call("POST", "/receipts/verify", new Blob([await file.arrayBuffer()]), { type: "application/json" });
      const verdict = !told.verified ? `${file.name} does not verify: ${told.reason}.` : told.is_own ? `${file.name} verifies: this service signed it.` : `${file.name} verifies, but another service signed it: ${told.receipt.public_key}.`;
      found.replaceChildren(h("p", { class: told.verified && told.is_own ? "banner good" : "banner wrong" }, verdict), told.verified ? said(told.receipt) : "");
    } catch (problem) {
      if (!(problem instanceof Problem)) throw problem;
      found.replaceChildren(h("p", { class: "banner wrong" }, `${file.name} is no receipt: ${problem.message}`));
    }
  });
  return section("Verify a receipt", place, found);
}

/** Calls of the API: with the key of this tab, refusals as errors, and each click one call. */

import { h } from "./dom.js";

const STORED = "livesvm-key";
const HOLD = 700; // ms that a button rests at least: longer than a double click
const TRIES = 3;

export const key = {
  get: () => sessionStorage.getItem(STORED),
  set: (value) => sessionStorage.setItem(STORED, value),
  clear: () => sessionStorage.removeItem(STORED),
};

/** A refusal; `status` 0 where no answer came. */
export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `status ${status}`);
    this.status = status;
    this.document = document;
  }
}

export function headers(more = {}) {
  const secret = key.get();
  return secret ? { authorization: `Bearer ${secret}`, ...more } : more;
}

/** Why an answer refuses. */
export async function problemOf(answer) {
  const document = await answer.json().catch(() => ({ title: answer.statusText }));
  if (answer.status === 401) window.dispatchEvent(new Event("key-needed"));
  return new Problem(answer.status, document);
}

/** The JSON of an answer, or its text where another medium is asked for; raises Problem. */
export async function call(method, path, body, { once, type = "application/json", accept } = {}) {
  const given = body === undefined ? {} : { "content-type": type };
  if (accept) given.accept = accept;
  if (once) given["idempotency-key"] = once;
  const sent = body === undefined || typeof body === "string" || body instanceof Blob ? body : JSON.stringify(body);
  let answer;
  try {
    answer = await fetch(`.${path}`, { method, headers: headers(given), body: sent, cache: "no-store" });
  } catch {
    throw new Problem(0, { title: "The service does not answer." });
  }
  if (!answer.ok) throw await problemOf(answer);
  return answer.status === 204 ? null : accept ? answer.text() : answer.json();
}

export const get = (path) => call("GET", path);

/** A name that nothing else has. */
export function unique() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

/** A call with one effect: sent again under the same name where no answer came, or the service was busy. */
export async function change(path, body, once, type) {
  for (let attempt = 1; ; attempt++) {
    try {
      return await call("POST", path, body, { once, type });
    } catch (problem) {
      const passes = [0, 429, 502, 503, 504].includes(problem.status); // or a proxy that did not reach it
      if (!passes || attempt === TRIES) throw problem;
      await wait(500 * attempt);
    }
  }
}

/** A button whose click runs `work(once)`; while it runs, and for the time of a double click, it takes no other. */
export function button(label, work, attributes = {}) {
  const made = h("button", { type: "button", ...attributes }, label);
  const said = h("span", { class: "said", role: "status" });
  let busy = false;
  made.addEventListener("click", async () => {
    if (busy) return;
    busy = true;
    made.setAttribute("aria-disabled", "true");
    said.textContent = "";
    said.classList.remove("wrong");
    const held = wait(HOLD);
    try {
      said.textContent = (await work(unique())) || "";
    } catch (error) {
      said.classList.add("wrong");
      said.textContent = error.message;
    }
    await held;
    busy = false;
    made.removeAttribute("aria-disabled");
  });
  return h("span", { class: "action" }, made, said);
}

/** Ask before what cannot be undone by another click; resolves to whether to go on. */
export function asked(text, yes) {
  return new Promise((done) => {
    const close = (answer) => () => { dialog.close(); dialog.remove(); done(answer); };
    const dialog = h("dialog", { "aria-label": yes, oncancel: close(false) }, h("p", {}, text),
      h("p", { class: "row" }, h("button", { type: "button", onclick: close(true) }, yes),
        h("button", { type: "button", class: "plain", onclick: close(false) }, "Leave it as it is")));
    document.body.append(dialog);
    dialog.showModal();
  });
}

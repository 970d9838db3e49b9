/** What is known of the service, kept by its events; everything on the page that shows it reads this. */

import { watch } from "./stream.js";

const SPAN = 60_000; // ms over which rates are taken
const LEAST = 5_000; // ms without which there is no rate
const SCOPES = ["read", "learn", "admin"];

export const service = {
  models: new Map(),
  health: null,
  connection: "asking",
  reason: "",
  heardAt: 0,
  access: null,
};

const listeners = new Set();

/** Have `listener(changed, gone)` called after each event, and with nothing when the connection has changed. */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Whether the key of this tab allows calls of a scope. */
export const may = (scope) => service.access !== null && SCOPES.indexOf(service.access.scope) >= SCOPES.indexOf(scope);

/** Whether the service has a path, as its description writes it. */
export const has = (path) => service.access?.paths?.includes(path) ?? false;

const samples = new Map();
let whole = true; // the next event holds all models

function take(name, data) {
  if (name !== "service") return;
  const gone = [...data.gone];
  if (whole) {
    const there = new Set(data.models.map((model) => model.id));
    gone.push(...[...service.models.keys()].filter((id) => !there.has(id)));
    whole = false;
  }
  for (const id of gone) { service.models.delete(id); samples.delete(id); }
  for (const model of data.models) { service.models.set(model.id, model); sample(model); }
  service.health = { ready: data.ready, reasons: data.reasons, degraded: data.degraded };
  service.heardAt = Date.now();
  tell(data.models.map((model) => model.id), gone);
}

function tell(changed = [], gone = []) {
  for (const listener of listeners) listener(changed, gone);
}

function sample(model) {
  let taken = samples.get(model.id);
  const last = taken?.at(-1);
  if (!taken || model.version < last.version || model.predicted < last.predicted) samples.set(model.id, (taken = []));
  taken.push({ at: Date.now(), version: model.version, predicted: model.predicted });
  while (taken.length > 2 && taken[1].at < Date.now() - SPAN) taken.shift();
}

/** Updates and predicted rows a minute, over the last minute at most; null before anything can be said. */
export function rates(id) {
  const taken = samples.get(id);
  if (!taken) return null;
  const now = Date.now();
  while (taken.length > 1 && taken[1].at <= now - SPAN) taken.shift();
  const [first, last] = [taken[0], taken.at(-1)];
  const span = Math.min(SPAN, now - first.at);
  if (span < LEAST) return null;
  const aMinute = (name) => ((last[name] - first[name]) / span) * 60_000;
  return { updates: aMinute("version"), predictions: aMinute("predicted") };
}

let stop = null;

/** Begin to listen, or listen anew with another key. */
export function listen() {
  stop?.();
  stop = watch("/events", take, (state, reason = "") => {
    if (state === "open") whole = true;
    service.connection = state;
    service.reason = reason;
    tell();
  });
}

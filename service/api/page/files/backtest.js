/** Two settings side by side, over the readings that a feed holds; the feed itself is not touched. */

import { button, call } from "./api.js";
import { chart } from "./chart.js";
import { count, field, h, section, short, stepTable } from "./dom.js";
import { follow } from "./jobs.js";

const NAMES = ["A", "B"];
const REPRESENT = ["auto", "change", "level", "seasonal-change"];

/** The settings of one side: what is left open is the feed's own. */
function side(name) {
  const number = (label) => h("input", { type: "number", min: "1", step: "1", placeholder: "the feed's", "aria-label": `${label} of ${name}` });
  const window_ = number("Window"), lags = number("Lags");
  const represent = h("select", { "aria-label": `Representation of ${name}` }, h("option", { value: "" }, "the feed's"), REPRESENT.map((one) => h("option", { value: one }, one)));
  const C = h("input", { type: "number", min: "0", step: "any", placeholder: "the feed's", "aria-label": `C of ${name}` });
  return {
    place: h("fieldset", {}, h("legend", {}, name), field("Window", window_), field("Lags", lags), field("Representation", represent), field("C", C)),
    settings: () => ({ ...(window_.value && { window: window_.valueAsNumber }), ...(lags.value && { lags: lags.valueAsNumber }),
      ...(represent.value && { represent: represent.value }), ...(C.value && { C: C.valueAsNumber }) }),
  };
}

/** The section of a feed that asks for backtests and shows two of them. */
export function compare(id, leaving) {
  const sides = NAMES.map(side), progress = h("div"), found = h("div");
  let drawn = null;
  leaving.push(() => drawn?.end());
  const run = button("Compare them", async () => {
    const results = [];
    for (const one of sides) {
      const job = await call("POST", `/feeds/${id}/backtest`, { settings: one.settings() });
      results.push((await follow(job, progress, leaving)).result);
    }
    drawn?.end();
    drawn = curves(results);
    found.replaceChildren(scores(results), drawn?.place ?? "");
    return "";
  });
  return section("Two settings side by side", h("p", { class: "quiet" }, "Each is run from the first of the feed's readings to the last, as if they came now; what is left open is as the feed has it."),
    ...sides.map((one) => one.place), run, progress, found);
}

function scores(results) {
  const of = (result, step) => result.scores.find((score) => score.step === step);
  const steps = results[0].scores.map((score) => score.step).filter((step) => of(results[1], step));
  return stepTable("Mean errors", ["Step", "A", "B", "Last value's (A)", "Seasonal value's (A)", "Scored (A, B)"], steps.map((step) => {
    const [a, b] = results.map((result) => of(result, step));
    return [String(step), short(a.mae), short(b.mae), short(a.last_value_mae), short(a.seasonal_mae), `${count(a.n)}, ${count(b.n)}`];
  }));
}

/** The mean error so far of both, and of the better naive forecast, over the forecasts that were scored; null where there are none. */
function curves([a, b]) {
  const x = [...new Set([...a.curve, ...b.curve].map((point) => point.n))].sort((one, other) => one - other);
  if (x.length < 2) return null;
  const over = (curve, name) => { const by = new Map(curve.map((point) => [point.n, point[name]])); return x.map((n) => by.get(n) ?? null); };
  return chart("Mean error so far of A, of B and of naive forecasts", x, [
    { label: "A", values: over(a.curve, "mae"), colour: "--free" }, { label: "B", values: over(b.curve, "mae"), colour: "--bound" },
    { label: "last value", values: over(a.curve, "last_value_mae"), colour: "--outside", width: 1 }, { label: "seasonal value", values: over(a.curve, "seasonal_mae"), colour: "--text", width: 1 },
  ].map((one) => ({ ...one, spans: true })), { xLabel: "forecasts scored", yLabel: "mean error so far", whole: true });
}

/** The regularization path: every C at once, its errors on examples that were not learnt, and the model moved along it. */

import { button, call, change, get } from "./api.js";
import { chart } from "./chart.js";
import { examplesFrom } from "./csv.js";
import { count, duration, facts, field, h, section, short, table } from "./dom.js";
import { follow, newest } from "./jobs.js";
import { heading } from "./model.js";
import { may } from "./service.js";

const SHOWN = 600; // points of a chart, which is no wider

/** How many of the ascending values are at most x. */
function upTo(values, x) {
  let low = 0, high = values.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (values[middle] <= x) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** What a path says at one value of its parameter. */
export function at(result, value) {
  const { breakpoints: found, at_minimum: start, validation } = result;
  const i = upTo(found.value, value);
  const told = i ? { n_support: found.n_support[i - 1], n_free: found.n_free[i - 1] } : start;
  if (!validation) return { ...told, error: null };
  const { edges, left, right } = validation;
  const k = Math.min(Math.max(upTo(edges, value) - 1, 0), left.length - 1);
  const share = (value - edges[k]) / (edges[k + 1] - edges[k] || 1);
  return { ...told, error: left[k] + Math.min(1, Math.max(0, share)) * (right[k] - left[k]) };
}

/** A value between the ends of a path, by a share of the way in the logarithm. */
const valueAt = (result, share) => (share >= 1 ? result.maximum : result.minimum * (result.maximum / result.minimum) ** share);

export function path(main, id) {
  const leaving = [];
  const found = h("div"), progress = h("div");
  main.replaceChildren(...heading(id, "/path"), may("learn") ? ask(id, show, progress, leaving) : h("p", { class: "quiet" }, "This key can look at paths, and not ask for one."), progress, found);

  function show(job) {
    found.replaceChildren(result(id, job, leaving));
  }

  newest(id, "regularization-path").then(async (job) => {
    if (!job) return;
    show(job.state === "done" ? await get(`/jobs/${job.id}`) : await follow(job, progress, leaving));
  }).catch((problem) => found.replaceChildren(h("p", { class: "wrong", role: "alert" }, problem.message)));
  return () => leaving.forEach((end) => end());
}

function ask(id, show, progress, leaving) {
  const low = h("input", { type: "number", min: "0", step: "any", placeholder: "0.001" });
  const high = h("input", { type: "number", min: "0", step: "any", placeholder: "1000" });
  const file = h("input", { type: "file", accept: ".csv,text/csv" });
  const start = button("Walk the path", async () => {
    const body = {};
    if (low.value) body.minimum = low.valueAsNumber;
    if (high.value) body.maximum = high.valueAsNumber;
    if (file.files.length) {
      body.validation = await examplesFrom(file.files[0], await get(`/models/${id}`));
    }
    const job = await call("POST", `/models/${id}/regularization-path`, body);
    show(await follow(job, progress, leaving));
    return "The path is walked.";
  });
  return section("Walk it", h("div", { class: "row" }, field("From", low), field("To", high),
    field("Validation examples", file, "A CSV file: the features in order, then the target; of a table its columns by name. Without it no value can be called best.")), start);
}

/** The intercept at a place of the slider; of several classes that of each pair, and which of the two it is for. */
function intercepts({ coefficients: known, pairs }, place) {
  if (!known) return {};
  return pairs ? Object.fromEntries(pairs.map((two, q) => { const b = known.intercept[place][q]; return [`Intercept, ${two.join(" or ")}`, `${short(Math.abs(b))} for ${two[b > 0 ? 0 : 1]}`]; })) : { Intercept: short(known.intercept[place]) };
}

/** A coefficient in words: of several classes, how much an example counts for its own against each other one. */
function coefficient({ coefficient: values, label, classes }, place, i) {
  const value = values[place][i];
  if (!classes) return short(value);
  const others = classes.filter((one) => one !== label[place][i]);
  return `${label[place][i]}: ${value.map((one, r) => one && `${short(Math.abs(one))} against ${others[r]}`).filter(Boolean).join(", ") || "0"}`;
}

function result(id, job, leaving) {
  const told = job.result, name = told.parameter, best = told.validation?.best;
  const known = told.coefficients; // a path of before does not tell them
  const places = known?.value ?? Array.from({ length: 201 }, (_, i) => valueAt(told, i / 200)), placeOf = (value) => upTo(places, value) - 1;
  const slider = h("input", { type: "range", min: "0", max: String(places.length - 1), step: "1" });
  const numbers = h("div", { role: "status" }), coefficients = h("div");
  slider.value = placeOf(best?.value ?? Math.sqrt(told.minimum * told.maximum));
  const chosen = () => places[Number(slider.value)];

  const x = Array.from({ length: SHOWN + 1 }, (_, i) => valueAt(told, i / SHOWN));
  const points = x.map((value) => at(told, value));
  const series = [{ label: "support vectors", values: points.map((one) => one.n_support), colour: "--bound", scale: "n", steps: true }];
  if (told.validation) series.unshift({ label: told.validation.error, values: points.map((one) => one.error), colour: "--free" });
  const line = (drawn) => {
    const left = Math.round(drawn.valToPos(chosen(), "x", true)), { top, height } = drawn.bbox, pen = drawn.ctx;
    pen.save();
    pen.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
    pen.setLineDash([4, 4]);
    pen.beginPath(); pen.moveTo(left, top); pen.lineTo(left, top + height); pen.stroke();
    pen.restore();
  };
  const drawn = chart(`${series.map((one) => one.label).join(" and ")} over ${name}`, x, series, { logarithmic: true, xLabel: name, hooks: { draw: [line] } });
  leaving.push(drawn.end);

  function move() {
    const place = Number(slider.value), value = places[place], now = at(told, value);
    slider.setAttribute("aria-valuetext", `${name} ${short(value)}`);
    numbers.replaceChildren(facts({ [name]: short(value), [told.validation ? `Validation: ${told.validation.error}` : "Validation"]: told.validation ? short(now.error) : "no examples were given",
      "Support vectors": count(now.n_support), Free: count(now.n_free), ...intercepts(told, place) }));
    if (known?.key) coefficients.replaceChildren(table("Largest coefficients", ["Example", "Coefficient"], known.key[place].map((key, i) => [String(key), coefficient(known, place, i)])));
    drawn.drawn.redraw(false);
  }

  slider.addEventListener("input", move);
  move();
  const toBest = best && h("button", { type: "button", class: "plain", onclick: () => { slider.value = placeOf(best.value); move(); } }, `Go to the best: ${short(best.value)}`);
  const apply = may("learn") && name === "C" && button("Apply this C", async (once) => {
    const done = await change(`/jobs/${job.id}/apply`, { choice: { C: chosen() } }, once);
    return `Version ${count(done.version)} has C = ${short(chosen())}; the path there had ${count(done.events)} events and took ${duration(done.seconds)}.`;
  });
  return section("The path", h("p", { class: "quiet" }, `${count(told.n_examples)} examples of version ${count(job.version)}, ${count(told.breakpoints.value.length)} breakpoints, found in ${duration(told.seconds)}; the relative gap at its end is ${short(told.relative_gap)}.`),
    ...(told.ended || []).map((end) => h("p", { class: "quiet" }, `It ends at ${told.parameter} = ${short(end.value)}: ${end.reason}.`)),
    drawn.place, field(name, slider), numbers,
    known && h("details", { open: true }, h("summary", {}, `Largest coefficients at this ${name}`), coefficients),
    h("div", { class: "row" }, toBest, apply),
    name !== "C" && h("p", { class: "quiet" }, `A path over ${name} is not applied: create a model with that value.`));
}

/** Charts: uPlot in the page's colours, as wide as there is room. */

import uPlot from "./vendor/uplot.js";
import { h } from "./dom.js";

const HEIGHT = 240;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 100_000]; // steps between ticks where x counts
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A chart of series over x, with words for who does not see it; dragging across it zooms, a double click goes back.
 *
 * `series`: `{ label, values, colour, scale, steps }`; a second scale has its axis on the right.
 */
export function chart(words, x, series, { logarithmic = false, whole = false, time = false, bands, xLabel = "", yLabel, hooks = {} } = {}) {
  const place = h("div", { class: "chart", role: "img", "aria-label": words });
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const scales = [...new Set(series.map((one) => one.scale ?? "y"))];
  const options = {
    width: 300, height: HEIGHT, hooks, legend: { live: false },
    scales: { x: logarithmic ? { time: false, distr: 3, log: 10 } : { time } },
    bands: bands?.map((one) => ({ ...one, fill: colour(one.fill) })),
    axes: [{ ...axis, label: xLabel || undefined, size: 34, labelSize: 20, ...(whole && { incrs: WHOLE }) }, ...scales.map((scale, i) => ({
      ...axis, scale, side: i ? 1 : 3, size: 54, labelSize: 20, grid: i ? { show: false } : axis.grid,
      label: yLabel ?? series.filter((one) => (one.scale ?? "y") === scale).map((one) => one.label).join(", ") }))],
    series: [{ label: xLabel }, ...series.map((one) => ({
      label: one.label, scale: one.scale ?? "y", stroke: colour(one.colour), width: one.width ?? 2, points: { show: false },
      paths: one.steps ? uPlot.paths.stepped({ align: 1 }) : undefined }))],
  };
  const drawn = new uPlot(options, [x, ...series.map((one) => one.values)], place);
  const room = new ResizeObserver(() => { if (place.clientWidth) drawn.setSize({ width: place.clientWidth, height: HEIGHT }); });
  room.observe(place);
  return { place, drawn, set: (data) => drawn.setData(data), end: () => { room.disconnect(); drawn.destroy(); } };
}

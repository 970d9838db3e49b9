/** Charts: uPlot in the page's colours, as wide as there is room. */

import uPlot from "./vendor/uplot.js";
import { h } from "./dom.js";

const HEIGHT = 240;
const WHOLE = [1, 2, 5, 10, 20, 50, 100, 1000, 10_000, 100_000]; // steps between ticks where x counts
const _ = null;
const TIMES = [ // distance of ticks, what is written at each, and what is added where the year or the day changes
  [365 * 86_400, "{YYYY}", _, _, _, _, _, _, 1],
  [28 * 86_400, "{YYYY}-{MM}", _, _, _, _, _, _, 1],
  [86_400, "{MM}-{DD}", "\n{YYYY}", _, _, _, _, _, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", _, "\n{MM}-{DD}", _, _, _, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", _, "\n{MM}-{DD}", _, _, _, 1],
];
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/**
 * A chart of series over x, with words for who does not see it; dragging across it zooms, a double click goes back.
 *
 * `series`: `{ label, values, colour, width, scale, steps, spans, points }`; a second scale has its axis on the right. Where x
 * are times, in seconds since 1970, `zone` names the zone of the clock that they are written by.
 */
export function chart(words, x, series, { logarithmic = false, whole = false, zone, bands, xLabel = "", yLabel, hooks = {} } = {}) {
  const place = h("div", { class: "chart", role: "img", "aria-label": words });
  const axis = { stroke: colour("--text"), grid: { stroke: colour("--line"), width: 1 }, ticks: { stroke: colour("--line") } };
  const scales = [...new Set(series.map((one) => one.scale ?? "y"))];
  const options = {
    width: 300, height: HEIGHT, hooks, legend: { live: false },
    scales: { x: logarithmic ? { time: false, distr: 3, log: 10 } : { time: Boolean(zone) } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), zone),
    bands: bands?.map((one) => ({ ...one, fill: colour(one.fill) })),
    axes: [{ ...axis, label: xLabel || undefined, size: zone ? 50 : 34, labelSize: 20, ...(zone && { values: TIMES }), ...(whole && { incrs: WHOLE }) }, ...scales.map((scale, i) => ({
      ...axis, scale, side: i ? 1 : 3, size: (_, ticks) => 20 + 7 * Math.max(5, ...(ticks ?? []).map((tick) => `${tick}`.length)), labelSize: 20, grid: i ? { show: false } : axis.grid,
      label: yLabel ?? series.filter((one) => (one.scale ?? "y") === scale).map((one) => one.label).join(", ") }))],
    series: [{ label: xLabel }, ...series.map((one) => ({
      label: one.label, scale: one.scale ?? "y", stroke: colour(one.colour), width: one.width ?? 2, spanGaps: one.spans ?? false, points: one.points ? { show: true, size: 6, fill: colour(one.colour) } : { show: false },
      paths: one.points ? () => null : one.steps ? uPlot.paths.stepped({ align: 1 }) : undefined }))],
  };
  const drawn = new uPlot(options, [x, ...series.map((one) => one.values)], place);
  const room = new ResizeObserver(() => { if (place.clientWidth) drawn.setSize({ width: place.clientWidth, height: HEIGHT }); });
  room.observe(place);
  const set = (data) => {
    const { min, max } = drawn.scales.x, before = drawn.data[0];
    const isZoomed = min > before[0] || max < before.at(-1);
    drawn.setData(data, !isZoomed);
    if (isZoomed) drawn.redraw();
  };
  return { place, drawn, set, end: () => { room.disconnect(); drawn.destroy(); } };
}

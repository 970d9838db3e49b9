/** Fleets: which there are, and one with how its series are forecast, the worst first. */

import { button, get } from "./api.js";
import { ago, byName, count, facts, h, runs, section, short, stamp, table } from "./dom.js";
import { readings } from "./feeds.js";
import { may } from "./service.js";

const REFRESH = 10_000; // ms between two looks: a look is at all series
const PAGE = 200;

const share = (part) => (part == null ? null : `${Math.round(100 * part)} %`);
const link = (one) => h("a", { href: `#/feeds/${one.feed}` }, one.series);

/** The fleets as a table, or nothing where there is none. */
export async function fleets(place) {
  const { fleets: all } = await get("/fleets");
  place.replaceChildren(...(all.length ? [section("Fleets", table("Fleets", ["Fleet", "State", "Target", "Series", "Steps", "Created"],
    all.toSorted((a, b) => byName(a.id, b.id)).map((fleet) => [h("a", { href: `#/fleets/${fleet.id}` }, fleet.id), fleet.state, fleet.settings.target, count(fleet.series), steps(fleet.settings), ago(fleet.created_at)])))] : []));
}

const steps = ({ steps }) => (typeof steps === "number" ? (steps > 1 ? `1 to ${steps}` : "1") : runs(steps));

/** One fleet. */
export function fleet(main, id) {
  const places = { facts: h("div"), worst: h("div"), all: h("div") };
  const again = button("Show more", more);
  let due = null, after = "", listed = [];
  main.replaceChildren(h("h1", {}, id), places.facts, section("Forecast worst", places.worst), section("All series", places.all, again), may("learn") ? readings(id, "fleets") : "");

  async function refresh() {
    try {
      const now = await get(`/fleets/${id}`), scores = now.scores;
      places.facts.replaceChildren(facts({
        State: now.state, Series: count(now.series), "In state": Object.entries(now.states).map(([name, n]) => `${count(n)} ${name}`).join(", "), Readings: count(now.position),
        "Ahead of naive forecasts": share(scores.ahead_of_naive), "Error against naive, median": scores.median == null ? null : short(scores.median), "Mean": scores.mean == null ? null : short(scores.mean), "Coverage of the band": share(scores.coverage),
        Target: now.settings.target, Steps: steps(now.settings), Season: now.settings.chosen?.season || null, Source: now.source?.state,
      }), now.source?.fault ? h("p", { class: "banner wrong", role: "alert" }, now.source.fault) : "");
      places.worst.replaceChildren(now.worst.length ? rows("The worst series", now.worst) : h("p", { class: "quiet" }, "Nothing has been scored yet."));
    } catch (problem) {
      places.facts.replaceChildren(h("p", { class: "banner wrong", role: "alert" }, problem.message));
    }
    due = setTimeout(refresh, REFRESH);
  }

  async function more() {
    const found = await get(`/fleets/${id}/series?limit=${PAGE}${after && `&after=${encodeURIComponent(after)}`}`);
    listed = [...listed, ...found.series].sort((a, b) => byName(a.series, b.series));
    after = found.next ?? after;
    again.hidden = found.next == null;
    places.all.replaceChildren(listed.length ? rows("All series", listed) : h("p", { class: "quiet" }, "There is no series yet."));
    return "";
  }

  refresh();
  more().catch(() => {});
  return () => clearTimeout(due);
}

function rows(caption, all) {
  return table(caption, ["Series", "State", "Readings", "Newest", "Error against naive", "Coverage of the band"],
    all.map((one) => [link(one), one.error ?? one.state, count(one.position), one.time == null ? "–" : stamp(one.time), one.ratio == null ? "–" : short(one.ratio), share(one.coverage) ?? "–"]));
}

/** Which screen is shown: by the part of the address behind #. Screens other than the first are loaded when they are asked for. */

import { button, get, key } from "./api.js";
import * as banner from "./banner.js";
import { field, h } from "./dom.js";
import { overview } from "./overview.js";
import { has, listen, may, service } from "./service.js";

const main = document.getElementById("main");

/** Pattern of an address, and what shows it; it returns what ends it. */
const SCREENS = [
  [/^\/?$/, async () => overview],
  [/^\/data$/, async () => (await import("./data.js")).data],
  [/^\/feeds$/, async () => (await import("./feeds.js")).feeds],
  [/^\/feeds\/([^/]+(?:\/[^/]+)?)$/, async () => (await import("./feeds.js")).feed],
  [/^\/fleets\/([^/]+)$/, async () => (await import("./fleets.js")).fleet],
  [/^\/models\/([^/]+)$/, async () => (await import("./model.js")).model],
  [/^\/models\/([^/]+)\/path$/, async () => (await import("./path.js")).path],
  [/^\/models\/([^/]+)\/erase$/, async () => (await import("./erase.js")).erase],
  [/^\/models\/([^/]+)\/labels$/, async () => (await import("./labels.js")).labels],
  [/^\/webhooks$/, async () => (await import("./webhooks.js")).webhooks],
  [/^([^]*)$/, async () => unknown],
];

/** An address as a person writes it; as it is where it is no text in that form. */
function decoded(address) {
  try {
    return decodeURI(address);
  } catch {
    return address;
  }
}

function unknown(main, address) {
  main.replaceChildren(h("h1", {}, "There is no such page"),
    h("p", {}, `Nothing is at ${address}. `, h("a", { href: "#/" }, "See all models"), "."));
}

let leave = () => {}, turn = 0;

async function show() {
  const mine = ++turn, address = decoded(location.hash.slice(1));
  const [pattern, load] = SCREENS.find(([pattern]) => pattern.test(address));
  const screen = await load();
  if (mine !== turn) return;
  leave();
  leave = () => {};
  document.title = address.length > 1 ? `${address.split("/")[2] ?? "Data"} · LiveSVM` : "LiveSVM";
  leave = screen(main, ...address.match(pattern).slice(1)) ?? (() => {});
  navigation(address);
  if (mine > 1) main.focus({ preventScroll: true });
}

function navigation(address) {
  const here = address || "/";
  const current = (href) => (here === href ? "page" : href !== "/" && here.startsWith(`${href}/`) ? "true" : null);
  const link = (href, label, inside = href) => h("a", { href: `#${href}`, "aria-current": current(href) ?? current(inside) }, label);
  document.getElementById("nav").replaceChildren(
    link("/", "Models", "/models"),
    ...(has("/feeds") ? [link("/feeds", "Feeds", "/fleets")] : []),
    ...(may("admin") ? [link("/data", "Data in"), link("/webhooks", "Webhooks")] : []),
    h("a", { href: "help" }, "Help"),
    h("a", { href: "docs" }, "API"),
    ...(service.access.keys ? [h("button", { type: "button", class: "plain", onclick: forget }, `Forget the key (${service.access.label}, ${service.access.scope})`)] : []),
  );
}

function forget() {
  key.clear();
  location.reload();
}

/** Ask for a key until one is given that the service knows. */
function askForKey(wrong) {
  leave();
  leave = () => {};
  service.connection = "over";
  banner.show();
  const given = h("input", { type: "password", autocomplete: "off", required: true, "aria-invalid": wrong && "true" });
  const enter = async () => {
    key.set(given.value.trim());
    if (!(await start())) throw new Error("That is no key of this service.");
  };
  const form = h("form", { onsubmit: (event) => { event.preventDefault(); form.querySelector("button").click(); } },
    field("API key", given, "Kept for this tab alone, and forgotten with it. The command “livesvm key” makes one."), button("Enter", enter));
  main.replaceChildren(h("h1", {}, "This service asks for a key"), form);
  given.focus();
}

/** Begin with the key of this tab; whether it is one of the service. */
async function start() {
  service.access = await get("/access");
  if (service.access.scope === null) {
    const wrong = key.get() !== null;
    key.clear();
    if (!main.querySelector("form")) askForKey(wrong);
    return false;
  }
  listen();
  await show();
  return true;
}

async function begin() {
  banner.begin();
  window.addEventListener("hashchange", () => service.access?.scope && show());
  window.addEventListener("key-needed", () => { if (key.get() !== null) { key.clear(); askForKey(true); } });
  for (;;) {
    try {
      return await start();
    } catch {
      service.connection = "lost";
      service.reason = "it does not answer";
      banner.show();
      await new Promise((done) => setTimeout(done, 2000));
    }
  }
}

begin();

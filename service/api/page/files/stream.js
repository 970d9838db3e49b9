/** Server-sent events by fetch, which can send a key; a stream that breaks is asked for again. */

import { headers, problemOf } from "./api.js";

const SILENCE = 60_000; // ms; the service says every quarter of a minute that it is there
const LONGEST = 5_000; // ms between two tries
const HIDDEN = 30_000; // ms out of sight after which nothing is asked for

/**
 * Watch a path until the function returned is called.
 *
 * `tell(name, data)` gets every event; `said(state, reason)` gets `open`, `lost` (it is tried again) or `over`.
 */
export function watch(path, tell, said = () => {}) {
  let ended = false, control = null, hiding = null, wake = () => {};

  const pause = (ms) => new Promise((done) => {
    const timer = setTimeout(done, ms);
    wake = () => { clearTimeout(timer); done(); };
  });

  async function read() {
    control = new AbortController();
    const answer = await fetch(`.${path}`, { headers: headers({ accept: "text/event-stream" }), signal: control.signal, cache: "no-store" });
    if (!answer.ok) throw await problemOf(answer);
    said("open");
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const silent = setTimeout(() => control.abort(), SILENCE);
      const { value, done } = await reader.read().finally(() => clearTimeout(silent));
      if (done) return;
      const blocks = (rest + value).split("\n\n");
      rest = blocks.pop();
      for (const block of blocks) hear(block);
    }
  }

  function hear(block) {
    const lines = block.split("\n").filter((line) => !line.startsWith(":"));
    const of = (name) => lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
    if (!ended && of("data") !== undefined) tell(of("event"), JSON.parse(of("data")));
  }

  async function run() {
    for (let failed = 0; !ended; failed++) {
      try {
        await read();
        failed = 0;
        if (!ended) said("lost", "the stream has ended");
      } catch (error) {
        if (ended) return;
        if ([401, 403, 404].includes(error.status)) return said("over", error.message);
        said("lost", error.status ? error.message : "the service does not answer");
      }
      if (!ended) await pause(Math.min(LONGEST, 500 * 2 ** failed));
      while (!ended && document.hidden && hiding === "hidden") await pause(LONGEST);
    }
  }

  function seen() {
    if (document.hidden) {
      setTimeout(() => { if (document.hidden) { hiding = "hidden"; control?.abort(); } }, HIDDEN);
    } else {
      hiding = null;
      wake();
    }
  }

  document.addEventListener("visibilitychange", seen);
  run();
  return () => {
    ended = true;
    document.removeEventListener("visibilitychange", seen);
    control?.abort();
    wake();
  };
}

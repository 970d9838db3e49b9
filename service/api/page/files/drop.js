/** A place that files are dropped on, or chosen at by the keyboard. */

import { field, h } from "./dom.js";

/** The place; `take(file)` gets each file that comes. */
export function dropped(label, accept, hint, take) {
  const given = (file) => file && take(file);
  const file = h("input", { type: "file", accept, onchange: () => { given(file.files[0]); file.value = ""; } });
  const place = h("div", { class: "drop",
    ondragover: (event) => { event.preventDefault(); place.classList.add("over"); },
    ondragleave: () => place.classList.remove("over"),
    ondrop: (event) => { event.preventDefault(); place.classList.remove("over"); given(event.dataTransfer.files[0]); } },
  field(label, file, hint));
  return place;
}

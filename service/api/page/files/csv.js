/** Files as the service understands them: what one holds, and its rows as feeds, fleets and models take them. */

import { call } from "./api.js";

const path = (file, options) => `/inspect?${new URLSearchParams([["name", file.name], ...Object.entries(options).flatMap(([name, value]) => [value].flat().map((one) => [name, one]))])}`;
const BYTES = { type: "application/octet-stream" };

/** What `POST /inspect` answers; `options` are those of that call. */
export const inspect = (file, options = {}) => call("POST", path(file, options), file, BYTES);

/** All rows as CSV, as they are sent. */
export const sent = (file, options = {}) => call("POST", path(file, options), file, { ...BYTES, accept: "text/csv" });

/** Rows of cells of a CSV text; quotes as in RFC 4180. */
export function cut(text) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') { cell += '"'; i++; }
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === ",") { row.push(cell); cell = ""; }
    else if (c === "\n") { row.push(cell); rows.push(row); row = []; cell = ""; }
    else if (c !== "\r") cell += c;
  }
  if (cell || row.length) { row.push(cell); rows.push(row); }
  return rows;
}

/** Examples of a file: `{ columns, rows }`, columns with a `kind`, rows of cells as text. */
export async function table(file, options = {}) {
  const asked = { ...options, examples: true };
  const [{ columns }, text] = await Promise.all([inspect(file, asked), sent(file, asked)]);
  return { columns, rows: cut(text).slice(1) };
}

/** A row of cells as text by the names of a model's columns; an empty cell is missing. */
export const named = (names, cells) => Object.fromEntries(names.map((name, j) => [name, cells[j] || null]));

/** Examples for a model: its columns by name and one of targets, or numbers in order and then the target. */
export async function examplesFrom(file, { columns: own, n_features: d, task }) {
  const { columns, rows } = await table(file);
  const hasTarget = task !== "oneclass", wanted = d + (hasTarget ? 1 : 0);
  if (Array.isArray(own)) {
    const names = own.map(({ name }) => name), at = names.map((name) => columns.findIndex(({ column }) => column === name));
    const rest = columns.filter(({ column }) => !names.includes(column)), y = columns.indexOf(rest[0]);
    if (at.includes(-1)) throw new Error(`The file has no column “${names[at.indexOf(-1)]}”, which the model has.`);
    if (rest.length !== wanted - d) throw new Error(`The file has ${rest.length} columns that the model does not have; ${hasTarget ? "one holds the targets" : "none may be there"}.`);
    const X = { rows: rows.map((row) => named(names, at.map((j) => row[j]))) };
    return hasTarget ? { ...X, y: rows.map((row) => (rest[0].kind === "number" ? Number(row[y]) : row[y])) } : X;
  }
  if (columns.length !== wanted) throw new Error(`The file has ${columns.length} columns; this model needs ${d} features${hasTarget ? " and then the target" : ""}.`);
  const words = task === "svc" ? columns[d] : null; // labels may be words
  const wrong = columns.find((column, j) => (column.kind !== "number" && column !== words) || rows.some((row) => row[j] === ""));
  if (wrong) throw new Error(`Column “${wrong.column}” holds what is no number.`);
  const X = rows.map((row) => row.slice(0, d).map(Number));
  return hasTarget ? { X, y: rows.map((row) => (columns[d].kind === "number" ? Number(row[d]) : row[d])) } : { X };
}

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

/** Examples for a model: `d` columns of numbers, then the target where the task has one. */
export async function examplesFrom(file, d, task) {
  const { columns, rows } = await table(file);
  const hasTarget = task !== "oneclass", wanted = d + (hasTarget ? 1 : 0);
  if (columns.length !== wanted) throw new Error(`The file has ${columns.length} columns; this model needs ${d} features${hasTarget ? " and then the target" : ""}.`);
  const words = task === "svc" ? columns[d] : null; // labels may be words
  const wrong = columns.find((column, j) => (column.kind !== "number" && column !== words) || rows.some((row) => row[j] === ""));
  if (wrong) throw new Error(`Column “${wrong.column}” holds what is no number.`);
  const X = rows.map((row) => row.slice(0, d).map(Number));
  return hasTarget ? { X, y: rows.map((row) => (columns[d].kind === "number" ? Number(row[d]) : row[d])) } : { X };
}

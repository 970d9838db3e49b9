/** Text with columns: how it is cut, which columns are numbers, times or words. */

const SEPARATORS = [",", ";", "\t"];

/** Rows of cells; quotes as in RFC 4180. */
function cut(text, separator) {
  const rows = [];
  let row = [], cell = "", quoted = false;
  for (let i = 0; i < text.length; i++) {
    const c = text[i];
    if (quoted) {
      if (c !== '"') cell += c;
      else if (text[i + 1] === '"') { cell += '"'; i++; }
      else quoted = false;
    } else if (c === '"') quoted = true;
    else if (c === separator) { row.push(cell); cell = ""; }
    else if (c === "\n") { row.push(cell); rows.push(row); row = []; cell = ""; }
    else if (c !== "\r") cell += c;
  }
  if (cell || row.length) { row.push(cell); rows.push(row); }
  return rows.filter((cells) => cells.some((one) => one.trim()));
}

const isNumber = (text) => text.trim() !== "" && Number.isFinite(Number(text));
const isTime = (text) => /^\d{4}-\d{2}-\d{2}/.test(text.trim()) && !Number.isNaN(Date.parse(text.trim()));

function kindOf(cells) {
  const given = cells.filter((cell) => cell.trim() !== "");
  if (given.length && given.every(isNumber)) return "number";
  if (given.length && given.every(isTime)) return "time";
  return "text";
}

/** `{ columns: [{ name, kind, cells, distinct }], n }`; raises Error where it is no table. */
export function parse(text) {
  const first = text.slice(0, text.indexOf("\n") + 1 || text.length);
  const separator = SEPARATORS.reduce((best, one) => (first.split(one).length > first.split(best).length ? one : best));
  const rows = cut(text.replace(/^\uFEFF/, ""), separator);
  if (!rows.length) throw new Error("The file holds no rows.");
  const width = rows[0].length, hasNames = rows[0].every((cell) => !isNumber(cell));
  const body = hasNames ? rows.slice(1) : rows;
  if (!body.length) throw new Error("The file holds names of columns, and no rows.");
  const uneven = body.findIndex((row) => row.length !== width);
  if (uneven >= 0) throw new Error(`Row ${uneven + 1} has ${body[uneven].length} columns, the first has ${width}.`);
  const columns = Array.from({ length: width }, (_, j) => {
    const cells = body.map((row) => row[j]);
    return { name: hasNames ? rows[0][j].trim() || `column ${j + 1}` : `column ${j + 1}`, kind: kindOf(cells), cells, distinct: new Set(cells.map((cell) => cell.trim()).filter(Boolean)) };
  });
  return { columns, n: body.length };
}

/** A cell of a column of labels: a number where all of them are. */
export const labelOf = (column, cell) => (column.kind === "number" ? Number(cell) : cell.trim());

/** Examples for a model: `d` columns of numbers, then the target where the task has one. */
export async function examplesFrom(file, d, task) {
  const { columns, n } = parse(await file.text());
  const hasTarget = task !== "oneclass", wanted = d + (hasTarget ? 1 : 0);
  if (columns.length !== wanted) throw new Error(`The file has ${columns.length} columns; this model needs ${d} features${hasTarget ? " and then the target" : ""}.`);
  const words = task === "svc" ? columns[d] : null; // labels may be words
  const wrong = columns.find((column) => (column.kind !== "number" && column !== words) || column.cells.some((cell) => cell.trim() === ""));
  if (wrong) throw new Error(`Column “${wrong.name}” holds what is no number.`);
  const X = Array.from({ length: n }, (_, i) => columns.slice(0, d).map((column) => Number(column.cells[i])));
  if (!hasTarget) return { X };
  const target = columns[d];
  return { X, y: target.cells.map((cell) => labelOf(target, cell)) };
}

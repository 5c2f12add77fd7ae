// Numbers and names in words: the rules of src/hosted/number_words.c and src/report/report_words.c,
// so that the page, the report and the terminal say the same. Printf rounds halves to even where
// toFixed rounds them up, which is why there is `fixed`.
import { abs, floor, round } from "./arithmetic";

export function fixed(value: number, digits: number): string {
  const half = value * 2 ** (digits + 1); // an exact half can only be an odd multiple of 2^-(digits+1)
  if (Number.isInteger(half) && half % 2 !== 0) {
    const low = floor(value * 10 ** digits);
    if (value * 10 ** digits - low === 0.5)
      return ((low % 2 === 0 ? low : low + 1) / 10 ** digits).toFixed(digits);
  }
  return value.toFixed(digits);
}

// printf's %.3g for 1 <= value < 999.5
function three(value: number): string {
  const digits = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
  const text = fixed(value, digits);
  return digits ? text.replace(/\.?0+$/, "") : text;
}

export function count(n = 0): string {
  const text = abs(round(n)).toString().replace(/\B(?=(\d{3})+$)/g, ",");
  return n < 0 ? "−" + text : text;
}

// For headlines: "1.25 million".
export function short(n = 0): string {
  return n >= 999.5e6 ? `${three(n / 1e9)} billion` : n >= 999.5e3 ? `${three(n / 1e6)} million` : count(n);
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function bytes(n = 0): string {
  if (n < 0) return "−" + bytes(-n);
  let unit = 0;
  let value = n;
  while (value >= 1023.95 && unit < 6) {
    value /= 1024;
    unit++;
  }
  return unit ? `${fixed(value, 1)} ${UNITS[unit]}` : `${round(n)} B`;
}

export function exactBytes(n = 0): string {
  return `${count(n)} ${abs(n) === 1 ? "byte" : "bytes"}`;
}

export function duration(ns = 0): string {
  if (ns < 1000) return `${round(ns)} ns`;
  if (ns < 999.5e3) return `${three(ns / 1e3)} us`;
  if (ns < 999.5e6) return `${three(ns / 1e6)} ms`;
  if (ns < 100e9) return `${fixed(ns / 1e9, 2)} s`;
  if (ns < 7200e9) return `${fixed(ns / 1e9, 0)} s`;
  return `${fixed(ns / 3600e9, 1)} h`;
}

// undefined: no block was freed.
export function lifetime(ns: number | undefined): string {
  return ns === undefined ? "–" : duration(ns);
}

export function rate(n: number, ns: number): string {
  const r = ns > 0 ? (n * 1e9) / ns : 0;
  if (r >= 999.5e3) return `${fixed(r / 1e6, 2)} M/s`;
  if (r >= 9999.5) return `${fixed(r / 1e3, 0)} k/s`;
  return `${count(Math.round(r))}/s`;
}

export function share(part = 0, of = 0): string {
  return of > 0 ? `${fixed((100 * part) / of, 1)} %` : "-";
}

// "1 block", "2 blocks"
export function several(n = 0, one: string, ending = "s"): string {
  return `${count(n)} ${one}${n === 1 ? "" : ending}`;
}

export type Unit = "bytes" | "count";

export function amount(n: number, unit: Unit): string {
  return unit === "bytes" ? bytes(n) : count(n);
}
// For headlines, where no column says what is counted.
export function withUnit(n: number, unit: Unit): string {
  return unit === "bytes" ? bytes(n) : several(n, "block");
}
export function exactAmount(n: number, unit: Unit): string {
  return unit === "bytes" ? exactBytes(n) : several(n, "block");
}
export function signed(n: number, unit: Unit): string {
  return n > 0 ? "+" + amount(n, unit) : amount(n, unit);
}

// Control characters, direction marks and the like would change how the text around them reads.
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]/g;

export function clean(name: string): string {
  return name.replace(/[\t\n\r]+/g, " ").replace(UNSEEN, "\ufffd");
}

// For lines and cells: cut in the middle, since both ends of a long name tell something.
export function brief(name: string, most = 120): string {
  const text = clean(name);
  if (text.length <= most) return text;
  const tail = floor(most / 3);
  return text.slice(0, most - tail - 1) + "…" + text.slice(text.length - tail);
}

// A finding's sentence below its kind, which it does not repeat. A function's name at its start stays as it is.
export function claim(kind: string, summary: string): string {
  const title = kind.replace(/[-_]/g, " ") + ": ";
  const text = brief(summary.startsWith(title) ? summary.slice(title.length) : summary, 900);
  return text.replace(/^\w(?=(hread|emory|he|n) )/, (c) => c.toUpperCase()); // thread, memory, the, in
}

// A regular expression that means this text.
export function quoted(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

export function baseName(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

export function placeWords(p: { file: string; line: number; module: string }): string {
  if (p.file) return brief(baseName(p.file), 60) + (p.line ? ":" + p.line : "");
  return brief(baseName(p.module), 60);
}

export function threadWords(tid: number, name: string): string {
  return name ? `${clean(name.slice(0, 100))} (${tid})` : `thread ${tid}`;
}

export function functionWords(name: string, most = 120): string {
  return name ? brief(name, most) : "(no name)";
}

// Math's functions by their own names: read more easily in formulas, and minified to a letter.
export const { abs, ceil, floor, log, max, min, round } = Math;

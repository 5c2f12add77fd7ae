// Facts printed by the C side's own functions (printf rounds halves to even).
import assert from "node:assert/strict";
import test from "node:test";
import { brief, bytes, claim, clean, count, duration, exactBytes, fixed, placeWords, rate, share, signed } from "./words";

test("bytes: the unit that fits, the next one from 1023.95 on, halves to even", () => {
  const facts: [number, string][] = [[0, "0 B"], [1, "1 B"], [1023, "1023 B"], [1024, "1.0 KiB"], [1280, "1.2 KiB"], [1792, "1.8 KiB"],
    [1048524, "1023.9 KiB"], [1048525, "1.0 MiB"], [5221400, "5.0 MiB"], [90531600, "86.3 MiB"], [2 ** 53, "8.0 PiB"], [-1536, "−1.5 KiB"]];
  for (const [n, words] of facts) assert.equal(bytes(n), words);
  assert.equal(exactBytes(5221400), "5,221,400 bytes");
  assert.equal(exactBytes(1), "1 byte");
});

test("durations: three digits, seconds with two", () => {
  const facts: [number, string][] = [[0, "0 ns"], [999, "999 ns"], [1000, "1 us"], [182802, "183 us"], [999499, "999 us"], [999500, "1 ms"],
    [6492549, "6.49 ms"], [916543307, "917 ms"], [999500000, "1.00 s"], [51806914033, "51.81 s"], [100e9, "100 s"], [7200e9, "2.0 h"]];
  for (const [n, words] of facts) assert.equal(duration(n), words);
});

test("a finding's sentence does not repeat its kind, and leaves names alone", () => {
  assert.equal(claim("unbounded-queue", 'unbounded queue: thread "a" makes'), 'Thread "a" makes');
  assert.equal(claim("unbounded-queue", "unbounded queue: make_it (a.c:1) makes"), "make_it (a.c:1) makes");
  assert.equal(claim("growing-site", "memory from f grows"), "Memory from f grows");
  assert.equal(claim("growing-site", "in server (pid 1): memory"), "In server (pid 1): memory");
});

test("counts, rates, shares, signs", () => {
  assert.equal(count(0), "0");
  assert.equal(count(1234567), "1,234,567");
  assert.equal(count(-1000), "−1,000");
  assert.equal(rate(10003, 916543307), "11 k/s");
  assert.equal(rate(5, 1e9), "5/s");
  assert.equal(rate(2e6, 1e9), "2.00 M/s");
  assert.equal(share(1, 8), "12.5 %");
  assert.equal(share(1, 0), "-");
  assert.equal(signed(1024, "bytes"), "+1.0 KiB");
  assert.equal(signed(-3, "count"), "−3");
});

test("fixed rounds as printf does", () => {
  assert.equal(fixed(0.25, 1), "0.2");
  assert.equal(fixed(0.75, 1), "0.8");
  assert.equal(fixed(0.35, 1), "0.3"); // 0.35 is a little less
  assert.equal(fixed(2.5, 0), "2");
  assert.equal(fixed(1.125, 2), "1.12");
});

test("names are made inert and cut in the middle", () => {
  assert.equal(clean("a\u001b[31mb\u202ec\u0000"), "a\ufffd[31mb\ufffdc\ufffd");
  assert.equal(clean("two\r\n\tlines"), "two lines");
  assert.equal(clean("<script>"), "<script>"); // text stays text
  const long = "begin" + "x".repeat(10000) + "end";
  assert.equal(brief(long).length, 120);
  assert.match(brief(long), /^beginx+…x+end$/);
  assert.equal(placeWords({ file: "/a/b/c.c", line: 7, module: "m" }), "c.c:7");
  assert.equal(placeWords({ file: "", line: 0, module: "/lib/libx.so" }), "libx.so");
});

// Loads Valgrind's own dh_view.js, lets it read a file of DHAT's format and prints the tree that it
// built, as JSON. There is no browser: what the viewer touches of a page while it loads and builds
// is stood in for, and its own code does the rest.
//
//     node dhat_tree.js dh_view.js FILE
"use strict";
const fs = require("fs");
const vm = require("vm");

const [, , viewer, file] = process.argv;
const after = `
gData = JSON.parse(input);
gSelect = { selectedIndex: 1, childNodes: gSelectData.map(() => ({})) };
buildTree();
function plain(t) {
  return {
    frames: t._frames.map((f) => gData.ftbl[f]),
    leaf: t._kind === kLeaf,
    tb: t._totalBytes, tbk: t._totalBlocks, tl: t._totalLifetimes,
    gb: t._atTGmaxBytes, gbk: t._atTGmaxBlocks, eb: t._atTEndBytes, ebk: t._atTEndBlocks,
    kids: (t._kids || []).map(plain),
  };
}
JSON.stringify({ command: gData.cmd, te: gData.te, tg: gData.tg, root: plain(gRoot) });
`;
const page = { document: { title: "" }, input: fs.readFileSync(file, "utf8"), console };
const source = fs.readFileSync(viewer, "utf8");
process.stdout.write(vm.runInNewContext(source + after, page, { filename: viewer }) + "\n");

// Builds the page: one HTML file with its style and script inside, and the Content-Security-Policy
// that lets exactly these two in.
//
//   node build_page.mjs install DIR        the packages of package-lock.json into DIR/node_modules
//   node build_page.mjs page DIR OUT CSP   heft.html, and the policy as a C string
//   node build_page.mjs check DIR          types, size and the unit tests (src/*.test.ts)
//
// DIR is in the build directory: nothing is ever written beside the sources. Imports are found there
// by nodePaths (esbuild) and by a tsconfig.json that extends ours (tsc).
import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { createRequire } from "node:module";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";

const OLDEST_NODE = 18; // Debian 12's: no import.meta.dirname, which came with 20.11
const here = path.dirname(fileURLToPath(import.meta.url));
const [task, folder, ...rest] = process.argv.slice(2);
const dir = path.resolve(folder);
const modules = path.join(dir, "node_modules");

// The reason of a failure stays in DIR/why_no_page.txt: tools/configure.sh shows it when all is built.
function install() {
  const stamp = path.join(modules, ".heft-lock");
  const why = path.join(dir, "why_no_page.txt");
  const lock = fs.readFileSync(path.join(here, "package-lock.json"), "utf8");
  fs.mkdirSync(dir, { recursive: true });
  fs.rmSync(why, { force: true });
  const refuse = (reason) => {
    fs.writeFileSync(why, reason + "\n");
    console.error(reason);
    process.exitCode = 1;
  };
  if (Number(process.versions.node.split(".")[0]) < OLDEST_NODE)
    return refuse(`node ${process.versions.node} is too old: ${OLDEST_NODE} or later is needed`);
  if (fs.existsSync(stamp) && fs.readFileSync(stamp, "utf8") === lock) return;
  for (const name of ["package.json", "package-lock.json"])
    fs.copyFileSync(path.join(here, name), path.join(dir, name));
  const npm = spawnSync("npm", ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error",
    "--prefer-offline", "--fetch-retries=1", "--fetch-timeout=20000"],
    { cwd: dir, stdio: ["ignore", "ignore", "pipe"], encoding: "utf8", timeout: 180000 });
  if (npm.status !== 0) {
    const words = (npm.stderr || "").split("\n").filter((line) => /^npm (ERR!|error) /.test(line))
      .map((line) => line.replace(/^npm (ERR!|error) /, "").trim()).filter((line) => line);
    return refuse("npm cannot install the packages of web/package-lock.json: " +
      (words.slice(0, 3).join("; ") || npm.error?.message || `status ${npm.status}`));
  }
  fs.writeFileSync(stamp, lock);
}

function esbuild() {
  return createRequire(path.join(modules, "x.js"))("esbuild");
}

const MOST_BYTES = 136_000; // of the minified script

const settings = {
  bundle: true, minify: true, write: false, format: "iife", target: "es2022", charset: "utf8",
  jsx: "transform", jsxFactory: "jsxElement", jsxFragment: "JsxFragment", inject: ["src/jsx_factory.ts"], legalComments: "none", absWorkingDir: here,
  nodePaths: [modules], logLevel: "warning", tsconfigRaw: "{}",
};

async function bundle(build) {
  const script = await build({ ...settings, entryPoints: ["src/main.tsx"] });
  return Buffer.from(script.outputFiles[0].text.trim().replaceAll("</script", "<\\/script"));
}

async function page([out, csp]) {
  const { build, transform } = esbuild();
  const code = (await bundle(build)).toString();
  const style = (await transform(fs.readFileSync(path.join(here, "src/style.css"), "utf8"),
    { loader: "css", minify: true, charset: "utf8" })).code.trim();
  const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;
  const policy = `default-src 'none'; script-src ${hash(code)}; style-src ${hash(style)}; ` +
    "connect-src 'self'; img-src 'self' data: blob:; base-uri 'none'; form-action 'none'";
  const html = fs.readFileSync(path.join(here, "src/page.html"), "utf8")
    .replace("@POLICY@", () => policy).replace("@STYLE@", () => style).replace("@SCRIPT@", () => code);
  fs.writeFileSync(out, html);
  fs.writeFileSync(csp, `/* What the page may do; frame-ancestors works in a header only. */\n` +
    `#define HEFT_PAGE_POLICY "${policy}; frame-ancestors 'none'"\n`);
}

// TAP on stdout, as node writes it; types and size are two more tests.
async function check() {
  const config = path.join(dir, "tsconfig.json");
  fs.writeFileSync(config, JSON.stringify({
    extends: path.join(here, "tsconfig.json"),
    compilerOptions: { paths: { "*": ["./node_modules/*"] } },
    include: [path.join(here, "src")],
    exclude: [path.join(here, "src/*.test.ts")],
  }));
  const types = spawnSync(process.execPath, [path.join(modules, "typescript/bin/tsc"), "-p", config],
    { encoding: "utf8" });
  console.log(types.stdout + types.stderr);
  console.log(types.status === 0 ? "ok - types" : "not ok - types");
  const { build } = esbuild();
  const bytes = (await bundle(build)).length;
  console.log(`${bytes < MOST_BYTES ? "ok" : "not ok"} - the script has ${bytes} of at most ${MOST_BYTES} bytes`);
  const names = fs.readdirSync(path.join(here, "src")).filter((n) => n.endsWith(".test.ts"));
  const outdir = path.join(dir, "tests");
  fs.rmSync(outdir, { recursive: true, force: true });
  await build({ ...settings, entryPoints: names.map((n) => "src/" + n), minify: false, write: true,
    format: "esm", platform: "node", outdir, outExtension: { ".js": ".mjs" } });
  const tests = spawnSync(process.execPath, ["--test", "--test-reporter=tap",
    ...names.map((n) => path.join(outdir, n.replace(/ts$/, "mjs")))], { stdio: "inherit" });
  process.exitCode = types.status || tests.status || Number(bytes >= MOST_BYTES);
}

await { install, page, check }[task](rest);

/* Pages of Chromium for tests in Python: commands come as lines of JSON on stdin, each is answered by
   a line on stdout. Ends when stdin does. See browser.py.

   Starting Chromium takes seconds, so there is one for all pages with the same flags. Each page has a
   context of its own: cookies, storage and cache of one are not seen by another. */
'use strict';
const path = require('path');
const readline = require('readline');
const { chromium } = require(path.join(process.env.HEFT_NODE_MODULES, 'playwright-core'));

const LIMIT_MS = 60000;  // for a broken page only: a busy machine is slow
const browsers = new Map();  // by their flags
const pages = new Map();  // by number: { context, page, complaints, requests }

// The pages are ours: where Chromium cannot make its sandbox (as root, in a chroot, in a container),
// it goes without.
async function launch(settings) {
  const start = (more) => chromium.launch({
    executablePath: settings.chromium,
    args: [...more, ...(settings.flags || [])],
    timeout: 2 * LIMIT_MS,
  });
  if (process.getuid() !== 0) {
    try {
      return await start([]);
    } catch (error) {
      if (!/sandbox/i.test(String(error))) throw error;
    }
  }
  return start(['--no-sandbox']);
}

async function browser_with(settings) {
  const key = JSON.stringify(settings.flags || []);
  if (!browsers.has(key) || !browsers.get(key).isConnected()) browsers.set(key, await launch(settings));
  return browsers.get(key);
}

async function open(number, settings) {
  const browser = await browser_with(settings);
  const context = await browser.newContext({
    viewport: { width: settings.width, height: settings.height },
    colorScheme: settings.scheme,
  });
  const page = await context.newPage();
  const complaints = [], requests = [];
  page.setDefaultTimeout(LIMIT_MS);
  page.on('console', (m) => { if (['error', 'warning'].includes(m.type())) complaints.push(m.text()); });
  page.on('pageerror', (e) => complaints.push(String(e.stack || e)));
  page.on('crash', () => complaints.push('the page crashed'));
  page.on('dialog', (d) => { complaints.push('dialog: ' + d.message()); d.dismiss(); });
  page.on('request', (r) => requests.push(r.url()));
  pages.set(number, { context, page, complaints, requests });
  return null;
}

async function close(number) {
  const opened = pages.get(number);
  pages.delete(number);
  if (opened) await opened.context.close();
  return null;
}

const commands = {
  goto: (page, url) => page.goto(url).then(() => null),
  press: (page, key) => page.keyboard.press(key),
  type: (page, text) => page.keyboard.type(text),
  click: (page, x, y) => page.mouse.click(x, y),
  double_click: (page, x, y) => page.mouse.dblclick(x, y),
  move: (page, x, y) => page.mouse.move(x, y),
  size: (page, width, height) => page.setViewportSize({ width, height }),
  shift_click: async (page, x, y) => {
    await page.keyboard.down('Shift');
    await page.mouse.click(x, y);
    await page.keyboard.up('Shift');
  },
  drag: async (page, x, y, toX, toY) => {
    await page.mouse.move(x, y);
    await page.mouse.down();
    await page.mouse.move((x + toX) / 2, (y + toY) / 2, { steps: 4 });
    await page.mouse.move(toX, toY, { steps: 4 });
    await page.mouse.up();
  },
  click_on: (page, selector) => page.locator(selector).first().click(),
  download: async (page, selector) => {
    const [file] = await Promise.all([page.waitForEvent('download'), page.locator(selector).first().click()]);
    return { name: file.suggestedFilename(), path: await file.path() };
  },
  evaluate: (page, code) => page.evaluate(code),
  // Not waitForFunction: it evaluates inside the page, which a Content-Security-Policy forbids.
  wait: async (page, code) => {
    for (const end = Date.now() + LIMIT_MS; !(await page.evaluate(code));) {
      if (Date.now() > end) throw new Error(`not within ${LIMIT_MS} ms: ${code}`);
      await new Promise((done) => setTimeout(done, 20));
    }
    return null;
  },
  choose_file: (page, selector, file) => page.setInputFiles(selector, file),
  click_text: (page, text) => page.getByText(text, { exact: true }).first().click(),
  screenshot: (page, file) => page.screenshot({ path: file }).then(() => null),
};

async function perform(number, name, values) {
  if (name === 'open') return open(number, ...values);
  if (name === 'close') return close(number);
  const opened = pages.get(number);
  if (!opened) throw new Error(`there is no page ${number}`);
  if (name === 'complaints' || name === 'requests') return opened[name];
  return commands[name](opened.page, ...values);
}

(async () => {
  for await (const line of readline.createInterface({ input: process.stdin })) {
    const [number, name, ...values] = JSON.parse(line);
    let answer;
    try {
      answer = { value: await perform(number, name, values) };
    } catch (error) {
      answer = { error: String(error) };
    }
    console.log(JSON.stringify(answer));
  }
  for (const browser of browsers.values()) await browser.close();
})();

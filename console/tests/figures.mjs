// Measures pages and lists of a switch on an existing data directory, for
// docs/performance/console.md:
//
//   UPESI=../target/dist/upesi REPEATS=15 node tests/figures.mjs DATA_DIRECTORY
//
// Each figure is the median and the highest of REPEATS reads. Those of pages are from the click to
// the text on the screen.

import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { launch, logIn, open } from './browser.mjs';
import { PROGRAM, eventually } from './scheme.mjs';

const REPEATS = Number(process.env.REPEATS ?? 15);
const [data] = process.argv.slice(2);

const any = '127.0.0.1:0';
const child = spawn(PROGRAM, ['serve', '--data', data, '--fspiop', any, '--admin', any], {
  stdio: ['ignore', 'pipe', 'ignore'],
});
let output = '';
child.stdout.on('data', (text) => (output += text));
const begin = performance.now();
while (!/admin on \S+/.test(output)) {
  if (child.exitCode !== null) throw new Error(output);
  await new Promise((resolve) => setTimeout(resolve, 100));
}
console.log(`start: ${((performance.now() - begin) / 1000).toFixed(1)} s`);
const [, admin] = output.match(/admin on (http:[^\s,]+)/);
const token = readFileSync(`${data}/admin-token`, 'utf8').trim();

async function call(path) {
  const response = await fetch(admin + path, { headers: { Authorization: `Bearer ${token}` } });
  const body = await response.json();
  if (!response.ok) throw new Error(`${path}: ${JSON.stringify(body)}`);
  return body;
}

function print(name, times) {
  times.sort((one, other) => one - other);
  const middle = times[Math.floor(times.length / 2)];
  console.log(`${name}\t${middle.toFixed(0)} ms\t${times.at(-1).toFixed(0)} ms`);
}

/** Repeats `run`, which may return its own time. */
async function time(name, run) {
  const times = [];
  for (let count = 0; count < REPEATS; count += 1) {
    const from = performance.now();
    const took = await run(count);
    times.push(took ?? performance.now() - from);
  }
  print(name, times);
}

/** Payments of all ages: the last one before each of REPEATS moments since the first payment. */
async function spreadPayments(newest) {
  const before = async (moment) => {
    const to = new Date(moment).toISOString();
    return (await call(`/transfers?limit=1&to=${to}`)).transfers[0];
  };
  const end = Date.parse(newest);
  let [none, some] = [0, end];
  while (1_000 < some - none) {
    const middle = Math.floor((none + some) / 2);
    if ((await before(middle)) === undefined) none = middle;
    else some = middle;
  }
  const found = [];
  for (let count = 1; count <= REPEATS; count += 1) {
    found.push(await before(some + ((end - some) * count) / REPEATS));
  }
  return found.filter((payment) => payment !== undefined);
}

const { transfers } = await call('/transfers?limit=1000');
const spread = transfers.length === 0 ? [] : await spreadPayments(transfers[0].changedDate);
if (transfers.length > 0) {
  const status = await call('/status');
  console.log(`final transfers: ${status.transfers.committed + status.transfers.aborted}`);
  const [{ payer, changedDate, currency }] = transfers;
  const middle = spread[Math.floor(spread.length / 2)];
  for (const [name, query] of [
    ['newest', ''],
    ['participant', `&participant=${payer}`],
    ['state committed', '&state=COMMITTED'],
    ['state aborted', '&state=ABORTED'],
    ['state reserved', '&state=RESERVED'],
    ['cause expired', '&cause=EXPIRED'],
    ['before a time', `&to=${middle.changedDate}`],
    ['from a time', `&from=${middle.changedDate}`],
    ['amount', '&amountMin=50&amountMax=51'],
    ['a rare amount', '&amountMin=99.99&amountMax=99.99'],
    ['an amount that none has', '&amountMin=1000000'],
    ['currency', `&currency=${currency}`],
    ['all together', `&participant=${payer}&state=COMMITTED&to=${changedDate}&amountMin=50&currency=${currency}`],
  ]) {
    let found = 0;
    await time(`list of 50, ${name}`, async () => {
      found = (await call(`/transfers?limit=50${query}`)).transfers.length;
    });
    console.log(`  ${found} found`);
  }
}

const browser = await launch();
/**
 * The first paint of a page in a new context without a cache. Nothing listens to its requests, and
 * nothing searches its elements, because both delay it.
 */
async function firstPaint(path) {
  const context = await browser.newContext({ baseURL: admin });
  const fresh = await context.newPage();
  await fresh.goto(path);
  const paint = await eventually(
    () => fresh.evaluate(() => performance.getEntriesByName('first-contentful-paint')[0]?.startTime),
    'the first paint',
  );
  await context.close();
  return paint;
}

// In turns with a file of plain text, whose first paint is the browser's own cost.
const paints = [];
const plainPaints = [];
for (let count = 0; count < REPEATS; count += 1) {
  paints.push(await firstPaint('/console/'));
  plainPaints.push(await firstPaint('/console/licences.txt'));
}
print('first contentful paint', paints);
print('first contentful paint of plain text', plainPaints);

const { page } = await open(browser, { admin });
await logIn(page, { token });
if (transfers.length > 0) {
  await time('a payment found by its id and shown', async (count) => {
    const { transferId } = spread[count % spread.length];
    await page.goto('/console/#/transfers');
    await page.getByLabel('Transfer id').fill(transferId);
    const from = performance.now();
    await page.getByLabel('Transfer id').press('Enter');
    await page.getByRole('region', { name: 'Timeline' }).waitFor();
    return performance.now() - from;
  });
}
for (const [name, path, text] of [
  ['callbacks', 'callbacks', /dead letters? match/],
  ['outbox', 'log/outbox', /callbacks? (is|are) owed/],
  ['participants', 'participants', /of \d+ participants/],
  ['payments', 'transfers', /Payments, newest first|No payment matches/],
]) {
  await time(`page ${name}`, async () => {
    await page.goto('/console/#/system');
    await page.getByRole('heading', { name: 'System' }).waitFor();
    const from = performance.now();
    await page.goto(`/console/#/${path}`);
    await page.getByText(text).first().waitFor();
    return performance.now() - from;
  });
}
await browser.close();
child.kill('SIGTERM');

// Pages with 10,000 participants and many dead letters: they stay short and answer at once. The
// dead letters are those of real payments. Both are written into the log before the switch starts.
// UPESI_DEAD_LETTERS sets how many payments have them; the figures of docs/performance/console.md
// are those of a million.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkPage, launch, logIn, open } from './browser.mjs';
import { PROGRAM, Switch } from './scheme.mjs';

const BENCH =
  process.env.UPESI_BENCH ??
  fileURLToPath(new URL('../../target/debug/upesi-bench', import.meta.url));
const LETTERS = Number(process.env.UPESI_DEAD_LETTERS ?? 5_000);
const PARTICIPANTS = 9_990;
/**
 * The longest time to show a page, in milliseconds, on a machine that does much other work too. At
 * three tenths of a processor, the slowest page takes 5 s.
 */
const SHOWN_MAX = 20_000;
/** Elements of a page, so that a browser lays it out in milliseconds. */
const ELEMENTS_MAX = 25_000;

let hub, browser;

before(async () => {
  const fill = (data) => {
    const options = ['--total', String(LETTERS), '--dead-letters', '--program', PROGRAM];
    const participants = ['--participants', String(PARTICIPANTS)];
    execFileSync(BENCH, ['preload', '--data', data, ...options, ...participants], { stdio: 'pipe' });
  };
  hub = await Switch.start('', fill);
  browser = await launch();
});

after(async () => {
  await browser?.close();
  await hub?.stop();
});

/** Does something and waits for its result, within the longest time. */
async function timed(context, name, run) {
  const begin = performance.now();
  await run();
  const took = performance.now() - begin;
  context.diagnostic(`${name}: ${took.toFixed(0)} ms`);
  assert.ok(took < SHOWN_MAX, `${name}: ${took} ms`);
}

const elements = (page) => page.locator('*').count();

test('dead letters are counted, grouped and paged', async (context) => {
  const groups = await hub.call('GET', '/deadletters/groups');
  const count = groups.reduce((sum, group) => sum + group.count, 0);
  assert.ok(LETTERS <= count, String(count));
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  await timed(context, 'callbacks', async () => {
    await page.goto('/console/#/callbacks');
    await page.getByText(`${count.toLocaleString('en')} dead letters match.`).waitFor();
    await page.getByRole('table', { name: 'Dead letters', exact: true }).waitFor();
  });
  const rows = page.getByRole('table', { name: 'Dead letters', exact: true }).locator('tbody tr');
  assert.equal(await rows.count(), 100);
  const newest = await rows.first().innerText();
  await timed(context, 'older dead letters', async () => {
    await page.getByRole('button', { name: 'Older' }).click();
    await page.getByRole('button', { name: 'Newest' }).waitFor();
    await rows.nth(99).waitFor();
  });
  assert.notEqual(await rows.first().innerText(), newest);
  const [group] = groups;
  await page.getByLabel('Recipient').fill(group.recipient);
  await timed(context, 'dead letters of one participant', async () => {
    await page.getByRole('button', { name: 'Search' }).click();
    await page.getByText(/dead letters match/).waitFor();
    await rows.nth(99).waitFor();
  });
  assert.ok((await elements(page)) < ELEMENTS_MAX);
  await checkPage(page);
  await close();
});

test('10,000 participants are filtered and shown in parts', async (context) => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  const all = (await hub.call('GET', '/participants')).length;
  assert.ok(PARTICIPANTS < all);
  await timed(context, 'participants', async () => {
    await page.goto('/console/#/participants');
    await page.getByText(`${all} of ${all} participants`).waitFor();
  });
  const rows = page.getByRole('table', { name: 'All participants' }).locator('tbody tr');
  assert.equal(await rows.count(), 100);
  await timed(context, 'a filter of participants', async () => {
    await page.getByLabel('Name contains').fill('bank9989');
    await page.getByText(`1 of ${all} participants`).waitFor();
  });
  await page.getByLabel('Name contains').fill('');
  await page.getByRole('button', { name: 'Show more' }).click();
  await rows.nth(199).waitFor();
  assert.ok((await elements(page)) < ELEMENTS_MAX);
  for (const [path, heading] of [
    ['', 'Overview'],
    ['liquidity', 'Liquidity'],
    ['participants/bank9989', 'Participant'],
    ['log/outbox', 'Log'],
    ['transfers', 'Payments'],
  ]) {
    await timed(context, heading, async () => {
      await page.goto(`/console/#/${path}`);
      await page.getByRole('heading', { name: heading, exact: true }).waitFor();
      await page.waitForFunction(() => !document.body.textContent.includes('Loading…'));
    });
    assert.ok((await elements(page)) < ELEMENTS_MAX, heading);
  }
  await close();
});

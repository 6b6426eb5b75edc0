// The overview: it follows the switch without a reload, and shows what needs attention.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SCREENS, checkPage, launch, logIn, open } from './browser.mjs';
import { Callbacks, Switch, eventually, onboard, pay, prepare } from './scheme.mjs';

let hub, callbacks, browser;

before(async () => {
  hub = await Switch.start('[delivery]\nhorizon_seconds = 1\nbackoff_base_ms = 100\n');
  callbacks = await Callbacks.start();
  browser = await launch();
  await onboard(hub, callbacks, ['greenbank', 'bluebank']);
});

after(async () => {
  await browser?.close();
  await callbacks?.stop();
  await hub?.stop();
});

test('payments appear within seconds, without a reload', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  await page.getByText('Committed since the beginning').waitFor();
  const committed = () =>
    page.locator('.figure', { hasText: 'Committed since the beginning' }).locator('strong').innerText();
  assert.equal(await committed(), '0');
  for (let count = 0; count < 5; count += 1) await pay(hub, 'greenbank', 'bluebank', 1);
  await eventually(async () => ((await committed()) === '5' ? true : undefined), 'five payments');
  await page.locator('.spark path[d*="L"]').first().waitFor();
  await close();
});

test('the figures follow one stream, and are read each second if it fails', async () => {
  const { page, close } = await open(browser, hub);
  let requests = 0;
  page.on('request', (it) => (requests += new URL(it.url()).pathname === '/status' ? 1 : 0));
  await logIn(page, hub);
  const time = () => page.locator('.hint', { hasText: /^Upesi .* as of / }).innerText();
  const changes = async (count) => {
    for (let seen = await time(); 0 < count; count -= 1) {
      const before = seen;
      seen = await eventually(async () => {
        const now = await time();
        return now === before ? undefined : now;
      }, 'newer figures');
    }
  };
  await changes(3);
  assert.equal(requests, 1);
  assert.equal(await page.getByText('Live figures are interrupted').count(), 0);
  await page.route('**/status', (route) =>
    route.request().headers()['accept'] === 'text/event-stream'
      ? route.fulfill({ status: 429, body: '{}' })
      : route.continue(),
  );
  await page.reload();
  await page.getByText('Live figures are interrupted').waitFor();
  await changes(3);
  assert.ok(3 < requests);
  await page.unroute('**/status');
  await page.getByText('Live figures are interrupted').waitFor({ state: 'hidden' });
  await close();
});

test('dead letters and participants near their cap are shown', async () => {
  callbacks.status = 400;
  await prepare(hub, 'greenbank', 'bluebank', 450);
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  await page.getByRole('link', { name: '1 dead letter' }).click();
  await page.getByText('1 dead letter matches.').waitFor();
  await page.getByRole('link', { name: 'Overview' }).click();
  const near = page.getByRole('table', { name: 'Nearest to their cap or cover' });
  await near.getByRole('row', { name: /greenbank KES 455 500 91 %/ }).waitFor();
  await close();
});

test('the overview has no violation of accessibility on a desk and on a phone', async () => {
  for (const screen of SCREENS) {
    const { page, close } = await open(browser, hub, screen);
    await logIn(page, hub);
    await page.getByText('Committed since the beginning').waitFor();
    await checkPage(page);
    await close();
  }
});

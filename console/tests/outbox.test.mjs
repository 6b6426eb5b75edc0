// The outbox: messages that the switch owes to a participant without an endpoint.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { checkPage, launch, logIn, open } from './browser.mjs';
import { Callbacks, Switch, onboard, prepare } from './scheme.mjs';

let hub, callbacks, browser;

before(async () => {
  hub = await Switch.start();
  callbacks = await Callbacks.start();
  browser = await launch();
  await onboard(hub, callbacks, ['greenbank', 'bluebank']);
  await onboard(hub, undefined, ['mutebank']);
});

after(async () => {
  await browser?.close();
  await callbacks?.stop();
  await hub?.stop();
});

test('the outbox shows owed callbacks by participant, time and page', async () => {
  const owed = [];
  for (const amount of [1, 2, 3]) {
    owed.push((await prepare(hub, 'greenbank', 'mutebank', amount)).transferId);
  }
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/log');
  await page.getByRole('button', { name: 'Outbox' }).click();
  const table = page.getByRole('table', { name: 'Callbacks that the switch owes' });
  for (const id of owed) await table.getByRole('link', { name: id }).waitFor();
  await table.getByText('no usable endpoint is registered').first().waitFor();
  await checkPage(page);
  const show = page.getByRole('button', { name: 'Show', exact: true });
  await page.getByLabel('Recipient').fill('bluebank');
  await show.click();
  await page.getByText('No owed callback matches.').waitFor();
  await page.getByLabel('Recipient').fill('mutebank');
  await page.getByLabel('Owed since, before (UTC)').fill('2020-01-01T00:00');
  await show.click();
  await page.getByText('No owed callback matches.').waitFor();
  await page.getByLabel('Owed since, before (UTC)').fill('2100-01-01T00:00');
  await page.getByLabel('Owed since, from (UTC)').fill('2020-01-01T00:00');
  await show.click();
  await table.getByRole('link', { name: owed[0] }).waitFor();
  await page.getByLabel('Recipient').fill('stranger');
  await show.click();
  await page.getByRole('alert').waitFor();
  assert.match(page.url(), /#\/log\/outbox$/);
  await close();
});

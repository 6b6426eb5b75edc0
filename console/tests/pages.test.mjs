// Participants, callbacks and settlement: every change asks for a reason and shows what changes.

import assert from 'node:assert/strict';
import { generateKeyPairSync } from 'node:crypto';
import { after, before, test } from 'node:test';
import { SCREENS, checkPage, launch, logIn, open } from './browser.mjs';
import { Callbacks, Switch, eventually, onboard, pay, prepare } from './scheme.mjs';

const HOSTILE = '<img src=x onerror=alert(1)>';

let hub, callbacks, browser, unreachable;

before(async () => {
  hub = await Switch.start('[delivery]\nhorizon_seconds = 1\nbackoff_base_ms = 100\n');
  callbacks = await Callbacks.start();
  browser = await launch();
  await onboard(hub, callbacks, ['greenbank', 'bluebank']);
  await pay(hub, 'greenbank', 'bluebank', 25.5);
  unreachable = await Callbacks.start();
  unreachable.status = 400;
  await onboard(hub, unreachable, ['redbank']);
  await prepare(hub, 'greenbank', 'redbank', 2);
  await prepare(hub, 'greenbank', 'redbank', 3);
  await prepare(hub, 'greenbank', 'redbank', 4);
  await eventually(async () => {
    const letters = await hub.call('GET', '/deadletters');
    return letters.length === 3 ? letters : undefined;
  }, 'three dead letters');
});

after(async () => {
  await browser?.close();
  await callbacks?.stop();
  await unreachable?.stop();
  await hub?.stop();
});

/** Confirms the open dialog with a reason. */
async function confirm(page, reason) {
  const dialog = page.getByRole('dialog');
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await dialog.getByText('Reason: enter a value.').waitFor();
  await dialog.getByLabel('Reason').fill(reason);
  await dialog.getByRole('button', { name: 'Confirm' }).click();
}

test('a cap is changed with a reason, and a wrong value changes nothing', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/participants');
  await page.getByLabel('Name contains').fill('GREEN');
  await page.getByText('1 of 4 participants').waitFor();
  await page.getByRole('link', { name: 'greenbank' }).click();
  const cap = page.getByLabel('New net debit cap in KES');
  await cap.fill('many');
  const change = page.locator('form', { has: cap }).getByRole('button', { name: 'Change' });
  await change.click();
  await page.getByText('enter an amount with at most four decimals').waitFor();
  await cap.fill('1500');
  await change.click();
  const dialog = page.getByRole('dialog');
  assert.match(await dialog.getByRole('table').innerText(), /Net debit cap\s+1,000\s+1500/);
  await checkPage(page);
  await confirm(page, 'größer: season');
  await page.getByText('Net debit cap of greenbank in KES: done.').waitFor();
  const [limit] = await hub.call('GET', '/participants/greenbank/limits');
  assert.equal(limit.limit.value, 1500);
  const trail = await hub.call('GET', '/audit?outcome=recorded&limit=1000');
  assert.ok(trail.entries.some((entry) => entry.reason === 'größer: season'));
  await close();
});

test('funds in need an amount and a reference, and move once', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/participants/bluebank');
  const form = page.getByRole('form', { name: 'Funds in, KES' });
  await form.getByRole('button', { name: 'Record funds in' }).click();
  await form.getByText('Amount: enter a number above zero').waitFor();
  await form.getByText('External reference: enter a value').waitFor();
  await form.getByLabel('Amount of funds in, KES').fill('250');
  await form.getByLabel('External reference').fill(HOSTILE);
  await form.getByRole('button', { name: 'Record funds in' }).click();
  await confirm(page, 'advice 17');
  await page.getByText('Funds in, KES: done.').waitFor();
  const accounts = await hub.call('GET', '/participants/bluebank/accounts');
  const settlement = accounts.find((account) => account.ledgerAccountType === 'SETTLEMENT');
  assert.equal(settlement.value, -750);
  await close();
});

test('funds out are reserved, then paid out', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/participants/greenbank');
  const form = page.getByRole('form', { name: 'Funds out, KES' });
  await form.getByLabel('Amount of funds out, KES').fill('12.5');
  await form.getByLabel('External reference').fill('advice 18');
  await form.getByRole('button', { name: 'Reserve funds out' }).click();
  await confirm(page, 'withdrawal');
  await page.getByText('Funds out, KES: done.').waitFor();
  const [reserved] = await hub.call('GET', '/fundsOut?participant=greenbank');
  assert.equal(reserved.amount, 12.5);
  await page.getByRole('button', { name: `Commit funds out ${reserved.transferId}` }).click();
  await confirm(page, 'paid');
  await page.getByText(`Commit funds out ${reserved.transferId}: done.`).waitFor();
  assert.deepEqual(await hub.call('GET', '/fundsOut'), []);
  await close();
});

test('the endpoints of a participant are called as a test', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/participants/greenbank');
  await page.getByRole('button', { name: 'Test call' }).click();
  const results = page.getByRole('table', { name: 'Results of the test call' });
  await results.waitFor();
  const [call] = await hub.call('POST', '/participants/greenbank/endpoints/calls');
  assert.ok((await results.innerText()).includes(call.to));
  await checkPage(page);
  await close();
});

test('a participant and its key are added', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/participants');
  const form = page.getByRole('form', { name: 'Add a participant' });
  await form.getByRole('button', { name: 'Add a participant' }).click();
  await form.getByText('Currency: enter three letters.').waitFor();
  await form.getByLabel('Name').fill('newbank');
  await form.getByLabel('Currency').fill('kes');
  await form.getByLabel('Net debit cap').fill('250');
  await form.getByRole('button', { name: 'Add a participant' }).click();
  await confirm(page, 'contract 9');
  await page.getByText('Add participant newbank: done.').waitFor();
  await page.getByRole('link', { name: 'newbank' }).click();
  await page.getByText('It has no public key.').waitFor();
  const key = page.getByRole('form', { name: 'Add a public key' });
  await key.getByLabel('Public key or certificate in PEM').fill('a key');
  await key.getByRole('button').click();
  await page.getByText('paste the whole text').waitFor();
  const { publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const pem = publicKey.export({ type: 'spki', format: 'pem' });
  await key.getByLabel('Public key or certificate in PEM').fill(pem);
  await key.getByRole('button').click();
  await confirm(page, 'contract 9');
  await page.getByText('Add a public key of newbank: done.').waitFor();
  assert.equal((await hub.call('GET', '/participants/newbank/keys')).length, 1);
  await close();
});

test('the configuration is explained, and the log is read from a record on', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/configuration');
  await page.getByLabel('Name or meaning contains').fill('horizon_seconds');
  const row = page.getByRole('row', { name: /delivery\.horizon_seconds/ });
  assert.match(await row.innerText(), /delivery\.horizon_seconds\s+1\s+set in the file/);
  await page.goto('/console/#/log');
  await page.getByText('The last record is').waitFor();
  await page.getByLabel('From record').fill('1');
  await page.getByLabel('Kind').selectOption('transfers');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByRole('cell', { name: /transfer/ }).first().waitFor();
  await page.getByLabel('From record').fill('many');
  await page.getByRole('button', { name: 'Show', exact: true }).click();
  await page.getByText('From record: enter a number.').waitFor();
  await close();
});

test('hostile texts are text', async () => {
  const type = 'ALARM_NOTIFICATION_URL';
  await hub
    .call('POST', '/participants/bluebank/endpoints', { type, value: HOSTILE })
    .catch(() => undefined);
  await hub.call('PUT', '/participants/bluebank', { isActive: true }, { 'X-Reason': HOSTILE });
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/audit');
  await page.getByRole('cell', { name: HOSTILE }).first().waitFor();
  await page.goto(`/console/#/participants/${encodeURIComponent(HOSTILE)}`);
  await page.getByRole('heading', { name: 'Participant' }).waitFor();
  await page.getByText(HOSTILE).first().waitFor();
  assert.equal(await page.locator('img').count(), 0);
  await close();
});

test('a deactivated participant is shown as inactive', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/participants/redbank');
  await page.getByRole('button', { name: 'Deactivate' }).first().click();
  await page.getByText('Its transfers are refused from the next one on.').waitFor();
  await page.keyboard.press('Escape');
  assert.equal(await page.getByRole('dialog').count(), 0);
  const before = await hub.call('GET', '/participants/redbank');
  assert.equal(before.isActive, 1);
  await page.getByRole('button', { name: 'Deactivate' }).first().click();
  await confirm(page, 'closed');
  await page.getByRole('button', { name: 'Activate' }).first().click();
  await confirm(page, 'open again');
  await page.getByText('Activate: redbank: done.').waitFor();
  await close();
});

test('dead letters are resent and dropped, one and all', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/callbacks');
  await page.getByText('3 dead letters match.').waitFor();
  const search = page.getByRole('button', { name: 'Search' });
  await page.getByLabel('Recipient').fill('nobody');
  await search.click();
  await page.getByText('participant not found').first().waitFor();
  await page.getByLabel('Recipient').fill('redbank');
  await page.getByLabel('Status of the last answer').fill('404');
  await search.click();
  await page.getByText('No dead letter matches.').waitFor();
  await page.getByLabel('Status of the last answer').fill('400');
  await search.click();
  await page.getByText('3 dead letters match.').waitFor();
  await page.getByRole('button', { name: /^Drop dead letter/ }).first().click();
  await page.getByText('The payments are unchanged.').waitFor();
  await checkPage(page);
  await confirm(page, 'sent by hand');
  await page.getByText('Drop 1 dead letter: done.').waitFor();
  await page.getByText('2 dead letters match.').waitFor();
  const trail = await hub.call('GET', '/audit?outcome=recorded&limit=1000');
  const dropped = trail.entries.find((entry) => entry.reason === 'sent by hand');
  assert.match(dropped.description, /drop dead letter/);
  unreachable.status = 202;
  await page.getByRole('button', { name: /^Resend dead letter/ }).first().click();
  await confirm(page, 'the server was repaired');
  await page.getByText('Resend 1 dead letter: done.').waitFor();
  await page.getByText('1 dead letter matches.').waitFor();
  await page.getByRole('button', { name: 'Resend all 1' }).click();
  await confirm(page, 'the server was repaired');
  await page.getByText('No dead letter matches.').waitFor();
  await eventually(async () => {
    const letters = await hub.call('GET', '/deadletters');
    return letters.length === 0 ? letters : undefined;
  }, 'no dead letter');
  await close();
});

test('a window is closed and settled step by step, across a reload', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/settlement');
  await page.getByRole('button', { name: 'Close' }).click();
  await confirm(page, 'end of day');
  await page.getByRole('button', { name: 'Settle with DEFAULTDEFERREDNET' }).click();
  await confirm(page, 'end of day');
  await page.getByRole('link', { name: 'Settlement 1' }).click();
  for (const step of ['Recorded', 'Reserved']) {
    await page.getByRole('button', { name: `Continue: ${step}` }).click();
    await confirm(page, 'end of day');
    await page.getByText(`Settlement 1: ${step}: done.`).waitFor();
  }
  await page.reload();
  for (const step of ['Committed', 'Settled']) {
    await page.getByRole('button', { name: `Continue: ${step}` }).click();
    await confirm(page, 'end of day');
    await page.getByText(`Settlement 1: ${step}: done.`).waitFor();
  }
  await eventually(async () => {
    const { state } = await hub.call('GET', '/v2/settlements/1');
    return state === 'SETTLED' ? state : undefined;
  }, 'it is settled');
  const [file] = await Promise.all([
    page.waitForEvent('download'),
    page.getByRole('button', { name: 'Download the statement of settlement-1 as csv' }).click(),
  ]);
  assert.equal(file.suggestedFilename(), 'settlement-1.csv');
  await close();
});

test('pages have no violation of accessibility on a desk and on a phone', async () => {
  for (const screen of SCREENS) {
    const { page, close } = await open(browser, hub, screen);
    await logIn(page, hub, '/console/#/participants');
    for (const [path, heading] of [
      ['transfers', 'Payments'],
      ['participants', 'Participants'],
      ['participants/greenbank', 'Participant'],
      ['liquidity', 'Liquidity'],
      ['callbacks', 'Callbacks'],
      ['settlement', 'Settlement'],
      ['settlement/1', 'Settlement 1'],
      ['audit', 'Audit trail'],
      ['log', 'Log'],
      ['log/outbox', 'Log'],
      ['configuration', 'Configuration'],
      ['system', 'System'],
    ]) {
      await page.goto(`/console/#/${path}`);
      await page.getByRole('heading', { name: heading, exact: true }).waitFor();
      await checkPage(page);
    }
    await close();
  }
});

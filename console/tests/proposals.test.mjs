// Operators with roles: a login with a password, a change that waits for a second operator, and
// roles that do not allow a page.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SCREENS, checkPage, launch, logIn, open } from './browser.mjs';
import { Callbacks, Switch, onboard, quote } from './scheme.mjs';

const PASSWORD = 'correct horse battery staple';

let hub, callbacks, browser;
const tokens = {};

before(async () => {
  hub = await Switch.start('[admin]\nauth = "roles"\n[quotes]\npersist = true\n');
  callbacks = await Callbacks.start();
  browser = await launch();
  await onboard(hub, callbacks, ['greenbank', 'bluebank']);
  for (const [operator, role] of [
    ['amina', 'admin'],
    ['benta', 'admin'],
    ['vera', 'viewer'],
    ['otieno', 'auditor'],
  ]) {
    await hub.call('PUT', `/operators/${operator}`, { roles: [role] });
    await hub.call('PUT', `/operators/${operator}/password`, { password: PASSWORD });
    tokens[operator] = (await hub.call('POST', '/tokens', { operator })).token;
  }
  await hub.call('PUT', '/fourEyes', { groups: ['limits', 'roles'] });
});

after(async () => {
  await browser?.close();
  await callbacks?.stop();
  await hub?.stop();
});

/** Logs in with a password. */
async function logInAs(page, name, path) {
  await page.goto(path);
  await page.getByRole('button', { name: 'With a password' }).click();
  await page.getByLabel('Name').fill(name);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('navigation').waitFor();
}

test('a wrong password is refused with the text of the switch', async () => {
  const { page, close } = await open(browser, hub);
  await page.goto('/console/');
  await page.getByRole('button', { name: 'With a password' }).click();
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('Name: enter a value.').waitFor();
  await page.getByLabel('Name').fill('amina');
  await page.getByLabel('Password', { exact: true }).fill('wrong password');
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByText('invalid name, password or code').waitFor();
  await close();
});

test('a change waits for a second operator, who approves it', async () => {
  const amina = await open(browser, hub);
  await logInAs(amina.page, 'amina', '/console/#/participants/greenbank');
  await amina.page.getByText('amina', { exact: true }).waitFor();
  const cap = amina.page.getByLabel('New net debit cap in KES');
  await cap.fill('2000');
  await amina.page.locator('form', { has: cap }).getByRole('button', { name: 'Change' }).click();
  const dialog = amina.page.getByRole('dialog');
  await dialog.getByLabel('Reason').fill('harvest');
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await amina.page.getByRole('link', { name: /^Proposal \d+$/ }).click();
  await amina.page.getByText('OPEN', { exact: true }).waitFor();
  await amina.page.getByRole('button', { name: 'Approve' }).click();
  await dialog.getByLabel('Reason').fill('my own');
  await dialog.getByRole('button', { name: 'Confirm' }).click();
  await dialog.getByRole('alert').waitFor();
  await amina.close();

  const benta = await open(browser, hub);
  await logInAs(benta.page, 'benta', '/console/#/proposals');
  await benta.page.getByRole('link', { name: /^Proposal \d+$/ }).first().click();
  await benta.page.getByText('harvest').waitFor();
  await checkPage(benta.page);
  await benta.page.getByRole('button', { name: 'Approve' }).click();
  await benta.page.getByRole('dialog').getByLabel('Reason').fill('agreed');
  await benta.page.getByRole('dialog').getByRole('button', { name: 'Confirm' }).click();
  await benta.page.getByText('APPROVED', { exact: true }).waitFor();
  const [limit] = await hub.call('GET', '/participants/greenbank/limits');
  assert.equal(limit.limit.value, 2000);
  await benta.page.getByRole('link', { name: 'Proposals' }).click();
  await benta.page.getByText('No change waits for a second operator.').waitFor();
  await benta.page.getByRole('button', { name: 'All' }).click();
  await benta.page.getByRole('table', { name: 'Proposals' }).waitFor();
  await checkPage(benta.page);
  await benta.close();
});

test('a role without the permission gets an answer that names it', async () => {
  for (const screen of SCREENS) {
    const { page, close } = await open(browser, hub, screen);
    await logIn(page, { token: tokens.vera }, '/console/#/audit');
    await page.getByText('Your roles do not allow this.').waitFor();
    await page.getByText(/lacks the permission "audit"/).waitFor();
    await checkPage(page);
    await close();
  }
});

test('messages are masked for a viewer, and complete for an auditor', async () => {
  const id = await quote(hub, 'greenbank', 'bluebank', 12);
  for (const [operator, identifier, marks] of [
    ['vera', '**********01', 1],
    ['otieno', '254700000001', 0],
  ]) {
    const { page, close } = await open(browser, hub);
    await logIn(page, { token: tokens[operator] }, `/console/#/transfers/${id}`);
    await page.getByText('Message', { exact: true }).first().click();
    await page.getByText('Headers and body', { exact: true }).first().click();
    await page.locator('pre', { hasText: `"partyIdentifier": "${identifier}"` }).waitFor();
    await page.locator('pre', { hasText: 'fspiop-source: greenbank' }).waitFor();
    assert.equal(await page.getByText('masked', { exact: true }).count(), marks);
    await checkPage(page);
    await close();
  }
  const { entries } = await hub.call('GET', `/audit?path=/transfers/${id}/messages`);
  assert.deepEqual(
    entries.map((entry) => entry.actor.split(' ')[0]),
    ['vera', 'otieno'],
  );
});

test('a session that has ended leads to the login', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, { token: tokens.vera }, '/console/#/participants');
  const { id } = (await hub.call('GET', '/tokens')).find((token) => token.operator === 'vera');
  await hub.call('DELETE', `/tokens/${id}`);
  await page.reload();
  await page.getByText('The session has ended: log in again.').waitFor();
  await close();
});

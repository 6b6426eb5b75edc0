// The login and the page of a payment, in a real browser against a real switch.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { SCREENS, checkPage, launch, logIn, open } from './browser.mjs';
import {
  Callbacks,
  Switch,
  eventually,
  fulfil,
  onboard,
  pay,
  prepare,
  prepareBulk,
  quote,
} from './scheme.mjs';

let hub, callbacks, browser, committed, refused, wrong, expired;

before(async () => {
  hub = await Switch.start('[quotes]\npersist = true\n');
  callbacks = await Callbacks.start();
  browser = await launch();
  await onboard(hub, callbacks, ['greenbank', 'bluebank']);
  committed = await pay(hub, 'greenbank', 'bluebank', 25.5);
  ({ transferId: refused } = await prepare(hub, 'greenbank', 'bluebank', 490));
  const other = await prepare(hub, 'greenbank', 'bluebank', 7);
  wrong = other.transferId;
  await fulfil(hub, 'greenbank', 'bluebank', { ...other, fulfilment: 'A'.repeat(43) });
  ({ transferId: expired } = await prepare(hub, 'greenbank', 'bluebank', 3, 1));
  await eventually(async () => {
    const { state } = await hub.call('GET', `/transfers/${expired}/explanation`);
    return state === 'ABORTED' ? state : undefined;
  }, 'the transfer expires');
});

after(async () => {
  await browser?.close();
  await callbacks?.stop();
  await hub?.stop();
});

test('a login needs a valid token, and names the field that is wrong', async () => {
  const { page, close } = await open(browser, hub);
  await page.goto('/');
  assert.equal(new URL(page.url()).pathname, '/console/');
  const token = page.getByLabel('Token', { exact: true });
  const button = page.getByRole('button', { name: 'Log in' });
  await button.click();
  assert.match(await page.getByRole('alert').innerText(), /Token: enter a value/);
  await token.fill('two words');
  await button.click();
  assert.match(await page.getByRole('alert').innerText(), /not allowed/);
  await token.fill('wrong');
  await button.click();
  await page.getByText('invalid bearer token').waitFor();
  await checkPage(page);
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await token.fill(hub.token);
  await button.click();
  await page.getByRole('navigation').waitFor();
  assert.equal(await page.evaluate(() => document.cookie + localStorage.length), '0');
  await page.getByRole('button', { name: 'Log out' }).click();
  await token.waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.length), 0);
  await close();
});

test('a failed payment is found without its id, and the link of a search is shared', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  await page.getByRole('link', { name: 'Payments', exact: true }).click();
  await page.getByRole('link', { name: committed }).waitFor();
  await page.getByRole('button', { name: 'Failed payments only' }).click();
  await page.getByRole('link', { name: expired }).waitFor();
  assert.equal(await page.getByRole('link', { name: committed }).count(), 0);
  await page.getByLabel('Payer or payee').fill('greenbank');
  await page.getByLabel('Amount at least').fill('many');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText('Amount: enter a number').waitFor();
  await page.getByLabel('Amount at least').fill('100');
  await page.getByLabel('Currency').fill('kes');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.getByText("the payer's position would exceed").waitFor();
  assert.equal(await page.getByRole('link', { name: expired }).count(), 0);
  assert.match(await page.locator('.command code').innerText(), /^upesi transfer list --participant/);
  await checkPage(page);
  const shared = page.url();
  await page.goto('/console/#/');
  await page.goto(shared);
  await page.getByRole('link', { name: refused }).click();
  await page.getByText('Why it failed').waitFor();
  await close();
});

test('the overview leads to the latest failed payments and their reasons', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  const latest = page.getByRole('table', { name: 'Latest failed payments' });
  await latest.getByText('expired: no response before its deadline').waitFor();
  await page.getByRole('link', { name: 'All failed payments' }).click();
  await page.getByRole('link', { name: refused }).click();
  await page.getByText('refused', { exact: true }).first().waitFor();
  await page.getByRole('link', { name: 'Limits and funds of greenbank' }).click();
  await page.getByRole('heading', { name: 'Participant' }).waitFor();
  await close();
});

test('a shared link leads to its payment after the login', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, `/console/#/transfers/${committed}`);
  await page.getByText(committed).first().waitFor();
  await page.getByText('committed', { exact: true }).first().waitFor();
  await page.getByRole('button', { name: 'Copy the link' }).click();
  await page.getByText('Copied').waitFor();
  const copied = await page.evaluate(() => navigator.clipboard.readText());
  assert.equal(copied, `${hub.admin}/console/#/transfers/${committed}`);
  await close();
});

test('the page of a payment explains a commit with numbers, postings and callbacks', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, `/console/#/transfers/${committed}`);
  const timeline = page.getByRole('region', { name: 'Timeline' });
  await timeline.getByText('POST /transfers from greenbank').waitFor();
  await timeline.getByText('PrepareReserved').first().waitFor();
  await timeline.getByRole('heading', { name: 'PUT /transfers/{id} from bluebank' }).waitFor();
  await timeline.getByText('delivered').first().waitFor();
  const numbers = timeline.getByText('Numbers of the decision', { exact: true }).first();
  await numbers.click();
  const parties = timeline.getByRole('group', { name: 'Numbers of the decision' }).first();
  assert.match(await parties.innerText(), /greenbank\s+KES\s+0\s+25\.5\s+500\s+500\s+1,000/);
  const postings = timeline.getByRole('group', { name: 'Postings' }).first();
  assert.match(await postings.innerText(), /25\.5 KES/);
  await page.getByRole('button', { name: 'Raw' }).click();
  const raw = JSON.parse(await page.getByRole('region', { name: 'Raw' }).locator('pre').innerText());
  assert.equal(raw.transfer, committed);
  await page.getByRole('button', { name: 'Compact' }).click();
  await page.getByRole('table', { name: 'Events' }).waitFor();
  assert.equal(await page.getByRole('button', { name: 'Compact' }).getAttribute('aria-pressed'), 'true');
  await page.getByRole('button', { name: 'Copy', exact: true }).click();
  const command = await page.evaluate(() => navigator.clipboard.readText());
  assert.match(command, new RegExp(committed));
  await close();
});

test('a failed payment says why', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  for (const [id, reason] of [
    [refused, /the payer's position would exceed its liquidity cover/],
    [refused, /greenbank: position 25\.5 KES \+ payment 490 KES = 515\.5 KES, above its liquidity cover of 500 KES\./],
    [wrong, /the fulfilment is missing or does not hash to the condition/],
    [wrong, /The condition of the payment is [0-9a-f]{64}: they must be equal/],
    [expired, /expired: no response before its deadline/],
    [expired, /bluebank received the request \(HTTP 200\) and sent no valid response in time/],
  ]) {
    await page.goto(`/console/#/transfers/${id}`);
    await page.getByText(id).first().waitFor();
    const why = page.locator('[data-failure]');
    await why.filter({ hasText: reason }).waitFor();
  }
  await close();
});

test('a bulk transfer leads to its items, and they lead back', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  const { bulkTransferId, items } = await prepareBulk(hub, 'greenbank', 'bluebank', [1, 2, 900]);
  await page.goto(`/console/#/transfers/${bulkTransferId}`);
  await page.getByRole('heading', { name: 'Bulk transfer', exact: true }).waitFor();
  await page.getByText('accepted', { exact: true }).first().waitFor();
  await page.getByText('3 items', { exact: true }).waitFor();
  await page.getByRole('heading', { name: 'POST /bulkTransfers from greenbank' }).waitFor();
  assert.equal(await page.locator('[data-failure]').count(), 0);
  await checkPage(page);
  await page.goto(`/console/#/transfers/${items[2]}`);
  await page.getByRole('heading', { name: 'Payment', exact: true }).waitFor();
  await page.locator('[data-failure]').waitFor();
  await page.getByRole('link', { name: bulkTransferId }).click();
  await page.getByText('3 items', { exact: true }).waitFor();
  await close();
});

test('a recorded quote shows its messages and what the hub decided', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub);
  const quoteId = await quote(hub, 'greenbank', 'bluebank', 12);
  await page.getByRole('link', { name: 'Payments', exact: true }).click();
  await page.getByLabel('Transfer id or trace id').fill(quoteId);
  await page.getByLabel('Transfer id or trace id').press('Enter');
  await page.getByRole('heading', { name: 'Quote', exact: true }).waitFor();
  await page.getByRole('heading', { name: 'POST /quotes from greenbank' }).waitFor();
  assert.equal(await page.locator('[data-failure]').count(), 0);
  await checkPage(page);
  await close();
});

test('a payment is found by its id, with the keyboard only', async () => {
  const { page, close } = await open(browser, hub);
  await page.goto('/console/#/transfers');
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  const focused = () => page.evaluate(() => document.activeElement?.textContent);
  const until = async (text) => {
    for (let tabs = 0; tabs < 30; tabs += 1) {
      if ((await focused()) === text) return;
      await press('Tab');
    }
    assert.fail(`${text} is not reached with the keyboard`);
  };
  await page.getByLabel('Token', { exact: true }).waitFor();
  await until('With a password');
  await press('Tab');
  await page.keyboard.type(hub.token);
  await press('Enter');
  await page.getByRole('heading', { name: 'Payments' }).waitFor();
  await until('Payments');
  await press('Tab');
  await page.keyboard.type('not an id');
  await press('Enter');
  await page.getByText('Transfer id or trace id: enter a UUID, a ULID, or 32 hexadecimal digits.').waitFor();
  await press('Control+a');
  await page.keyboard.type(committed.toUpperCase());
  await press('Enter');
  await page.getByRole('heading', { name: 'Payment', exact: true }).waitFor();
  await until('Timeline');
  await press('Tab');
  assert.equal(await focused(), 'Compact');
  await press('Space');
  await page.getByRole('table', { name: 'Events' }).waitFor();
  await close();
});

test('a payment is found by the trace id of its messages', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/transfers');
  const { events } = await hub.call('GET', `/transfers/${committed}/explanation`);
  const { trace } = events[0].message;
  const find = async (text) => {
    await page.getByLabel('Transfer id or trace id').fill(text);
    await page.getByLabel('Transfer id or trace id').press('Enter');
  };
  await find('0123456789abcdef0123456789abcdef');
  await page.getByText(/^0 messages have this trace id in the records 1 to \d+/).waitFor();
  await find(`00-${trace}-00f067aa0ba902b7-01`);
  await page.getByRole('button', { name: 'Search the last 24 hours' }).click();
  await page.getByRole('table', { name: 'Messages with this trace id' }).waitFor();
  assert.match(await page.locator('.command code').innerText(), new RegExp(`--trace ${trace} --from`));
  await checkPage(page);
  await page.getByRole('link', { name: committed }).first().click();
  await page.getByRole('heading', { name: 'Payment', exact: true }).waitFor();
  await close();
});

test('an unknown payment and an unknown page get an answer', async () => {
  const { page, close } = await open(browser, hub);
  await logIn(page, hub, '/console/#/transfers/00000000-0000-4000-8000-000000000000');
  await page.getByText('transfer not found in the log').waitFor();
  await page.goto('/console/#/elsewhere');
  await page.getByText('There is no such page.').waitFor();
  await close();
});

test('pages have no violation of accessibility on a desk and on a phone', async () => {
  for (const screen of SCREENS) {
    const { page, close } = await open(browser, hub, screen);
    await page.goto('/console/');
    await page.getByLabel('Token', { exact: true }).waitFor();
    await checkPage(page);
    await logIn(page, hub, '/console/#/transfers');
    await checkPage(page);
    for (const id of [committed, refused]) {
      await page.goto(`/console/#/transfers/${id}`);
      await page.getByRole('region', { name: 'Timeline' }).waitFor();
      await page.getByText(id).first().waitFor();
      await page.locator('summary').evaluateAll((all) => all.forEach((it) => it.click()));
      await checkPage(page);
      for (const view of ['Compact', 'Raw']) {
        await page.getByRole('button', { name: view }).click();
        await checkPage(page);
      }
    }
    await close();
  }
});

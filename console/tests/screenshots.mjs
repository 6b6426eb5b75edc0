// Writes the pictures of docs/console: a scheme with some payments, on a desk and on a phone.
// Run with `npm run screenshots`.

import { fileURLToPath } from 'node:url';
import { SCREENS, launch, logIn, open } from './browser.mjs';
import { Callbacks, Switch, eventually, onboard, pay, prepare } from './scheme.mjs';

const OUTPUT = fileURLToPath(new URL('../../docs/console/', import.meta.url));
const NAMES = ['desk', 'phone'];

const hub = await Switch.start('[admin]\nauth = "roles"\n');
const callbacks = await Callbacks.start();
const browser = await launch();
try {
  await onboard(hub, callbacks, ['greenbank', 'bluebank', 'redbank']);
  for (let count = 1; count <= 60; count += 1) await pay(hub, 'greenbank', 'bluebank', count / 10);
  const { transferId } = await prepare(hub, 'greenbank', 'redbank', 480);
  await eventually(async () => {
    const { queues } = await hub.call('GET', '/status');
    return queues.owed === 0 ? queues : undefined;
  }, 'all callbacks are delivered');
  const tokens = {};
  for (const [operator, role] of Object.entries({ amina: 'admin', vera: 'viewer' })) {
    await hub.call('PUT', `/operators/${operator}`, { roles: [role] });
    ({ token: tokens[operator] } = await hub.call('POST', '/tokens', { operator }));
  }
  for (const [index, screen] of SCREENS.entries()) {
    const { page, close } = await open(browser, hub, screen);
    await logIn(page, { token: tokens.amina });
    await page.locator('.spark path[d*="L"]').first().waitFor();
    await page.screenshot({ path: `${OUTPUT}overview-${NAMES[index]}.png` });
    await page.goto(`/console/#/transfers/${transferId}`);
    await page.locator('[data-failure]').waitFor();
    await page.screenshot({ path: `${OUTPUT}payment-${NAMES[index]}.png` });
    await close();
    const viewer = await open(browser, hub, screen);
    await logIn(viewer.page, { token: tokens.vera }, `/console/#/transfers/${transferId}`);
    await viewer.page.getByText('Message', { exact: true }).first().click();
    const contents = viewer.page.getByText('Headers and body', { exact: true }).first();
    await contents.click();
    await viewer.page.getByText('masked', { exact: true }).waitFor();
    await contents.evaluate((it) => it.scrollIntoView());
    await viewer.page.screenshot({ path: `${OUTPUT}messages-${NAMES[index]}.png` });
    await viewer.close();
  }
} finally {
  await browser.close();
  await callbacks.stop();
  await hub.stop();
}

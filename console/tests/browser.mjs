// The browser of the tests: the system's Chromium without a display, and checks of every page.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { chromium } from 'playwright-core';

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
const RULES = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];

/** Starts Chromium. */
export function launch() {
  const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
}

/**
 * Opens a page that records every request to another address and every error; `close` checks that
 * there were none.
 */
export async function open(browser, to, options = {}) {
  const context = await browser.newContext({ baseURL: to.admin, ...options });
  await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: to.admin });
  const page = await context.newPage();
  const problems = [];
  page.on('request', (request) => {
    if (!request.url().startsWith(`${to.admin}/`)) problems.push(`request to ${request.url()}`);
  });
  page.on('pageerror', (error) => problems.push(String(error)));
  page.on('console', (message) => {
    // The browser reports each refused request as an error; the tests cause some.
    const expected = /Failed to load resource: the server responded with a status of 4\d\d/;
    const serious = ['error', 'warning'].includes(message.type());
    if (serious && !expected.test(message.text())) problems.push(message.text());
  });
  const close = async () => {
    await context.close();
    assert.deepEqual(problems, []);
  };
  return { page, close };
}

/** Logs in with the token of the switch. */
export async function logIn(page, to, path = '/console/') {
  await page.goto(path);
  await page.getByLabel('Token', { exact: true }).fill(to.token);
  await page.getByRole('button', { name: 'Log in' }).click();
  await page.getByRole('navigation').waitFor();
}

/**
 * No violation of the rules of accessibility, and nothing wider than the screen. The rules run
 * outside the page's own policy.
 */
export async function checkPage(page) {
  await page.waitForFunction(() => !document.body.textContent.includes('Loading…'));
  const session = await page.context().newCDPSession(page);
  const evaluate = async (expression) => {
    const { result, exceptionDetails } = await session.send('Runtime.evaluate', {
      expression,
      awaitPromise: true,
      returnByValue: true,
    });
    assert.equal(exceptionDetails, undefined, JSON.stringify(exceptionDetails));
    return result.value;
  };
  // Navigation within the console keeps the rules.
  if ((await evaluate('typeof axe')) === 'undefined') await evaluate(`${AXE}; 0`);
  const runOnly = { type: 'tag', values: RULES };
  const options = JSON.stringify({ runOnly, resultTypes: ['violations'] });
  const violations = await evaluate(
    `axe.run(document, ${options}).then((it) => it.violations.map((one) =>
      [one.id, ...one.nodes.map((node) => node.html + ' ' + node.failureSummary)].join('\\n')))`,
  );
  assert.deepEqual(violations, [], page.url());
  const excess = await evaluate(
    'document.documentElement.scrollWidth - document.documentElement.clientWidth',
  );
  assert.equal(excess, 0, `wider than the screen: ${page.url()}`);
  await session.detach();
}

/** Both widths and both colour schemes. */
export const SCREENS = [
  { viewport: { width: 1280, height: 800 }, colorScheme: 'light' },
  { viewport: { width: 360, height: 740 }, colorScheme: 'dark' },
];

// `upesi demo --hold`: its printed links lead to payments that failed, each for its reason, and an
// interrupt ends it well.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { test } from 'node:test';
import { launch, logIn, open } from './browser.mjs';
import { PROGRAM, eventually } from './scheme.mjs';

test('a held demonstration explains its failed payments', async () => {
  const small = ['--seconds', '1', '--concurrency', '4', '--fsps', '2', '--subscribers', '20'];
  const child = spawn(PROGRAM, ['demo', '--hold', ...small], { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = new Promise((resolve) => child.once('exit', resolve));
  let output = '';
  let errors = '';
  child.stdout.on('data', (text) => (output += text));
  child.stderr.on('data', (text) => (errors += text));
  const browser = await launch();
  try {
    await eventually(() => {
      assert.equal(child.exitCode, null, output + errors);
      return /Press Ctrl-C/.test(output) ? true : undefined;
    }, 'the scheme is held');
    const [, admin] = output.match(/(http:\S+)\/console\/\n/);
    const [, token] = output.match(/with this token:\s+(\S+)/);
    const links = [...output.matchAll(/\S+(\/console\/#\/transfers\/\S+)/g)].map(([, path]) => path);
    assert.equal(links.length, 5, output);
    const { page, close } = await open(browser, { admin });
    await logIn(page, { token }, links[0]);
    for (const [index, reason] of [
      [0, /the payer's position would exceed its/],
      [1, /expired: no response before its deadline/],
      [2, /the fulfilment is missing or does not hash to the condition/],
      [3, /account closed/],
      [4, /no connection/],
    ]) {
      await page.goto(links[index]);
      await page.getByRole('heading', { name: 'Payment', exact: true }).waitFor();
      await eventually(async () => {
        const shown = await page.locator('.note').allInnerTexts();
        if (shown.some((text) => reason.test(text))) return true;
        await page.reload();
        await page.getByRole('region', { name: 'Timeline' }).waitFor();
        return undefined;
      }, String(reason));
    }
    await close();
    child.kill('SIGINT');
    assert.equal(await ended, 0, output + errors);
  } finally {
    child.kill('SIGKILL');
    await browser.close();
  }
});

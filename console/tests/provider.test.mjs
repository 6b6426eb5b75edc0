// The login at a real OpenID provider, with an authorization code and PKCE.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { copyFileSync, existsSync, mkdirSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { checkPage, launch } from './browser.mjs';
import { Switch, eventually } from './scheme.mjs';

const AUDIENCE = 'https://hub.example/';
const SOURCES = fileURLToPath(new URL('../../crates/upesi/tests/receivers', import.meta.url));

let browser, hub, issuer, provider;

/** A port that was free a moment ago. */
async function freePort() {
  const server = createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** A code of a login without a browser, with the values that belong to it. */
async function code() {
  const [codeVerifier, nonce] = [0, 1].map(() => randomBytes(32).toString('base64url'));
  const redirectUri = `${hub.admin}/console/`;
  const query = new URLSearchParams({
    response_type: 'code',
    client_id: 'console',
    redirect_uri: redirectUri,
    scope: 'openid fspiop',
    state: 'one',
    nonce,
    resource: AUDIENCE,
    code_challenge: createHash('sha256').update(codeVerifier).digest('base64url'),
    code_challenge_method: 'S256',
  });
  const cookies = new Map();
  let url = `${issuer}/auth?${query}`;
  while (!url.startsWith(redirectUri)) {
    const cookie = [...cookies].map((pair) => pair.join('=')).join('; ');
    const response = await fetch(url, { redirect: 'manual', headers: { cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = line.match(/^([^=]+)=([^;]*)/);
      if (value === '') cookies.delete(name);
      else cookies.set(name, value);
    }
    assert.match(String(response.status), /^30/, await response.text());
    url = new URL(response.headers.get('location'), url).href;
  }
  return { code: new URL(url).searchParams.get('code'), codeVerifier, nonce, redirectUri };
}

/** The provider's program with its packages, installed once per version. */
function installed() {
  const directory = `${tmpdir()}/upesi-console-provider`;
  mkdirSync(directory, { recursive: true });
  for (const name of ['package.json', 'provider.mjs']) {
    copyFileSync(`${SOURCES}/${name}`, `${directory}/${name}`);
  }
  if (!existsSync(`${directory}/node_modules/oidc-provider`)) {
    const npm = spawnSync('npm', ['install', '--no-audit', '--no-fund'], { cwd: directory });
    assert.equal(npm.status, 0, String(npm.stderr));
  }
  return `${directory}/provider.mjs`;
}

before(async () => {
  const port = await freePort();
  issuer = `http://127.0.0.1:${port}`;
  hub = await Switch.start(
    `[admin]\nauth = "roles"\noidc_issuer = "${issuer}"\noidc_audience = "${AUDIENCE}"\n` +
      'oidc_client_id = "console"\noidc_scope = "openid fspiop"\n' +
      'oidc_roles = ["hub-admins=admin"]\n',
  );
  const options = { audience: AUDIENCE, lifetime: 300, port, consoles: [`${hub.admin}/console/`] };
  provider = spawn('node', [installed(), JSON.stringify(options)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await new Promise((resolve) => provider.stdout.once('data', resolve));
  // The switch started before the provider: it reads the keys again after a pause.
  await eventually(async () => {
    try {
      return await hub.call('POST', '/login/provider', await code());
    } catch (error) {
      if (/: 503 /.test(error.message)) return undefined;
      throw error;
    }
  }, 'the switch has the keys of the provider');
  browser = await launch();
});

after(async () => {
  await browser?.close();
  provider?.kill();
  await hub?.stop();
});

test('a person logs in at the provider and comes back to the page of the link', async () => {
  const context = await browser.newContext({ baseURL: hub.admin });
  const page = await context.newPage();
  await page.goto('/console/#/audit');
  await page.getByRole('button', { name: 'Log in at 127.0.0.1' }).waitFor();
  await checkPage(page);
  await page.getByRole('button', { name: 'Log in at 127.0.0.1' }).click();
  await page.getByRole('navigation').waitFor();
  await page.getByText('anna').waitFor();
  assert.equal(page.url(), `${hub.admin}/console/#/audit`);
  assert.equal(await page.evaluate(() => document.cookie), '');
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.getByRole('button', { name: 'Log in at 127.0.0.1' }).waitFor();
  await context.close();
});

test('a link of another tab, and a refused login, are not taken', async () => {
  const context = await browser.newContext({ baseURL: hub.admin });
  const page = await context.newPage();
  for (const query of ['code=abc&state=other', 'error=access_denied&error_description=no']) {
    await page.goto(`/console/?${query}`);
    await page.getByText('This login was not begun in this tab').waitFor();
    assert.equal(new URL(page.url()).search, '');
  }
  const begun = JSON.stringify({ state: 'one', nonce: 'n', verifier: 'v', fragment: '' });
  const begin = (text) => sessionStorage.setItem('upesi-provider-login', text);
  await page.evaluate(begin, begun);
  await page.goto('/console/?code=abc&state=other');
  await page.getByText('This login was not begun in this tab').waitFor();
  await page.evaluate(begin, begun);
  await page.goto('/console/?error=access_denied&error_description=no&state=one');
  await page.getByText('The provider refused the login: no').waitFor();
  await page.evaluate(begin, begun);
  await page.goto('/console/?code=abc&state=one');
  await page.getByText(/the OpenID provider refused the code: .*invalid_grant.*\(3000\)/).waitFor();
  await page.getByRole('button', { name: 'Log in at 127.0.0.1' }).waitFor();
  await checkPage(page);
  await context.close();
});

test('a code is taken once, with its secret, its nonce and its address', async () => {
  const post = (body) => hub.call('POST', '/login/provider', body);
  const right = await code();
  const { token } = await post(right);
  const who = await hub.call('GET', '/identity', undefined, { Authorization: `Bearer ${token}` });
  assert.equal(who.name, 'anna');
  await assert.rejects(post(right), /401 .*invalid_grant/);

  const unknown = { ...(await code()), code: 'abc' };
  await assert.rejects(post(unknown), /401 .*invalid_grant/);
  const otherSecret = { ...(await code()), codeVerifier: 'a'.repeat(43) };
  await assert.rejects(post(otherSecret), /401 .*invalid_grant/);
  const otherNonce = { ...(await code()), nonce: 'b'.repeat(43) };
  await assert.rejects(post(otherNonce), /401 .*nonce differs/);
  for (const redirectUri of [
    'http://127.0.0.1:9/console/',
    `${hub.admin}/console/other`,
    `${hub.admin}/console/?a=b`,
  ]) {
    const elsewhere = { ...(await code()), redirectUri };
    await assert.rejects(post(elsewhere), /400 .*not the address of this console/);
  }
});

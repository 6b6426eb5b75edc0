// A scheme for the tests: the real switch with its own directory and free ports, and two banks whose
// callbacks go to a server of the test.

import { spawn } from 'node:child_process';
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';

export const PROGRAM =
  process.env.UPESI ?? fileURLToPath(new URL('../../target/debug/upesi', import.meta.url));
const READY = /FSPIOP on (\S+?), admin on (\S+)/;
const WITHIN_MS = 60_000;
export const CURRENCY = 'KES';

/** Waits until a check gives something other than `undefined`. */
export async function eventually(check, what) {
  const end = Date.now() + WITHIN_MS;
  for (;;) {
    const found = await check();
    if (found !== undefined) return found;
    if (end < Date.now()) throw new Error(`not within ${WITHIN_MS} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

/** A running switch. */
export class Switch {
  /** Starts one. `fill` gets its data directory before that, to write a log into it. */
  static async start(configuration = '', fill = () => {}) {
    const it = new Switch();
    it.directory = mkdtempSync(`${tmpdir()}/upesi-console-`);
    fill(`${it.directory}/data`);
    writeFileSync(`${it.directory}/upesi.toml`, configuration);
    const any = '127.0.0.1:0';
    const serve = ['serve', '--data', `${it.directory}/data`, '--fspiop', any, '--admin', any];
    it.child = spawn(PROGRAM, [...serve, '--config', `${it.directory}/upesi.toml`], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    it.child.stdout.on('data', (text) => (output += text));
    it.child.stderr.on('data', (text) => (output += text));
    let ended = false;
    it.ended = new Promise((resolve) =>
      it.child.once('exit', () => {
        ended = true;
        resolve();
      }),
    );
    const ready = await eventually(() => {
      if (ended) throw new Error(`the switch ended: ${output}`);
      return output.match(READY) ?? undefined;
    }, 'the switch is ready');
    [, it.fspiop, it.admin] = ready;
    it.token = readFileSync(`${it.directory}/data/admin-token`, 'utf8').trim();
    return it;
  }

  async stop() {
    this.child.kill('SIGTERM');
    await this.ended;
    rmSync(this.directory, { recursive: true });
  }

  /** Calls the admin API. A status other than 2xx is an error. */
  async call(method, path, body, headers = {}) {
    const response = await fetch(this.admin + path, {
      method,
      headers: {
        Authorization: `Bearer ${this.token}`,
        Accept: '*/*',
        // A connection of its own: the switch closes idle ones, perhaps just when one is used.
        Connection: 'close',
        ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        ...headers,
      },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await response.text();
    if (!response.ok) throw new Error(`${method} ${path}: ${response.status} ${text}`);
    return text === '' ? null : JSON.parse(text);
  }

  /** Sends an FSPIOP message. */
  async message(source, destination, method, path, body) {
    const type = `application/vnd.interoperability.${path.split('/')[1]}+json;version=1.1`;
    const response = await fetch(this.fspiop + path, {
      method,
      headers: {
        'Content-Type': type,
        ...(method === 'PUT' ? {} : { Accept: type }),
        Date: new Date().toUTCString(),
        Connection: 'close',
        'FSPIOP-Source': source,
        'FSPIOP-Destination': destination,
      },
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  }
}

/** A server for callbacks, which answers each with the current status. */
export class Callbacks {
  static async start() {
    const it = new Callbacks();
    it.status = 200;
    it.received = [];
    it.server = createServer((request, response) => {
      let body = '';
      request.on('data', (text) => (body += text));
      request.on('end', () => {
        it.received.push({ method: request.method, path: request.url, body });
        response.writeHead(it.status).end();
      });
    });
    await new Promise((resolve) => it.server.listen(0, '127.0.0.1', resolve));
    it.address = `http://127.0.0.1:${it.server.address().port}`;
    return it;
  }

  async stop() {
    this.server.closeAllConnections();
    await new Promise((resolve) => this.server.close(resolve));
  }
}

/** Adds a currency, and participants with a net debit cap, funds and callbacks, if there are some. */
export async function onboard(to, callbacks, names, { cap = 1000, funds = 500 } = {}) {
  for (const type of ['HUB_RECONCILIATION', 'HUB_MULTILATERAL_SETTLEMENT']) {
    await to.call('POST', '/participants/Hub/accounts', { currency: CURRENCY, type }).catch(() => 0);
  }
  for (const name of names) {
    await to.call('POST', '/participants', { name, currency: CURRENCY });
    await to.call('POST', `/participants/${name}/initialPositionAndLimits`, {
      currency: CURRENCY,
      limit: { type: 'NET_DEBIT_CAP', value: cap },
      initialPosition: 0,
    });
    const accounts = await to.call('GET', `/participants/${name}/accounts`);
    const { id } = accounts.find((account) => account.ledgerAccountType === 'SETTLEMENT');
    await to.call('POST', `/participants/${name}/accounts/${id}`, {
      transferId: randomUUID(),
      externalReference: 'first deposit',
      action: 'recordFundsIn',
      reason: 'opening',
      amount: { amount: String(funds), currency: CURRENCY },
    });
    if (callbacks === undefined) continue;
    for (const [kind, path] of [
      ['POST', ''],
      ['PUT', '/{{transferId}}'],
      ['ERROR', '/{{transferId}}/error'],
    ]) {
      await to.call('POST', `/participants/${name}/endpoints`, {
        type: `FSPIOP_CALLBACK_URL_TRANSFER_${kind}`,
        value: `${callbacks.address}/${name}/transfers${path}`,
      });
    }
  }
}

/** Sends `POST /transfers`; returns the id and the fulfilment. */
export async function prepare(to, payer, payee, amount, seconds = 600) {
  const secret = randomBytes(32);
  const transferId = randomUUID();
  await to.message(payer, payee, 'POST', '/transfers', {
    transferId,
    payerFsp: payer,
    payeeFsp: payee,
    amount: { amount: String(amount), currency: CURRENCY },
    ilpPacket: 'AYIBgQ',
    condition: createHash('sha256').update(secret).digest('base64url'),
    expiration: new Date(Date.now() + seconds * 1000).toISOString(),
  });
  return { transferId, fulfilment: secret.toString('base64url') };
}

/** Sends `PUT /transfers/{id}` with a fulfilment. */
export async function fulfil(to, payer, payee, { transferId, fulfilment }) {
  await to.message(payee, payer, 'PUT', `/transfers/${transferId}`, {
    transferState: 'COMMITTED',
    completedTimestamp: new Date().toISOString(),
    fulfilment,
  });
}

/** Sends `POST /quotes`; returns the id. */
export async function quote(to, payer, payee, amount) {
  const quoteId = randomUUID();
  const party = (fspId) => ({
    partyIdInfo: { partyIdType: 'MSISDN', partyIdentifier: '254700000001', fspId },
  });
  await to.message(payer, payee, 'POST', '/quotes', {
    quoteId,
    transactionId: randomUUID(),
    payer: party(payer),
    payee: party(payee),
    amountType: 'SEND',
    amount: { amount: String(amount), currency: CURRENCY },
    transactionType: { scenario: 'TRANSFER', initiator: 'PAYER', initiatorType: 'CONSUMER' },
  });
  return quoteId;
}

/** Sends `POST /bulkTransfers`; returns the id, and those of its transfers. */
export async function prepareBulk(to, payer, payee, amounts) {
  const [bulkTransferId, bulkQuoteId] = [randomUUID(), randomUUID()];
  const individualTransfers = amounts.map((amount) => ({
    transferId: randomUUID(),
    transferAmount: { amount: String(amount), currency: CURRENCY },
    ilpPacket: 'AYIBgQ',
    condition: createHash('sha256').update(randomBytes(32)).digest('base64url'),
  }));
  await to.message(payer, payee, 'POST', '/bulkTransfers', {
    bulkTransferId,
    bulkQuoteId,
    payerFsp: payer,
    payeeFsp: payee,
    individualTransfers,
    expiration: new Date(Date.now() + 600_000).toISOString(),
  });
  return { bulkTransferId, items: individualTransfers.map((item) => item.transferId) };
}

/** A committed payment. */
export async function pay(to, payer, payee, amount) {
  const transfer = await prepare(to, payer, payee, amount);
  await fulfil(to, payer, payee, transfer);
  return transfer.transferId;
}

// A bank's back end in front of the scheme adapter. Usage: node backend.mjs PORT
import { createServer } from 'node:http';

const names = { displayName: 'Neema Ali', firstName: 'Neema', lastName: 'Ali' };
const parties = { 222: { idType: 'MSISDN', idValue: '222', ...names } };
const balances = { 222: 0 }; // in ten-thousandths, for four decimals
const credited = new Map(); // transferId: the account and the amount
const aborted = new Set(); // transfers that are never credited again
const unknown = [404, { statusCode: '3204', message: 'Not found' }];

const quote = ({ quoteId, transactionId, amount, currency }) => // the bank charges nothing
  [200, { quoteId, transactionId, transferAmount: amount, transferAmountCurrency: currency }];

const credit = ({ transferId, to, amount }) => { // it may come again, also after its end
  if (aborted.has(transferId)) {
    return [400, { statusCode: '5100', message: 'The transfer was aborted' }];
  }
  if (!credited.has(transferId)) {
    const units = Math.round(Number(amount) * 10_000);
    credited.set(transferId, [to.idValue, units]);
    balances[to.idValue] += units;
  }
  return [200, { homeTransactionId: `credit-${transferId}` }];
};

const finish = ({ currentState, transferId }) => { // an aborted credit is reversed once
  if (currentState === 'ABORTED' && !aborted.has(transferId)) {
    aborted.add(transferId);
    const [account, units] = credited.get(transferId) ?? ['222', 0];
    balances[account] -= units;
  }
  return [200, {}];
};

const respond = (method, path, body) => {
  const account = path.split('/').pop();
  if (path === `/parties/MSISDN/${account}` && parties[account]) return [200, parties[account]];
  if (path === '/accounts/222') return [200, { balance: `${balances[222] / 10_000}` }];
  if (method === 'POST' && path === '/quoterequests') return quote(body);
  if (method === 'POST' && path === '/transfers') return credit(body);
  return method === 'PUT' ? finish(body) : unknown;
};

const server = createServer(async (request, response) => {
  const text = (await request.toArray()).join('');
  const [status, body] = respond(request.method, request.url, text && JSON.parse(text));
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}).listen(Number(process.argv[2]), '127.0.0.1', () => {
  console.log(`ready on ${server.address().port}`);
});

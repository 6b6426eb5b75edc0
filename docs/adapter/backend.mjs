// A bank's back end in front of the scheme adapter. Usage: node backend.mjs PORT
import { createServer } from 'node:http';

const accounts = { 222: { firstName: 'Neema', lastName: 'Ali', balance: 0 } };
const credited = new Map(); // transferId: the answer that was given

const units = (amount) => Math.round(Number(amount) * 10_000); // four decimals

const party = (id) => {
  const account = accounts[id];
  if (!account) return [404, { statusCode: '3204', message: 'Party not found' }];
  const { firstName, lastName } = account;
  const displayName = `${firstName} ${lastName}`;
  return [200, { idType: 'MSISDN', idValue: id, displayName, firstName, lastName }];
};

const quote = ({ quoteId, transactionId, amount, currency }) => // the bank charges nothing
  [200, { quoteId, transactionId, transferAmount: amount, transferAmountCurrency: currency }];

const credit = ({ transferId, to, amount }) => {
  if (!credited.has(transferId)) { // the same transfer may come again
    accounts[to.idValue].balance += units(amount);
    credited.set(transferId, { homeTransactionId: `credit-${credited.size}` });
  }
  return [200, credited.get(transferId)];
};

const finish = (notice) => { // reverse the credit if the transfer was aborted
  if (notice.currentState === 'ABORTED' && credited.delete(notice.transferId)) {
    const payee = notice.quote.internalRequest.to.idValue;
    accounts[payee].balance -= units(notice.prepare.body.amount.amount);
  }
  return [200, {}];
};

const respond = (method, path, body) => {
  if (method === 'GET' && path[1] === 'parties' && path[2] === 'MSISDN') return party(path[3]);
  if (method === 'POST' && path[1] === 'quoterequests') return quote(body);
  if (method === 'POST' && path[1] === 'transfers') return credit(body);
  if (method === 'PUT' && path[1] === 'transfers') return finish(body);
  return [404, { statusCode: '3204', message: 'Not found' }];
};

const server = createServer(async (request, response) => {
  let text = '';
  for await (const part of request) text += part;
  const [status, body] = respond(request.method, request.url.split('/'), text && JSON.parse(text));
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
});
server.listen(Number(process.argv[2]), '127.0.0.1', () => {
  console.log(`ready on ${server.address().port}`);
});

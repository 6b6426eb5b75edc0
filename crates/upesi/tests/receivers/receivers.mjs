// A webhook receiver, whose signatures the library of Standard Webhooks verifies, and a mail server.
// Its only argument is JSON: {webhookPort, secret, key?, cert?, user?, password?, rejected?}.
// It prints a JSON line when both listen, and one for each webhook and e-mail. A line on standard
// input is the status of all later webhooks; it ends with its standard input.

import http from "node:http";
import https from "node:https";
import fs from "node:fs";
import readline from "node:readline";
import { Webhook } from "standardwebhooks";
import { SMTPServer } from "smtp-server";
import { simpleParser } from "mailparser";

const options = JSON.parse(process.argv[2]);
const print = (value) => process.stdout.write(JSON.stringify(value) + "\n");
const pem = (name) => options[name] && fs.readFileSync(options[name]);
const tls = options.key ? { key: pem("key"), cert: pem("cert") } : {};
let status = 200;

function receive(request, response) {
  const parts = [];
  request.on("data", (part) => parts.push(part));
  request.on("end", () => {
    const text = Buffer.concat(parts).toString();
    let error = null;
    try {
      new Webhook(options.secret).verify(text, request.headers);
    } catch (failure) {
      error = failure.message;
    }
    response.writeHead(error ? 401 : status).end();
    const id = request.headers["webhook-id"];
    print({ webhook: { id, path: request.url, status, error, body: JSON.parse(text) } });
  });
}

const webhooks = options.key ? https.createServer(tls, receive) : http.createServer(receive);
const mails = new SMTPServer({
  ...tls,
  authOptional: !options.user,
  disabledCommands: options.key ? [] : ["STARTTLS"],
  onAuth(login, session, done) {
    const right = login.username === options.user && login.password === options.password;
    done(right ? null : new Error("wrong password"), { user: login.username });
  },
  onRcptTo(address, session, done) {
    const rejected = address.address === options.rejected;
    done(rejected ? Object.assign(new Error("no such mailbox"), { responseCode: 550 }) : null);
  },
  async onData(stream, session, done) {
    const mail = await simpleParser(stream);
    print({
      mail: {
        from: session.envelope.mailFrom.address,
        to: session.envelope.rcptTo.map((it) => it.address),
        subject: mail.subject,
        text: mail.text,
        id: mail.messageId,
        headers: mail.headerLines.map((it) => it.key),
        secure: session.secure,
        user: session.user ?? null,
      },
    });
    done();
  },
});

// A client that refuses the certificate ends the connection.
mails.on("error", () => {});
const listen = (server, port) =>
  new Promise((ready) => server.listen(port, "127.0.0.1", () => ready(server.address().port)));
const webhook = await listen(webhooks, options.webhookPort);
const smtp = await listen(mails.server, 0);
readline
  .createInterface({ input: process.stdin })
  .on("line", (line) => (status = Number(line)))
  .on("close", () => process.exit(0));
print({ ready: { webhook, smtp } });

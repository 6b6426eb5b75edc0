// A participant that serves HTTP/2 only, with the server of Node.js (nghttp2). Its only argument is
// JSON: {key, cert}. It prints its port, then a JSON line for each request, which it answers with 200.

import fs from "node:fs";
import http2 from "node:http2";

const { key, cert } = JSON.parse(process.argv[2]);
const tls = { key: fs.readFileSync(key), cert: fs.readFileSync(cert) };
const server = http2.createSecureServer({ ...tls, allowHTTP1: false });
server.on("stream", (stream, headers) => {
  const parts = [];
  stream.on("data", (part) => parts.push(part));
  stream.on("end", () => {
    stream.respond({ ":status": 200 });
    stream.end();
    const body = Buffer.concat(parts).toString();
    process.stdout.write(JSON.stringify({ headers, body }) + "\n");
  });
});
server.listen(0, "127.0.0.1", () => console.log(server.address().port));
process.stdin.resume().on("close", () => process.exit(0));

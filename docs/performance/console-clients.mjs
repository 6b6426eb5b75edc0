// Sends the requests of overview pages that are open: as many as COUNT, until it is killed.
//
//   node docs/performance/console-clients.mjs ADMIN_URL TOKEN_FILE COUNT
//
// Each client has its own connection. Like the page, it reads the status a second after the last
// answer, and the latest failed payments after ten.

import { readFileSync } from 'node:fs';
import { Agent, get } from 'node:http';

const [admin, tokenFile, count] = process.argv.slice(2);
const token = readFileSync(tokenFile, 'utf8').trim();
let answers = 0;

function read(agent, path) {
  return new Promise((resolve, reject) => {
    const headers = { Authorization: `Bearer ${token}` };
    const request = get(admin + path, { agent, headers }, (response) => {
      response.resume();
      response.on('end', () => {
        if (response.statusCode !== 200) reject(new Error(`${path}: ${response.statusCode}`));
        answers += 1;
        resolve();
      });
    });
    request.on('error', reject);
  });
}

async function repeat(agent, path, pause) {
  for (;;) {
    await read(agent, path);
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

process.on('SIGTERM', () => {
  console.log(`${answers} answers`);
  process.exit(0);
});
for (let client = 0; client < Number(count); client += 1) {
  const agent = new Agent({ keepAlive: true, maxSockets: 2 });
  void repeat(agent, '/status', 1_000);
  void repeat(agent, '/transfers?state=ABORTED&limit=5', 10_000);
}

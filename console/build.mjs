// Builds the console: src/ becomes the files of dist/, which the switch embeds.
//
// The same sources and the same versions of the packages give the same bytes on every machine:
// names have no digests, and the compression is written in JavaScript.

import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';
import { gzipSync } from 'fflate';

/** Maximum size of all compressed files. */
const COMPRESSED_BYTES_MAX = 250_000;

const here = fileURLToPath(new URL('.', import.meta.url));
const output = process.argv[2] ?? `${here}dist`;

const bundled = await build({
  absWorkingDir: here,
  entryPoints: { console: 'src/main.tsx', style: 'src/style.css' },
  outdir: output,
  bundle: true,
  minify: true,
  legalComments: 'none',
  charset: 'utf8',
  format: 'esm',
  target: ['chrome109', 'firefox115', 'safari16.4'],
  jsx: 'automatic',
  jsxImportSource: 'preact',
  write: false,
  logLevel: 'warning',
});

const files = new Map(bundled.outputFiles.map((file) => [file.path.split('/').pop(), file.text]));
for (const name of readdirSync(`${here}static`)) {
  files.set(name, readFileSync(`${here}static/${name}`, 'utf8'));
}
// The only package whose code is part of the built files.
const licence = readFileSync(`${here}node_modules/preact/LICENSE`, 'utf8');
files.set('licences.txt', `The console contains Preact (https://preactjs.com).\n\n${licence}`);

rmSync(output, { recursive: true, force: true });
mkdirSync(output, { recursive: true });
let total = 0;
for (const [name, text] of [...files].sort()) {
  const compressed = gzipSync(new TextEncoder().encode(text), { level: 9, mtime: 0 });
  // The byte that names the operating system differs between versions of libraries.
  compressed[9] = 255;
  writeFileSync(`${output}/${name}`, text);
  writeFileSync(`${output}/${name}.gz`, compressed);
  total += compressed.length;
  console.log(`${name}: ${text.length} characters, ${compressed.length} bytes compressed`);
}
if (COMPRESSED_BYTES_MAX < total) {
  throw new Error(`${total} bytes compressed, more than ${COMPRESSED_BYTES_MAX}`);
}

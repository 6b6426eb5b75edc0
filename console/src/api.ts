// Requests to the admin API of the switch that serves this page.

import { token } from './session';
import { texts } from './texts';

/** A request that was refused, or that got no response. */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** A change, as the operator confirms it. */
export interface Change {
  method: 'POST' | 'PUT' | 'DELETE';
  path: string;
  body?: unknown;
}

/** The result of a change: done, or proposed for a second operator. */
export interface Done<T> {
  proposal?: number;
  body: T | null;
}

interface ErrorBody {
  errorInformation?: { errorCode?: string; errorDescription?: string };
}

async function send(method: string, path: string, options: RequestInit): Promise<Response> {
  const headers = new Headers(options.headers);
  const bearer = token();
  if (bearer !== null && !path.startsWith('/login')) headers.set('Authorization', `Bearer ${bearer}`);
  let response: Response;
  try {
    response = await fetch(path, {
      ...options,
      method,
      headers,
      credentials: 'omit',
      redirect: 'error',
      cache: 'no-store',
    });
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error;
    throw new ApiError(0, texts.errors.unreachable);
  }
  if (response.ok) return response;
  throw new ApiError(response.status, await explain(response));
}

async function explain(response: Response): Promise<string> {
  const fallback = texts.errors.status(response.status);
  try {
    const body = (await response.json()) as ErrorBody;
    const { errorCode, errorDescription } = body.errorInformation ?? {};
    return errorDescription === undefined ? fallback : `${errorDescription} (${errorCode})`;
  } catch {
    return fallback;
  }
}

/** Reads JSON. */
export async function get<T>(path: string, signal?: AbortSignal): Promise<T> {
  const response = await send('GET', path, signal ? { signal } : {});
  return (await response.json()) as T;
}

/**
 * Follows server-sent events of JSON until they end. Fails if none comes within `silence`
 * milliseconds.
 */
export async function follow<T>(
  path: string,
  { signal, silence }: { signal: AbortSignal; silence: number },
  onData: (data: T) => void,
): Promise<void> {
  const ended = new AbortController();
  const end = () => ended.abort();
  signal.addEventListener('abort', end);
  let timer = setTimeout(end, silence);
  try {
    const headers = { Accept: 'text/event-stream' };
    const response = await send('GET', path, { headers, signal: ended.signal });
    const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
    let text = '';
    for (;;) {
      const read = await reader?.read();
      if (read === undefined || read.done) return;
      clearTimeout(timer);
      timer = setTimeout(end, silence);
      const events = (text + read.value).split('\n\n');
      text = events.pop() ?? '';
      for (const event of events) onData(JSON.parse(event.replace(/^data: /, '')) as T);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener('abort', end);
    ended.abort();
  }
}

/** Reads text and its media type, for files. */
export async function download(path: string): Promise<Blob> {
  return (await send('GET', path, {})).blob();
}

/** Makes a request that changes nothing that is recorded. */
export async function act<T>(path: string): Promise<T> {
  return (await (await send('POST', path, {})).json()) as T;
}

/** Makes a change, with the reason that the log records. */
export async function change<T>(it: Change, reason: string): Promise<Done<T>> {
  const headers: Record<string, string> = {};
  if (reason !== '') headers['X-Reason'] = utf8(reason);
  if (it.body !== undefined) headers['Content-Type'] = 'application/json';
  const body = it.body === undefined ? null : JSON.stringify(it.body);
  const response = await send(it.method, it.path, { headers, body });
  const text = await response.text();
  const result = text === '' ? null : (JSON.parse(text) as T & { proposalId?: number });
  const location = response.headers.get('Location') ?? '';
  if (response.status === 202 && location.startsWith('/proposals/')) {
    return { proposal: Number(location.slice('/proposals/'.length)), body: result };
  }
  return { body: result };
}

/** The bytes of a text in UTF-8 as a header value, which `fetch` takes byte by byte. */
function utf8(text: string): string {
  return String.fromCharCode(...new TextEncoder().encode(text));
}

/** A reading request as a command of a shell. */
export function readCommand(path: string): string {
  return `curl -H "Authorization: Bearer $(cat TOKEN_FILE)" '${location.origin}${path}'`;
}

/** A part of a path. */
export function part(text: string): string {
  return encodeURIComponent(text);
}

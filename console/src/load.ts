// Data of a page: read when it opens, read again on request or regularly.

import { useCallback, useEffect, useState } from 'preact/hooks';
import { ApiError, follow, get } from './api';

export interface Loaded<T> {
  data: T | undefined;
  error: ApiError | undefined;
  reload: () => void;
}

/** Reads a path; `every` milliseconds again while the page is visible. `null` reads nothing. */
export function useData<T>(path: string | null, every = 0): Loaded<T> {
  const [state, setState] = useState<{ path: string | null; data?: T; error?: ApiError }>({ path });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((it) => it + 1), []);
  useEffect(() => {
    if (path === null) return;
    const ended = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const read = async () => {
      try {
        if (every === 0 || !document.hidden) {
          const data = await get<T>(path, ended.signal);
          if (!ended.signal.aborted) setState({ path, data });
        }
      } catch (error) {
        if (ended.signal.aborted) return;
        const known = error instanceof ApiError ? error : new ApiError(0, String(error));
        // The last data stay visible next to the error.
        setState((last) => ({ ...(last.path === path ? last : {}), path, error: known }));
      }
      if (every !== 0 && !ended.signal.aborted) timer = setTimeout(read, every);
    };
    void read();
    return () => {
      ended.abort();
      clearTimeout(timer);
    };
  }, [path, every, round]);
  const isCurrent = state.path === path;
  return {
    data: isCurrent ? state.data : undefined,
    error: isCurrent ? state.error : undefined,
    reload,
  };
}

/** Silence after which a stream is given up, and the number of reads before it is tried again. */
const SILENCE = 5_000;
const READS = 10;

/**
 * Follows a path of server-sent events while the page is visible. If they cannot be followed, it
 * reads the path every `every` milliseconds, which `polled` says, and tries to follow it again.
 */
export function useFollowed<T>(path: string, every: number): Loaded<T> & { polled: boolean } {
  const [state, setState] = useState<{ data?: T; error?: ApiError; polled: boolean }>({
    polled: false,
  });
  const [round, setRound] = useState(0);
  const reload = useCallback(() => setRound((it) => it + 1), []);
  useEffect(() => {
    const ended = new AbortController();
    void keep<T>(path, { every, ended: ended.signal }, (next) => {
      if (!ended.signal.aborted) setState((last) => ({ ...last, error: undefined, ...next }));
    });
    return () => ended.abort();
  }, [path, every, round]);
  return { data: state.data, error: state.error, polled: state.polled, reload };
}

type Next<T> = { data?: T; error?: ApiError; polled?: boolean };

async function keep<T>(
  path: string,
  { every, ended }: { every: number; ended: AbortSignal },
  show: (next: Next<T>) => void,
): Promise<void> {
  while (!ended.aborted) {
    await visible(ended);
    const hidden = new AbortController();
    const onChange = () => document.hidden && hidden.abort();
    document.addEventListener('visibilitychange', onChange);
    const onEnd = () => hidden.abort();
    ended.addEventListener('abort', onEnd);
    let count = 0;
    try {
      await follow<T>(path, { signal: hidden.signal, silence: SILENCE }, (data) => {
        count += 1;
        show({ data, polled: false });
      });
    } catch {
      count = 0;
    } finally {
      document.removeEventListener('visibilitychange', onChange);
      ended.removeEventListener('abort', onEnd);
    }
    // A stream ends regularly, and the next one follows.
    if (count === 0 && !hidden.signal.aborted) await poll<T>(path, { every, ended }, show);
  }
}

/** Reads a path some times. */
async function poll<T>(
  path: string,
  { every, ended }: { every: number; ended: AbortSignal },
  show: (next: Next<T>) => void,
): Promise<void> {
  for (let count = 0; count < READS && !ended.aborted; count += 1) {
    try {
      if (!document.hidden) show({ data: await get<T>(path, ended), polled: true });
    } catch (error) {
      if (ended.aborted) return;
      // The last data stay visible next to the error.
      const known = error instanceof ApiError ? error : new ApiError(0, String(error));
      show({ error: known, polled: true });
    }
    await new Promise((resolve) => setTimeout(resolve, every));
  }
}

/** Waits until the page is visible. */
function visible(ended: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const check = () => {
      if (document.hidden && !ended.aborted) return;
      document.removeEventListener('visibilitychange', check);
      resolve();
    };
    document.addEventListener('visibilitychange', check);
    ended.addEventListener('abort', check, { once: true });
    check();
  });
}

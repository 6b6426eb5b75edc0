// Data of a page: read when it opens, read again on request or regularly.

import { useCallback, useEffect, useState } from 'preact/hooks';
import { ApiError, get } from './api';

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

// The token of the operator. It is stored for the lifetime of the browser's tab, and never in a
// cookie, so that no other page can send it.

const KEY = 'upesi-token';

export function token(): string | null {
  return sessionStorage.getItem(KEY);
}

export function remember(value: string): void {
  sessionStorage.setItem(KEY, value);
}

export function forget(): void {
  sessionStorage.removeItem(KEY);
}

// The login at an OpenID provider: an authorization code with PKCE. The browser goes to the provider
// and comes back with a code, which the switch exchanges for a token.

import { ApiError, change, get } from './api';
import { texts } from './texts';

const KEY = 'upesi-provider-login';

/** Where a browser logs in. */
export interface Provider {
  host: string;
  authorizationUrl: string;
  clientId: string;
  scope: string;
  audience: string;
}

/** A login that has begun, until the browser comes back. */
interface Begun {
  state: string;
  /** Comes back in the ID token, which the switch checks. */
  nonce: string;
  verifier: string;
  /** The page that was asked for. */
  fragment: string;
}

/** The provider, or undefined if there is none. */
export async function provider(): Promise<Provider | undefined> {
  try {
    return await get<Provider>('/login/provider');
  } catch (error) {
    if (error instanceof ApiError && error.status === 400) return undefined;
    throw error;
  }
}

/** The address that the provider sends the browser back to. */
const home = () => `${location.origin}/console/`;

function encode(bytes: Uint8Array): string {
  const text = btoa(String.fromCharCode(...bytes));
  return text.replaceAll('+', '-').replaceAll('/', '_').replace(/=+$/, '');
}

const random = () => encode(crypto.getRandomValues(new Uint8Array(32)));

/** Sends the browser to the provider. */
export async function begin(at: Provider): Promise<void> {
  // Browsers compute digests on HTTPS and on this machine only.
  if (crypto.subtle === undefined) throw new ApiError(0, texts.login.insecure);
  const begun: Begun = {
    state: random(),
    nonce: random(),
    verifier: random(),
    fragment: location.hash,
  };
  const digest = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(begun.verifier));
  sessionStorage.setItem(KEY, JSON.stringify(begun));
  const url = new URL(at.authorizationUrl);
  const query: Record<string, string> = {
    response_type: 'code',
    client_id: at.clientId,
    redirect_uri: home(),
    scope: at.scope,
    state: begun.state,
    nonce: begun.nonce,
    code_challenge: encode(new Uint8Array(digest)),
    code_challenge_method: 'S256',
  };
  if (at.audience !== '') query['audience'] = at.audience;
  if (at.audience.includes(':')) query['resource'] = at.audience;
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  location.assign(url);
}

/** Whether the browser comes back from the provider. */
export const isBack = () => /[?&](code|error)=/.test(location.search);

/** The token of a login that the browser comes back from. */
export async function finish(): Promise<string> {
  const query = new URLSearchParams(location.search);
  const stored = sessionStorage.getItem(KEY);
  sessionStorage.removeItem(KEY);
  const begun = stored === null ? undefined : (JSON.parse(stored) as Begun);
  history.replaceState(null, '', `${location.pathname}${begun?.fragment ?? ''}`);
  // A link that somebody else began has another state.
  if (begun === undefined || query.get('state') !== begun.state) {
    throw new ApiError(0, texts.login.otherState);
  }
  const refused = query.get('error');
  if (refused !== null) {
    throw new ApiError(0, texts.login.refused(query.get('error_description') ?? refused));
  }
  const { nonce, verifier: codeVerifier } = begun;
  const body = { code: query.get('code') ?? '', codeVerifier, nonce, redirectUri: home() };
  const { body: made } = await change<{ token: string }>(
    { method: 'POST', path: '/login/provider', body },
    '',
  );
  if (made === null) throw new ApiError(0, texts.unknown);
  return made.token;
}

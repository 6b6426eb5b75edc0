// The console of Upesi: the frame of all pages, the login, and the choice of the page.

import { render } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { ApiError, get } from './api';
import { Login, type Identity } from './pages/login';
import { PAGES, Page } from './pages';
import { address, usePlace } from './router';
import { finish, isBack } from './provider';
import { forget, remember, token } from './session';
import { texts } from './texts';
import { Note } from './ui';

type LoginState = { who: Identity } | { note?: string } | 'checking' | { failed: string };

function Console() {
  const [login, setLogin] = useState<LoginState>('checking');
  useEffect(() => {
    const back = isBack();
    const known = back ? finish().then(remember) : Promise.resolve();
    known.then(() => get<Identity>('/identity')).then(
      (who) => setLogin({ who }),
      (error: ApiError) => {
        // The code or the token of the provider was refused: the switch says why.
        if (back || (error.status === 0 && token() === null)) {
          forget();
          return setLogin({ note: error.message });
        }
        if (error.status !== 401) return setLogin({ failed: error.message });
        const note = token() === null ? undefined : texts.login.ended;
        forget();
        setLogin(note === undefined ? {} : { note });
      },
    );
  }, []);
  if (login === 'checking') return <p role="status">{texts.loading}</p>;
  if ('failed' in login) return <Note mood="bad">{login.failed}</Note>;
  if ('who' in login) return <Frame who={login.who} onEnd={() => setLogin({})} />;
  return <Login note={login.note} onDone={(who) => setLogin({ who })} />;
}

function Frame({ who, onEnd }: { who: Identity; onEnd: () => void }) {
  const place = usePlace();
  const [first = ''] = place.path;
  const skip = (event: Event) => {
    event.preventDefault();
    document.querySelector<HTMLElement>('#content h1')?.focus();
  };
  const end = () => {
    forget();
    onEnd();
  };
  return (
    <>
      <a class="skip" href="#content" onClick={skip}>
        {texts.skip}
      </a>
      <header class="bar">
        <a class="brand" href={address([])}>
          {texts.product}
        </a>
        <nav aria-label={texts.navigation.label}>
          {PAGES.map(([path, text]) => (
            <a
              key={path}
              href={address(path === '' ? [] : [path])}
              aria-current={path === first ? 'page' : undefined}
            >
              {text}
            </a>
          ))}
        </nav>
        <span class="who">{who.name ?? who.credential}</span>
        {token() === null ? null : (
          <button type="button" onClick={end}>
            {texts.navigation.logOut}
          </button>
        )}
      </header>
      <main id="content">
        <Page place={place} />
      </main>
    </>
  );
}

const root = document.getElementById('console');
if (root !== null) render(<Console />, root);

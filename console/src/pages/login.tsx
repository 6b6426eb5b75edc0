// The login: with a token, or with a name, a password and the code of a second factor.

import { useEffect, useState } from 'preact/hooks';
import { ApiError, change, get } from '../api';
import { begin, provider, type Provider } from '../provider';
import { forget, remember } from '../session';
import { texts } from '../texts';
import { Choice, Field, Note, Title } from '../ui';

type Way = 'token' | 'password' | 'provider';

export interface Identity {
  name?: string;
  credential: string;
  permissions: string[];
  expirationDate?: string;
}

export function Login(it: { note: string | undefined; onDone: (who: Identity) => void }) {
  const [way, setWay] = useState<Way>('token');
  const [values, setValues] = useState({ token: '', name: '', password: '', code: '' });
  const [problem, setProblem] = useState<{ field?: string; text: string }>();
  const [busy, setBusy] = useState(false);
  const [at, setAt] = useState<Provider>();
  useEffect(() => {
    // Without an answer of the provider, the other ways remain.
    provider().then(
      (found) => {
        setAt(found);
        if (found !== undefined) setWay('provider');
      },
      () => undefined,
    );
  }, []);
  const field = (name: keyof typeof values) => ({
    value: values[name],
    onValue: (value: string) => setValues({ ...values, [name]: value }),
    error: problem?.field === name ? problem.text : undefined,
  });

  const submit = async (event: Event) => {
    event.preventDefault();
    if (way === 'provider' && at !== undefined) {
      setBusy(true);
      return begin(at).catch((error: unknown) => {
        setProblem({ text: error instanceof ApiError ? error.message : String(error) });
        setBusy(false);
      });
    }
    const wrong = check(way, values);
    setProblem(wrong);
    if (wrong !== undefined) return;
    setBusy(true);
    try {
      remember(way === 'token' ? values.token.trim() : await session(values));
      it.onDone(await get<Identity>('/identity'));
    } catch (error) {
      forget();
      setProblem({ text: error instanceof ApiError ? error.message : String(error) });
      setBusy(false);
    }
  };

  return (
    <main id="content" class="narrow">
      <Title text={texts.login.title} />
      {it.note === undefined ? null : <Note mood="warn">{it.note}</Note>}
      <Choice<Way>
        label={texts.login.title}
        options={[
          ['token', texts.login.withToken],
          ['password', texts.login.withPassword],
          ...(at === undefined
            ? []
            : [['provider', texts.login.withProvider(at.host)] as [Way, string]]),
        ]}
        value={way}
        onValue={(chosen) => {
          setWay(chosen);
          setProblem(undefined);
        }}
      />
      <form onSubmit={(event) => void submit(event)} noValidate>
        {way === 'token' ? (
          <Field
            {...field('token')}
            label={texts.login.token}
            hint={texts.login.tokenHint}
            type="password"
            autocomplete="off"
          />
        ) : way === 'provider' ? null : (
          <>
            <Field {...field('name')} label={texts.login.name} autocomplete="username" />
            <Field
              {...field('password')}
              label={texts.login.password}
              type="password"
              autocomplete="current-password"
            />
            <Field
              {...field('code')}
              label={texts.login.code}
              hint={texts.login.codeHint}
              inputMode="numeric"
              autocomplete="one-time-code"
            />
          </>
        )}
        {problem !== undefined && problem.field === undefined ? (
          <Note mood="bad">{problem.text}</Note>
        ) : null}
        <button class="primary" disabled={busy}>
          {way === 'provider' && at !== undefined
            ? texts.login.goToProvider(at.host)
            : texts.login.submit}
        </button>
        <p class="hint">{texts.login.kept}</p>
      </form>
    </main>
  );
}

interface Values {
  token: string;
  name: string;
  password: string;
  code: string;
}

/** The first field without a usable value. */
function check(way: Way, values: Values): { field: string; text: string } | undefined {
  const needed: [keyof Values, string][] =
    way === 'token'
      ? [['token', texts.login.token]]
      : [
          ['name', texts.login.name],
          ['password', texts.login.password],
        ];
  const missing = needed.find(([field]) => values[field].trim() === '');
  if (missing !== undefined) return { field: missing[0], text: texts.login.missing(missing[1]) };
  const usable = /^[\x21-\x7e]+$/.test(values.token.trim());
  return way === 'token' && !usable ? { field: 'token', text: texts.login.invalidToken } : undefined;
}

/** The token of a new session. */
async function session({ name, password, code }: Values): Promise<string> {
  const body = code.trim() === '' ? { name, password } : { name, password, code: code.trim() };
  const { body: made } = await change<{ token: string }>(
    { method: 'POST', path: '/login', body },
    '',
  );
  if (made === null) throw new ApiError(0, texts.unknown);
  return made.token;
}

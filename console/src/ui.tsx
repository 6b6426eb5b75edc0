// Parts that several pages use. Every text from outside is text of an element, never HTML.

import type { ComponentChildren } from 'preact';
import { useEffect, useId, useRef, useState } from 'preact/hooks';
import type { Loaded } from './load';
import { texts } from './texts';

/** The heading of a page. It gets the focus, so that a screen reader announces the page. */
export function Title({ text, children }: { text: string; children?: ComponentChildren }) {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${text} · ${texts.product}`;
    heading.current?.focus();
  }, [text]);
  return (
    <header class="title">
      <h1 ref={heading} tabIndex={-1}>
        {text}
      </h1>
      {children}
    </header>
  );
}

export interface Column<Row> {
  name: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers are aligned at their end. */
  number?: boolean;
}

/** A table. On a narrow screen it scrolls within its frame, which the keyboard can reach. */
export function Table<Row>(it: { caption: string; columns: Column<Row>[]; rows: Row[] }) {
  const kind = (column: Column<Row>) => (column.number ? 'number' : undefined);
  return (
    <div class="frame" tabIndex={0} role="group" aria-label={it.caption}>
      <table>
        <caption>{it.caption}</caption>
        <thead>
          <tr>
            {it.columns.map((column) => (
              <th key={column.name} scope="col" class={kind(column)}>
                {column.name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {it.rows.map((row, index) => (
            <tr key={index}>
              {it.columns.map((column) => (
                <td key={column.name} class={kind(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Pairs of a name and a value; pairs without a value are left out. */
export function Facts({ pairs }: { pairs: [string, ComponentChildren][] }) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  return (
    <dl class="facts">
      {shown.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

export type Mood = 'good' | 'bad' | 'warn' | 'plain';

/** A moment on one line. */
export function Moment({ text }: { text: string }) {
  return (
    <time class="moment" dateTime={text}>
      {text}
    </time>
  );
}

/** A short state. The text says it, the colour only repeats it. */
export function Badge({ mood, text }: { mood: Mood; text: string }) {
  return <span class={`badge ${mood}`}>{text}</span>;
}

/** A message. It is announced when it appears. */
export function Note(it: { mood: Mood; title?: string; children: ComponentChildren }) {
  return (
    <div class={`note ${it.mood}`} role={it.mood === 'bad' ? 'alert' : 'status'}>
      {it.title === undefined ? null : <strong>{it.title}</strong>}
      <div>{it.children}</div>
    </div>
  );
}

/** Shows data, or that they are being read, or why they cannot be read. */
export function Await<T>(it: { of: Loaded<T>; children: (data: T) => ComponentChildren }) {
  const { data, error, reload } = it.of;
  return (
    <>
      {error === undefined ? null : (
        <Note mood="bad" title={error.status === 403 ? texts.errors.forbidden : undefined}>
          <p>{error.message}</p>
          <button type="button" onClick={reload}>
            {texts.retry}
          </button>
        </Note>
      )}
      {data === undefined && error === undefined ? <p role="status">{texts.loading}</p> : null}
      {data === undefined ? null : it.children(data)}
    </>
  );
}

/** A button that copies a text, and says that it did. */
export function Copy({ text, label }: { text: string; label: string }) {
  const [done, setDone] = useState(false);
  useEffect(() => {
    if (!done) return;
    const timer = setTimeout(() => setDone(false), 2000);
    return () => clearTimeout(timer);
  }, [done]);
  return (
    <button type="button" onClick={() => void copy(text).then(() => setDone(true))}>
      <span aria-live="polite">{done ? texts.copied : label}</span>
    </button>
  );
}

/** The clipboard is available on HTTPS and on this machine; elsewhere a selection does it. */
async function copy(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return navigator.clipboard.writeText(text);
  const field = document.createElement('textarea');
  field.value = text;
  document.body.append(field);
  field.select();
  document.execCommand('copy');
  field.remove();
}

/** The equivalent command of the command line. Commands of `curl` name the token themselves. */
export function CommandLine({ command }: { command: string }) {
  return (
    <section class="command" aria-label={texts.commandLine}>
      <h2>{texts.commandLine}</h2>
      <div class="row">
        <code tabIndex={0}>{command}</code>
        <Copy text={command} label={texts.copy} />
      </div>
      {command.startsWith('upesi') ? <p class="hint">{texts.commandHint}</p> : null}
    </section>
  );
}

/** A field of a form with its label, a hint and an error. */
export function Field(it: {
  label: string;
  hint?: string;
  error?: string | undefined;
  value: string;
  onValue: (value: string) => void;
  type?: 'text' | 'password' | 'number' | 'datetime-local';
  autocomplete?: 'off' | 'username' | 'current-password' | 'one-time-code';
  inputMode?: 'numeric' | 'decimal';
}) {
  const id = useId();
  const { label, hint, error, value, onValue, ...input } = it;
  const described = [hint && `${id}-hint`, error && `${id}-error`].filter(Boolean).join(' ');
  return (
    <div class="field">
      <label for={id}>{label}</label>
      <input
        {...(input as object)}
        id={id}
        value={value}
        spellcheck={false}
        aria-invalid={error !== undefined}
        aria-describedby={described === '' ? undefined : described}
        onInput={(event) => onValue(event.currentTarget.value)}
      />
      {hint === undefined ? null : (
        <p class="hint" id={`${id}-hint`}>
          {hint}
        </p>
      )}
      {error === undefined ? null : (
        <p class="error" id={`${id}-error`} role="alert">
          {error}
        </p>
      )}
    </div>
  );
}

/** A field for several lines. */
export function Area(it: {
  label: string;
  value: string;
  onValue: (value: string) => void;
  error: string | undefined;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{it.label}</label>
      <textarea
        id={id}
        rows={3}
        value={it.value}
        spellcheck={false}
        aria-invalid={it.error !== undefined}
        aria-describedby={it.error === undefined ? undefined : `${id}-error`}
        onInput={(event) => it.onValue(event.currentTarget.value)}
      />
      {it.error === undefined ? null : (
        <p class="error" id={`${id}-error`} role="alert">
          {it.error}
        </p>
      )}
    </div>
  );
}

/** One value of a list. */
export function Select(it: {
  label: string;
  /** Values with their texts. */
  options: Record<string, string>;
  /** The text of no choice. */
  any: string;
  value: string;
  onValue: (value: string) => void;
}) {
  const id = useId();
  return (
    <div class="field">
      <label for={id}>{it.label}</label>
      <select id={id} value={it.value} onChange={(event) => it.onValue(event.currentTarget.value)}>
        <option value="">{it.any}</option>
        {Object.entries(it.options).map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}

/** One choice of several, as buttons that say which one is chosen. */
export function Choice<T extends string>(it: {
  label: string;
  options: [T, string][];
  value: T;
  onValue: (value: T) => void;
}) {
  return (
    <div class="choice" role="group" aria-label={it.label}>
      {it.options.map(([value, text]) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === it.value}
          onClick={() => it.onValue(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}

// Finding payments: by the id of one, or by participant, state, time and amount.

import { useState } from 'preact/hooks';
import { part, readCommand } from '../api';
import { useData } from '../load';
import { address, go } from '../router';
import { columns, texts } from '../texts';
import {
  Await,
  Badge,
  CommandLine,
  Field,
  Moment,
  Note,
  Select,
  Table,
  Title,
  type Column,
  type Mood,
} from '../ui';
import { amount } from './participants';

const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
const ULID = /^[0-7][0-9A-HJKMNP-TV-Z]{25}$/;
/** A trace id, alone or within a `traceparent`. */
const TRACE = /^(?:[0-9a-f]{2}-)?([0-9a-f]{32})(?:-[0-9a-f]{16}-[0-9a-f]{2})?$/;
const HOUR = 3_600_000;
const AMOUNT = /^\d{1,18}(\.\d{1,4})?$/;
/** Payments of a page. */
const PAGE = 50;

const words = texts.payments;

export interface Listed {
  transferId: string;
  payer?: string;
  payee?: string;
  amount: number;
  currency: string;
  transferState: 'RESERVED' | 'COMMITTED' | 'ABORTED';
  cause?: string;
  errorCode?: number;
  reason?: string;
  changedDate: string;
}

interface Page {
  transfers: Listed[];
  next?: string;
  missingUpTo?: number;
}

/** The filters, by their names in the address of the page. */
const FILTERS = [
  'participant',
  'state',
  'cause',
  'from',
  'to',
  'amountMin',
  'amountMax',
  'currency',
] as const;
type Filter = Record<(typeof FILTERS)[number], string>;

const MOODS: Record<Listed['transferState'], Mood> = {
  COMMITTED: 'good',
  RESERVED: 'warn',
  ABORTED: 'bad',
};

const party = (name: string | undefined) =>
  name === undefined ? texts.unknown : <a href={address(['participants', name])}>{name}</a>;

export const PAYMENT_COLUMNS: Column<Listed>[] = [
  { name: words.changed, cell: (it) => <Moment text={it.changedDate} /> },
  {
    name: words.payment,
    cell: (it) => (
      <a href={address(['transfers', it.transferId])}>
        <code>{it.transferId}</code>
      </a>
    ),
  },
  {
    name: columns.status,
    cell: (it) => (
      <Badge
        mood={MOODS[it.transferState]}
        text={(it.cause ?? it.transferState).toLowerCase()}
      />
    ),
  },
  { name: words.why, cell: (it) => it.reason ?? '' },
  { name: columns.amount, cell: (it) => `${amount(it.amount)} ${it.currency}`, number: true },
  { name: words.payer, cell: (it) => party(it.payer) },
  { name: words.payee, cell: (it) => party(it.payee) },
  { name: words.code, cell: (it) => it.errorCode ?? '', number: true },
];

export function Payments({ query }: { query: URLSearchParams }) {
  const asked = Object.fromEntries(FILTERS.map((name) => [name, query.get(name) ?? ''])) as Filter;
  const cursor = query.get('cursor') ?? '';
  const path = pathOf(asked, cursor);
  const page = useData<Page>(query.has('trace') ? null : path);
  const failed = asked.state === 'ABORTED';
  const trace = query.get('trace') ?? '';
  if (trace !== '') {
    return (
      <>
        <Title text={words.title} />
        <FindPayment />
        <TraceFound trace={trace} from={asked.from} after={query.get('after') ?? ''} />
      </>
    );
  }
  const show = (filter: Partial<Filter>, next?: string) =>
    go(address(['transfers'], { ...asked, ...filter, cursor: next }));
  return (
    <>
      <Title text={words.title} />
      <FindPayment />
      <h2>{words.list}</h2>
      <div class="row">
        <button
          type="button"
          aria-pressed={failed}
          onClick={() => show({ state: failed ? '' : 'ABORTED', cause: '' })}
        >
          {words.failedOnly}
        </button>
      </div>
      <Filters key={FILTERS.map((name) => asked[name]).join('|')} asked={asked} onShow={show} />
      <Await of={page}>
        {(data) => (
          <>
            {data.missingUpTo === undefined ? null : (
              <Note mood="warn">{words.missing(data.missingUpTo)}</Note>
            )}
            {data.transfers.length === 0 ? (
              <p>{data.next === undefined ? words.nothing : words.nothingYet}</p>
            ) : (
              <Table caption={words.found} columns={PAYMENT_COLUMNS} rows={data.transfers} />
            )}
            <div class="row">
              {cursor === '' ? null : (
                <button type="button" onClick={() => show({})}>
                  {texts.callbacks.newest}
                </button>
              )}
              {data.next === undefined ? null : (
                <button type="button" onClick={() => show({}, data.next)}>
                  {texts.callbacks.older}
                </button>
              )}
            </div>
          </>
        )}
      </Await>
      <CommandLine command={commandOf(asked) ?? readCommand(path)} />
    </>
  );
}

/** A moment of the form in UTC. */
const utc = (text: string) => (text === '' ? '' : new Date(`${text}Z`).toISOString());

function pathOf(filter: Filter, cursor: string): string {
  const query = new URLSearchParams({ limit: String(PAGE) });
  for (const name of FILTERS) if (filter[name] !== '') query.set(name, filter[name]);
  if (cursor !== '') query.set('cursor', cursor);
  return `/transfers?${query}`;
}

/** The same list on the command line. */
function commandOf(filter: Filter): string | undefined {
  const parts = ['upesi transfer list'];
  for (const name of FILTERS) {
    if (filter[name] === '') continue;
    if (!/^[\w.:-]+$/.test(filter[name])) return undefined;
    const option = name.replace(/[A-Z]/, (letter) => `-${letter.toLowerCase()}`);
    const value = name === 'state' || name === 'cause' ? filter[name].toLowerCase() : filter[name];
    parts.push(`--${option} ${value}`);
  }
  return `${parts.join(' ')} --admin ${location.origin}`;
}

function Filters(it: { asked: Filter; onShow: (filter: Filter) => void }) {
  const local = (text: string) => text.replace(/Z$/, '').slice(0, 16);
  const first = { ...it.asked, from: local(it.asked.from), to: local(it.asked.to) };
  const [filter, setFilter] = useState(first);
  const [errors, setErrors] = useState<Partial<Filter>>({});
  const field = (name: keyof Filter) => ({
    value: filter[name],
    onValue: (value: string) => setFilter({ ...filter, [name]: value }),
    error: errors[name],
  });
  const submit = (event: Event) => {
    event.preventDefault();
    const found: Partial<Filter> = {};
    for (const name of ['amountMin', 'amountMax'] as const) {
      const text = filter[name].trim();
      if (text !== '' && !AMOUNT.test(text)) found[name] = words.amountInvalid;
    }
    if (filter.currency.trim() !== '' && !/^[A-Z]{3}$/i.test(filter.currency.trim())) {
      found.currency = words.currencyInvalid;
    }
    setErrors(found);
    if (0 < Object.keys(found).length) return;
    it.onShow({
      ...filter,
      participant: filter.participant.trim(),
      from: utc(filter.from),
      to: utc(filter.to),
      amountMin: filter.amountMin.trim(),
      amountMax: filter.amountMax.trim(),
      currency: filter.currency.trim().toUpperCase(),
    });
  };
  return (
    <form class="inline" onSubmit={submit} noValidate aria-label={words.filters}>
      <Field {...field('participant')} label={words.participant} autocomplete="off" />
      <Select {...field('state')} label={columns.status} options={words.states} any={words.anyState} />
      <Select {...field('cause')} label={words.cause} options={words.causes} any={words.anyCause} />
      <Field {...field('from')} label={words.from} type="datetime-local" />
      <Field {...field('to')} label={words.to} type="datetime-local" />
      <Field {...field('amountMin')} label={words.amountMin} inputMode="decimal" autocomplete="off" />
      <Field {...field('amountMax')} label={words.amountMax} inputMode="decimal" autocomplete="off" />
      <Field {...field('currency')} label={columns.currency} autocomplete="off" />
      <button class="primary">{words.search}</button>
    </form>
  );
}

interface TracePage {
  messages: { transferId: string; logIndex: number; recordedDate: string }[];
  after: number;
  next: number;
  end: number;
}

/** The payments of a trace, as the log has them. */
function TraceFound({ trace, from, after }: { trace: string; from: string; after: string }) {
  const query = new URLSearchParams();
  if (from !== '') query.set('from', from);
  if (after !== '') query.set('after', after);
  const page = useData<TracePage>(`/traces/${part(trace)}?${query}`);
  const earlier = (hours: number) =>
    go(address(['transfers'], { trace, from: new Date(Date.now() - hours * HOUR).toISOString() }));
  const command = `upesi transfer list --trace ${trace}${from === '' ? '' : ` --from ${from}`}`;
  return (
    <>
      <h2>{words.trace}</h2>
      <p>
        <code>{trace}</code>
      </p>
      <Await of={page}>
        {(data) => (
          <>
            {data.messages.length === 0 ? null : (
              <Table caption={words.traced} columns={TRACED} rows={data.messages} />
            )}
            <p>{words.searched(data.messages.length, data.after + 1, data.next)}</p>
            <div class="row">
              {data.next === data.end ? null : (
                <button
                  type="button"
                  onClick={() => go(address(['transfers'], { trace, from, after: String(data.next) }))}
                >
                  {words.searchOn}
                </button>
              )}
              <button type="button" onClick={() => earlier(24)}>
                {words.searchDay}
              </button>
            </div>
          </>
        )}
      </Await>
      <CommandLine command={`${command} --admin ${location.origin}`} />
    </>
  );
}

const TRACED: Column<TracePage['messages'][number]>[] = [
  { name: words.recorded, cell: (it) => <Moment text={it.recordedDate} /> },
  {
    name: words.payment,
    cell: (it) => <a href={address(['transfers', it.transferId])}>{it.transferId}</a>,
  },
  { name: texts.payment.record, cell: (it) => it.logIndex, number: true },
];

/** A field for the id of a transfer, and a button that opens its page. */
export function FindPayment() {
  const [id, setId] = useState('');
  const [error, setError] = useState<string>();
  const submit = (event: Event) => {
    event.preventDefault();
    const text = id.trim();
    const found = [text.toLowerCase(), text.toUpperCase()].find(
      (one) => UUID.test(one) || ULID.test(one),
    );
    const trace = TRACE.exec(text.toLowerCase())?.[1];
    setError(found === undefined && trace === undefined ? texts.payments.invalid : undefined);
    if (found !== undefined) go(address(['transfers', found]));
    else if (trace !== undefined) go(address(['transfers'], { trace }));
  };
  return (
    <form class="inline" onSubmit={submit} noValidate role="search" aria-label={texts.payments.find}>
      <Field
        label={texts.payments.id}
        hint={texts.payments.idHint}
        value={id}
        onValue={setId}
        error={error}
        autocomplete="off"
      />
      <button class="primary">{texts.payments.show}</button>
    </form>
  );
}

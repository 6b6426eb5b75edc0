// Dead letters: callbacks that were given up. One, or all that match the filter, can be resent or
// dropped. The switch filters: a million of them are never read at once.

import { useState } from 'preact/hooks';
import { readCommand, type Change } from '../api';
import { useChange, type Plan } from '../change';
import { useData } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import { Await, CommandLine, Field, Table, Title, type Column } from '../ui';

const words = texts.callbacks;
/** Entries of a page. */
const PAGE = 100;

export interface DeadLetter {
  id: number;
  recipient: string;
  transferId?: string;
  message: string;
  outcome: number;
  attempts: number;
  lastStatus?: number;
  createdDate: string;
  lastAttemptDate: string;
}

interface Group {
  recipient: string;
  message: string;
  lastStatus?: number;
  count: number;
  oldestDate: string;
  newestDate: string;
}

type Action = 'resend' | 'drop';

/** What to do to resend or drop dead letters, one by one. */
export function letterPlan(action: Action, letters: DeadLetter[]): Plan {
  return {
    title: words.actionTitle[action](letters.length),
    differences: letters.slice(0, 20).map((letter) => ({
      name: `${words.letter(letter.id)}: ${letter.message}, ${letter.recipient}`,
      before: words.givenUp,
      after: words.afterwards[action],
    })),
    requests: () =>
      letters.map(({ id }) => ({ method: 'POST', path: `/deadletters/${id}/${action}` })),
    ...(action === 'drop' ? { warning: words.dropWarning } : {}),
  };
}

/** What to do to resend or drop all that a filter selects. */
export function selectionPlan(action: Action, filter: string, count?: number): Plan {
  const title = words.actionTitle[action](count);
  const page = (before: string): Change => ({
    method: 'POST',
    path: `/deadletters/${action}?${filter}${before}`,
  });
  return {
    title,
    differences: [{ name: title, before: words.givenUp, after: words.afterwards[action] }],
    requests: () => [page('')],
    follow: (body) => {
      const { more, last } = body as { more: boolean; last?: number };
      const separator = filter === '' ? '' : '&';
      return more && last !== undefined ? page(`${separator}before=${last}`) : undefined;
    },
    ...(action === 'drop' ? { warning: words.dropWarning } : {}),
  };
}

export const LETTER_COLUMNS: Column<DeadLetter>[] = [
  { name: words.id, cell: (it) => it.id, number: true },
  { name: columns.recipient, cell: (it) => <a href={address(['participants', it.recipient])}>{it.recipient}</a> },
  { name: columns.request, cell: (it) => it.message },
  {
    name: words.transfer,
    cell: (it) =>
      it.transferId === undefined ? '' : (
        <a href={address(['transfers', it.transferId])}>{it.transferId}</a>
      ),
  },
  { name: words.attempts, cell: (it) => it.attempts, number: true },
  { name: columns.answer, cell: (it) => answered(it.lastStatus) },
  { name: words.lastAttempt, cell: (it) => it.lastAttemptDate },
];

const GROUP_COLUMNS: Column<Group>[] = [
  { name: columns.recipient, cell: (it) => it.recipient },
  { name: columns.request, cell: (it) => it.message },
  { name: columns.answer, cell: (it) => answered(it.lastStatus) },
  { name: words.count, cell: (it) => it.count.toLocaleString('en'), number: true },
  { name: words.oldest, cell: (it) => it.oldestDate },
  { name: words.latest, cell: (it) => it.newestDate },
];

function answered(status: number | undefined): string {
  return status === undefined || status === 0 ? texts.payment.noStatus : `HTTP ${status}`;
}

const NO_FILTER = { participant: '', code: '', from: '', to: '' };

/** A filter as a query. */
function queryOf(filter: typeof NO_FILTER): string {
  const query = new URLSearchParams();
  if (filter.participant.trim() !== '') query.set('participant', filter.participant.trim());
  if (filter.code.trim() !== '') query.set('code', filter.code.trim());
  if (filter.from !== '') query.set('from', new Date(`${filter.from}Z`).toISOString());
  if (filter.to !== '') query.set('to', new Date(`${filter.to}Z`).toISOString());
  return query.toString();
}

export function Callbacks() {
  const [filter, setFilter] = useState(NO_FILTER);
  const [asked, setAsked] = useState('');
  const [before, setBefore] = useState<number>();
  const separator = asked === '' ? '' : '&';
  const page = before === undefined ? '' : `&before=${before}`;
  const letters = useData<DeadLetter[]>(`/deadletters?limit=${PAGE}${separator}${asked}${page}`);
  const groups = useData<Group[]>(`/deadletters/groups${asked === '' ? '' : `?${asked}`}`);
  const { dialog, ask } = useChange(() => {
    letters.reload();
    groups.reload();
  });
  const submit = (event: Event) => {
    event.preventDefault();
    setBefore(undefined);
    setAsked(queryOf(filter));
  };
  const field = (name: keyof typeof NO_FILTER) => ({
    value: filter[name],
    onValue: (value: string) => setFilter({ ...filter, [name]: value }),
  });
  const count = (groups.data ?? []).reduce((sum, group) => sum + group.count, 0);
  return (
    <>
      <Title text={texts.navigation.callbacks} />
      {dialog}
      <form class="inline" onSubmit={submit} noValidate>
        <Field {...field('participant')} label={columns.recipient} autocomplete="off" />
        <Field {...field('code')} label={words.filterStatus} inputMode="numeric" autocomplete="off" />
        <Field {...field('from')} label={texts.payments.from} type="datetime-local" />
        <Field {...field('to')} label={texts.payments.to} type="datetime-local" />
        <button class="primary">{texts.payments.search}</button>
      </form>
      <Await of={groups}>
        {(rows) => (
          <>
            <p role="status">{words.matches(count)}</p>
            {rows.length === 0 ? null : (
              <>
                <Table caption={words.groups} columns={GROUP_COLUMNS} rows={rows.slice(0, 20)} />
                <div class="row">
                  <button type="button" onClick={() => ask(selectionPlan('resend', asked, count))}>
                    {words.resendAll(count)}
                  </button>
                  <button
                    type="button"
                    class="danger"
                    onClick={() => ask(selectionPlan('drop', asked, count))}
                  >
                    {words.dropAll(count)}
                  </button>
                </div>
              </>
            )}
          </>
        )}
      </Await>
      <Await of={letters}>
        {(data) => (
          <>
            {data.length === 0 ? (
              <p>{words.nothing}</p>
            ) : (
              <Table
                caption={words.letters}
                columns={[...LETTER_COLUMNS, actionColumn(ask)]}
                rows={data}
              />
            )}
            <div class="row">
              {before === undefined ? null : (
                <button type="button" onClick={() => setBefore(undefined)}>
                  {words.newest}
                </button>
              )}
              {data.length < PAGE ? null : (
                <button type="button" onClick={() => setBefore(data[data.length - 1]?.id)}>
                  {words.older}
                </button>
              )}
            </div>
          </>
        )}
      </Await>
      <CommandLine command={readCommand(`/deadletters?limit=${PAGE}${separator}${asked}`)} />
    </>
  );
}

function actionColumn(ask: (plan: Plan) => void): Column<DeadLetter> {
  return {
    name: words.action,
    cell: (it) => (
      <>
        <button
          type="button"
          aria-label={words.resendOne(it.id)}
          onClick={() => ask(letterPlan('resend', [it]))}
        >
          {words.resend}
        </button>{' '}
        <button
          type="button"
          class="danger"
          aria-label={words.dropOne(it.id)}
          onClick={() => ask(letterPlan('drop', [it]))}
        >
          {words.drop}
        </button>
      </>
    ),
  };
}

// The outbox: messages that the switch owes to participants. The switch filters and pages.

import { useState } from 'preact/hooks';
import { readCommand } from '../api';
import { useData } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import { Await, CommandLine, Field, Table, type Column } from '../ui';

const words = texts.outbox;
/** Entries of a page. */
const PAGE = 100;
/** How often the page is read again, in milliseconds. */
const EVERY = 5000;

interface Notice {
  id: number;
  recipient: string;
  transferId?: string;
  message: string;
  logIndex: number;
  createdDate: string;
  reason?: string;
}

interface Page {
  notices: Notice[];
  next?: number;
  owed: number;
}

const COLUMNS: Column<Notice>[] = [
  { name: texts.callbacks.id, cell: (it) => it.id, number: true },
  {
    name: columns.recipient,
    cell: (it) => <a href={address(['participants', it.recipient])}>{it.recipient}</a>,
  },
  { name: columns.request, cell: (it) => it.message },
  {
    name: texts.callbacks.transfer,
    cell: (it) =>
      it.transferId === undefined || it.transferId === null ? (
        ''
      ) : (
        <a href={address(['transfers', it.transferId])}>{it.transferId}</a>
      ),
  },
  { name: words.since, cell: (it) => it.createdDate },
  { name: texts.payment.record, cell: (it) => it.logIndex, number: true },
  { name: words.waits, cell: (it) => it.reason ?? words.underWay },
];

const NO_FILTER = { participant: '', from: '', to: '' };

function queryOf(filter: typeof NO_FILTER): string {
  const query = new URLSearchParams();
  if (filter.participant.trim() !== '') query.set('participant', filter.participant.trim());
  if (filter.from !== '') query.set('from', new Date(`${filter.from}Z`).toISOString());
  if (filter.to !== '') query.set('to', new Date(`${filter.to}Z`).toISOString());
  return query.toString();
}

export function Outbox() {
  const [filter, setFilter] = useState(NO_FILTER);
  const [asked, setAsked] = useState('');
  const [after, setAfter] = useState<number>();
  const selected = `/outbox?limit=${PAGE}${asked === '' ? '' : `&${asked}`}`;
  const page = useData<Page>(after === undefined ? selected : `${selected}&after=${after}`, EVERY);
  const submit = (event: Event) => {
    event.preventDefault();
    setAfter(undefined);
    setAsked(queryOf(filter));
  };
  const field = (name: keyof typeof NO_FILTER) => ({
    value: filter[name],
    onValue: (value: string) => setFilter({ ...filter, [name]: value }),
  });
  return (
    <>
      <form class="inline" onSubmit={submit} noValidate>
        <Field {...field('participant')} label={columns.recipient} autocomplete="off" />
        <Field {...field('from')} label={words.from} type="datetime-local" />
        <Field {...field('to')} label={words.to} type="datetime-local" />
        <button class="primary">{texts.payments.show}</button>
      </form>
      <Await of={page}>
        {(data) => (
          <>
            <p role="status">{words.owed(data.owed)}</p>
            {data.notices.length === 0 ? (
              <p>{words.nothing}</p>
            ) : (
              <Table caption={words.caption} columns={COLUMNS} rows={data.notices} />
            )}
            <div class="row">
              {after === undefined ? null : (
                <button type="button" onClick={() => setAfter(undefined)}>
                  {words.oldest}
                </button>
              )}
              {data.next === undefined ? null : (
                <button type="button" onClick={() => setAfter(data.next)}>
                  {words.newer}
                </button>
              )}
            </div>
          </>
        )}
      </Await>
      <CommandLine command={readCommand(selected)} />
    </>
  );
}

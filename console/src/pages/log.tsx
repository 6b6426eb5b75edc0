// The log: what was decided, as events, from a record or a time on; and the outbox.

import { useState } from 'preact/hooks';
import { ApiError, get, readCommand } from '../api';
import { useData } from '../load';
import { address, go } from '../router';
import { columns, texts } from '../texts';
import { Await, Choice, CommandLine, Field, Note, Select, Table, Title, type Column } from '../ui';
import { Outbox } from './outbox';

const words = texts.log;
/** Events of a page, and records before the end at which the newest page begins. */
const PAGE = 200;

interface Event {
  id: string;
  type: string;
  subject?: string;
  time: string;
  data: Record<string, unknown>;
}

interface Page {
  events: Event[];
  next: string;
  end: number;
}

const UUID_OR_ULID = /^([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-7][0-9A-HJKMNP-TV-Z]{25})$/;

const COLUMNS: Column<Event>[] = [
  { name: texts.payment.record, cell: (it) => it.id, number: true },
  { name: texts.payment.time, cell: (it) => it.time },
  { name: columns.kind, cell: (it) => it.type },
  {
    name: words.subject,
    cell: (it) =>
      it.subject !== undefined && UUID_OR_ULID.test(it.subject) ? (
        <a href={address(['transfers', it.subject])}>{it.subject}</a>
      ) : (
        (it.subject ?? '')
      ),
  },
  { name: words.content, cell: (it) => <code class="wrap">{JSON.stringify(it.data)}</code> },
];

/** `view` is the second part of the address. */
export function LogPage({ view }: { view: string | undefined }) {
  const shown = view === 'outbox' ? 'outbox' : 'events';
  return (
    <>
      <Title text={texts.navigation.log}>
        <Choice
          label={words.views}
          options={[
            ['events', words.events],
            ['outbox', words.outbox],
          ]}
          value={shown}
          onValue={(value) => go(address(value === 'outbox' ? ['log', value] : ['log']))}
        />
      </Title>
      {shown === 'outbox' ? <Outbox /> : <LastEvents />}
    </>
  );
}

function LastEvents() {
  const end = useData<Page>('/events?after=0&limit=1');
  return <Await of={end}>{(first) => <Events end={first.end} />}</Await>;
}

function Events({ end }: { end: number }) {
  const [filter, setFilter] = useState({ kind: '', record: '', time: '' });
  const [kind, setKind] = useState('');
  const [after, setAfter] = useState(String(Math.max(0, end - PAGE)));
  const [problem, setProblem] = useState<string>();
  const path = `/events?after=${after}&limit=${PAGE}${kind === '' ? '' : `&kind=${kind}`}`;
  const page = useData<Page>(path);
  const submit = async (event: globalThis.Event) => {
    event.preventDefault();
    const record = filter.record.trim();
    const valid = record === '' || /^\d{1,19}$/.test(record);
    setProblem(valid ? undefined : words.recordInvalid);
    if (!valid) return;
    try {
      setAfter(record !== '' ? String(Math.max(0, Number(record) - 1)) : await begin(filter.time, end));
      setKind(filter.kind);
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <>
      <form class="inline" onSubmit={(event) => void submit(event)} noValidate>
        <Select
          label={columns.kind}
          options={words.kinds}
          any={texts.payments.anyState}
          value={filter.kind}
          onValue={(value) => setFilter({ ...filter, kind: value })}
        />
        <Field
          label={words.fromTime}
          type="datetime-local"
          value={filter.time}
          onValue={(time) => setFilter({ ...filter, time, record: '' })}
        />
        <Field
          label={words.fromRecord}
          value={filter.record}
          onValue={(record) => setFilter({ ...filter, record, time: '' })}
          inputMode="numeric"
          autocomplete="off"
        />
        <button class="primary">{texts.payments.show}</button>
      </form>
      {problem === undefined ? null : <Note mood="bad">{problem}</Note>}
      <Await of={page}>
        {(data) => (
          <>
            <p role="status">{words.end(data.end)}</p>
            {data.events.length === 0 ? (
              <p>{words.nothing}</p>
            ) : (
              <Table caption={words.events} columns={COLUMNS} rows={data.events} />
            )}
            <button type="button" onClick={() => (data.next === after ? page.reload() : setAfter(data.next))}>
              {words.later}
            </button>
          </>
        )}
      </Await>
      <CommandLine command={readCommand(path)} />
    </>
  );
}

/** The record of the last payment before a time: the events after it begin there. */
async function begin(time: string, end: number): Promise<string> {
  if (time === '') return String(Math.max(0, end - PAGE));
  const to = new Date(`${time}Z`).toISOString();
  const page = await get<{ transfers: { logIndex: number }[] }>(`/transfers?limit=1&to=${to}`);
  return String(page.transfers[0]?.logIndex ?? 0);
}

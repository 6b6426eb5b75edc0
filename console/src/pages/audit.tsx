// The audit trail: who asked for what, when and why, from the log.

import { useState } from 'preact/hooks';
import { readCommand } from '../api';
import { useData } from '../load';
import { columns, texts } from '../texts';
import { Await, Badge, CommandLine, Field, Table, Title, type Column, type Mood } from '../ui';

const words = texts.audit;

interface Entry {
  logIndex: number;
  date: string;
  actor: string;
  outcome: 'recorded' | 'allowed' | 'refused';
  description: string;
  reason: string;
  method?: string;
  path?: string;
  status?: number;
  change?: string;
}

interface Page {
  entries: Entry[];
  next: number;
  end: number;
}

const MOODS: Record<Entry['outcome'], Mood> = {
  recorded: 'good',
  allowed: 'plain',
  refused: 'bad',
};

const COLUMNS: Column<Entry>[] = [
  { name: texts.payment.record, cell: (it) => it.logIndex, number: true },
  { name: texts.payment.time, cell: (it) => it.date },
  { name: words.actor, cell: (it) => it.actor },
  { name: words.outcome, cell: (it) => <Badge mood={MOODS[it.outcome]} text={it.outcome} /> },
  { name: words.what, cell: (it) => it.description },
  { name: texts.change.reason, cell: (it) => it.reason },
  { name: columns.answer, cell: (it) => (it.status === undefined ? '' : `HTTP ${it.status}`) },
];

export function Audit() {
  const [filter, setFilter] = useState({ actor: '', from: '', outcome: '' });
  const [asked, setAsked] = useState({ ...filter, after: 0 });
  const query = new URLSearchParams({ limit: '200' });
  if (asked.actor.trim() !== '') query.set('actor', asked.actor.trim());
  if (asked.from !== '') query.set('from', new Date(`${asked.from}Z`).toISOString());
  if (asked.outcome !== '') query.set('outcome', asked.outcome);
  if (asked.after !== 0) query.set('after', String(asked.after));
  const page = useData<Page>(`/audit?${query}`);
  const submit = (event: Event) => {
    event.preventDefault();
    setAsked({ ...filter, after: 0 });
  };
  return (
    <>
      <Title text={texts.navigation.audit} />
      <form class="inline" onSubmit={submit}>
        <Field
          label={words.actor}
          value={filter.actor}
          onValue={(actor) => setFilter({ ...filter, actor })}
          autocomplete="off"
        />
        <Field
          label={words.from}
          value={filter.from}
          onValue={(from) => setFilter({ ...filter, from })}
          type="datetime-local"
        />
        <div class="field">
          <label for="audit-outcome">{words.outcome}</label>
          <select
            id="audit-outcome"
            value={filter.outcome}
            onChange={(event) => setFilter({ ...filter, outcome: event.currentTarget.value })}
          >
            <option value="">{words.any}</option>
            {Object.keys(MOODS).map((outcome) => (
              <option key={outcome}>{outcome}</option>
            ))}
          </select>
        </div>
        <button class="primary">{texts.payments.show}</button>
      </form>
      <Await of={page}>
        {(data) => (
          <>
            {data.entries.length === 0 ? (
              <p>{words.nothing}</p>
            ) : (
              <Table caption={texts.navigation.audit} columns={COLUMNS} rows={data.entries} />
            )}
            {data.next < data.end ? (
              <button type="button" onClick={() => setAsked({ ...asked, after: data.next })}>
                {words.later}
              </button>
            ) : null}
          </>
        )}
      </Await>
      <CommandLine command={readCommand(`/audit?${query}`)} />
    </>
  );
}

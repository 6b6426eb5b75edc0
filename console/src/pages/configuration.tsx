// The configuration of the switch: every setting with its meaning, and warnings.

import { useState } from 'preact/hooks';
import { useData } from '../load';
import { texts } from '../texts';
import { Await, Badge, CommandLine, Field, Note, Table, Title, type Column } from '../ui';

const words = texts.configuration;

interface Setting {
  name: string;
  value: string;
  given: boolean;
  meaning: string;
  bounds?: string;
  change: string;
  note?: string;
}

interface Configuration {
  settings: Setting[];
  warnings: { what: string; instead: string }[];
  bounds: { what: string; milliseconds: number; made_of: string }[];
}

const COLUMNS: Column<Setting>[] = [
  { name: words.setting, cell: (it) => <code>{it.name}</code> },
  {
    name: words.value,
    cell: (it) => (
      <>
        <code class="wrap">{it.value}</code>{' '}
        {it.given ? <Badge mood="plain" text={words.given} /> : null}
      </>
    ),
  },
  {
    name: words.meaning,
    cell: (it) => (
      <>
        {it.meaning}
        {it.note === undefined ? null : <Note mood="plain">{it.note}</Note>}
      </>
    ),
  },
  { name: words.allowed, cell: (it) => it.bounds ?? '' },
  { name: words.effect, cell: (it) => words.effects[it.change] ?? it.change },
];

export function ConfigurationPage() {
  const configuration = useData<Configuration>('/configuration');
  return (
    <>
      <Title text={texts.navigation.configuration} />
      <Await of={configuration}>{(data) => <Content data={data} />}</Await>
      <CommandLine command="upesi check-config FILE" />
    </>
  );
}

function Content({ data }: { data: Configuration }) {
  const [text, setText] = useState('');
  const [onlyGiven, setOnlyGiven] = useState(false);
  const wanted = text.trim().toLowerCase();
  const rows = data.settings.filter(
    (it) =>
      (!onlyGiven || it.given) &&
      (it.name.includes(wanted) || it.meaning.toLowerCase().includes(wanted)),
  );
  return (
    <>
      <h2>{words.warnings}</h2>
      {data.warnings.length === 0 ? <p>{words.noWarnings}</p> : null}
      {data.warnings.map((one) => (
        <Note key={one.what} mood="warn" title={one.what}>
          {words.instead(one.instead)}
        </Note>
      ))}
      <form class="inline" onSubmit={(event) => event.preventDefault()}>
        <Field label={words.filter} value={text} onValue={setText} autocomplete="off" />
        <button type="button" aria-pressed={onlyGiven} onClick={() => setOnlyGiven(!onlyGiven)}>
          {words.onlyGiven}
        </button>
      </form>
      <p role="status">{words.shown(rows.length, data.settings.length)}</p>
      <Table caption={words.settings} columns={COLUMNS} rows={rows} />
      <Table
        caption={words.bounds}
        columns={[
          { name: words.what, cell: (it) => it.what },
          { name: words.longest, cell: (it) => it.milliseconds.toLocaleString('en'), number: true },
          { name: words.madeOf, cell: (it) => it.made_of },
        ]}
        rows={data.bounds}
      />
    </>
  );
}

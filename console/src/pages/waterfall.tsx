// The stages of a payment in time, while the switch traces payments.

import { useState } from 'preact/hooks';
import { part } from '../api';
import { useData } from '../load';
import { texts } from '../texts';
import { Await, Table } from '../ui';

const words = texts.waterfall;
const WIDTH = 600;
const ROW = 14;

interface Span {
  start: number;
  end: number;
  label: string;
}

interface Trace {
  underWay: boolean;
  events: Span[];
  waits: Span[];
}

export function Waterfall({ id }: { id: string }) {
  const [isShown, setShown] = useState(false);
  const trace = useData<Trace>(isShown ? `/waterfall/${part(id)}` : null);
  return (
    <section aria-label={words.title}>
      <h2>{words.title}</h2>
      {isShown ? (
        <Await of={trace}>{(data) => <Stages trace={data} />}</Await>
      ) : (
        <button type="button" onClick={() => setShown(true)}>
          {words.show}
        </button>
      )}
    </section>
  );
}

function Stages({ trace }: { trace: Trace }) {
  const rows = [
    ...trace.events.map((span) => ({ ...span, waits: false })),
    ...trace.waits.map((span) => ({ ...span, waits: true })),
  ].sort((one, other) => one.start - other.start);
  const first = Math.min(...rows.map((row) => row.start));
  const last = Math.max(...rows.map((row) => row.end));
  const x = (at: number) => ((at - first) / Math.max(1, last - first)) * WIDTH;
  const micros = (from: number, to: number) =>
    ((to - from) / 1000).toLocaleString('en', { maximumFractionDigits: 1 });
  return (
    <>
      <svg class="waterfall" viewBox={`0 0 ${WIDTH} ${rows.length * ROW}`} aria-hidden="true">
        {rows.map((row, index) => (
          <rect
            key={index}
            class={row.waits ? 'wait' : 'work'}
            x={x(row.start)}
            y={index * ROW + 2}
            width={Math.max(1, x(row.end) - x(row.start))}
            height={ROW - 4}
          />
        ))}
      </svg>
      {trace.underWay ? <p>{words.underWay}</p> : null}
      <Table
        caption={words.stages}
        columns={[
          { name: words.stage, cell: (row) => row.label },
          { name: words.kind, cell: (row) => (row.waits ? words.waits : words.works) },
          { name: words.begins, cell: (row) => micros(first, row.start), number: true },
          { name: words.takes, cell: (row) => micros(row.start, row.end), number: true },
        ]}
        rows={rows}
      />
    </>
  );
}

// The overview: what needs attention, rate and latency of the last minute, queues and headroom.

import { Figure, Sparkline } from '../chart';
import { useData, useFollowed } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import { Await, Badge, CommandLine, Note, Table, Title, type Column } from '../ui';
import { amount } from './participants';
import { FindPayment, PAYMENT_COLUMNS, type Listed } from './payments';

const words = texts.overview;
/**
 * Pauses between two reads, in milliseconds: of the figures, if they cannot be followed, and of the
 * failed payments.
 */
const EVERY = 1_000;
const FAILURES_EVERY = 10_000;
/** The pages that alarms are about, by their subject. */
const ALARM_PAGES: Record<string, string[]> = {
  callbacks: ['log', 'outbox'],
  endpoints: ['log', 'outbox'],
  'dead letters': ['callbacks'],
  liquidity: ['liquidity'],
  disk: ['system'],
};

interface Rate {
  seconds: number;
  reserved: number;
  committed: number;
  aborted: number;
  refused: number;
  expired: number;
  commitP50Milliseconds?: number;
  commitP99Milliseconds?: number;
}

interface Queue {
  participant: string;
  owed: number;
  oldestSeconds?: number;
}

interface CapUse {
  participant: string;
  currency: string;
  position: number;
  effectiveCap: number;
  percentUsed: number;
}

interface Status {
  status: 'OK' | 'DOWN';
  version: string;
  uptimeSeconds: number;
  time: string;
  alarms: { severity: 'CRITICAL' | 'WARNING'; subject: string; text: string }[];
  stages: { name: string; status: 'OK' | 'DOWN'; detail?: string }[];
  storage: { status: string; freeBytes: number; hoursUntilFull?: number };
  log: { index: number; records: number; syncP50Milliseconds?: number; syncP99Milliseconds?: number };
  rate: Rate;
  history: Rate[];
  transfers: { inFlight: number; committed: number; aborted: number; refused: number };
  queues: { owed: number; oldestSeconds: number; participants: Queue[] };
  deadLetters: number;
  nearCap: CapUse[];
}

export function Overview() {
  const status = useFollowed<Status>('/status', EVERY);
  return (
    <>
      <Title text={texts.navigation.overview}>
        {status.data === undefined ? null : (
          <Badge
            mood={status.data.status === 'OK' ? 'good' : 'bad'}
            text={words.health[status.data.status] ?? status.data.status}
          />
        )}
      </Title>
      <FindPayment />
      {status.polled ? <Note mood="warn">{words.polled}</Note> : null}
      <Await of={status}>{(data) => <Figures data={data} />}</Await>
      <CommandLine command={`upesi top --admin ${location.origin}`} />
    </>
  );
}

const failed = (rate: Rate) => rate.aborted + rate.refused + rate.expired;
const perSecond = (value: number) => words.perSecond(value.toFixed(value < 10 ? 1 : 0));
const milliseconds = (value: number | undefined) =>
  value === undefined ? texts.none : words.milliseconds(value.toFixed(value < 10 ? 1 : 0));

function Figures({ data }: { data: Status }) {
  const { rate, history, log } = data;
  const line = (name: string, kind: 'good' | 'bad' | 'plain', value: (it: Rate) => number | undefined) => ({
    name,
    kind,
    values: history.map(value),
  });
  return (
    <>
      <Alarms data={data} />
      <dl class="figures" data-index={log.index}>
        <Figure name={words.committed} value={perSecond(rate.committed)}>
          <Sparkline lines={[line('committed', 'good', (it) => it.committed)]} />
        </Figure>
        <Figure name={words.failed} value={perSecond(failed(rate))}>
          <Sparkline lines={[line('failed', 'bad', failed)]} />
        </Figure>
        <Figure name={words.median} value={milliseconds(rate.commitP50Milliseconds)}>
          <Sparkline lines={[line('p50', 'plain', (it) => it.commitP50Milliseconds)]} />
        </Figure>
        <Figure name={words.slowest} value={milliseconds(rate.commitP99Milliseconds)}>
          <Sparkline lines={[line('p99', 'plain', (it) => it.commitP99Milliseconds)]} />
        </Figure>
        <Figure name={words.inFlight} value={String(data.transfers.inFlight)} />
        <Figure name={words.total} value={data.transfers.committed.toLocaleString('en')} />
        <Figure name={words.log} value={log.index.toLocaleString('en')} />
        <Figure name={words.sync} value={milliseconds(log.syncP99Milliseconds)} />
      </dl>
      <Failures />
      {data.queues.participants.length === 0 ? null : (
        <Table
          caption={words.queues(data.queues.owed)}
          columns={QUEUES}
          rows={data.queues.participants}
        />
      )}
      {data.nearCap.length === 0 ? null : (
        <Table caption={words.nearCap} columns={NEAR_CAP} rows={data.nearCap} />
      )}
      <Table caption={words.stages} columns={STAGES} rows={data.stages} />
      <p class="hint">{words.version(data.version, data.time)}</p>
    </>
  );
}

/** The latest failed payments. Operators who may not list payments see none. */
function Failures() {
  const { data } = useData<{ transfers: Listed[] }>(
    '/transfers?state=ABORTED&limit=5',
    FAILURES_EVERY,
  );
  if (data === undefined || data.transfers.length === 0) return null;
  return (
    <>
      <Table caption={words.failures} columns={PAYMENT_COLUMNS} rows={data.transfers} />
      <p>
        <a href={address(['transfers'], { state: 'ABORTED' })}>{words.allFailures}</a>
      </p>
    </>
  );
}

function Alarms({ data }: { data: Status }) {
  return (
    <>
      {data.alarms.map((alarm) => (
        <Note
          key={alarm.subject + alarm.text}
          mood={alarm.severity === 'CRITICAL' ? 'bad' : 'warn'}
          title={alarm.subject}
        >
          {ALARM_PAGES[alarm.subject] === undefined ? (
            alarm.text
          ) : (
            <a href={address(ALARM_PAGES[alarm.subject] ?? [])}>{alarm.text}</a>
          )}
        </Note>
      ))}
      {data.deadLetters === 0 ? null : (
        <Note mood="warn">
          <a href={address(['callbacks'])}>{words.deadLetters(data.deadLetters)}</a>
        </Note>
      )}
      {data.alarms.length + data.deadLetters === 0 ? (
        <Note mood="good">{words.nothing}</Note>
      ) : null}
    </>
  );
}

const participant = (name: string) => <a href={address(['participants', name])}>{name}</a>;

const QUEUES: Column<Queue>[] = [
  { name: columns.participant, cell: (it) => participant(it.participant) },
  { name: columns.queue, cell: (it) => it.owed, number: true },
  {
    name: words.oldest,
    cell: (it) => (it.oldestSeconds === undefined ? '' : words.seconds(it.oldestSeconds)),
    number: true,
  },
];

const NEAR_CAP: Column<CapUse>[] = [
  { name: columns.participant, cell: (it) => participant(it.participant) },
  { name: columns.currency, cell: (it) => it.currency },
  { name: columns.position, cell: (it) => amount(it.position), number: true },
  { name: words.effectiveCap, cell: (it) => amount(it.effectiveCap), number: true },
  { name: texts.participants.usedColumn, cell: (it) => `${it.percentUsed} %`, number: true },
];

const STAGES: Column<Status['stages'][number]>[] = [
  { name: words.stage, cell: (it) => it.name },
  {
    name: columns.status,
    cell: (it) => (
      <Badge mood={it.status === 'OK' ? 'good' : 'bad'} text={words.health[it.status] ?? it.status} />
    ),
  },
  { name: words.detail, cell: (it) => it.detail ?? '' },
];

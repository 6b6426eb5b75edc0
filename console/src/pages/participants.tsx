// The list of participants, with positions and what they have left.

import { useState } from 'preact/hooks';
import { part } from '../api';
import { useChange, type Plan } from '../change';
import { useData } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import { Await, Badge, CommandLine, Field, Table, Title, type Column, type Mood } from '../ui';

const words = texts.participants;
/** Rows shown at first, and added by each request for more. */
const ROWS_SHOWN = 100;

export interface Participant {
  name: string;
  created: string;
  isActive: 0 | 1;
  isProxy: 0 | 1;
  accounts: { id: number; ledgerAccountType: string; currency: string; isActive: 0 | 1 }[];
}

export interface Liquidity {
  participant: string;
  currency: string;
  position: number;
  netDebitCap: number;
  liquidityCover: number;
  effectiveCap: number;
  limitedBy: 'cap' | 'cover';
  headroom: number;
  percentUsed: number;
  alarmPercentage: number;
  alarmSince?: string;
  trendPerHour?: number;
  capReachedAt?: string;
}

export function amount(value: number | undefined): string {
  return value === undefined ? '' : value.toLocaleString('en', { maximumFractionDigits: 4 });
}

/** How much of the cap is used, in words and as a bar. */
export function Used({ row }: { row: Liquidity }) {
  const mood: Mood =
    100 <= row.percentUsed ? 'bad' : row.alarmPercentage <= row.percentUsed ? 'warn' : 'plain';
  return (
    <>
      <meter
        min={0}
        max={100}
        high={Math.min(row.alarmPercentage, 100)}
        value={Math.min(row.percentUsed, 100)}
        aria-label={words.used(row.participant)}
      />{' '}
      <Badge mood={mood} text={`${row.percentUsed} %`} />
    </>
  );
}

export const LIQUIDITY_COLUMNS: Column<Liquidity>[] = [
  { name: columns.currency, cell: (row) => row.currency },
  { name: columns.position, cell: (row) => amount(row.position), number: true },
  { name: columns.cap, cell: (row) => amount(row.netDebitCap), number: true },
  { name: columns.cover, cell: (row) => amount(row.liquidityCover), number: true },
  { name: words.headroom, cell: (row) => amount(row.headroom), number: true },
  { name: words.usedColumn, cell: (row) => <Used row={row} /> },
  {
    name: words.trend,
    cell: (row) => (row.trendPerHour === undefined ? '' : amount(row.trendPerHour)),
    number: true,
  },
];

export function Participants() {
  const participants = useData<Participant[]>('/participants');
  const { dialog, ask } = useChange(participants.reload);
  const [filter, setFilter] = useState('');
  const [shown, setShown] = useState(ROWS_SHOWN);
  const rows: Column<Participant>[] = [
    {
      name: columns.participant,
      cell: (it) => <a href={address(['participants', it.name])}>{it.name}</a>,
    },
    {
      name: columns.status,
      cell: (it) => (
        <Badge
          mood={it.isActive === 1 ? 'good' : 'bad'}
          text={it.isActive === 1 ? texts.active : texts.inactive}
        />
      ),
    },
    {
      name: words.currencies,
      cell: (it) => [...new Set(it.accounts.map((account) => account.currency))].join(', '),
    },
    { name: words.created, cell: (it) => it.created },
  ];
  return (
    <>
      <Title text={texts.navigation.participants} />
      <form class="inline" onSubmit={(event) => event.preventDefault()}>
        <Field label={words.filter} value={filter} onValue={setFilter} autocomplete="off" />
      </form>
      <Await of={participants}>
        {(all) => {
          const wanted = filter.trim().toLowerCase();
          const found = all.filter((it) => it.name.toLowerCase().includes(wanted));
          return (
            <>
              <p role="status">{words.found(found.length, all.length)}</p>
              <Table caption={words.list} columns={rows} rows={found.slice(0, shown)} />
              {shown < found.length ? (
                <button type="button" onClick={() => setShown(shown + ROWS_SHOWN)}>
                  {texts.more}
                </button>
              ) : null}
            </>
          );
        }}
      </Await>
      <h2>{texts.participant.add}</h2>
      {dialog}
      <NewParticipant ask={ask} />
      <CommandLine command={`upesi participant list --admin ${location.origin}`} />
    </>
  );
}

/** A form for a participant with a currency and a net debit cap. */
function NewParticipant({ ask }: { ask: (plan: Plan) => void }) {
  const [values, setValues] = useState({ name: '', currency: '', cap: '' });
  const [errors, setErrors] = useState<Partial<typeof values>>({});
  const field = (name: keyof typeof values) => ({
    value: values[name],
    onValue: (value: string) => setValues({ ...values, [name]: value }),
    error: errors[name],
  });
  const submit = (event: Event) => {
    event.preventDefault();
    const own = texts.participant;
    const name = values.name.trim();
    const currency = values.currency.trim().toUpperCase();
    const cap = values.cap.trim();
    const found: typeof errors = {};
    if (name === '') found.name = own.addNameInvalid;
    if (!/^[A-Z]{3}$/.test(currency)) found.currency = texts.payments.currencyInvalid;
    if (!/^\d{1,14}(\.\d{1,4})?$/.test(cap)) found.cap = own.capInvalid;
    setErrors(found);
    if (0 < Object.keys(found).length) return;
    const limit = { type: 'NET_DEBIT_CAP', value: cap };
    ask({
      title: own.addTitle(name),
      differences: [
        { name: columns.participant, after: name },
        { name: `${columns.cap}, ${currency}`, after: cap },
      ],
      requests: () => [
        { method: 'POST', path: '/participants', body: { name, currency } },
        {
          method: 'POST',
          path: `/participants/${part(name)}/initialPositionAndLimits`,
          body: { currency, limit, initialPosition: 0 },
        },
      ],
    });
  };
  return (
    <form class="inline" onSubmit={submit} noValidate aria-label={texts.participant.add}>
      <Field {...field('name')} label={texts.participant.addName} autocomplete="off" />
      <Field {...field('currency')} label={texts.participant.addCurrency} autocomplete="off" />
      <Field {...field('cap')} label={texts.participant.addCap} inputMode="decimal" autocomplete="off" />
      <button>{texts.participant.add}</button>
    </form>
  );
}

/** Positions and headroom, the fullest first. */
export function LiquidityPage() {
  const [currency, setCurrency] = useState('');
  const code = currency.trim().toUpperCase();
  const query = /^[A-Z]{3}$/.test(code) ? `&currency=${code}` : '';
  const rows = useData<Liquidity[]>(`/liquidity?limit=1000${query}`, 5_000);
  const participant: Column<Liquidity> = {
    name: columns.participant,
    cell: (row) => <a href={address(['participants', row.participant])}>{row.participant}</a>,
  };
  return (
    <>
      <Title text={texts.navigation.liquidity} />
      <form class="inline" onSubmit={(event) => event.preventDefault()}>
        <Field label={columns.currency} value={currency} onValue={setCurrency} autocomplete="off" />
      </form>
      <Await of={rows}>
        {(data) =>
          data.length === 0 ? (
            <p>{words.noLiquidity}</p>
          ) : (
            <Table
              caption={words.liquidity}
              columns={[participant, ...LIQUIDITY_COLUMNS]}
              rows={data}
            />
          )
        }
      </Await>
      <CommandLine command={`upesi liquidity --admin ${location.origin}`} />
    </>
  );
}

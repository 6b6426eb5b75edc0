// One participant: accounts, position against cover and cap, endpoints, keys, dead letters, and the
// changes of them.

import { useState } from 'preact/hooks';
import { act, part } from '../api';
import { useChange, type Plan } from '../change';
import { useData } from '../load';
import { columns, texts } from '../texts';
import { Area, Await, Badge, CommandLine, Facts, Field, Note, Table, Title, type Column } from '../ui';
import { Certificates } from './certificates';
import { LETTER_COLUMNS, selectionPlan, type DeadLetter } from './callbacks';
import { amount, LIQUIDITY_COLUMNS, type Liquidity, type Participant } from './participants';

const words = texts.participant;
/** Dead letters that are shown. */
const LETTERS = 50;

interface Account {
  id: number;
  ledgerAccountType: string;
  currency: string;
  isActive: 0 | 1;
  value: number;
  reservedValue: number;
  changedDate: string;
}

interface Endpoint {
  type: string;
  value: string;
}

interface Key {
  id: string;
  kind: string;
  bits?: number;
  algorithms: string[];
  source: string;
  createdDate?: string;
}

interface Outflow {
  transferId: string;
  accountId: number;
  currency: string;
  amount: number;
  reservedDate: string;
}

type Ask = (plan: Plan) => void;

export function ParticipantPage({ name }: { name: string }) {
  const base = `/participants/${part(name)}`;
  const participant = useData<Participant>(base);
  const accounts = useData<Account[]>(`${base}/accounts`);
  const liquidity = useData<Liquidity[]>(`/liquidity?participant=${part(name)}`);
  const endpoints = useData<Endpoint[]>(`${base}/endpoints`);
  const keys = useData<Key[]>(`${base}/keys`);
  const letters = useData<DeadLetter[]>(
    `/deadletters?limit=${LETTERS}&participant=${part(name)}`,
  );
  const outflows = useData<Outflow[]>(`/fundsOut?participant=${part(name)}`);
  const [round, setRound] = useState(0);
  const { dialog, ask } = useChange(() => {
    for (const one of [participant, accounts, liquidity, endpoints, keys, letters, outflows]) {
      one.reload();
    }
    setRound((it) => it + 1);
  });
  return (
    <>
      <Title text={words.title}>
        <code class="id">{name}</code>
      </Title>
      {dialog}
      <Await of={participant}>{(data) => <Status data={data} base={base} ask={ask} />}</Await>
      <Await of={liquidity}>
        {(rows) =>
          rows.length === 0 ? null : (
            <>
              <Table caption={words.liquidity} columns={LIQUIDITY_COLUMNS} rows={rows} />
              {rows.map((row) => (
                <Cap key={row.currency} row={row} base={base} ask={ask} />
              ))}
            </>
          )
        }
      </Await>
      <Await of={accounts}>{(rows) => <Accounts rows={rows} base={base} ask={ask} />}</Await>
      <Await of={outflows}>{(rows) => <Outflows rows={rows} base={base} ask={ask} />}</Await>
      <Await of={endpoints}>{(rows) => <Endpoints rows={rows} base={base} ask={ask} />}</Await>
      <Await of={keys}>
        {(rows) =>
          rows.length === 0 ? (
            <p>{words.noKeys}</p>
          ) : (
            <Table caption={words.keys} columns={keyColumns(base, ask)} rows={rows} />
          )
        }
      </Await>
      <NewKey name={name} base={base} ask={ask} />
      <Certificates key={round} name={name} ask={ask} />
      <Await of={letters}>
        {(newest) => <Letters letters={newest} name={name} ask={ask} />}
      </Await>
      <CommandLine command={`upesi participant show ${name} --admin ${location.origin}`} />
    </>
  );
}

const activity = (isActive: number) => (isActive === 1 ? texts.active : texts.inactive);

function Status({ data, base, ask }: { data: Participant; base: string; ask: Ask }) {
  const next = data.isActive === 1 ? 0 : 1;
  const title = next === 1 ? words.activate : words.deactivate;
  return (
    <div class="row">
      <Badge mood={data.isActive === 1 ? 'good' : 'bad'} text={activity(data.isActive)} />
      <Facts pairs={[[texts.participants.created, data.created]]} />
      <button
        type="button"
        onClick={() =>
          ask({
            title: `${title}: ${data.name}`,
            differences: [
              { name: data.name, before: activity(data.isActive), after: activity(next) },
            ],
            requests: () => [{ method: 'PUT', path: base, body: { isActive: next === 1 } }],
            ...(next === 0 ? { warning: words.deactivateWarning } : {}),
          })
        }
      >
        {title}
      </button>
    </div>
  );
}

/** A form for the net debit cap of a currency. */
function Cap({ row, base, ask }: { row: Liquidity; base: string; ask: Ask }) {
  const [value, setValue] = useState(String(row.netDebitCap));
  const [error, setError] = useState<string>();
  const submit = (event: Event) => {
    event.preventDefault();
    const text = value.trim();
    const valid = /^\d{1,14}(\.\d{1,4})?$/.test(text);
    setError(valid ? undefined : words.capInvalid);
    if (!valid) return;
    ask({
      title: words.capTitle(row.participant, row.currency),
      differences: [
        { name: columns.cap, before: amount(row.netDebitCap), after: text },
        {
          name: texts.participants.headroom,
          before: amount(row.headroom),
          after: amount(Math.min(Number(text), row.liquidityCover) - row.position),
        },
      ],
      requests: () => [
        {
          method: 'PUT',
          path: `${base}/limits`,
          body: {
            currency: row.currency,
            limit: { type: 'NET_DEBIT_CAP', value: text, alarmPercentage: row.alarmPercentage },
          },
        },
      ],
    });
  };
  return (
    <form class="inline" onSubmit={submit} noValidate>
      <Field
        label={words.newCap(row.currency)}
        value={value}
        onValue={setValue}
        error={error}
        inputMode="decimal"
        autocomplete="off"
      />
      <button>{words.change}</button>
    </form>
  );
}

function Accounts({ rows, base, ask }: { rows: Account[]; base: string; ask: Ask }) {
  const shown: Column<Account>[] = [
    { name: columns.account, cell: (it) => it.id, number: true },
    { name: columns.kind, cell: (it) => it.ledgerAccountType },
    { name: columns.currency, cell: (it) => it.currency },
    { name: words.balance, cell: (it) => amount(it.value), number: true },
    { name: words.reserved, cell: (it) => amount(it.reservedValue), number: true },
    { name: columns.status, cell: (it) => activity(it.isActive) },
    { name: words.changed, cell: (it) => it.changedDate },
    {
      name: texts.callbacks.action,
      cell: (it) =>
        it.ledgerAccountType !== 'POSITION' ? null : (
          <button type="button" onClick={() => ask(accountPlan(it, base))}>
            {it.isActive === 1 ? words.deactivate : words.activate}
          </button>
        ),
    },
  ];
  return (
    <>
      <Table caption={words.accounts} columns={shown} rows={rows} />
      {rows
        .filter((it) => it.ledgerAccountType === 'SETTLEMENT')
        .map((it) => (
          <>
            <Funds key={`in-${it.id}`} account={it} base={base} ask={ask} direction="in" />
            <Funds key={`out-${it.id}`} account={it} base={base} ask={ask} direction="out" />
          </>
        ))}
    </>
  );
}

function accountPlan(account: Account, base: string): Plan {
  const next = account.isActive === 1 ? 0 : 1;
  const name = `${columns.account} ${account.id} (${account.currency})`;
  return {
    title: `${next === 1 ? words.activate : words.deactivate}: ${name}`,
    differences: [{ name, before: activity(account.isActive), after: activity(next) }],
    requests: () => [
      { method: 'PUT', path: `${base}/accounts/${account.id}`, body: { isActive: next === 1 } },
    ],
  };
}

/** A form that records funds in, or reserves funds out, of a settlement account. */
function Funds(it: { account: Account; base: string; ask: Ask; direction: 'in' | 'out' }) {
  const { account, base, ask } = it;
  const isIn = it.direction === 'in';
  const title = isIn ? words.fundsTitle(account.currency) : words.outTitle(account.currency);
  const [value, setValue] = useState('');
  const [reference, setReference] = useState('');
  const [errors, setErrors] = useState<{ value?: string; reference?: string }>({});
  const submit = (event: Event) => {
    event.preventDefault();
    const text = value.trim();
    const found: typeof errors = {};
    if (!/^\d{1,14}(\.\d{1,4})?$/.test(text) || Number(text) === 0) found.value = words.amountInvalid;
    if (reference.trim() === '') found.reference = words.referenceMissing;
    setErrors(found);
    if (found.value !== undefined || found.reference !== undefined) return;
    // One id for the dialog: a request that is repeated moves the money once.
    const transferId = uuid();
    ask({
      title,
      differences: [
        {
          name: words.balance,
          before: amount(account.value),
          after: amount(isIn ? account.value - Number(text) : account.value + Number(text)),
        },
      ],
      requests: (reason) => [
        {
          method: 'POST',
          path: `${base}/accounts/${account.id}`,
          body: {
            transferId,
            externalReference: reference.trim(),
            action: isIn ? 'recordFundsIn' : 'recordFundsOutPrepareReserve',
            reason,
            amount: { amount: text, currency: account.currency },
          },
        },
      ],
    });
  };
  return (
    <form class="inline" onSubmit={submit} noValidate aria-label={title}>
      <Field
        label={isIn ? words.fundsAmount(account.currency) : words.outAmount(account.currency)}
        value={value}
        onValue={setValue}
        error={errors.value}
        inputMode="decimal"
        autocomplete="off"
      />
      <Field
        label={words.reference}
        value={reference}
        onValue={setReference}
        error={errors.reference}
        autocomplete="off"
      />
      <button>{isIn ? words.fundsIn : words.fundsOut}</button>
    </form>
  );
}

/** Reserved funds out, each to be committed or returned. */
function Outflows({ rows, base, ask }: { rows: Outflow[]; base: string; ask: Ask }) {
  if (rows.length === 0) return null;
  const plan = (it: Outflow, commits: boolean): Plan => ({
    title: commits ? words.commitOut(it.transferId) : words.abortOut(it.transferId),
    differences: [
      {
        name: `${amount(it.amount)} ${it.currency}`,
        before: words.outReserved,
        after: commits ? words.outPaid : words.outReturned,
      },
    ],
    requests: (reason) => [
      {
        method: 'PUT',
        path: `${base}/accounts/${it.accountId}/transfers/${it.transferId}`,
        body: { action: commits ? 'recordFundsOutCommit' : 'recordFundsOutAbort', reason },
      },
    ],
  });
  const shown: Column<Outflow>[] = [
    { name: texts.callbacks.transfer, cell: (it) => <code>{it.transferId}</code> },
    { name: columns.amount, cell: (it) => `${amount(it.amount)} ${it.currency}`, number: true },
    { name: texts.participants.created, cell: (it) => it.reservedDate },
    {
      name: texts.callbacks.action,
      cell: (it) =>
        [true, false].map((commits) => (
          <button
            key={String(commits)}
            type="button"
            aria-label={plan(it, commits).title}
            onClick={() => ask(plan(it, commits))}
          >
            {commits ? words.outPaid : words.outReturned}
          </button>
        )),
    },
  ];
  return <Table caption={words.reservations} columns={shown} rows={rows} />;
}

/** A form for a public key. */
function NewKey({ name, base, ask }: { name: string; base: string; ask: Ask }) {
  const [pem, setPem] = useState('');
  const [error, setError] = useState<string>();
  const submit = (event: Event) => {
    event.preventDefault();
    const text = pem.trim();
    const valid = /^-----BEGIN [A-Z ]+-----[\s\S]+-----END [A-Z ]+-----$/.test(text);
    setError(valid ? undefined : words.newKeyInvalid);
    if (!valid) return;
    ask({
      title: words.addKeyTitle(name),
      differences: [{ name: words.key, after: text }],
      requests: () => [{ method: 'POST', path: `${base}/keys`, body: { publicKey: `${text}\n` } }],
    });
  };
  return (
    <form class="inline" onSubmit={submit} noValidate aria-label={words.addKey}>
      <Area label={words.newKey} value={pem} onValue={setPem} error={error} />
      <button>{words.addKey}</button>
    </form>
  );
}

/** A UUID of version 4. `crypto.randomUUID` exists on HTTPS only. */
function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = ((bytes[6] ?? 0) & 0x0f) | 0x40;
  bytes[8] = ((bytes[8] ?? 0) & 0x3f) | 0x80;
  const text = [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('');
  return text.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5');
}

interface EndpointCall {
  to: string;
  types: string[];
  status?: number;
  milliseconds: number;
  error?: string;
}

/** A button that has the switch call each host of the endpoints. */
function TestCall({ base }: { base: string }) {
  const [calls, setCalls] = useState<EndpointCall[]>();
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<string>();
  const run = async () => {
    setBusy(true);
    setError(undefined);
    try {
      setCalls(await act<EndpointCall[]>(`${base}/endpoints/calls`));
    } catch (fault) {
      setError(fault instanceof Error ? fault.message : String(fault));
    }
    setBusy(false);
  };
  return (
    <>
      <p>
        <button type="button" disabled={isBusy} onClick={() => void run()}>
          {isBusy ? words.testingEndpoints : words.testEndpoints}
        </button>
      </p>
      <div role="status">
        {error !== undefined && <Note mood="bad">{error}</Note>}
        {calls !== undefined && (
          <Table caption={words.testResults} columns={callColumns} rows={calls} />
        )}
      </div>
    </>
  );
}

const callColumns: Column<EndpointCall>[] = [
  { name: words.host, cell: (it) => <code>{it.to}</code> },
  { name: words.endpoints, cell: (it) => it.types.length },
  {
    name: words.answer,
    cell: (it) =>
      it.status === undefined ? (
        <Badge mood="bad" text={it.error ?? ''} />
      ) : (
        <Badge mood="good" text={words.answered(it.status, it.milliseconds)} />
      ),
  },
];

function Endpoints({ rows, base, ask }: { rows: Endpoint[]; base: string; ask: Ask }) {
  const [type, setType] = useState('');
  const [value, setValue] = useState('');
  const [error, setError] = useState<string>();
  const edit: Column<Endpoint> = {
    name: texts.callbacks.action,
    cell: (it) => (
      <button
        type="button"
        aria-label={words.editEndpoint(it.type)}
        onClick={() => {
          setType(it.type);
          setValue(it.value);
        }}
      >
        {words.change}
      </button>
    ),
  };
  const submit = (event: Event) => {
    event.preventDefault();
    const missing = type.trim() === '' || value.trim() === '';
    setError(missing ? words.endpointMissing : undefined);
    if (missing) return;
    const known = rows.find((it) => it.type === type.trim());
    ask({
      title: words.endpointTitle(type.trim()),
      differences: [{ name: type.trim(), before: known?.value, after: value.trim() }],
      requests: () => [
        {
          method: 'POST',
          path: `${base}/endpoints`,
          body: { type: type.trim(), value: value.trim() },
        },
      ],
    });
  };
  return (
    <>
      {rows.length === 0 ? (
        <Note mood="warn">{words.noEndpoints}</Note>
      ) : (
        <Table
          caption={words.endpoints}
          columns={[
            { name: columns.kind, cell: (it) => it.type },
            { name: words.address, cell: (it) => <code>{it.value}</code> },
            edit,
          ]}
          rows={rows}
        />
      )}
      {rows.length > 0 && <TestCall base={base} />}
      <form class="inline" onSubmit={submit} noValidate aria-label={words.setEndpoint}>
        <Field label={words.endpointType} value={type} onValue={setType} autocomplete="off" />
        <Field
          label={words.address}
          value={value}
          onValue={setValue}
          error={error}
          autocomplete="off"
        />
        <button>{words.setEndpoint}</button>
      </form>
    </>
  );
}

function keyColumns(base: string, ask: Ask): Column<Key>[] {
  return [
    { name: words.key, cell: (it) => <code>{it.id}</code> },
    { name: columns.kind, cell: (it) => (it.bits === undefined ? it.kind : `${it.kind} ${it.bits}`) },
    { name: words.algorithms, cell: (it) => it.algorithms.join(', ') },
    { name: words.source, cell: (it) => it.source },
    { name: texts.participants.created, cell: (it) => it.createdDate ?? '' },
    {
      name: texts.callbacks.action,
      cell: (it) =>
        it.source !== 'register' ? null : (
          <button
            type="button"
            class="danger"
            aria-label={words.removeKeyTitle(it.id)}
            onClick={() =>
              ask({
                title: words.removeKeyTitle(it.id),
                differences: [{ name: words.key, before: it.id, after: words.removed }],
                requests: () => [{ method: 'DELETE', path: `${base}/keys/${part(it.id)}` }],
                warning: words.removeKeyWarning,
              })
            }
          >
            {words.remove}
          </button>
        ),
    },
  ];
}

function Letters({ letters, name, ask }: { letters: DeadLetter[]; name: string; ask: Ask }) {
  if (letters.length === 0) return <p>{words.noLetters}</p>;
  return (
    <>
      <Table caption={texts.callbacks.letters} columns={LETTER_COLUMNS} rows={letters} />
      <p>
        <button
          type="button"
          onClick={() => ask(selectionPlan('resend', `participant=${part(name)}`))}
        >
          {words.resendLetters}
        </button>
      </p>
    </>
  );
}

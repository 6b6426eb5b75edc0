// Settlement: windows, and settlements moved step by step. Each step reads the state of the switch
// first, so that an interrupted settlement is continued where it stopped.

import { useState } from 'preact/hooks';
import { ApiError, download } from '../api';
import { useChange, type Difference, type Plan } from '../change';
import { useData, type Loaded } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import { Await, Badge, CommandLine, Facts, Note, Table, Title, type Column, type Mood } from '../ui';
import { amount, type Participant } from './participants';

const words = texts.settlement;
/** The states of an account in their order. */
const STEPS = [
  'PENDING_SETTLEMENT',
  'PS_TRANSFERS_RECORDED',
  'PS_TRANSFERS_RESERVED',
  'PS_TRANSFERS_COMMITTED',
  'SETTLED',
];
const FORMATS = ['csv', 'camt053', 'json'] as const;
const SINCE_THE_BEGINNING = 'fromDateTime=2000-01-01T00:00:00.000Z';

interface Window {
  settlementWindowId: number;
  state: string;
  reason: string;
  createdDate: string;
  changedDate: string;
  content?: { id: number; currencyId: string; ledgerAccountType: string; settlementId?: number; state: string }[];
}

interface Account {
  id: number;
  state: string;
  reason?: string;
  externalReference?: string;
  netSettlementAmount: { amount: number; currency: string };
}

interface Settlement {
  id: number;
  state: string;
  settlementModel?: string;
  reason?: string;
  createdDate?: string;
  changedDate?: string;
  settlementWindows?: { id: number; state: string }[];
  participants?: { id: number; accounts: Account[] }[];
}

interface Model {
  name: string;
  isActive: boolean;
  settlementGranularity: string;
  ledgerAccountTypeId: string | null;
  currency?: string | null;
}

type Ask = (plan: Plan) => void;

const MOODS: Record<string, Mood> = { OPEN: 'good', SETTLED: 'good', ABORTED: 'bad' };

function State({ state }: { state: string }) {
  return <Badge mood={MOODS[state] ?? 'warn'} text={state} />;
}

/** The API answers an empty list with 400 and a text that ends with `not found`. */
function emptyIfNone<T>(loaded: Loaded<T[]>): Loaded<T[]> {
  const { error } = loaded;
  const isEmpty = error !== undefined && error.status === 400 && /not found/.test(error.message);
  return isEmpty ? { ...loaded, data: [], error: undefined } : loaded;
}

export function SettlementPage() {
  const windows = emptyIfNone(useData<Window[]>(`/v2/settlementWindows?${SINCE_THE_BEGINNING}`));
  const settlements = emptyIfNone(useData<Settlement[]>(`/v2/settlements?${SINCE_THE_BEGINNING}`));
  const models = useData<Model[]>('/settlementModels');
  const { dialog, ask } = useChange(() => {
    windows.reload();
    settlements.reload();
  });
  return (
    <>
      <Title text={texts.navigation.settlement} />
      {dialog}
      <Await of={windows}>
        {(all) => <Windows windows={all} models={models.data ?? []} ask={ask} />}
      </Await>
      <Await of={settlements}>
        {(all) =>
          all.length === 0 ? (
            <p>{words.noSettlements}</p>
          ) : (
            <Table caption={words.settlements} columns={SETTLEMENTS} rows={[...all].reverse()} />
          )
        }
      </Await>
      <CommandLine command={`upesi settlement run --admin ${location.origin}`} />
    </>
  );
}

const SETTLEMENTS: Column<Settlement>[] = [
  {
    name: words.settlement,
    cell: (it) => <a href={address(['settlement', String(it.id)])}>{words.numbered(it.id)}</a>,
  },
  { name: columns.status, cell: (it) => <State state={it.state} /> },
  { name: words.model, cell: (it) => it.settlementModel ?? '' },
  { name: words.windows, cell: (it) => (it.settlementWindows ?? []).map((one) => one.id).join(', ') },
  { name: texts.participants.created, cell: (it) => it.createdDate ?? '' },
];

function Windows({ windows, models, ask }: { windows: Window[]; models: Model[]; ask: Ask }) {
  const action: Column<Window> = {
    name: texts.callbacks.action,
    cell: (it) => <WindowActions window={it} models={models} ask={ask} />,
  };
  const shown: Column<Window>[] = [
    { name: words.window, cell: (it) => it.settlementWindowId, number: true },
    { name: columns.status, cell: (it) => <State state={it.state} /> },
    {
      name: words.content,
      cell: (it) =>
        (it.content ?? [])
          .map((one) => `${one.currencyId} ${one.ledgerAccountType}: ${one.state}`)
          .join('; '),
    },
    { name: texts.participants.created, cell: (it) => it.createdDate },
    action,
  ];
  return <Table caption={words.windows} columns={shown} rows={windows} />;
}

function WindowActions({ window, models, ask }: { window: Window; models: Model[]; ask: Ask }) {
  const id = window.settlementWindowId;
  const open = (window.content ?? []).filter((one) => ['CLOSED', 'ABORTED'].includes(one.state));
  const usable = models.filter(
    (model) =>
      model.isActive &&
      model.settlementGranularity === 'NET' &&
      open.some(
        (one) =>
          one.ledgerAccountType === model.ledgerAccountTypeId &&
          [undefined, null, one.currencyId].includes(model.currency),
      ),
  );
  if (window.state === 'OPEN') {
    return (
      <button
        type="button"
        onClick={() =>
          ask({
            title: words.closeTitle(id),
            differences: [{ name: words.windowNumbered(id), before: 'OPEN', after: 'CLOSED' }],
            requests: (reason) => [
              {
                method: 'POST',
                path: `/v2/settlementWindows/${id}`,
                body: { state: 'CLOSED', reason },
              },
            ],
            warning: words.closeWarning,
          })
        }
      >
        {words.close}
      </button>
    );
  }
  return (
    <div class="row">
      {usable.map((model) => (
        <button
          key={model.name}
          type="button"
          onClick={() =>
            ask({
              title: words.createTitle(id, model.name),
              differences: open.map((one) => ({
                name: `${one.currencyId} ${one.ledgerAccountType}`,
                before: one.state,
                after: 'PENDING_SETTLEMENT',
              })),
              requests: (reason) => [
                {
                  method: 'POST',
                  path: '/v2/settlements',
                  body: { settlementModel: model.name, reason, settlementWindows: [{ id }] },
                },
              ],
            })
          }
        >
          {words.create(model.name)}
        </button>
      ))}
      <Statements path={`/v2/settlementWindows/${id}`} name={`window-${id}`} />
    </div>
  );
}

/** Buttons that download a statement. */
function Statements({ path, name }: { path: string; name: string }) {
  const [problem, setProblem] = useState<string>();
  const save = async (format: (typeof FORMATS)[number]) => {
    try {
      const blob = await download(`${path}/statement?format=${format}`);
      const link = document.createElement('a');
      link.href = URL.createObjectURL(blob);
      link.download = `${name}.${format === 'camt053' ? 'xml' : format}`;
      link.click();
      URL.revokeObjectURL(link.href);
      setProblem(undefined);
    } catch (error) {
      setProblem(error instanceof ApiError ? error.message : String(error));
    }
  };
  return (
    <>
      {FORMATS.map((format) => (
        <button
          key={format}
          type="button"
          aria-label={words.statement(name, format)}
          onClick={() => void save(format)}
        >
          {format}
        </button>
      ))}
      {problem === undefined ? null : <Note mood="bad">{problem}</Note>}
    </>
  );
}

interface Row {
  participantId: number;
  account: Account;
}

export function SettlementDetails({ id }: { id: string }) {
  const settlement = useData<Settlement>(`/v2/settlements/${encodeURIComponent(id)}`);
  const participants = useData<Participant[]>('/participants');
  const { dialog, ask } = useChange(settlement.reload);
  const owners = new Map(
    (participants.data ?? []).flatMap((it) =>
      it.accounts.map((account): [number, string] => [account.id, it.name]),
    ),
  );
  return (
    <>
      <Title text={words.numbered(id)} />
      {dialog}
      <Await of={settlement}>
        {(data) => {
          const rows = (data.participants ?? []).flatMap((it) =>
            it.accounts.map((account) => ({ participantId: it.id, account })),
          );
          return (
            <>
              <Facts
                pairs={[
                  [columns.status, <State state={data.state} />],
                  [words.model, data.settlementModel],
                  [words.windows, (data.settlementWindows ?? []).map((one) => one.id).join(', ')],
                  [texts.change.reason, data.reason],
                  [texts.participants.created, data.createdDate],
                ]}
              />
              <Steps settlement={data} rows={rows} owners={owners} ask={ask} />
              <Table caption={columns.account} columns={accountColumns(owners)} rows={rows} />
              <div class="row">
                <Statements path={`/v2/settlements/${data.id}`} name={`settlement-${data.id}`} />
              </div>
            </>
          );
        }}
      </Await>
      <CommandLine command={`upesi settlement show ${id} --admin ${location.origin}`} />
    </>
  );
}

function accountColumns(owners: Map<number, string>): Column<Row>[] {
  return [
    {
      name: columns.participant,
      cell: ({ account, participantId }) => {
        const owner = owners.get(account.id);
        return owner === undefined ? (
          participantId
        ) : (
          <a href={address(['participants', owner])}>{owner}</a>
        );
      },
    },
    { name: columns.account, cell: ({ account }) => account.id, number: true },
    {
      name: words.net,
      cell: ({ account: { netSettlementAmount: net } }) => `${amount(net.amount)} ${net.currency}`,
      number: true,
    },
    { name: columns.status, cell: ({ account }) => <State state={account.state} /> },
    { name: texts.participant.reference, cell: ({ account }) => account.externalReference ?? '' },
  ];
}

/** The steps of a settlement: which are done, and the button of the next one. */
function Steps(it: { settlement: Settlement; rows: Row[]; owners: Map<number, string>; ask: Ask }) {
  const { settlement, rows, owners, ask } = it;
  const at = Math.min(...rows.map(({ account }) => STEPS.indexOf(account.state)));
  const next = STEPS[at + 1];
  const waiting = rows.filter(({ account }) => STEPS.indexOf(account.state) === at);
  const canAbort = rows.every(({ account }) => STEPS.indexOf(account.state) < 3);
  const isOver = ['SETTLED', 'ABORTED'].includes(settlement.state);
  const moved = (account: Account, state: string): Difference => ({
    name: `${owners.get(account.id) ?? account.id}: ${amount(account.netSettlementAmount.amount)} ${account.netSettlementAmount.currency}`,
    before: account.state,
    after: state,
  });
  return (
    <section aria-label={words.steps}>
      <ol class="steps">
        {STEPS.map((step, index) => (
          <li
            key={step}
            class={index <= at ? 'done' : undefined}
            aria-current={index === at && !isOver ? 'step' : undefined}
          >
            {words.stepNames[step] ?? step}
          </li>
        ))}
      </ol>
      {isOver || next === undefined || waiting.length === 0 ? null : (
        <div class="row">
          <button
            type="button"
            class="primary"
            onClick={() =>
              ask({
                title: words.advanceTitle(settlement.id, words.stepNames[next] ?? next),
                differences: waiting.map(({ account }) => moved(account, next)),
                requests: (reason) => [
                  {
                    method: 'PUT',
                    path: `/v2/settlements/${settlement.id}`,
                    body: { participants: byParticipant(waiting, next, reason) },
                  },
                ],
              })
            }
          >
            {words.advance(words.stepNames[next] ?? next)}
          </button>
          {!canAbort ? null : (
            <button
              type="button"
              class="danger"
              onClick={() =>
                ask({
                  title: words.abortTitle(settlement.id),
                  differences: rows.map(({ account }) => moved(account, 'ABORTED')),
                  requests: (reason) => [
                    {
                      method: 'PUT',
                      path: `/v2/settlements/${settlement.id}`,
                      body: { state: 'ABORTED', reason },
                    },
                  ],
                  warning: words.abortWarning,
                })
              }
            >
              {words.abort}
            </button>
          )}
        </div>
      )}
    </section>
  );
}

/** The body of a step: the accounts of each participant. */
function byParticipant(rows: Row[], state: string, reason: string) {
  const ids = [...new Set(rows.map((row) => row.participantId))];
  return ids.map((id) => ({
    id,
    accounts: rows
      .filter((row) => row.participantId === id)
      .map(({ account }) => ({ id: account.id, state, reason })),
  }));
}

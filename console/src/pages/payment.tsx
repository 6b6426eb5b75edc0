// The page of one payment: its messages, the decisions with the numbers they were made on, the
// postings, and the callbacks with their attempts.

import { createContext, type ComponentChildren } from 'preact';
import { useContext, useState } from 'preact/hooks';
import { part } from '../api';
import { grouped } from '../decimal';
import {
  decisionOf,
  failureOf,
  isFailure,
  kindOf,
  type Attempt,
  type Content,
  type Contents,
  type Decision,
  type Event,
  type Explanation,
  type Message,
  type Notice,
  type Party,
  type Pending,
  type Posting,
  type Settlement,
} from '../explanation';
import { reasonsOf } from '../failure';
import { useData, type Loaded } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import {
  Await,
  Badge,
  Choice,
  CommandLine,
  Copy,
  Facts,
  Note,
  Table,
  Title,
  type Column,
  type Mood,
} from '../ui';
import { Waterfall } from './waterfall';

const words = texts.payment;
type View = 'compact' | 'timeline' | 'raw';
const MOODS: Record<string, Mood> = {
  COMMITTED: 'good',
  RESERVED: 'warn',
  ACCEPTED: 'warn',
  PROCESSING: 'warn',
  COMPLETED: 'good',
};
/** Events that are shown at first, and added by each request for more. */
const EVENTS_SHOWN = 100;

/** The messages with headers and body, which are read when the first one is opened. */
const MessageContents = createContext<{ contents: Loaded<Contents>; open: () => void } | null>(null);

export function Payment({ id }: { id: string }) {
  const [opened, setOpened] = useState<string | null>(null);
  // Of this payment only: the next one is read when one of its own messages is opened.
  const contents = useData<Contents>(opened === id ? `/transfers/${part(id)}/messages` : null);
  const explanation = useData<Explanation>(`/transfers/${part(id)}/explanation`);
  const [view, setView] = useState<View>('timeline');
  const command = `upesi explain ${id} --admin ${location.origin}`;
  const kind = explanation.data === undefined ? 'payment' : kindOf(explanation.data);
  return (
    <>
      <Title text={words.titles[kind]}>
        <code class="id">{id}</code>
      </Title>
      <Await of={explanation}>
        {(data) => (
          <>
            <Summary data={data} />
            <div class="row">
              <Choice<View>
                label={words.views}
                options={[
                  ['timeline', words.timeline],
                  ['compact', words.compact],
                  ['raw', words.raw],
                ]}
                value={view}
                onValue={setView}
              />
              <Copy text={location.href} label={words.share} />
            </div>
            {view === 'compact' ? <Compact data={data} /> : null}
            {view === 'timeline' ? (
              <MessageContents.Provider value={{ contents, open: () => setOpened(id) }}>
                <Timeline data={data} />
              </MessageContents.Provider>
            ) : null}
            {view === 'raw' ? <Raw data={data} /> : null}
            {kind === 'payment' ? <Waterfall id={id} /> : null}
            <CommandLine command={command} />
          </>
        )}
      </Await>
    </>
  );
}

function Summary({ data }: { data: Explanation }) {
  const state = data.state ?? 'none';
  const failure = failureOf(data);
  const decision = failure && decisionOf(failure);
  const kind = kindOf(data);
  const isExchange = kind === 'quote' || kind === 'request';
  const text = isExchange ? words[kind] : (words.states[state] ?? state);
  const mood = isExchange && failure === undefined ? 'plain' : (MOODS[state] ?? 'bad');
  // The same word as in the list: refused, aborted or expired.
  const [cause] = state === 'ABORTED' ? (/^\w+/.exec(decision?.why ?? '') ?? []) : [];
  return (
    <>
      <p>
        <Badge mood={mood} text={cause ?? text} />
      </p>
      {failure === undefined || decision === undefined ? null : (
        <div class="note bad" data-failure>
          <strong>{words.failed}</strong>
          <p>{decision.why}</p>
          {reasonsOf(data, failure).map((reason) => (
            <p key={reason}>{reason}</p>
          ))}
          {/^Prepare/.test(decision.outcome) && decision.parties[0] !== undefined ? (
            <p>
              <a href={address(['participants', decision.parties[0].name])}>
                {texts.failure.payer(decision.parties[0].name)}
              </a>
            </p>
          ) : null}
        </div>
      )}
      {state === 'RESERVED' ? (
        <Note mood="warn" title={words.open}>
          {words.openText}
        </Note>
      ) : null}
      <Facts
        pairs={[
          ...paymentFacts(data),
          [words.bulk, data.bulk && membership(data.bulk)],
          [words.settlement, data.settlement && settled(data.settlement)],
          [words.feeSettlement, data.fee_settlement && settled(data.fee_settlement)],
        ]}
      />
      {(data.under_way ?? []).map((pending) => (
        <Underway key={pending.notice} pending={pending} />
      ))}
      {data.dead_letters.length === 0 ? null : (
        <Note mood="warn" title={words.deadLetters}>
          <ul>
            {data.dead_letters.map((letter) => (
              <li key={letter}>
                <a href={address(['callbacks'])}>{words.deadLetter(letter)}</a>
              </li>
            ))}
          </ul>
        </Note>
      )}
    </>
  );
}

/** The ids of the payment, each with a link to the same history. */
function paymentFacts({ payment }: Explanation): [string, ComponentChildren][] {
  if (payment === undefined) return [];
  const link = (id?: string) => id && <a href={address(['transfers', id])}>{id}</a>;
  const state = payment.transaction_request_state;
  return [
    [words.requestId, link(payment.transaction_request)],
    [words.requestState, state],
    [words.quoteId, payment.quotes?.map((id) => <p key={id}>{link(id)}</p>)],
    [words.transactionId, link(payment.transaction)],
    [words.transferId, link(payment.transfer)],
  ];
}

function membership(bulk: NonNullable<Explanation['bulk']>): ComponentChildren {
  if ('items' in bulk) return words.items(bulk.items);
  return <a href={address(['transfers', bulk.item_of])}>{bulk.item_of}</a>;
}

function settled(settlement: Settlement): ComponentChildren {
  if (settlement.kind === 'gross') return words.gross;
  const { window, state, settlement: by } = settlement;
  const text = words.window(window, state);
  return by === undefined ? text : `${text}; ${words.settledBy(by.id, by.model, by.state)}`;
}

function Underway({ pending }: { pending: Pending }) {
  const { request, recipient, waits, next_attempt, tried, last_status, last_failure } = pending;
  const last = last_failure ?? (last_status === null ? undefined : `HTTP ${last_status}`);
  const parts = [
    words.attempts(pending.attempts),
    last === undefined ? '' : words.lastFailure(last),
    words.waits(waits),
    next_attempt === null ? '' : words.nextAttempt(next_attempt),
  ];
  return (
    <Note mood="warn" title={words.undelivered(request, recipient)}>
      <p>{parts.filter((part) => part !== '').join('; ')}</p>
      <p>
        <a href={address(['participants', recipient])}>{words.addresses(recipient)}</a>
      </p>
      {tried.length === 0 ? null : (
        <details>
          <summary>{words.attemptList}</summary>
          <Attempts attempts={tried} />
        </details>
      )}
    </Note>
  );
}

/** A short title of an event. */
function titleOf(event: Event): string {
  switch (event.event) {
    case 'message':
      return words.kinds.message(event.message.request, event.message.sender);
    case 'expiry':
      return words.kinds.expiry;
    case 'operator':
      return words.kinds.operator(event.actor);
    case 'delivery':
      return words.kinds.delivery(event.request, event.recipient);
    case 'set_aside':
      return words.kinds.set_aside;
  }
}

/** The result of an event in words, and its mood. */
function resultOf(event: Event): [Mood, string] {
  const decision = decisionOf(event);
  if (decision !== undefined) {
    return [isFailure(decision) ? 'bad' : 'good', decision.outcome];
  }
  if (event.event === 'delivery') {
    const mood: Mood = event.result === 'delivered' ? 'good' : 'bad';
    return [event.result === 'withdrawn' ? 'plain' : mood, words.results[event.result] ?? event.result];
  }
  return ['warn', words.kinds.set_aside];
}

/** Milliseconds between two moments that the API gives. */
function between(from: string, to: string): string {
  const passed = Date.parse(to) - Date.parse(from);
  return Number.isNaN(passed) ? '' : passed < 10_000 ? `+${passed} ms` : `+${passed / 1000} s`;
}

function Compact({ data }: { data: Explanation }) {
  const first = data.events[0]?.time ?? '';
  const rows: Column<Event>[] = [
    { name: words.time, cell: (event) => event.time },
    { name: words.after, cell: (event) => between(first, event.time), number: true },
    { name: words.record, cell: (event) => event.log_index, number: true },
    { name: words.event, cell: titleOf },
    { name: words.decision, cell: (event) => <Result event={event} /> },
    { name: words.why, cell: (event) => decisionOf(event)?.why ?? '' },
  ];
  return <Table caption={words.events} columns={rows} rows={data.events} />;
}

function Result({ event }: { event: Event }) {
  const [mood, text] = resultOf(event);
  return <Badge mood={mood} text={text} />;
}

function Timeline({ data }: { data: Explanation }) {
  const [shown, setShown] = useState(EVENTS_SHOWN);
  const first = data.events[0]?.time ?? '';
  if (data.events.length === 0) return <p>{words.noEvents}</p>;
  return (
    <section aria-label={words.timeline}>
      <ol class="timeline">
        {data.events.slice(0, shown).map((event, index) => (
          <li key={index} class={resultOf(event)[0]}>
            <h2>{titleOf(event)}</h2>
            <p class="when">
              {`${event.time} ${between(first, event.time)} · ${words.record} ${event.log_index}`}
            </p>
            <Details event={event} />
          </li>
        ))}
      </ol>
      {shown < data.events.length ? (
        <button type="button" onClick={() => setShown(shown + EVENTS_SHOWN)}>
          {texts.more}
        </button>
      ) : null}
      {data.left_out === undefined ? null : <p>{words.omitted(data.left_out)}</p>}
      {(data.unread ?? []).map((text) => (
        <Note key={text} mood="bad">
          {text}
        </Note>
      ))}
      <p class="hint">{words.source(data.up_to)}</p>
    </section>
  );
}

function Details({ event }: { event: Event }) {
  const decision = decisionOf(event);
  return (
    <>
      {'message' in event && event.message ? <p class="says">{event.message.says}</p> : null}
      {event.event === 'operator' ? <p>{`${event.change}. ${event.reason}`}</p> : null}
      {event.event === 'expiry' ? <p>{event.expiration}</p> : null}
      {event.event === 'set_aside' ? <p>{event.change ?? ''}</p> : null}
      <p>
        <Result event={event} /> {decision?.why ?? ''}
        {event.event === 'delivery' ? deliveryText(event.attempts, event.last_status) : ''}
      </p>
      {decision === undefined ? null : <DecisionTables decision={decision} />}
      {event.event === 'delivery' ? <Attempts attempts={event.tried} /> : null}
      {'message' in event && event.message ? (
        <MessageFacts message={event.message} record={event.log_index} />
      ) : null}
    </>
  );
}

function deliveryText(attempts: number, status: number | null): string {
  const last = status === null ? words.noStatus : words.lastStatus(status);
  return `${words.attempts(attempts)}, ${last}`;
}

const PARTIES: Column<Party>[] = [
  {
    name: columns.participant,
    cell: ({ name }) => <a href={address(['participants', name])}>{name}</a>,
  },
  { name: columns.currency, cell: (party) => party.currency },
  { name: columns.positionBefore, cell: (party) => grouped(party.position_before), number: true },
  { name: columns.positionAfter, cell: (party) => grouped(party.position_after), number: true },
  { name: columns.coverBefore, cell: (party) => grouped(party.cover_before), number: true },
  { name: columns.coverAfter, cell: (party) => grouped(party.cover_after), number: true },
  { name: columns.cap, cell: (party) => grouped(party.cap ?? texts.none), number: true },
  {
    name: columns.queue,
    cell: (party) => texts.queueOf(party.notices_owed, party.lane_capacity),
    number: true,
  },
  {
    name: columns.status,
    cell: (party) =>
      !party.active ? texts.inactive : party.account_active ? texts.active : texts.accountInactive,
  },
];

const POSTINGS: Column<Posting>[] = [
  { name: columns.side, cell: (leg) => leg.side },
  { name: columns.owner, cell: (leg) => leg.owner },
  { name: columns.kind, cell: (leg) => leg.kind },
  { name: columns.account, cell: (leg) => leg.account, number: true },
  { name: columns.amount, cell: (leg) => `${grouped(leg.amount)} ${leg.currency}`, number: true },
  { name: columns.before, cell: (leg) => grouped(leg.before), number: true },
  { name: columns.after, cell: (leg) => grouped(leg.after), number: true },
];

const NOTICES: Column<Notice>[] = [
  { name: columns.notice, cell: (it) => it.notice, number: true },
  { name: columns.request, cell: (it) => it.request },
  { name: columns.recipient, cell: (it) => it.recipient },
  { name: columns.reports, cell: (it) => it.outcome },
];

const ATTEMPTS: Column<Attempt>[] = [
  { name: columns.began, cell: (it) => it.began },
  { name: columns.took, cell: (it) => `${it.took_ms} ms`, number: true },
  {
    name: columns.answer,
    cell: (it) => (it.status === null ? (it.failure ?? words.noStatus) : `HTTP ${it.status}`),
  },
];

/** The tables of a decision. Those of a failure are open at once. */
function DecisionTables({ decision }: { decision: Decision }) {
  const { parties, postings, owes } = decision;
  if (parties.length + postings.length + owes.length === 0) return null;
  return (
    <details open={isFailure(decision)}>
      <summary>{words.numbers}</summary>
      {parties.length === 0 ? null : (
        <Table caption={words.numbers} columns={PARTIES} rows={parties} />
      )}
      {postings.length === 0 ? null : (
        <Table caption={words.postings} columns={POSTINGS} rows={postings} />
      )}
      {owes.length === 0 ? null : <Table caption={words.notices} columns={NOTICES} rows={owes} />}
    </details>
  );
}

function Attempts({ attempts }: { attempts: Attempt[] }) {
  if (attempts.length === 0) return null;
  return <Table caption={words.attemptList} columns={ATTEMPTS} rows={attempts} />;
}

function MessageFacts({ message, record }: { message: Message; record: number }) {
  const { header_lines, header_bytes, body_bytes, expiration, expires_in_ms } = message;
  const sized = header_lines !== null && header_bytes !== null && body_bytes !== null;
  const kept = words.kept[message.kept] ?? message.kept;
  return (
    <details>
      <summary>{words.message}</summary>
      <Facts
        pairs={[
          [columns.sender, message.sender],
          [columns.destination, message.destination],
          [columns.fields, message.says],
          [
            columns.expiration,
            expiration === null ? null : words.expires(expiration, expires_in_ms ?? 0),
          ],
          [
            columns.stored,
            sized ? `${kept}: ${words.sizes(header_lines, header_bytes, body_bytes)}` : kept,
          ],
          [columns.trace, <code>{message.trace}</code>],
          [columns.digest, <code>{message.digest ?? message.hash}</code>],
        ]}
      />
      {message.kept === 'stored' || message.kept === 'damaged' ? <MessageText record={record} /> : null}
    </details>
  );
}

/** Headers and body of a message, folded. */
function MessageText({ record }: { record: number }) {
  const [isOpen, setOpen] = useState(false);
  const of = useContext(MessageContents);
  if (of === null) return null;
  const toggle = (open: boolean) => {
    setOpen(open);
    if (open) of.open();
  };
  return (
    <details onToggle={(event) => toggle(event.currentTarget.open)}>
      <summary>{words.contents}</summary>
      {isOpen ? (
        <Await of={of.contents}>
          {(data) => {
            const content = data.messages.find(({ logIndex }) => logIndex === record);
            return content === undefined ? (
              <p>{words.contentLeftOut}</p>
            ) : (
              <MessageLines content={content} masked={data.masked} />
            );
          }}
        </Await>
      ) : null}
    </details>
  );
}

function MessageLines({ content, masked }: { content: Content; masked: boolean }) {
  const { headers, body, text } = content;
  const lines = headers.map(({ name, value }) => `${name}: ${value}`).join('\n');
  const shown = body === undefined ? (text ?? '') : JSON.stringify(body, null, 2);
  return (
    <>
      {masked ? (
        <p>
          <Badge mood="warn" text={words.masked} /> {words.maskedText}
        </p>
      ) : null}
      <h3>{words.headers}</h3>
      <pre tabIndex={0}>{lines}</pre>
      <h3>{words.body}</h3>
      <pre tabIndex={0}>{shown}</pre>
    </>
  );
}

function Raw({ data }: { data: Explanation }) {
  const text = JSON.stringify(data, null, 2);
  return (
    <section aria-label={words.raw}>
      <Copy text={text} label={texts.copy} />
      <pre tabIndex={0}>{text}</pre>
    </section>
  );
}

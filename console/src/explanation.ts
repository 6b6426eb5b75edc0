// The history of a payment, a bulk transfer, a quote or a transaction request, as
// `GET /transfers/{id}/explanation` gives it.

export interface Explanation {
  transfer: string;
  /** With recorded quotes or a recorded transaction request. */
  payment?: PaymentIds;
  /** Of a bulk, or of an item of one. */
  bulk?: { items: number } | { item_of: string };
  state?: State;
  settlement?: Settlement;
  fee_settlement?: Settlement;
  events: Event[];
  left_out?: number;
  notices_pending: number[];
  dead_letters: number[];
  under_way?: Pending[];
  up_to: number;
  unread?: string[];
}

export interface PaymentIds {
  transaction_request?: string;
  transaction_request_state?: string;
  quotes?: string[];
  transaction?: string;
  transfer?: string;
}

/** The last four are those of a bulk. */
export type State =
  | 'RESERVED'
  | 'COMMITTED'
  | 'ABORTED'
  | 'ACCEPTED'
  | 'PROCESSING'
  | 'COMPLETED'
  | 'REJECTED';

export type Settlement =
  | { kind: 'gross' }
  | {
      kind: 'window';
      window: number;
      state: string;
      settlement?: { id: number; model: string; state: string };
    };

interface Common {
  log_index: number;
  time: string;
}

export type Event = Common &
  (
    | { event: 'message'; message: Message; decision: Decision }
    | { event: 'expiry'; expiration: string; decision: Decision }
    | { event: 'operator'; actor: string; reason: string; change: string; decision: Decision }
    | ({ event: 'delivery' } & Delivery)
    | { event: 'set_aside'; message?: Message; change?: string; quarantined: unknown }
  );

export interface Message {
  request: string;
  sender: string;
  destination: string | null;
  says: string;
  expiration: string | null;
  expires_in_ms: number | null;
  trace: string;
  hash: string;
  kept: string;
  header_lines: number | null;
  header_bytes: number | null;
  body_bytes: number | null;
  digest: string | null;
}

/** The messages about a payment, as `GET /transfers/{id}/messages` gives them. */
export interface Contents {
  masked: boolean;
  messages: Content[];
  leftOut?: number;
}

export interface Content {
  logIndex: number;
  headers: { name: string; value: string }[];
  /** JSON. */
  body?: unknown;
  text?: string;
}

export interface Decision {
  outcome: string;
  number: number;
  why: string;
  parties: Party[];
  postings: Posting[];
  owes: Notice[];
}

export interface Party {
  name: string;
  currency: string;
  active: boolean;
  account_active: boolean;
  position_before: string;
  position_after: string;
  cover_before: string;
  cover_after: string;
  cap: string | null;
  notices_owed: number;
  lane_capacity: number;
}

export interface Posting {
  side: string;
  account: number;
  kind: string;
  owner: string;
  amount: string;
  currency: string;
  before: string;
  after: string;
}

export interface Notice {
  notice: number;
  recipient: string;
  request: string;
  outcome: string;
}

export interface Delivery {
  notice: number;
  recipient: string;
  request: string;
  result: string;
  attempts: number;
  last_status: number | null;
  finished: string;
  tried: Attempt[];
}

export interface Attempt {
  began: string;
  took_ms: number;
  status: number | null;
  failure?: string;
}

export interface Pending {
  notice: number;
  recipient: string;
  request: string;
  waits: string;
  attempts: number;
  first_attempt: string | null;
  last_status: number | null;
  last_failure?: string;
  next_attempt: string | null;
  tried: Attempt[];
}

/** The decision of an event, if it has one. */
export function decisionOf(event: Event): Decision | undefined {
  return 'decision' in event ? event.decision : undefined;
}

/** Whether a decision refused its message, or ended the transfer without a commit. */
export function isFailure(decision: Decision): boolean {
  return /^(refused|aborted|expired|ignored|rejected)/.test(decision.why);
}

/** What a history is about. */
export function kindOf({ bulk, events }: Explanation): 'payment' | 'bulk' | 'quote' | 'request' {
  if (bulk !== undefined && 'items' in bulk) return 'bulk';
  const about = (event: Event, paths: string[]) =>
    event.event === 'message' && paths.some((path) => event.message.request.includes(path));
  const every = (paths: string[]) => events.length > 0 && events.every((it) => about(it, paths));
  if (every([' /quotes'])) return 'quote';
  return every([' /quotes', ' /transactionRequests']) ? 'request' : 'payment';
}

/**
 * The event that explains why the payment failed: the one that ended it, or, of a payment that was
 * never reserved, the first refusal. `undefined` if it did not fail. A quote or a request failed if
 * all its messages were refused.
 */
export function failureOf(data: Explanation): Event | undefined {
  const { state, events } = data;
  if (state !== undefined && state !== 'ABORTED' && state !== 'REJECTED') return undefined;
  const failed = events.filter((event) => {
    const decision = decisionOf(event);
    return decision !== undefined && isFailure(decision);
  });
  const isExchange = ['quote', 'request'].includes(kindOf(data));
  if (isExchange && failed.length < events.length) return undefined;
  const ends = /^(aborted|expired|rejected)/;
  return failed.find((event) => ends.test(decisionOf(event)?.why ?? '')) ?? failed[0];
}

// Why a payment failed, in sentences with the numbers that the decision was made on.

import { grouped, sum } from './decimal';
import { decisionOf, type Decision, type Event, type Explanation, type Party } from './explanation';
import { texts } from './texts';

const words = texts.failure;

/** What the failure of a payment is about. */
export function reasonsOf(data: Explanation, failure: Event): string[] {
  const decision = decisionOf(failure);
  if (decision === undefined) return [];
  if (failure.event === 'expiry') return expiryReasons(data, failure.expiration);
  const [payer] = decision.parties;
  const [amount] = /^[\d.]+/.exec(saysOf(failure)) ?? [];
  const limit = payer && limitOf(decision, payer);
  if (payer !== undefined && amount !== undefined && limit !== undefined) {
    const text = (value: string) => `${grouped(value)} ${payer.currency}`;
    const position = sum(payer.position_before, amount);
    const numbers = [payer.position_before, amount, position].map(text) as [string, string, string];
    return [words.exceeds(payer.name, numbers, limit.name, text(limit.value))];
  }
  const condition = conditionOf(data);
  if (decision.outcome === 'FulfilmentInvalid' && condition !== undefined) {
    return [`${saysOf(failure)}.`, words.condition(condition)];
  }
  return saysOf(failure) === '' ? [] : [`${shortened(saysOf(failure))}.`];
}

function saysOf(event: Event): string {
  return 'message' in event && event.message ? event.message.says : '';
}

/** The limit that a refused payment would have exceeded. */
function limitOf(decision: Decision, payer: Party): { name: string; value: string } | undefined {
  if (decision.outcome === 'PrepareCapExceeded' && payer.cap !== null) {
    return { name: texts.columns.cap, value: payer.cap };
  }
  if (decision.outcome === 'PrepareLiquidityInsufficient') {
    return { name: words.cover, value: payer.cover_before };
  }
  return undefined;
}

/** Whether the payee got the request, and how much time it had. */
function expiryReasons({ events, under_way }: Explanation, deadline: string): string[] {
  const request = events.find((event) => conditionIn(event) !== undefined);
  const seconds = request && (Date.parse(deadline) - Date.parse(request.time)) / 1000;
  const sent = [...events, ...(under_way ?? [])].find(
    (it) => 'recipient' in it && it.request === 'POST /transfers',
  );
  const reasons = [seconds === undefined ? '' : words.deadline(seconds.toFixed(1), deadline)];
  if (sent !== undefined && 'recipient' in sent) {
    const { recipient, last_status: status } = sent;
    const isDelivered = 'result' in sent && sent.result === 'delivered';
    reasons.push(isDelivered ? words.unanswered(recipient, status) : words.undelivered(recipient));
  }
  return reasons.filter((text) => text !== '');
}

function conditionOf(data: Explanation): string | undefined {
  return data.events.map(conditionIn).find((text) => text !== undefined);
}

function conditionIn(event: Event): string | undefined {
  return /, condition ([0-9a-f]+)/.exec(saysOf(event))?.[1];
}

/** The fields of a message without the condition, a long number. */
function shortened(fields: string): string {
  return fields.replace(/, condition [0-9a-f]+/, '');
}

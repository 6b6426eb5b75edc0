// Dead letters: callbacks that were given up. One, or all that match the filter, can be resent.

import { useState } from 'preact/hooks';
import { readCommand } from '../api';
import { useChange, type Plan } from '../change';
import { useData } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import { Await, CommandLine, Field, Table, Title, type Column } from '../ui';

const words = texts.callbacks;
/** Entries of a page; the API gives at most this number. */
const PAGE = 200;

export interface DeadLetter {
  id: number;
  recipient: string;
  transferId: string;
  message: string;
  outcome: number;
  attempts: number;
  lastStatus: number;
  createdDate: string;
  lastAttemptDate: string;
}

/** What to do to resend dead letters. */
export function resendPlan(letters: DeadLetter[]): Plan {
  return {
    title: words.resendTitle(letters.length),
    differences: letters.slice(0, 20).map((letter) => ({
      name: `${words.letter(letter.id)}: ${letter.message}, ${letter.recipient}`,
      before: words.givenUp,
      after: words.pending,
    })),
    requests: () =>
      letters.map(({ id }) => ({ method: 'POST', path: `/deadletters/${id}/resend` })),
  };
}

export const LETTER_COLUMNS: Column<DeadLetter>[] = [
  { name: words.id, cell: (it) => it.id, number: true },
  { name: columns.recipient, cell: (it) => <a href={address(['participants', it.recipient])}>{it.recipient}</a> },
  { name: columns.request, cell: (it) => it.message },
  {
    name: words.transfer,
    cell: (it) => <a href={address(['transfers', it.transferId])}>{it.transferId}</a>,
  },
  { name: words.attempts, cell: (it) => it.attempts, number: true },
  {
    name: columns.answer,
    cell: (it) => (it.lastStatus === 0 ? texts.payment.noStatus : `HTTP ${it.lastStatus}`),
  },
  { name: words.lastAttempt, cell: (it) => it.lastAttemptDate },
];

export function Callbacks() {
  const [before, setBefore] = useState<number>();
  const [recipient, setRecipient] = useState('');
  const [status, setStatus] = useState('');
  const page = before === undefined ? '' : `&before=${before}`;
  const letters = useData<DeadLetter[]>(`/deadletters?limit=${PAGE}${page}`);
  const { dialog, ask } = useChange(letters.reload);
  const resend: Column<DeadLetter> = {
    name: words.action,
    cell: (it) => (
      <button
        type="button"
        aria-label={words.resendOne(it.id)}
        onClick={() => ask(resendPlan([it]))}
      >
        {words.resend}
      </button>
    ),
  };
  return (
    <>
      <Title text={texts.navigation.callbacks} />
      {dialog}
      <form class="inline" onSubmit={(event) => event.preventDefault()}>
        <Field label={words.filterRecipient} value={recipient} onValue={setRecipient} autocomplete="off" />
        <Field label={words.filterStatus} value={status} onValue={setStatus} inputMode="numeric" autocomplete="off" />
      </form>
      <Await of={letters}>
        {(data) => {
          const shown = data.filter(
            (it) =>
              it.recipient.includes(recipient.trim()) &&
              (status.trim() === '' || String(it.lastStatus) === status.trim()),
          );
          return (
            <>
              <div class="row">
                <p role="status">{words.shown(shown.length, data.length)}</p>
                <button
                  type="button"
                  disabled={shown.length === 0}
                  onClick={() => ask(resendPlan(shown))}
                >
                  {words.resendShown(shown.length)}
                </button>
              </div>
              {shown.length === 0 ? (
                <p>{words.nothing}</p>
              ) : (
                <Table caption={words.letters} columns={[...LETTER_COLUMNS, resend]} rows={shown} />
              )}
              <div class="row">
                {before === undefined ? null : (
                  <button type="button" onClick={() => setBefore(undefined)}>
                    {words.newest}
                  </button>
                )}
                {data.length < PAGE ? null : (
                  <button type="button" onClick={() => setBefore(data[data.length - 1]?.id)}>
                    {words.older}
                  </button>
                )}
              </div>
              <CommandLine command={readCommand(`/deadletters?limit=${PAGE}`)} />
            </>
          );
        }}
      </Await>
    </>
  );
}

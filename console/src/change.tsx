// The dialog of a change: what will change, the request, and the reason that the log records.

import { useEffect, useRef, useState } from 'preact/hooks';
import type { ComponentChildren } from 'preact';
import { ApiError, change, type Change } from './api';
import { address } from './router';
import { columns, texts } from './texts';
import { Copy, Field, Note, Table } from './ui';

const words = texts.change;

/** One value that changes. */
export interface Difference {
  name: string;
  before?: string | undefined;
  after: string;
}

/** A change that the operator has asked for, before it is confirmed. */
export interface Plan {
  title: string;
  differences: Difference[];
  /** The requests; several are made one after the other. */
  requests: (reason: string) => Change[];
  /** The request after the one with this answer, for changes of many objects. */
  follow?: (body: unknown) => Change | undefined;
  /** A warning, if the change is hard to take back. */
  warning?: string;
}

/** Asks for a change; `dialog` belongs into the page. `onDone` follows a change that was made. */
export function useChange(onDone: () => void): {
  dialog: ComponentChildren;
  ask: (plan: Plan) => void;
} {
  const [plan, setPlan] = useState<Plan>();
  const [note, setNote] = useState<ComponentChildren>();
  const done = (result: ComponentChildren) => {
    setPlan(undefined);
    setNote(result);
    onDone();
  };
  const dialog = (
    <>
      {note}
      {plan === undefined ? null : (
        <Dialog plan={plan} onDone={done} onCancel={() => setPlan(undefined)} />
      )}
    </>
  );
  const ask = (next: Plan) => {
    setNote(undefined);
    setPlan(next);
  };
  return { dialog, ask };
}

function Dialog(it: {
  plan: Plan;
  onDone: (result: ComponentChildren) => void;
  onCancel: () => void;
}) {
  const { title, differences, requests, warning } = it.plan;
  const element = useRef<HTMLDialogElement>(null);
  const [reason, setReason] = useState('');
  const [missing, setMissing] = useState<string>();
  const [problem, setProblem] = useState<string>();
  const [made, setMade] = useState(0);
  const [busy, setBusy] = useState(false);
  useEffect(() => element.current?.showModal(), []);
  const all = requests(reason.trim());

  const submit = async (event: Event) => {
    event.preventDefault();
    setMissing(reason.trim() === '' ? words.reasonMissing : undefined);
    if (reason.trim() === '') return;
    setBusy(true);
    setProblem(undefined);
    const proposals: number[] = [];
    // Requests that were made before an error are not made again.
    let count = it.plan.follow === undefined ? made : 0;
    const queue = [...all];
    try {
      for (; count < queue.length; count += 1) {
        const request = queue[count];
        if (request === undefined) break;
        const { proposal, body } = await change(request, reason.trim());
        if (proposal !== undefined) proposals.push(proposal);
        const next = it.plan.follow?.(body);
        if (next !== undefined) queue.push(next);
        setMade(count + 1);
      }
      it.onDone(<Result title={title} proposals={proposals} />);
    } catch (error) {
      const text = error instanceof ApiError ? error.message : String(error);
      setProblem(all.length === 1 ? text : `${words.progress(count, all.length)} ${text}`);
      setBusy(false);
    }
  };

  return (
    <dialog ref={element} aria-labelledby="change-title" onCancel={it.onCancel}>
      <form onSubmit={(event) => void submit(event)} noValidate>
        <h2 id="change-title">{title}</h2>
        <Table
          caption={words.differences}
          columns={[
            { name: words.what, cell: (one) => one.name },
            { name: columns.before, cell: (one) => one.before ?? '' },
            { name: columns.after, cell: (one) => one.after },
          ]}
          rows={differences}
        />
        {warning === undefined ? null : <Note mood="warn">{warning}</Note>}
        <Field
          label={words.reason}
          hint={words.reasonHint}
          value={reason}
          onValue={setReason}
          error={missing}
          autocomplete="off"
        />
        <details>
          <summary>{texts.commandLine}</summary>
          <pre tabIndex={0}>{all.map((one) => curl(one, reason.trim())).join('\n')}</pre>
          <Copy text={all.map((one) => curl(one, reason.trim())).join('\n')} label={texts.copy} />
        </details>
        {problem === undefined ? null : <Note mood="bad">{problem}</Note>}
        {busy && 1 < all.length ? <p role="status">{words.progress(made, all.length)}</p> : null}
        <div class="row">
          <button class="primary" disabled={busy}>
            {words.confirm}
          </button>
          <button type="button" disabled={busy} onClick={it.onCancel}>
            {words.cancel}
          </button>
        </div>
      </form>
    </dialog>
  );
}

function Result({ title, proposals }: { title: string; proposals: number[] }) {
  if (proposals.length === 0) return <Note mood="good">{words.done(title)}</Note>;
  return (
    <Note mood="warn">
      {words.proposed(title)}{' '}
      {proposals.map((id) => (
        <a key={id} href={address(['proposals', String(id)])}>
          {words.proposal(id)}
        </a>
      ))}
    </Note>
  );
}

/** A request as a command of a shell. */
function curl({ method, path, body }: Change, reason: string): string {
  const quote = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;
  const parts = ['curl', '-X', method, '-H "Authorization: Bearer $(cat TOKEN_FILE)"'];
  if (reason !== '') parts.push('-H', quote(`X-Reason: ${reason}`));
  if (body !== undefined) {
    parts.push('-H', quote('Content-Type: application/json'), '-d', quote(JSON.stringify(body)));
  }
  return [...parts, quote(location.origin + path)].join(' ');
}

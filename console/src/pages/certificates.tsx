// Certificates of a participant, with the days that are left, and its requests for new ones.

import { part } from '../api';
import type { Plan } from '../change';
import { useData } from '../load';
import { columns, texts } from '../texts';
import { Await, Badge, Table, type Column, type Mood } from '../ui';

const words = texts.certificates;
/** Days from which on a certificate should be renewed. */
const WARN_DAYS = 30;
const DAY_MS = 86_400_000;

interface Enrolment {
  id: number;
  state: 'CSR_LOADED' | 'CERT_SIGNED' | 'INVALID';
  csrInfo: { name: string; key: string };
  certInfo?: { subject: string; issuer: string; serialNumber: string; notAfter: string };
  createdDate: string;
}

/** Days until a moment. */
export function Days({ until }: { until: string }) {
  const days = Math.floor((Date.parse(until) - Date.now()) / DAY_MS);
  const mood: Mood = days < 0 ? 'bad' : days < WARN_DAYS ? 'warn' : 'good';
  return <Badge mood={mood} text={words.days(days)} />;
}

export function Certificates({ name, ask }: { name: string; ask: (plan: Plan) => void }) {
  const base = `/api/dfsps/${part(name)}/enrollments/inbound`;
  const enrolments = useData<Enrolment[]>(base);
  const plan = (it: Enrolment, signs: boolean): Plan => ({
    title: signs ? words.signTitle(it.id) : words.rejectTitle(it.id),
    differences: [
      {
        name: it.csrInfo.name,
        before: words.states.CSR_LOADED,
        after: signs ? words.states.CERT_SIGNED : words.states.INVALID,
      },
    ],
    requests: () => [
      signs
        ? { method: 'POST', path: `${base}/${it.id}/sign` }
        : { method: 'DELETE', path: `${base}/${it.id}` },
    ],
  });
  const rows: Column<Enrolment>[] = [
    { name: texts.callbacks.id, cell: (it) => it.id, number: true },
    { name: words.subject, cell: (it) => it.certInfo?.subject ?? it.csrInfo.name },
    { name: texts.participant.key, cell: (it) => it.csrInfo.key },
    { name: columns.status, cell: (it) => words.states[it.state] },
    {
      name: words.left,
      cell: (it) => (it.certInfo === undefined ? '' : <Days until={it.certInfo.notAfter} />),
    },
    { name: texts.participants.created, cell: (it) => it.createdDate },
    {
      name: texts.callbacks.action,
      cell: (it) =>
        it.state !== 'CSR_LOADED' ? null : (
          <>
            <button type="button" onClick={() => ask(plan(it, true))}>
              {words.signTitle(it.id)}
            </button>{' '}
            <button type="button" class="danger" onClick={() => ask(plan(it, false))}>
              {words.rejectTitle(it.id)}
            </button>
          </>
        ),
    },
  ];
  return (
    <Await of={enrolments}>
      {(data) =>
        data.length === 0 ? (
          <p>{words.none}</p>
        ) : (
          <Table caption={words.caption} columns={rows} rows={data} />
        )
      }
    </Await>
  );
}

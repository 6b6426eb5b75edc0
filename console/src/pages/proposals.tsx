// Changes that wait for a second operator.

import { useState } from 'preact/hooks';
import { useChange } from '../change';
import { useData } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import {
  Await,
  Badge,
  Choice,
  CommandLine,
  Facts,
  Table,
  Title,
  type Column,
  type Mood,
} from '../ui';

const words = texts.proposals;

interface Proposal {
  proposalId: number;
  state: string;
  change: string;
  group?: string;
  permission?: string;
  description: string;
  request: string;
  reason: string;
  proposedBy: string;
  proposedDate: string;
  expirationDate: string;
  decision?: {
    decidedBy: string;
    decidedDate: string;
    isMade: boolean;
    outcome: string;
    reason: string;
    steps?: string[];
  };
}

const MOODS: Record<string, Mood> = { OPEN: 'warn', APPROVED: 'good' };

const COLUMNS: Column<Proposal>[] = [
  {
    name: words.proposal,
    cell: (it) => (
      <a href={address(['proposals', String(it.proposalId)])}>{words.numbered(it.proposalId)}</a>
    ),
  },
  { name: columns.status, cell: (it) => <Badge mood={MOODS[it.state] ?? 'plain'} text={it.state} /> },
  { name: words.change, cell: (it) => it.description },
  { name: words.by, cell: (it) => it.proposedBy },
  { name: texts.change.reason, cell: (it) => it.reason },
  { name: words.until, cell: (it) => it.expirationDate },
];

type Filter = 'OPEN' | 'all';

export function Proposals() {
  const [filter, setFilter] = useState<Filter>('OPEN');
  const proposals = useData<Proposal[]>(`/proposals${filter === 'OPEN' ? '?state=OPEN' : ''}`, 5_000);
  return (
    <>
      <Title text={texts.navigation.proposals} />
      <Choice<Filter>
        label={columns.status}
        options={[
          ['OPEN', words.waiting],
          ['all', words.all],
        ]}
        value={filter}
        onValue={setFilter}
      />
      <Await of={proposals}>
        {(rows) =>
          rows.length === 0 ? (
            <p>{words.nothing}</p>
          ) : (
            <Table caption={texts.navigation.proposals} columns={COLUMNS} rows={rows} />
          )
        }
      </Await>
      <CommandLine command={`upesi proposal list --admin ${location.origin}`} />
    </>
  );
}

export function ProposalPage({ id }: { id: string }) {
  const proposal = useData<Proposal>(`/proposals/${encodeURIComponent(id)}`);
  const { dialog, ask } = useChange(proposal.reload);
  return (
    <>
      <Title text={words.numbered(id)} />
      {dialog}
      <Await of={proposal}>
        {(it) => {
          const decide = (action: 'approve' | 'reject', title: string) => () =>
            ask({
              title: `${title}: ${words.numbered(it.proposalId)}`,
              differences: [{ name: it.description, before: it.state, after: title }],
              requests: (reason) => [
                { method: 'POST', path: `/proposals/${it.proposalId}/${action}`, body: { reason } },
              ],
            });
          return (
            <>
              <Facts
                pairs={[
                  [columns.status, <Badge mood={MOODS[it.state] ?? 'plain'} text={it.state} />],
                  [words.change, it.description],
                  [columns.request, <code>{it.request}</code>],
                  [texts.change.reason, it.reason],
                  [words.by, it.proposedBy],
                  [words.proposed, it.proposedDate],
                  [words.until, it.expirationDate],
                  [words.permission, it.permission],
                  [words.decidedBy, it.decision?.decidedBy],
                  [words.decided, it.decision?.decidedDate],
                  [words.decisionReason, it.decision?.reason],
                  [words.outcome, it.decision?.outcome],
                  [words.steps, it.decision?.steps?.join('; ')],
                ]}
              />
              {it.state !== 'OPEN' ? null : (
                <div class="row">
                  <button type="button" class="primary" onClick={decide('approve', words.approve)}>
                    {words.approve}
                  </button>
                  <button type="button" class="danger" onClick={decide('reject', words.reject)}>
                    {words.reject}
                  </button>
                </div>
              )}
            </>
          );
        }}
      </Await>
      <CommandLine command={`upesi proposal show ${id} --admin ${location.origin}`} />
    </>
  );
}

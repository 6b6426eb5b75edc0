// The system: disk, snapshots, copies of the log, nodes, version of the rules.

import { readCommand } from '../api';
import { useData } from '../load';
import { address } from '../router';
import { columns, texts } from '../texts';
import { Await, Badge, CommandLine, Facts, Table, Title, type Column } from '../ui';

const words = texts.system;

interface Job {
  logIndex: number;
  lastDone?: string;
  failing?: string;
}

interface Storage {
  status: string;
  failing?: string;
  logBytes: number;
  logSegments: number;
  storeBytes: number;
  freeBytes: number;
  diskBytes: number;
  growthBytesPerDay?: number;
  hoursUntilFull?: number;
  archive?: Job;
  backup?: Job;
  chainHeads?: Job;
}

interface Snapshots {
  taken: number;
  failed: number;
  error?: string;
  snapshots: { file: string; logIndex: number }[];
}

interface Cluster {
  node: string;
  logIndex: number;
  nodes: { name: string; epoch: number; logIndex: number; silentMilliseconds: number }[];
  lanes: { participant: string; node: string }[];
}

const bytes = (count: number | undefined) =>
  count === undefined ? undefined : words.megabytes((count / 1e6).toFixed(1));

function job(it: Job | undefined): string | undefined {
  if (it === undefined) return undefined;
  return it.failing ?? words.upTo(it.logIndex, it.lastDone ?? texts.unknown);
}

const NODES: Column<Cluster['nodes'][number]>[] = [
  { name: words.node, cell: (it) => it.name },
  { name: words.epoch, cell: (it) => it.epoch, number: true },
  { name: texts.payment.record, cell: (it) => it.logIndex, number: true },
  {
    name: words.silent,
    cell: (it) => texts.overview.milliseconds(String(it.silentMilliseconds)),
    number: true,
  },
];

const LANES: Column<Cluster['lanes'][number]>[] = [
  {
    name: columns.participant,
    cell: (it) => <a href={address(['participants', it.participant])}>{it.participant}</a>,
  },
  { name: words.node, cell: (it) => it.node },
];

export function System() {
  const storage = useData<Storage>('/storage', 10_000);
  const snapshots = useData<Snapshots>('/snapshots', 10_000);
  const cluster = useData<Cluster>('/cluster', 5_000);
  const rules = useData<{ rulesVersion: number; rulesKnown: number }>('/rules');
  return (
    <>
      <Title text={texts.navigation.system} />
      <Await of={storage}>
        {(it) => (
          <section aria-label={words.disk}>
            <h2>{words.disk}</h2>
            <Facts
              pairs={[
                [columns.status, <Badge mood={it.status === 'OK' ? 'good' : 'warn'} text={it.status} />],
                [words.failing, it.failing],
                [words.free, bytes(it.freeBytes)],
                [words.size, bytes(it.diskBytes)],
                [words.logSize, bytes(it.logBytes)],
                [words.storeSize, bytes(it.storeBytes)],
                [words.growth, bytes(it.growthBytesPerDay)],
                [words.full, it.hoursUntilFull],
                [words.archive, job(it.archive)],
                [words.backup, job(it.backup)],
                [words.chainHeads, job(it.chainHeads)],
              ]}
            />
          </section>
        )}
      </Await>
      <Await of={rules}>
        {(it) => <Facts pairs={[[words.rules, words.rulesOf(it.rulesVersion, it.rulesKnown)]]} />}
      </Await>
      <Await of={snapshots}>
        {(it) =>
          it.snapshots.length === 0 ? (
            <p>{words.noSnapshots}</p>
          ) : (
            <Table
              caption={words.snapshots}
              columns={[
                { name: words.file, cell: (one) => one.file },
                { name: texts.payment.record, cell: (one) => one.logIndex, number: true },
              ]}
              rows={it.snapshots}
            />
          )
        }
      </Await>
      <Await of={cluster}>
        {(it) =>
          it.nodes.length === 0 ? (
            <p>{words.single}</p>
          ) : (
            <>
              <Table caption={words.nodes} columns={NODES} rows={it.nodes} />
              <Table caption={words.lanes} columns={LANES} rows={it.lanes} />
            </>
          )
        }
      </Await>
      <CommandLine command={readCommand('/storage')} />
    </>
  );
}

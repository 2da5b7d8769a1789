/** `svc cluster`: the nodes that share a database, what each of them owns, and a node that is taken out of service. */
import { setTimeout as sleep } from 'node:timers/promises';
import { BUCKETS } from '../../../protocol/buckets.ts';
import type { ClusterStatus, NodeStatus } from '../../../protocol/routes/operations/cluster-rows.ts';
import { formatCount, plural } from '../../../protocol/text/units.ts';
import { type CommandContext, type RunCommand, runVerb } from '../../command.ts';
import { CommandError, UsageError } from '../../failure.ts';
import { Client } from '../../gateway/client.ts';
import { readList, showList, tableOf } from '../../resource.ts';
import { NODES } from '../../resources.ts';
import type { Style } from '../../terminal/style.ts';
import { drawTable } from '../../terminal/table.ts';
import { joined, wrap } from '../../terminal/wrap.ts';

const ASKED_AGAIN_MS = 300;
const INDENT = 11;

export function cluster(context: CommandContext): ReturnType<RunCommand> {
  return runVerb(context, { '': status, status, nodes, drain });
}

async function status({ args, terminal, connect }: CommandContext): Promise<void> {
  args.endsAt(1, () => 'svc cluster status');
  const now = await connect().call('GET /svc/_cluster');
  terminal.answer(now, () => {
    if (now.node === null) terminal.note(NODES.none());
    else terminal.lines(drawCluster(now, terminal.columns, terminal.style));
  });
}

async function nodes({ args, terminal, connect }: CommandContext): Promise<void> {
  args.endsAt(1, () => 'svc cluster nodes');
  const { rows } = await readList(connect(), NODES);
  showList(terminal, NODES, rows);
}

async function drain(context: CommandContext): Promise<void> {
  const { args, terminal } = context;
  args.endsAt(2, () => 'svc cluster drain [node-name] [--undo]');
  const draining = !args.has('undo');
  const client = await nodeNamed(context, args.optionalAt(1));
  let now = await client.call('POST /svc/_cluster/drain', { body: { draining } });
  const before = ownOf(now).buckets;
  const progress = terminal.progress('Handing over');
  while (draining && ownOf(now).buckets > 0) {
    progress.update(before - ownOf(now).buckets, before);
    await sleep(ASKED_AGAIN_MS);
    now = await client.call('GET /svc/_cluster');
    if (ownOf(now).state === 'live') break;
  }
  progress.end();
  const { name, state } = ownOf(now);
  if (draining && state === 'live')
    throw new CommandError(
      `Node ${name} was let take buckets again meanwhile.`,
      `Try again: svc cluster drain ${name}`,
    );
  terminal.answer(now, () => {
    if (!draining) return terminal.done(`Node ${terminal.style('bold', name)} takes its share again`);
    terminal.done(`Node ${terminal.style('bold', name)} owns no buckets: it can be stopped`);
    terminal.hint(`It answers until then. To let it take buckets again: svc cluster drain ${name} --undo`);
  });
}

/** The client of a node; of the one that is asked where none is named. Throws `UsageError` for one that does not exist. */
async function nodeNamed({ connect }: CommandContext, named: string | undefined): Promise<Client> {
  const client = connect();
  if (named === undefined) return client;
  const { nodes: known } = await client.call('GET /svc/_cluster');
  const node = known.find(({ name }) => name === named);
  if (node === undefined)
    throw new UsageError(
      `There is no node "${named}".`,
      `Nodes: ${known.map(({ name }) => name).join(', ') || 'none'}`,
    );
  if (node.self) return client;
  if (node.state === 'gone')
    throw new CommandError(`Node ${named} does not run.`, 'The others take what it had: svc cluster');
  const { token, tokenFrom } = client.connection;
  return new Client({ url: node.address, urlFrom: 'the cluster', token, tokenFrom });
}

function ownOf({ nodes: known }: ClusterStatus): NodeStatus {
  return known.find(({ self }) => self) as NodeStatus;
}

/** One screen: the node that answers, the database, the buckets and the nodes. */
export function drawCluster(now: ClusterStatus, width: number, style: Style): string[] {
  const { node, nodes: known, freeBuckets, database } = now;
  const live = known.filter(({ state }) => state === 'live').length;
  const room = width - INDENT;
  const facts: [name: string, lines: string[]][] = [
    ['node', joined([style('bold', node ?? ''), `${plural(known.length, 'node')}, ${live} live`], '   ', room)],
    ['database', joined([...(database?.addresses ?? []), drawDatabase(database, style)], '   ', room)],
    ['', wrap(database?.error ?? '', room).map((line) => style('dim', line))],
    [
      'buckets',
      freeBuckets === 0
        ? [`${formatCount(BUCKETS)}, each has an owner`]
        : joined([formatCount(BUCKETS), style('red', `● ${formatCount(freeBuckets)} without an owner`)], '   ', room),
    ],
  ];
  return [
    ...facts.flatMap(([name, lines]) =>
      lines.filter(Boolean).map((line, i) => style('dim', (i === 0 ? name : '').padEnd(INDENT)) + line),
    ),
    '',
    ...drawTable(...tableOf(NODES.columns, [...known]), width, style),
  ];
}

export function drawDatabase(database: ClusterStatus['database'], style: Style): string {
  return database?.answers ? style('green', '● answers') : style('red', '● does not answer');
}
